"""Lookup of the memory variable that contains a device address, and of the host address.

:mod:`.access_helpers` and kernels call it for a single lane whose address is not in the variable
that the instruction used last.
"""

from __future__ import annotations

from virtualgpu.compilers.loops import U64, compiled
from virtualgpu.memory.windows import LOCAL_BASE, SHARED_BASE, WINDOW
from virtualgpu.native.context import ContextWords, SiteWords
from virtualgpu.native.privatisation import claim

SPACES = {"global": 0, "shared": 1, "local": 2, "generic": 3}
GLOBAL, SHARED, LOCAL, GENERIC = SPACES.values()


@compiled(passes="few")
def locate(
    context: ContextWords, site: SiteWords, space: int, lane: int, address: int, size: int
) -> int:
    """Return the host address, or 0 for an illegal access of ``size`` bytes.

    A variable found outside local memory is cached in the site. (An address from 2**63 on counts as
    negative, which none is.)
    """
    if address & (size - 1):
        return 0
    far = address - site.low
    if far >= 0 and far < site.span:
        delta: int = site.delta
        return address + delta
    base = 0
    if space == GENERIC:
        space = GLOBAL
        if address >= SHARED_BASE and address < SHARED_BASE + WINDOW:
            space = SHARED
            base = SHARED_BASE
        elif address >= LOCAL_BASE and address < LOCAL_BASE + WINDOW:
            space = LOCAL
            base = LOCAL_BASE
    own = address - base
    if space == LOCAL:
        if own < 0 or own > site.limit - size:
            return 0
        thread: int = (context.warp << 5) + lane
        mine: int = context.local + thread * context.local_stride
        return mine + own
    starts: U64 = context.global_starts
    ends: U64 = context.global_ends
    count = context.global_count
    host: int = context.delta
    if space == SHARED:
        starts = context.shared_starts
        ends = context.shared_ends
        count = context.shared_count
        host = context.shared
    number = search(starts, ends, count, own, size)
    if number < 0:
        return 0
    site.low = starts[number] + base
    site.span = ends[number] - starts[number] - size + 1
    site.delta = host - base
    if space != SHARED and context.several:
        claim(context, site, starts[number], ends[number] - starts[number])
    return own + host


@compiled
def search(starts: U64, ends: U64, count: int, address: int, size: int) -> int:
    """Return the number of the variable with ``size`` bytes from ``address`` on, or -1.

    ``starts`` are sorted.
    """
    low = 0
    high = count
    while low < high:
        middle = (low + high) >> 1
        if starts[middle] <= address:
            low = middle + 1
        else:
            high = middle
    if low == 0 or ends[low - 1] - address < size:
        return -1
    return low - 1
