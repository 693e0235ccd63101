"""Whether the threads of a launch share its work, by what the busiest of them did.

A right sum tells nothing of who added it up. What every thread did is counted in the launch that is
judged (:mod:`virtualgpu.observers.shares`), and held against an even share. The bounds are wide:
one element a thread or many, grid-stride loops, trees, shuffles, warp-aggregated atomics, thread 0
that sets a few slots to zero, all stay within them. Serial work is beyond them as soon as a launch
is large enough to tell, and in a smaller one nothing is asked.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from virtualgpu.observers.counters import LARGEST, Counters

Dimensions = tuple[int, ...]

#: From this share of a bound on an answer is near it.
NEAR = 0.8

#: Accesses to memory that a thread may make for each element of its share.
ACCESSES = 16
#: Barriers that a block may pass, and updates that one address may take, for each.
STEPS = 4


def share(items: int, threads: int, block: int) -> int:
    """Elements that are one thread's, and the rounds of a tree in a block: what is fair."""
    return math.ceil(items / threads) + math.ceil(math.log2(block))


def uneven(counters: Counters, grid: Dimensions, block: Dimensions, items: int, *,
           threads: int | None = None, instructions: int | None = None,
           one_address: bool = False) -> tuple[str, str] | None:
    """What speaks against a launch whose threads share the work on `items` elements, or None.

    Arguments as of :func:`gpucourse.grading.testing.verbs.expect_parallel`. A reason that may be
    told to anybody, and a detail with numbers, which depend on the inputs.
    """
    blocks, size = math.prod(grid), math.prod(block)
    fair = share(items, threads or blocks * size, size)
    counted = [
        (counters.busiest_accesses, ACCESSES,
         "one thread does the work of many: it makes more than {} accesses to memory (loads, "
         "stores, atomic operations)"),
        (-(-counters.barriers // blocks), STEPS,
         "the threads work one after the other: a block passes more than {} barriers"),
    ]
    if instructions is not None:
        # Work that is done in registers.
        counted[0] = (counters.busiest_instructions, instructions,
                      "one thread does the work of many: it runs more than {} instructions")
    if one_address:
        counted.append((
            counters.atomic_hottest, STEPS,
            "threads queue at one address: it takes more than {} atomic operations"))
    for number, each, words in counted:
        if number > each * fair:
            return (
                words.format(f"{each:,}") + " for each element of a thread's even share",
                f"{number:,} where {each * fair:,} are allowed; {counters.threads_at_work:,} of "
                f"{blocks * size:,} threads touch memory at all")
    return None


def nearly(counters: Counters, grid: Dimensions, block: Dimensions, items: int,
           **asked: Any) -> tuple[str, str] | None:
    """What :func:`uneven` would say had the busiest done a quarter more."""
    names = (*LARGEST, "barriers")
    return uneven(
        replace(counters, **{name: math.ceil(getattr(counters, name) / NEAR) for name in names}),
        grid, block, items, **asked)
