"""How long a puzzle's kernel takes on a GPU, and CuPy's lines beside it; without one, no time.

Not tried on a GPU yet.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from gpucourse.course.puzzles import Puzzle
from gpucourse.puzzles.inputs import Case, draw
from gpucourse.system.device import device
from gpucourse.views.real_gpu import REPEATS, milliseconds
from gpucourse.views.runs import Launch


def gpu() -> str | None:
    """The name of the GPU whose time counts; a processor's time never does."""
    here = device()
    return None if here.virtual else here.name


def kernel_ms(puzzle: Puzzle, kernel: Any) -> float | None:
    """Median milliseconds of the kernel's launch in the size that is timed; None without a GPU."""
    if gpu() is None:
        return None
    case = timed(puzzle)
    return milliseconds(Launch.of(kernel, case.grid, case.block, tuple(case.arguments())))


def library_ms(puzzle: Puzzle) -> float | None:
    """The same of CuPy's lines, where the puzzle has them."""
    if gpu() is None or not puzzle.library:
        return None
    import cupy

    case = timed(puzzle)
    scope = {name: cupy.asarray(value) if isinstance(value, np.ndarray) else value
             for name, value in case.values.items()} | {"cupy": cupy, **case.sizes}
    code = compile(puzzle.library, f"<library {puzzle.name}>", "exec")
    exec(code, scope)
    times = []
    for _ in range(REPEATS):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        exec(code, scope)
        stop.record()
        stop.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, stop))
    return statistics.median(times)


def timed(puzzle: Puzzle) -> Case:
    """The case whose launch is timed."""
    return draw(puzzle, puzzle.clock[:-1], puzzle.clock[-1], np.random.default_rng(1))
