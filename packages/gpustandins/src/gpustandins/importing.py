"""``from cupy import name``: an error that says what to use, where Python's own names a path."""

from __future__ import annotations

import dis
import sys
from types import FrameType

_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


def as_import_error(error: AttributeError) -> AttributeError | ImportError:
    """Convert a module's ``__getattr__`` error to ImportError if ``from … import`` asked.

    Python makes an ImportError of its own out of an AttributeError there, and what the error says
    is lost.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__getattr__":
        frame = frame.f_back
    asks = frame.f_back if frame is not None else None
    if asks is None or asks.f_code.co_code[asks.f_lasti] != _IMPORT_FROM:
        return error
    return ImportError(str(error))
