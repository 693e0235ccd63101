"""Points by counts: the cost of an answer relative to the reference solution.

Counts are exact and repeatable and times are not, so counts can be graded on any machine. The
answer is compared with the reference solution on the same inputs and never with a fixed number, so
the comparison stays correct when compilers change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpucourse.grading.contract import Launched, PropertyFailed

Bound = float | tuple[float, float]


@dataclass(frozen=True)
class Count:
    """One counted quantity, with the words that name it in a sentence after "needs"."""

    of: Callable[[Launched], int]
    words: str


# Quantities that can be limited. See virtualgpu.watch.counters for each counter's meaning.
COUNTS: dict[str, Count] = {
    "sectors": Count(
        lambda run: run.counters.global_sectors, "sectors of global memory (pieces of 32 bytes)"
    ),
    "global_atomics": Count(
        lambda run: run.counters.global_atomics, "atomic updates of global memory"
    ),
    "shared_atomics": Count(
        lambda run: run.counters.shared_atomics, "atomic updates of shared memory"
    ),
    "atomic_passes": Count(lambda run: run.counters.atomic_passes, "passes of atomic updates"),
    "barriers": Count(lambda run: run.counters.barriers, "barriers"),
    "instructions": Count(lambda run: run.counters.warp_instructions, "instructions of warps"),
    "launches": Count(lambda run: 1, "launches"),
}


def share_of(name: str, ratio: float, bound: Bound) -> float:
    """Return the share, from 0 to 1, for a count that is `ratio` times the reference's.

    `bound` is the factor up to which the share is 1, or a pair of this factor and the factor from
    which it is 0. In between, the share falls with the logarithm of the ratio, so each doubling
    costs the same. Raises ValueError for a bound that no answer could meet.
    """
    full, none = bound if isinstance(bound, tuple) else (bound, bound)
    if not 1 <= full <= none:
        raise ValueError(
            f"{name}: a bound is at least 1, and a pair of bounds increases, unlike {bound}"
        )
    if ratio <= full:
        return 1.0
    if ratio >= none:
        return 0.0
    return math.log(none / ratio) / math.log(none / full)


def earned_share(
    answer: Sequence[Launched], reference: Sequence[Launched], bounds: dict[str, Bound]
) -> tuple[float, str]:
    """Return the least share that any count earns, and the reason if it is below 1.

    Raises KeyError for an unknown count, and PropertyFailed if the share is 0.
    """
    least, why = 1.0, ""
    for name, bound in bounds.items():
        count = COUNTS[name]
        mine, best = (sum(count.of(run) for run in runs) for runs in (answer, reference))
        ratio = mine / best if best else math.inf if mine else 1.0
        share = share_of(name, ratio, bound)
        if share < least:
            full = bound[0] if isinstance(bound, tuple) else bound
            least, why = (
                share,
                (
                    f"right, but needs {ratio:.2g} times as many {count.words} as the reference "
                    f"solution (all points: up to {full:g} times)"
                    if best
                    else f"right, but needs {mine:,} {count.words}; the reference needs none"
                ),
            )
    if least == 0.0:
        raise PropertyFailed(why)
    return least, why
