"""A launch watched: once under every checker, then again with its threads in other orders.

What a learner's check, a verb in their notebook and the grader have in common; each says in its own
words what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import virtualgpu
from virtualgpu.findings import Finding

T = TypeVar("T")

#: The share of a launch's time limit (60 s) that a launch in a check or a test may take: both
#: launch often, and with small inputs.
OF_A_LAUNCH = 1 / 12


def checked(run: Callable[[], T]) -> tuple[T, Finding | None]:
    """What ``run`` returns under every checker, and the first thing that they found."""
    __tracebackhide__ = True
    with virtualgpu.check() as report:
        result = run()
    return result, next(iter(report.findings), None)


def order_matters(run: Callable[[], T], result: T, seeds: Iterable[int],
                  agree: Callable[[T, T], bool]) -> bool:
    """Whether ``run`` gives something else than ``result`` with threads in the order of a seed."""
    __tracebackhide__ = True
    for seed in seeds:
        with virtualgpu.schedule(seed):
            again = run()
        if not agree(result, again):
            return True
    return False
