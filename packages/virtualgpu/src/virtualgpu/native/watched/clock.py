"""Clock of a watched run, which advances at each block and at each barrier.

Times take 21 bits of a record. When the clock reaches its end, all records of the launch are
rewritten with the smallest times that still tell apart accesses in another block, before the last
barrier, and since then.
"""

from __future__ import annotations

from virtualgpu.compilers.loops import I64, U32, compiled
from virtualgpu.native.context import ContextWords
from virtualgpu.native.watched.rules import BITS, CODE, WatchWords

TICK = 1 << BITS
END = (1 << 32) - 2 * TICK  # the last time, as it appears in a record
ELSEWHERE, BEFORE, SINCE = TICK, 2 * TICK, 3 * TICK  # the smallest times


@compiled
def block_starts(context: ContextWords) -> None:
    """Advance the clock for a new block, whose shared and local memory is new."""
    words: WatchWords = context.watch
    _tick(context)
    words.start = words.now
    words.barrier = words.now
    times: U32 = words.warp_times
    for warp in range(context.warps):
        times[warp] = words.now


@compiled
def block_passes(context: ContextWords) -> None:
    """Advance the clock at a barrier that all threads of a block have reached."""
    words: WatchWords = context.watch
    words.barrier = words.now + TICK
    _tick(context)


@compiled(passes="few")
def warp_meets(context: ContextWords) -> int:
    """Advance the clock past a warp barrier; return 1 if a block outruns its records, else 0."""
    words: WatchWords = context.watch
    _tick(context)
    times: U32 = words.warp_times
    times[context.warp] = words.now
    if words.now > words.end:
        return 1
    return 0


@compiled
def _tick(context: ContextWords) -> None:
    """Advance the clock; at its end, rewrite the records."""
    words: WatchWords = context.watch
    words.now += TICK
    if words.now > words.end:
        _begin_anew(context)


@compiled(inline=False)
def _begin_anew(context: ContextWords) -> None:
    """Give all records of the launch the smallest times that keep their order."""
    words: WatchWords = context.watch
    starts: I64 = context.global_starts
    ends: I64 = context.global_ends
    for number in range(context.global_count):
        first = starts[number] >> words.global_shift
        count = (ends[number] >> words.global_shift) - first + 1
        _renew(words, words.global_writes + 4 * first, count)
        _renew(words, words.global_reads + 4 * first, count)
        if words.has_strong:
            _renew(words, words.global_strong + 4 * first, count)
    count = (context.shared_bytes >> words.shared_shift) + 1
    _renew(words, words.shared_writes, count)
    _renew(words, words.shared_reads, count)
    if words.has_strong:
        _renew(words, words.shared_strong, count)
    # In a thread's local memory, only writes in this block matter.
    _renew(words, words.local_writes, context.local_bytes >> words.local_shift)
    _renew(words, words.warp_times, context.warps)
    words.now += SINCE - words.barrier
    words.floor = ELSEWHERE
    words.start = BEFORE
    words.barrier = SINCE
    words.swept = 1


@compiled(inline=False)
def _renew(words: WatchWords, records: U32, count: int) -> None:
    for number in range(count):
        record = records[number]
        if record >= words.barrier:
            records[number] = record - words.barrier + SINCE
        elif record >= words.start:
            records[number] = BEFORE | (record & CODE)
        elif record >= words.floor:
            records[number] = ELSEWHERE | (record & CODE)
        else:
            records[number] = 0
