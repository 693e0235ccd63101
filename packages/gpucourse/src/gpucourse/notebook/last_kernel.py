"""Message that the notebook's last kernel was killed because memory ran out.

JupyterLab only says that the kernel "appears to have died". So each kernel writes a note for the
next kernel of the same notebook, and deletes it when it ends normally. If there is a note of a
kernel that no longer runs, and the system has counted a further process killed for lack of memory,
the message is shown. The note alone is not enough, because a kernel that is restarted while it is
busy also leaves one.
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

#: Variable in which Jupyter's server passes the path of the notebook to its kernel.
NOTEBOOK = "JPY_SESSION_NAME"


def watch(shell: InteractiveShell) -> str | None:
    """Keep a note for this kernel; return a message about the previous one, or None.

    This does nothing outside Jupyter, and on systems that do not count such kills (macOS,
    Windows).
    """
    notebook, kills = os.environ.get(NOTEBOOK), memory_kills()
    if not notebook or kills is None:
        return None
    from jupyter_core.paths import jupyter_runtime_dir

    name = hashlib.sha256(notebook.encode()).hexdigest()[:16]
    path = Path(jupyter_runtime_dir()) / f"gpucourse-{name}.json"
    before, me = read(path), _kernel(os.getpid())
    if before is not None and before["kernel"] == me:
        return None  # a second `%load_ext` in the same kernel

    def began(info: object = None) -> None:
        lines = getattr(info, "raw_cell", "").strip().splitlines() or [""]
        note = {"kernel": me, "kills": kills, "cell": lines[0][:60], "when": time.strftime("%H:%M")}
        with suppress(OSError):  # a full disk has no room for the note
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
        "The last kernel of this notebook was killed because memory ran out (this machine or "
        f"container has {gigabytes(resources().memory)}). Its last cell{cell} began at "
        f"{before['when']}. Your text is still there, but the variables are lost. Shut down "
        "the kernels of other notebooks, then run the cells again from the top."
    )


def read(path: Path) -> dict | None:
    """Return the note at ``path``, or None if there is none that can be read.

    It holds the kernel's process number and start time, the number of kills when it began, and the
    first line and the time of the latest cell.
    """
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        return note if note.keys() == {"kernel", "kills", "cell", "when"} else None
    except (OSError, ValueError, AttributeError):
        return None


def _kernel(pid: int) -> list | None:
    """Return a running process's number and start time, because numbers are reused."""
    import psutil

    try:
        return [pid, psutil.Process(pid).create_time()]
    except psutil.Error:
        return None
