"""Division of a launch's work among its threads, judged by the busiest thread.

A correct sum does not show which threads added it up. So the work of threads and warps is counted
in the launch and compared with an even share. The work is memory accesses, and instructions, which
include the shuffles that pass values to one lane. The limits allow one element per thread or many,
grid-stride loops, trees, shuffles, warp-aggregated atomics, and a thread 0 that sets a few slots
to zero. Serial work exceeds the limits as soon as the launch is large enough to show it. In a
smaller launch nothing is required.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gpucourse.wording import many
from virtualgpu.api import LARGEST, WARP, Counters

Dimensions = tuple[int, ...]

#: Share of a limit from which an answer counts as close to it.
NEAR = 0.8

#: Memory accesses allowed per element of a thread's share, and per slot that one thread may handle
#: for its block. Correct kernels make 2 or 3, unoptimised ones 4.
ACCESSES = 4
#: Updates of one address allowed per element of a share.
UPDATES = 4
#: Limit on the work of the busiest thread as a multiple of the average thread's.
EVEN = 1.5
#: Elements added to each share, for work before and after the loop, for trees over 1,024 values in
#: smaller blocks, and for the last thread's four elements.
BESIDE = 4
#: Instructions allowed per round of a tree.
ROUND = 50
#: Instructions allowed per memory access if a test gives no number. The course's kernels take up to
#: 300 per element, and 400 without optimisation. A lane that computes for the 31 others of its warp
#: takes 32 times the cost of an element.
INSTRUCTIONS = 250
#: Shuffles and votes allowed per warp in a tree, for each element of a thread and once more for the
#: sums of the warps: 5 rounds, with two shuffles for 64-bit numbers, and 4 to spare. Passing the
#: numbers of 31 lanes to one takes 31.
SHUFFLES = 14
#: The same limit without a tree. A warp that updates one slot after another makes one shuffle and
#: one vote for each different slot of its 32 elements.
COLLECTIVES = 64
#: Instructions around one of these that all lanes of a warp run, and a single thread does not.
AROUND = 4

# Advice for each kind of objection.
SHARE_OUT = "Give every thread of every block elements of its own, as many as the others have"
TOGETHER = "Let all threads work on elements of their own between the same two barriers"
ADD_FIRST = "Add up the block's numbers in a tree, and make one atomic operation for its sum"
IN_ROUNDS = "In a tree, a lane adds what the lane 16 further has, then 8, 4, 2 and 1 further"
EACH_ITS_OWN = "Let each lane compute for its own elements"


class Uneven(NamedTuple):
    """Objection to a launch.

    It has a reason that anybody may see, a detail with numbers for the person who marks the work,
    one for its author, and advice for the author.
    """

    reason: str
    detail: str
    counted: str
    advice: str


def share(items: int, threads: int, rounds: int) -> int:
    """Return a thread's fair share: its elements and the rounds of a tree."""
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

    The arguments are those of :func:`gpucourse.grading.testing.verbs.expect_parallel`.
    """
    blocks, size = math.prod(grid), math.prod(block)
    threads = threads or blocks * size
    sharing = max(1, min(threads, items))  # with more threads than elements, some may be idle
    if rounds is None:
        rounds = math.ceil(math.log2(size)) + BESIDE
    elements = max(1, share(items, threads, 0))
    shuffles = _shuffles(counters) / (blocks * math.ceil(size / WARP))
    collectives = SHUFFLES * (elements + 1) if tree else COLLECTIVES * (elements + 1 + slots)
    apart = ACCESSES * slots
    measures = [
        _Measure(
            "instructions",
            counters.busiest_instructions,
            counters.span_instructions,
            counters.thread_instructions,
            instructions or INSTRUCTIONS * accesses,
            apart=ROUND * slots,
            # Even without a tree, a grid computes indices that a single thread does not need.
            beside=ROUND * (max(rounds, 1) + slots),
            own=alone[0].busiest_instructions / alone[1] if alone else math.inf,
            together=AROUND * min(shuffles, collectives),
        )
    ]
    if instructions is None:  # otherwise the work is done in registers
        measures.insert(
            0,
            _Measure(
                "accesses to memory",
                counters.busiest_accesses,
                counters.span_accesses,
                _accesses(counters),
                accesses,
                apart=apart,
                beside=apart + ACCESSES * rounds,
                own=alone[0].busiest_accesses / alone[1] if alone else math.inf,
            ),
        )
    fair = share(items, threads, rounds)
    for number, bound, counted, words, advice in (
        *(one for measure in measures for one in measure.asked(fair, elements, sharing, even)),
        (
            tree * counters.atomic_hottest,
            UPDATES * fair,
            "one address takes {:,} atomic operations, and {:,} are enough",
            f"threads queue at one address, which takes more than {UPDATES} atomic operations "
            "for each element of a thread's even share",
            ADD_FIRST,
        ),
        (
            shuffles,
            collectives,
            "your warps make {:,} shuffles or votes each, and {:,} are enough",
            "the lanes of a warp pass on their numbers one after the other. A warp makes "
            f"more than {SHUFFLES if tree else COLLECTIVES} shuffles or votes for each element of "
            "a thread",
            IN_ROUNDS if tree else EACH_ITS_OWN,
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
                advice,
            )
    return None


@dataclass(frozen=True)
class _Measure:
    """One kind of work: the busiest thread's amount, and its limit.

    `most` and `span` are amounts of the busiest thread and along the longest path; `done` is the
    total. `each` is allowed per element of a share. `apart` is added to all shares together,
    `beside` to an even share, and `together` to the work of a single thread, for work that lanes
    do only as a group. `own` is the work of a single thread per element.
    """

    what: str
    most: int
    span: int
    done: int
    each: int
    apart: float
    beside: float
    own: float
    together: float = 0

    def asked(
        self, fair: int, elements: int, sharing: int, even: float
    ) -> Iterator[tuple[float, float, str, str, str]]:
        """Yield (number, limit, words with both, reason, advice) for each requirement."""
        what, each = self.what, self.each
        busiest = f"your busiest thread makes {{:,}} {what}, and {{:,}} are enough"
        serial = "one thread does the work of many. It makes more than"
        yield (
            self.most,
            each * fair + self.apart,
            busiest,
            f"{serial} {each:,} {what} for each element of a thread's even share",
            SHARE_OUT,
        )
        yield (
            self.most,
            even * self.done / sharing + self.beside,
            busiest,
            f"{serial} {even:g} times as many {what} as an even share would be",
            SHARE_OUT,
        )
        # No work of other threads raises this limit, so idle work cannot hide one busy thread.
        yield (
            self.most,
            even * self.own * elements + self.beside + self.together,
            busiest,
            f"{serial} {even:g} times as many {what} for each element of a thread's even share as "
            "the kernel makes when a thread is alone",
            SHARE_OUT,
        )
        # The limit is twice a single thread's work, because divergent lanes may reconverge late.
        yield (
            self.span,
            2 * (each * fair + self.apart),
            f"one after the other, the warps of a block make {{:,}} {what} from barrier to "
            "barrier, and {:,} are enough",
            "the threads work one after the other. Between barriers the busiest warps of a "
            f"block make more than {2 * each:,} {what} for each element of a thread's even "
            "share",
            TOGETHER,
        )


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
    """Return the result of :func:`uneven` if the busiest thread had done a quarter more."""
    more = {name: math.ceil(getattr(counters, name) / NEAR) for name in LARGEST}
    shuffles = {"warp": math.ceil(_shuffles(counters) / NEAR)}
    return uneven(
        replace(counters, **more, warp_instructions_by_class=shuffles), grid, block, items, **asked
    )
