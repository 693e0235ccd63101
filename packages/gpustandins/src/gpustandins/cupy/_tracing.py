"""Flag of a function that is being fused, for ufuncs of numbers alone."""

from __future__ import annotations

import threading
from typing import Any


class _Tracing(threading.local):
    trace: Any = None  # a Trace


#: The trace of the function that this thread fuses.
TRACING = _Tracing()
