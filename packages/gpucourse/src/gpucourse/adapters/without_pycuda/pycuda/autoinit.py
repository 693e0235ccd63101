"""CuPy makes the context at its first call, so there is nothing to do."""

from __future__ import annotations

from . import driver

context = driver.Context
device = driver.Device(0)
