"""Context of a native kernel: one array of 64-bit words, and the offset of each field.

The array belongs to one run of a kernel on one processor core. After the fixed words come room
for the lanes' addresses and values where an access is not a plain one; then, for each memory
instruction, the variable that it used last.
"""

from __future__ import annotations

from typing import ClassVar

from virtualgpu.compilers.loop_language import Words
from virtualgpu.lanes.barriers import COUNT as BARRIERS

FIELDS = (
    "delta",  # host address of a byte of global memory, less its device address
    "shared",
    "local",
    "local_stride",
    "threads",
    "warps",
    "ntid_x",
    "ntid_y",
    "ntid_z",
    "nctaid_x",
    "nctaid_y",
    "nctaid_z",
    "ctaid_x",
    "ctaid_y",
    "ctaid_z",
    "block",
    "ahead",  # by how much a block's place in the grid is beyond its number (`launch.sampling`)
    "warp",
    "tid_x",
    "tid_y",
    "tid_z",  # tables: uint32 for each thread of a block
    "parameters",
    "states",
    "state_size",
    # Tables of extents, three words each: where the sorted starts are, where the ends, how many.
    "global_starts",
    "global_ends",
    "global_count",
    "shared_starts",
    "shared_ends",
    "shared_count",
    "shared_bytes",
    "local_bytes",
    "dynamic_smem_size",
    "total_smem_size",
    # Rounds left until `tick` is called, which makes `ended` 0 where the kernel may go on. Where it
    # was then, or has stopped: a memory instruction's number or a place as -1 - index, the lanes.
    # `tick` is called for functions that the device provides (`intrinsics`) too, by their number.
    "fuel",
    "tick",
    "ended",
    "fault",
    "fault_mask",
    "warp_function",  # the address of the kernel's code for a warp
    "several",  # whether other cores run blocks of the same launch
    # Blocks that run side by side (`resident_blocks`): whether they have started, where each memory
    # of the first begins and how many bytes each block has of it; threads at the grid's barrier and
    # ended.
    "started",
    "shared_all",
    "local_all",
    "states_all",
    "tables",
    "shared_room",
    "local_room",
    "states_room",
    "at_grid",
    "finished",
    # What a watched kernel counts (`counting`): its tables, and the observer's loop with its data.
    "place_counts",
    "site_counts",
    "thread_instructions",
    "thread_accesses",
    "passes",
    "count_apart",
    "count_data",
    "warp_instructions",
    "warp_accesses",
    "span",
    "end_stretch",
    "watch",  # the words of a kernel that is checked (`watched.rules`)
    "in_rows",  # whether each row of lanes has neighbouring threads (`affine`)
    # Sums that a core keeps to itself (`privatisation`): their room, the host address of what they
    # are of, how many bytes it has (0: none) and one of its elements; and how many memory
    # instructions there are.
    "own_room",
    "own_start",
    "own_span",
    "own_width",
    "sites",
    # Device addresses that a launch gives a kernel which asks for them (`core.given`).
    "workspace",
    "parameter_address",
    "clock",  # instructions that warps of the block have run, in a kernel that asks for them
    "ran",  # this core's marks of the blocks that ran, where lines are measured (`marks`)
    "seen",  # where a loop's head leaves the registers that decide how it goes on (`livelock`)
)
AT = {name: number for number, name in enumerate(FIELDS)}


class ContextWords(Words):
    """The same for run-time routines in the loop language."""

    at = AT


LANES = 32
ADDRESSES = 80  # one word per lane
VALUES = ADDRESSES + LANES  # up to four words per lane
COMPARES = VALUES + 4 * LANES
HOSTS = COMPARES  # of a load or store: the host's addresses of lanes 0, 8, 16 and 24
SITES = COMPARES + LANES

# The words of a memory instruction. In an allocation or a shared variable that it used: the lowest
# address, from there on how many bytes an access may start at, the host's address less this one.
# How many bytes of a thread's local memory it may touch. Where it was last, in a loop. And how many
# bytes the integers have that it adds to global memory (0: it does anything else).
LOW, SPAN, DELTA, LIMIT, LAST, ADDS = range(6)
SITE_WORDS = 6


class SiteWords(Words):
    """The same for run-time routines."""

    at: ClassVar = {
        "low": LOW,
        "span": SPAN,
        "delta": DELTA,
        "limit": LIMIT,
        "last": LAST,
        "adds": ADDS,
    }


# The form of a warp's addresses: a full warp whose lanes reach neighbouring elements; one in which
# each eight lanes do (rows of a block that is 8 or 16 threads wide); one in which each eight lanes
# reach one element; none of these.
APART, LINE, ROWS, SAME = range(4)
ROW = 8

TICK = -1  # what `tick` is called with from within a loop
ROOM = 1 << 15  # bytes of `own_room`, as many as a core's nearest cache has
WORD = 8
assert len(FIELDS) <= ADDRESSES
DONE, AT_BARRIER, STOPPED, YIELDED = range(4)  # what a warp's function returns
ENDED, WAITING, DEADLOCK = 0, 1, 3  # ... and what one of blocks does, beside STOPPED

# What the state of a warp that waits begins with: the number of the barrier, the mask, and whether
# the warp may run.
PHASE, LANES_AT, READY = 0, 4, 8
# The words of a barrier there, where lanes may be parked: who has come, whom the block has counted,
# who came with a true predicate, at which barrier, of how many threads (0: all), what a reduction
# gives, who may go on.
PARKED, COUNTED, PREDICATE, NUMBER, COUNT, RESULT, GIVEN = range(7)
ARRIVAL_WORDS = 7
GRID = 16  # the number of the grid's barrier, after the block's own
# Words of a block that lies beside others: per barrier the threads that have come and that are
# awaited (0: all), the threads that have ended; and per barrier which lanes of each warp have come,
# two warps in a word, where a barrier of the kernel awaits a number.
ARRIVED, EXPECTED, EXITED, CAME = 0, BARRIERS, 2 * BARRIERS, 2 * BARRIERS + 1
WARPS = 32  # of a block at most
TABLE = CAME + BARRIERS * WARPS // 2


def site_at(number: int) -> int:
    """Return the offset of a memory instruction's words."""
    return SITES + SITE_WORDS * number


def size(sites: int) -> int:
    """Return the words of a context for this number of memory instructions."""
    return site_at(sites)
