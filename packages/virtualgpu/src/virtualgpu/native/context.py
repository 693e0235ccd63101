"""Context of a native kernel: one array of 64-bit words, and the offset of each field.

The array belongs to one run of a kernel on one processor core. The fixed words are followed by
space for the addresses and values of a warp's lanes, for accesses that call a shared function.
After these come the words of each memory instruction, such as the allocation that it used last.
"""

from __future__ import annotations

from typing import ClassVar

from virtualgpu.compilers.loop_language import Words
from virtualgpu.lanes.barriers import COUNT as BARRIERS

FIELDS = (
    "delta",  # host address of a byte of global memory minus its device address
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
    "ahead",  # a block's index in the grid minus its number (`launch.sampling` skips blocks)
    "warp",
    "tid_x",
    "tid_y",
    "tid_z",  # tables: uint32 for each thread of a block
    "parameters",
    "states",
    "state_size",
    # Tables of extents, three words each: address of the sorted starts, address of the ends, count.
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
    # Iterations left until `tick` is called. It clears `ended` if the kernel may continue. `fault`
    # and `fault_mask` say where the kernel was then or has stopped: the number of a memory
    # instruction, or -1 - index of a place, and the lanes. `tick` also calls functions that the
    # device provides, by their number (`intrinsics`).
    "fuel",
    "tick",
    "ended",
    "fault",
    "fault_mask",
    "warp_function",  # address of the kernel's function for one warp
    "several",  # true if other cores run blocks of the same launch
    # Resident blocks (`resident_blocks`): a flag that they have started, the address of each memory
    # of the first block, the bytes per block of each memory, the number of threads at the grid
    # barrier, and the number of threads that have ended.
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
    # Counters of a watched kernel (`counting`): its tables, and the observer's loop with its data.
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
    "watch",  # words of a kernel under `check()` (`watched.rules`)
    "in_rows",  # true if the threads of each row of lanes are neighbours (`affine`)
    # Private sums of this core (`privatisation`): the buffer of the partial sums, the host address
    # of the array that they belong to, the bytes of that array (0: none) and of one element. Last,
    # the number of memory instructions.
    "own_room",
    "own_start",
    "own_span",
    "own_width",
    "sites",
    # Device addresses that a launch passes to kernels that need them (`core.given`).
    "workspace",
    "parameter_address",
    "clock",  # this core's marks of executed blocks, where lines are measured (`marks`)
    "ran",  # this core's marks of executed blocks, where lines are measured (`marks`)
    "seen",  # buffer for the registers that decide a loop's control flow (`livelock`)
)
AT = {name: number for number, name in enumerate(FIELDS)}


class ContextWords(Words):
    """Words of the context, for run-time routines in the loop language."""

    at = AT


LANES = 32
ADDRESSES = 80  # one word per lane
VALUES = ADDRESSES + LANES  # up to four words per lane
COMPARES = VALUES + 4 * LANES
HOSTS = COMPARES  # host addresses of lanes 0, 8, 16 and 24 in a load or store
SITES = COMPARES + LANES

# The words of a memory instruction. For the allocation or shared variable that it used last: the
# lowest address, the number of bytes from there at which an access may start, and the host address
# minus the lowest address. Then the bytes of a thread's local memory that it may touch, the address
# of its last access in a loop, and the size of the integers that it adds to global memory (0 if it
# does anything else).
LOW, SPAN, DELTA, LIMIT, LAST, ADDS = range(6)
SITE_WORDS = 6


class SiteWords(Words):
    """Words of a memory instruction, for run-time routines."""

    at: ClassVar = {
        "low": LOW,
        "span": SPAN,
        "delta": DELTA,
        "limit": LIMIT,
        "last": LAST,
        "adds": ADDS,
    }


# The form of a warp's addresses. LINE: a full warp whose lanes access neighbouring elements. ROWS:
# each group of eight lanes accesses neighbouring elements (rows of a block that is 8 or 16 threads
# wide). SAME: each group of eight lanes accesses one element. APART: anything else.
APART, LINE, ROWS, SAME = range(4)
ROW = 8

TICK = -1  # argument of `tick` when a loop calls it
ROOM = 1 << 15  # bytes of `own_room`: the size of a core's first-level cache
WORD = 8
assert len(FIELDS) <= ADDRESSES
DONE, AT_BARRIER, STOPPED, YIELDED = range(4)  # return values of a warp's function
ENDED, WAITING, DEADLOCK = 0, 1, 3  # the same of a function for blocks

# First words of a waiting warp's state: the number of the barrier, the mask, and a flag that the
# warp may run.
PHASE, LANES_AT, READY = 0, 4, 8
# Words of a barrier in that state, in kernels with parked lanes: the lanes that have arrived, those
# that the block has counted, those that arrived with a true predicate, the barrier's number, its
# thread count (0: all), the result of a reduction, and the lanes that may continue.
PARKED, COUNTED, PREDICATE, NUMBER, COUNT, RESULT, GIVEN = range(7)
ARRIVAL_WORDS = 7
GRID = 16  # number of the grid barrier, after those of the block
# Words of a resident block. For each barrier, the number of threads that have arrived and the
# number expected (0: all); then the number of threads that have ended. Last, for each barrier, the
# lanes of each warp that have arrived, two warps in a word, for barriers with a thread count.
ARRIVED, EXPECTED, EXITED, CAME = 0, BARRIERS, 2 * BARRIERS, 2 * BARRIERS + 1
WARPS = 32  # at most, per block
TABLE = CAME + BARRIERS * WARPS // 2


def site_at(number: int) -> int:
    """Return the offset of a memory instruction's words."""
    return SITES + SITE_WORDS * number


def size(sites: int) -> int:
    """Return the number of words in a context with this number of memory instructions."""
    return site_at(sites)
