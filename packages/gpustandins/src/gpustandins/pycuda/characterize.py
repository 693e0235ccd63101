"""Properties of the device."""

from __future__ import annotations

from ._missing import lookup

__all__ = ["has_double_support", "has_stack", "platform_bits"]


def platform_bits() -> int:
    """Return the number of bits of a pointer."""
    return 64


def has_double_support() -> bool:
    return True


def has_stack() -> bool:
    return True


__getattr__ = lookup("pycuda.characterize")
