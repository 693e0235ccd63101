"""Observed launches: once under every checker, then in other orders of the threads.

Learners' checks, the tests in a project's notebook and the grader all use this module. Each
reports the findings in its own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import virtualgpu
from virtualgpu.api import Orderless, reroute, watch
from virtualgpu.findings import Finding

T = TypeVar("T")

#: Share of a launch's time limit (60 s) that a launch in a check or a test may take, because both
#: launch often and with small inputs.
OF_A_LAUNCH = 1 / 12


def checked(run: Callable[[], T]) -> tuple[T, Finding | None, bool]:
    """Run ``run`` under every checker.

    Returns its result, the first finding, and True if the result is the same for every order of
    threads (:mod:`virtualgpu.watch.orderless`).
    """
    __tracebackhide__ = True
    orders = Orderless()
    with virtualgpu.check() as report, watch(orders):
        result = run()
    return result, next(iter(report.findings), None), orders.holds


def order_matters(
    run: Callable[[], T],
    result: T,
    seeds: Iterable[int],
    agree: Callable[[T, T], bool],
    orderless: bool = False,
) -> bool:
    """Return True if the threads give another result than ``result`` in a seed's order.

    If ``orderless``, no order can change the result, but the host or data left by an earlier
    launch may. Then the launch is repeated as often in the default order, which takes a tenth of
    the time.
    """
    __tracebackhide__ = True
    for seed in seeds:
        with reroute() if orderless else virtualgpu.schedule(seed):
            again = run()
        if not agree(result, again):
            return True
    return False
