"""Earlier versions of a notebook, kept by the Jupyter server whenever it saves over one.

Two tabs with one notebook save over each other, and JupyterLab then asks which of the two to lose.
With this extension of the server neither is lost: what a save replaces is kept, without outputs,
in ``.ipynb_checkpoints/NAME.versions/`` beside the notebook, unless every cell of it is in the new
text too. ``gpucourse versions NOTEBOOK`` lists them and brings one back.

nbgrader hands in no ``.ipynb_checkpoints``, git ignores them, and JupyterLab does not show them.
"""

from __future__ import annotations

import errno
import gzip
import json
import shlex
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from jupyter_server.services.contents.manager import ContentsManager

#: So many of one notebook: JupyterLab saves twice a minute during work, so more than an
#: hour and a half without a pause. A lesson takes about 15 kB, so at most 3 MB for each notebook.
KEPT = 200
# Bytes that stay free for the save itself, which writes the notebook twice.
_ROOM = 2_000_000
_STAMP = "%Y-%m-%dT%H-%M-%S"


@dataclass(frozen=True, slots=True)
class Version:
    """A kept version: where it lies, and when the save happened that replaced it (local time)."""

    path: Path
    replaced: time.struct_time

    def cells(self) -> list[str]:
        """The text of its cells."""
        return _sources(self.notebook())

    def notebook(self) -> dict[str, Any]:
        """The notebook, without outputs. Raises OSError or ValueError where it cannot be read."""
        return json.loads(gzip.decompress(self.path.read_bytes()))


# --- in the server ----------------------------------------------------------------------------


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "gpucourse.progress.notebook_versions"}]


def _load_jupyter_server_extension(app: ServerApp) -> None:
    # Not now: Jupytext's extension, loaded after this one, puts another contents manager in place.
    app.io_loop.add_callback(
        lambda: app.contents_manager.register_pre_save_hook(keep_before_save))


def keep_before_save(model: dict[str, Any], path: str, contents_manager: ContentsManager,
                     **_: object) -> None:
    """Jupyter's hook before each save; it logs what goes wrong here and saves all the same."""
    if model.get("type") == "notebook" and hasattr(contents_manager, "_get_os_path"):
        keep(Path(contents_manager._get_os_path(path.strip("/"))), model["content"])


def keep(path: Path, new: dict[str, Any]) -> Path | None:
    """Keep the notebook at ``path`` if some cell of it is not in ``new``.

    Returns where, or None where nothing would be lost. On a full disk the oldest versions make
    room; raises OSError where that does not help, and for a file that cannot be read.
    """
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        cells = _sources(old)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None  # nothing there yet, or nothing that can be shown again
    if not set(cells) - {*_sources(new), ""}:
        return None
    for cell in old["cells"]:
        if "outputs" in cell:
            cell.update(outputs=[], execution_count=None)
    folder = _folder(path)
    folder.mkdir(parents=True, exist_ok=True)
    target = _unused(folder, time.strftime(_STAMP))
    content = gzip.compress(json.dumps(old, ensure_ascii=False).encode(), mtime=0)
    _write(target, content)
    for version in versions(path)[:-KEPT]:
        version.path.unlink(missing_ok=True)
    return target


def _write(target: Path, content: bytes) -> None:
    """Whole or not at all; the notebook's own save, which comes next, must find room."""
    while True:
        oldest = min(target.parent.glob("*.ipynb.gz"), default=None)
        if oldest and shutil.disk_usage(target.parent).free < len(content) + _ROOM:
            oldest.unlink()
            continue
        try:
            target.write_bytes(content)
        except OSError as error:
            target.unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or oldest is None:
                raise
            oldest.unlink()
        else:
            return


def _unused(folder: Path, stamp: str) -> Path:
    """Two saves may fall into one second; the later sorts last, whatever has gone meanwhile."""
    last = max(folder.glob(f"{stamp}.*.ipynb.gz"), default=None)
    number = int(last.name.split(".")[1]) + 1 if last else 0
    return folder / f"{stamp}.{number:04d}.ipynb.gz"


# --- for people -------------------------------------------------------------------------------


def versions(path: Path) -> list[Version]:
    """The kept versions of the notebook at ``path``, the oldest first."""
    found = []
    for kept in sorted(_folder(path).glob("*.ipynb.gz")):
        try:
            found.append(Version(kept, time.strptime(kept.name.split(".")[0], _STAMP)))
        except ValueError:
            continue  # not a file of ours
    return found


def bring_back(path: Path, version: Version) -> Path:
    """Write a kept version beside the notebook, under a name that is free; returns where."""
    notebook = version.notebook()
    stem = f"{path.stem} of {time.strftime('%d %b %H.%M.%S', version.replaced)}"
    number, target = 1, path.with_name(f"{stem}.ipynb")
    while target.exists():
        number += 1
        target = path.with_name(f"{stem} ({number}).ipynb")
    target.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return target


def lost(version: Version, path: Path) -> list[str]:
    """The cells of a version that the notebook at ``path`` does not have now."""
    now = set(_sources_of(path))
    return [cell for cell in version.cells() if cell.strip() and cell not in now]


def command(path: Path, take: int) -> int:
    """``gpucourse versions``: list them, the newest first, or bring one back; the exit status."""
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False, markup=False)
    kept = versions(path)[::-1]
    if not kept:
        console.print(f"No earlier version of {path} is kept. The Jupyter server keeps one when a "
                      "save replaces text that the new one does not have.")
        return 1
    if not 0 <= take <= len(kept):
        console.print(f"There is no version {take} of {path}: they are 1 to {len(kept)}.")
        return 1
    if take:
        try:
            target = bring_back(path, kept[take - 1])
        except (OSError, ValueError) as error:
            console.print(f"{kept[take - 1].path} cannot be brought back: {error}")
            return 1
        console.print(f"{path.name} stays as it is; the version is in {target}")
        return 0
    for number, version in enumerate(kept, 1):
        when = time.strftime("%a %d %b %H:%M:%S", version.replaced)
        try:
            cells = lost(version, path)
        except (OSError, ValueError):
            console.print(f"{number:4}  {when}  cannot be read")
            continue
        console.print(f"{number:4}  {when}  {_summary(cells, path)}")
    console.print(f"\ngpucourse versions {shlex.quote(str(path))} --take NUMBER writes one of them "
                  "beside the notebook.")
    return 0


def _summary(cells: list[str], path: Path) -> str:
    """What a version has and the notebook has not, on one line: the first such line of it."""
    if not cells:
        return "nothing that the notebook does not have"
    now = {line.strip() for cell in _sources_of(path) for line in cell.splitlines()}
    lines = [line.strip() for line in cells[0].splitlines() if line.strip()]
    first = next((line for line in lines if line not in now), lines[0])
    number = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    return f"{number} that the notebook has otherwise or not at all: {first[:50]}"


def _folder(path: Path) -> Path:
    return path.parent / ".ipynb_checkpoints" / f"{path.stem}.versions"


def _sources_of(path: Path) -> list[str]:
    """The cells' text of the notebook that lies there now; none where it cannot be read."""
    try:
        return _sources(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _sources(notebook: dict[str, Any]) -> list[str]:
    def text(source: str | Iterable[str]) -> str:
        return source if isinstance(source, str) else "".join(source)

    return [text(cell["source"]) for cell in notebook["cells"]]
