"""Names and texts of source lines, for messages.

A kernel's PTX names its source by file. In a notebook that file is a temporary name nobody has
seen, so a frontend may register a *namer* that turns it into words such as ``cell In[7]``.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import PurePath

_namers: list[Callable[[str], str | None]] = []


def register_namer(namer: Callable[[str], str | None]) -> None:
    """Ask ``namer(filename)`` first; it returns None for files it does not know."""
    if namer not in _namers:
        _namers.append(namer)


def unregister_namer(namer: Callable[[str], str | None]) -> None:
    if namer in _namers:
        _namers.remove(namer)


def name(filename: str | None) -> str:
    """The name a reader knows the file by: what a namer says, else the last path component."""
    if not filename:
        return "unknown source"
    for namer in reversed(_namers):
        if known := namer(filename):
            return known
    return PurePath(filename).name


def text(filename: str | None, line: int | None) -> str:
    """The stripped source line, or an empty string where it cannot be read."""
    if not filename or not line:
        return ""
    return linecache.getline(filename, line).strip()
