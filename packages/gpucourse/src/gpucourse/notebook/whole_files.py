"""Complete files at all times: a Jupyter server writes a new file, then renames it.

Jupyter's own *atomic writing* copies the old file and then writes the new one in place. So for 20
to 90 ms of each save, the notebook is empty or cut short for every other reader, for example the
grader, ``gpucourse save``, a backup or a synchronised file system.
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
    """Return a context manager like ``in_place`` that replaces the file as a whole.

    ``in_place`` is Jupyter's own. It is still used if a file cannot be renamed into place, which
    is so in a folder without write permission, for devices, and for files with several hard links.
    """

    @contextlib.contextmanager
    def writing(
        path: str, text: bool = True, encoding: str = "utf-8", **options: Any
    ) -> Iterator[IO[Any]]:
        # A symbolic link is kept, and the file that it points to is written.
        target = Path(os.path.realpath(path))
        if not _may_be_renamed(target):
            with in_place(path, text=text, encoding=encoding, **options) as file:
                yield file
            return
        if text:
            options = {"newline": "\n", "encoding": encoding} | options
        # File browsers hide names that begin with a dot.
        name = tempfile.mktemp(prefix=f".{target.name[:100]}.", suffix=".saving", dir=target.parent)
        try:
            # The file is created with the permissions of the user's umask, as any new file.
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
    """Return True if a file with this path can be replaced by renaming."""
    if not os.access(target.parent, os.W_OK):
        return False
    try:
        status = os.stat(target)
    except OSError:
        return not os.path.lexists(target)
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and os.access(target, os.W_OK)


def _like(old: Path, new: str) -> None:
    """Copy owner, permissions and attributes of the old file to the new one, where possible."""
    status = os.stat(old)
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(new, status.st_uid, status.st_gid)
    with contextlib.suppress(OSError):
        shutil.copystat(old, new)
    with contextlib.suppress(OSError):
        os.utime(new)


def _rename(name: str, target: Path) -> None:
    """Rename the file into place, or copy its contents if the folder forbids that."""
    try:
        os.replace(name, target)
    except OSError:
        # This happens for a file that is a mount point, in a folder where only owners may rename,
        # and on Windows while another program has the file open.
        shutil.copyfile(name, target)
