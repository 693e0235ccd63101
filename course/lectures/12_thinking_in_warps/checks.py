"""Checks and hints of "Thinking in warps"."""

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
    require_shared,
)
from gpucourse.wording import many


@exercise(
    "lane-turns",
    hints=(
        "The idea: a warp makes as many iterations as its busiest lane, and every one of its 32 lanes "
        "is paid for in each. A last warp that is not full pays for 32 lanes too.",
        "The shape: for each slice `work[start:start + 32]`, add `32 * slice.max()` to what is "
        "paid. Useful is the plain sum.",
    ),
)
def lane_turns(count):
    """Both counts are right: their difference is what divergence costs."""
    random = np.random.default_rng(11)
    for n in LENGTHS:
        work = random.poisson(1.4, n)
        useful, paid = pair(count(work.copy()), "two numbers: useful and paid")
        padded = np.append(work, np.zeros(-n % 32, work.dtype)).reshape(-1, 32)
        expected = int(32 * padded.max(axis=1, initial=0).sum())
        case = f"with {many(n, 'thread')}"
        require(
            useful == work.sum(),
            f"{case} that need {many(work.sum(), 'iteration')} together, useful is {useful}",
            look="count as useful the iterations in which a thread works",
        )
        require(
            paid == expected or paid != _without_padding(work),
            f"{case}, the last warp has {n % 32} threads, but pays for 32 lanes",
            look="count 32 lanes for it: the hardware has no smaller warps",
        )
        require(
            paid == expected,
            f"{case} in {many(len(padded), 'warp')}, {many(expected, 'iteration')} are paid for; yours are {paid}",
            look="how many iterations does a warp make, and how many lanes has it?",
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
    """The table is transposed for every size, with reads and writes side by side and without a bank conflict."""
    random = np.random.default_rng(12)
    for rows, columns in ((40, 64), (32, 32), (1, 1), (31, 33), (33, 31), (1, 65), (65, 1)):
        table = random.uniform(1.0, 99.0, (rows, columns)).astype(np.float32)
        start = np.full((columns, rows), LEFTOVER, np.float32)
        blocks = (columns + 31) // 32, (rows + 31) // 32
        _, turned = launched(kernel, blocks, (32, 32), table, start, seeds=(1,), reads=1,
                             twice="the element that is written needs a guard of its own: do its row and its "
                                   "column exist in `turned`?")
        case = f"with a table of {rows} × {columns}"
        wrong = np.argwhere(turned != table.T)
        if len(wrong):
            j, i = (int(k) for k in wrong[0])
            what = held(turned[j, i], table[i, j], digits=4)
            require(
                False,
                f"{case}, turned[{j}, {i}] {what}; it should be table[{i}, {j}], {table[i, j]:.4g}",
                look="which element does this thread read, which does it write, and is each "
                "of the two guarded by itself?",
            )
    # Whole tiles, so many of them that no kernel is made for their number.
    down, across = np.random.default_rng().permutation([2, 3, 4, 5]).tolist()[:2]
    ones = np.ones((32 * down, 32 * across), np.float32)
    counts = counted(kernel, (across, down), (32, 32), ones, np.ascontiguousarray(ones.T))
    require_shared(counts, (across, down), (32, 32), ones.size, "a tile for each block", rounds=0)
    for what, moved, enough in (
        ("reads", counts.global_load_sectors, counts.global_load_ideal_sectors),
        ("writes", counts.global_store_sectors, counts.global_store_ideal_sectors),
    ):
        require(
            moved <= enough,
            f"every element is right, but the {what} move {many(moved, 'sector')} where {enough:,} are "
            "enough",
            look="make the last index the one that changes with x, in the load and in the store",
        )
    conflicts = counts.shared_load_conflicts + counts.shared_store_conflicts
    require(
        not conflicts,
        f"right, and side by side, but shared memory takes {conflicts:,} wavefronts more than it has "
        "requests",
        look="how far apart in the tile are the words of neighbouring lanes?",
    )


@exercise(
    "warp-max",
    hints=(
        "The idea: every lane must shuffle, so guard the value: a thread beyond the end contributes minus "
        "infinity. Then fold with `max` in place of `+`.",
        "The shape: `mine = values[i] if i < values.size else -math.inf`; in the loop over 16, 8, "
        "4, 2, 1: `mine = max(mine, cuda.shfl_down_sync(ALL, mine, k))`; lane 0 writes "
        "`maxima[i // 32]`.",
    ),
)
def warp_max(kernel):
    """The largest value of every warp is right for every length, by shuffles alone."""
    random = np.random.default_rng(13)
    for threads, high, scale in (
        (64, -10.0, 1.0), (32, -10.0, 1.0), (128, -10.0, 1.0), (64, -10.0, 1e306), (64, 90.0, 1.0),
    ):
        for n in LENGTHS:
            # What a lane gets from one that does not take part is about -5e303 on the virtual GPU:
            # it loses against -90, and wins against -90e306.
            values = random.uniform(-90.0, high, n) * scale
            blocks = n // threads + 1
            padded = np.full(blocks * threads, -math.inf)
            padded[:n] = values
            expected = padded.reshape(-1, 32).max(axis=1)
            maxima = np.full(expected.size, float(LEFTOVER))
            _, maxima = launched(kernel, blocks, threads, values, maxima, reads=1)
            signs = "all negative" if high < 0 else "of both signs"
            case = f"with {many(n, 'value')}, {signs}, in blocks of {threads}"
            require(
                not (maxima == LEFTOVER).any(),
                f"{case}, maxima[{np.argmax(maxima == LEFTOVER)}] was never written",
                look=("which lane writes, and at which index? Warps are numbered through the whole "
                "grid")
                if 32 * np.argmax(maxima == LEFTOVER) < n
                else ("a warp without values also writes its element, with minus infinity: guard "
                "only the load of the value"),
            )
            absurd = ~np.isin(maxima, np.append(values, -math.inf))
            require(
                not absurd.any(),
                f"{case}, maxima[{np.argmax(absurd)}] is {maxima[np.argmax(absurd)]:g}, which is "
                "not among them",
                look="what value do threads beyond the end contribute?"
                if maxima[np.argmax(absurd)] == 0.0
                else "is the shuffle inside an `if`? Then some lanes do not take part in it",
            )
            require_equal(maxima, expected, case, "does every lane shuffle, and every value take part?")
    counts = counted(kernel, 2, 64, np.ones(128), np.zeros(4))
    require(
        not counts.shared_loads and not counts.global_atomics and not counts.shared_stores,
        "the maxima are right, but they were not found by shuffles alone",
        look=("use neither shared memory nor atomics: the lanes pass their values to each "
             "other with shuffles"),
    )
    require(
        counts.global_loads <= 128,
        f"the maxima are right, but 128 values were loaded {many(counts.global_loads, 'time')}",
        look="let each lane load its own value, and get the other values with shuffles",
    )
    require_shared(counts, (2,), (64,), 128, "five rounds are enough for 32 lanes", tree=True)
    require_shared(counts, (2,), (64,), 128, ("let each lane load its own value, and get the other values with shuffles"),
                   rounds=1)


@exercise(
    "occupancy",
    hints=(
        "The idea: compute for each limit how many *blocks* it allows, rounding down. The smallest number "
        "decides. For the registers, find out how many warps fit into one part, multiply by four "
        "parts, and ask how many whole blocks that makes.",
        "The shape: `of_a_warp = (32 * registers + 255) // 256 * 256`, then "
        "`4 * (16_384 // of_a_warp) // warps` blocks by registers, `233_472 // (shared + 1024)` "
        "by shared memory, 32 at most; `min` of all, times `warps`.",
    ),
)
def occupancy(resident_warps):
    """Every limit is respected, and every block that fits is counted."""
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
        *((32 * int(warps), int(registers), 128 * int(lines), "the smallest of the limits")
          for warps, registers, lines in np.random.default_rng().integers(
              (1, 16, 0), (33, 256, 700), (20, 3))),
    ):
        answer = resident_warps(threads, registers, shared)
        expected = _resident_warps(threads, registers, shared)
        case = f"blocks of {many(threads, 'thread')} with {registers} registers each"
        case += f" and {many(shared, 'byte')} of shared memory" if shared else ""
        require(
            answer == int(answer),
            f"for {case}, the answer is {answer}: there are no parts of warps",
            look="is the division `/`, or `//` as it should be?",
        )
        require(
            answer == expected,
            f"for {case}, {many(expected, 'warp')} fit; yours are {int(answer)}",
            look=("each warp belongs to one of the four parts: how many warps fit into one "
                "part? Multiply that by four")
            if threads == 64 and answer == 65_536 // (-(-32 * registers // 256) * 256) // 2 * 2
            else limit,
        )


@exercise(
    "tiled-matmul",
    hints=(
        "The idea: keep the loop and its two barriers for every thread. Guard each of the two loads by "
        "itself (they reach the edge of the matrix at different places), and the final store.",
        "The shape: `tile_a[y, x] = a[row, start + x] if row < a.shape[0] and start + x < "
        "a.shape[1] else 0`, likewise for `tile_b` with `start + y` and `column`; the sum as "
        "before; an `if` around the store.",
    ),
)
def tiled_matmul(kernel):
    """Right for every shape that was tried, through shared memory, and no race was found."""
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
        look="let each thread load one number of each tile, so that the block shares them",
    )
    # The answer of the lecture makes 115 accesses an element; a sum kept in `product` adds 96.
    require_shared(counts, (3, 3), (16, 16), a.size,
                   "each thread loads its number of each tile, and makes one element", rounds=0,
                   accesses=240)


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
