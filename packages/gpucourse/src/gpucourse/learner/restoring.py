"""Restoring of the work in a bundle (``gpucourse restore FILE``).

Nothing is written before the whole bundle has been read and validated. A notebook of the bundle
replaces only a notebook of the same release that the learner has not changed. Otherwise both are
kept, and the bundle's notebook gets a new name.
"""

from __future__ import annotations

import glob
import html
import json
import os
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from gpucourse.course import released, renamed
from gpucourse.course.checkout import course_folder
from gpucourse.learner import records
from gpucourse.learner.bundle import ABOUT, FORMAT, PATTERN, RECORDS, BundleError, is_plain
from gpucourse.system.atomic import free_path, write_atomically


@dataclass(slots=True)
class Restored:
    """Result for each notebook of a bundle, with paths from the course's folder."""

    path: Path
    back: list[str] = field(default_factory=list)
    beside: list[tuple[str, str]] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    progress: int = 0

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        items = "".join(f"<li>{html.escape(line)}</li>" for line in self._lines())
        return {"text/plain": str(self), "text/html": f"<ul>{items}</ul>"}

    def _lines(self) -> list[str]:
        count = len(self.back) + len(self.beside)
        lines = [f"{self.path.name}: {count} notebook{'s' * (count != 1)} restored"]
        lines += [f"restored: {name}" for name in self.back]
        lines += [
            f"{name} here is a different version, so both are kept. The one from the bundle is "
            f"{other}"
            for name, other in self.beside
        ]
        if self.there:
            lines.append(f"already here: {', '.join(self.there)}")
        lines.append(
            f"progress: {self.progress or 'no'} new {'entry' if self.progress == 1 else 'entries'}"
        )
        return lines


def restore(path: str | Path | None = None) -> Restored:
    """Restore a bundle's notebooks and progress, and return the result for each.

    ``path`` is the bundle; the default is the newest ``gpucourse-work*.zip`` in the course's
    folder. Raises :class:`BundleError` if the file is not a bundle, contains names outside the
    course's folder, or cannot be written to disk. Raises ``NotInTheCourse`` outside the course's
    folder.
    """
    root = course_folder()
    path = Path(path) if path is not None else _newest(root)
    notebooks, lines = read_bundle(path)
    result = Restored(path)
    try:
        for name, data in notebooks.items():
            _put(root, renamed.path(name), data, result)
        result.progress = records.add(records.parse(lines))
    except OSError as error:
        done = len(result.back) + len(result.beside)
        raise BundleError(
            f"{error.filename or root}: {error.strerror or error}. {done} of {len(notebooks)} "
            f"notebooks of {path.name} were restored, nothing was overwritten, and the bundle "
            "is intact. Free some space or correct the permissions, then restore it again"
        ) from None
    return result


def read_bundle(path: Path) -> tuple[dict[str, bytes], bytes]:
    """Return a bundle's notebooks by name, and its records.

    Raises :class:`BundleError` for names that lead out of the folder and for encrypted or damaged
    members. Writes nothing.
    """
    try:
        with zipfile.ZipFile(path) as bundle:
            texts = {name: bundle.read(name) for name in bundle.namelist()}
    except FileNotFoundError:
        raise BundleError(
            f"{path} does not exist. In JupyterLab, drop the file onto the file browser at the "
            "left to upload it"
        ) from None
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        # RuntimeError means an encrypted member, its subclass NotImplementedError an unknown
        # compression.
        raise BundleError(
            f"{path.name} is damaged, or is not a bundle ({error}). Nothing was restored. "
            "Download or upload it again"
        ) from None
    if ABOUT not in texts:
        raise BundleError(f"{path.name} is a zip file that `gpucourse save` did not write")
    try:
        written = json.loads(texts.pop(ABOUT))["format"]
    except (ValueError, LookupError, TypeError):
        written = None
    if written != FORMAT:
        raise BundleError(
            f"{path.name} was written by another version of the course (its format is "
            f"{written}, and this version reads {FORMAT}). Update the course"
        )
    lines = texts.pop(RECORDS, b"")
    if strange := [name for name in texts if not is_plain(name)]:
        raise BundleError(
            f"{path.name} contains {strange[0]!r}, which `gpucourse save` never writes, so "
            "nothing was restored. Restore only bundles that you saved yourself"
        )
    return texts, lines


def _put(root: Path, name: str, data: bytes, result: Restored) -> None:
    """Write one notebook without losing another."""
    target = root / name
    here = target.read_bytes() if target.is_file() else b""
    earlier = target.parent.glob(f"{glob.escape(target.stem)}-restored*.ipynb")
    if not os.path.lexists(target) or _may_give_way(here, data):
        write_atomically(target, data)
        result.back.append(name)
    elif any(
        _same_work(one, data)
        for one in (here, *(path.read_bytes() for path in earlier if path.is_file()))
    ):
        result.there.append(name)
    else:
        other = free_path(target.with_stem(f"{target.stem}-restored"))
        write_atomically(other, data)
        result.beside.append((name, other.relative_to(root).as_posix()))


def _same_work(here: bytes, data: bytes) -> bool:
    """Return True if both have the same cells; outputs can be computed again."""
    one, other = released.parse(here), released.parse(data)
    if one is None or other is None:
        return here == data
    return released.digest(one) == released.digest(other) and not released.is_untouched(one)


def _may_give_way(here: bytes, data: bytes) -> bool:
    """Return True if the notebook is unchanged, and the bundle's is of the same release."""
    one, other = released.parse(here), released.parse(data)
    if one is None or other is None or not released.is_untouched(one):
        return False
    return released.release_of(one) == released.release_of(other)


def _newest(root: Path) -> Path:
    found = sorted(root.glob(PATTERN), key=lambda path: path.stat().st_mtime)
    if not found:
        raise BundleError(
            f"There is no {PATTERN} in {root}. In JupyterLab, open the course's folder in the "
            "file browser at the left and drop your saved file there. Then run this again"
        )
    return found[-1]
