"""CuPy's context is the device's primary one already, so there is nothing to do."""

from __future__ import annotations

from .autoinit import context, device

__all__ = ["context", "device"]
