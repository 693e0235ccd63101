"""A submission's output since it saw hidden inputs, which no reason may repeat.

A test's reason may quote what the student's function returned, as the name of an operation that a
compiler refuses. Any such text may be a hidden input. So every reason passes through
:meth:`Heard.told` when it is written down, wherever it was made: what the submission said stays in
it only if it is one word that the submission or the course's public cells held before, the name of
one of JAX's operations, or a whole sentence of the public cells.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable

from gpucourse.grading.oracle.fault_reasons import NOTHING_MORE, words
from gpucourse.grading.sandbox import cells

# In place of a reason that may not be told.
NOT_HELD = f"the answer does not hold ({NOTHING_MORE})"
# In place of what is not told.
WITHHELD = "…"
# Shorter texts stand in any sentence by chance.
SHORTEST = 3
# From this length on a text stands in no sentence by chance, not even inside of a word.
LONG = 8
# A piece of a longer text is recognised by twice as many characters.
PIECE = 12
# Characters of texts that are remembered for one test, with so many more for each text: to look
# through them takes 0.5 s at most. A compiler of project 4 writes 0.1 million.
ROOM = 1 << 21
EACH = 16


class Heard:
    """Texts that came from a submission during one test.

    Parameters
    ----------
    known
        Words that the submission held before it ran.
    public
        Source of the course's cells that students are given.
    """

    def __init__(self, known: Iterable[str], public: Iterable[str]) -> None:
        public = list(public)
        self._words = frozenset(known) | words(public)
        self._sentences = frozenset(
            node.value
            for source in public
            for node in _nodes(source)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        self.forget()

    def forget(self) -> None:
        """Forget the previous test's output, because another test begins."""
        self._texts: set[str] = set()
        self._room = ROOM

    def note(self, value: object) -> None:
        """Remember every text in a value that came through the gate."""
        if isinstance(value, str):
            if value not in self._texts:
                self._texts.add(value)
                self._room -= len(value) + EACH
        elif isinstance(value, list | tuple):
            for item in value:
                self.note(item)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.note(key)
                self.note(item)

    def told(self, reason: str) -> str:
        """Return `reason` without the words that only the submission can have put there."""
        if not self._texts or not reason:
            return reason
        if self._room < 0:
            return NOT_HELD
        in_it = [
            text
            for text in self._texts
            if SHORTEST <= len(text) <= len(reason)
            and text in reason
            and not self._may_be_told(text)
        ]
        in_it.sort(key=len, reverse=True)
        told = reason
        for text in in_it:
            if len(text) >= LONG:
                told = told.replace(text, WITHHELD)
        if short := "|".join(re.escape(text) for text in in_it if len(text) < LONG):
            told = re.sub(rf"(?<!\w)(?:{short})(?!\w)", WITHHELD, told)
        told = self._without_pieces(told)
        return reason if told == reason else f"{told} ({NOTHING_MORE})"

    def _may_be_told(self, text: str) -> bool:
        return text in self._words or text in self._sentences or text in _primitives()

    def _without_pieces(self, told: str) -> str:
        """Return `told` without pieces that it shares with neighbouring parts of a long text."""
        long = [
            text for text in self._texts if len(text) >= 2 * PIECE and text not in self._sentences
        ]
        places = range(len(told) - 2 * PIECE + 1)
        pairs = {told[at : at + 2 * PIECE] for at in places}
        found = set().union(*(_common(pairs, text) for text in long))
        kept, end = [], 0
        for at, letter in enumerate(told):
            if told[at : at + 2 * PIECE] in found:
                if at >= end:
                    kept.append(WITHHELD)
                end = at + 2 * PIECE
            if at >= end:
                kept.append(letter)
        return "".join(kept)


def _common(pairs: set[str], text: str) -> set[str]:
    """Return those of `pairs`, each as long as two pieces, that `text` contains.

    Only each 13th place of it is looked at: in whatever 24 characters, a piece of 12 begins at one.
    """
    pieces = {pair[at : at + PIECE] for pair in pairs for at in range(PIECE + 1)}
    found: set[str] = set()
    for at in range(0, len(text), PIECE + 1):
        if text[at : at + PIECE] in pieces:
            around = range(max(0, at - PIECE), at + 1)
            found |= pairs.intersection(text[begin : begin + 2 * PIECE] for begin in around)
            if len(found) == len(pairs):
                break
    return found


def _nodes(source: str) -> Iterable[ast.AST]:
    try:
        return ast.walk(ast.parse(cells.without_magics(source)[0]))
    except (SyntaxError, ValueError):
        return ()


def _primitives() -> frozenset[str]:
    """Return the names of JAX's operations; none if no test has imported JAX."""
    if "jax" not in sys.modules:
        return frozenset()
    from jax.extend.core import primitives

    return frozenset(
        getattr(primitives, name).name for name in dir(primitives) if name.endswith("_p")
    )
