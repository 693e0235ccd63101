"""Host arrays that take memory only for touched pages, and a search for these pages."""

from __future__ import annotations

import mmap
import os

import numpy as np

from virtualgpu.memory.mapping import NORESERVE, PAGE

LARGE = 64 << 20  # bytes from which an array's pages are looked up
_STEP = 1 << 18  # pages looked up together: 2 MiB of Linux's table
_THERE = np.uint64(62)  # lowest of two bits in an entry: 62 swapped out, 63 in memory


def zeros(count: int, dtype: type[np.generic] = np.uint8) -> np.ndarray:
    """Return zeros; a large array takes and reserves no memory until it is touched.

    Raises MemoryError if there is no address space for it.
    """
    nbytes = count * np.dtype(dtype).itemsize
    if nbytes < LARGE or not NORESERVE:
        return np.zeros(count, dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
    try:
        return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), dtype)
    except (OSError, OverflowError):
        raise MemoryError(f"no address space for {nbytes:,} bytes of records") from None


def tells() -> bool:
    """Return True if this system reports which pages are touched."""
    return os.access("/proc/self/pagemap", os.R_OK)


def touched(array: np.ndarray) -> list[slice]:
    """Return the parts of a one-dimensional array that are in touched pages, in order.

    The result is the whole array if it is not large, or if the system does not report touched
    pages (only Linux does).
    """
    whole = [slice(0, len(array))]
    if array.nbytes < LARGE:
        return whole
    address, size = array.ctypes.data, array.itemsize
    first, last = address // PAGE, -(-(address + array.nbytes) // PAGE)
    edges = []
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as table:
            for page in range(first, last, _STEP):
                table.seek(8 * page)
                there = np.fromfile(table, np.uint64, min(_STEP, last - page)) >> _THERE != 0
                change = np.flatnonzero(np.diff(there, prepend=False, append=False))
                edges.append(page + change)
    except OSError:
        return whole
    runs = np.concatenate(edges).reshape(-1, 2) * PAGE - address
    return [
        slice(max(start, 0) // size, min(-(-end // size), len(array)))
        for start, end in runs.tolist()
    ]


def repeated(array: np.ndarray, times: int = 1) -> np.ndarray:
    """Return an array with each element repeated ``times`` times; untouched parts stay so."""
    if array.nbytes < LARGE:
        return np.repeat(array, times)
    result = zeros(len(array) * times, array.dtype.type)
    for part in touched(array):
        result[part.start * times : part.stop * times] = np.repeat(array[part], times)
    return result
