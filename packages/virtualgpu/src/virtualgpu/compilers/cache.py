"""Cache of machine code on disk, shared by successive processes.

It is in the user's cache folder (``$XDG_CACHE_HOME/virtualgpu``, by default
``~/.cache/virtualgpu``). ``VIRTUALGPU_CACHE`` names another folder, or ``0`` for none. Nothing
here is an error: if the folder cannot be written, is full or belongs to another user, code is
compiled again.

A file is named by its key, which the caller derives from everything that decides the code. It
contains the key and a digest of key and code. A truncated or damaged file, or one for another key,
counts as missing and is written again. The digest detects accidents. As a protection against other
people, code is read only from a folder that this user alone can write.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from virtualgpu.signal_handlers import raised_by_handler

LIMIT = 128 << 20  # bytes; a loop has 1 to 4 kB, a whole kernel 5 to 100
KEY = 32  # bytes of a key and of a digest
_MAGIC = b"virtualgpu code\n"
_SUFFIX, _UNFINISHED = ".code", ".part"
_OFTEN = 64  # files that a process writes between two checks of the folder's size
_DAY, _HOUR = 86_400.0, 3_600.0  # seconds

_off = False
_written = 0


def switch_off() -> None:
    """Disable the cache in this process, for the grader, which runs other people's code."""
    global _off
    _off = True


def folder() -> Path | None:
    """Return the cache's folder, which may not exist yet, or None if there is no cache."""
    chosen = os.environ.get("VIRTUALGPU_CACHE", "")
    if _off or chosen == "0":
        return None
    if chosen:
        return Path(chosen).expanduser().absolute()
    named = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # relative paths are ignored (XDG Base Directory Specification)
        return Path(named) / "virtualgpu"
    try:
        home = Path.home()
    except RuntimeError:  # the user has no home directory
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "virtualgpu"


def is_private(place: Path) -> bool:
    """Return True if a folder exists that this user alone can write."""
    try:
        status = place.stat()
    except OSError:
        return False
    return os.name == "nt" or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def fetch(key: bytes) -> bytes | None:
    """Return the code cached under ``key``, or None."""
    place = folder()
    if place is None or not is_private(place):
        return None
    path = place / (key.hex() + _SUFFIX)
    try:
        raw = path.read_bytes()
    except OSError as error:
        if raised_by_handler(error):  # for example a TimeoutError from a signal handler
            raise
        return None
    start = len(_MAGIC) + KEY
    code = raw[start + KEY :]
    if raw[:start] != _MAGIC + key or raw[start : start + KEY] != _digest(key, code):
        return None
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > _DAY:
            os.utime(path)  # update the time of last use
    return code


def has(key: bytes) -> bool:
    """Return True if there is a file for ``key``, which :func:`fetch` may still find damaged."""
    place = folder()
    return place is not None and (place / (key.hex() + _SUFFIX)).is_file()


def keep(key: bytes, code: bytes) -> None:
    """Write ``code`` to disk under ``key``, completely or not at all."""
    global _written
    place = folder()
    if place is None:
        return
    unfinished = None
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(place):
            return
        handle, unfinished = tempfile.mkstemp(_UNFINISHED, dir=place)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + key + _digest(key, code) + code)
        os.replace(unfinished, place / (key.hex() + _SUFFIX))
    except OSError as error:
        if unfinished is not None:
            with suppress(OSError):
                os.unlink(unfinished)
        if raised_by_handler(error):
            raise
        return
    if _written % _OFTEN == 0:
        trim(place)
    _written += 1


def entries(place: Path) -> Iterator[tuple[float, int, str]]:
    """Yield the cache's files, complete or not: time of last use, bytes, path."""
    with suppress(OSError), os.scandir(place) as found:
        for entry in found:
            if entry.name.endswith((_SUFFIX, _UNFINISHED)):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_mtime, status.st_size, entry.path


def trim(place: Path, limit: int = LIMIT) -> None:
    """Remove the least recently used files once the cache exceeds ``limit`` bytes.

    A quarter of the limit is freed. Unfinished files of killed processes are removed too.
    """
    kept = sorted(entries(place))
    for used, _, path in kept:
        if path.endswith(_UNFINISHED) and time.time() - used > _HOUR:
            _remove(path)
    total = sum(size for _, size, _ in kept)
    if total <= limit:
        return
    for _, size, path in kept:
        if total <= limit * 3 // 4:
            return
        _remove(path)
        total -= size


def clear() -> tuple[int, int]:
    """Remove all code; return the number of files and bytes removed."""
    place = folder()
    found = [] if place is None else list(entries(place))
    for _, _, path in found:
        _remove(path)
    return len(found), sum(size for _, size, _ in found)


def _remove(path: str) -> None:
    with suppress(OSError):  # another process removed it first
        os.unlink(path)


def _digest(key: bytes, code: bytes) -> bytes:
    return blake2b(key + code, digest_size=KEY).digest()
