"""Checks and hints of "Numba CUDA: kernels in Python"."""

from __future__ import annotations

import math

import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.trials import (
    LEFTOVER,
    LENGTHS,
    counted,
    launched,
    require_close,
    require_parallel,
    require_shared,
)
from gpucourse.wording import a_or_an, many


@exercise(
    "loop-to-kernel",
    hints=(
        "The idea: the launch replaces the loop, so the kernel needs none. Find the `i` that belongs to this "
        "thread, and test whether the arrays have an element `i`.",
        "The shape: `i = cuda.grid(1)`, then `if i < pt.size:` around the line of the loop's body.",
    ),
)
def loop_to_kernel(kernel):
    """Each thread computed its own element, and threads without an element did nothing."""
    random = np.random.default_rng(51)
    for k, n in enumerate(LENGTHS):
        pt, eta = random.uniform(1.0, 60.0, n), random.uniform(-2.5, 2.5, n)
        threads = (64, 96, 256)[k % 3]
        *_, pz = launched(kernel, n // threads + 1, threads, pt, eta, np.full(n, float(LEFTOVER)),
                          reads=2)
        require_close(pz, pt * np.sinh(eta), f"with {many(n, 'muon')}",
                      "compare the line with the loop's body", rtol=1e-12)
    work = counted(kernel, 3, 64, np.ones(129), np.ones(129), np.zeros(129))
    require(
        work.global_stores <= 129,
        f"the answer is right, but 129 elements were stored {many(work.global_stores, 'time')}",
        look="is there still a loop over all elements, in every thread?",
    )
    require_parallel(kernel, 16, 64, np.ones(1009), np.ones(1009), np.zeros(1009), items=1009,
                     look="is there still a loop over all elements, in one thread?")


@exercise(
    "device-function",
    hints=(
        "The idea: angles that differ by 2π are the same direction, and one of them is between -π and π. "
        "Test whether the plain difference is too large or too small.",
        "The shape: subtract 2π after `if difference > math.pi:`, and add 2π after "
        "`elif difference < -math.pi:`.",
    ),
)
def device_function(delta_phi):
    """The angle is in range and has the right sign, even where angles wrap around."""
    from numba import cuda

    require(
        hasattr(delta_phi, "py_func"),
        f"this is {a_or_an(type(delta_phi).__name__)}, not a device function",
        look=("write @cuda.jit(device=True) above the function, and pass its name without "
             "parentheses"),
    )
    require(
        delta_phi.targetoptions.get("device"),
        "this is a kernel, and other kernels cannot call it",
        look="write @cuda.jit(device=True) above the function",
    )

    @cuda.jit
    def call(phi1, phi2, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = delta_phi(phi1[i], phi2[i])

    random = np.random.default_rng(52)
    seam = [(3.1, -3.1), (-3.1, 3.1), (2.0, -2.0), (-2.0, 2.0), (0.5, 0.2), (0.2, 0.5), (1.0, 1.0)]
    pairs = np.concatenate([seam, random.uniform(-math.pi, math.pi, (250, 2))])
    first, second = np.ascontiguousarray(pairs.T)
    *_, got = launched(call, 3, 128, first, second, np.full(len(pairs), float(LEFTOVER)))
    expected = np.remainder(first - second + math.pi, 2 * math.pi) - math.pi
    for phi1, phi2, angle, right in zip(first, second, got, expected, strict=True):
        case = f"phi1 = {phi1:.2f} and phi2 = {phi2:.2f}"
        require(
            abs(angle + right) > 1e-9 or abs(right) < 1e-9,
            f"for {case}, the angle is {angle:.2f}, but it should have the opposite sign",
            look="subtract `phi2` from `phi1`, and keep the sign of the difference",
        )
        require(
            abs(angle) <= math.pi + 1e-9,
            f"for {case}, the angle is {angle:.2f}, which is not between -π and π",
            look="the difference can be too large or too small, so test both ends of the range",
        )
        require(
            abs(angle - right) < 1e-9,
            f"for {case}, the angle is {angle:.4f}, not {right:.4f}",
            look="a full turn is 2π",
        )


@exercise(
    "single-precision",
    hints=(
        "The idea: both constants are Python floats, so they are `float64`. Convert them to `float32` before "
        "you combine them with the array's element.",
        "The shape: `np.float32(0.983) * energy[i] + np.float32(…)`.",
    ),
)
def single_precision(kernel):
    """The result is right to seven digits, and the PTX contains no double precision."""
    random = np.random.default_rng(53)
    for n, threads in ((129, 64), (1, 32), (33, 96)):
        energy = random.uniform(-200.0, 200.0, n).astype(np.float32)
        start = np.full(n, LEFTOVER, np.float32)
        _, out = launched(kernel, n // threads + 1, threads, energy, start, reads=1)
        expected = np.float32(0.983) * energy + np.float32(0.12)
        require_close(out, expected, f"with {n} energies", "compute 0.983 times the energy, plus 0.12",
                      rtol=1e-6, atol=1e-5)
    doubles = [line.strip() for line in _ptx(kernel).splitlines() if _is_double(line)]
    require(
        not doubles,
        f"the answer is right, but {len(doubles)} instructions are in double precision, and the first "
        f"is `{doubles[0] if doubles else ''}`",
        look="find the type of each constant, and of the result of each operation",
    )
    some = np.ones(1009, np.float32)
    require_parallel(kernel, 16, 64, some, some, items=1009, rounds=2,
                     look="let each thread compute one number, as in the lecture's kernels")


@exercise(
    "stencil",
    hints=(
        "The idea: guard the thread's own cell as in `scale_map`. The left and right neighbours always "
        "exist, because `(column + 1) % columns` wraps around. The ones above and below need an `if` each.",
        "The shape: `column, row = cuda.grid(2)`. Inside the guard, `total` starts with the cell "
        "itself, and you add its four neighbours. At the end, `out[row, column] = total / 5`.",
    ),
)
def stencil(kernel):
    """The map is right around the ring and at the edges, and warps lie along the rows."""
    random = np.random.default_rng(54)
    for rows, columns in ((5, 7), (4, 32), (1, 33), (33, 1), (9, 64), (13, 65)):
        # Multiples of 5/4, whose sums and means are exact in any order.
        values = 1.25 * random.integers(-400, 400, (rows, columns))
        blocks = (columns // 32 + 1, rows // 4 + 1)
        start = np.full((rows, columns), float(LEFTOVER))
        _, out = launched(kernel, blocks, (32, 4), values, start, seeds=(1,), reads=1)
        ring = values + np.roll(values, 1, 1) + np.roll(values, -1, 1)
        inside = np.pad(values, ((1, 1), (0, 0)))
        expected = (ring + inside[2:] + inside[:-2]) / 5
        case = f"with {many(rows, 'row')} and {many(columns, 'column')}"
        _judge_map(out, expected, case)
    counts = counted(kernel, (2, 16), (32, 4), values := np.ones((64, 64)), values)
    require(
        counts.global_store_sectors <= 2 * counts.global_store_ideal_sectors,
        f"the map is right, but it fills {many(counts.global_store_ideal_sectors, 'sector')} and the kernel writes "
        f"{counts.global_store_sectors}, because a warp's threads lie in a column",
        look="cuda.grid(2) gives x first, and x should be the column",
    )
    # The lecture's solution makes 6 accesses per cell. A thread at the corner of a tile with a halo
    # makes 12, and 16 if it is also at the edge of the map.
    require_shared(counts, (2, 16), (32, 4), values.size, "let each thread compute one cell", rounds=0,
                   accesses=16)


def _judge_map(out, expected, case):
    rows, _ = expected.shape
    missing = np.argwhere(out == LEFTOVER)
    if len(missing):
        row, column = missing[0]
        require(
            False,
            f"{case}, cell [{row}, {column}] was never written",
            look="the launch has its columns along x, and cuda.grid(2) returns x first. Also check that "
            "the guard leaves out no cell",
        )
    # Multiplication by 0.2 instead of division by 5 changes the last bit.
    wrong = np.argwhere(~np.isclose(out, expected, rtol=1e-12, atol=1e-9))
    if not len(wrong):
        return
    row, column = wrong[0]
    if row in (0, rows - 1):
        where = "there are no cells above the first row and below the last one, and a missing cell counts as 0"
    else:
        where = "the first and the last column are neighbours, and the sum of five cells is divided by 5"
    require(
        False,
        f"{case}, cell [{row}, {column}] is {out[row, column]:g}, not {expected[row, column]:g}",
        look=where,
    )


def _ptx(kernel) -> str:
    """Return the PTX of the kernel for two contiguous float32 arrays."""
    from numba import cuda, float32

    ptx, _ = cuda.compile_ptx(kernel.py_func, (float32[::1], float32[::1]), cc=(9, 0))
    return ptx


def _is_double(line: str) -> bool:
    """Return True if a line of PTX is an instruction on 64-bit floats or a conversion of one."""
    return ".f64" in line and not line.lstrip().startswith((".", "//"))


@exercise(
    "lost-update",
    hints=(
        "The idea: the thread that stores last decides the total. To lose B's update, "
        "A must load before B stores, and A's store must be the last.",
        "The shape: A loads, B takes all its steps, and then A continues. For the totals, either no update is "
        "lost, or A's update is lost, or B's update is lost.",
    ),
)
def lost_update(order, possible):
    """B stored its sum and A overwrote it, which is a race."""
    require(
        isinstance(order, str) and set(order) <= {"A", "B"},
        f"order is {order!r}, but it should be a string of the letters A and B",
    )
    for thread in "AB":
        require(
            order.count(thread) == 3,
            f"{thread} takes {many(order.count(thread), 'step')} in {order!r}",
            look="each thread takes three steps, which load, add and store",
        )
    total = _interleaved(order)
    require(
        total == 11,
        f"with {order!r}, the total is {total}, not 11",
        look="A must store last, and A must load before B stores",
    )
    require(
        isinstance(possible, set | frozenset | list | tuple),
        f"possible is {possible!r}, but it should be a set of totals, such as {{1, 2}}",
    )
    every = {11, 12, 13}
    wrong, missing = set(possible) - every, every - set(possible)
    require(
        not wrong,
        f"no order gives the total {', '.join(map(str, sorted(wrong, key=str)))}",
        look=("the thread that stores last has loaded either 10 or the sum that the other "
             "thread stored"),
    )
    require(
        not missing,
        f"{len(missing)} of the possible totals {'is' if len(missing) == 1 else 'are'} missing",
        look="find the total if one thread runs after the other, and the totals if each of the two updates is lost",
    )


@exercise(
    "check-then-act",
    hints=(
        "The idea: the comparison and the store must be one step. One of the atomics keeps the "
        "larger of the stored value and your value.",
        "The shape: write the bounds guard, and inside it `cuda.atomic.max(array, index, value)`.",
    ),
)
def check_then_act(kernel):
    """The hardest muon was found in every order that was tried, without a race."""
    atomics = counted(kernel, 3, 64, np.ones(129), np.array([-math.inf])).global_atomics
    random = np.random.default_rng(8)
    for n in LENGTHS:
        for low, high in ((3.0, 500.0), (-90.0, -10.0)):
            values = random.uniform(low, high, n)
            best = np.array([-math.inf])
            _, best = launched(kernel, n // 64 + 1, 64, values, best, reads=1)
            expected = values.max(initial=-math.inf)
            require(
                best[0] == expected,
                f"with {many(n, 'value')} between {low:g} and {high:g}, best[0] is {best[0]:g}, but the "
                f"largest value is {expected:g}",
                look="compare every value, and nothing beyond the end of the array",
            )
    require(
        atomics,
        "the answer is right, but no atomic was used, so one thread does the work of all",
        look="let each thread compare its own value",
    )
    require_parallel(kernel, 16, 64, np.ones(1009), np.array([-math.inf]), items=1009,
                     look="let each thread compare its own value")


def _first(indices):
    return int(indices[0]) if len(indices) else 0


def _interleaved(order):
    """Return the total after A (adds 1) and B (adds 2) take their steps in this order, from 10."""
    total, adds, seen, steps = 10, {"A": 1, "B": 2}, {}, {"A": 0, "B": 0}
    for thread in order:
        if steps[thread] == 0:
            seen[thread] = total
        elif steps[thread] == 2:
            total = seen[thread] + adds[thread]
        steps[thread] += 1
    return total
