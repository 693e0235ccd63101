"""Checks and hints of "Numba CUDA: kernels in Python"."""

from __future__ import annotations

import math

import numpy as np

from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.trials import (
    LEFTOVER,
    LENGTHS,
    counted,
    held,
    launched,
    require_equal,
    require_parallel,
    require_shared,
)
from virtualgpu.api import a_or_an, many


@exercise(
    "loop-to-kernel",
    hints=(
        "The idea: the launch is the loop, so the kernel has none. Which `i` is this thread's, and "
        "do the arrays have an element `i`?",
        "The shape: `i = cuda.grid(1)`, then `if i < pt.size:` around the line of the loop's body.",
    ),
)
def loop_to_kernel(kernel):
    """Each thread did its own element, and the loose threads did nothing."""
    random = np.random.default_rng(51)
    for k, n in enumerate(LENGTHS):
        pt, eta = random.uniform(1.0, 60.0, n), random.uniform(-2.5, 2.5, n)
        threads = (64, 96, 256)[k % 3]
        *_, pz = launched(kernel, n // threads + 1, threads, pt, eta, np.full(n, float(LEFTOVER)),
                          reads=2)
        _close(pz, pt * np.sinh(eta), f"with {many(n, 'muon')}", "compare the line with the loop's body")
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
        "The idea: of the two angles that differ by 2π, one lies between -π and π. When is the "
        "plain difference too large, and when too small?",
        "The shape: `if difference > math.pi:` take 2π away, `elif difference < -math.pi:` add "
        "it. Nothing else changes.",
    ),
)
def device_function(delta_phi):
    """In range, with its sign, on both sides of the seam."""
    from numba import cuda

    require(
        hasattr(delta_phi, "py_func"),
        f"this is {a_or_an(type(delta_phi).__name__)}, not a device function",
        look="@cuda.jit(device=True) above the function, and its name without parentheses",
    )
    require(
        delta_phi.targetoptions.get("device"),
        "this is a kernel: other kernels cannot call it",
        look="@cuda.jit(device=True)",
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
            f"for {case}, the angle is {angle:.2f}; its sign should be the other one",
            look="which is subtracted from which, and is the sign lost on the way?",
        )
        require(
            abs(angle) <= math.pi + 1e-9,
            f"for {case}, the angle is {angle:.2f}, which is not between -π and π",
            look="the difference can leave the range on both sides",
        )
        require(
            abs(angle - right) < 1e-9,
            f"for {case}, the angle is {angle:.4f}, not {right:.4f}",
            look="a full turn is 2π",
        )


@exercise(
    "single-precision",
    hints=(
        "The idea: both constants are Python floats, and so `float64`. Make them `float32` before "
        "they meet the array's element.",
        "The shape: `np.float32(0.983) * energy[i] + np.float32(…)`.",
    ),
)
def single_precision(kernel):
    """Right to seven digits, and no double precision in the PTX."""
    random = np.random.default_rng(53)
    for n, threads in ((129, 64), (1, 32), (33, 96)):
        energy = random.uniform(-200.0, 200.0, n).astype(np.float32)
        start = np.full(n, LEFTOVER, np.float32)
        _, out = launched(kernel, n // threads + 1, threads, energy, start, reads=1)
        expected = np.float32(0.983) * energy + np.float32(0.12)
        _close(out, expected, f"with {n} energies", "0.983 times the energy, plus 0.12", 1e-6, 1e-5)
    doubles = [line.strip() for line in _ptx(kernel).splitlines() if _is_double(line)]
    require(
        not doubles,
        f"the answer is right, but {len(doubles)} instructions are in double precision; the first "
        f"is `{doubles[0] if doubles else ''}`",
        look="of which type is each constant, and of which the result of each operation?",
    )
    some = np.ones(1009, np.float32)
    require_parallel(kernel, 16, 64, some, some, items=1009, rounds=2,
                     look="each thread makes one number, as in the lecture's kernels")


@exercise(
    "stencil",
    hints=(
        "The idea: guard the thread's own cell as in `scale_map`. Left and right always exist, "
        "for `(column + 1) % columns` comes round; above and below need an `if` each.",
        "The shape: `column, row = cuda.grid(2)`; inside the guard, `total` starts with the cell "
        "itself and takes its four neighbours; at the end `out[row, column] = total / 5`.",
    ),
)
def stencil(kernel):
    """The right map, round the ring and up to the edge, with warps along the rows."""
    random = np.random.default_rng(54)
    for rows, columns in ((5, 7), (4, 32), (1, 33), (33, 1), (9, 64), (13, 65)):
        # Multiples of 5/4: sums and means are exact in any order.
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
        f"the map is right, but its {many(counts.global_store_ideal_sectors, 'sector')} are written in "
        f"{counts.global_store_sectors} pieces: a warp's threads lie in a column",
        look="cuda.grid(2) gives x first, and x should be the column",
    )
    # The answer of the lecture makes 6 accesses a cell; a thread at the corner of a tile with a
    # halo makes 12, and 16 where the map ends there too.
    require_shared(counts, (2, 16), (32, 4), values.size, "each thread makes one cell", rounds=0,
                   accesses=16)


def _judge_map(out, expected, case):
    rows, _ = expected.shape
    missing = np.argwhere(out == LEFTOVER)
    if len(missing):
        row, column = missing[0]
        require(
            False,
            f"{case}, cell [{row}, {column}] was never written",
            look="the launch has its columns along x: which does cuda.grid(2) give first? and "
            "which cells does the guard leave out?",
        )
    # Who multiplies by 0.2 is off by a bit.
    wrong = np.argwhere(~np.isclose(out, expected, rtol=1e-12, atol=1e-9))
    if not len(wrong):
        return
    row, column = wrong[0]
    if row in (0, rows - 1):
        where = "above the first row and below the last there is nothing, which counts as 0"
    else:
        where = "the first and the last column are neighbours; five cells, divided by 5"
    require(
        False,
        f"{case}, cell [{row}, {column}] is {out[row, column]:g}, not {expected[row, column]:g}",
        look=where,
    )


@exercise(
    "tiled-matmul",
    hints=(
        "The idea: keep the loop and its two barriers for every thread. Guard each of the two "
        "loads by itself (they leave the matrix at different places), and the final store.",
        "The shape: `tile_a[y, x] = a[row, start + x] if row < a.shape[0] and start + x < "
        "a.shape[1] else 0`, likewise for `tile_b` with `start + y` and `column`; the sum as "
        "before; an `if` around the store.",
    ),
)
def tiled_matmul(kernel):
    """Right for every shape, through shared memory, with both barriers."""
    random = np.random.default_rng(55)
    for rows, inner, columns in ((17, 33, 31), (16, 16, 16), (1, 1, 1), (5, 40, 20), (40, 3, 7)):
        # Small numbers of halves: products are exact in any order.
        a = random.integers(-9, 10, (rows, inner)).astype(np.float32) / 2
        b = random.integers(-9, 10, (inner, columns)).astype(np.float32) / 2
        start = np.full((rows, columns), LEFTOVER, np.float32)
        blocks = ((columns + 15) // 16, (rows + 15) // 16)
        *_, product = launched(kernel, blocks, (16, 16), a, b, start, seeds=(3,), reads=2)
        case = f"({rows} × {inner}) times ({inner} × {columns})"
        require_equal(product.ravel(), (a @ b).ravel(), case, "what do the tiles hold outside?")
    a = np.ones((48, 48), np.float32)
    counts = counted(kernel, (3, 3), (16, 16), a, a, a)
    require(
        counts.shared_loads and counts.global_loads <= 3 * a.size * 2,
        f"the product is right, but {many(counts.global_loads, 'number')} were loaded from global "
        f"memory where {3 * a.size * 2:,} are enough",
        look="each thread loads one number of each tile, and the block shares them",
    )
    # The answer of the lecture makes 115 accesses an element; a sum kept in `product` adds 96.
    require_shared(counts, (3, 3), (16, 16), a.size,
                   "each thread loads its number of each tile, and makes one element", rounds=0,
                   accesses=240)


def _close(got, expected, case, look, tolerance=1e-12, least=0.0):
    """Require floats equal to a relative tolerance or a least one, and name the first that is not."""
    wrong = np.flatnonzero(~np.isclose(got, expected, rtol=tolerance, atol=least))
    if not len(wrong):
        return
    k = wrong[0]
    if got[k] == LEFTOVER:
        require(False, f"{case}, element {k} was never written", look="which thread has it?")
    require(False, f"{case}, element {k} {held(got[k], expected[k])}, not {expected[k]:.6g}", look=look)


def _ptx(kernel) -> str:
    """PTX of the kernel for two contiguous float32 arrays."""
    from numba import cuda, float32

    ptx, _ = cuda.compile_ptx(kernel.py_func, (float32[::1], float32[::1]), cc=(9, 0))
    return ptx


def _is_double(line: str) -> bool:
    """Whether a line of PTX is an instruction on 64-bit floats, conversions included."""
    return ".f64" in line and not line.lstrip().startswith((".", "//"))


@exercise(
    "launch-shape",
    hints=(
        "The idea: `n / threads` blocks, but a part of a block is not to be had, so round up. The "
        "loose threads are those that are started beyond `n`.",
        "The shape: `//` rounds down. Add `threads - 1` to `n` before you divide, and only an "
        "exact multiple stays where it is.",
    ),
)
def launch_shape(shape):
    """Enough blocks for every element, and not one more."""
    for threads in (128, 1, 32, 96, 1024):
        for n in (*LENGTHS, 71_009, 1_000_000):
            blocks, loose = pair(shape(n, threads), "two numbers: blocks and loose threads")
            case = f"{many(n, 'element')} and blocks of {many(threads, 'thread')}"
            require(
                blocks == int(blocks) and loose == int(loose),
                f"for {case}, the answer is {many(blocks, 'block')} and {many(loose, 'loose thread')}: "
                "neither comes in parts",
                look="`/` or `//`?",
            )
            blocks, loose = int(blocks), int(loose)
            enough = -(-n // threads)
            require(
                blocks * threads >= n,
                f"for {case}, {many(blocks, 'block')} of {many(threads, 'thread')} "
                f"{'is' if blocks == 1 else 'are'} too few: "
                f"{many(n - blocks * threads, 'element')} without a thread",
                look="do you round up or down?",
            )
            require(
                blocks == enough,
                f"for {case}, {many(enough, 'block')} will do; you have {blocks}",
                look="what happens when n is an exact multiple of threads?",
            )
            require(
                loose == blocks * threads - n,
                f"for {case}, {many(blocks, 'block')} will do, of {many(blocks * threads, 'thread')} "
                f"in all: {blocks * threads - n} loose ones; you have {loose}",
                look="how many threads are started, and how many have an element?",
            )


@exercise(
    "bounds-guard",
    hints=(
        "The idea: which elements does thread `i` touch, and which of them has the highest index? "
        "That one must exist.",
        "The shape: `if i + 1 < values.size:` around the one line that subtracts.",
    ),
)
def bounds_guard(kernel):
    """Every gap is there, and no thread reached past the end."""
    random = np.random.default_rng(6)
    for n in LENGTHS:
        values = random.normal(0.0, 50.0, n)
        out = np.full(max(n - 1, 0), float(LEFTOVER))
        _, out = launched(kernel, n // 64 + 1, 64, values, out, reads=1)
        gaps = np.diff(values)
        require(
            not np.array_equal(out, -gaps) or not n > 1,
            f"with {many(n, 'value')}, every gap has the wrong sign",
            look="which of the two is subtracted from which?",
        )
        require_equal(out, gaps, f"with {many(n, 'value')}", "which is the last thread with a gap?")
    require_parallel(kernel, 16, 64, np.ones(1009), np.zeros(1008), items=1009,
                     look="each thread makes one gap")


@exercise(
    "grid-stride",
    hints=(
        "The idea: the loop of `partial_sums`, but it counts instead of adding. Count in a "
        "variable of the thread's own, and write it once, at the end.",
        "The shape: `mine = 0`, then `for i in range(me, values.size, cuda.gridsize(1)):` with an "
        "`if` inside, then `counts[me] = mine` after the loop.",
    ),
)
def grid_stride(kernel):
    """Each value was counted once, by the thread whose turn it was, whatever the launch."""
    random = np.random.default_rng(7)
    for blocks, threads in ((2, 64), (1, 32), (3, 33), (1, 1), (5, 128)):
        for n in LENGTHS:
            values = random.integers(-80, 80, n) / 2
            cut = random.integers(-60, 60) / 2
            counts = np.full(blocks * threads, LEFTOVER, np.int64)
            *_, counts = launched(kernel, blocks, threads, values, cut, counts, reads=1)
            above = (values > cut).sum()
            case = f"with {many(n, 'value')} and a launch of [{blocks}, {threads}]"
            added = np.flatnonzero((counts < 0) & (counts != LEFTOVER))
            require(
                not len(added),
                f"{case}, counts[{_first(added)}] is {counts[_first(added)]}",
                look="counts holds anything before the launch: do you add to it?",
            )
            untouched = np.flatnonzero(counts == LEFTOVER)
            require(
                not len(untouched),
                f"{case}, counts[{_first(untouched)}] was never written",
                look="every thread must write, also one that has no values to count",
            )
            require(
                counts.sum() != (values >= cut).sum() or counts.sum() == above,
                f"{case}, values equal to the cut are counted too",
                look="above is `>`",
            )
            require(
                counts.sum() == above,
                f"{case}, above the cut: {many(above, 'value')}; the threads counted "
                f"{counts.sum()}",
                look="where does a thread start, and how far does it step?",
            )
            # Which elements a share has is the learner's: every so-many-th, or neighbours.
            share = -(-n // (blocks * threads))
            require(
                counts.max() <= share,
                f"{case}, counts[{counts.argmax()}] is {counts.max()}; an even share has {share} "
                "values at most",
                look="which elements are this thread's?",
            )
    require_parallel(kernel, 2, 64, np.ones(1009), 0.5, np.zeros(128, np.int64), items=1009,
                     look="each thread counts in its own share, and writes its own count")


@exercise(
    "lost-update",
    hints=(
        "The idea: the thread that stores last wins, whatever the other did. To lose B's update, "
        "A must not know of it: A loads before B stores. And B's store must not be the last.",
        "The shape: A loads, B does all its steps, A goes on. For the totals: nothing lost, A's "
        "lost, B's lost.",
    ),
)
def lost_update(order, possible):
    """B stored, and A stored over it. That is all a race is."""
    require(
        isinstance(order, str) and set(order) <= {"A", "B"},
        f"order is {order!r}: write a string of the letters A and B",
    )
    for thread in "AB":
        require(
            order.count(thread) == 3,
            f"{thread} takes {many(order.count(thread), 'step')} in {order!r}",
            look="each thread takes three: load, add, store",
        )
    total = _interleaved(order)
    require(
        total == 11,
        f"{order!r} ends at {total}, not at 11",
        look="who stores last, and had that thread loaded before the other stored?",
    )
    require(
        isinstance(possible, set | frozenset | list | tuple),
        f"possible is {possible!r}: write a set of totals, such as {{1, 2}}",
    )
    every = {11, 12, 13}
    wrong, missing = set(possible) - every, every - set(possible)
    require(
        not wrong,
        f"no order ends at {', '.join(map(str, sorted(wrong, key=str)))}",
        look="whoever stores last has loaded 10, or what the other stored",
    )
    require(
        not missing,
        f"{len(missing)} of the possible totals {'is' if len(missing) == 1 else 'are'} missing",
        look="try one after the other, and each of the two updates lost",
    )


@exercise(
    "check-then-act",
    hints=(
        "The idea: looking and storing must be one step. There is an atomic that keeps the larger "
        "of what is there and what you bring.",
        "The shape: the bounds guard, and inside it `cuda.atomic.max(array, index, value)`.",
    ),
)
def check_then_act(kernel):
    """The hardest, in every order, and no race."""
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
                f"with {many(n, 'value')} between {low:g} and {high:g}, best[0] is {best[0]:g}; the "
                f"largest is {expected:g}",
                look="does every value get its chance, and nothing that is not a value?",
            )
    require(
        atomics,
        "the answer is right, but no atomic was used: one thread does what all should do",
        look="each thread brings its own value",
    )
    require_parallel(kernel, 16, 64, np.ones(1009), np.array([-math.inf]), items=1009,
                     look="each thread brings its own value")


def _first(indices):
    return int(indices[0]) if len(indices) else 0


def _interleaved(order):
    """The total after A (adds 1) and B (adds 2) load, add and store in this order, from 10."""
    total, adds, seen, steps = 10, {"A": 1, "B": 2}, {}, {"A": 0, "B": 0}
    for thread in order:
        if steps[thread] == 0:
            seen[thread] = total
        elif steps[thread] == 2:
            total = seen[thread] + adds[thread]
        steps[thread] += 1
    return total
