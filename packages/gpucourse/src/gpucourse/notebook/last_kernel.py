"""Says in a notebook that its last kernel was killed because memory ran out.

JupyterLab says only that the kernel "appears to have died". Each kernel leaves a note for the next
one of the same notebook and takes it away when it ends in the ordinary way. A note whose kernel is
gone, while the system counts one more process killed for memory than before, is proof enough; a
note alone is not (a busy kernel that its owner restarts leaves one too), and then nothing is said.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpucourse.system.atomic import write_atomically
from gpucourse.system.resources import gigabytes, memory_kills, resources

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

#: Jupyter's server tells a kernel which notebook it belongs to.
NOTEBOOK = "JPY_SESSION_NAME"


def watch(shell: InteractiveShell) -> str | None:
    """Keep a note for this kernel from now on; returns what to say about the one before.

    Does nothing outside Jupyter, and where the system does not count such kills (macOS, Windows).
    """
    notebook, kills = os.environ.get(NOTEBOOK), memory_kills()
    if not notebook or kills is None:
        return None
    from jupyter_core.paths import jupyter_runtime_dir

    name = hashlib.sha256(notebook.encode()).hexdigest()[:16]
    path = Path(jupyter_runtime_dir()) / f"gpucourse-{name}.json"
    before, me = read(path), _kernel(os.getpid())
    if before is not None and before["kernel"] == me:
        return None  # `%load_ext` once more

    def began(info: object = None) -> None:
        lines = getattr(info, "raw_cell", "").strip().splitlines() or [""]
        note = {"kernel": me, "kills": kills, "cell": lines[0][:60], "when": time.strftime("%H:%M")}
        with suppress(OSError):  # on a full disk there is none
            write_atomically(path, json.dumps(note))

    def ended() -> None:
        if (note := read(path)) is not None and note["kernel"] == me:
            path.unlink(missing_ok=True)

    began()
    shell.events.register("pre_run_cell", began)
    atexit.register(ended)
    if before is None or kills <= before["kills"]:
        return None
    if _kernel(before["kernel"][0]) == before["kernel"]:
        return None
    cell = f" (`{before['cell']}`)" if before["cell"] else ""
    return (
        f"The last kernel of this notebook was killed: memory ran out, of which there is "
        f"{gigabytes(resources().memory)} here. The last cell{cell} was begun at {before['when']}. "
        "Your text is still there, the variables are gone: shut down the kernels of other "
        "notebooks, then run the cells again from the top."
    )


def read(path: Path) -> dict | None:
    """Return the note at ``path``, if there is one that can be read.

    It has the kernel's process and its birth, the kills counted when it began, the start of the
    cell begun last, and its time.
    """
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        return note if note.keys() == {"kernel", "kills", "cell", "when"} else None
    except (OSError, ValueError, AttributeError):
        return None


def _kernel(pid: int) -> list | None:
    """Return that process and its birth, if it runs: process numbers are used again."""
    import psutil

    try:
        return [pid, psutil.Process(pid).create_time()]
    except psutil.Error:
        return None
