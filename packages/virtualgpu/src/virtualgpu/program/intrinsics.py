"""Functions that the device provides: a kernel may call them, no PTX defines them.

``vprintf``, ``__assertfail``, ``malloc`` and ``free`` are CUDA's (CUDA C++ Programming Guide,
"Formatted Output", "Assertion", "Dynamic Global Memory Allocation"), the others those of
cooperative groups. What they do stands in :mod:`virtualgpu.lanes.intrinsics`.
"""

from __future__ import annotations

from typing import NamedTuple


class IntrinsicSignature(NamedTuple):
    """Number of arguments and results of a function that the machine provides."""

    arguments: int
    results: int


GRID_BARRIER = "cudaCGSynchronize"
PROVIDED = {
    "vprintf": IntrinsicSignature(2, 1),
    "__assertfail": IntrinsicSignature(5, 0),
    "malloc": IntrinsicSignature(1, 1),
    "free": IntrinsicSignature(1, 0),
    "cudaCGGetIntrinsicHandle": IntrinsicSignature(1, 1),
    GRID_BARRIER: IntrinsicSignature(2, 1),
}
