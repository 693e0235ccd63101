"""Bodies of operations that the table computes by NumPy: none yet."""

from __future__ import annotations


def BODIES(instruction):
    return None
