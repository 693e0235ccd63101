"""Checks and hints: what a learner is told, and where the checks are found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

import virtualgpu
from gpucourse.course.checkout import PACKAGE
from gpucourse.exercises import checks, outcomes, waiting
from gpucourse.exercises.checks import Lesson, exercise, hints, lecture, project, require
from notebook_cells import run_cells
from small_course import LECTURE, PROJECT, write_course
from virtualgpu import devices
from virtualgpu.launch.limits import Budget


@exercise("double", hints=("The idea: add `x` to itself.", "The shape: return 2 * …"))
def double(answer):
    """Every number doubled.

    And this is no part of the praise.
    """
    require(answer(3) == 6, f"double(3) is {answer(3)}", look="the factor <2>")


@exercise("praised", hints=("one", "two"))
def praised(answer):
    """Not shown."""
    return f"{answer} it is"


@pytest.fixture
def lesson() -> Lesson:
    return Lesson("01_small_steps", {e.name: e for e in (double, praised, hints("h", "a", "b"))})


def test_a_right_answer_is_praised(lesson: Lesson, capsys: pytest.CaptureFixture[str]):
    lesson.check("double", lambda x: 2 * x)
    assert capsys.readouterr().out == "✓ double: Every number doubled.\n"
    lesson.check("praised", 7)
    assert capsys.readouterr().out == "✓ praised: 7 it is\n"


def test_a_wrong_answer_says_what_is_wrong_where_to_look_and_how_to_get_help(
    lesson: Lesson, capsys: pytest.CaptureFixture[str]
):
    lesson.check("double", lambda x: x)
    assert capsys.readouterr().out == (
        "✗ double: double(3) is 3\n  Where to look: the factor <2>\n"
        '  For a hint, in a new cell: hint("double")\n'
    )


def test_an_answer_whose_cell_cannot_be_read_is_not_checked_as_it_was_before():
    """Else a check praises, or blames, what the learner has already changed."""
    check = 'check("in-flight", in_flight)'
    outputs = run_cells(
        "from gpucourse.exercises.checks import lecture\ncheck, hint = lecture('02_why_gpus')",
        "def in_flight(*numbers):\n    return 0",
        check,
        "def in_flight(*numbers):\n    return (1",
        check,
        check,
    )
    before, refused, again = ("".join(map(str, outputs[n])) for n in (3, 5, 6))
    assert "has a syntax error" in refused and "line 2 of that cell" in refused
    assert "cannot be read" not in before + again


@pytest.mark.parametrize("answers", [(), (None,), (...,), (1, None)])
def test_no_answer_is_not_called_wrong(lesson: Lesson, answers: tuple):
    outcome = lesson.outcome("praised", *answers)
    assert not outcome.passed
    assert outcome.message == "there is no answer yet"


def test_an_error_in_the_answer_is_told_and_not_raised(lesson: Lesson):
    def broken(x):
        return x.nothing

    outcome = lesson.outcome("double", broken)
    assert not outcome.passed
    assert outcome.message == "AttributeError: 'int' object has no attribute 'nothing'"


def test_a_compilers_long_message_is_cut(lesson: Lesson):
    def broken(x):
        raise ValueError("\x1b[1mreason\x1b[0m\n\n" + "detail\n" * 100)

    message = lesson.outcome("double", broken).message
    assert message.startswith("ValueError: reason\ndetail\n")
    assert len(message.split("\n")) < 10
    assert message.endswith("detail\n…")


def test_the_compilers_words_come_with_the_learners_line_and_the_mend(lesson: Lesson):
    """And blame the line that is wrong, not the one that called it."""
    virtualgpu.activate(force=True)

    @cuda.jit(device=True)
    def inner(v):
        return v.nothing

    @cuda.jit
    def outer(x):
        x[0] = inner(x[0])

    outcome = lesson.outcome("double", lambda x: outer[1, 1](np.zeros(1)))
    message, advice = outcome.message.splitlines()
    assert message == "TypingError: Unknown attribute 'nothing' of type float64"
    assert advice.startswith("→ this is one number, which has no .nothing")
    assert outcome.look is not None and outcome.look.endswith(": return v.nothing")


def test_an_endless_kernel_in_a_check_is_stopped_soon(lesson: Lesson):
    virtualgpu.activate(force=True)

    @cuda.jit
    def endless(x):
        while x[0] >= 0:
            x[0] += 1

    with devices.use(virtualgpu.VirtualDevice(1 << 20, Budget(seconds=2.4))):
        outcome = lesson.outcome("double", lambda x: endless[1, 64](np.zeros(2)))
    assert "ran for 0.2 s of processor time and was stopped" in outcome.message
    assert ", thread 0 of block 0\n" in outcome.message


def test_hints_unfold_one_by_one(lesson: Lesson, capsys: pytest.CaptureFixture[str]):
    lesson.hint("double")
    first = capsys.readouterr().out
    assert "Hint 1 of 2: The idea" in first
    assert "The shape" not in first
    lesson.hint("double")
    second = capsys.readouterr().out
    assert "Hint 1 of 2: The idea" in second
    assert "Hint 2 of 2: The shape" in second
    assert "this is the last hint; your teacher has the answer" in second
    lesson.hint("double")
    assert capsys.readouterr().out == second
    # Nothing is left to unfold, so nothing is offered.
    assert lesson.outcome("double", lambda x: x).next_step is None
    assert lesson.outcome("praised", None).next_step == 'hint("praised")'


def test_an_unknown_exercise_is_guessed(lesson: Lesson):
    with pytest.raises(checks.UnknownExercise, match="did you mean 'double'"):
        lesson.check("duoble", 1)
    with pytest.raises(checks.UnknownExercise, match="exercises are double, praised, h"):
        lesson.hint("zzz")
    with pytest.raises(checks.UnknownExercise, match="test cells check it"):
        lesson.check("h", 1)


def test_an_answer_without_its_exercise_is_told_the_exercise(lesson: Lesson):
    def double(x):
        return x

    with pytest.raises(checks.UnknownExercise, match='of the exercise first, in quotes: "double"'):
        lesson.check(double)
    with pytest.raises(checks.UnknownExercise, match="in quotes: one of double, praised, h"):
        lesson.check(lambda x: x)
    with pytest.raises(checks.UnknownExercise, match="in quotes: one of"):
        lesson.hint(3)


def test_the_last_hint_names_a_file_that_is_there(
    lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    write_course(tmp_path)
    (tmp_path / "lectures").mkdir()
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "01_small_steps.ipynb").touch()
    monkeypatch.chdir(tmp_path / "course")
    lesson.hint("double")
    lesson.hint("double")
    assert "the answer is in solutions/01_small_steps.ipynb" in capsys.readouterr().out


def test_an_exercise_needs_two_hints():
    with pytest.raises(ValueError, match="two hints"):
        exercise("x", hints=("one",))
    with pytest.raises(ValueError, match="two hints"):
        exercise("x", hints="one string is no two hints")
    with pytest.raises(ValueError, match="two hints"):
        hints("x", "one")


def test_a_notebook_gets_html_that_is_escaped_and_data_for_tests(lesson: Lesson):
    bundle = lesson.outcome("double", lambda x: "<script>")._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", outcomes.CHECK_MIME}
    assert "<script>" not in bundle["text/html"]
    assert "&lt;script&gt;" in bundle["text/html"]
    assert "&lt;2&gt;" in bundle["text/html"]
    assert bundle[outcomes.CHECK_MIME]["passed"] is False
    passed = lesson.outcome("praised", "`x`")._repr_mimebundle_()["text/html"]
    assert "<code>x</code> it is" in passed


@pytest.mark.parametrize("inside", ["", "lectures", "course/lectures"])
def test_checks_are_found_from_anywhere_in_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str, capsys
):
    write_course(tmp_path)
    (tmp_path / inside).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / inside)
    check, hint = lecture(LECTURE)
    check("half", 0.5)
    assert "✓ half: One half." in capsys.readouterr().out
    hint("half")
    assert "one over two" in capsys.readouterr().out
    project(PROJECT)("count")
    assert "Python counts" in capsys.readouterr().out


def test_checks_are_found_in_an_installed_package(tmp_path: Path):
    """Away from any checkout, the copy inside the package answers."""
    package = tmp_path / "site" / "gpucourse"
    for name in ("course", "exercises", "judging", "learner", "system"):
        shutil.copytree(PACKAGE / name, package / name)
    for name in ("__init__.py", "wording.py"):
        shutil.copy(PACKAGE / name, package)
    (package / "lessons" / LECTURE).mkdir(parents=True)
    course = write_course(tmp_path / "elsewhere")
    file = course / "course" / "lectures" / LECTURE / "checks.py"
    file.rename(package / "lessons" / LECTURE / file.name)
    code = f"from gpucourse.exercises.checks import lecture; lecture({LECTURE!r})[0]('half', 0.5)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(package.parent), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "✓ half: One half.\n", ran.stderr


def test_missing_checks_say_where_they_were_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_course(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="were looked for") as caught:
        lecture("09_none")
    assert str(tmp_path / "course" / "lectures" / "09_none" / "checks.py") in str(caught.value)


@exercise("slow", hints=("one", "two"))
def slow(answer):
    """Done."""
    for n in (1, 33):
        waiting.trial(f"a launch with {n} values")


def test_a_check_that_takes_long_says_at_which_trial_it_is(monkeypatch, capsys):
    lesson = Lesson("01_small_steps", {"slow": slow})
    lesson.check("slow", 1)
    assert capsys.readouterr().out == "✓ slow: Done.\n"  # two seconds have not passed
    monkeypatch.setattr(waiting, "PATIENCE", 0)
    lesson.check("slow", 1)
    assert capsys.readouterr().out == (
        "… slow: still checking after 0 s; trial 1: a launch with 1 values\n"
        "… slow: still checking after 0 s; trial 2: a launch with 33 values\n"
        "✓ slow: Done.\n"
    )
    waiting.trial("no check waits for this one")
    assert capsys.readouterr().out == ""


@exercise("by-cupy", hints=("one", "two"))
def by_cupy(answer):
    """Done."""
    waiting.launches_on_a_gpu()


def test_what_a_real_gpu_launches_is_announced_before_it_can_hang(monkeypatch, capsys):
    lesson = Lesson("01_small_steps", {"by-cupy": by_cupy})
    lesson.check("by-cupy", 1)
    assert capsys.readouterr().out == "✓ by-cupy: Done.\n"
    monkeypatch.setattr(virtualgpu, "answers", lambda: False)
    lesson.check("by-cupy", 1)
    said, outcome = capsys.readouterr().out.splitlines()
    assert "by-cupy" in said and "cannot stop it" in said and outcome == "✓ by-cupy: Done."


@exercise("cases", hints=("one", "two"))
def cases(answer):
    """Done."""
    for _ in range(3):
        require(answer == 1, "not 1")


def test_a_check_without_trials_says_that_it_goes_on(monkeypatch, capsys):
    lesson = Lesson("01_small_steps", {"cases": cases})
    monkeypatch.setattr(waiting, "PATIENCE", 0)
    lesson.check("cases", 1)
    assert capsys.readouterr().out == "… cases: still checking after 0 s\n" * 3 + "✓ cases: Done.\n"


def test_in_a_notebook_the_outcome_takes_the_place_of_what_was_said(monkeypatch):
    seen = []

    def show(shown, place=None):
        seen.append((str(shown)[:6], place))
        return "the cell's output"

    monkeypatch.setattr(waiting, "PATIENCE", 0)
    monkeypatch.setattr(waiting, "show", show)
    Lesson("01_small_steps", {"slow": slow}).check("slow", 1)
    place = "the cell's output"
    assert seen == [("… slow", None), ("… slow", place), ("✓ slow", place)]


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("first *where* it lies", "first <em>where</em> it lies"),
        ("*before the `while`*", "*before the <code>while</code>*"),
        ("*all of it*: `a*b*c`", "<em>all of it</em>: <code>a*b*c</code>"),
        ("4*a*c and b * b * b, x[1]*y*z", "4*a*c and b * b * b, x[1]*y*z"),
        ("a < b", "a &lt; b"),
    ],
)
def test_a_hint_is_marked_up(text: str, markup: str):
    assert outcomes.marked_up(text) == f'<span style="white-space: pre-wrap">{markup}</span>'
