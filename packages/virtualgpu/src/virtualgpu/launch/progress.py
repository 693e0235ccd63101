"""Progress messages of a launch that takes long."""

from __future__ import annotations

import time
from collections.abc import Callable

from virtualgpu.errors import Location


class Patience:
    """Reporter of the progress of a long launch.

    It calls ``listener`` with the location of a thread and the seconds that have passed: first
    after ``seconds``, then each time that twice as many seconds have passed.
    """

    def __init__(self, listener: Callable[[Location, float], None], seconds: float):
        self._listener, self._seconds = listener, seconds
        self._start = time.monotonic()

    @property
    def due(self) -> float:
        return self._start + self._seconds

    def tell(self, location: Location) -> None:
        self._listener(location, self._seconds)
        self._seconds *= 2
