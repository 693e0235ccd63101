"""Limits of time and output for a learner's code on the host.

A launch on the virtual GPU has its own limit, :func:`virtualgpu.api.hurried`. No signal can end a
compiled loop, so loops compiled by Numba run as Python first
(:mod:`gpucourse.exercises.compiled_loops`).
"""

from __future__ import annotations

import contextlib
import dis
import io
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from gpucourse.system.language import _

#: Seconds that an answer may run between two signs of progress in the check.
SECONDS = 60.0
#: Seconds between two readings of the clock.
TICK = 0.5
#: Characters that an answer may print during a check, which is some hundred lines.
CHARACTERS = 10_000

_last = 0.0


class NeverEnds(BaseException):
    """The learner's code is still running. Their ``except Exception`` does not catch this."""


def progress() -> None:
    """Extend the check's time: the learner's code has returned."""
    global _last
    _last = time.monotonic()


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Raise :class:`NeverEnds` if :data:`SECONDS` pass without a call of :func:`progress`.

    This works only in the main thread, and not on Windows, which has no such signal.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return
    progress()
    rung, ended = False, False

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal rung
        if ended or time.monotonic() - _last < SECONDS:
            return
        if rung:  # a bare `except:` caught it, so raise again at the next line
            while frame is not None:
                frame.f_trace = at_each_line
                frame = frame.f_back
            sys.settrace(at_each_line)
        rung = True
        raise NeverEnds

    def at_each_line(frame: FrameType, event: str, argument: Any) -> Any:
        if ended or event != "line":
            return at_each_line
        raise NeverEnds

    traced = sys.gettrace()
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    try:
        yield
    finally:
        ended = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if rung:
            sys.settrace(traced)


class _Bounded(io.TextIOBase):
    """Stream that passes on at most :data:`CHARACTERS` characters of output."""

    def __init__(self, to: Any) -> None:
        self.to = to
        self.printed = 0

    def write(self, text: str) -> int:
        if (room := CHARACTERS - self.printed) > 0:
            self.to.write(text[:room])
        self.printed += len(text)
        return len(text)

    def flush(self) -> None:
        self.to.flush()


@contextlib.contextmanager
def printing_little() -> Iterator[None]:
    """Print only the first characters written inside the context, and count the others."""
    out = _Bounded(sys.stdout)
    try:
        with contextlib.redirect_stdout(out):
            yield
    finally:
        if (more := out.printed - CHARACTERS) > 0:
            said = _("… this check printed {more:,} more characters")
            print("\n" + said.format(more=more))


def raised_on_purpose(error: BaseException) -> bool:
    """Return True if a ``raise`` statement raised this interrupt, and not a signal.

    An interrupt by a signal is meant for the check and not for the learner's code. Python's own
    handler of SIGINT contains no ``raise`` statement, but handlers of asyncio and other libraries
    do, so the function that raised is compared with the current handler.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    handler: Any = signal.getsignal(signal.SIGINT)
    handler = getattr(handler, "func", handler)  # asyncio's is a functools.partial
    return (
        code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]
        and getattr(handler, "__code__", None) is not code
    )
