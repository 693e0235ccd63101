"""What "Numba CUDA" says of races is what its cells show.

The cells of the solved lecture run once, in this process; each test holds one claim of the text
against what its cell printed or left behind.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lecture_cells import sums

pytestmark = pytest.mark.rehearsal

TWO_MUONS = np.array([30.0, 12.0])


@pytest.fixture(scope="module")
def shown(shown) -> dict[str, SimpleNamespace]:
    """The cells of the solved lecture: see :func:`lecture_cells.solved`."""
    assert not any("✗" in cell.text for cell in shown.values())
    return shown


@pytest.fixture(scope="module")
def exact(shown) -> float:
    return float(shown["momentum"].names["muon_pt"].sum(dtype=np.float64))


def test_nearly_all_of_the_momentum_is_missing(shown, exact):
    by_numpy, by_threads = sums(shown["momentum"].text)
    assert by_numpy == round(exact, 1)
    assert by_threads < 0.01 * by_numpy
    assert shown["momentum"].names["muon_pt"].size == 71_009


def test_often_thread_0_is_first_but_not_always(shown):
    first = shown["order"].names["first_threads"]
    assert first.count(0) >= 3
    assert len(set(first)) >= 3


def test_the_machine_loses_updates_in_some_orders(shown):
    ended_at = set(shown["machine-replays"].names["ended_at"])
    assert ended_at == {11, 12, 13}


def test_the_race_is_found_in_the_line_that_adds(shown):
    report = shown["race-found"].names["report"]
    assert [finding.kind for finding in report.findings] == ["race"]
    assert report.findings[0].line == report.findings[0].other.line


def test_atomics_are_right_in_every_order_and_float32_differs(shown, exact):
    assert sums(shown["atomic"].text) == [round(exact, 3)] * 3
    rounded = sums(shown["atomic-float32"].text)
    assert len(set(rounded)) == 3
    assert all(0.1 < abs(total - exact) < 100 for total in rounded)
    assert any(abs(total - exact) > 2 for total in rounded)


def test_two_threads_lose_an_update_in_the_picture(shown):
    cell = shown["race-replayed"]
    told = str(cell.names["gpucourse"].race(cell.names["add_all"], 2, 1, TWO_MUONS, np.zeros(1)))
    assert "a race" in told
    assert "that update is lost" in told
