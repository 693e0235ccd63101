"""Streams and events: order is kept, nothing overlaps, and there are no times."""

from __future__ import annotations

import itertools
import threading

_handles = itertools.count(0x5000)
_current = threading.local()


def current_pointer() -> int:
    """The handle of the current stream; 0 for the null stream."""
    stack = getattr(_current, "stack", None)
    return stack[-1].ptr if stack else 0
