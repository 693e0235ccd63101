"""An assignment of kernels, and answers to it."""

from __future__ import annotations

from gpucourse.grading.submission.assignment import Assignment
from threats import kernel_notebook

SEED = "5eed" * 8


def kernels() -> Assignment:
    """One kernel (3 points), one host function with a kernel of its own (2 points)."""
    return Assignment("kernels", kernel_notebook())


def scale(body: str) -> str:
    return "@cuda.jit\ndef scale(values, factor, out):\n    i = cuda.grid(1)\n" + body
