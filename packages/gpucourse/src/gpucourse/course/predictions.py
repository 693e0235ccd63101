"""Predictions of a lesson: the choices, and why each wrong choice is tempting.

They are in ``predictions.toml`` beside the lesson's text, each under the id of the cell whose
output is predicted::

    [who-am-i]
    right = "8"

    [who-am-i.wrong]
    2 = "That's the number of blocks; the body runs once for each *thread*."

The notebook calls ``predict("who-am-i", "2", "4", "8")``: the choices stand there in the order in
which a learner reads them, and the reasons here, out of their sight.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpucourse.course.checkout import prediction_files
from gpucourse.course.puzzles import puzzle_folder, read_puzzle
from gpucourse.system.language import catalogue
from gpucourse.wording import many

#: With fewer choices there is no question, with more nobody can weigh them.
FEWEST, MOST = 2, 4
#: A shorter reason says no more than "no".
_REASON_LETTERS = 30


@dataclass(frozen=True, slots=True)
class Prediction:
    """Answers of one prediction: the ``right`` choice, and the reason against each ``wrong`` one.

    ``shown`` maps the English words of a choice to its translation, if the learner reads another
    language. Records contain the English words.
    """

    name: str
    right: str
    wrong: dict[str, str]
    shown: dict[str, str] = field(default_factory=dict)

    def worded(self, say: Callable[[str], str]) -> Prediction:
        """Translate the prediction with ``say``."""
        shown = {choice: say(choice) for choice in (self.right, *self.wrong)}
        wrong = {shown[choice]: say(reason) for choice, reason in self.wrong.items()}
        return Prediction(self.name, shown[self.right], wrong, shown)

    def recorded(self, choice: str) -> str:
        """Return the English words of a choice."""
        return next((english for english, shown in self.shown.items() if shown == choice), choice)

    @property
    def choices(self) -> frozenset[str]:
        """Return all possible answers, in no particular order."""
        return frozenset({self.right, *self.wrong})

    def mistakes(self, choices: Collection[str]) -> Iterator[str]:
        """Yield the faults of a cell's ``choices``, or nothing if there are none."""
        if set(choices) != self.choices or len(choices) != len(self.choices):
            yield (
                f"offers {', '.join(map(repr, choices))}, and the reasons are for "
                f"{', '.join(map(repr, sorted(self.choices)))}"
            )
        if not FEWEST <= len(self.choices) <= MOST:
            yield f"has {many(len(self.choices), 'choice')}; {FEWEST} to {MOST} can be weighed"
        if self.right in self.wrong:
            yield f"gives a reason against its right answer {self.right!r}"
        for choice, reason in self.wrong.items():
            if len(reason.strip()) < _REASON_LETTERS:
                yield f"must say why {choice!r} tempts, and why it is wrong"


def read_predictions(path: Path) -> dict[str, Prediction]:
    """Return a lesson's predictions by name, those of its puzzles first.

    They are in the learner's language. Without a file there are none. Raises :class:`ValueError`,
    which names the file and the entry, for an invalid entry.
    """
    puzzles = map(read_puzzle, sorted(puzzle_folder(path).glob("*.toml")))
    found = {
        puzzle.name: Prediction(puzzle.name, puzzle.right, puzzle.reasons) for puzzle in puzzles
    }
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for name, entry in tomllib.loads(text).items():
        match entry:
            case {"right": str(right), "wrong": dict(wrong), **rest} if not rest and all(
                isinstance(reason, str) for reason in wrong.values()
            ):
                found[name] = Prediction(name, right, wrong)
            case _:
                raise ValueError(
                    f'{path}: [{name}] needs right = "…" and a table [{name}.wrong] '
                    "of texts, and nothing else"
                )
    words = catalogue(path.parent)
    return {name: one.worded(partial(words.pgettext, name)) for name, one in found.items()}


def find_predictions(id: str) -> dict[str, Prediction]:
    """Return the predictions of the lesson ``id`` from the file beside its checks."""
    path = next(
        (path for path in prediction_files(id) if path.is_file() or puzzle_folder(path).is_dir()),
        None,
    )
    return read_predictions(path) if path else {}
