"""Names and texts of source lines, for messages.

A kernel's PTX names its source file. In a notebook this is a temporary name that means nothing to
a reader, so a frontend may register a *namer*, which returns a name such as ``cell In[7]``.
"""

from __future__ import annotations

import contextlib
import linecache
import os.path
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import NamedTuple

_namers: list[Callable[[str], str | None]] = []
_may_quote: list[Callable[[str], bool]] = []


class _Line(NamedTuple):
    filename: str
    line: int


class SourceLine(_Line):
    """Line of a kernel's source, from ``.loc`` and ``.file``.

    ``callers`` are the lines at which the compiler inlined it, innermost call first. They do not
    count when two lines are compared, because a line of a function is the same line wherever the
    function is called.
    """

    callers: tuple[SourceLine, ...] = ()


def register_namer(namer: Callable[[str], str | None]) -> None:
    """Let :func:`name` ask ``namer(filename)`` first, which returns None for unknown files."""
    if namer not in _namers:
        _namers.append(namer)


def unregister_namer(namer: Callable[[str], str | None]) -> None:
    if namer in _namers:
        _namers.remove(namer)


def name(filename: str | None) -> str:
    """Return the file's name for a reader: from a namer, or the last part of its path."""
    if not filename:
        return "unknown source"
    for namer in reversed(_namers):
        if known := namer(filename):
            return known
    return PurePath(filename).name


@contextlib.contextmanager
def quoting(allowed: Callable[[str], bool]) -> Iterator[None]:
    """Quote only source lines of files for which ``allowed(filename)`` is true.

    This is for untrusted PTX, which may name any file as its source.
    """
    _may_quote.append(allowed)
    try:
        yield
    finally:
        _may_quote.remove(allowed)


def text(filename: str | None, line: int | None) -> str:
    """Return the stripped source line, or "" if it cannot be read or quoted."""
    lines = _lines(filename)
    return lines[line - 1].strip() if line and 0 < line <= len(lines) else ""


def whole(filename: str | None) -> str:
    """Return the text of a source file, or "" if it cannot be read or quoted."""
    return "".join(_lines(filename))


def _lines(filename: str | None) -> list[str]:
    if not filename or not all(allowed(filename) for allowed in _may_quote):
        return []
    # Skip devices, whose first line may never end, and names that no file can have.
    if filename not in linecache.cache and not os.path.isfile(filename):
        return []
    return linecache.getlines(filename)
