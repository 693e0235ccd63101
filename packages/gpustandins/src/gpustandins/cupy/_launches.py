"""What real CuPy would have launched: see :mod:`virtualgpu.standins.recorder`."""

from __future__ import annotations

from virtualgpu.standins.interface import (
    Launched,
    Launches,
    launches,
    listening,
    record,
    silence,
)

__all__ = ["Launched", "Launches", "launches", "listening", "record", "silence"]
