"""Launches in other orders: only where an order can matter, and again in any case."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import virtualgpu
from gpucourse.grading.contract import PropertyFailed
from gpucourse.grading.testing import watching
from gpucourse.judging import orders
from kernels_to_see import double

virtualgpu.activate(force=True)


@cuda.jit
def queue(values, out):
    """No race, but out[0] says who comes next."""
    i = cuda.grid(1)
    if i < values.size:
        out[1 + cuda.atomic.add(out, 0, 1)] = values[i]


@cuda.jit
def racing(values, out):
    i = cuda.grid(1)
    if i < values.size:
        out[0] = values[i]


def launched(kernel):
    values, out = np.arange(64), np.zeros(65, np.int64)

    def run() -> np.ndarray:
        there = cuda.to_device(out)
        kernel[2, 32](cuda.to_device(values), there)
        return there.copy_to_host()

    return run


@pytest.fixture
def seeds(monkeypatch) -> list[int]:
    """The seeds of the orders that are asked for."""
    asked, whole = [], virtualgpu.schedule
    monkeypatch.setattr(virtualgpu, "schedule", lambda seed: asked.append(seed) or whole(seed))
    return asked


def test_where_no_order_can_matter_it_is_launched_again_as_always(seeds):
    run = launched(double)
    result, found, orderless = orders.checked(run)
    assert found is None and orderless
    calls = []
    assert not orders.order_matters(
        lambda: calls.append(1) or run(), result, (1, 2), np.array_equal, orderless
    )
    assert (len(calls), seeds) == (2, [])


def test_where_one_can_it_is_tried(seeds):
    run = launched(queue)
    result, found, orderless = orders.checked(run)
    assert found is None and not orderless
    assert orders.order_matters(run, result, (1, 2), np.array_equal, orderless)
    assert seeds


def test_a_race_is_found_all_the_same():
    _, found, orderless = orders.checked(launched(racing))
    assert orderless and "race" in found.message


def test_all_launches_of_a_call_count(seeds):
    first, second = launched(double), launched(queue)
    assert orders.checked(lambda: (first(), second()))[2] is False
    assert orders.checked(lambda: (second(), first()))[2] is False


def test_what_changes_from_launch_to_launch_is_told_as_that(seeds):
    launches = []

    def run(arguments: list) -> None:
        launches.append(1)
        arguments[0][:] = len(launches)

    with pytest.raises(PropertyFailed, match="a second run"):
        watching.watched(run, "double", (np.zeros(3),), schedules=1, seed=1)
    assert (len(launches), seeds) == (2, [])
