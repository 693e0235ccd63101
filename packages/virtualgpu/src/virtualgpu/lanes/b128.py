"""128-bit values: halves, and the atomics ``exch`` and ``cas`` (PTX ISA, "atom").

A register holds 16 bytes (dtype V16), and no arithmetic is possible with it. Memory is accessed as
two 64-bit halves, the lower first, in one access of 16 bytes. An atomic compares and exchanges
both halves together.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.lanes.group import ALL, Group
from virtualgpu.program.site import Site

U64 = np.dtype("u8")
WIDE = np.dtype("V16")


def join(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Join two uint64 arrays, shape (n,) or (1,), to one array with 16 bytes per element."""
    halves = np.stack(np.broadcast_arrays(low, high), axis=-1)
    return np.ascontiguousarray(halves).view(WIDE)[:, 0]


def halves(value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and the upper 64 bits: uint64, shape (n,) each."""
    both = np.ascontiguousarray(value).view(U64).reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy()


def atomic(
    site: Site,
    group: Group,
    space: str,
    address: np.ndarray,
    view: np.ndarray,
    index: np.ndarray,
    values: tuple[np.ndarray, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Execute ``atom.exch`` or ``atom.cas`` in lane order; return the old values as two halves.

    ``values`` are the halves of b. For ``cas`` the halves of c follow, which replaces a value that
    equals b.
    """
    index = group.spread(index)
    given = [group.spread(value) for value in values]
    new, expected = given[-2:], given[:2] if site.operation == "cas" else None
    before = [view[index + half] for half in range(2)]
    old = [np.empty(len(index), U64) for _ in range(2)]
    changed = False
    for lane, at in enumerate(index.tolist()):
        for half in range(2):
            old[half][lane] = view[at + half]
        if expected is None or all(old[half][lane] == expected[half][lane] for half in range(2)):
            for half in range(2):
                changed |= bool(view[at + half] != new[half][lane])
                view[at + half] = new[half][lane]
    if not changed:
        group.waited = ALL
        return old[0], old[1]
    group.changed = True
    if (watch := group.wave.launch.standstill) is not None:
        for half in range(2):
            watch.wrote(
                group, space, address + np.uint64(8 * half), before[half], view[index + half]
            )
    return old[0], old[1]
