"""Thread-local trace of the function being fused, for ufuncs called with numbers only."""

from __future__ import annotations

import threading
from typing import Any


class _Tracing(threading.local):
    trace: Any = None  # a Trace


#: The trace of the function that this thread is fusing.
TRACING = _Tracing()
