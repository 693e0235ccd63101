"""The virtual GPU against PoCL, which runs OpenCL kernels on processors, in one run on one core.

    python -m lab.benchmarks.pocl_speed

The kernels of :mod:`.native_kernels` in OpenCL C (``pocl_kernels.cl``), launched in the
same shape on copies of the same arrays; their results are compared first. Processor time, medians
of interleaved launches, after both have compiled. PoCL checks no access. What counts are the
ratios. Needs ``pyopencl`` and ``pocl-binary-distribution`` from the package index, which the course
does not install.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

REPEATS = 11
# Kernels of native_kernels.cases(), in its order, by their names in pocl_kernels.cl.
NAMES = (
    "add",
    "saxpy",
    "mandelbrot",
    "inside",
    "histogram",
    "histogram_shared",
    "tree_sum",
    "product",
    "masses",
)
# Float sums are added in any order, and cosh, cos and sqrt are other libraries' here and there.
TOLERANCE = {"tree_sum": 1e-3, "product": 1e-4, "saxpy": 1e-6}


def last_arguments(name: str, arrays: tuple) -> list[np.int32]:
    """What the OpenCL kernel is told beside the arrays, which in Numba know their sizes."""
    if name in ("inside", "product"):
        return []
    if name == "masses":
        return [np.int32(arrays[0].size - 1), np.int32(arrays[-1].size)]
    sized = arrays[-1] if name in ("add", "saxpy", "mandelbrot") else arrays[0]
    return [np.int32(sized.size)]


class OpenCL:
    """PoCL's device, and the program built for it."""

    def __init__(self, defines: dict[str, int]) -> None:
        import pyopencl

        self.cl = pyopencl
        platform = next(
            one for one in pyopencl.get_platforms() if one.name == "Portable Computing Language"
        )
        self.context = pyopencl.Context(platform.get_devices())
        self.queue = pyopencl.CommandQueue(self.context)
        source = Path(__file__).with_name("pocl_kernels.cl").read_text(encoding="utf-8")
        self.program = pyopencl.Program(self.context, source).build(
            [f"-D{name}={value}" for name, value in defines.items()]
        )
        self.version = platform.version

    def launcher(self, name: str, blocks, threads, arrays: tuple) -> tuple[Callable, Callable]:
        """Two functions: one launches and waits, one returns the arrays as they are then."""
        flags = self.cl.mem_flags
        there = [
            self.cl.Buffer(self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=one)
            if isinstance(one, np.ndarray)
            else one
            for one in arrays
        ]
        kernel = self.cl.Kernel(self.program, name)
        kernel.set_args(*there, *last_arguments(name, arrays))
        blocks, threads = np.atleast_1d(blocks), np.atleast_1d(threads)
        grid, block = tuple(map(int, blocks * threads)), tuple(map(int, threads))

        def launch() -> None:
            self.cl.enqueue_nd_range_kernel(self.queue, kernel, grid, block)
            self.queue.finish()

        def read() -> list[np.ndarray]:
            found = []
            for one, buffer in zip(arrays, there, strict=True):
                if isinstance(one, np.ndarray):
                    found.append(np.empty_like(one))
                    self.cl.enqueue_copy(self.queue, found[-1], buffer)
            return found

        return launch, read


def main() -> int:
    os.environ |= {
        "POCL_MAX_PTHREAD_COUNT": "1",
        "VIRTUALGPU_NATIVE": "always",
        "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
    }
    warnings.simplefilter("ignore")
    import virtualgpu

    virtualgpu.activate(force=True)
    from numba import cuda

    from lab.benchmarks import native_kernels
    from lab.benchmarks.native_speed import interleaved
    from lab.benchmarks.report import write
    from virtualgpu import devices

    try:
        opencl = OpenCL(
            {
                "SIDE": native_kernels.SIDE,
                "LIMIT": native_kernels.LIMIT,
                "POINTS": native_kernels.N // native_kernels.STREAMS,
                "BINS": native_kernels.BINS,
                "EDGE": native_kernels.EDGE,
                "TILE": native_kernels.TILE,
            }
        )
    except ImportError as error:
        print(f"{error}. This comparison needs pyopencl and pocl-binary-distribution.")
        return 2
    devices.current().cores = 1
    ratios = {}
    for name, (title, case) in zip(NAMES, native_kernels.cases().items(), strict=True):
        arrays = tuple(
            one.copy_to_host() if hasattr(one, "copy_to_host") else one for one in case.arrays
        )
        there = [cuda.to_device(one) if isinstance(one, np.ndarray) else one for one in arrays]
        launch, read = opencl.launcher(name, case.blocks, case.threads, arrays)
        configured = case.kernel[case.blocks, case.threads]

        def ours(configured=configured, there=there) -> None:
            configured(*there)

        launch()
        ours()
        mine = [one.copy_to_host() for one in there if hasattr(one, "copy_to_host")]
        for own, other in zip(mine, read(), strict=True):
            for field in own.dtype.names or [...]:
                got = own[field]
                wanted = other[field]
                np.testing.assert_allclose(
                    got,
                    wanted,
                    rtol=TOLERANCE.get(name, 0),
                    atol=1 if name == "masses" else 0,
                    err_msg=name,
                )
        taken = interleaved(ours, launch, REPEATS)
        ratios[title] = round(taken[0] / taken[1], 2)
        print(f"{title}: {ratios[title]}", flush=True)
    print(
        write(
            "pocl_speed",
            {
                "compared with": opencl.version,
                "processor time over PoCL's, one core": ratios,
                "load average (1 min), where 1 is this benchmark's own": round(
                    os.getloadavg()[0], 1
                ),
            },
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
