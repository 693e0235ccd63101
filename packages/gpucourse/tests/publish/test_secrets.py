"""Answers are found in what is given out; `make rehearse` looks at the whole release."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucourse.publish.notebooks.outputs import derive
from gpucourse.publish.release import handout as release
from gpucourse.publish.source.reader import read_course
from small_course import PROJECT, edit, write_course

ANSWER = "float(np.count_nonzero(values > 0)) / max(len(values), 1)"


@pytest.fixture
def given_out(tmp_path: Path) -> tuple[list[release.Secret], dict[str, bytes]]:
    """The secrets of a small course with a long answer, and its notebooks by name."""
    root = write_course(tmp_path)
    source = root / "course" / "projects" / PROJECT / "notebook.py"
    edit(source, "    return len(things)", f"    share = {ANSWER}\n    return len(things)")
    found = {str(name): made.encode() for name, made in derive(root).items()}
    return release.secrets(read_course(root)[1]), found


def test_a_handout_shows_no_answer(given_out):
    secrets, notebooks = given_out
    shown = {name: text for name, text in notebooks.items() if name.startswith("projects/")}
    assert shown and release.leaks(shown, secrets) == []


def test_an_answer_left_in_the_handout_is_found(given_out):
    secrets, notebooks = given_out
    assert any(ANSWER in secret.text for secret in secrets)
    solutions = {name: text for name, text in notebooks.items() if name.startswith("grading/")}
    problems = release.leaks(solutions, secrets)
    assert any(ANSWER in str(problem) for problem in problems)
