"""Observed launches: once under every checker, then again with other orders of threads.

A learner's check, a verb in their notebook and the grader use this together; each reports the
findings in its own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import virtualgpu
from virtualgpu.api import Orderless, reroute, watch
from virtualgpu.findings import Finding

T = TypeVar("T")

#: The share of a launch's time limit (60 s) that a launch in a check or a test may take: both
#: launch often, and with small inputs.
OF_A_LAUNCH = 1 / 12


def checked(run: Callable[[], T]) -> tuple[T, Finding | None, bool]:
    """Run ``run`` under every checker.

    Returns its result, their first finding, and whether that answers for every order of threads
    (:mod:`virtualgpu.watch.orderless`).
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
    """Return True if threads in a seed's order give another result than ``result``.

    ``orderless``: no order can, but the host, or what an earlier launch left, may: it is run as
    often in the order of always, which takes a tenth of the time.
    """
    __tracebackhide__ = True
    for seed in seeds:
        with reroute() if orderless else virtualgpu.schedule(seed):
            again = run()
        if not agree(result, again):
            return True
    return False
