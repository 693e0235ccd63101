"""Exceptions as learners see them: their own lines, the reason and the advice.

Cells, checks and project tests share these rules. Only the learner's own frames of a traceback are
shown. Of a compiler's message, which can have hundreds of lines in Numba, only the part about the
learner's code is shown. :mod:`.advice` adds what to do.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import NamedTuple

import gpustandins
import virtualgpu
from gpucourse.exercises.advice import advise
from gpucourse.wording import shortened
from virtualgpu import sources
from virtualgpu.api import compiled_lines

#: Lines shown of an error, including the line that tells how to see the whole traceback.
MOST_LINES = 12
CUT = "…"
_MOST_PLACES, _MOST_REASON, LENGTH = 3, 7, 300

# Colours, addresses of functions and paths of modules, Numba's internal names for values, and the
# place that Numba appends to its reason.
_IRRELEVANT = re.compile(
    r"\x1b\[[0-9;]*m| at 0x[0-9a-f]+| for '\$\w+\.\d+', defined at None"
    r"|(?<=') from '[^'\n]*'(?=>)|\.? Raised from (None|\S+ \(\d+\))$"
)
# A cell, as IPython names its file; messages of JAX contain this name.
_CELL = re.compile(r"(\S*ipykernel_\d+\S*\.py):(\d+)(:\d+)?")
_NUMBAS_PLACE = re.compile(
    r'File "([^"]+)", line (\d+):| (?:at|Raised from) (\S+) \((\d+)\)$', re.MULTILINE
)
_NO_IMPLEMENTATION = re.compile(r"No implementation of function .* found for signature:\s+>>> (.+)")
# Numba's message continues here with its own progress and with source lines, which are extracted
# separately.
_PROGRESS = re.compile(r"^(During: |File \"|There (is|are) \d+ candidate)", re.MULTILINE)
# JAX's message about a failed callback, which includes the traceback of the exception.
_CALLBACK = re.compile(r"error calling callback: Traceback \(most recent call last\):\n")
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+), in .*\n(?:    .*\n)*', re.MULTILINE)
_JAX_ON_ITSELF = re.compile("JAX has removed its internal frames")
_FAILED = re.compile(
    r"^(Failed in \w+ mode pipeline|- Resolution failure for literal arguments:).*\n?", re.MULTILINE
)
_ARGUMENTS = re.compile(r"^This error may have been caused by .*", re.MULTILINE | re.DOTALL)


class LearnerLine(NamedTuple):
    """A line of the learner's code."""

    filename: str
    line: int

    def __str__(self) -> str:
        code = sources.text(self.filename, self.line)
        return f"{sources.name(self.filename)} line {self.line}" + (f": {code}" if code else "")


def explained(error: BaseException) -> list[str]:
    """Return places, reason and advice in fewer than :data:`MOST_LINES` lines."""
    found = places(error)
    if len(found) > _MOST_PLACES:
        found = [found[0], *found[1 - _MOST_PLACES :]]
    room = MOST_LINES - 1 - len(found) - len(advised(error))
    return [*map(str, found), *told(error, room)]


def told(error: BaseException, most: int = _MOST_REASON) -> list[str]:
    """Return the type of the error, its reason in at most ``most`` lines, and the advice."""
    notes = [note for note in getattr(error, "__notes__", ()) if not _JAX_ON_ITSELF.search(note)]
    lines = [reason(error), *notes]
    lines = [line for text in lines for line in text.split("\n") if line.strip()]
    first = ": ".join([type(error).__name__, *lines[:1]])
    if len(lines) > most:
        lines[most - 1 :] = [CUT]
    return [shortened(line, LENGTH) for line in [first, *lines[1:], *advised(error)]]


def advised(error: BaseException) -> list[str]:
    """Return the advice as a list of one line, which is empty if there is none."""
    advice = advise(error)
    return [f"→ {advice}"] if advice else []


def reason(error: BaseException) -> str:
    """Return the message of ``error`` without the parts about the compiler itself."""
    text = _IRRELEVANT.sub("", str(error))
    text = _CELL.sub(lambda found: f"{sources.name(found[1])} line {found[2]}", text)
    if _CALLBACK.search(text):
        return f"in a callback, {_FRAME.split(text)[-1].strip()}"
    if not is_compilers(error):
        return text
    if missing := _NO_IMPLEMENTATION.match(_FAILED.sub("", text)):
        return f"no implementation of {missing[1]}"
    arguments = _ARGUMENTS.search(text)
    head = _FAILED.sub("", _PROGRESS.split(text, maxsplit=1)[0])
    return f"{head.strip()}\n{arguments[0] if arguments else ''}".strip()


def is_compilers(error: BaseException) -> bool:
    """Return True if Numba's compiler raises ``error`` about the code that it compiles."""
    return type(error).__module__.endswith("core.errors")


def places(error: BaseException) -> list[LearnerLine]:
    """Return the learner's lines that led to ``error``, callers first, compiled code last."""
    frames = [*traceback.walk_tb(error.__traceback__)]
    called = [
        LearnerLine(frame.f_code.co_filename, line)
        for frame, line in frames
        if _is_theirs(frame.f_code.co_filename)
    ]
    lines = compiled_lines(frame for frame, _ in frames)
    compiled = [*_named(str(error))] or [*filter(None, (_place(*line) for line in lines))][:1]
    return [place for place, _ in groupby([*called, *compiled])]


def _named(message: str) -> Iterator[LearnerLine]:
    """Yield the learner's lines that a compiler's message names, the cause last.

    The message is Numba's. From a failed JAX callback, only the innermost line is returned.
    """
    if _CALLBACK.search(message):
        *_, inside = re.split(r"jax/_src/callback\.py", message)
        places = [_place(path, int(line)) for path, line, *_ in _FRAME.findall(inside)]
        yield from [*filter(None, places)][-1:]
        return
    for path, line, other, other_line in reversed(_NUMBAS_PLACE.findall(message)):
        place = _place(path or other, int(line or other_line))
        if place is not None:
            yield place


def _place(path: str, line: int) -> LearnerLine | None:
    """Return a line that a compiler names, or None if the learner did not write it."""
    filename = path if path.startswith("<") else os.path.abspath(path)
    theirs = sources.text(filename, line) and _is_theirs(filename)
    return LearnerLine(filename, line) if theirs else None


def _is_theirs(path: str) -> bool:
    if sources.name(path).startswith("cell "):
        return True
    return (
        os.path.isfile(path)
        and not path.startswith(_installed())
        and path not in set(_files_of_checks())
    )


def _files_of_checks() -> Iterator[str | None]:
    for name, module in [*sys.modules.items()]:
        if name.startswith("course_checks_"):
            yield module.__file__


@cache
def _installed() -> tuple[str, ...]:
    """Return the folders of the code that no learner writes."""
    files = (virtualgpu.__file__, gpustandins.__file__, __file__)
    ours = (os.path.dirname(os.path.dirname(path)) for path in files)
    paths = sysconfig.get_paths()
    libraries = (paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    return tuple(os.path.join(folder, "") for folder in (*libraries, *ours))
