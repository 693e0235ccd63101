"""Errors raised inside a stand-in, shown as the package itself shows them: at the learner's line.

CuPy's own insides are compiled, so its errors end a frame or two below the cell. A stand-in's are
Python, and would put five more frames under it that no learner can do anything about.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING

import virtualgpu

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

# By the file: a stand-in's modules go by the names of the package that they stand in for.
INSIDE = os.path.join(os.path.dirname(virtualgpu.__file__), "standins", "")


def shorten(shell: InteractiveShell) -> None:
    """Have `shell` leave out a stand-in's own frames at the end of a traceback."""
    if not shell.custom_exceptions:  # a handler that is set already stays
        shell.set_custom_exc((Exception,), _show)


def undo(shell: InteractiveShell) -> None:
    """Show whole tracebacks again."""
    if shell.custom_exceptions == (Exception,):
        shell.set_custom_exc((), None)


def _show(shell: InteractiveShell, etype, value, tb, tb_offset=None) -> None:
    shell.showtraceback((etype, value, outside(tb)), tb_offset=tb_offset,
                        running_compiled_code=True)


def outside(tb: TracebackType) -> TracebackType:
    """The traceback up to where the stand-in was called from.

    A learner's function that the stand-in calls (``cupy.fuse``) is learner's code again, and what
    stands above it stays; so does all of a traceback that begins in the stand-in.
    """
    frames: list[TracebackType] = []
    entry: TracebackType | None = tb
    while entry is not None:
        frames.append(entry)
        entry = entry.tb_next
    end = len(frames)
    for index in range(len(frames) - 1, -1, -1):
        frame = frames[index].tb_frame
        if frame.f_code.co_filename.startswith(INSIDE):
            end = index
        elif frame.f_globals.get("__name__") == "__main__":
            break
    if end in (0, len(frames)):
        return tb
    shown: TracebackType | None = None
    for one in reversed(frames[:end]):
        shown = TracebackType(shown, one.tb_frame, one.tb_lasti, one.tb_lineno)
    assert shown is not None
    return shown
