"""Primary context of the first device, made current by the import."""

from __future__ import annotations

import atexit

from . import driver

driver.init()
device = driver.Device(0)
context = device.retain_primary_context()
context.push()


def _finish_up() -> None:
    context.detach()


atexit.register(_finish_up)
