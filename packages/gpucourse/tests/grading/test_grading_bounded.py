"""Text that parsers read slowly costs half a second, and the next text is read as ever."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from gpucourse.grading.nbgrader.highlighting import _coloured, highlighted
from gpucourse.grading.submission import bounded
from gpucourse.grading.submission.bounded import SECONDS, Bounded
from gpucourse.grading.submission.inert import _rendered, inert

MARKDOWN = [
    "$$a\n\n",
    "$$ a\n\n",
    "- $$a\n",
    "$$a",
    "![![",
    "[a](b)",
    "[",
    "\\begin{a}",
    "\\\\[",
    "a|b\n-|-\n",
    "*a **b ",
    "> ",
    "- ",
    "`a``",
    "<a",
    "&#",
    "[a]: b\n",
    "_",
    "~~a",
    "***a",
]
CODE = [
    "a.",
    "0.",
    "\n ",
    "(",
    "a ",
    "[a,",
    "?",
    '"""\n',
    "f'{",
    "`",
    "@a\n",
    "import a,",
    "0x",
    "\\\n",
    "{",
    "a=",
    "def a",
    "'",
    "%%bash\n$((",
    "%%html\n<a ",
]


def seconds(process: Bounded, function, text: str) -> float:
    """Processor time of this process and of the one that reads the text."""

    def used() -> float:
        return time.process_time() + sum(psutil.Process(process._process.pid).cpu_times()[:2])

    began = used()
    function(text)
    return used() - began


@pytest.mark.parametrize(
    ("function", "process", "piece"),
    [
        *((inert, _rendered, piece) for piece in MARKDOWN),
        *((highlighted, _coloured, piece) for piece in CODE),
    ],
)
def test_threat_89_twice_the_text_takes_no_more_than_twice_as_long(function, process, piece):
    function("a")  # its process has started
    for _ in range(3):  # what else runs on the machine may slow one of the measurements
        took = [
            seconds(process, function, piece * (size // len(piece)))
            for size in (10_000, 20_000, 40_000)
        ]
        if all(twice < 2.5 * one + 0.1 for one, twice in pairwise(took)):
            break
    else:
        pytest.fail(f"twice the text took more than twice as long, three times: {took}")
    assert max(took) < 2 * SECONDS


@pytest.mark.parametrize(("function", "slow"), [(inert, "$$a\n\n"), (highlighted, "\n ")])
def test_what_takes_too_long_is_shown_letter_by_letter(function, slow):
    began = time.monotonic()
    shown = function("<b>" + slow * 40_000)
    assert "&lt;b&gt;" in shown and "<b>" not in shown
    assert time.monotonic() - began < 30
    # And what comes after it is read as ever.
    assert "<pre>" not in inert("**honest**")
    assert '<span class="k">def</span>' in highlighted("def f(): pass")


def answer(text: str) -> str:
    """What the process of this test says of a text."""
    if text == "fails":
        raise ValueError
    if text == "takes memory":
        return "x" * (4 << 30)
    if text == "ends":
        os._exit(0)
    return text.upper()


def test_a_process_that_fails_is_started_again():
    here = Path(__file__)
    ask = Bounded(here.stem, "answer")
    ask.command[2] = f"import sys; sys.path.append({str(here.parent)!r}); {ask.command[2]}"
    for text in ("fails", "takes memory", "ends"):
        assert ask("für") == "FÜR"
        assert ask(text) is None
    assert ask("\ud800") == "?"
    ask.close()


def test_a_process_that_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(bounded, "PATIENCE", 0.2)
    ask = Bounded("time", "sleep")
    ask.command[2] = "import time; time.sleep(60)"
    began = time.monotonic()
    assert ask("text") is None
    assert time.monotonic() - began < 30
