"""Mapping of device memory into host memory; untouched pages take no memory.

Byte ``n`` of the mapping has the device address ``BASE + n``. :class:`Mapping` decides on its host
address.
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
# Python has a name for the flag from 3.13 on; Linux has had its value for longer.
NORESERVE = getattr(mmap, "MAPNORESERVE", 0x4000 if sys.platform == "linux" else 0)
RESERVATIONS = (1 << 38, 1 << 36, 1 << 34, 1 << 32, 1 << 30)  # bytes of address space to try
PAGE = mmap.PAGESIZE
END = BASE + RESERVATIONS[0]  # no device address is here or above

# The host address of a mapping is drawn from this range. Programs and their heaps are below it,
# libraries and stacks above it (x86-64 and aarch64 with 47 or 48 bits).
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
    """Host mapping of the bytes of a device's memory.

    The first mapping of a process begins at ``BASE`` if possible, so that a byte has the same
    address on host and device, as managed memory needs. A mapping that is ``apart`` is at a random
    address. Then no device address is a host address, and neither can be computed from the other.

    Attributes
    ----------
    raw : ndarray, uint8
        All bytes.
    host : int
        Host address of the byte at ``BASE``.
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
        """Return device memory as a host array without a copy; strides are in bytes."""
        demand_plain(dtype)
        return np.ndarray(shape, dtype, self.raw, address - BASE, strides)

    def address_of(self, host: int) -> int:
        """Return the device address of the byte at the host address ``host``."""
        return host - self.host + BASE

    def use_huge_pages(self, start: int, end: int) -> None:
        """Use pages of 2 MiB for a large array, from ``start`` to ``end``."""
        self._advise("MADV_HUGEPAGE", start, end)

    def forget(self, start: int, end: int) -> None:
        """Return the pages from device address ``start`` to ``end`` to the system."""
        self._advise("MADV_DONTNEED", start, end)

    def _advise(self, advice: str, start: int, end: int) -> None:
        """Advise the system about the whole pages within, if it supports that advice."""
        if hasattr(mmap, advice):
            first = -(-(start - BASE) // PAGE) * PAGE
            length = (end - BASE - first) // PAGE * PAGE
            if length > 0:  # a kernel without huge pages refuses, which does no harm
                _C.madvise(self.host + first, length, getattr(mmap, advice))

    # -- pages that other processes see too (virtualgpu.memory.interprocess) ------------------

    def pages(self, start: int, end: int) -> slice:
        """Return the slice of :attr:`raw` with the whole pages that hold the device addresses."""
        return slice((start - BASE) // PAGE * PAGE, -(-(end - BASE) // PAGE) * PAGE)

    def show(self, pages: slice, file: int) -> None:
        """Map ``pages`` to an open file, at the same address. Raises OSError."""
        self._put(pages, mmap.MAP_SHARED, file)

    def hide(self, pages: slice) -> None:
        """Map ``pages`` to empty private memory again. Raises OSError."""
        self._put(pages, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE, -1)

    def _put(self, pages: slice, flags: int, file: int) -> None:
        _map(self.host + pages.start, pages.stop - pages.start, flags | _FIXED, file)


class _Mapped:
    """Memory that the system mapped, for NumPy.

    The memory is unmapped when no array needs this object.
    """

    def __init__(self, address: int, size: int):
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }
        weakref.finalize(self, _C.munmap, address, size).atexit = False


def _reserve(apart: bool) -> np.ndarray:
    """Reserve address space without memory.

    It is the largest range that this system grants: at ``BASE`` if that is free or, with
    ``apart``, at a random address away from there.
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
    raise OutOfMemory("the system grants no gibibyte of address space for the device's memory")


def _drawn() -> Iterator[int]:
    """Yield random addresses, most of which are free: a process uses about 2**40 of 2**46 bytes."""
    for _ in range(DRAWS):
        yield LOWEST + secrets.randbelow((HIGHEST - LOWEST) // PAGE) * PAGE


def _map(address: int, size: int, flags: int, file: int = -1) -> int:
    """Call the system's ``mmap`` with an address, which Python's lacks. Raises OSError."""
    made: int = _C.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, 0)
    if made == _FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    if flags & (_FIXED | _ONLY_IF_FREE) and made != address:  # Linux before 4.17 only takes a hint
        _C.munmap(made, size)
        raise OSError(errno.EEXIST, "mmap")
    return made
