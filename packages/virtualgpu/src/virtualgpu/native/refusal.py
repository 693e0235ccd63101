"""Exception for kernels that native code does not support."""

from __future__ import annotations


class Refused(Exception):
    """Native code does not support the kernel; the message names the reason."""
