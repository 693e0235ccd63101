"""Distinction between exceptions from signal handlers and from the code that they interrupt.

Python runs a handler between two bytecode instructions of the code that the main thread executes,
so the handler's exception propagates from that code. For example, a timeout may propagate from a
compiler, although the exception is meant for the program.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Iterator
from types import FrameType


def raised_by_handler(error: BaseException) -> bool:
    """Return True if a signal handler raised ``error``.

    KeyboardInterrupt and SystemExit always count as such.
    """
    if not isinstance(error, Exception):
        return True
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    # A handler is called with the frame that it interrupts. No other function is, except a trace
    # function. `signal.getsignal` would miss a handler that has installed another one in its place.
    return any(
        argument is caller
        for caller, called in itertools.pairwise(frames)
        for argument in _arguments(called)
    )


def _arguments(frame: FrameType) -> Iterator[object]:
    for value in frame.f_locals.values():
        if isinstance(value, tuple):
            yield from value  # of *arguments
        else:
            yield value
