"""Whether a function is being fused: ufuncs of numbers alone must know, for nothing else tells."""

from __future__ import annotations

import threading
from typing import Any


class _Tracing(threading.local):
    trace: Any = None  # a Trace


#: The trace of the function that this thread fuses.
TRACING = _Tracing()
