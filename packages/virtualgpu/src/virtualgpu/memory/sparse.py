"""Arrays of the host of which only touched pages take memory, and where these are."""

from __future__ import annotations

import mmap
import os

import numpy as np

from virtualgpu.memory.mapping import NORESERVE, PAGE

LARGE = 64 << 20  # bytes from which an array is worth a look at its pages
_STEP = 1 << 18  # pages looked at together: 2 MiB of Linux's table
_THERE = np.uint64(62)  # the lowest bit that says so in an entry: 62 swapped out, 63 in memory


def zeros(count: int, dtype: type[np.generic] = np.uint8) -> np.ndarray:
    """Return zeros; a large array takes no memory, and is promised none, until it is touched.

    Raises MemoryError where there is no address space for it.
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
    """Return True if this system tells which pages are touched."""
    return os.access("/proc/self/pagemap", os.R_OK)


def touched(array: np.ndarray) -> list[slice]:
    """Return the parts of a one-dimensional array that lie in touched pages, in order.

    The whole array where it is not large, or where the system does not tell (it is no Linux).
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
    """Return a new array with each element ``times`` times; untouched parts stay untouched."""
    if array.nbytes < LARGE:
        return np.repeat(array, times)
    result = zeros(len(array) * times, array.dtype.type)
    for part in touched(array):
        result[part.start * times : part.stop * times] = np.repeat(array[part], times)
    return result
