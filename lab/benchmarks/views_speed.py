"""Time of a launch's pictures, and their size as a cell's output.

    python -m lab.benchmarks.views_speed

Every kernel is launched on 100,000 threads or more. The first picture of a kernel includes its
compilation, as a learner waits for it; the median of the others does not.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from numba import cuda, int32

import lab.benchmarks.support  # noqa: F401
from kernels_to_see import add_racing, block_sum, double, strided

N = 100_000
REPEATS = 5


@cuda.jit
def histogram(x, counts):
    mine = cuda.shared.array(64, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine[t] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(mine, int(x[i]) % 64, 1)
    cuda.syncthreads()
    cuda.atomic.add(counts, t, mine[t])


@cuda.jit
def collatz(start, steps):
    i = cuda.grid(1)
    if i < start.size:
        n = int(start[i]) + 1
        while n != 1:
            n = 3 * n + 1 if n % 2 else n // 2
            steps[i] += 1


def launches() -> dict[str, tuple]:
    """A launch of each kernel: kernel, grid, block, arguments."""
    x = np.arange(N, dtype=np.float32)
    blocks = -(-N // 64)
    return {
        "scale": (double, blocks, 64, x, np.zeros_like(x)),
        "strided": (strided, blocks, 64, x, np.zeros_like(x)),
        "tree_sum": (block_sum, blocks, 64, x, np.zeros(1, np.float32)),
        "histogram": (histogram, blocks, 64, x, np.zeros(64, np.int32)),
        "racing_sum": (add_racing, blocks, 64, x, np.zeros(1, np.float32)),
        "collatz": (collatz, blocks, 64, x, np.zeros(N, np.int32)),
    }


def measure(view, launch: tuple) -> dict[str, float]:
    """Seconds until the output is there, first and later, and its bytes."""
    times, markup = [], ""
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        markup = view(*launch)._repr_html_()
        times.append(time.perf_counter() - start)
    return {
        "first_s": round(times[0], 3),
        "later_s": round(statistics.median(times[1:]), 3),
        "kB": round(len(markup.encode()) / 1000, 1),
    }


def main() -> None:
    import gpucourse
    from lab.benchmarks.report import write

    results: dict[str, dict] = {}
    for name in ("report", "timeline", "memory", "race"):
        view = getattr(gpucourse, name)
        results[name] = {kernel: measure(view, launch) for kernel, launch in launches().items()}
        for kernel, figures in results[name].items():
            print(
                f"{name:10}{kernel:12}{figures['first_s']:8.3f} s first "
                f"{figures['later_s']:8.3f} s later {figures['kB']:8.1f} kB"
            )
    print(f"wrote {write('views_speed', results).name}")


if __name__ == "__main__":
    main()
