"""CUDA C++ text as a function on NumPy arrays, on whichever device answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import virtualgpu
from virtualgpu.api import compile_to_ptx

#: ``launch(grid, block, arrays)``: a pointer for each array; those that can be written are updated.
Launch = Callable[[tuple, tuple, Sequence[np.ndarray]], None]


def loaded(source: str, kernel: str) -> Launch:
    """Compile CUDA C++ and find its `kernel`, which is declared ``extern "C" __global__``.

    On the virtual GPU, which may be in another process, or through CuPy on a GPU. Mistakes in the
    source raise that compiler's own error, with its message.
    """
    if virtualgpu.answers():
        # From the PTX: of a source the module asks the compiler a second time, for types.
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
