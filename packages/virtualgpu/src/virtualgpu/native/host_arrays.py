"""Arrays whose host addresses are passed to native code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from virtualgpu.compilers.llvm import pointer
from virtualgpu.native.context import WORD


class HostArrays:
    """Arrays that native code accesses by address; they live as long as this object."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def array(self, values: ArrayLike, dtype: type[np.generic] = np.int64) -> int:
        """Return the address of a new array with these values."""
        array = np.array(values, dtype)
        if not array.size:
            array = np.zeros(1, dtype)
        self.kept.append(array)
        return pointer(array)

    def words(self, count: int) -> np.ndarray:
        """Return int64 zeros, aligned to 64 bytes."""
        raw = np.zeros(count + 8, np.int64)
        self.kept.append(raw)
        return raw[(-pointer(raw) // WORD) % 8 :][:count]

    def room(self, nbytes: int) -> int:
        return pointer(self.words(-(-nbytes // WORD) + 1))
