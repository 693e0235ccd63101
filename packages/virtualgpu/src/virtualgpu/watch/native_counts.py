"""Counts of ``profile()`` from native code (:mod:`virtualgpu.native.counting`).

Accesses that native code does not count are passed here warp by warp, to the loops that also count
for the interpreter. At the end, the tables become counters for each line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from virtualgpu.compilers.loops import I64, U32, U64, compiled
from virtualgpu.lanes.events import WatchedLaunch
from virtualgpu.memory.windows import WINDOW
from virtualgpu.native.context import LANES
from virtualgpu.native.counting import (
    ACCESSES,
    BRANCHES,
    HERE,
    HOTTEST,
    LEAST,
    MOVED,
    PARTED,
    PLACE_WORDS,
    REQUESTS,
    SITE_WORDS,
    SPACES,
    WARPS,
    Counts,
)
from virtualgpu.ptx.opcodes import BARRIERS, FENCES
from virtualgpu.watch.counters import add_access
from virtualgpu.watch.memory_traffic import WORD, banks, contention, sectors

if TYPE_CHECKING:
    from virtualgpu.native.compiled import NativeKernel

# These follow the table of allocations: the block whose shared words are counted, the position of
# its words among all words, and their number.
_SHARED_WORDS = 3


@compiled
def updates(addresses: U64, count: int, space: int, block: int, extents: I64, hot: U32) -> int:
    """Count atomic updates per word; return the largest number for one of these words.

    ``extents`` begins with the number of allocations, their starts, their ends and their first
    words in ``hot``. _SHARED_WORDS numbers follow.
    """
    many = extents[0]
    most = 0
    if space == 1 and extents[1 + 3 * many] != block:
        extents[1 + 3 * many] = block
        for word in range(extents[3 + 3 * many]):
            hot[extents[2 + 3 * many] + word] = 0
    for i in range(count):
        at = extents[2 + 3 * many] + addresses[i] // WORD
        if space == 0:
            low = 0
            high = many
            while low < high:
                middle = (low + high) >> 1
                if extents[1 + middle] <= addresses[i]:
                    low = middle + 1
                else:
                    high = middle
            at = extents[2 * many + low] + (addresses[i] - extents[low]) // WORD
        hot[at] += 1
        if hot[at] > most:
            most = hot[at]
    return most


@compiled
def count_apart(
    sites: I64,
    addresses: U64,
    extents: I64,
    hot: U32,
    own: U64,
    lanes: I64,
    zeros: I64,
    iota: I64,
    seen: U64,
    more: U64,
    many: I64,
    result: I64,
    row: int,
    space: int,
    mask: int,
    size: int,
    atomic: int,
    block: int,
) -> int:
    """Count one access of a warp's lanes to scattered addresses."""
    count = 0
    for lane in range(LANES):
        if (mask >> lane) & 1:
            own[count] = addresses[lane]
            if space == 1:
                own[count] = addresses[lane] & (WINDOW - 1)
            lanes[count] = lane
            count += 1
    first = row * SITE_WORDS
    sites[first + ACCESSES] += count
    for i in range(4):
        result[i] = 0
    if space == 2:
        return 0
    if atomic:
        contention(own, lanes, zeros, count, seen, many, result)
        if result[2] > sites[first + LEAST]:
            sites[first + LEAST] = result[2]
        most = updates(own, count, space, block, extents, hot)
        if most > sites[first + HOTTEST]:
            sites[first + HOTTEST] = most
        for i in range(LANES):
            many[i] = 0
    else:
        if space == 0:
            sectors(own, lanes, zeros, count, size, seen, more, result)
        else:
            share = LANES
            if size > WORD:
                share = 128 // size
            banks(own, lanes, zeros, iota, count, size, share, seen, many, result)
        sites[first + LEAST] += result[2]
    sites[first + REQUESTS] += result[0]
    sites[first + MOVED] += result[1]
    return 0


@compiled
def most(work: I64, count: int) -> int:
    """Return the largest of the first ``count`` numbers, and reset them to 0."""
    largest = 0
    for i in range(count):
        if work[i] > largest:
            largest = work[i]
        work[i] = 0
    return largest


@compiled
def end_stretch(instructions: I64, accesses: I64, span: I64, warps: int, ended: int) -> int:
    """Count a block that passes a barrier or has ended, as :class:`.work_shares.Shares` does."""
    done = most(instructions, warps)
    reached = most(accesses, warps)
    if ended == 0:
        if done == 0:
            done = 1
        if reached == 0:
            reached = 1
    span[0] += done
    span[1] += reached
    if ended:
        if span[0] > span[2]:
            span[2] = span[0]
        if span[1] > span[3]:
            span[3] = span[1]
        span[0] = 0
        span[1] = 0
    return 0


def tables(
    launch: WatchedLaunch, kernel: NativeKernel, first: int, hot: dict[object, np.ndarray]
) -> Counts:
    """Return the tables for a run of the blocks from ``first`` on.

    ``hot`` holds the updates of each word so far, by allocation.
    """
    threads = (launch.blocks - first) * launch.threads + LANES
    warps = -(-launch.threads // LANES)
    extents, words = _words_of_memory(launch, kernel, hot)
    sites = np.zeros((len(kernel.sites), len(SPACES), SITE_WORDS), np.int64)
    rooms = [sites, extents, words, *(np.zeros(2 * LANES, np.int64) for _ in range(8))]
    own, lanes, zeros, iota, seen, more, many, result = rooms[3:]
    iota[:] = np.arange(2 * LANES)
    return Counts(
        np.zeros((len(kernel.places), PLACE_WORDS), np.int64),
        sites,
        np.zeros(threads, np.uint32),
        np.zeros(threads, np.uint32),
        np.zeros(len(kernel.places) + 1, np.int64),
        np.zeros(warps, np.int64),
        np.zeros(warps, np.int64),
        np.zeros(4, np.int64),
        first * launch.threads,
        [sites, extents, words, own, lanes, zeros, iota, seen, more, many, result],
        count_apart.address(),
        end_stretch.address(),
    )


def _words_of_memory(
    launch: WatchedLaunch, kernel: NativeKernel, hot: dict[object, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tables of :func:`updates`."""
    if not any(step.site.kind == "atomic" for step, _ in kernel.sites):
        return np.zeros(1 + _SHARED_WORDS, np.int64), np.zeros(1, np.uint32)
    live = launch.memory.starts, launch.memory.ends
    starts, ends = (np.array(one, np.int64) for one in live)
    sizes = (ends - starts) // WORD + 1
    firsts = np.concatenate(([0], np.cumsum(sizes)))
    shared = launch.shared_bytes // WORD + 1
    words = np.zeros(firsts[-1] + shared, np.uint32)
    for start, at in zip(live[0], firsts, strict=False):
        if (known := hot.get(start)) is not None:
            words[at : at + len(known)] = known
    return np.concatenate(
        ([len(starts)], starts, ends, firsts[:-1], [-1, firsts[-1], shared])
    ), words


# -- from tables to counters -----------------------------------------------------------------------


def executed(kernel: NativeKernel, counts: Counts) -> Iterable[tuple[Any, int, int]]:
    """Yield each place's instructions, and the number of warps and lanes that ran them."""
    for place, row in zip(kernel.places, counts.places, strict=True):
        if row[WARPS]:
            yield place.block.instructions, int(row[WARPS]), int(row[HERE])


def add_branches(kernel: NativeKernel, counts: Counts, of: Any) -> None:
    """Add a kernel's branches, barriers and fences to the counters ``of(instruction)``."""
    barriers = [place for place in kernel.places if place.block.kind == "barrier"]
    for place, row in zip(kernel.places, counts.places, strict=True):
        block = place.block
        if row[BRANCHES]:
            of(block.last).branches += int(row[BRANCHES])
            of(block.last).divergent_branches += int(row[PARTED])
        for instruction in block.instructions if row[WARPS] else ():
            if instruction.opcode in FENCES:
                of(instruction).fences += int(row[WARPS])
            elif instruction.opcode in BARRIERS and "warp" in instruction.modifiers:
                of(instruction).warp_barriers += int(row[WARPS]) * (instruction.opcode == "bar")
    for number, place in enumerate(barriers, 1):
        if counts.passes[number]:
            of(place.block.last).barriers += int(counts.passes[number])


def add_accesses(kernel: NativeKernel, counts: Counts, of: Any) -> None:
    for (step, _), spaces in zip(kernel.sites, counts.sites, strict=True):
        for space, row in zip(SPACES, spaces.tolist(), strict=True):
            if row[ACCESSES]:
                site = step.site
                add_access(
                    of(step.instruction),
                    space,
                    site.kind,
                    site.size,
                    row[ACCESSES],
                    row[REQUESTS],
                    row[MOVED],
                    row[LEAST],
                    row[HOTTEST],
                )
