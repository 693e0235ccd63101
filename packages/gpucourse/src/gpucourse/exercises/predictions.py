"""Function ``predict``, with which learners guess a cell's output before it runs.

``predict("who-am-i", "2", "4", "8")`` asks the question ``who-am-i``. A lecture's first cell loads
``predict`` together with the checks (:mod:`gpucourse.exercises.lesson`); the first question of a
project loads only ``predict``::

    from gpucourse.exercises.predictions import predictions
    predict = predictions("01_fill_a_histogram")

In JupyterLab the choices are buttons, which the keys Tab and Enter also reach. The first answer is
kept in the learner's records (:mod:`gpucourse.learner.records`) and added to the counts of the
room that the learner has joined (:mod:`gpucourse.learner.room`). The verdict and the reason why a
wrong answer is tempting stay folded, so that the learner can run the cell first; the button *show
me* shows them without a guess. When the cell runs again, it shows the recorded guess. After a
restart of the kernel, the buttons tell the learner to run the cell again. A notebook is saved
without its buttons (:mod:`gpucourse.notebook.server`), so that it shows the folds when it is
opened again.

Where no kernel of a learner answers (the site, slides, a notebook that was run elsewhere, Colab, a
page without ipywidgets), each choice is an HTML ``details`` element that contains its reason. In a
terminal, ``predict(…, guess="8")`` answers the question; this works in a notebook as well.

The cell of the lesson below the predicted one explains the output; the build folds it. The reasons
are in the lesson's ``predictions.toml`` (:mod:`gpucourse.course.predictions`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpucourse.course import renamed
from gpucourse.course.predictions import Prediction, find_predictions
from gpucourse.exercises.outcomes import ASKED, edged, marked_up, show
from gpucourse.learner import records, room
from gpucourse.system.language import _

#: MIME type of widgets in an output; they need the kernel that made them.
WIDGET = "application/vnd.jupyter.widget-view+json"
# ipywidgets adds the last of these classes to the widgets of a kernel that has ended.
_GONE = """<style>
.gpucourse-asked .gpucourse-gone { display: none }
.gpucourse-asked.jupyter-widgets-disconnected::before { content: none }
.gpucourse-asked.jupyter-widgets-disconnected .gpucourse-gone { display: inline }
.gpucourse-asked.jupyter-widgets-disconnected .jupyter-button { display: none }
.gpucourse-asked .jupyter-button { white-space: normal; text-align: left; line-height: 1.4 }
</style>"""


class UnknownPrediction(LookupError):
    """A name or a choice that the lesson's predictions do not have."""

    def _render_traceback_(self) -> list[str]:
        return [f"UnknownPrediction: {self}"]


def predictions(id: str) -> Callable[..., None]:
    """Return ``predict`` of a lesson: ``predict(name, *choices, guess=None)``.

    It shows the choices, or with ``guess`` (one of them, exactly) takes that as the answer. Raises
    :class:`UnknownPrediction`, with the nearest, for what the lesson does not have.
    """
    known = {
        name: one
        for lesson in renamed.lessons(id)
        for name, one in find_predictions(lesson).items()
    }

    def predict(name: str, *choices: str, guess: object = None) -> None:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = (
                f"did you mean {close[0]!r}?"
                if close
                else ("its predictions are in predictions.toml")
            )
            raise UnknownPrediction(f"{id} has no prediction {name!r}; {hint}")
        asked = known[name]
        choices = tuple(asked.shown.get(choice, choice) for choice in choices)
        for mistake in asked.mistakes(choices):
            raise UnknownPrediction(f"{name!r} {mistake}")
        lesson = renamed.today(id, name)
        counted = records.asked_by_a_learner()
        before = records.read().guesses.get(lesson, {}).get(name) if counted else None
        before = asked.shown.get(str(before), before)

        def keep(given: str) -> None:
            """Record the first answer, and share it with the room that the learner has joined."""
            if counted and name not in records.read().guesses.get(lesson, ()):
                records.note(lesson=lesson, asked=name, guess=asked.recorded(given))
                room.share(lesson, name, asked.recorded(given))

        if guess is None and before in choices:
            show(Answered(asked, str(before)))
            return
        if guess is None:
            _ask(Question(asked, choices), keep, live=counted)
            return
        given = asked.shown.get(str(guess), str(guess))
        if given not in choices:
            raise UnknownPrediction(
                f"{given!r} is not one of the choices, which are {', '.join(map(repr, choices))}"
            )
        keep(given)
        show(Answered(asked, given))

    return predict


@dataclass(frozen=True, slots=True)
class Question:
    """The choices, each folded over its reason; ``live`` is the widget that replaces them."""

    asked: Prediction
    choices: tuple[str, ...]
    live: dict[str, Any] | None = None

    def __str__(self) -> str:
        return f"{_('Your guess:')} {' · '.join(self.choices)}\n" + _(
            "(Choose one, then run the next cell. To record your guess, call predict(…, "
            'guess="…").)'
        )

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        bundle: dict = {"text/plain": str(self), "text/html": self.html()}
        return bundle | {WIDGET: self.live} if self.live else bundle

    def html(self) -> str:
        """Return the question without a kernel: one fold for each choice."""
        folds = "".join(
            _fold(marked_up(choice), _verdict(self.asked, choice)) for choice in self.choices
        )
        asks = _("<b>Your guess?</b> Choose one, run the next cell, then open your choice here.")
        return edged(f"{asks}{folds}", ASKED)


@dataclass(frozen=True, slots=True)
class Answered:
    """A guess with its folded verdict."""

    asked: Prediction
    guess: str

    def __str__(self) -> str:
        if self.guess == self.asked.right:
            return f"{_('Your guess:')} {_sentence(self.guess)} {_('It is right.')}"
        return (
            f"{_('Your guess:')} {self.guess}? {self.asked.wrong[self.guess]} "
            f"{_('The answer:')} {_sentence(self.asked.right)}"
        )

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": str(self), "text/html": self.html()}

    def html(self) -> str:
        """Return the guess, and the response to it behind a fold."""
        folded = _fold(_("Was it right?"), _verdict(self.asked, self.guess))
        return edged(
            f"<b>{_('Your guess:')}</b> {marked_up(_sentence(self.guess))} "
            f"{_('Now run the next cell. Then open this:')}{folded}",
            ASKED,
        )


@dataclass(frozen=True, slots=True)
class Told:
    """Every choice with its reason, for learners who ask for them."""

    question: Question

    def __str__(self) -> str:
        return f"{_('The answer:')} {_sentence(self.question.asked.right)}"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": str(self), "text/html": self.html()}

    def html(self) -> str:
        """Return the question with every answer in sight."""
        asked = self.question.asked
        told = [
            _against(asked, choice) for choice in self.question.choices if choice in asked.wrong
        ]
        told.append(f"{_answer(asked)} {_('The explanation is folded below the next cell.')}")
        return edged("".join(f"<p>{each}</p>" for each in told), ASKED)


def _ask(question: Question, keep: Callable[[str], None], *, live: bool) -> None:
    """Show buttons in a learner's notebook if it has widgets; otherwise show the folds."""
    buttons = _buttons(question) if live else None
    if buttons is None:
        show(question)
        return
    widget, pressed = buttons
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    place = show(Question(question.asked, question.choices, view))

    def answer(choice: str | None) -> None:
        if choice is not None:
            keep(choice)
        # The page keeps text, not a widget: it can be read when this kernel is gone.
        place.update(Told(question) if choice is None else Answered(question.asked, choice))
        widget.close()

    pressed(answer)


def _buttons(question: Question) -> tuple[Any, Callable[[Callable], None]] | None:
    """Return the widget and a function that sets its handler: a choice, or None for *show me*."""
    try:
        import ipywidgets
    except ImportError:
        return None
    wide = ipywidgets.Layout(width="auto", height="auto", min_height="2em")
    made = {
        choice: ipywidgets.Button(description=choice.replace("`", ""), layout=wide)
        for choice in question.choices
    }
    told = ipywidgets.Button(description=_("show me"), layout=wide, tooltip=_("without a guess"))
    row = ipywidgets.Layout(flex_flow="row wrap", align_items="center")
    gone = _(
        "Python was restarted, so these buttons no longer work. Run this cell again, then choose."
    )
    label = ipywidgets.HTML(
        f'<b>{_("Your guess:")}</b>&nbsp;{_GONE}<span class="gpucourse-gone">{gone}</span>'
    )

    def pressed(answer: Callable) -> None:
        for choice, button in made.items():
            button.on_click(lambda button, choice=choice: answer(choice))
        told.on_click(lambda button: answer(None))

    box = ipywidgets.Box([label, *made.values(), told], layout=row)
    box.add_class("gpucourse-asked")
    return box, pressed


def _verdict(asked: Prediction, choice: str) -> str:
    """Return the response to a choice; HTML."""
    if choice in asked.wrong:
        return f"{_against(asked, choice)} {_answer(asked)}"
    return (
        f"<b>{_('You are right:')}</b> {marked_up(_sentence(choice))} "
        f"{_('The explanation is folded below the next cell.')}"
    )


def _against(asked: Prediction, choice: str) -> str:
    """Return a wrong choice, then its reason, whose *it* or *that* means the choice; HTML."""
    return f"<b>{marked_up(choice)}?</b> {marked_up(asked.wrong[choice])}"


def _answer(asked: Prediction) -> str:
    """Return the right choice; HTML. Its words may be *yes*, *no* or *right, wrong, right*."""
    return f"<b>{_('The answer:')}</b> {marked_up(_sentence(asked.right))}"


def _sentence(choice: str) -> str:
    """Return the text with a full stop, unless it ends in dots already."""
    return choice if choice.endswith("…") else f"{choice}."


def _fold(summary: str, body: str) -> str:
    style = "margin: 0.2em 0 0.2em 0.4em"
    return (
        f'<details style="{style}"><summary style="cursor: pointer">{summary}</summary>'
        f'<div style="margin-left: 1.1em">{body}</div></details>'
    )
