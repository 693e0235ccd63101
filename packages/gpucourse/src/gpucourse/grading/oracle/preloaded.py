"""Preparation of the oracles' fork server: imports and a first launch.

Without it, every oracle would spend 3 s on imports and 1 s on the virtual GPU's first use.
"""

from __future__ import annotations

import nbformat
import numpy as np
from numba import cuda
from numba.cuda import dispatcher, types  # noqa: F401

import virtualgpu
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import grader
from gpucourse.grading.oracle.devices import new_device
from gpucourse.grading.testing.watching import watched
from virtualgpu.api import (
    LazyUfunc,
    MachineArray,
    keep_no_code_on_disk,
    numba_hooks,  # noqa: F401
    operation,
)

# Operations of nearly every kernel, by number of operands. Compiling one takes 10 ms, which every
# oracle would spend again.
COMMON = {
    2: """add.f64 sub.f64 mul.f64 div.rn.f64 add.f32 mul.f32 min.s64 max.s64 min.s32 div.u32
             rem.u32 setp.geu.f64 setp.leu.f64 setp.lt.f64 setp.gt.f64 xor.pred""".split(),
    1: ["cvt.rn.f64.s64", "cvt.rn.f64.s32", "cvt.rzi.s64.f64"],
    3: ["fma.rn.f64", "fma.rn.f32", "selp.f64"],
}


def add_up(values: np.ndarray, totals: np.ndarray) -> None:
    """Use memory, arithmetic, atomics, shared memory and a barrier, as most kernels do."""
    own = cuda.shared.array(64, types.float64)
    i = cuda.grid(1)
    own[cuda.threadIdx.x] = values[i] if i < values.size else 0.0
    cuda.syncthreads()
    if cuda.threadIdx.x % 2 == 0:
        cuda.atomic.add(totals, 0, own[cuda.threadIdx.x] + own[cuda.threadIdx.x + 1])


def warm_up() -> None:
    """Launch a kernel under all checkers and let nbformat compile its schema, once."""
    nbformat.validate(nbformat.v4.new_notebook())  # 60 ms
    column = types.Array(types.float64, 1, "C")
    text, _ = cuda.compile_ptx(add_up, (column, column), cc=(9, 0), lineinfo=True)
    device = new_device(Limits())
    module = device.load(text)
    (entry,) = module.entries()

    def run(arguments: list) -> None:
        arrays = [MachineArray(array, device) for array in arguments]
        device.launch(
            module,
            entry,
            (2, 1, 1),
            (64, 1, 1),
            [part for array in arrays for part in array.parameters()],
        )

    watched(run, "add_up", (np.ones(100), np.zeros(1)), schedules=1, seed=0)
    for operands, names in COMMON.items():
        for name in names:
            opcode, *modifiers = name.split(".")
            function = operation(opcode, tuple(modifiers), operands, 1).function
            if isinstance(function, LazyUfunc):  # the others are NumPy's own
                function.compile()


# Oracles inherit the code compiled here and load none from a folder that others can write to.
keep_no_code_on_disk()
warm_up()

__all__ = ["grader", "virtualgpu"]
