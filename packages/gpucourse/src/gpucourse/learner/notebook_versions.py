"""Earlier versions of a notebook, which the Jupyter server keeps when it overwrites one.

If a notebook is open in two tabs, each save overwrites the other, and JupyterLab asks which
version to discard. With this server extension neither is lost. Before each save, the server keeps
the replaced notebook without outputs in ``.ipynb_checkpoints/NAME.versions/`` beside it, unless
all its cells are also in the new one. ``gpucourse versions NOTEBOOK`` lists the kept versions and
restores one.

nbgrader does not submit ``.ipynb_checkpoints``, git ignores it, and JupyterLab hides it.
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

#: Versions kept of each notebook. JupyterLab saves twice a minute during work, so 200 versions
#: cover more than an hour and a half. A lesson takes about 15 kB, so they need at most 3 MB.
KEPT = 200
_STAMP = "%Y-%m-%dT%H-%M-%S"
# Errors for a file that is not a notebook or is damaged.
_DAMAGED = (ValueError, KeyError, TypeError, EOFError, zlib.error)


@dataclass(frozen=True, slots=True)
class Version:
    """A kept version: its path, and the local time of the save that replaced it."""

    path: Path
    replaced: datetime

    def notebook(self) -> dict[str, Any]:
        """Return the notebook, without outputs.

        Raises OSError or ValueError if the file cannot be read.
        """
        return json.loads(gzip.decompress(self.path.read_bytes()))


# --- in the server ----------------------------------------------------------------------------


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "gpucourse.learner.notebook_versions"}]


def _load_jupyter_server_extension(app: ServerApp) -> None:
    # The hook is registered later, because Jupytext's extension, which is loaded after this one,
    # replaces the contents manager.
    app.io_loop.add_callback(lambda: app.contents_manager.register_pre_save_hook(keep_before_save))


def keep_before_save(
    model: dict[str, Any], path: str, contents_manager: ContentsManager, **_: object
) -> None:
    """Handle Jupyter's hook before a save; Jupyter logs its errors and saves all the same."""
    if model.get("type") == "notebook" and hasattr(contents_manager, "_get_os_path"):
        keep(Path(contents_manager._get_os_path(path.strip("/"))), model["content"])


def keep(path: Path, new: dict[str, Any]) -> Path | None:
    """Keep the notebook at ``path`` if one of its cells is not in ``new``.

    Returns the path of the copy, or None if nothing would be lost. Raises OSError if the disk is
    full or the file cannot be read.
    """
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
        lost = set(cell_texts(old)) - {*cell_texts(new), ""}
    except (FileNotFoundError, *_DAMAGED):
        return None  # there is no notebook yet, or none that can be shown again
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
    # The name includes microseconds, because two saves may happen in the same second.
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
    """Write a kept version beside the notebook under a new name, and return its path."""
    target = free_path(path.with_name(f"{path.stem} of {version.replaced:%d %b %H.%M.%S}.ipynb"))
    write_atomically(target, json.dumps(version.notebook(), ensure_ascii=False, indent=1) + "\n")
    return target


def lost(version: Version, path: Path) -> list[str]:
    """Return the cells of a version that the notebook at ``path`` no longer has."""
    now = _texts_now(path)
    return [cell for cell in cell_texts(version.notebook()) if cell.strip() and cell not in now]


def command(path: Path, take: int) -> int:
    """List the kept versions or restore one; return the exit status."""
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False, markup=False)
    kept = versions(path)[::-1]
    if not kept:
        console.print(
            f"No earlier version of {path} is kept. The Jupyter server keeps a version when a "
            "save removes or changes a cell."
        )
        return 1
    if not 0 <= take <= len(kept):
        console.print(f"There is no version {take} of {path}. Its versions are 1 to {len(kept)}.")
        return 1
    if take:
        try:
            target = bring_back(path, kept[take - 1])
        except (OSError, *_DAMAGED) as error:
            console.print(f"{kept[take - 1].path} cannot be brought back: {error}")
            return 1
        console.print(f"The version is in {target}. {path.name} has not changed")
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
    """Return the first line of a version that the notebook does not have."""
    if not cells:
        return "the notebook has all its cells"
    now = {line.strip() for cell in _texts_now(path) for line in cell.splitlines()}
    lines = [line.strip() for line in cells[0].splitlines() if line.strip()]
    first = next((line for line in lines if line not in now), lines[0])
    number = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    return f"{number} changed or missing in the notebook: {first[:50]}"


def _folder(path: Path) -> Path:
    return path.parent / ".ipynb_checkpoints" / f"{path.stem}.versions"


def _texts_now(path: Path) -> list[str]:
    """Return the sources of the notebook's cells, or none if it cannot be read."""
    try:
        read = settled(path, lambda: json.loads(path.read_text(encoding="utf-8")), ValueError)
        return cell_texts(read)
    except (OSError, *_DAMAGED):
        return []
