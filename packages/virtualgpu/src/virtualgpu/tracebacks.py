"""Shorter tracebacks, without the frames of compilers and launches.

``VIRTUALGPU_TRACEBACK=full`` in the environment keeps every frame. Tracebacks also stay complete
if the program has already set a ``sys.excepthook``.
"""

from __future__ import annotations

import inspect
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any

from virtualgpu import sources

#: Packages whose frames say nothing about a program; frames of the standard library are removed
#: too.
INTERNAL = {"virtualgpu", "numba", "cupy", "cupyx", "pycuda", "cudf"}

#: Modules that compile and launch. If their frames are removed, :data:`KEY` says so.
COMPILING = (
    "numba.",
    "virtualgpu.cuda",
    "virtualgpu.devices",
    "virtualgpu.machine",
    "virtualgpu.compilers",
    "virtualgpu.numba",
    "cupy._errors",
    "cupy._kernels",
    "cupy._launches",
    "pycuda.compiler",
    "pycuda._function",
    "pycuda._kernels",
    "cupyx.jit",
)

KEY = "(VIRTUALGPU_TRACEBACK=full shows the frames of compiler and launch too)"


def shorten() -> None:
    """Shorten the tracebacks of errors that end a program."""
    if sys.excepthook is sys.__excepthook__ and os.environ.get("VIRTUALGPU_TRACEBACK") != "full":
        sys.excepthook = _show


def undo() -> None:
    """Show complete tracebacks again."""
    if sys.excepthook is _show:
        sys.excepthook = sys.__excepthook__


def own(whole: TracebackType | None) -> TracebackType | None:
    """Return the frames of the program and of its other libraries, or None if there are none."""
    frames, kept = [], None
    while whole is not None:
        frames.append(whole)
        whole = whole.tb_next
    for entry in reversed(frames):
        name = entry.tb_frame.f_globals.get("__name__", "")
        if name.partition(".")[0] not in INTERNAL | sys.stdlib_module_names or name == "__main__":
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def calling_line() -> tuple[str | None, int | None]:
    """Return the file and line of the program that is calling a library now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name == "__main__" or name.partition(".")[0] not in (
            INTERNAL | {"cuda", "numpy"} | sys.stdlib_module_names
        ):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None, None


def compiled_lines(frames: Iterable[FrameType]) -> Iterator[tuple[str, int]]:
    """Yield each (file, line) that Numba's compiler was working on, the last first.

    They come from the compiler's local variables, because many of its errors give no position.
    """
    for frame in reversed([*frames]):
        if "numba" in frame.f_code.co_filename:
            for value in frame.f_locals.values():
                # Static lookup, because some of Numba's objects raise KeyError for a missing
                # attribute.
                where = value if _is_place(value) else inspect.getattr_static(value, "loc", None)
                if _is_place(where):
                    yield where.filename, where.line


def _is_place(value: Any) -> bool:
    return type(value).__name__ == "Loc"


def _show(kind: type[BaseException], error: BaseException, whole: TracebackType | None) -> None:
    """Print an error that passed through one of the packages with a shortened traceback."""
    kept = own(whole)
    if kept is None or not any(
        frame.f_globals.get("__name__", "").partition(".")[0] in INTERNAL
        for frame, _ in traceback.walk_tb(whole)
    ):
        sys.__excepthook__(kind, error, whole)
        return
    # Errors that a compiler handled on the way have no frame in the program.
    before = error.__cause__ or error.__context__
    chain = before is not None and own(before.__traceback__) is not None
    lines = traceback.format_exception(kind, error, kept, chain=chain)
    place = next(compiled_lines(frame for frame, _ in traceback.walk_tb(whole)), None)
    if place is not None and f"line {place[1]}" not in str(error):
        code = sources.text(*place)
        lines.insert(
            -1,
            f'  File "{place[0]}", line {place[1]}, being compiled\n'
            + (f"    {code}\n" if code else ""),
        )
    # If no frame of the compiler or the launch was removed, there is nothing more to see.
    hidden = any(
        frame.f_globals.get("__name__", "").startswith(COMPILING)
        for frame, _ in traceback.walk_tb(whole)
    )
    print("".join(lines), f"{KEY}\n" if hidden else "", sep="", end="", file=sys.stderr)
