"""Streams on paper: what is ordered is ordered, what is not comes in every order."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from gpucourse.views import paper_streams
from gpucourse.views.paper_streams import PaperGPU, draw
from gpucourse.wording import many


def orders(build, seeds: int = 60) -> set[str]:
    """The orders of labels that runs of a freshly built queue show."""
    seen = set()
    for seed in range(seeds):
        gpu = PaperGPU()
        build(gpu)
        seen.add("".join(task.label for task in gpu.run(seed)))
    return seen


def launch(stream, label: str) -> None:
    stream.launch(lambda: None, label=label)


def test_the_example_holds():
    assert doctest.testmod(paper_streams).failed == 0


def test_a_stream_keeps_its_order_and_two_streams_do_not():
    def build(gpu):
        first, second = gpu.stream(), gpu.stream()
        launch(first, "a")
        launch(first, "b")
        launch(second, "x")

    assert orders(build) == {"abx", "axb", "xab"}


def test_an_event_orders_what_stood_before_it_and_what_comes_after_the_wait():
    def build(gpu):
        first, second, event = gpu.stream(), gpu.stream(), gpu.event()
        launch(first, "a")
        event.record(first)
        launch(first, "b")
        launch(second, "x")
        event.wait(second)
        launch(second, "y")

    seen = orders(build)
    assert all(order.index("a") < order.index("y") for order in seen)
    assert any(order.index("x") < order.index("a") for order in seen)  # queued before the wait
    assert any(order.index("y") < order.index("b") for order in seen)  # queued after the record


def test_an_event_that_was_not_recorded_holds_up_nobody():
    def build(gpu):
        first, second, event = gpu.stream(), gpu.stream(), gpu.event()
        event.wait(second)
        launch(first, "a")
        event.record(first)
        launch(second, "x")

    assert orders(build) == {"ax", "xa"}


def test_a_wait_is_passed_on_by_an_event_recorded_behind_it():
    def build(gpu):
        first, second, third = (gpu.stream() for _ in range(3))
        one, two = gpu.event(), gpu.event()
        launch(first, "a")
        one.record(first)
        one.wait(second)
        two.record(second)
        two.wait(third)
        launch(third, "z")

    assert orders(build) == {"az"}


@pytest.mark.parametrize("whose", ["stream", "gpu"])
def test_synchronising_orders_what_the_host_queues_later(whose):
    def build(gpu):
        first, second = gpu.stream(), gpu.stream()
        launch(first, "a")
        (first if whose == "stream" else gpu).synchronize()
        launch(second, "x")

    assert orders(build) == {"ax"}


def test_fresh_buffers_hold_garbage():
    assert np.isnan(PaperGPU().buffer(3)).all()


@pytest.mark.parametrize(("streams", "units"), [(1, 18), (2, 10), (3, 8)])
def test_the_timetable_overlaps_streams_on_three_engines(streams, units):
    """Six chunks: 3 n in one stream, n + 2 where all engines are always busy."""
    gpu = PaperGPU()
    queues = [gpu.stream() for _ in range(streams)]
    for k in range(6):
        stream, buffer = queues[k % streams], gpu.buffer(1)
        stream.copy_in(np.zeros(1), buffer)
        stream.launch(lambda: None)
        stream.copy_out(buffer, np.zeros(1))
    assert gpu.timetable() == units
    picture = draw(gpu, "Six chunks")
    assert (
        f"18 tasks of {many(streams, 'stream')} (" in picture.alt
        and f"after {units} units" in picture.alt
    )


@pytest.mark.parametrize("copy", ["copy_in", "copy_out"])
def test_a_copy_between_two_places_of_the_host_is_refused(copy):
    stream = PaperGPU().stream()
    with pytest.raises(ValueError, match=r"device.*gpu\.buffer"):
        getattr(stream, copy)(np.zeros(3), np.zeros(3))
