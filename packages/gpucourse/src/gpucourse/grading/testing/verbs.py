"""The functions that test cells are written with, in a notebook and in the grader.

Tests reach the student's work by *name* and in two ways only: :func:`call` a host function and
:func:`launch` a kernel. In a notebook the name is looked up among the learner's own variables and
the work is done on the current device; in the grader the student's code lives in another process
and the work is done on the oracle's device. The same cell therefore serves the learner, stock
nbgrader and the grader. :func:`launch_source` runs CUDA C++ that a host function wrote.

Expectations say which *property* failed. In a notebook they add where and by how much; in the
grader they never do, because the inputs are hidden.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from gpucourse.grading.arguments import demand_plain_arguments
from gpucourse.grading.contract import Call, Launch, Launched, PropertyFailed
from gpucourse.grading.testing.judge import Judge
from gpucourse.judging import parallel

# Pairs of what the host hands to the device and what the device gets.
Exchanged = Sequence[tuple[Any, Any]]
# Looks like a mistake in every type: NaN as a float, far out of range as an integer.
GARBAGE = 0xFD


def call(
    name: str,
    *args: object,
    where: str = "device",
    schedules: int = 1,
    static: Sequence[int] = (),
    exchanged: Exchanged = (),
    squeezed: float | None = None,
) -> Any:
    """Call the student's host function `name` and return its result.

    Parameters
    ----------
    args
        NumPy arrays, numbers, strings, None, and lists or dicts of them; Awkward Arrays on the CPU.
        The function gets copies.
    where
        ``"device"``: every array and number in the result must be data that a kernel launch left
        in device memory. ``"host"``: the function rightly computes on the host. ``"jax"``: it is
        traced for the types of the arguments, arrays and numbers, and what JAX recorded is run.
    schedules
        How often to call it again with threads running in another, random order. The results
        must agree.
    static
        For ``"jax"``: positions of arguments that stay Python values, as in :func:`operations`.
    exchanged
        Pairs of arrays of one shape, or of ints. Where the host hands the first of a pair to the
        device (its elements in any order, cast or in part; an argument of a launch), the device
        gets the second, so that a result made on the device is that of the second. An array with
        None before it takes the place of any other array of as many bytes that is not all zeros.
    squeezed
        For ``"jax"``: from 0 to 1/2. The numbers that JAX draws evenly from [0, 1) come from
        [squeezed, squeezed + 1/2) instead, and what is made of them has to follow: with 0.1,
        ``jax.random.uniform(key, minval=-1.0)`` lies between -0.8 and 0.2.

    Raises PropertyFailed when the answer is at fault: with `exchanged`, also if nothing was.
    """
    __tracebackhide__ = True  # in a notebook: only the cell and the learner's own lines
    demand_plain_arguments(f"call('{name}', …)", args)
    # States of random numbers are records.
    demand_plain_arguments(f"call('{name}', …, exchanged=…)", exchanged, records=True)
    return current_judge().call(
        Call(name, args, where, schedules, tuple(static), exchanged, squeezed)
    )


def launch(
    name: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    *args: object,
    shared: int = 0,
    schedules: int = 2,
) -> Launched:
    """Launch the student's kernel `name` as ``kernel[grid, block](*args)`` would.

    Arrays are copied to fresh device memory and, after the launch, back in place; one that is
    read-only (``array.setflags(write=False)``) must come back unchanged. Python ints are int64,
    floats float64. The first launch is watched for accesses out of bounds and races; `schedules`
    more run threads in random orders, and their outputs must agree with the first. `shared` is
    the dynamic shared memory in bytes. An Awkward Array on the CPU is taken to the device for the
    launch; its kernel needs ``extensions=[ak.numba.cuda]``.

    Raises PropertyFailed when the kernel is at fault.
    """
    __tracebackhide__ = True
    demand_plain_arguments(f"launch('{name}', …)", args, records=True)
    return current_judge().launch(
        Launch(name, dimensions(grid), dimensions(block), args, shared, schedules)
    )


def launch_source(
    source: str,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    *args: np.ndarray,
    schedules: int = 1,
) -> Launched:
    """Compile CUDA C++ that a host function of the student's returned, and launch its `kernel`.

    The kernel is declared ``extern "C" __global__`` and takes a pointer for each array of `args`;
    otherwise as :func:`launch`. Raises PropertyFailed when the text or the kernel is at fault.
    """
    __tracebackhide__ = True
    if not isinstance(source, str):
        raise PropertyFailed(
            f"the source of the kernel '{kernel}' is not a string", f"got {type(source).__name__}"
        )
    demand_plain_arguments(f"launch_source(…, '{kernel}', …)", args, records=True)
    return current_judge().launch_source(
        source, Launch(kernel, dimensions(grid), dimensions(block), args, schedules=schedules)
    )


def operations(
    name: str, *args: object, static: Sequence[int] = (), elements: str = ""
) -> Counter[str]:
    """Count each JAX primitive in the trace of the student's function `name`.

    `static` are the positions of arguments that stay Python values. Inner jaxprs count too. A loop
    of Python counts once for each iteration, a loop of JAX (scan, while, fori_loop, map) once. With
    `elements`: how many elements the primitive gives, in one "iteration" of such loops or in "all"
    (two of a while loop, which does not say how many it makes); and under "random_bits keys", from
    how many keys numbers are drawn.

    Raises ValueError for other words in `elements`, PropertyFailed when the function cannot be
    traced; in a notebook, the error itself.
    """
    __tracebackhide__ = True
    if elements not in ("", "iteration", "all"):
        raise ValueError(f'elements is "iteration" or "all", not {elements!r}')
    demand_plain_arguments(f"operations('{name}', …)", args)
    asked = Call(name, args, where="jax", static=tuple(static))
    return Counter(current_judge().operations(asked, elements))


def launches() -> list[Launched]:
    """Return the launches of the latest :func:`call` or :func:`launch`, in order."""
    return list(current_judge().launched)


def economy(work: Callable[[], object], **bounds: float | tuple[float, float]) -> float:
    """Return the share that the answer's counts earn beside the reference solution: 0 to 1.

    Parameters
    ----------
    work
        Makes one :func:`launch` or :func:`call`, with ``schedules=0`` if threads are many. It is
        run twice, with the student's answer and with the reference solution behind the verbs.
    bounds
        What is counted (``sectors``, ``global_atomics``, ``shared_atomics``, ``atomic_passes``,
        ``barriers``, ``instructions``, ``launches``) and the factor over the reference up to which
        it earns everything; or a pair, that and the factor from which it earns nothing. In between
        the share falls with the logarithm of the factor.

    Ends a test cell: ``4 * economy(lambda: launch("fill", 8, 128, values, counts, schedules=0),
    sectors=(1.2, 8))``. Test first, in another cell, that the answer is right. There is a reference
    only in the course's grader: in a notebook, and so under stock nbgrader, it is 1.

    Raises PropertyFailed where nothing is earned.
    """
    return current_judge().economy(work, bounds)


def secret_rng(name: str = "") -> np.random.Generator:
    """Return a random generator for a test's inputs; equal `name`s give equal numbers.

    Seeded publicly in a notebook; in the grader from the run's secret, the cell and `name`.
    """
    return np.random.default_rng(list(current_judge().seed(name)))


def unwritten(shape: int | Sequence[int], dtype: Any) -> np.ndarray:
    """Return an array of garbage, for an output that the kernel has to write completely."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = GARBAGE
    return array


def expect(condition: object, otherwise: str) -> None:
    """Require `condition`; else the property described by `otherwise` failed."""
    if not condition:
        raise PropertyFailed(otherwise)
    _met()


def expect_equal(actual: Any, expected: Any, otherwise: str) -> None:
    """Require the shape and exactly the values of `expected`; NaN equals NaN."""
    _compare(actual, expected, otherwise, lambda a, b: (a == b) | ((a != a) & (b != b)))


def expect_close(
    actual: Any, expected: Any, otherwise: str, rtol: float = 1e-6, atol: float = 0.0
) -> None:
    """Require equality as :func:`expect_equal` does, within ``atol + rtol * abs(expected)``."""
    _compare(
        actual,
        expected,
        otherwise,
        lambda a, b: np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True),
    )


def expect_parallel(
    launched: Launched, items: int, *, alone: tuple[Launched, int] | None = None, **asked: Any
) -> None:
    """Require that the threads of a launch shared the work on `items` elements.

    No thread may do more than 1.5 times its even share, in accesses to memory and in instructions.
    With n elements, N threads in the grid and T in a block, a thread's *share* is n / N elements
    and log₂ T + 4 more, for the rounds of a tree and what comes before and after. For each of them
    the busiest thread may make 4 accesses to global and shared memory, and from barrier to barrier
    the busiest warps of a block together 8. ``docs/grader.md`` has the rules in full.

    Parameters
    ----------
    launched
        What :func:`launch` returned or :func:`launches` lists. A real GPU counts nothing: then
        nothing is asked.
    threads : int
        How many threads have to share the work, if not all of the launch.
    rounds : int
        In place of log₂ T + 4.
    slots : int
        So many slots may be seen to by one thread of each block, with 4 accesses each.
    accesses : int
        For each element, in place of 4.
    instructions : int
        For work that is done in registers: so many instructions for each element of the share
        are counted in place of accesses.
    even : float
        In place of 1.5, where elements differ in the work that they take.
    alone : tuple of Launched and int
        A launch of the same kernel with a single thread (in each block), and how many elements were
        that thread's: for each element the busiest thread may do 1.5 times (or `even`) what that
        one did, and what the rounds take beside. Idle work of other threads raises the average,
        and not this.
    tree : bool
        Whether a queue would defeat the purpose. Then an address may take 4 atomic operations for
        each element of the share, and a warp make 14 shuffles or votes for each element of a
        thread and 14 more.
    """
    counted = launched.counters, launched.grid, launched.block, items
    if alone and alone[0].counters:
        asked["alone"] = alone[0].counters, alone[1]
    if found := launched.counters and parallel.uneven(*counted, **asked):
        lone = counted[0].threads_at_work <= math.prod(launched.grid)  # one in each block
        said = "is serial" if lone else "shares its work unevenly"
        raise PropertyFailed(
            f"the kernel '{launched.kernel}' {said}: {found.reason}. {found.advice}", found.detail
        )
    if close := launched.counters and parallel.nearly(*counted, **asked):
        current_judge().came_near(f"{close.reason}: with a quarter more, {close.detail}")
    _met()


def _compare(actual: Any, expected: Any, otherwise: str, same: Callable) -> None:
    wanted = np.asarray(expected)
    try:
        given = np.asarray(actual)
        numbers = given.dtype.kind in "biufc"
    except (ValueError, TypeError):
        numbers = False
    if not numbers:
        raise PropertyFailed(otherwise, f"got {type(actual).__name__}, not numbers")
    if given.shape != wanted.shape:
        raise PropertyFailed(otherwise, f"the shape is {given.shape}, expected {wanted.shape}")
    with np.errstate(invalid="ignore"):
        wrong = ~np.asarray(same(given, wanted))
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
        where = f"at index {first[0] if len(first) == 1 else first} " if first else ""
        count = f" ({int(wrong.sum())} of {wrong.size} differ)" if wrong.ndim else ""
        values = f"got {given[first]}, expected {wanted[first]}"
        raise PropertyFailed(otherwise, where + values + count)
    _met()


met = 0  # expectations met in this process: the notebook's extension counts them cell by cell


def _met() -> None:
    global met
    met += 1


def dimensions(size: int | Sequence[int]) -> tuple[int, int, int]:
    """Return grid or block as three numbers."""
    given = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    x, y, z = (*(int(n) for n in given), 1, 1, 1)[:3]
    return x, y, z


_judge: Judge | None = None


def use_judge(judge: Judge | None) -> None:
    """Put `judge` behind the verbs of this process; None restores the notebook's."""
    global _judge
    _judge = judge


def current_judge() -> Judge:
    global _judge
    if _judge is None:
        from gpucourse.grading.testing.notebook_judge import NotebookJudge

        _judge = NotebookJudge(_learner_namespace)
    return _judge


def _learner_namespace() -> dict:
    """Return the learner's variables: the notebook's, or those of the calling script."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        variables: dict = shell.user_ns
        return variables
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("gpucourse."):
            return frame.f_globals
        frame = frame.f_back
    return {}
