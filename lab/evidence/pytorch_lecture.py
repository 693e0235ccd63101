"""The lecture "PyTorch as a neighbour" with PyTorch, which the course's environment lacks.

    python -m lab.evidence.pytorch_lecture

Runs in an environment of the course's to which PyTorch has been added, and in which a C++ compiler
is found: the lesson's two notebooks as ``gpucourse check`` runs them (starter and solution, each in
a Jupyter kernel), its cells in this process for what they print, and every wrong and right answer
to its exercises. Writes ``lab/results/pytorch_lecture.json``, and ends with status 1 where one of
them is not as promised. What PyTorch itself writes on stderr is kept there, and is no fault.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import lab.benchmarks.support  # noqa: F401
from gpucourse.course.registry import load_course
from gpucourse.publish.rehearsal import rehearse
from gpucourse.publish.source import read_source
from gpucourse.system.libraries import OPTIONAL, absent
from lab.benchmarks.report import versions, write
from lecture_cells import outcome, solved
from wrong_answers import answers_of

ROOT = Path(__file__).parents[2]
LECTURE = "25_pytorch_as_a_neighbour"
#: Cells whose prints the lesson's text is about.
TOLD = ("jax-changed", "plain", "operators", "opcheck", "fit", "breaks", "fused")


def rehearsed() -> tuple[list[str], list[str]]:
    """Return what is not as promised in the two notebooks, and what they wrote to stderr."""
    course = load_course(ROOT)
    problems = rehearse(course, read_source(course, course.lesson(LECTURE)), print)
    texts = [problem.message for problem in problems]
    said = [text for text in texts if "prints a warning" in text]
    return [text for text in texts if text not in said], said


def answered() -> dict:
    """Return how many answers were judged as they must be, and which were not."""
    counts: dict = {"wrong": 0, "right": 0, "misjudged": []}
    for kind in ("wrong", "right"):
        for case in getattr(answers_of(LECTURE, kind), kind.upper()):
            exercise, answers, says = case.values
            heard = outcome(LECTURE, exercise, answers)
            said = f"{heard.message}\n{heard.look or ''}"
            fits = bool(re.search(says, said, re.DOTALL)) and not heard.passed
            counts[kind] += 1
            if not (heard.passed if kind == "right" else fits):
                counts["misjudged"].append(f"{case.id}: {said}")
    return counts


def main() -> int:
    if sentence := absent("torch"):
        print(sentence)
        return 2
    problems, said = rehearsed()
    cells = solved(ROOT, LECTURE)
    answers = answered()
    result = {
        "command": "python -m lab.evidence.pytorch_lecture",
        "versions": versions(OPTIONAL),
        "problems": problems,
        "on stderr": said,
        "answers": answers,
        "cells": {name: cells[name].text.strip().splitlines() for name in TOLD},
    }
    write("pytorch_lecture", result)
    print(answers, problems)
    return 1 if problems or answers["misjudged"] else 0


if __name__ == "__main__":
    sys.exit(main())
