"""Launches that real CuPy would have made: see :mod:`virtualgpu.standins.recorder`."""

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
