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

from virtualgpu.compilers.loops import I32, I64, U32, U64, compiled

TIME, SITE, SCOPE, NARROW = 40, 30, 28, 27
MAXIMUM_TIME = (1 << 23) - 1
MAXIMUM_SITE = (1 << 10) - 1
MAXIMUM_THREAD = (1 << 27) - 1
NARROW_BIT = 1 << NARROW
MAXIMUM_RECORD = (1 << TIME) - 1  # all bits below the time

LOAD, STORE, STRONG_LOAD, STRONG_STORE, VOLATILE_STORE = range(5)  # kinds of access
WRITES, READS, STRONG_WRITES, STRONG_READS, VOLATILE_WRITES = range(5)  # kinds of record


@compiled(inline=False)
def is_before(
    record: int,
    mask: int,
    me: int,
    lane: int,
    start: int,
    threads: int,
    block: int,
    floor: int,
    block_time: I64,
    warp_time: I64,
    exact: int,
    lane_times: I32,
    warp_times: I32,
) -> int:
    """Return True if all accesses of ``record`` come before the next one of thread ``me``.

    ``start`` is the number of the first thread of its block, ``block`` the block's number in
    the wave. ``mask`` tells which lanes or warps a record of several stands for.
    """
    time = record >> TIME
    if time <= floor:
        return 1
    several = (record >> SCOPE) & 3
    thread = record & MAXIMUM_THREAD
    if several == 0 and thread == me:
        return 1
    other = thread - start
    if several == 3 or other < 0 or other >= threads:
        return 0
    if time <= block_time[block]:
        return 1
    if exact:
        return is_before_exactly(record, mask, me - start, lane, other, lane_times, warp_times)
    warp = other >> 5
    if several == 2 or warp != (me - start) >> 5:
        return 0
    return time <= warp_time[block * ((threads + 31) >> 5) + warp]


@compiled(inline=False)
def is_before_exactly(
    record: int, mask: int, mine: int, lane: int, other: int, lane_times: I32, warp_times: I32
) -> int:
    """Return the same as :func:`is_before`, where each thread has its own row of times."""
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
            else:  # lanes of my own warp, but not which: all of them
                for peer in range(32):
                    if peer != own and time > lane_times[lane * 32 + peer]:
                        return 0
    return 1


@compiled
def widened(record: int, me: int, start: int, threads: int) -> int:
    """Return the group (bits 28-29) that holds those of ``record`` and ``me``."""
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
def quick(
    addresses: U64,
    lanes: I64,
    count: int,
    base: int,
    span: int,
    shift: int,
    block_of: I64,
    stride: int,
    is_store: int,
    stamp: int,
    floor: int,
    seen: int,
    writes: I64,
    reads: I64,
    read_masks: U32,
    first: int,
    threads: int,
    block_time: I64,
    warp_time: I64,
    exact: int,
    lane_times: I32,
    warp_times: I32,
) -> int:
    """Check plain accesses of one granule that meet no recent write, as :func:`check` does.

    Stops at the first lane of which that is not true and returns its position. Most accesses of
    most kernels are of this kind, and this loop has few enough variables for a processor's
    registers.
    """
    whole_warps = not threads & 31
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
            block = block_of[lane]
            remember(
                reads,
                read_masks,
                at,
                stamp + me,
                me,
                lane,
                first + block * threads,
                threads,
                block,
                floor,
                block_time,
                warp_time,
                exact,
                lane_times,
                warp_times,
            )
    return count


@compiled
def stands_for(record: int, me: int, same_block: int, whole_warps: int) -> int:
    """Return True if a record of several, as recent as this access, covers it."""
    several = (record >> SCOPE) & 3
    if several == 3 or (several == 2 and same_block):
        return 1
    return several == 1 and whole_warps and (record & MAXIMUM_THREAD) >> 5 == me >> 5


@compiled
def note(
    number: int,
    room: int,
    position: int,
    granule: int,
    record: int,
    kind: int,
    found_at: I64,
    found_granule: I64,
    found_record: I64,
    found_kind: I64,
) -> int:
    """Write down conflict ``number`` where there is room; 1, by which they are counted."""
    if number < room:
        found_at[number] = position
        found_granule[number] = granule
        found_record[number] = record
        found_kind[number] = kind
    return 1


@compiled
def check(
    addresses: U64,
    lanes: I64,
    count: int,
    base: int,
    span: int,
    shift: int,
    width: int,
    block_of: I64,
    stride: int,
    kind: int,
    stamp: int,
    narrow: int,
    mixed: int,
    first: int,
    threads: int,
    floor: int,
    block_time: I64,
    warp_time: I64,
    exact: int,
    lane_times: I32,
    warp_times: I32,
    seen: int,
    has_strong: int,
    has_volatile: int,
    writes: I64,
    reads: I64,
    strong_writes: I64,
    strong_reads: I64,
    volatile_writes: I64,
    read_masks: U32,
    strong_write_masks: U32,
    strong_read_masks: U32,
    volatile_write_masks: U32,
    found_at: I64,
    found_granule: I64,
    found_record: I64,
    found_kind: I64,
    room: int,
    result: I64,
) -> int:
    """Check and record the access of ``count`` lanes.

    Addresses lie ``base`` and ``span`` bytes above it, granules have ``1 << shift`` bytes, an
    access covers ``width`` of them, and each block of the wave has ``stride`` granules of its
    own (0 for global memory). ``stamp`` is a record without its thread; ``seen`` has bit 0
    set if this memory may hold plain writes later than ``floor``, bit 1 for plain reads.

    Returns how many lanes were done: fewer than ``count`` where an address is not in the span.
    ``result[0]`` is the number of conflicts; the first ``room`` of them are written to the
    ``found`` arrays: position of the lane, granule, the older record and its kind.
    """
    conflicts = 0
    for i in range(count):
        offset = addresses[i] - base
        if offset < 0 or offset >= span:
            result[0] = conflicts
            return i
        lane = lanes[i]
        block = block_of[lane]
        me = first + lane
        start = first + block * threads
        mine = stamp | me
        at = (offset >> shift) + block * stride
        for granule in range(at, at + width):
            # -- plain writes conflict with everything
            record = 0
            if seen & 1 or kind == STORE:  # a store may meet another of the same instruction
                record = writes[granule]
            if (record >> TIME) > floor and not is_before(
                record,
                0,
                me,
                lane,
                start,
                threads,
                block,
                floor,
                block_time,
                warp_time,
                exact,
                lane_times,
                warp_times,
            ):
                conflicts += note(
                    conflicts,
                    room,
                    i,
                    granule,
                    record,
                    WRITES,
                    found_at,
                    found_granule,
                    found_record,
                    found_kind,
                )
            # -- plain reads conflict with every write
            if seen & 2 and kind != LOAD and kind != STRONG_LOAD:
                record = reads[granule]
                mask = 0
                if exact:
                    mask = read_masks[granule]
                if (record >> TIME) > floor and not is_before(
                    record,
                    mask,
                    me,
                    lane,
                    start,
                    threads,
                    block,
                    floor,
                    block_time,
                    warp_time,
                    exact,
                    lane_times,
                    warp_times,
                ):
                    conflicts += note(
                        conflicts,
                        room,
                        i,
                        granule,
                        record,
                        READS,
                        found_at,
                        found_granule,
                        found_record,
                        found_kind,
                    )
            if has_strong:
                # -- strong accesses conflict with plain ones, and with strong ones of another
                #    block where the scope of one is its block, and of another size (`mixed`)
                record = strong_writes[granule]
                mask = 0
                if exact:
                    mask = strong_write_masks[granule]
                if (
                    (record >> TIME) > floor
                    and (
                        kind < 2
                        or mixed
                        or (
                            (record & NARROW_BIT or narrow)
                            and widened(record, me, start, threads) == 3
                        )
                    )
                    and not is_before(
                        record,
                        mask,
                        me,
                        lane,
                        start,
                        threads,
                        block,
                        floor,
                        block_time,
                        warp_time,
                        exact,
                        lane_times,
                        warp_times,
                    )
                ):
                    conflicts += note(
                        conflicts,
                        room,
                        i,
                        granule,
                        record,
                        STRONG_WRITES,
                        found_at,
                        found_granule,
                        found_record,
                        found_kind,
                    )
                if kind == STORE:
                    record = strong_reads[granule]
                    mask = 0
                    if exact:
                        mask = strong_read_masks[granule]
                    if (record >> TIME) > floor and not is_before(
                        record,
                        mask,
                        me,
                        lane,
                        start,
                        threads,
                        block,
                        floor,
                        block_time,
                        warp_time,
                        exact,
                        lane_times,
                        warp_times,
                    ):
                        conflicts += note(
                            conflicts,
                            room,
                            i,
                            granule,
                            record,
                            STRONG_READS,
                            found_at,
                            found_granule,
                            found_record,
                            found_kind,
                        )
            if has_volatile:
                # -- volatile stores conflict with plain accesses, and with each other
                record = volatile_writes[granule]
                mask = 0
                if exact:
                    mask = volatile_write_masks[granule]
                if (
                    (record >> TIME) > floor
                    and (
                        kind < 2
                        or kind == VOLATILE_STORE
                        or (
                            (record & NARROW_BIT or narrow)
                            and widened(record, me, start, threads) == 3
                        )
                    )
                    and not is_before(
                        record,
                        mask,
                        me,
                        lane,
                        start,
                        threads,
                        block,
                        floor,
                        block_time,
                        warp_time,
                        exact,
                        lane_times,
                        warp_times,
                    )
                ):
                    conflicts += note(
                        conflicts,
                        room,
                        i,
                        granule,
                        record,
                        VOLATILE_WRITES,
                        found_at,
                        found_granule,
                        found_record,
                        found_kind,
                    )
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
                remember(
                    reads,
                    read_masks,
                    granule,
                    mine,
                    me,
                    lane,
                    start,
                    threads,
                    block,
                    floor,
                    block_time,
                    warp_time,
                    exact,
                    lane_times,
                    warp_times,
                )
            elif kind == STRONG_LOAD:
                remember(
                    strong_reads,
                    strong_read_masks,
                    granule,
                    mine,
                    me,
                    lane,
                    start,
                    threads,
                    block,
                    floor,
                    block_time,
                    warp_time,
                    exact,
                    lane_times,
                    warp_times,
                )
            elif kind == STRONG_STORE:
                remember(
                    strong_writes,
                    strong_write_masks,
                    granule,
                    mine,
                    me,
                    lane,
                    start,
                    threads,
                    block,
                    floor,
                    block_time,
                    warp_time,
                    exact,
                    lane_times,
                    warp_times,
                )
            else:
                remember(
                    volatile_writes,
                    volatile_write_masks,
                    granule,
                    mine,
                    me,
                    lane,
                    start,
                    threads,
                    block,
                    floor,
                    block_time,
                    warp_time,
                    exact,
                    lane_times,
                    warp_times,
                )
    result[0] = conflicts
    return count


@compiled(inline=False)
def remember(
    records: I64,
    masks: U32,
    granule: int,
    mine: int,
    me: int,
    lane: int,
    start: int,
    threads: int,
    block: int,
    floor: int,
    block_time: I64,
    warp_time: I64,
    exact: int,
    lane_times: I32,
    warp_times: I32,
) -> int:
    """Add this access to a record of several, or replace it where all of those came before."""
    record = records[granule]
    mask = 0
    if exact:
        mask = masks[granule]
    if is_before(
        record,
        mask,
        me,
        lane,
        start,
        threads,
        block,
        floor,
        block_time,
        warp_time,
        exact,
        lane_times,
        warp_times,
    ):
        records[granule] = mine
        return 0
    return join(records, masks, granule, mine, me, start, threads, exact)


@compiled(inline=False)
def join(
    records: I64, masks: U32, granule: int, mine: int, me: int, start: int, threads: int, exact: int
) -> int:
    """Make the record stand for this access too."""
    record = records[granule]
    group = widened(record, me, start, threads)
    if exact:
        masks[granule] = widened_mask(record, masks[granule], group, me, start)
    older = record & ((1 << SCOPE) - 1) | (record >> SITE & MAXIMUM_SITE) << SITE
    records[granule] = (mine >> TIME) << TIME | older | group << SCOPE | mine & NARROW_BIT
    return 0
