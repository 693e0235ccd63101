"""Arrays over the addresses that are passed to CUDA's libraries."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .memory import MemoryPointer, UnownedMemory


def array_at(
    address: int, shape: Sequence[int], dtype: Any, steps: Sequence[int] | None = None
) -> Any:
    """Return a ``cupy.ndarray`` over existing device memory.

    `steps` are the strides in elements; the default is C order. Raises VirtualGPUError if the
    array exceeds an allocation.
    """
    dtype = np.dtype(dtype)
    shape = tuple(map(int, shape))
    if steps is None:
        steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    cells = 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    size = cells * dtype.itemsize if math.prod(shape) else 0
    pointer = MemoryPointer(UnownedMemory(int(address) if size else 0, size, None), 0)
    strides = tuple(step * dtype.itemsize for step in steps)
    return importlib.import_module("cupy").ndarray(shape, dtype, pointer, strides)


def used(name: str, array: Any) -> None:
    """Record that the library function `name` has just written `array`."""
    core, launches = (
        importlib.import_module(f"cupy.{one}") for one in ("_arrays.core", "_launches")
    )
    core.wrote(array)
    if launches.listening() and array.size:
        launches.record(name, "routine", size=array.size, exact=False)
