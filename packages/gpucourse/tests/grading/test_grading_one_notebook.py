"""The table of ``gpucourse grade NOTEBOOK``."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from gpucourse.grading.commands.grade_notebook import show
from gpucourse.grading.verdict import GRADED, STUDENT_FAULT, TestOutcome, Verdict

NOTHING = "There is no solution in this notebook."


def shown(verdict: Verdict) -> str:
    console = Console(file=StringIO(), width=100)
    show(verdict, console)
    return console.file.getvalue()


@pytest.mark.parametrize(("kind", "times"), [(STUDENT_FAULT, 1), (GRADED, 3)])
def test_why_nothing_ran_stands_once_above_the_table(kind, times):
    tests = [TestOutcome(f"test-{n}", 2, 0, NOTHING) for n in range(3)]
    why = NOTHING if kind == STUDENT_FAULT else ""
    text = shown(
        Verdict(kind, "01_fill_a_histogram", reason=why, tests=tests, isolation="bubblewrap")
    )
    assert text.count(NOTHING) == times
    assert text.splitlines()[0] == "01_fill_a_histogram: 0 of 6 points"
    assert "✗ test-2" in text and "0/2" in text
    assert (text.index(NOTHING) < text.index("test-0")) == (kind == STUDENT_FAULT)
