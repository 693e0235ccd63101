"""Functions for writing test cells, such as ``call``, ``launch`` and ``expect_equal``.

Tests reach the student's work by *name* and in only two ways: they :func:`call` a host function or
:func:`launch` a kernel. In a notebook, the name is looked up among the learner's variables and the
code runs on the current device. In the grader, the student's code runs in another process and on
the oracle's device. The same test cell therefore works for the learner, for plain nbgrader and for
the grader. :func:`launch_source` runs CUDA C++ that a host function returned.

The ``expect`` functions report which *property* failed. In a notebook they add where and by how
much. In the grader they never do, because the inputs are hidden.
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

# Pairs of the data that the host copies to the device and the data that the device receives.
Exchanged = Sequence[tuple[Any, Any]]
# Fill byte that is conspicuous in every type: -8e298 as a float64, -33686019 as an int32.
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
        in device memory. ``"host"``: the function may compute on the host. ``"jax"``: it is
        traced for the types of the arguments, arrays and numbers, and JAX's trace is run.
    schedules
        Number of further calls, each with threads in a different, random order. The results must
        agree.
    static
        For ``"jax"``: positions of arguments that stay Python values, as in :func:`operations`.
    exchanged
        Pairs of arrays of one shape, or of ints. If the host copies the first of a pair to the
        device (its elements in any order, cast, or a part of them) or passes it as an argument of
        a launch, the device receives the second instead. A result made on the device is then the
        result for the second. In a pair of None and an array, the array replaces any other array
        of the same number of bytes that is not all zeros.
    squeezed
        For ``"jax"``: from 0 to 1/2. Uniform random numbers that JAX would draw from [0, 1) come
        from [squeezed, squeezed + 1/2) instead, and the values computed from them must follow:
        with 0.1, ``jax.random.uniform(key, minval=-1.0)`` is between -0.8 and 0.2.

    Raises PropertyFailed if the answer is at fault, and with `exchanged` also if no data of the
    pairs reached the device.
    """
    __tracebackhide__ = True  # a notebook's traceback shows only the cell and the learner's lines
    demand_plain_arguments(f"call('{name}', …)", args)
    # States of random number generators are arrays of records.
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

    Arrays are copied to fresh device memory and, after the launch, back in place. A read-only array
    (``array.setflags(write=False)``) must not change. Python ints are passed as int64 and floats as
    float64. The first launch is checked for accesses out of bounds and races. `schedules` further
    launches run threads in random orders, and their outputs must agree with the first. `shared` is
    the dynamic shared memory in bytes. An Awkward Array on the CPU is copied to the device for the
    launch, and its kernel needs ``extensions=[ak.numba.cuda]``.

    Raises PropertyFailed if the kernel is at fault.
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
    """Compile CUDA C++ that the student's host function returned, and launch its `kernel`.

    The kernel is declared ``extern "C" __global__`` and takes a pointer for each array of `args`.
    The other rules of :func:`launch` apply. Raises PropertyFailed if the source or the kernel is at
    fault.
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

    `static` are the positions of arguments that stay Python values. Inner jaxprs count too. The
    operations in a Python loop count once for each iteration, those in a JAX loop (scan, while,
    fori_loop, map) only once. With `elements`, count the elements that each primitive produces, in
    one "iteration" of JAX loops or in "all" iterations. A while loop, whose number of iterations is
    unknown, counts as two. "random_bits keys" is the number of keys from which random numbers are
    drawn.

    Raises ValueError for other values of `elements`. If the function cannot be traced, the grader
    raises PropertyFailed and a notebook raises JAX's own error.
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
    """Return the share of points, 0 to 1, for the answer's counts relative to the reference.

    Parameters
    ----------
    work
        Function that makes one :func:`launch` or :func:`call`, with ``schedules=0`` if there are
        many threads. It runs twice, first with the student's answer and then with the reference
        solution.
    bounds
        For each counted quantity (``sectors``, ``global_atomics``, ``shared_atomics``,
        ``atomic_passes``, ``barriers``, ``instructions``, ``launches``), the factor over the
        reference up to which the share is 1, or a pair of this factor and the factor from which the
        share is 0. In between, the share falls with the logarithm of the factor.

    Use it as the last line of a test cell: ``4 * economy(lambda: launch("fill", 8, 128, values,
    counts, schedules=0), sectors=(1.2, 8))``. Test in an earlier cell that the answer is correct.
    Only the course's grader has a reference solution. In a notebook, and therefore under plain
    nbgrader, the share is 1.

    Raises PropertyFailed if the share is 0.
    """
    return current_judge().economy(work, bounds)


def secret_rng(name: str = "") -> np.random.Generator:
    """Return a random generator for a test's inputs; equal `name`s give equal numbers.

    The seed is public in a notebook. In the grader it depends on the run's secret, the cell and
    `name`.
    """
    return np.random.default_rng(list(current_judge().seed(name)))


def unwritten(shape: int | Sequence[int], dtype: Any) -> np.ndarray:
    """Return an array of garbage, for an output that the kernel has to write completely."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[:] = GARBAGE
    return array


def expect(condition: object, otherwise: str) -> None:
    """Require `condition`; if it is false, the property described by `otherwise` has failed."""
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

    No thread may do more than 1.5 times its even share of the work, measured in memory accesses and
    in instructions. With n elements, N threads in the grid and T threads in a block, a thread's
    *share* is n / N elements plus log₂ T + 4 more, for the rounds of a tree reduction and the work
    before and after it. For each element of the share, the busiest thread may make 4 accesses to
    global and shared memory, and the busiest warps of a block between each two barriers may
    together make 8. See ``docs/grader.md`` for the full rules.

    Parameters
    ----------
    launched
        A result of :func:`launch` or an item of :func:`launches`. A real GPU counts nothing, so
        there nothing is required.
    threads : int
        Number of threads that have to share the work, if not all threads of the launch.
    rounds : int
        Replaces log₂ T + 4.
    slots : int
        Number of slots that one thread of each block may process alone, with 4 accesses each.
    accesses : int
        Accesses allowed for each element, instead of 4.
    instructions : int
        For work in registers: instructions allowed for each element of the share, which are
        counted instead of accesses.
    even : float
        Replaces 1.5 if elements need different amounts of work.
    alone : tuple of Launched and int
        A launch of the same kernel with a single thread (in each block), and the number of elements
        that this thread processed. For each element, the busiest thread may do 1.5 times (or
        `even` times) the work of this thread, and in addition the work of the rounds. Idle work of
        other threads raises the average, but not this limit.
    tree : bool
        True if a queue would defeat the purpose. An address may then receive 4 atomic operations
        for each element of the share, and a warp may make 14 shuffles or votes for each element of
        a thread and 14 more.
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


met = 0  # number of fulfilled expectations; the notebook extension counts them in each cell


def _met() -> None:
    global met
    met += 1


def dimensions(size: int | Sequence[int]) -> tuple[int, int, int]:
    """Return the size of a grid or block as three numbers."""
    given = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    x, y, z = (*(int(n) for n in given), 1, 1, 1)[:3]
    return x, y, z


_judge: Judge | None = None


def use_judge(judge: Judge | None) -> None:
    """Set the judge that this process's test functions use; None restores the notebook's."""
    global _judge
    _judge = judge


def current_judge() -> Judge:
    global _judge
    if _judge is None:
        from gpucourse.grading.testing.notebook_judge import NotebookJudge

        _judge = NotebookJudge(_learner_namespace)
    return _judge


def _learner_namespace() -> dict:
    """Return the learner's variables: those of the notebook or of the calling script."""
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
