"""Context on the first device, created by the import as in PyCUDA."""

from __future__ import annotations

import atexit

from . import driver
from .tools import make_default_context

driver.init()
context = make_default_context()
device = context.get_device()


def _finish_up() -> None:
    context.detach()


atexit.register(_finish_up)
