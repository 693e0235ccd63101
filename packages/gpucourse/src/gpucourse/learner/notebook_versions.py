"""Earlier versions of a notebook, kept by the Jupyter server whenever it saves over one.

Two tabs with one notebook save over each other, and JupyterLab then asks which of the two to lose.
With this extension of the server neither is lost: what a save replaces is kept, without outputs,
in ``.ipynb_checkpoints/NAME.versions/`` beside the notebook, unless every cell of it is in the new
text too. ``gpucourse versions NOTEBOOK`` lists them and brings one back.

nbgrader hands in no ``.ipynb_checkpoints``, git ignores them, and JupyterLab does not show them.
"""

from __future__ import annotations

import gzip
import json
import shlex
import zlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucourse.course.released import cell_texts
from gpucourse.system.atomic import free_path, write_atomically
from gpucourse.system.settled import settled

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from jupyter_server.services.contents.manager import ContentsManager

#: So many of one notebook: JupyterLab saves twice a minute during work, so more than an
#: hour and a half without a pause. A lesson takes about 15 kB, so at most 3 MB for each notebook.
KEPT = 200
_STAMP = "%Y-%m-%dT%H-%M-%S"
# Errors of a file that is no notebook, or a damaged one.
_DAMAGED = (ValueError, KeyError, TypeError, EOFError, zlib.error)


@dataclass(frozen=True, slots=True)
class Version:
    """A kept version: where it lies, and when the save happened that replaced it (local time)."""

    path: Path
    replaced: datetime

    def notebook(self) -> dict[str, Any]:
        """Return the notebook, without outputs.

        Raises OSError or ValueError where it cannot be read.
        """
        return json.loads(gzip.decompress(self.path.read_bytes()))


# --- in the server ----------------------------------------------------------------------------


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "gpucourse.learner.notebook_versions"}]


def _load_jupyter_server_extension(app: ServerApp) -> None:
    # Not now: Jupytext's extension, loaded after this one, puts another contents manager in place.
    app.io_loop.add_callback(lambda: app.contents_manager.register_pre_save_hook(keep_before_save))


def keep_before_save(
    model: dict[str, Any], path: str, contents_manager: ContentsManager, **_: object
) -> None:
    """Handle Jupyter's hook before each save; errors here are logged and stop no save."""
    if model.get("type") == "notebook" and hasattr(contents_manager, "_get_os_path"):
        keep(Path(contents_manager._get_os_path(path.strip("/"))), model["content"])


def keep(path: Path, new: dict[str, Any]) -> Path | None:
    """Keep the notebook at ``path`` if some cell of it is not in ``new``.

    Returns where, or None where nothing would be lost. Raises OSError on a full disk, and for a
    file that cannot be read.
    """
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        lost = set(cell_texts(old)) - {*cell_texts(new), ""}
    except (FileNotFoundError, *_DAMAGED):
        return None  # nothing there yet, or nothing that can be shown again
    if not lost:
        return None
    for cell in old["cells"]:
        if "outputs" in cell:
            cell.update(outputs=[], execution_count=None)
    folder = _folder(path)
    folder.mkdir(parents=True, exist_ok=True)
    content = gzip.compress(json.dumps(old, ensure_ascii=False).encode(), mtime=0)
    kept = [version.path for version in versions(path)]
    for old_one in kept[: max(0, len(kept) + 1 - KEPT)]:
        old_one.unlink(missing_ok=True)
    # Microseconds in the name: two saves may fall into one second.
    target = folder / f"{datetime.now():{_STAMP}.%f}.ipynb.gz"
    write_atomically(target, content)
    return target


# --- for people -------------------------------------------------------------------------------


def versions(path: Path) -> list[Version]:
    """Return the kept versions of the notebook at ``path``, the oldest first."""
    return [
        Version(kept, datetime.strptime(kept.name.split(".")[0], _STAMP))
        for kept in sorted(_folder(path).glob("????-??-??T??-??-??.*.ipynb.gz"))
    ]


def bring_back(path: Path, version: Version) -> Path:
    """Write a kept version beside the notebook, under a name that is free; returns where."""
    target = free_path(path.with_name(f"{path.stem} of {version.replaced:%d %b %H.%M.%S}.ipynb"))
    write_atomically(target, json.dumps(version.notebook(), ensure_ascii=False, indent=1) + "\n")
    return target


def lost(version: Version, path: Path) -> list[str]:
    """Return the cells of a version that the notebook at ``path`` no longer has."""
    now = _texts_now(path)
    return [cell for cell in cell_texts(version.notebook()) if cell.strip() and cell not in now]


def command(path: Path, take: int) -> int:
    """Run ``gpucourse versions``: list them, or bring one back; return the exit status."""
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False, markup=False)
    kept = versions(path)[::-1]
    if not kept:
        console.print(
            f"No earlier version of {path} is kept. The Jupyter server keeps one when a "
            "save replaces text that the new one does not have."
        )
        return 1
    if not 0 <= take <= len(kept):
        console.print(f"There is no version {take} of {path}: they are 1 to {len(kept)}.")
        return 1
    if take:
        try:
            target = bring_back(path, kept[take - 1])
        except (OSError, *_DAMAGED) as error:
            console.print(f"{kept[take - 1].path} cannot be brought back: {error}")
            return 1
        console.print(f"{path.name} stays as it is; the version is in {target}")
        return 0
    for number, version in enumerate(kept, 1):
        try:
            summary = _summary(lost(version, path), path)
        except (OSError, *_DAMAGED):
            summary = "cannot be read"
        console.print(f"{number:4}  {version.replaced:%a %d %b %H:%M:%S}  {summary}")
    console.print(
        f"\ngpucourse versions {shlex.quote(str(path))} --take NUMBER writes one of them "
        "beside the notebook."
    )
    return 0


def _summary(cells: list[str], path: Path) -> str:
    """Return the first line that a version has and the notebook lacks."""
    if not cells:
        return "nothing that the notebook lacks"
    now = {line.strip() for cell in _texts_now(path) for line in cell.splitlines()}
    lines = [line.strip() for line in cells[0].splitlines() if line.strip()]
    first = next((line for line in lines if line not in now), lines[0])
    number = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    return f"{number} that the notebook has otherwise or not at all: {first[:50]}"


def _folder(path: Path) -> Path:
    return path.parent / ".ipynb_checkpoints" / f"{path.stem}.versions"


def _texts_now(path: Path) -> list[str]:
    """Return the cells' text of the present notebook; none where it cannot be read."""
    try:
        read = settled(path, lambda: json.loads(path.read_text(encoding="utf-8")), ValueError)
        return cell_texts(read)
    except (OSError, *_DAMAGED):
        return []
