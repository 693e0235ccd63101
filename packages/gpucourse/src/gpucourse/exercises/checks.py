"""Instant checks and hints for exercises.

A lesson's checks and hints stand in one file, ``course/lectures/ID/checks.py`` (``ID`` as in
``course.toml``)::

    from gpucourse.exercises.checks import exercise, require

    @exercise("bounds-guard", hints=("The idea: …", "The shape: …"))
    def bounds_guard(kernel):
        \"\"\"Every element scaled once, none beyond the end touched.\"\"\"
        for n in (0, 1, 31, 32, 33):
            got = …
            require(np.array_equal(got, expected), f"with {n} values …", look="which threads …?")

and the lecture's first cell fetches two functions from it (:mod:`gpucourse.exercises.lesson`)::

    from gpucourse import lesson
    check, hint, predict = lesson("06_numba_cuda")

``check("bounds-guard", scale)`` runs the function on the learner's answer and shows ✓ or ✗. It
never raises for a wrong answer, so that *Run All* goes through with exercises open. ``hint(
"bounds-guard")`` unfolds one hint more each time. A project is tested by its own cells and has
hints alone: ``BIN_INDEX = hints("bin-index", "The idea: …", "The shape: …")`` in its
``course/projects/ID/checks.py``, and
``hint = project("01_fill_a_histogram")`` in its first cell.

The file is found, in this order: in the course's checkout around the working directory, in the
checkout that this package is imported from, and in the package itself (``gpucourse/lessons``),
where an installation puts a copy. So the same two lines work in JupyterLab opened anywhere in the
checkout, under nbclient, on Binder, and on a hub where only the package is installed.
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
#: Of a message, what is shown: the longest of ours have 700.
MOST_CHARACTERS = 2_000


class CheckFailed(AssertionError):
    """An answer is wrong; ``message`` says how, ``look`` where to look."""

    def __init__(self, message: str, look: str | None = None):
        self.message = message
        self.look = look
        super().__init__(message if look is None else f"{message}\nWhere to look: {look}")


class UnknownExercise(LookupError):
    """A name that the lesson's checks do not have."""

    def _render_traceback_(self) -> list[str]:
        return [f"UnknownExercise: {self}"]


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise: its hints, and its check (None in a project, whose own cells test)."""

    name: str
    hints: tuple[str, ...]
    function: Check | None = None

    @property
    def praise(self) -> str:
        """Return the message of a passed check: the first line of the check's docstring."""
        return (self.function.__doc__ or _("Right.")).strip().split("\n")[0]


def exercise(name: str, *, hints: tuple[str, ...]) -> Callable[[Check], Exercise]:
    """Make a function the check of the exercise ``name``.

    The function takes the answers that the learner passes to ``check``; it returns normally when
    they are right (a string replaces the docstring's first line as praise) and uses
    :func:`require` to say what is wrong. ``hints`` are two or more: the idea first, then the shape.
    """
    _demand_two(name, hints)
    return lambda function: Exercise(name, hints, function)


def hints(name: str, *texts: str) -> Exercise:
    """Return the hints for a project's solution cell: the idea first, then the shape."""
    _demand_two(name, texts)
    return Exercise(name, texts)


def require(condition: object, message: str, *, look: str | None = None) -> None:
    """Raise :class:`CheckFailed` unless ``condition`` is true.

    ``message`` says what is wrong with the answer, in numbers; ``look`` says where to look.
    A learner who has waited for two seconds is told that the check goes on.
    """
    if not condition:
        raise CheckFailed(message, look)
    going_on()


def pair(answer: Any, what: str, look: str | None = None) -> tuple:
    """Return an answer's two parts from a tuple, a list or an array.

    ``what`` names them if the answer is none of these.
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
    """Raise :class:`CheckFailed` if Python could not read the cell that was run last.

    The names that it would have defined keep their old values.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    error = getattr(getattr(shell, "last_execution_result", None), "error_before_exec", None)
    if isinstance(error, SyntaxError):
        raise CheckFailed(
            _(
                "the cell that you ran last cannot be read, so your answer is still as it was "
                "before"
            ),
            _("its line {line}, and the error below it").format(line=error.lineno),
        )


def lecture(id: str) -> tuple[Callable[..., None], Callable[[str], None]]:
    """Return ``check`` and ``hint`` of a lecture."""
    lesson = load_lesson(id)
    return lesson.check, lesson.hint


def project(id: str) -> Callable[[str], None]:
    """Return ``hint`` of a project."""
    return load_lesson(id).hint


class Lesson:
    """The exercises of one lesson, and the hints already shown."""

    def __init__(self, id: str, exercises: dict[str, Exercise], *folders: Path):
        self.id = id
        self.exercises = exercises
        self.folders = folders
        self._unfolded: dict[str, int] = {}

    def check(self, name: str, *answers: object) -> None:
        """Check the answers to the exercise ``name`` and show the outcome.

        A pass goes into the learner's records (:mod:`gpucourse.learner.records`). Raises
        :class:`UnknownExercise` for a name that the lesson does not have; nothing else.
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
            raise UnknownExercise(f"{name!r} has hints but no check: the test cells check it")
        answered = answers and not any(answer is None or answer is ... for answer in answers)
        try:
            require_readable()
            if not answered:
                raise CheckFailed(
                    _("nothing here yet"), _("write your answer above and run its cell")
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
        except BaseException as error:  # the learner's code may raise anything, and exit
            message, look = describe_error(error)
        message = shortened(message, MOST_CHARACTERS)  # it has a value of the learner's in it
        unseen = self._unfolded.get(name, 0) < len(exercise.hints)
        return Outcome(name, False, message, look, f'hint("{name}")' if unseen else None)

    def hint(self, name: str) -> None:
        """Show the hints of an exercise, one more than the last time."""
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
            raise UnknownExercise(f"the name of the exercise comes first, in quotes: {wanted}")
        known = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(self.exercises)}"
        raise UnknownExercise(f"{self.id} has no exercise {name!r}: {known}")


def _judged(function: Check, answers: tuple) -> str | None:
    """Return a check's message about the answers.

    Raises what the check raises, or :class:`CheckFailed` where it cannot use what they give.
    """
    # A wrong kernel must not reach a real GPU: no check could free it from an endless one.
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
    """Find and read the checks of a lesson. Raises :class:`FileNotFoundError` saying where.

    A notebook with an earlier name of the lesson gets the checks of today's.
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
        f"no checks for {id!r}. Keep the notebook inside the course's folder, or install the "
        f"course's package from that folder. Looked for:\n{looked}"
    )


def read_exercises(path: Path) -> dict[str, Exercise]:
    """Return the exercises that a file of checks defines, by name.

    They may be in lists; hints are in the learner's language.
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
    # Dataclasses look their module up by its name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _demand_two(name: str, texts: tuple[str, ...]) -> None:
    if not isinstance(texts, tuple) or len(texts) < 2:
        raise ValueError(f"exercise {name!r} needs two hints: first the idea, then the shape")
