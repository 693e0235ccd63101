"""Checks and hints of "Thinking in threads"."""

from __future__ import annotations

import math

import numpy as np

from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.trials import (
    LEFTOVER,
    LENGTHS,
    counted,
    launched,
    require_equal,
    require_parallel,
)


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
            case = f"{n} elements and blocks of {threads} threads"
            require(
                blocks == int(blocks) and loose == int(loose),
                f"for {case}, the answer is {blocks} blocks and {loose} loose threads: neither "
                "comes in parts",
                look="`/` or `//`?",
            )
            blocks, loose = int(blocks), int(loose)
            enough = -(-n // threads)
            require(
                blocks * threads >= n,
                f"for {case}, {blocks} blocks have {blocks * threads} threads: "
                f"{n - blocks * threads} elements get none",
                look="do you round up or down?",
            )
            require(
                blocks == enough,
                f"for {case}, {enough} blocks are enough; yours are {blocks}",
                look="what happens when n is an exact multiple of threads?",
            )
            require(
                loose == blocks * threads - n,
                f"for {case}, {blocks} blocks are right, and they have {blocks * threads} "
                f"threads, so {blocks * threads - n} are loose; yours are {loose}",
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
        _, out = launched(kernel, n // 64 + 1, 64, values, out)
        gaps = np.diff(values)
        require(
            not np.array_equal(out, -gaps) or not n > 1,
            f"with {n} values, every gap has the wrong sign",
            look="which of the two is subtracted from which?",
        )
        require_equal(out, gaps, f"with {n} values", "which is the last thread with a gap?")
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
            values = random.integers(-40, 40, n).astype(np.float64)
            cut = 10.0
            counts = np.full(blocks * threads, LEFTOVER, np.int64)
            *_, counts = launched(kernel, blocks, threads, values, cut, counts)
            share = np.arange(n) % (blocks * threads)
            expected = np.bincount(share[values > cut], minlength=blocks * threads)
            case = f"with {n} values and a launch of [{blocks}, {threads}]"
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
                counts.sum() != (values >= cut).sum() or counts.sum() == expected.sum(),
                f"{case}, values equal to the cut are counted too",
                look="above is `>`",
            )
            require(
                counts.sum() == expected.sum(),
                f"{case}, {expected.sum()} values lie above the cut; the threads counted "
                f"{counts.sum()}",
                look="where does a thread start, and how far does it step?",
            )
            require_equal(counts, expected, case, "which elements are this thread's?")
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
            f"{thread} takes {order.count(thread)} steps in {order!r}",
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
            _, best = launched(kernel, n // 64 + 1, 64, values, best)
            expected = values.max(initial=-math.inf)
            require(
                best[0] == expected,
                f"with {n} values between {low:g} and {high:g}, best[0] is {best[0]:g}; the "
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


@exercise(
    "fold",
    hints=(
        "The idea: it is `fold` with another last line. Thread `i` compares its own value with "
        "the one `half` further on, if there is one among the first `n`.",
        "The shape: `half = (n + 1) // 2`; if `i + half < n`, and if `values[i + half]` is closer "
        "to the target (`abs(… - target)`), then `values[i] = values[i + half]`.",
    ),
)
def fold(kernel):
    """The closest one came out on top, for every length."""
    random = np.random.default_rng(9)
    target = 91.1876
    for length in filter(None, LENGTHS):
        for winner in sorted({0, length // 2, length - 1}):
            values = random.uniform(0.0, 80.0, length)
            values[winner] = random.uniform(91.0, 92.0)
            # Beyond the end lies a perfect value, which must not get in.
            memory = np.append(values, target)
            n, level = length, 1
            while n > 1:
                half = (n + 1) // 2
                folded, *_ = launched(kernel, length // 64 + 1, 64, memory, n, target)
                case = f"level {level} of {length} values (n = {n}, half = {half})"
                _judge_level(folded, memory, n, target, case)
                memory, n, level = folded, half, level + 1
            require(
                memory[0] == values[winner],
                f"{length} values: the closest is element {winner}, and another one came out",
                look="does every one of the first n values take part?",
            )
    require_parallel(kernel, 16, 64, np.ones(1009), 1009, target, items=1009,
                     look="each thread compares one pair")


def _judge_level(folded, before, n, target, case):
    half = (n + 1) // 2
    upper = np.append(before[half:n], np.full(2 * half - n, np.inf))
    lower = before[:half]
    expected = np.where(np.abs(upper - target) < np.abs(lower - target), upper, lower)
    require(
        n == len(before) - 1 or target not in folded[:half],
        f"{case}: a value from beyond the first n got in",
        look="the array may be longer than n: which elements count in this level?",
    )
    require(
        target not in folded[:half],
        f"{case}: a value from beyond the first n got in",
        look="with an odd n, one value has no partner",
    )
    wrong = np.flatnonzero(np.abs(folded[:half] - target) != np.abs(expected - target))
    if len(wrong):
        i = wrong[0]
        pair = f"{lower[i]:.4g} and {upper[i]:.4g}" if i + half < n else f"{lower[i]:.4g} alone"
        require(
            False,
            f"{case}: element {i} should come from {pair}, and is {folded[i]:.4g}",
            look="does `half` round up, and is closer measured with abs?",
        )


@exercise(
    "block-max",
    hints=(
        "The idea: `block_sums` with `max` in place of `+`. What must a loose thread put into its "
        "place, so that it never wins, not even among negative values?",
        "The shape: fill (`-math.inf` for a loose thread), barrier, `n = cuda.blockDim.x`, fold "
        "while `n > 1` with a barrier at the end of each level and outside of the `if`, and let "
        "thread 0 write `maxima[cuda.blockIdx.x]`.",
    ),
)
def block_max(kernel):
    """The largest of every block, in every order, with all barriers in their places."""
    counters = counted(kernel, 2, 128, np.ones(256), np.zeros(2))
    random = np.random.default_rng(10)
    for threads in (128, 96, 33, 1):
        for n in LENGTHS:
            values = random.uniform(-90.0, -10.0, n)
            blocks = n // threads + 1
            maxima = np.full(blocks, float(LEFTOVER))
            _, maxima = launched(kernel, blocks, threads, values, maxima)
            padded = np.full(blocks * threads, -math.inf)
            padded[:n] = values
            expected = padded.reshape(blocks, threads).max(axis=1)
            case = f"with {n} values, all negative, in blocks of {threads}"
            require(
                not (maxima == LEFTOVER).any(),
                f"{case}, maxima[{np.argmax(maxima == LEFTOVER)}] was never written",
                look="which thread writes, and when?",
            )
            empty = np.flatnonzero(np.isneginf(expected) & ~np.isneginf(maxima))
            zero = np.flatnonzero(maxima == 0.0)
            require(
                not len(zero),
                f"{case}, maxima[{_first(zero)}] is 0, which is not among them",
                look="what do loose threads put into their places?",
            )
            require(
                not len(empty),
                f"{case}, block {_first(empty)} has no values: its maximum must be minus infinity",
                look="what do loose threads put into their places?",
            )
            require_equal(maxima, expected, case, "does every place take part in the fold?")
    require(
        counters.shared_stores,
        "the answers are right, but shared memory was not used",
        look="each thread puts its value into its place, and the block folds the places",
    )
    require(
        counters.barriers > 2,  # two blocks: more than the one barrier after filling
        "the answers are right, but there is no fold: one thread looks at all the places",
        look="seven levels are enough for 128 places, if all threads take part",
    )
    require_parallel(kernel, 2, 128, np.ones(256), np.zeros(2), items=256,
                     look="all threads take part in each level")


@exercise(
    "lane-turns",
    hints=(
        "The idea: a warp takes as many turns as its busiest lane, and every one of its 32 lanes "
        "is paid for in each. A last warp that is not full pays for 32 lanes too.",
        "The shape: for each slice `work[start:start + 32]`, add `32 * slice.max()` to what is "
        "paid. Useful is the plain sum.",
    ),
)
def lane_turns(count):
    """Useful and paid: the difference is what divergence costs."""
    random = np.random.default_rng(11)
    for n in LENGTHS:
        work = random.poisson(1.4, n)
        useful, paid = pair(count(work.copy()), "two numbers: useful and paid")
        padded = np.append(work, np.zeros(-n % 32, work.dtype)).reshape(-1, 32)
        expected = int(32 * padded.max(axis=1, initial=0).sum())
        case = f"with {n} threads"
        require(
            useful == work.sum(),
            f"{case} that need {work.sum()} turns together, useful is {useful}",
            look="useful turns are those in which a thread works",
        )
        require(
            paid == expected or paid != _without_padding(work),
            f"{case}, the last warp has {n % 32} threads, but pays for 32 lanes",
            look="the hardware has no smaller warps",
        )
        require(
            paid == expected,
            f"{case} in {len(padded)} warps, {expected} turns are paid for; yours are {paid}",
            look="how many turns does a warp take, and how many lanes has it?",
        )


@exercise(
    "turn",
    hints=(
        "The idea: thread (x, y) reads one element into the tile and, after a barrier, writes "
        "*another* one. On both sides the index that changes with `x` must be the last one, so "
        "the tile is filled as `[y, x]` and emptied as `[x, y]`.",
        "The shape: `tile = cuda.shared.array((32, 33), float32)`; guarded, `tile[y, x] = "
        "table[first_i + y, first_j + x]`; a barrier; guarded, `turned[first_j + y, first_i + x] "
        "= tile[x, y]`.",
    ),
)
def turn(kernel):
    """Turned, for any size, side by side in both directions and without a conflict."""
    random = np.random.default_rng(12)
    for rows, columns in ((40, 64), (32, 32), (1, 1), (31, 33), (33, 31), (1, 65), (65, 1)):
        table = random.uniform(1.0, 99.0, (rows, columns)).astype(np.float32)
        start = np.full((columns, rows), LEFTOVER, np.float32)
        blocks = (columns + 31) // 32, (rows + 31) // 32
        _, turned = launched(kernel, blocks, (32, 32), table, start, seeds=(1,))
        case = f"with a table of {rows} × {columns}"
        wrong = np.argwhere(turned != table.T)
        if len(wrong):
            j, i = (int(k) for k in wrong[0])
            found = turned[j, i]
            what = "was never written" if found == LEFTOVER else f"is {found:.4g}"
            require(
                False,
                f"{case}, turned[{j}, {i}] {what}; it should be table[{i}, {j}], {table[i, j]:.4g}",
                look="which element does this thread read, which does it write, and is each "
                "of the two guarded by itself?",
            )
    square = np.ones((64, 64), np.float32)
    counts = counted(kernel, (2, 2), (32, 32), square, square)
    for what, moved, enough in (
        ("reads", counts.global_load_sectors, counts.global_load_ideal_sectors),
        ("writes", counts.global_store_sectors, counts.global_store_ideal_sectors),
    ):
        require(
            moved <= enough,
            f"every element is right, but the {what} move {moved:,} sectors where {enough:,} are "
            "enough",
            look="the last index must be the one that changes with x, on both sides",
        )
    conflicts = counts.shared_load_conflicts + counts.shared_store_conflicts
    require(
        not conflicts,
        f"right, and side by side, but shared memory takes {conflicts:,} turns more than it has "
        "requests",
        look="how far apart in the tile are the words of neighbouring lanes?",
    )


@exercise(
    "warp-max",
    hints=(
        "The idea: every lane must shuffle, so guard the value: a thread beyond the end brings "
        "minus infinity. Then fold with `max` in place of `+`.",
        "The shape: `mine = values[i] if i < values.size else -math.inf`; in the loop over 16, 8, "
        "4, 2, 1: `mine = max(mine, cuda.shfl_down_sync(ALL, mine, k))`; lane 0 writes "
        "`maxima[i // 32]`.",
    ),
)
def warp_max(kernel):
    """The largest of every warp, by shuffles alone, whatever the length."""
    random = np.random.default_rng(13)
    for threads, scale in ((64, 1.0), (32, 1.0), (128, 1.0), (64, 1e306)):
        for n in LENGTHS:
            # What a lane gets from one that does not take part is about -5e303 on the virtual GPU:
            # it loses against -90, and wins against -90e306.
            values = random.uniform(-90.0, -10.0, n) * scale
            blocks = n // threads + 1
            padded = np.full(blocks * threads, -math.inf)
            padded[:n] = values
            expected = padded.reshape(-1, 32).max(axis=1)
            maxima = np.full(expected.size, float(LEFTOVER))
            _, maxima = launched(kernel, blocks, threads, values, maxima)
            case = f"with {n} values, all negative, in blocks of {threads}"
            require(
                not (maxima == LEFTOVER).any(),
                f"{case}, maxima[{np.argmax(maxima == LEFTOVER)}] was never written",
                look="which lane writes, and where? Warps are numbered through the whole grid"
                if 32 * np.argmax(maxima == LEFTOVER) < n
                else "a warp without values has a place too, for minus infinity: guard the value only",
            )
            absurd = ~np.isin(maxima, np.append(values, -math.inf))
            require(
                not absurd.any(),
                f"{case}, maxima[{np.argmax(absurd)}] is {maxima[np.argmax(absurd)]:g}, which is "
                "not among them",
                look="what do threads beyond the end bring?"
                if maxima[np.argmax(absurd)] == 0.0
                else "is the shuffle inside an `if`? Then some lanes take no part in it",
            )
            require_equal(maxima, expected, case, "does every lane shuffle, and every value take part?")
    counts = counted(kernel, 2, 64, np.ones(128), np.zeros(4))
    require(
        not counts.shared_loads and not counts.global_atomics and not counts.shared_stores,
        "the maxima are right, but they were not found by shuffles alone",
        look="no shared memory and no atomics: the lanes hand each other their values",
    )
    require(
        counts.global_loads <= 128,
        f"the maxima are right, but 128 values were loaded {counts.global_loads} times",
        look="each lane loads its own value, and gets the others' by shuffles",
    )


@exercise(
    "occupancy",
    hints=(
        "The idea: work out for each limit how many *blocks* it lets in, rounding down; the "
        "smallest decides. For the registers: how many warps fit into one part, times four parts, "
        "and how many whole blocks are that?",
        "The shape: `of_a_warp = (32 * registers + 255) // 256 * 256`, then "
        "`4 * (16_384 // of_a_warp) // warps` blocks by registers, `233_472 // (shared + 1024)` "
        "by shared memory, 32 at most; `min` of all, times `warps`.",
    ),
)
def occupancy(resident_warps):
    """Every limit is kept, and no block is left out that would fit."""
    for threads, registers, shared, limit in (
        (1024, 32, 0, "64 warps at most"),
        (192, 32, 0, "a block fits whole or not at all"),
        (32, 32, 0, "32 blocks at most"),
        (256, 64, 0, "the registers of four parts"),
        (64, 33, 0, "32 × 33 registers are rounded up to a multiple of 256"),
        (128, 40, 0, "how many warps fit into one part?"),
        (96, 40, 0, "how many warps fit into one part? A block fits whole or not at all"),
        (128, 255, 0, "the registers of four parts"),
        (128, 32, 49_152, "the shared memory of a block"),
        (128, 32, 14_592, "each block takes 1,024 bytes of shared memory more"),
        (1024, 128, 0, "a block that does not fit does not run at all"),
        (512, 128, 102_400, "the smallest of the limits"),
    ):
        answer = resident_warps(threads, registers, shared)
        expected = _resident_warps(threads, registers, shared)
        case = f"blocks of {threads} threads with {registers} registers each"
        case += f" and {shared:,} bytes of shared memory" if shared else ""
        require(
            answer == int(answer),
            f"for {case}, the answer is {answer}: there are no parts of warps",
            look="`/` or `//`?",
        )
        require(
            answer == expected,
            f"for {case}, {expected} warps fit; yours are {int(answer)}",
            look="a warp lives in one of the four parts: how many fit into one, times four?"
            if threads == 64 and answer == 65_536 // (-(-32 * registers // 256) * 256) // 2 * 2
            else limit,
        )


def _resident_warps(threads, registers, shared):
    """Warps on a multiprocessor of compute capability 9.0, by counting blocks in until one fails."""
    block = threads // 32
    blocks = 0
    per_part = 16_384 // (-(-32 * registers // 256) * 256)
    while (
        (blocks + 1) * block <= min(64, 4 * per_part)
        and blocks + 1 <= 32
        and (blocks + 1) * (shared + 1024) <= 233_472
    ):
        blocks += 1
    return blocks * block


def _without_padding(work):
    """What is paid if a last, short warp paid only for its own lanes."""
    warps = [work[start : start + 32] for start in range(0, len(work), 32)]
    return sum(len(warp) * int(warp.max()) for warp in warps)


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
