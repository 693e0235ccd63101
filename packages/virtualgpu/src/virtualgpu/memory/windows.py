"""Windows of shared and local memory in the generic address space.

A generic address belongs to global memory unless it is inside the window of another space (PTX
ISA, "Generic Addressing"; ``cvta`` and ``isspacep`` use the same windows). Each function takes
unsigned 64-bit addresses, either as a NumPy array or as a value of native code
(:class:`virtualgpu.operations.expression.Value`). A difference wraps at 2**64, so an address below
a window appears far above it, and one comparison is enough.
"""

from __future__ import annotations

from typing import Any

from virtualgpu.memory.mapping import BASE

SHARED_BASE = 0x1_0000_0000
LOCAL_BASE = 0x2_0000_0000
WINDOW = 1 << 24  # bytes of each window; in clusters, of one block's part of the shared window
LARGEST_CLUSTER = 16  # blocks; more than 8 must be requested (CUDA, "non-portable cluster size")

#: Generic address of the first byte of each window.
STARTS = {"shared": SHARED_BASE, "local": LOCAL_BASE}
#: Bytes of each window. The shared window begins with the block's own part, and a part for each
#: block of the cluster follows.
SPANS = {"shared": (LARGEST_CLUSTER + 1) * WINDOW, "local": WINDOW}


def within(address: Any, space: str) -> Any:
    """Return the offset within ``space`` of a generic address."""
    return address - STARTS[space] if space in STARTS else address


def generic(address: Any, space: str) -> Any:
    """Return the generic address of an address within ``space``."""
    return address + STARTS[space] if space in STARTS else address


def reaches(address: Any, space: str, nbytes: int = WINDOW) -> Any:
    """Return True where a generic address is in the first ``nbytes`` of a space's window.

    For ``global``, return True where an allocation could be. No address is in ``const`` or
    ``param``.
    """
    if space == "global":
        return address >= BASE
    if space in STARTS:
        return address - STARTS[space] < nbytes
    return address != address
