"""Sharing of a launch's work among its threads, by what the busiest of them did.

A right sum tells nothing of who added it up. What threads and warps did is counted in the launch
that is judged (:mod:`virtualgpu.watch.work_shares`), and held against an even share. One element a
thread or many, grid-stride loops, trees, shuffles, warp-aggregated atomics, thread 0 that sets a
few slots to zero: all stay within the bounds. Serial work is beyond them as soon as a launch is
large enough to tell, and in a smaller one nothing is asked.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from virtualgpu.api import LARGEST, WARP, Counters, many

Dimensions = tuple[int, ...]

#: From this share of a bound on an answer is near it.
NEAR = 0.8

#: Accesses to memory that a thread may make for each element of its share, and for each slot that
#: it may see to for its whole block. Honest kernels make 2 or 3, unoptimised ones 4.
ACCESSES = 4
#: Updates that one address may take for each element of a share.
UPDATES = 4
#: How many times as much as an average thread the busiest may do.
EVEN = 1.5
#: Elements that a share has beside those of the input and the rounds of a tree: for what comes
#: before and after, for trees of 1,024 in smaller blocks, for the last thread's four elements.
BESIDE = 4
#: Instructions that a round of a tree may take.
ROUND = 50
#: Shuffles, votes and the like that a warp may make in a tree, for each element of a thread and
#: once more for the warps' sums: 5 rounds, of two shuffles where numbers have 64 bits, and 4 to
#: spare. 31 lanes that hand their number to one take 31.
SHUFFLES = 14


class Uneven(NamedTuple):
    """Objection to a launch.

    It has a reason that may be told to anybody, a detail with numbers for whoever marks the work,
    and one for its author.
    """

    reason: str
    detail: str
    counted: str


def share(items: int, threads: int, rounds: int) -> int:
    """Elements that are one thread's, and the rounds of a tree: what is fair."""
    return math.ceil(items / threads) + rounds


def uneven(
    counters: Counters,
    grid: Dimensions,
    block: Dimensions,
    items: int,
    *,
    threads: int | None = None,
    rounds: int | None = None,
    slots: int = 0,
    accesses: int = ACCESSES,
    instructions: int | None = None,
    even: float = EVEN,
    tree: bool = False,
    alone: tuple[Counters, int] | None = None,
) -> Uneven | None:
    """Return the objection to a launch whose threads share `items` elements, or None.

    Arguments as of :func:`gpucourse.grading.testing.verbs.expect_parallel`.
    """
    blocks, size = math.prod(grid), math.prod(block)
    threads = threads or blocks * size
    sharing = max(1, min(threads, items))  # more threads than elements need not be busy
    if rounds is None:
        rounds = math.ceil(math.log2(size)) + BESIDE
    fair, own = share(items, threads, rounds), math.inf
    if instructions is None:
        most, span = counters.busiest_accesses, counters.span_accesses
        done, what, each = _accesses(counters), "accesses to memory", accesses
        apart = ACCESSES * slots
        beside = apart + ACCESSES * rounds
        if alone:
            own = alone[0].busiest_accesses / alone[1]
    else:  # work that is done in registers
        most, span = counters.busiest_instructions, counters.span_instructions
        done, what, each = counters.thread_instructions, "instructions", instructions
        apart, beside = 0, ROUND * rounds
        if alone:
            own = alone[0].busiest_instructions / alone[1]
    busiest = f"your busiest thread makes {{:,}} {what}, and {{:,}} are enough"
    for number, bound, counted, words in (
        (
            most,
            each * fair + apart,
            busiest,
            f"one thread does the work of many: it makes more than {each:,} {what} for each "
            f"element "
            "of a thread's even share",
        ),
        (
            most,
            even * done / sharing + beside,
            busiest,
            f"one thread does the work of many: it makes more than {even:g} times as many "
            f"{what} as "
            "an even share would be",
        ),
        # Nothing that the others do raises this bound: idle work cannot hide one who does all.
        (
            most,
            even * own * share(items, threads, 0) + beside,
            busiest,
            f"one thread does the work of many: it makes more than {even:g} times as many "
            f"{what} for "
            "each element of a thread's even share as the kernel makes when a thread is alone",
        ),
        # Twice as much as one thread: lanes that a branch has parted may meet late again.
        (
            span,
            2 * (each * fair + apart),
            f"one after the other, the warps of a block make {{:,}} {what} from barrier to "
            f"barrier, "
            "and {:,} are enough",
            "the threads work one after the other: from barrier to barrier the busiest warps of a "
            f"block make more than {2 * each:,} {what} for each element of a thread's even share",
        ),
        (
            tree * counters.atomic_hottest,
            UPDATES * fair,
            "one address takes {:,} atomic operations, and {:,} are enough",
            f"threads queue at one address: it takes more than {UPDATES} atomic operations "
            f"for each "
            "element of a thread's even share",
        ),
        (
            tree * _shuffles(counters) / (blocks * math.ceil(size / WARP)),
            SHUFFLES * (max(1, math.ceil(items / threads)) + 1),
            "your warps make {:,} shuffles or votes each, and {:,} are enough",
            "the lanes of a warp hand on their numbers one after the other: a warp makes more than "
            f"{SHUFFLES} shuffles or votes for each element of a thread, and as many for the "
            f"sums of "
            "the warps",
        ),
    ):
        if number > bound:
            numbers, at_work = (math.ceil(number), math.floor(bound)), counters.threads_at_work
            return Uneven(
                words,
                (
                    f"{numbers[0]:,} where {numbers[1]:,} are allowed; "
                    f"{at_work:,} of {many(blocks * size, 'thread')} touch memory at all"
                ),
                counted.format(*numbers),
            )
    return None


def _accesses(counters: Counters) -> int:
    return (
        counters.global_loads
        + counters.global_stores
        + counters.shared_loads
        + counters.shared_stores
        + counters.atomics
    )


def _shuffles(counters: Counters) -> int:
    return counters.warp_instructions_by_class.get("warp", 0)


def nearly(
    counters: Counters, grid: Dimensions, block: Dimensions, items: int, **asked: Any
) -> Uneven | None:
    """Return what :func:`uneven` would return had the busiest done a quarter more."""
    more = {name: math.ceil(getattr(counters, name) / NEAR) for name in LARGEST}
    shuffles = {"warp": math.ceil(_shuffles(counters) / NEAR)}
    return uneven(
        replace(counters, **more, warp_instructions_by_class=shuffles), grid, block, items, **asked
    )
