"""GPU times of a puzzle's kernel and of CuPy's lines; without a GPU, no time.

This has not been run on a GPU yet. The tests run the same steps with the virtual GPU in place of a
real one.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gpucourse.course.puzzles import Puzzle
from gpucourse.exercises.checks import require
from gpucourse.puzzles.inputs import Case, arrays_of, differing, draw
from gpucourse.system.device import device
from gpucourse.system.language import _
from gpucourse.views.launch.real_gpu import REPEATS
from virtualgpu.api import without_reroute


def gpu() -> str | None:
    """Return the name of the GPU whose time counts, or None without a GPU."""
    here = device()
    return None if here.virtual else here.name


def kernel_ms(puzzle: Puzzle, kernel: Any) -> float | None:
    """Return a kernel's median milliseconds at the timed size, or None without a GPU.

    The check fails if this launch gives wrong results, because a kernel that skips work only at
    this size would seem fast.
    """
    if gpu() is None:
        return None
    case = timed(puzzle)
    times, after = launches(kernel, case, REPEATS)
    got = dict(zip(arrays_of(case), after, strict=True))
    for name, expected in case.expected.items():
        wrong = differing(got[name], expected, puzzle.tolerance)
        require(
            not len(wrong),
            _("{case} on the GPU, {count:,} of the results in {name} are wrong").format(
                case=case, count=len(wrong), name=name
            ),
            look=_("what is different about this size?"),
        )
    return statistics.median(times)


def library_ms(puzzle: Puzzle) -> float | None:
    """Return the time of CuPy's lines if the puzzle has them."""
    if gpu() is None or not puzzle.library:
        return None
    import cupy

    case = timed(puzzle)
    scope = {
        name: cupy.asarray(value) if isinstance(value, np.ndarray) else value
        for name, value in case.values.items()
    } | {"cupy": cupy, **case.sizes}
    code = compile(puzzle.library, f"<library {puzzle.name}>", "exec")
    return statistics.median(_between_events(lambda: None, lambda: exec(code, scope), REPEATS))


def timed(puzzle: Puzzle) -> Case:
    """Return a case for timing with new random numbers, which no kernel can know."""
    return draw(puzzle, puzzle.clock[:-1], puzzle.clock[-1], np.random.default_rng())


def launches(kernel: Any, case: Case, repeats: int) -> tuple[list[float], list[np.ndarray]]:
    """Return the milliseconds of ``repeats`` launches, and the arrays after the last one.

    Before each launch, outside the timed interval, every array that the kernel may change is
    reset. Otherwise the second launch would continue with a ticket counter left by the first.
    """
    from numba import cuda

    puzzle, changed = case.puzzle, []
    there = []
    for name, value in zip(puzzle.parameters, case.arguments(), strict=True):
        if not isinstance(value, np.ndarray):
            there.append(value)
            continue
        there.append(cuda.to_device(value))
        if name in case.expected or name in puzzle.scratch:
            changed.append((there[-1], cuda.to_device(value)))

    def restore() -> None:
        for array, before in changed:
            array.copy_to_device(before)

    with without_reroute():  # earlier checks have shown that the kernel is correct and ends
        times = _between_events(restore, lambda: kernel[case.grid, case.block](*there), repeats)
    return times, [one.copy_to_host() for one in there if hasattr(one, "copy_to_host")]


def _between_events(
    before: Callable[[], None], run: Callable[[], None], repeats: int
) -> list[float]:
    """Return the milliseconds between CUDA events around each ``run``, after one warm-up."""
    from numba import cuda

    times = []
    with warnings.catch_warnings(action="ignore"):  # small grids are intended here
        for _ in range(repeats + 1):
            before()
            cuda.synchronize()
            start, stop = cuda.event(), cuda.event()
            start.record()
            run()
            stop.record()
            stop.synchronize()
            times.append(cuda.event_elapsed_time(start, stop))
    return times[1:]
