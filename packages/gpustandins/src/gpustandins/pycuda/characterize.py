"""What the device can do."""

from __future__ import annotations

__all__ = ["has_double_support", "has_stack", "platform_bits"]


def platform_bits() -> int:
    """Bits of a pointer."""
    return 64


def has_double_support() -> bool:
    return True


def has_stack() -> bool:
    return True
