"""Functions that kernels may call and that the device provides, because no PTX defines them.

``vprintf``, ``__assertfail``, ``malloc`` and ``free`` are CUDA's (CUDA C++ Programming Guide,
"Formatted Output", "Assertion", "Dynamic Global Memory Allocation"). The others belong to
cooperative groups. :mod:`virtualgpu.lanes.intrinsics` implements them.
"""

from __future__ import annotations

from typing import NamedTuple


class IntrinsicSignature(NamedTuple):
    """Number of arguments and results of a function that the device provides."""

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
