"""Errors in a notebook, shown in at most twelve lines, with the rest behind ``%tb``.

IPython shows every frame between a cell and an error: forty of a launch, hundreds of Numba's
compiler. A traceback of at most twelve lines stays, with advice below it; a longer one becomes the
learner's own lines, the reason and the fix (:mod:`gpucourse.exercises.reasons`).
"""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from types import TracebackType
from typing import TYPE_CHECKING

from gpucourse.exercises.reasons import CUT, MOST_LINES, advised, explained, places
from gpucourse.system.language import _, said
from virtualgpu import sources

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_formatwarning = warnings.formatwarning
_advice_given: set[str] = set()
_KEY = "(%tb shows the whole traceback)"
# IPython's first line of a frame outside cells, in colours.
_A_FILE = re.compile(r"(\x1b\[[0-9;]*m)*File ")
# A frame takes IPython two lines or more: rendering hundreds would take a second.
_MOST_FRAMES = 6


def shorten(shell: InteractiveShell) -> None:
    """Have ``shell`` show errors in short."""
    if not shell.custom_exceptions:  # a handler that is set already stays
        shell.set_custom_exc((BaseException,), _show)
    warnings.formatwarning = _warning


def undo(shell: InteractiveShell) -> None:
    """Show whole tracebacks again."""
    if shell.custom_exceptions == (BaseException,):
        shell.set_custom_exc((), None)
    warnings.formatwarning = _formatwarning


def _warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Format a warning as Python does, with a cell's number in place of a temporary file.

    Numba's advice on speed comes once; IPython forgets in each cell what it has shown.
    """
    if category.__name__ == "NumbaPerformanceWarning":
        if str(message) in _advice_given:
            return ""
        _advice_given.add(str(message))
    if (name := sources.name(filename)).startswith("cell "):
        return f"{name} line {lineno}: {category.__name__}: {message}\n"
    return _formatwarning(message, category, filename, lineno, line)


def _show(
    shell: InteractiveShell,
    etype: type[BaseException],
    value: BaseException,
    tb: TracebackType,
    tb_offset: int | None = None,
) -> None:
    sys.last_type, sys.last_value, sys.last_traceback = etype, value, tb  # for %tb
    if isinstance(value, SyntaxError) and not places(value):
        # The cell itself cannot be read: its line is in the message.
        shown = shell.SyntaxTB.structured_traceback(etype, value, None)
        shell._showtraceback(etype, value, [*shown, *advised(value)])
    elif etype.__name__ == "UsageError":
        shell.show_usage_error(value)  # of a magic: one line
    else:
        shell._showtraceback(etype, value, _lines(shell, value, tb, tb_offset))
        if shell.call_pdb:
            shell.debugger(force=True)


def _lines(
    shell: InteractiveShell, value: BaseException, tb: TracebackType, tb_offset: int | None
) -> list[str]:
    if hasattr(value, "_render_traceback_"):
        # Errors of the course's own tools say it all; those of a launch get the line of the launch.
        if type(value).__module__.startswith("gpucourse."):
            shown = value._render_traceback_()
            # A test's: its reason may stand in the lesson's catalogue.
            reason = getattr(value, "reason", "")
            return (
                [
                    line.replace(f"Not yet: {reason}", f"{_('Not yet:')} {said(reason)}", 1)
                    for line in shown
                ]
                if reason
                else shown
            )
        shown = explained(value)
        return [*shown, _KEY] if CUT in shown else shown
    if sum(1 for _ in traceback.walk_tb(tb)) <= _MOST_FRAMES:
        shown = shell.InteractiveTB.structured_traceback(
            type(value), value, tb, tb_offset=tb_offset
        )
        advice = advised(value)
        short = sum(len(part.split("\n")) for part in [*shown, *advice]) <= MOST_LINES
        # The remedy is known, so the frames of a library add nothing.
        if short and not (advice and any(_A_FILE.match(part) for part in shown)):
            return [*shown, *advice]
    return [*explained(value), _KEY]
