"""cuTile's launches on the virtual GPU beside a real one: in a process that has no driver, so that
any use of one fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from beside_a_gpu import run

pytest.importorskip("cuda.tile", reason="cuTile is for Linux alone")
pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[1] / "support"
START = f"""
import sys
sys.path.insert(0, {str(SUPPORT)!r})
import cuda.tile as ct
import tile_kernels as kernels
from virtualgpu.observed import reroute

draw = np.random.default_rng(5)
"""


def beside(body: str) -> None:
    run(START + body)


def test_results_come_back_and_cutile_is_left_as_it_was():
    beside("""
before = ct.launch
a, b = (draw.uniform(0, 1, shape).astype(np.float16) for shape in ((40, 24), (24, 33)))
c = np.zeros((40, 33), np.float32)
with reroute(), virtualgpu.profile() as profile:
    ct.launch(None, (3, 3), kernels.matmul, (a, b, c, 16, 16, 16))
assert np.abs(c - a.astype(float) @ b).max() < 1e-3
assert [one.grid for one in profile.launches] == [(3, 3, 1)]
assert ct.launch is before and not virtualgpu.is_active()
""")


def test_an_endless_kernel_is_stopped_at_its_line_and_the_next_is_well(tmp_path):
    (tmp_path / "endless.py").write_text(
        "import cuda.tile as ct\n\n@ct.kernel\ndef endless(x):\n    k = 0\n    while k < 10:\n"
        "        k = k * 1\n    ct.store(x, (0,), ct.full((1,), k, ct.float32))\n"
    )
    beside(f"""
sys.path.insert(0, {str(tmp_path)!r})
from endless import endless
from virtualgpu.api import hurried

x = np.ones(64, np.float32)
with virtualgpu.check(), hurried(1 / 60):
    try:
        ct.launch(None, (1,), endless, (x,))
    except virtualgpu.errors.BudgetExceeded as error:
        assert "kernel endless, endless.py line" in str(error), error
    else:
        raise AssertionError("it ended")
    ct.launch(None, (2,), kernels.add, (x, x, x, 32))
assert (x == 2).all()
""")


def test_views_keep_their_gaps_and_an_array_given_twice_is_one():
    beside("""
table = np.zeros((64, 2), np.float32)
table[:, 0] = draw.uniform(0, 1, 64)
before = table.copy()
with reroute():
    ct.launch(None, (2,), kernels.add, (table[:, 0], before[:, 0], table[:, 1], 32))
assert np.array_equal(table[:, 1], 2 * before[:, 0]) and np.array_equal(table[:, 0], before[:, 0])
same = np.ones(32, np.float32)
with reroute():
    ct.launch(None, (1,), kernels.add, (same, same, same, 32))
assert (same == 2).all()
""")


def test_what_cannot_be_handed_over_is_named():
    beside("""
with reroute():
    for given, says in (((np.ones(4),), "add takes 4 arguments, not 1"),
                        (((1, 2), np.ones(4), np.ones(4), 4), "a tuple cannot be passed")):
        try:
            ct.launch(None, (1,), kernels.add, given)
        except TypeError as error:
            assert says in str(error), error
        else:
            raise AssertionError(says)
""")
