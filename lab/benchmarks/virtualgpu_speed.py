"""How fast the virtual GPU is, against Numba's CUDA simulator and against NumPy, in one run.

    python -m lab.benchmarks.virtualgpu_speed

The simulator runs in a process of its own (it is chosen before numba-cuda is imported), at
20,000 threads, since it starts one thread of the operating system per CUDA thread. Times are
medians of interleaved runs; what counts are the ratios.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time

import numpy as np

# The simulator rebinds the global name `cuda` while a kernel runs: kernels are module globals.
from numba import cuda, float32

N = 1_000_000
SIMULATED = 20_000
BLOCK = 256
SIMULATOR = "NUMBA_ENABLE_CUDASIM"


@cuda.jit
def vector_add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def quadratic(a, b, c, x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = (-b[i] + math.sqrt(b[i] ** 2 - 4 * a[i] * c[i])) / (2 * a[i])


@cuda.jit
def sine(a, s):
    i = cuda.grid(1)
    if i < s.size:
        s[i] = math.sin(a[i])


@cuda.jit
def tree_sum(x, total):
    shared = cuda.shared.array(256, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    shared[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    half = 128
    while half > 0:
        if t < half:
            shared[t] += shared[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(total, 0, shared[0])


def median(run, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def interleaved(first, second, repeats: int = 15) -> tuple[float, float]:
    """Medians of two functions run in turn."""
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(median(first, 1))
        theirs.append(median(second, 1))
    return float(np.median(ours)), float(np.median(theirs))


def simulate() -> dict:
    """Threads per second of Numba's simulator; runs in the child."""
    a = np.ones(SIMULATED, np.float32)
    total = np.zeros(1, np.float32)
    grid = -(-SIMULATED // BLOCK)
    da, db, dc = cuda.to_device(a), cuda.to_device(a), cuda.to_device(a)
    add = median(lambda: vector_add[grid, BLOCK](da, db, dc), 3)
    tree = median(lambda: tree_sum[grid, BLOCK](a, total), 3)
    threads = grid * BLOCK
    return {"vector_add": threads / add, "tree_sum": threads / tree}


def main() -> None:
    os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    if os.environ.get(SIMULATOR) == "1":
        print(json.dumps(simulate()))
        return
    import virtualgpu
    from lab.benchmarks.report import write

    child = subprocess.run(
        [sys.executable, "-m", "lab.benchmarks.virtualgpu_speed"],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        env={**os.environ, SIMULATOR: "1"},
    )
    simulator = json.loads(child.stdout)

    virtualgpu.activate(force=True)
    random = np.random.default_rng(1)
    a, b = random.random((2, N), dtype=np.float32)
    c = np.empty_like(a)
    da, db, dc = cuda.to_device(a), cuda.to_device(b), cuda.device_array_like(a)
    grid = -(-N // BLOCK)
    results: dict = {"threads": N, "simulator threads per second": simulator}

    def compare(name, launch, reference):
        for _ in range(6):  # warm: compiled by NVVM, then whole by LLVM
            launch()
        ours, theirs = interleaved(launch, reference)
        results[name] = {"seconds": ours, "NumPy seconds": theirs, "times NumPy": ours / theirs}
        return ours

    add = compare(
        "vector_add float32",
        lambda: vector_add[grid, BLOCK](da, db, dc),
        lambda: np.add(a, b, out=c),
    )
    assert (dc.copy_to_host() == a + b).all()
    results["vector_add float32"]["times the simulator"] = N / add / simulator["vector_add"]

    A, B, C = random.uniform(5, 10, N), random.uniform(10, 20, N), random.uniform(-0.1, 0.1, N)
    dA, dB, dC, dX = map(cuda.to_device, (A, B, C, np.empty(N)))
    compare(
        "quadratic float64",
        lambda: quadratic[grid, BLOCK](dA, dB, dC, dX),
        lambda: (-B + np.sqrt(B**2 - 4 * A * C)) / (2 * A),
    )
    compare("sin float64", lambda: sine[grid, BLOCK](dA, dX), lambda: np.sin(A))
    f = A.astype(np.float32)
    df, ds = cuda.to_device(f), cuda.device_array_like(f)
    compare("sin float32", lambda: sine[grid, BLOCK](df, ds), lambda: np.sin(f))

    total = cuda.to_device(np.zeros(1, np.float32))
    tree = compare("tree_sum float32", lambda: tree_sum[grid, BLOCK](da, total), lambda: a.sum())
    results["tree_sum float32"]["times the simulator"] = N / tree / simulator["tree_sum"]

    for name, launch in (
        ("vector_add", lambda: vector_add[grid, BLOCK](da, db, dc)),
        ("tree_sum", lambda: tree_sum[grid, BLOCK](da, total)),
    ):

        def checked(launch=launch):
            with virtualgpu.check() as report:
                launch()
            assert report.ok, report.findings

        checked()
        plain, watched = interleaved(launch, checked, 7)
        results[f"check() on {name}"] = {"times a plain launch": watched / plain}

    results["linear in threads"] = {str(n): scaled(n) for n in (1_000_000, 4_000_000, 16_000_000)}
    path = write("virtualgpu_speed", results)
    print(path.read_text())


def scaled(n: int) -> dict:
    """Nanoseconds per thread of a vector add over ``n`` threads, and memory at its peak."""
    import resource

    x = np.ones(n, np.float32)
    dx, dy = cuda.to_device(x), cuda.device_array_like(x)
    del x
    seconds = median(lambda: vector_add[-(-n // BLOCK), BLOCK](dx, dx, dy), 3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"nanoseconds per thread": seconds / n * 1e9, "peak memory of the process": peak}


if __name__ == "__main__":
    main()
