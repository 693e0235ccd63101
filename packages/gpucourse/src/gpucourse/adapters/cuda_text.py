"""CUDA C++ text as a function on NumPy arrays, for a real or a virtual GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import virtualgpu
from virtualgpu.api import compile_to_ptx

#: Type of ``launch(grid, block, arrays)``, which passes a pointer to each array and updates
#: writable ones.
Launch = Callable[[tuple, tuple, Sequence[np.ndarray]], None]


def loaded(source: str, kernel: str) -> Launch:
    """Compile CUDA C++ and return its `kernel`, declared as ``extern "C" __global__``.

    It runs on the virtual GPU, which may be in another process, or on a GPU through CuPy. For a
    mistake in the source, the compiler's own error is raised.
    """
    if virtualgpu.answers():
        # The module is loaded from PTX, because from source it would call the compiler again for
        # types.
        module = virtualgpu.Module.from_ptx(compile_to_ptx(source)[0])
        module.function(kernel)
        return lambda grid, block, arrays: module.launch(kernel, grid, block, arrays)
    import cupy

    raw = cupy.RawKernel(source, kernel)
    raw.compile()

    def launch(grid: tuple, block: tuple, arrays: Sequence[np.ndarray]) -> None:
        there = [cupy.asarray(array) for array in arrays]
        raw(grid, block, tuple(there))
        for array, result in zip(arrays, there, strict=True):
            if array.flags.writeable:
                array[...] = cupy.asnumpy(result)

    return launch
