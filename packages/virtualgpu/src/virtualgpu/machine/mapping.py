"""Where device memory lies on the host: one mapping, whose untouched pages cost nothing.

Byte ``n`` of the mapping is device address ``BASE + n``.
"""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from virtualgpu.errors import OutOfMemory

BASE = 0x7_0000_0000  # first device address; everything below is never mapped
# Python names the flag from 3.13 on; its value on Linux is older than that.
NORESERVE = getattr(mmap, "MAPNORESERVE", 0x4000 if sys.platform == "linux" else 0)
RESERVATIONS = (1 << 38, 1 << 36, 1 << 34, 1 << 32, 1 << 30)  # bytes of address space to try
END = BASE + RESERVATIONS[0]  # no device address lies here or beyond


class Mapping:
    """The bytes of a device's memory.

    Attributes
    ----------
    raw : ndarray, uint8
        All of them.
    host : int
        Where the host finds the byte at ``BASE``.
    """

    def __init__(self) -> None:
        self._mapped = _reserve()
        self.raw = np.frombuffer(self._mapped, np.uint8)
        self.host: int = self.raw.ctypes.data

    def view(self, address: int, shape: tuple[int, ...], dtype: Any,
             strides: tuple[int, ...] | None = None) -> np.ndarray:
        """Device memory as an array of the host that shares it; strides in bytes."""
        return np.ndarray(shape, dtype, self.raw, address - BASE, strides)

    def address_of(self, host: int) -> int:
        """The device address of the byte at the host address ``host``."""
        return host - self.host + BASE

    def use_huge_pages(self, start: int, end: int) -> None:
        """For an array that is worth pages of 2 MiB, from device address ``start`` to ``end``."""
        self._advise("MADV_HUGEPAGE", start, end)

    def forget(self, start: int, end: int) -> None:
        """Give the pages from device address ``start`` to ``end`` back to the system."""
        self._advise("MADV_DONTNEED", start, end)

    def _advise(self, advice: str, start: int, end: int) -> None:
        """Tell the system what to do with the pages that lie inside, where it knows such advice."""
        if hasattr(mmap, advice):
            page = mmap.PAGESIZE
            first = -(-(start - BASE) // page) * page
            length = (end - BASE - first) // page * page
            if length > 0:
                with suppress(OSError):  # a kernel without huge pages
                    self._mapped.madvise(getattr(mmap, advice), first, length)


def _reserve() -> mmap.mmap:
    """Address space without memory behind it: the widest that this system grants."""
    for size in RESERVATIONS:
        try:
            if hasattr(mmap, "MAP_PRIVATE") and (NORESERVE or size <= 1 << 34):
                return mmap.mmap(
                    -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
                )
            if size <= 1 << 32:  # Windows commits what it maps
                return mmap.mmap(-1, size)
        except (OSError, ValueError, OverflowError):
            continue
    raise OutOfMemory("no gibibyte of address space to be had for the device's memory")
