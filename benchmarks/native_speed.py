"""The virtual GPU against ``numba.njit`` on one core, interpreting and in native code, in one run.

    python -m benchmarks.native_speed

The same formula as a kernel and as a compiled loop. Processor time, medians of interleaved calls;
kernel and loop have run before, so neither compiles while it is timed. What counts are the ratios.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import numpy as np
from numba import cuda, njit

import virtualgpu
from benchmarks.report import write
from virtualgpu import devices

N = 1 << 20
SIDE, LIMIT = 256, 500
BINS = 64
REPEATS = 15


@njit
def add_loop(a, b, c):
    for i in range(c.size):
        c[i] = a[i] + b[i]


@njit
def iterations(cx, cy):
    x = y = 0.0
    k = 0
    while k < LIMIT and x * x + y * y < 4:
        x, y = x * x - y * y + cx, 2 * x * y + cy
        k += 1
    return k


@njit
def mandelbrot_loop(out):
    for i in range(out.size):
        out[i] = iterations(-2 + 2.5 * (i % SIDE) / SIDE, -1.25 + 2.5 * (i // SIDE) / SIDE)


@njit
def histogram_loop(values, bins):
    for i in range(values.size):
        bins[values[i]] += 1


def kernels() -> dict[str, Callable]:
    """The same as kernels, compiled for the virtual GPU that is active."""
    point = cuda.jit(device=True)(iterations.py_func)

    @cuda.jit
    def add(a, b, c):
        i = cuda.grid(1)
        if i < c.size:
            c[i] = a[i] + b[i]

    @cuda.jit
    def mandelbrot(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = point(-2 + 2.5 * (i % SIDE) / SIDE, -1.25 + 2.5 * (i // SIDE) / SIDE)

    @cuda.jit
    def histogram(values, bins):
        for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
            cuda.atomic.add(bins, values[i], 1)

    return {"add": add, "mandelbrot": mandelbrot, "histogram": histogram}


def ratio(launch: Callable[[], object], loop: Callable[[], object]) -> float:
    """Processor time of ``launch`` over that of ``loop``."""
    for _ in range(2):
        launch()
        loop()
    taken: tuple[list[float], list[float]] = [], []
    for _ in range(REPEATS):
        for times, run in zip(taken, (launch, loop), strict=True):
            begin = time.process_time()
            run()
            times.append(time.process_time() - begin)
    return statistics.median(taken[0]) / statistics.median(taken[1])


def main() -> None:
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    virtualgpu.activate(force=True)
    random = np.random.default_rng(1)
    a, b = random.random((2, N), dtype=np.float32)
    values = random.integers(0, BINS, N).astype(np.int32)
    c, out, bins = np.empty_like(a), np.empty(SIDE * SIDE, np.int32), np.zeros(BINS, np.int32)
    on_device = {id(one): cuda.to_device(one) for one in (a, b, c, out, values, bins)}
    cases = {
        "vector add, float32, 2**20": ("add", add_loop, N // 256, 256, (a, b, c)),
        f"Mandelbrot {SIDE} x {SIDE}, {LIMIT} rounds": (
            "mandelbrot", mandelbrot_loop, SIDE * SIDE // 256, 256, (out,)),
        f"histogram, {BINS} bins, 2**20, atomics": (
            "histogram", histogram_loop, 128, 256, (values, bins)),
    }
    results: dict[str, dict[str, float]] = {name: {} for name in cases}
    for machine, native in (("interpreted", False), ("native", True)):
        # Compiled at the first launch, or never: what a long-lived process comes to anyway.
        os.environ["VIRTUALGPU_NATIVE"] = "always" if native else "0"
        devices.current().compiles = native
        made = kernels()
        for name, (kernel, loop, blocks, threads, arrays) in cases.items():
            there = [on_device[id(one)] for one in arrays]
            results[name][machine] = round(ratio(
                lambda k=made[kernel][blocks, threads], there=there: k(*there),
                lambda loop=loop, arrays=arrays: loop(*arrays)), 2)
    for name, found in results.items():
        print(f"{name}: interpreted {found['interpreted']} times njit, native {found['native']}")
    print(write("native_speed", {"processor time over numba.njit's, one core": results}))


if __name__ == "__main__":
    main()
