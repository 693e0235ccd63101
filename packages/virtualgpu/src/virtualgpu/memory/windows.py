"""Address windows: shared memory, local memory and the rest of generic addresses.

A generic address names global memory unless it falls within the window of another space (PTX ISA,
"Generic Addressing"; ``cvta`` and ``isspacep`` use the same windows). Each function takes unsigned
addresses of 64 bits, whichever they are: an array of NumPy, or a value of native code
(:class:`virtualgpu.operations.expression.Value`). A difference wraps at 2**64, so that what lies
below a window is far beyond it and one comparison is enough.
"""

from __future__ import annotations

from typing import Any

from virtualgpu.memory.mapping import BASE

SHARED_BASE = 0x1_0000_0000
LOCAL_BASE = 0x2_0000_0000
WINDOW = 1 << 24  # bytes of each window; of a block's part of the shared one, in clusters
LARGEST_CLUSTER = 16  # blocks; more than 8 must be asked for (CUDA, "non-portable cluster size")

#: Generic address of the first byte of each window.
STARTS = {"shared": SHARED_BASE, "local": LOCAL_BASE}
#: Bytes of each: of shared memory a block's own part, then that of each block of its cluster.
SPANS = {"shared": (LARGEST_CLUSTER + 1) * WINDOW, "local": WINDOW}


def within(address: Any, space: str) -> Any:
    """Return the address within ``space`` of a generic address."""
    return address - STARTS[space] if space in STARTS else address


def generic(address: Any, space: str) -> Any:
    """Return the generic address of an address within ``space``."""
    return address + STARTS[space] if space in STARTS else address


def reaches(address: Any, space: str, nbytes: int = WINDOW) -> Any:
    """Return True where a generic address lies in the first ``nbytes`` of a space's window.

    For ``global``, where an allocation can lie there. No address is in ``const`` or ``param``.
    """
    if space == "global":
        return address >= BASE
    if space in STARTS:
        return address - STARTS[space] < nbytes
    return address != address
