"""How long a product of matrices over tiles takes, beside NumPy's in the same run.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m lab.benchmarks.tile_speed

256 × 256 by 256 × 256 in float16, sums in float32, tiles of 64 × 64: `ct.launch` on the virtual
GPU, plain and watched, and NumPy's product of the same numbers as float32. Processor time
(with one thread: those that wait for work count too); they take turns, and the ratios are those
of the medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import virtualgpu

virtualgpu.activate()
import cuda.tile as ct  # noqa: E402
import cupy as cp  # noqa: E402

SIDE, TILE, TURNS = 256, 64, 21


@ct.kernel
def product(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    sums = ct.zeros((TILE, TILE), ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(TILE, TILE))):
        left = ct.load(a, (i, k), (TILE, TILE), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, j), (TILE, TILE), padding_mode=ct.PaddingMode.ZERO)
        sums = ct.mma(left, right, sums)
    ct.store(c, (i, j), sums.astype(c.dtype))


def took(run: Callable[[], object]) -> float:
    """Milliseconds of processor time."""
    start = time.process_time()
    run()
    return (time.process_time() - start) * 1e3


def measured() -> dict[str, float]:
    """Milliseconds of each way, and how many times NumPy's they are."""
    drawn = np.random.default_rng(256)
    left, right = (drawn.normal(0, 1, (SIDE, SIDE)).astype(np.float16) for _ in range(2))
    a, b, c = cp.asarray(left), cp.asarray(right), cp.zeros((SIDE, SIDE), np.float32)
    side = SIDE // TILE

    def launch() -> None:
        ct.launch(cp.cuda.get_current_stream(), (side, side), product, (a, b, c))

    def watched(by) -> Callable[[], None]:
        def run() -> None:
            with by():
                launch()

        return run

    ways: dict[str, Callable[[], object]] = {
        "NumPy": lambda: left.astype(np.float32) @ right.astype(np.float32),
        "launch": launch,
        "launch, profile()": watched(virtualgpu.profile),
        "launch, check()": watched(virtualgpu.check),
    }
    first = took(launch)
    if not np.allclose(c.get(), ways["NumPy"](), rtol=1e-3, atol=1e-3):
        raise AssertionError("the product over tiles is wrong")
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, run in ways.items():
            times[name].append(took(run))
    found = {name: statistics.median(some) for name, some in times.items()}
    return {
        "first launch, compiled, ms": round(first, 1),
        **{f"{name}, ms": round(one, 2) for name, one in found.items()},
        **{
            f"{name}, times NumPy's": round(one / found["NumPy"], 1)
            for name, one in found.items()
            if name != "NumPy"
        },
    }


def main() -> None:
    from lab.benchmarks.report import write

    found = measured()
    for name, figure in found.items():
        print(f"{name:32}{figure:8}")
    print(write("tile_speed", {f"product of {SIDE} × {SIDE} in float16": found}))


if __name__ == "__main__":
    main()
