"""Instant checks and hints for exercises.

The checks and hints of a lesson are in one file, ``course/lectures/ID/checks.py`` (``ID`` as in
``course.toml``)::

    from gpucourse.exercises.checks import exercise, require

    @exercise("bounds-guard", hints=("The idea: …", "The shape: …"))
    def bounds_guard(kernel):
        \"\"\"Every element scaled once, none beyond the end touched.\"\"\"
        for n in (0, 1, 31, 32, 33):
            got = …
            require(np.array_equal(got, expected), f"with {n} values …", look="which threads …?")

The lecture's first cell loads three functions with :func:`gpucourse.exercises.lesson.lesson`::

    from gpucourse import lesson
    check, hint, predict = lesson("06_numba_cuda")

``check("bounds-guard", scale)`` runs the function on the learner's answer and shows ✓ or ✗. It
never raises an exception for a wrong answer, so that *Run All* continues past open exercises. Each
call of ``hint("bounds-guard")`` shows one more hint. A project's own cells test it, so it has only
hints: ``BIN_INDEX = hints("bin-index", "The idea: …", "The shape: …")`` in its
``course/projects/ID/checks.py``, and ``hint = project("01_fill_a_histogram")`` in its first cell.

The file is looked up first in the checkout that contains the working directory, then in the
checkout that this package is imported from, and last in the package itself
(``gpucourse/lessons``), into which an installation copies it. So the same two lines work in
JupyterLab started in any folder of the checkout, under nbclient, on Binder, and on a hub where
only the package is installed.
"""

from __future__ import annotations

import difflib
import importlib.util
import reprlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from gpucourse.course import renamed
from gpucourse.course.checkout import check_files, solution_path
from gpucourse.exercises import bounds, unusable
from gpucourse.exercises.outcomes import Outcome, describe_error, show_hints
from gpucourse.exercises.waiting import going_on, waiting
from gpucourse.judging.orders import OF_A_LAUNCH
from gpucourse.learner import records
from gpucourse.system import language
from gpucourse.system.language import _, catalogue
from gpucourse.wording import shortened
from virtualgpu.api import hurried, reroute

Check = Callable[..., str | None]
#: Characters of a message that are shown; the longest of our own have 700.
MOST_CHARACTERS = 2_000


class CheckFailed(AssertionError):
    """An answer is wrong: ``message`` describes the fault, ``look`` where to look for it."""

    def __init__(self, message: str, look: str | None = None):
        self.message = message
        self.look = look
        super().__init__(message if look is None else f"{message}\nWhere to look: {look}")


class UnknownExercise(LookupError):
    """Name of an exercise that the lesson does not have."""

    def _render_traceback_(self) -> list[str]:
        return [f"UnknownExercise: {self}"]


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise: its hints and its check, which is None in a project."""

    name: str
    hints: tuple[str, ...]
    function: Check | None = None

    @property
    def praise(self) -> str:
        """Return the message of a passed check: the first line of the check's docstring."""
        return (self.function.__doc__ or _("Right.")).strip().split("\n")[0]


def exercise(name: str, *, hints: tuple[str, ...]) -> Callable[[Check], Exercise]:
    """Make a function the check of the exercise ``name``.

    The function takes the answers that the learner passes to ``check``. It returns normally if
    they are right; a string that it returns replaces the first line of its docstring as praise. It
    calls :func:`require` to report what is wrong. ``hints`` are two or more, the idea first and
    then the shape.
    """
    _demand_two(name, hints)
    return lambda function: Exercise(name, hints, function)


def hints(name: str, *texts: str) -> Exercise:
    """Return the hints for a project's solution cell: the idea first, then the shape."""
    _demand_two(name, texts)
    return Exercise(name, texts)


def require(condition: object, message: str, *, look: str | None = None) -> None:
    """Raise :class:`CheckFailed` unless ``condition`` is true.

    ``message`` describes with numbers what is wrong with the answer; ``look`` names where to look.
    After two seconds, the learner sees a message that the check is still running.
    """
    if not condition:
        raise CheckFailed(message, look)
    going_on()


def pair(answer: Any, what: str, look: str | None = None) -> tuple:
    """Return the two parts of an answer that is a tuple, a list or an array.

    ``what`` describes the expected answer in the message if it is none of these.
    """
    require(
        (isinstance(answer, tuple | list) or type(answer).__name__ == "ndarray")
        and len(answer) == 2
        and not any(part is None for part in answer),
        f"the function returns {reprlib.repr(answer)}, not {what}",
        look=look,
    )
    return tuple(answer)


def require_readable() -> None:
    """Raise :class:`CheckFailed` if the last cell that was run has a syntax error.

    The names that the cell would have defined still have their old values.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    error = getattr(getattr(shell, "last_execution_result", None), "error_before_exec", None)
    if isinstance(error, SyntaxError):
        raise CheckFailed(
            _(
                "the last cell that you ran has a syntax error, so your answer is still the "
                "one from before"
            ),
            _("line {line} of that cell, and the error below it").format(line=error.lineno),
        )


def lecture(id: str) -> tuple[Callable[..., None], Callable[[str], None]]:
    """Return ``check`` and ``hint`` of a lecture."""
    lesson = load_lesson(id)
    return lesson.check, lesson.hint


def project(id: str) -> Callable[[str], None]:
    """Return ``hint`` of a project."""
    return load_lesson(id).hint


class Lesson:
    """The exercises of one lesson, with the number of hints shown for each."""

    def __init__(self, id: str, exercises: dict[str, Exercise], *folders: Path):
        self.id = id
        self.exercises = exercises
        self.folders = folders
        self._unfolded: dict[str, int] = {}

    def check(self, name: str, *answers: object) -> None:
        """Check the answers to the exercise ``name`` and show the outcome.

        A passed check is noted in the learner's records (:mod:`gpucourse.learner.records`). The
        only exception is :class:`UnknownExercise`, for a name that the lesson does not have.
        """
        with waiting(name) as wait:
            outcome = self.outcome(name, *answers)
        if outcome.passed and records.asked_by_a_learner():
            records.note(lesson=self.id, done=name)
        wait.end(outcome)

    def outcome(self, name: str, *answers: object) -> Outcome:
        """Return the outcome that ``check`` shows."""
        exercise = self._find(name)
        if exercise.function is None:
            raise UnknownExercise(
                f"{name!r} has hints but no check, because the project's test cells check it"
            )
        answered = answers and not any(answer is None or answer is ... for answer in answers)
        try:
            require_readable()
            if not answered:
                raise CheckFailed(
                    _("there is no answer yet"), _("write your answer above and run its cell")
                )
            with bounds.bounded(), bounds.printing_little():
                praise = _judged(exercise.function, answers) or exercise.praise
                return Outcome(name, True, language.said(praise, *self.folders))
        except CheckFailed as failure:
            message = language.said(failure.message, *self.folders)
            look = unusable.only_compares(answers) or (
                language.said(failure.look or "", *self.folders) or None
            )
        except KeyboardInterrupt as error:
            if not bounds.raised_on_purpose(error):
                raise
            message, look = describe_error(error)
        except BaseException as error:  # the learner's code may even exit
            message, look = describe_error(error)
        message = shortened(message, MOST_CHARACTERS)  # it may contain a learner's value
        unseen = self._unfolded.get(name, 0) < len(exercise.hints)
        return Outcome(name, False, message, look, f'hint("{name}")' if unseen else None)

    def hint(self, name: str) -> None:
        """Show the hints of an exercise, one more at each call."""
        texts = self._find(name).hints
        count = min(self._unfolded.get(name, 0) + 1, len(texts))
        self._unfolded[name] = count
        show_hints(name, texts[:count], len(texts), solution_path(renamed.today(self.id, name)))

    def _find(self, name: object) -> Exercise:
        if isinstance(name, str) and name in self.exercises:
            return self.exercises[name]
        meant = name if isinstance(name, str) else str(getattr(name, "__name__", ""))
        close = difflib.get_close_matches(meant.replace("_", "-"), self.exercises, n=1)
        if not isinstance(name, str):
            wanted = f'"{close[0]}"' if close else f"one of {', '.join(self.exercises)}"
            raise UnknownExercise(f"pass the name of the exercise first, in quotes: {wanted}")
        known = (
            f"did you mean {close[0]!r}?"
            if close
            else (f"its exercises are {', '.join(self.exercises)}")
        )
        raise UnknownExercise(f"{self.id} has no exercise {name!r}; {known}")


def _judged(function: Check, answers: tuple) -> str | None:
    """Return the praise that a check returns for the answers, or None.

    Raises the exceptions of the check, and :class:`CheckFailed` if the answers are of a kind that
    it cannot use.
    """
    # A wrong kernel must not run on a real GPU, where no check can end an endless loop.
    with reroute(), hurried(OF_A_LAUNCH):
        try:
            return function(*answers)
        except CheckFailed:
            raise
        except Exception as error:
            if told := unusable.said(error, function, answers):
                raise CheckFailed(*told) from error
            raise


def load_lesson(id: str) -> Lesson:
    """Find and read the checks of a lesson, or raise :class:`FileNotFoundError`.

    The error lists where the file was looked for. A notebook that uses an earlier name of the
    lesson gets its present checks.
    """
    found: dict[str, Exercise] = {}
    folders = []
    for one in renamed.lessons(id):
        where = list(check_files(one))
        path = next((path for path in where if path.is_file()), None)
        if path:
            found |= read_exercises(path)
            folders.append(path.parent)
            language.opened(path.parent)
    if found:
        return Lesson(id, found, *folders)
    looked = "\n".join(f"  {path}" for path in where)
    raise FileNotFoundError(
        f"there are no checks for {id!r}. Keep the notebook inside the course's folder, or "
        f"install the course's package from that folder. These files were looked for:\n{looked}"
    )


def read_exercises(path: Path) -> dict[str, Exercise]:
    """Return the exercises that a file of checks defines, by name.

    The module may hold them in lists. The hints are translated into the learner's language.
    """
    module = _load(path, f"course_checks_{path.parent.name}")
    lists = [value if isinstance(value, list) else [value] for value in vars(module).values()]
    found = [one for values in lists for one in values if isinstance(one, Exercise)]
    say = catalogue(path.parent).pgettext
    return {
        one.name: replace(one, hints=tuple(say(one.name, hint) for hint in one.hints))
        for one in found
    }


def _load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module in `sys.modules` by name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _demand_two(name: str, texts: tuple[str, ...]) -> None:
    if not isinstance(texts, tuple) or len(texts) < 2:
        raise ValueError(f"exercise {name!r} needs two hints: first the idea, then the shape")
