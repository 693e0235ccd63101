"""The inner loop of the race check: compare each access with the records of its bytes.

A *record* is one non-negative int64 per granule of memory and kind of access:

========  =====  ==============================================================================
bits      width  meaning
========  =====  ==============================================================================
40 to 62     23  time of the access (see :mod:`.clocks`)
30 to 39     10  number of the instruction
28 to 29      2  who: 0 one thread, 1 several of one warp, 2 several of one block, 3 of several
27            1  made by an atomic whose scope is its block only
0 to 26      27  the thread, or one of the several (block number × threads + thread number)
========  =====  ==============================================================================

Five records are kept: plain writes, plain reads, strong writes (atomics among them), strong
reads, and volatile writes, which may overwrite each other. A record of reads, of strong accesses
or of volatile writes stands for all of them that nothing orders among each other, in the manner of
FastTrack (Flanagan and Freund, PLDI 2009): the widest group that holds them, and the latest time.
"""

from __future__ import annotations

from typing import ClassVar

from virtualgpu.compilers.loops import I32, I64, U32, U64, Words, compiled

TIME, SITE, SCOPE, NARROW = 40, 30, 28, 27
MAXIMUM_TIME = (1 << 23) - 1
MAXIMUM_SITE = (1 << 10) - 1
MAXIMUM_THREAD = (1 << 27) - 1
NARROW_BIT = 1 << NARROW
MAXIMUM_RECORD = (1 << TIME) - 1  # all bits below the time

LOAD, STORE, STRONG_LOAD, STRONG_STORE, VOLATILE_STORE = range(5)  # kinds of access
WRITES, READS, STRONG_WRITES, STRONG_READS, VOLATILE_WRITES = range(5)  # kinds of records

# Words of one access. Its addresses are from `base` to `base + span`. Granules have `1 << shift`
# bytes, the access covers `width` of them, and each block of the wave has `stride` separate
# granules (0 for global memory). `stamp` is a record without its thread. `mixed` is true if other
# atomics may have another size. Bit 0 of `seen` is set if this memory may have plain writes later
# than `floor`, and bit 1 is set for plain reads. `first` is the wave's first thread, and `threads`
# the number in a block. The others are the times that the threads know of
# (`virtualgpu.watch.clocks`).
ACCESS = (
    *("base", "span", "shift", "width", "stride", "kind", "stamp", "narrow", "mixed", "seen"),
    *("floor", "first", "threads", "block_of"),
    *("block_time", "warp_time", "exact", "lane_times", "warp_times"),
)
# Words of a shadow: a flag that it has the rarer records, its records, and the masks of all records
# but the plain writes, each of which is by one thread.
SHADOW = (
    *("has_strong", "has_volatile"),
    *("writes", "reads", "strong_writes", "strong_reads", "volatile_writes"),
    *("read_masks", "strong_write_masks", "strong_read_masks", "volatile_write_masks"),
)
# Words of the conflicts: their number, the length of the arrays for the first of them, and these
# arrays: position of the lane, granule, older record and its kind.
CONFLICTS = ("count", "room", "positions", "granules", "records", "kinds")


class AccessWords(Words):
    """Words of one access."""

    at: ClassVar = {name: number for number, name in enumerate(ACCESS)}


class ShadowWords(Words):
    """Words of a shadow memory."""

    at: ClassVar = {name: number for number, name in enumerate(SHADOW)}


class ConflictWords(Words):
    """Words of the conflicts of one access."""

    at: ClassVar = {name: number for number, name in enumerate(CONFLICTS)}


@compiled(inline=False)
def is_before(
    record: int, masks: U32, granule: int, me: int, lane: int, block: int, access: AccessWords
) -> int:
    """Return True if all accesses of ``record`` precede the next access of thread ``me``.

    ``block`` is the number of the block in the wave. ``masks`` hold the lanes or warps of a record
    of several threads.
    """
    time = record >> TIME
    if time <= access.floor:
        return 1
    several = (record >> SCOPE) & 3
    thread = record & MAXIMUM_THREAD
    if several == 0 and thread == me:
        return 1
    threads = access.threads
    start = access.first + block * threads
    other = thread - start
    if several == 3 or other < 0 or other >= threads:
        return 0
    block_time: I64 = access.block_time
    if time <= block_time[block]:
        return 1
    if access.exact:
        mask = masks[granule]
        lane_times: I32 = access.lane_times
        warp_times: I32 = access.warp_times
        return is_before_exactly(record, mask, me - start, lane, other, lane_times, warp_times)
    warp = other >> 5
    if several == 2 or warp != (me - start) >> 5:
        return 0
    warp_time: I64 = access.warp_time
    return time <= warp_time[block * ((threads + 31) >> 5) + warp]


@compiled(inline=False)
def is_before_exactly(
    record: int, mask: int, mine: int, lane: int, other: int, lane_times: I32, warp_times: I32
) -> int:
    """Return the same as :func:`is_before` if each thread has its own row of times."""
    time = record >> TIME
    several = (record >> SCOPE) & 3
    warp = other >> 5
    own = mine & 31
    if warp == mine >> 5 and several == 0:
        return time <= lane_times[lane * 32 + (other & 31)]
    if warp != mine >> 5 and several < 2:
        return time <= warp_times[lane * 32 + warp]
    for bit in range(32):
        if (mask >> bit) & 1:
            if several == 1:
                if bit != own and time > lane_times[lane * 32 + bit]:
                    return 0
            elif bit != mine >> 5:
                if time > warp_times[lane * 32 + bit]:
                    return 0
            else:  # some lanes of my warp, unknown which, so compare with all of them
                for peer in range(32):
                    if peer != own and time > lane_times[lane * 32 + peer]:
                        return 0
    return 1


@compiled
def widened(record: int, me: int, start: int, threads: int) -> int:
    """Return the group (bits 28-29) that contains the threads of ``record`` and ``me``."""
    several = (record >> SCOPE) & 3
    other = (record & MAXIMUM_THREAD) - start
    if other < 0 or other >= threads:
        return 3
    if several == 0:
        several = 1
    if several == 1 and (other >> 5) != ((me - start) >> 5):
        several = 2
    return several


@compiled
def widened_mask(record: int, mask: int, group: int, me: int, start: int) -> int:
    """Return the lanes (group 1) or warps (group 2) of ``record`` and ``me`` together."""
    several = (record >> SCOPE) & 3
    other = (record & MAXIMUM_THREAD) - start
    mine = me - start
    if group == 1:
        if several == 0:
            mask = 1 << (other & 31)
        return mask | (1 << (mine & 31))
    if several < 2:
        mask = 1 << (other >> 5)
    return mask | (1 << (mine >> 5))


@compiled
def quick(addresses: U64, lanes: I64, count: int, access: AccessWords, shadow: ShadowWords) -> int:
    """Check plain accesses of one granule without a recent write, as :func:`check` does.

    It stops at the first lane for which this does not hold, and returns its position. Most
    accesses of most kernels are of this kind, and the loop has few enough variables for a
    processor's registers.
    """
    base = access.base
    span = access.span
    shift = access.shift
    stride = access.stride
    is_store = access.kind
    stamp = access.stamp
    floor = access.floor
    seen = access.seen
    first = access.first
    exact = access.exact
    block_of: I64 = access.block_of
    writes: I64 = shadow.writes
    reads: I64 = shadow.reads
    whole_warps = not access.threads & 31
    for i in range(count):
        offset = addresses[i] - base
        if offset < 0 or offset >= span:
            return i
        lane = lanes[i]
        at = offset >> shift
        if stride:
            at += block_of[lane] * stride
        if is_store:
            if (writes[at] >> TIME) > floor or (seen & 2 and (reads[at] >> TIME) > floor):
                return i
            writes[at] = stamp + first + lane
            continue
        if seen & 1 and (writes[at] >> TIME) > floor:
            return i
        record = reads[at]
        me = first + lane
        if (record >> TIME) <= floor:
            reads[at] = stamp + me
        elif (
            (record ^ stamp) >> TIME == 0
            and not exact
            and (stands_for(record, me, stride, whole_warps))
        ):
            continue
        else:
            remember(reads, shadow.read_masks, at, me, lane, block_of[lane], access)
    return count


@compiled
def stands_for(record: int, me: int, same_block: int, whole_warps: int) -> int:
    """Return True if a record of several threads, as recent as this access, already covers it."""
    several = (record >> SCOPE) & 3
    if several == 3 or (several == 2 and same_block):
        return 1
    return several == 1 and whole_warps and (record & MAXIMUM_THREAD) >> 5 == me >> 5


@compiled
def note(position: int, granule: int, record: int, kind: int, found: ConflictWords) -> int:
    """Count a conflict, and store it if there is space."""
    number = found.count
    if number < found.room:
        positions: I64 = found.positions
        granules: I64 = found.granules
        records: I64 = found.records
        kinds: I64 = found.kinds
        positions[number] = position
        granules[number] = granule
        records[number] = record
        kinds[number] = kind
    found.count = number + 1
    return 0


@compiled
def check(
    addresses: U64,
    lanes: I64,
    count: int,
    access: AccessWords,
    shadow: ShadowWords,
    found: ConflictWords,
) -> int:
    """Check and record the access of ``count`` lanes.

    Returns the number of lanes done, which is less than ``count`` if an address is outside the
    span. Conflicts are stored in ``found``.
    """
    found.count = 0
    kind = access.kind
    stamp = access.stamp
    floor = access.floor
    first = access.first
    threads = access.threads
    seen = access.seen
    has_strong = shadow.has_strong
    has_volatile = shadow.has_volatile
    block_of: I64 = access.block_of
    writes: I64 = shadow.writes
    reads: I64 = shadow.reads
    strong_writes: I64 = shadow.strong_writes
    strong_reads: I64 = shadow.strong_reads
    volatile_writes: I64 = shadow.volatile_writes
    for i in range(count):
        offset = addresses[i] - access.base
        if offset < 0 or offset >= access.span:
            return i
        lane = lanes[i]
        block = block_of[lane]
        me = first + lane
        start = first + block * threads
        mine = stamp | me
        at = (offset >> access.shift) + block * access.stride
        for granule in range(at, at + access.width):
            # -- plain writes conflict with everything
            record = 0
            if seen & 1 or kind == STORE:  # stores of one instruction may conflict
                record = writes[granule]
            if (record >> TIME) > floor and not is_before(
                record, shadow.read_masks, granule, me, lane, block, access
            ):  # any masks will do, because it is one thread
                note(i, granule, record, WRITES, found)
            # -- plain reads conflict with every write
            if seen & 2 and kind != LOAD and kind != STRONG_LOAD:
                record = reads[granule]
                if (record >> TIME) > floor and not is_before(
                    record, shadow.read_masks, granule, me, lane, block, access
                ):
                    note(i, granule, record, READS, found)
            if has_strong:
                # -- strong accesses conflict with plain ones, and with strong ones of another block
                # if the scope of either is its block, or of another size (`mixed`)
                record = strong_writes[granule]
                if (
                    (record >> TIME) > floor
                    and (
                        kind < 2
                        or access.mixed
                        or (
                            (record & NARROW_BIT or access.narrow)
                            and widened(record, me, start, threads) == 3
                        )
                    )
                    and not is_before(
                        record, shadow.strong_write_masks, granule, me, lane, block, access
                    )
                ):
                    note(i, granule, record, STRONG_WRITES, found)
                if kind == STORE:
                    record = strong_reads[granule]
                    if (record >> TIME) > floor and not is_before(
                        record, shadow.strong_read_masks, granule, me, lane, block, access
                    ):
                        note(i, granule, record, STRONG_READS, found)
            if has_volatile:
                # -- volatile stores conflict with plain accesses, and with each other
                record = volatile_writes[granule]
                if (
                    (record >> TIME) > floor
                    and (
                        kind < 2
                        or kind == VOLATILE_STORE
                        or (
                            (record & NARROW_BIT or access.narrow)
                            and widened(record, me, start, threads) == 3
                        )
                    )
                    and not is_before(
                        record, shadow.volatile_write_masks, granule, me, lane, block, access
                    )
                ):
                    note(i, granule, record, VOLATILE_WRITES, found)
            # -- record this access
            if kind == STORE:
                writes[granule] = mine
                if seen & 2:
                    reads[granule] = 0
                if has_strong:
                    strong_writes[granule] = 0
                    strong_reads[granule] = 0
                if has_volatile:
                    volatile_writes[granule] = 0
            elif kind == LOAD and (reads[granule] >> TIME) <= floor:
                reads[granule] = mine
            elif kind == LOAD:
                remember(reads, shadow.read_masks, granule, me, lane, block, access)
            elif kind == STRONG_LOAD:
                remember(strong_reads, shadow.strong_read_masks, granule, me, lane, block, access)
            elif kind == STRONG_STORE:
                remember(strong_writes, shadow.strong_write_masks, granule, me, lane, block, access)
            else:
                masks = shadow.volatile_write_masks
                remember(volatile_writes, masks, granule, me, lane, block, access)
    return count


@compiled(inline=False)
def remember(
    records: I64, masks: U32, granule: int, me: int, lane: int, block: int, access: AccessWords
) -> int:
    """Add this access to a record of several threads, or replace one that precedes it."""
    if is_before(records[granule], masks, granule, me, lane, block, access):
        records[granule] = access.stamp | me
        return 0
    return join(records, masks, granule, me, access.first + block * access.threads, access)


@compiled(inline=False)
def join(records: I64, masks: U32, granule: int, me: int, start: int, access: AccessWords) -> int:
    """Extend the record to this access."""
    record = records[granule]
    group = widened(record, me, start, access.threads)
    if access.exact:
        masks[granule] = widened_mask(record, masks[granule], group, me, start)
    older = record & ((1 << SCOPE) - 1) | (record >> SITE & MAXIMUM_SITE) << SITE
    stamp = access.stamp
    records[granule] = (stamp >> TIME) << TIME | older | group << SCOPE | stamp & NARROW_BIT
    return 0
