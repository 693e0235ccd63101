"""Files that a Jupyter server writes whole: beside the old one, then renamed.

Jupyter's own *atomic writing* copies the old file aside and writes the new one in place, so for 20
to 90 ms of each save a notebook is empty or cut short for everybody else who reads it: the grader,
``gpucourse save``, a backup, a file system that synchronises.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

Writing = Callable[..., AbstractContextManager[IO[Any]]]


def written_whole(in_place: Writing) -> Writing:
    """Return a context manager with the arguments of `in_place` that writes the file whole.

    `in_place` is Jupyter's own, which stays in use where a file cannot be renamed into place: in a
    folder that may not be written to, and for devices and files with a second name.
    """

    @contextlib.contextmanager
    def writing(
        path: str, text: bool = True, encoding: str = "utf-8", **options: Any
    ) -> Iterator[IO[Any]]:
        # A link stays one: what it leads to is written.
        target = Path(os.path.realpath(path))
        if not _may_be_renamed(target):
            with in_place(path, text=text, encoding=encoding, **options) as file:
                yield file
            return
        if text:
            options = {"newline": "\n", "encoding": encoding} | options
        # Beginning with a dot: no browser of files shows it.
        name = tempfile.mktemp(prefix=f".{target.name[:100]}.", suffix=".saving", dir=target.parent)
        try:
            # As any new file: with the permissions that the user's mask leaves.
            with open(name, "x" if text else "xb", **options) as file:
                if target.exists():
                    _like(target, name)
                yield file
                file.flush()
                os.fsync(file.fileno())
            _rename(name, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)

    return writing


def _may_be_renamed(target: Path) -> bool:
    """Return True if a file of this name can be replaced by another."""
    if not os.access(target.parent, os.W_OK):
        return False
    try:
        status = os.stat(target)
    except OSError:
        return not os.path.lexists(target)
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and os.access(target, os.W_OK)


def _like(old: Path, new: str) -> None:
    """Give the new file the owner, permissions and attributes of the old one, where possible."""
    status = os.stat(old)
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(new, status.st_uid, status.st_gid)
    with contextlib.suppress(OSError):
        shutil.copystat(old, new)
    with contextlib.suppress(OSError):
        os.utime(new)


def _rename(name: str, target: Path) -> None:
    """Put the file in place; in a folder that forbids it, copy the text into the old one."""
    try:
        os.replace(name, target)
    except OSError:
        # A file that is mounted by itself, a folder in which only owners rename, Windows while
        # another program has the file open.
        shutil.copyfile(name, target)
