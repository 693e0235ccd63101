"""Words of a submission since it saw hidden inputs, which a reason must not repeat.

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

# In place of what is not told.
WITHHELD = "…"
# Shorter texts stand in any sentence by chance.
SHORTEST = 3
# From this length on a text stands in no sentence by chance, not even inside of a word.
LONG = 8
# A piece of a longer text is recognised by twice as many characters.
PIECE = 12
# Characters of texts that are remembered for one test: to look through them takes 0.8 s.
ROOM = 1 << 23


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
        """Another test begins, which knows nothing of what this one heard."""
        self._texts: set[str] = set()
        self._room = ROOM

    def note(self, value: object) -> None:
        """Remember every text in a value that came through the gate."""
        if isinstance(value, str):
            if value not in self._texts:
                self._texts.add(value)
                self._room -= len(value)
        elif isinstance(value, list | tuple):
            for item in value:
                self.note(item)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.note(key)
                self.note(item)

    def told(self, reason: str) -> str:
        """`reason` without what only the submission can have put there."""
        if not self._texts or not reason:
            return reason
        if self._room < 0:
            return f"the answer does not hold ({NOTHING_MORE})"
        told = reason
        for text in sorted(self._texts, key=len, reverse=True):
            if len(text) >= SHORTEST and text in told and not self._may_be_told(text):
                told = (
                    told.replace(text, WITHHELD)
                    if len(text) >= LONG
                    else re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", WITHHELD, told)
                )
        told = self._without_pieces(told)
        return reason if told == reason else f"{told} ({NOTHING_MORE})"

    def _may_be_told(self, text: str) -> bool:
        return text in self._words or text in self._sentences or text in _primitives()

    def _without_pieces(self, told: str) -> str:
        """`told` without what two neighbouring pieces of a long text have in common with it."""
        long = [
            text for text in self._texts if len(text) >= 2 * PIECE and text not in self._sentences
        ]
        kept, at = [], 0
        while at < len(told):
            piece = told[at : at + PIECE]
            holder = (
                next((text for text in long if piece in text), None)
                if (len(piece) == PIECE)
                else None
            )
            length = 0 if holder is None else _common(told, at, holder)
            if length >= 2 * PIECE:
                kept.append(WITHHELD)
                at += length
            else:
                kept.append(told[at])
                at += 1
        return "".join(kept)


def _common(told: str, at: int, text: str) -> int:
    """Return how many characters of `told` from `at` on occur in `text` in one piece."""
    longest = PIECE
    while at + longest < len(told) and told[at : at + longest + 1] in text:
        longest += 1
    return longest


def _nodes(source: str) -> Iterable[ast.AST]:
    try:
        return ast.walk(ast.parse(cells.without_magics(source)[0]))
    except (SyntaxError, ValueError):
        return ()


def _primitives() -> frozenset[str]:
    """Names of JAX's operations; none where no test has imported JAX."""
    if "jax" not in sys.modules:
        return frozenset()
    from jax.extend.core import primitives

    return frozenset(
        getattr(primitives, name).name for name in dir(primitives) if name.endswith("_p")
    )
