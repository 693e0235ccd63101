"""Numba's errors of compilation as a learner can read them in a notebook.

As they come they have some two hundred lines: every function of the compiler that was on its way,
and in place of the line that is wrong, ``<source missing, REPL/exec in use?>``, since Numba looks
for a notebook's cell on disk. Here they keep their words and lose the rest: the line that asked for
the compilation, the message, and each place named by its cell and shown once.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from types import ModuleType

from virtualgpu import sources
from virtualgpu.after_import import after_import, forget

#: Numba's errors, and those of numba-cuda: two classes of the same name.
MODULES = ("numba.core.errors", "numba.cuda.core.errors")

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PLACE = re.compile(r'File "([^"]+)", line (\d+):\n(?:<source missing, REPL/exec in use\?>)?')
_BRIEF = re.compile(r"(\S*ipykernel_\S+\.py) \((\d+)\)")


def shorten() -> None:
    """Have IPython show Numba's errors in short, once Numba is imported."""
    for name in MODULES:
        after_import(name, _shorten)


def undo() -> None:
    """Show them as they come again."""
    for name in MODULES:
        forget(name)
        module = sys.modules.get(name)
        if module is not None and "_render_traceback_" in vars(module.NumbaError):
            del module.NumbaError._render_traceback_


def _shorten(module: ModuleType) -> None:
    module.NumbaError._render_traceback_ = rendered


def rendered(error: Exception) -> list[str]:
    """The lines that IPython prints: where it was asked for, and the message."""
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        name = sources.name(frame.filename)
        if name.startswith("cell "):
            lines = [f"{name} line {frame.lineno}: {frame.line or ''}".rstrip(), ""]
    return [*lines, f"{type(error).__name__}: {_readable(str(error))}"]


def _readable(message: str) -> str:
    shown: set[tuple[str, int]] = set()

    def place(found: re.Match) -> str:
        path, line = os.path.abspath(found[1]), int(found[2])
        if not (text := sources.text(path, line)):
            return found[0]
        if (path, line) in shown:
            return ""
        shown.add((path, line))
        return f"{sources.name(path)} line {line}:\n    {text}"

    def brief(found: re.Match) -> str:
        return f"{sources.name(found[1])} line {found[2]}"

    message = _BRIEF.sub(brief, _PLACE.sub(place, _COLOUR.sub("", message)))
    return re.sub(r"\n{3,}", "\n\n", message).strip()
