"""Row 87 of the list of threats, in the four projects: an answer that looks at its own work."""

from __future__ import annotations

import random

import pytest

from gpucourse.course.regions import SOLUTION, unwrap_regions
from project_class import ProjectClass

pytestmark = pytest.mark.rehearsal

SEED = "5e" * 16
# Works in a cell of any project.
ANYWHERE = """from numba import cuda as _cuda
import numpy as _np

@_cuda.jit
def _mine(out):
    out[_cuda.threadIdx.x] = _cuda.threadIdx.x

_out = _cuda.device_array(32, _np.int32)
_mine[1, 32](_out)
print(_out.copy_to_host(), _out)
_cuda.synchronize()
"""
# Works in the cell named and in every later one.
CHECKS = {
    "01_fill_a_histogram": {
        "bin-index": "_slots = np.zeros(9, np.int32)\n"
        "find_slots[1, 32](np.arange(9.0), 0.0, 8.0, 4, _slots)\nprint(_slots)\n",
        "histogram": "print(histogram(np.linspace(0, 9, 50), 0.0, 10.0, 10))\n",
    },
    "02_area_by_sampling": {
        "sample-disc": "print(sample_disc(1, 64, 10), z_score(np.array([5]), 10, 0.5))\n",
        "jax-hits": "print(jax_hits(1, 4, 10))\n",
    },
    "03_z_mass": {
        "count-muons": "_events = ak.Array([[{'pt': 1.0}], []])\n_counts = np.zeros(2, np.int32)\n"
        "count_muons[1, 32](_events, _counts)\nprint(_counts)\n",
        "break-even": "print(break_even(3.0, 1.0, 0.5))\n",
    },
    "04_a_compiler": {"jit": "print(jit(lambda x: x * 2 + 1)(np.arange(3.0)))\n"},
}


@pytest.mark.parametrize("id", CHECKS)
def test_threat_87_a_launch_at_the_top_of_an_answer(id, tmp_path):
    """Full marks with a check of one's own in each cell, in an order of chance."""
    project = ProjectClass(id, tmp_path)
    draw = random.Random(id)
    answers = {
        cell.grade_id: unwrap_regions(cell.source, SOLUTION)
        for cell in project.assignment.solutions
        if cell.cell_type == "code"
    }
    ready: list[str] = [ANYWHERE]
    for name in answers:
        if found := CHECKS[id].get(name):
            ready.append(found)
            answers[name] += "\n" + found
        above, below = draw.choice([("", draw.choice(ready)), (ANYWHERE, ""), ("", "")])
        answers[name] = f"{above}\n{answers[name]}\n{below}"
    assert project.outcomes([project.right("own-checks", answers)], seeds=[SEED]) == []
