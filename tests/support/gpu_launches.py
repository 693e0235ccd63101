"""Launches for the tests of code that runs on a GPU, recorded on the virtual GPU."""

from __future__ import annotations

import math
import warnings
from functools import cache

import numpy as np

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda  # noqa: E402

from lab.gpu_check.recorder import RecordingDevice  # noqa: E402
from virtualgpu import devices  # noqa: E402
from virtualgpu.devices.recorded import RecordedLaunch  # noqa: E402


@cuda.jit
def exact(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.sqrt(x[i]) * 3.0


@cuda.jit(fastmath=True)
def approximate(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.sin(x[i])


@cuda.jit
def total(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, 0, x[i])


@cuda.jit
def collect(x, out, count):
    i = cuda.grid(1)
    if i < x.size and x[i] > 0.5:
        out[cuda.atomic.add(count, 0, 1)] = i


@cuda.jit
def racing(x, out):
    out[0] += x[cuda.grid(1)]


CONTRACTS = r"""extern "C" __global__ void fused(const float *x, float *out)
{
    float a = __fmul_rn(x[threadIdx.x], x[threadIdx.x]);
    asm("{ .reg .f32 p; mul.f32 p, %1, %1; add.f32 %0, p, %2; }"
        : "=f"(out[threadIdx.x]) : "f"(x[threadIdx.x]), "f"(a));
}"""

X = np.random.default_rng(1).random(1000).astype(np.float32)


@cache
def launches() -> dict[str, RecordedLaunch]:
    """Return the launches by the kernel's name."""
    kept: list[RecordedLaunch] = []
    out = np.zeros(1000, np.float32)
    with devices.use(RecordingDevice(kept.append)), warnings.catch_warnings(action="ignore"):
        module = virtualgpu.Module.from_cuda(CONTRACTS)
        module.launch("fused", 1, 32, [X[:32].copy(), out[:32].copy()])
        machine = devices.current()
        for kernel, arguments in (
            (exact, (X, out)),
            (approximate, (X, out)),
            (total, (X, out[:1])),
            (collect, (X, np.full(1000, -1, np.int32), np.zeros(1, np.int32))),
            (racing, (X[:896], out[:1])),
        ):
            _launch(machine, kernel, arguments)
    return {launch.kernel: launch for launch in kept}


def of_cpp(source: str, *arrays: np.ndarray, blocks: int = 1) -> RecordedLaunch:
    """Return one launch of the kernel ``k``, with a thread for each element of the first array."""
    kept: list[RecordedLaunch] = []
    with devices.use(RecordingDevice(kept.append)):
        module = virtualgpu.Module.from_cuda(source, options=("--fmad=false",))
        module.launch("k", blocks, len(arrays[0]) // blocks, list(arrays))
    return kept[0]


def _launch(machine, kernel, arrays) -> None:
    """Launch without numba-cuda's own memory, which supports one device per process."""
    from gpucourse.grading.arguments import describe_type
    from gpucourse.grading.sandbox.worker import numba_type
    from virtualgpu.devices.real.machine_array import MachineArray
    from virtualgpu.numba.kernel_ptx import compile_kernel

    compiled = compile_kernel(kernel, tuple(numba_type(describe_type(a)) for a in arrays))
    module = machine.load(compiled.texts, {compiled.entry: kernel.py_func.__name__})
    there = [MachineArray(array, machine) for array in arrays]
    machine.launch(
        module,
        compiled.entry,
        (8 if len(arrays[0]) == 1000 else 7, 1, 1),
        (128, 1, 1),
        [part for array in there for part in array.parameters()],
    )
