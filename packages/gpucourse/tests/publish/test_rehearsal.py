"""The course's tests of itself, tested: on a lesson that is right and on one that is wrong."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gpucourse.course.problems import Problem
from gpucourse.publish import commands
from gpucourse.publish.notebooks.rehearsal import rehearse
from gpucourse.publish.source.reader import read_course
from messages import assert_tells
from small_course import LECTURE, PROJECT, edit, write_course

pytestmark = pytest.mark.slow


def problems(root: Path, id: str) -> list[str]:
    """What the rehearsal of one lesson finds, without the paths."""
    course, sources = read_course(root)
    (source,) = (source for source in sources if source.lesson.id == id)
    return [f"{problem.line}: {problem.message}" for problem in rehearse(course, source)]


def test_a_right_course_has_no_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    write_course(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert commands.build() == 0
    capsys.readouterr()
    assert commands.check([]) == 0
    assert "2 rehearsed: everything as it should be." in capsys.readouterr().out


@pytest.mark.rehearsal
def test_every_defect_of_a_lecture_is_found(tmp_path: Path):
    write_course(tmp_path)
    source = tmp_path / "course" / "lectures" / LECTURE / "notebook.py"
    # The starter already has the answer, so the check cannot tell it from a solution.
    edit(source, "half = None", "half = 0.5")
    # The solution is wrong.
    edit(source, "return 2 * x", "return 3 * x")
    edit(
        source,
        '# %% [markdown] id="in-the-room"',
        '# %% id="surprise"\nprint(missing)\n\n'
        '# %% id="other-error" raises="KeyError"\n[][0]\n\n'
        '# %% id="no-error" raises="KeyError"\nx = 1\n\n'
        # That a launch takes long on this machine is no warning.
        '# %% id="warns"\nimport warnings\nfrom gpucourse.notebook.extension import still_running\n'
        'from virtualgpu.errors import Location\nstill_running(Location("k"), 5)\n'
        'warnings.warn("mind the gap")\n\n'
        '# %% id="unchecked" tags=["exercise"]\n### BEGIN SOLUTION\ny = 1\n### END SOLUTION\n\n'
        '# %% [markdown] id="in-the-room"',
    )
    checks = tmp_path / "course" / "lectures" / LECTURE / "checks.py"
    with checks.open("a") as file:
        file.write('\n\n@exercise("forgotten", hints=("a", "b"))\ndef forgotten(x):\n    """."""\n')
    in_either = [
        ("39: ", "'surprise'", "NameError", "'missing'"),
        ("42: ", "'other-error'", "IndexError", "KeyError", "list index out of range"),
        ("45: ", "'no-error'", "KeyError"),
        ("48: ", "'warns'", "a warning", "mind the gap"),
    ]
    in_the_starter = [("32: ", "'half'"), ("55: ", "'unchecked'"), ("1: ", "'forgotten'")]
    expected = [
        *(("(starter)", *facts) for facts in in_either + in_the_starter),
        *(("(solution)", *facts) for facts in in_either),
        ("29: (solution)", "'double'", "double(1) is 3"),
    ]
    for problem, facts in zip(problems(tmp_path, LECTURE), expected, strict=True):
        assert_tells(problem, *facts)


@pytest.mark.rehearsal
def test_every_defect_of_a_project_is_found(tmp_path: Path):
    write_course(tmp_path)
    source = tmp_path / "course" / "projects" / PROJECT / "notebook.py"
    edit(source, 'points=2 starter="NotImplementedError"', 'points=2 starter="AssertionError"')
    edit(source, "return 2 * count(things)", "return 3 * count(things)")
    checks = tmp_path / "course" / "projects" / PROJECT / "checks.py"
    edit(checks, '"count"', '"cuont"')
    expected = [
        ("10: ", "'count'", "no hints"),
        ("1: ", "'cuont'"),
        ("34: (starter)", "'test-twice'", "NotImplementedError", "AssertionError"),
        ("34: (solution)", "'test-twice'", "AssertionError"),
    ]
    for problem, facts in zip(problems(tmp_path, PROJECT), expected, strict=True):
        assert_tells(problem, *facts)


def test_an_unknown_lesson_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    write_course(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert commands.check(["07_nothing"]) == 1
    assert f"it lists: {LECTURE}, {PROJECT}" in capsys.readouterr().out


@pytest.mark.rehearsal
def test_one_lesson_can_be_rehearsed_while_another_is_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    write_course(tmp_path)
    edit(tmp_path / "course" / "lectures" / LECTURE / "notebook.py", ' id="too-far"', "")
    monkeypatch.chdir(tmp_path)
    assert commands.check([PROJECT]) == 0
    assert "1 rehearsed" in capsys.readouterr().out
    assert commands.check([LECTURE]) == 1
    assert "has no id" in capsys.readouterr().out
    assert commands.check([]) == 1


def test_lessons_are_rehearsed_beside_each_other_and_told_in_the_course_s_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    write_course(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert commands.build() == 0
    both = threading.Barrier(2)

    def one_of_two(course, source, notice):
        both.wait(60)  # raises unless the other one has begun
        return [Problem(source.path, 1, source.lesson.id)]

    monkeypatch.setattr(commands, "rehearse", one_of_two)
    monkeypatch.setattr(commands, "usable", lambda: 2.0)
    capsys.readouterr()
    assert commands.check([]) == 1
    told = capsys.readouterr().out
    assert told.index(f": {LECTURE}\n") < told.index(f": {PROJECT}\n")
