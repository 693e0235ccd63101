"""Counting loops over the lanes of warps: sectors, bank conflicts and contention.

The lanes are sorted, so those of a warp are adjacent. Each function adds to ``result``.
"""

from __future__ import annotations

from virtualgpu.compilers.loops import I64, U32, U64, compiled

SECTOR = 32  # bytes
BANKS = 32
WORD = 4  # bytes of a shared-memory bank


@compiled
def is_new(value: int, seen: U64, count: int) -> int:
    """Return True if ``value`` is not among the first ``count`` of ``seen``, and add it."""
    for i in range(count):
        if seen[count - 1 - i] == value:
            return 0
    seen[count] = value
    return 1


@compiled
def sectors(
    addresses: U64,
    lanes: I64,
    warp_of: I64,
    count: int,
    size: int,
    seen: U64,
    elements: U64,
    result: I64,
) -> int:
    """Count requests, touched sectors, and sectors that as many adjacent bytes would fill.

    ``result`` has three elements, and ``seen`` and ``elements`` have space for 32 each.
    """
    start = 0
    while start < count:
        warp = warp_of[lanes[start]]
        end = start
        touched = 0
        different = 0
        highest = -1
        while end < count and warp_of[lanes[end]] == warp:
            address = addresses[end]
            if address > highest:
                # An address beyond all before it is a new element, and a new sector unless it is in
                # the highest one.
                if highest < 0 or address // SECTOR != highest // SECTOR:
                    seen[touched] = address // SECTOR
                    touched += 1
                elements[different] = address
                different += 1
                highest = address
            else:
                touched += is_new(address // SECTOR, seen, touched)
                different += is_new(address, elements, different)
            end += 1
        result[0] += 1
        result[1] += touched
        result[2] += (different * size + SECTOR - 1) // SECTOR
        start = end
    return 0


@compiled
def banks(
    addresses: U64,
    lanes: I64,
    warp_of: I64,
    thread_of: I64,
    count: int,
    size: int,
    share: int,
    words: U64,
    taken: I64,
    result: I64,
) -> int:
    """Count requests, wavefronts, and conflict-free wavefronts of a shared load or store.

    The hardware serves ``share`` lanes of a warp at a time: 32 for accesses of up to 4 bytes, 16
    for 8 and 8 for 16. ``words`` has space for 32 elements. ``taken`` has one element for each of
    the 32 banks, which must be zero.
    """
    start = 0
    while start < count:
        warp = warp_of[lanes[start]]
        end = start
        while end < count and warp_of[lanes[end]] == warp:
            part = (thread_of[lanes[end]] & 31) // share
            different = 0
            deepest = 0
            while (
                end < count
                and warp_of[lanes[end]] == warp
                and (thread_of[lanes[end]] & 31) // share == part
            ):
                first = addresses[end] // WORD
                for word in range(first, first + (size + WORD - 1) // WORD):
                    if is_new(word, words, different):
                        different += 1
                        bank = word & (BANKS - 1)
                        taken[bank] += 1
                        if taken[bank] > deepest:
                            deepest = taken[bank]
                end += 1
            for bank in range(BANKS):
                taken[bank] = 0
            result[1] += deepest
            result[2] += 1
        result[0] += 1
        start = end
    return 0


@compiled
def contention(
    addresses: U64, lanes: I64, warp_of: I64, count: int, seen: U64, many: I64, result: I64
) -> int:
    """Count requests, passes and the contention of an atomic.

    Passes are the lanes on the address that most lanes of a request share, summed over requests.
    The last count is the largest number of lanes of one warp on one address.
    """
    start = 0
    while start < count:
        warp = warp_of[lanes[start]]
        end = start
        different = 0
        deepest = 0
        while end < count and warp_of[lanes[end]] == warp:
            at = 0
            while at < different and seen[at] != addresses[end]:
                at += 1
            if at == different:
                seen[at] = addresses[end]
                many[at] = 0
                different += 1
            many[at] += 1
            if many[at] > deepest:
                deepest = many[at]
            end += 1
        result[0] += 1
        result[1] += deepest
        if deepest > result[2]:
            result[2] = deepest
        start = end
    return 0


@compiled
def tally(
    addresses: U64,
    lanes: I64,
    block_of: I64,
    count: int,
    base: int,
    span: int,
    stride: int,
    counts: U32,
    result: I64,
) -> int:
    """Count accesses per word from ``base`` on; ``result[0]`` becomes the largest count of a word.

    Returns the position of the first lane outside ``span`` bytes, or ``count``. Each block of the
    wave has ``stride`` separate words (0 for global memory).
    """
    for i in range(count):
        offset = addresses[i] - base
        if offset < 0 or offset >= span:
            return i
        word = offset // WORD + block_of[lanes[i]] * stride
        counts[word] += 1
        if counts[word] > result[0]:
            result[0] = counts[word]
    return count


@compiled
def raise_by(amount: int, lanes: I64, count: int, warp_of: I64, threads: U32, warps: U32) -> int:
    """Add ``amount`` to each of these lanes' elements of ``threads``.

    It is also added to the element of each of their warps in ``warps``, once per warp.
    """
    last = -1
    for i in range(count):
        threads[lanes[i]] += amount
        warp = warp_of[lanes[i]]
        if warp != last:
            warps[warp] += amount
            last = warp
    return 0


@compiled
def divergent(taken: U32, lanes: I64, warp_of: I64, count: int, result: I64) -> int:
    """Return the number of branches (one per warp), and of those at which the warp diverges.

    ``taken`` is 0 or 1 for each lane.
    """
    start = 0
    while start < count:
        warp = warp_of[lanes[start]]
        end = start
        jumped = 0
        while end < count and warp_of[lanes[end]] == warp:
            jumped += taken[end]
            end += 1
        result[0] += 1
        if jumped > 0 and jumped < end - start:
            result[1] += 1
        start = end
    return 0
