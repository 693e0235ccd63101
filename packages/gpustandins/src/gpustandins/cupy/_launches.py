"""Record of the launches that real CuPy would make (:mod:`virtualgpu.standins.recorder`)."""

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
