"""What a native kernel is handed: one array of 64-bit words, and where each thing lies in it.

The array belongs to one run of a kernel on one processor core. After the fixed words come, for
each memory instruction, the allocation that it used last; then room for the lanes' addresses and
values where an access is not a plain one.
"""

from __future__ import annotations

FIELDS = (
    "delta",  # host address of a byte of global memory, less its device address
    "shared", "local", "local_stride", "local_limit",
    "threads", "warps", "ntid_x", "ntid_y", "ntid_z", "nctaid_x", "nctaid_y", "nctaid_z",
    "ctaid_x", "ctaid_y", "ctaid_z", "block", "warp",
    "tid_x", "tid_y", "tid_z",  # tables: uint32 for each thread of a block
    "parameters", "states", "state_size",
    "global_starts", "global_ends", "global_count",
    "shared_starts", "shared_ends", "shared_count", "shared_bytes", "local_bytes",
    "dynamic_smem_size", "total_smem_size",
    "fuel", "tick", "fault", "fault_mask",
)  # fmt: skip
AT = {name: number for number, name in enumerate(FIELDS)}

LANES = 32
ADDRESSES = 64  # one word per lane
VALUES = ADDRESSES + LANES  # up to four words per lane
COMPARES = VALUES + 4 * LANES
SITES = COMPARES + LANES  # two words per memory instruction: from where on how many bytes
# an access may start

WORD = 8
DONE, AT_BARRIER, STOPPED = 0, 1, 2  # what a warp's function returns


def size(sites: int) -> int:
    """Words of a context for so many memory instructions."""
    return SITES + 2 * sites
