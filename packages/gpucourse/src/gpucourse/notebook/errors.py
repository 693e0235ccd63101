"""Errors in a notebook in at most twelve lines; ``%tb`` shows the whole traceback.

IPython shows every frame between a cell and an error, which is forty frames for a launch and
hundreds for an error in Numba's compiler. A traceback of at most twelve lines is kept, with advice
below it. A longer one is replaced by the learner's own lines, the reason and the remedy
(:mod:`gpucourse.exercises.reasons`).
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
# First line of a frame outside cells in IPython's traceback, after its colours.
_A_FILE = re.compile(r"(\x1b\[[0-9;]*m)*File ")
# IPython prints at least two lines per frame, and rendering hundreds would take a second.
_MOST_FRAMES = 6


def shorten(shell: InteractiveShell) -> None:
    """Make ``shell`` show short errors."""
    if not shell.custom_exceptions:  # a handler that is set already stays
        shell.set_custom_exc((BaseException,), _show)
    warnings.formatwarning = _warning


def undo(shell: InteractiveShell) -> None:
    """Make ``shell`` show whole tracebacks again."""
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
    """Format a warning as Python does, with the number of a cell instead of its file name.

    Numba's performance advice appears only once. IPython itself would repeat it in every cell.
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
        # The cell has a syntax error, and the message contains its line.
        shown = shell.SyntaxTB.structured_traceback(etype, value, None)
        shell._showtraceback(etype, value, [*shown, *advised(value)])
    elif etype.__name__ == "UsageError":
        shell.show_usage_error(value)  # an error of a magic, in one line
    else:
        shell._showtraceback(etype, value, _lines(shell, value, tb, tb_offset))
        if shell.call_pdb:
            shell.debugger(force=True)


def _lines(
    shell: InteractiveShell, value: BaseException, tb: TracebackType, tb_offset: int | None
) -> list[str]:
    if hasattr(value, "_render_traceback_"):
        # Errors of the course's own tools are complete. Errors of a launch get the line of the
        # launch.
        if type(value).__module__.startswith("gpucourse."):
            shown = value._render_traceback_()
            # This is an error of a test. The lesson's catalogue may have a translation of its
            # reason.
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
        # The advice is known, so the library's frames add nothing.
        if short and not (advice and any(_A_FILE.match(part) for part in shown)):
            return [*shown, *advice]
    return [*explained(value), _KEY]
