"""ImportErrors of ``from cupy import name`` that say what to use instead."""

from __future__ import annotations

import dis
import sys
from types import FrameType

_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


def as_import_error(error: AttributeError) -> AttributeError | ImportError:
    """Return an error of a module's ``__getattr__``, as ImportError for ``from … import``.

    Otherwise Python replaces the AttributeError with its own ImportError, and the message is lost.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__getattr__":
        frame = frame.f_back
    asks = frame.f_back if frame is not None else None
    if asks is None or asks.f_code.co_code[asks.f_lasti] != _IMPORT_FROM:
        return error
    return ImportError(str(error))
