"""Splitting of Python source into statements, with the names each defines and uses.

This module does not use Python's parser, which needs a kilobyte for every two characters, because
it runs on a student's text in the grader's own process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Lines that define names at the top level.
DEFINITION = re.compile(r"(?:async +)?(?:def|class) +(\w{1,100})\b")
IMPORT = re.compile(r"(?:from +[\w.]+ +)?import +(.+)")
ASSIGNMENT = re.compile(r"([A-Za-z_][\w, ()\[\]*]*)(?::[^=]*)?=(?!=)")
WORD = re.compile(r"\b\w{1,100}\b")
# The header of a function up to the end of its first line, and the targets of a loop.
PARAMETERS = re.compile(r"def +\w+ *\((.*)|lambda +([^:]*):")
TARGETS = re.compile(r"\b(?:for +(.+?) +in|as +(\w+))\b")
# Tokens that keep a statement open at the end of a line: quotes, brackets, a backslash.
QUOTES = ("'", '"', "'''", '"""')
OPENING = re.compile(r"""#|'{3}|"{3}|\\.?|['"()\[\]{}]""")
# Lines that continue the statement above them.
CONTINUATION = re.compile(r"[\s)\]}]|(?:else|elif|except|finally)\b")
# Line above each part but the first of an answer that was found in several cells. The parts run one
# after the other, like cells.
PART = re.compile(r"# --- part \d+ of \d+: cell \d+ of the notebook ---")


def names_defined(source: str) -> set[str]:
    """Return the names that `source` appears to define at the top level, judged by its lines."""
    names = definitions(source)
    for line in source.splitlines():
        if (found := IMPORT.match(line)) is not None:
            for part in found[1].strip("( )").split(","):
                name = part.split(" as ")[-1].split(".")[0].strip()
                names |= {name} if name.isidentifier() else set()
        elif DEFINITION.match(line) is None and (found := ASSIGNMENT.match(line)) is not None:
            names |= {name for name in WORD.findall(found[1]) if name.isidentifier()}
    return names


def definitions(source: str) -> set[str]:
    """Return the names of functions and classes that are defined at the top level."""
    found = map(DEFINITION.match, source.splitlines())
    return {match[1] for match in found if match is not None}


def names_used(source: str) -> set[str]:
    """Return the identifiers in `source` that may be global names.

    Parameters and names that a function assigns itself are left out.
    """
    own: set[str] = set()
    for line in source.splitlines():
        if (found := PARAMETERS.search(line)) is not None:
            own.update(WORD.findall(found[1] or found[2] or ""))
        for targets in TARGETS.findall(line):
            own.update(WORD.findall(" ".join(targets)))
        if line[:1].isspace() and (found := ASSIGNMENT.match(line.lstrip())) is not None:
            own.update(WORD.findall(found[1].partition("[")[0]))
    return {word for word in WORD.findall(source) if word not in own}


def is_stub(source: str) -> bool:
    """Return True if `source` still contains the placeholder lines of an answer."""
    return "raise NotImplementedError" in source and "YOUR CODE HERE" in source


def top_level(source: str) -> list[str]:
    """Return the statements of `source`, each with its decorators and the comments above it."""
    pieces: list[list[str]] = [[]]
    opened: list[str] = []
    # A decorator or a comment belongs to the following statement.
    waiting = False
    for line in source.split("\n"):
        if not opened and line and CONTINUATION.match(line) is None and not waiting:
            pieces.append([])
        if not opened and line and not line[0].isspace():
            waiting = line[0] in "@#"
        read_on(line, opened)
        pieces[-1].append(line)
    return ["\n".join(piece) for piece in pieces if piece]


def needed(source: str, wanted: set[str], given: set[str]) -> str:
    """Return the statements of `source` that define `wanted`, with those they need, in order.

    `given` are names that are defined elsewhere.
    """
    pieces = [(piece, names_defined(piece)) for piece in top_level(source)]
    chosen: set[int] = set()
    asked = set(wanted)
    while True:
        more = {n for n, (_, names) in enumerate(pieces) if n not in chosen and names & asked}
        if not more:
            return "\n".join(piece for n, (piece, _) in enumerate(pieces) if n in chosen)
        chosen |= more
        used = set().union(*(names_used(pieces[n][0]) for n in more))
        asked |= used - given


def joined(parts: Iterable[tuple[int, str]]) -> str:
    """Join the parts of an answer, each with the number of the cell in which it was found.

    A part that begins within a statement is appended to the part above it.
    """
    parts = list(parts)
    pieces = [parts[0][1]]
    for n, (number, part) in enumerate(parts[1:], start=2):
        marker = f"# --- part {n} of {len(parts)}: cell {number} of the notebook ---\n"
        pieces[-1] = pieces[-1].rstrip("\n") + "\n"
        pieces.append(("" if _goes_on(pieces[-1], part) else marker) + part)
    return "".join(pieces)


def _goes_on(above: str, part: str) -> bool:
    """Return True if `part` begins within a statement of `above`.

    Brackets and quotes that are open above count only if `part` closes them, because notes with
    one bracket too many do not continue a statement.
    """
    lines = [line for line in above.split("\n") if line.strip()]
    last = next((line for line in reversed(lines) if line[0] != "#"), "")
    first = part.lstrip("\n")
    opened: list[str] = []
    for line in lines:
        read_on(line, opened)
    if opened:
        for line in part.split("\n"):
            read_on(line, opened)
        return not opened
    indented = last[:1].isspace()
    return (
        first[:1] in {" ", "\t"}
        or last.startswith("@")
        or (indented and CONTINUATION.match(first) is not None)
    )


def parts_of(source: str) -> list[tuple[int, str]]:
    """Return the parts of a text of :func:`joined`, each with the number of lines above it."""
    parts: list[tuple[int, list[str]]] = [(0, [])]
    for number, line in enumerate(source.split("\n")):
        if PART.fullmatch(line):
            parts.append((number, []))
        parts[-1][1].append(line)
    return [(above, "\n".join(lines)) for above, lines in parts]


def read_on(line: str, opened: list[str]) -> None:
    """Update `opened`, the stack of open quotes, brackets and backslashes, to the end of a line."""
    if opened and opened[-1] == "\\":
        opened.pop()
    for piece in OPENING.findall(line):
        last = opened[-1] if opened else ""
        if last in QUOTES:
            # Inside a '…' string, ''' is the end of the string and an empty string.
            if piece == last or piece == 3 * last:
                opened.pop()
        elif piece == "#":
            break
        elif piece not in ")]}":
            if not piece.startswith("\\") or piece == "\\":
                opened.append(piece)
        elif opened:
            opened.pop()
    if opened and opened[-1] in QUOTES[:2] and not line.endswith("\\"):
        opened.pop()  # an error, which Python will report
