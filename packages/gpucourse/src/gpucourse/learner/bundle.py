"""Bundle of a learner's work in one file, for machines that keep nothing.

``gpucourse save`` writes a bundle. It is a zip file that contains every notebook that the learner
has changed or run, under its path in the course's folder, and the records of progress.
:mod:`gpucourse.learner.restoring` reads it.
"""

from __future__ import annotations

import errno
import html
import io
import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import quote

from gpucourse.course import released
from gpucourse.course.checkout import course_folder
from gpucourse.learner import records
from gpucourse.system.atomic import free_path, write_atomically
from gpucourse.system.errors import CourseError
from gpucourse.system.settled import settled

#: Names in a bundle that are not notebooks.
ABOUT, RECORDS = "gpucourse-work.json", "progress.jsonl"
#: Names of bundles, for `restore()` without a name and for .gitignore.
PATTERN = "gpucourse-work*.zip"
FORMAT = 1

# Folders whose notebooks are not the learner's work, for example a class in grading/.
_NOT_WORK = {"build", "grading", "node_modules", "site-packages"}
# The course map. Running it does not count as work.
_WELCOME = "welcome.ipynb"


class BundleError(CourseError):
    """A bundle could not be written or read; the message gives the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A bundle that was written; a notebook shows a link to download it."""

    path: Path
    notebooks: list[str]
    size: int

    def __str__(self) -> str:
        count = len(self.notebooks)
        what = (
            f"{count} notebook{'s' * (count != 1)} and your progress"
            if count
            else "your progress but no notebook, because you have not changed any yet"
        )
        return f"{self.path.name} ({self.size / 1000:.1f} kB) contains {what}"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": str(self), "text/html": self.html()}

    def html(self) -> str:
        """Return the download link and a list of the bundle's contents."""
        target = quote(Path(os.path.relpath(self.path, Path.cwd())).as_posix())
        names = "".join(f"<li>{html.escape(name)}</li>" for name in self.notebooks)
        what = (
            f" and these notebooks, as you last saved them:</p><ul>{names}</ul>"
            if names
            else ", but no notebook, because you have not changed any yet.</p>"
        )
        return (
            f'<p><a href="{target}" download><b>Download {html.escape(self.path.name)}</b></a> '
            f"({self.size / 1000:.1f} kB). It contains your progress{what}"
        )


def save(path: str | Path | None = None) -> Saved:
    """Write the bundle and return its path and contents.

    ``path`` is a folder or a file name; the default is the course's folder. An existing file is
    never overwritten. Raises :class:`BundleError` and ``NotInTheCourse``.
    """
    root = course_folder()
    target = _place(Path(path) if path is not None else root)
    work = dict(sorted(changed_notebooks(root)))
    if strange := [name for name in work if not is_plain(name)]:
        raise BundleError(
            f"nothing was saved, because the file name {strange[0]!r} is not allowed on every "
            "system. Rename the file, then run `gpucourse save` again"
        )
    try:
        write_atomically(target, _zipped(work))
        size = target.stat().st_size
    except OSError as error:
        raise BundleError(_explain(error, target, sum(map(len, work.values())))) from None
    return Saved(target, list(work), size)


def changed_notebooks(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (path from ``root``, bytes) of each notebook that differs from the release."""
    for folder, below, files in os.walk(root):
        below[:] = [name for name in below if name not in _NOT_WORK and name[0] not in "._"]
        for name in files:
            path = Path(folder, name)
            shown = path.relative_to(root).as_posix()
            if not name.endswith(".ipynb") or name.startswith(".") or shown == _WELCOME:
                continue
            try:
                data = settled(path, partial(_whole, path), ValueError)
            except ValueError:
                raise BundleError(
                    f"nothing was saved, because {shown} is not a complete notebook: it is "
                    "empty or cut short. Open it in JupyterLab and save it, or rename it so "
                    "that it does not end in .ipynb. Then run `gpucourse save` again"
                ) from None
            except OSError as error:
                raise BundleError(
                    f"nothing was saved, because {shown} cannot be read ({error.strerror}). "
                    "Move it away or correct its permissions, then run `gpucourse save` again"
                ) from None
            notebook = released.parse(data)
            # A notebook in a format that cannot be parsed is the learner's own.
            if notebook is None or not released.is_untouched(notebook):
                yield shown, data


def _whole(path: Path) -> bytes:
    """Return the bytes of a notebook; raise ValueError if they are not JSON."""
    data = path.read_bytes()
    json.loads(data)
    return data


def is_plain(name: str) -> bool:
    """Return True if a notebook's path stays inside the course's folder on every system."""
    return (
        name.endswith(".ipynb")
        and name.isprintable()
        and "\\" not in name
        and (":" not in name or os.name != "nt")
        and not any(part == "" or part.startswith(".") for part in name.split("/"))
    )


def _zipped(work: dict[str, bytes]) -> bytes:
    """Return the bytes of the zip file."""
    about = {"format": FORMAT, "saved": datetime.now().astimezone().isoformat(timespec="seconds")}
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(ABOUT, json.dumps(about))
        bundle.writestr(RECORDS, "".join(f"{json.dumps(r)}\n" for r in records.lines()))
        for name, data in work.items():
            bundle.writestr(name, data)
    return memory.getvalue()


def _place(wanted: Path) -> Path:
    """Return the path for a bundle: ``wanted``, or a new name with the time in that folder."""
    if wanted.is_dir():
        wanted = wanted / f"gpucourse-work-{datetime.now():%Y%m%d-%H%M}.zip"
    elif not wanted.suffix:
        wanted = wanted.with_suffix(".zip")
    return free_path(wanted.absolute())


def _explain(error: OSError, target: Path, size: int) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"The disk has no space left for {target.name}, which needs up to {size / 1e6:.1f} "
            "MB. Your notebooks have not changed. Delete files that you do not need, or save "
            "to another folder, for example with gpucourse save /tmp"
        )
    return (
        f"{target} cannot be written: {error.strerror or error}. Your notebooks have not "
        "changed. Name a folder that you may write to: gpucourse save FOLDER"
    )
