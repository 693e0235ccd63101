"""Mapping of device memory on the host; untouched pages cost nothing.

Byte ``n`` of the mapping is device address ``BASE + n``. Where the host has it is another matter:
:class:`Mapping`.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import secrets
import sys
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from virtualgpu.errors import OutOfMemory
from virtualgpu.memory.plain_dtypes import demand_plain

BASE = 0x7_0000_0000  # first device address; everything below is never mapped
# Python names the flag from 3.13 on; its value on Linux is older than that.
NORESERVE = getattr(mmap, "MAPNORESERVE", 0x4000 if sys.platform == "linux" else 0)
RESERVATIONS = (1 << 38, 1 << 36, 1 << 34, 1 << 32, 1 << 30)  # bytes of address space to try
PAGE = mmap.PAGESIZE
END = BASE + RESERVATIONS[0]  # no device address lies here or beyond

# Between these the host's address of a mapping is drawn: below it programs and their heaps lie,
# above it libraries and stacks (x86-64 and aarch64 with 47 or 48 bits).
LOWEST, HIGHEST = 1 << 42, 1 << 46
DRAWS = 16

_FIXED, _ONLY_IF_FREE = 0x10, 0x100000  # Linux's MAP_FIXED and MAP_FIXED_NOREPLACE
_FAILED = ctypes.c_size_t(-1).value
_C: Any = ctypes.CDLL(None, use_errno=True) if sys.platform != "win32" else None
if _C is not None:
    _C.mmap.restype = ctypes.c_size_t
    _C.mmap.argtypes = (
        ctypes.c_size_t,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    _C.munmap.argtypes = ctypes.c_size_t, ctypes.c_size_t
    _C.madvise.argtypes = ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int


class Mapping:
    """The bytes of a device's memory.

    The first one of a process lies at ``BASE`` if it can: then a byte has the same address for the
    host and for the device, as managed memory needs. One that is ``apart`` lies where chance says:
    then no device address is one of the host, and none can be reckoned from another.

    Attributes
    ----------
    raw : ndarray, uint8
        All of them.
    host : int
        Where the host finds the byte at ``BASE``.
    """

    def __init__(self, apart: bool = False) -> None:
        self.raw = _reserve(apart)
        self.host: int = self.raw.ctypes.data

    def view(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: Any,
        strides: tuple[int, ...] | None = None,
    ) -> np.ndarray:
        """Return device memory as an array of the host that shares it; strides in bytes."""
        demand_plain(dtype)
        return np.ndarray(shape, dtype, self.raw, address - BASE, strides)

    def address_of(self, host: int) -> int:
        """Return the device address of the byte at the host address ``host``."""
        return host - self.host + BASE

    def use_huge_pages(self, start: int, end: int) -> None:
        """Use pages of 2 MiB for an array that is large enough, from ``start`` to ``end``."""
        self._advise("MADV_HUGEPAGE", start, end)

    def forget(self, start: int, end: int) -> None:
        """Give the pages from device address ``start`` to ``end`` back to the system."""
        self._advise("MADV_DONTNEED", start, end)

    def _advise(self, advice: str, start: int, end: int) -> None:
        """Advise the system about the whole pages within, if it supports that advice."""
        if hasattr(mmap, advice):
            first = -(-(start - BASE) // PAGE) * PAGE
            length = (end - BASE - first) // PAGE * PAGE
            if length > 0:  # a kernel without huge pages says no, which changes nothing
                _C.madvise(self.host + first, length, getattr(mmap, advice))

    # -- pages that other processes see too (virtualgpu.memory.interprocess) ------------------

    def pages(self, start: int, end: int) -> slice:
        """Return the slice of :attr:`raw` with the whole pages that hold the device addresses."""
        return slice((start - BASE) // PAGE * PAGE, -(-(end - BASE) // PAGE) * PAGE)

    def show(self, pages: slice, file: int) -> None:
        """Have ``pages`` be the bytes of an open file, where they are. Raises OSError."""
        self._put(pages, mmap.MAP_SHARED, file)

    def hide(self, pages: slice) -> None:
        """Have ``pages`` be this process's own again, with nothing in them. Raises OSError."""
        self._put(pages, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE, -1)

    def _put(self, pages: slice, flags: int, file: int) -> None:
        _map(self.host + pages.start, pages.stop - pages.start, flags | _FIXED, file)


class _Mapped:
    """Memory that the system mapped, as NumPy sees it; unmapped when no array needs it."""

    def __init__(self, address: int, size: int):
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }
        weakref.finalize(self, _C.munmap, address, size).atexit = False


def _reserve(apart: bool) -> np.ndarray:
    """Reserve address space without memory behind it.

    It is the widest range that this system grants, at ``BASE`` if that is free, or ``apart`` from
    there at a random place.
    """
    for size in RESERVATIONS:
        with suppress(OSError, ValueError, OverflowError):
            if sys.platform == "linux":
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
                for place in _drawn() if apart else (BASE,):
                    with suppress(OSError):
                        return np.asarray(_Mapped(_map(place, size, flags | _ONLY_IF_FREE), size))
                return np.asarray(_Mapped(_map(0, size, flags), size))
            if hasattr(mmap, "MAP_PRIVATE") and size <= 1 << 34:
                return np.frombuffer(
                    mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8
                )
            if size <= 1 << 32:  # Windows commits what it maps
                return np.frombuffer(mmap.mmap(-1, size), np.uint8)
    raise OutOfMemory("no gibibyte of address space to be had for the device's memory")


def _drawn() -> Iterator[int]:
    """Draw random addresses, most of which are free: a process uses some 2**40 of 2**46 bytes."""
    for _ in range(DRAWS):
        yield LOWEST + secrets.randbelow((HIGHEST - LOWEST) // PAGE) * PAGE


def _map(address: int, size: int, flags: int, file: int = -1) -> int:
    """Call the system's ``mmap`` with an address, which Python's does not take. Raises OSError."""
    made: int = _C.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, 0)
    if made == _FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    if flags & (_FIXED | _ONLY_IF_FREE) and made != address:  # Linux before 4.17 only takes a hint
        _C.munmap(made, size)
        raise OSError(errno.EEXIST, "mmap")
    return made
