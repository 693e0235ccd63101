"""Removal of a submission's output from reasons, because it may contain hidden inputs.

A test's reason may quote what the student's function returned, for example the name of an
operation that a compiler refuses. Any such string may be a hidden input. Every reason therefore
passes through :meth:`Heard.told` when it is recorded, wherever it was made. Output of the
submission stays in the reason only if it is a single word that the submission or the course's
public cells already contained, the name of a JAX operation, or a whole string literal of the
public cells.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable

from gpucourse.grading.oracle.fault_reasons import NOTHING_MORE, words
from gpucourse.grading.sandbox import cells

# Replacement for a reason that must not be shown.
NOT_HELD = f"the answer fails this check ({NOTHING_MORE})"
# Replacement for a part that must not be shown.
WITHHELD = "…"
# Shorter strings occur in any sentence by chance.
SHORTEST = 3
# Strings of this length or longer occur in no sentence by chance, not even inside a word.
LONG = 8
# Half the number of characters by which a piece of a longer string is recognised.
PIECE = 12
# Total length of the strings that are kept for one test, with EACH added for each string. Searching
# them takes at most 0.5 s. A compiler written in project 4 returns 0.1 million characters.
ROOM = 1 << 21
EACH = 16


class Heard:
    """Strings that came from a submission during one test.

    Parameters
    ----------
    known
        Words that the submission contained before it ran.
    public
        Source of the course's cells that students receive.
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
        """Forget the output of the previous test."""
        self._texts: set[str] = set()
        self._room = ROOM

    def note(self, value: object) -> None:
        """Remember every string in a value that the oracle accepted."""
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
        """Return `reason` without words that only the submission can have put there."""
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
        """Return `told` without pieces of 24 or more characters shared with a long string."""
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

    Only every 13th position is tested, because any 24 characters contain a piece of 12 that begins
    at one of them.
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
    """Return the names of JAX's operations; empty if no test has imported JAX."""
    if "jax" not in sys.modules:
        return frozenset()
    from jax.extend.core import primitives

    return frozenset(
        getattr(primitives, name).name for name in dir(primitives) if name.endswith("_p")
    )
