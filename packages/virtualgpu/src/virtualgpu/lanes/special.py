"""Special registers (PTX ISA, "Special Registers").

Each entry returns a register's value for the lanes of a group: shape (1,) or (n,).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from virtualgpu.lanes.group import Group
from virtualgpu.lanes.warp_exchange import ONE, lane_ids
from virtualgpu.lanes.wave import WARP


def _constant(value: int, dtype: type[np.generic] = np.uint32) -> np.ndarray:
    return np.array([value & (0xFFFF_FFFF if dtype is np.uint32 else 2**64 - 1)], dtype)


def _triple(
    table: dict[str, Callable[[Group], np.ndarray]],
    name: str,
    function: Callable[..., np.ndarray],  # arguments: a group and an axis, 0 to 2
) -> None:
    for axis, letter in enumerate("xyz"):
        table[f"{name}.{letter}"] = partial(function, axis=axis)


def _rank(g: Group) -> np.ndarray:
    ranks: np.ndarray = (g.take(g.wave.block_of) % g.wave.launch.cluster_size).astype(np.uint32)
    return ranks


# Registers that the driver sets: cooperative groups find their workspace in them, high half first
# (cooperative_groups/details/driver_abi.h).
_ENVIRONMENT = {f"%envreg{i}": lambda g: _constant(0) for i in range(32)} | {
    "%envreg1": lambda g: _constant(g.wave.launch.workspace() >> 32),
    "%envreg2": lambda g: _constant(g.wave.launch.workspace()),
}

SPECIAL: dict[str, Callable[[Group], np.ndarray]] = {
    "%laneid": lane_ids,
    "%warpid": lambda g: (g.take(g.wave.thread_of) // WARP).astype(np.uint32),
    "%nwarpid": lambda g: _constant(-(-g.wave.threads // WARP)),
    # A real grid is distributed over many SMs; here a wave runs on one.
    "%smid": lambda g: _constant(0),
    "%nsmid": lambda g: _constant(1),
    "%gridid": lambda g: _constant(g.wave.launch.number, np.uint64),
    "%lanemask_eq": lambda g: ONE << lane_ids(g),
    "%lanemask_lt": lambda g: (ONE << lane_ids(g)) - ONE,
    "%lanemask_le": lambda g: (np.uint32(2) << lane_ids(g)) - ONE,
    "%lanemask_gt": lambda g: ~((np.uint32(2) << lane_ids(g)) - ONE),
    "%lanemask_ge": lambda g: ~((ONE << lane_ids(g)) - ONE),
    # Clocks count the instructions that the wave has run. They only grow and are not times.
    "%clock": lambda g: _constant(g.wave.steps),
    "%clock_hi": lambda g: _constant(g.wave.steps >> 32),
    "%clock64": lambda g: _constant(g.wave.steps, np.uint64),
    "%globaltimer": lambda g: _constant(time.time_ns(), np.uint64),
    "%globaltimer_lo": lambda g: _constant(time.time_ns()),
    "%globaltimer_hi": lambda g: _constant(time.time_ns() >> 32),
    "%dynamic_smem_size": lambda g: _constant(g.wave.launch.dynamic_shared),
    "%total_smem_size": lambda g: _constant(g.wave.launch.packed_shared),
    "%is_explicit_cluster": lambda g: np.array([g.wave.launch.explicit_cluster]),
    **_ENVIRONMENT,
    "%cluster_ctarank": _rank,
    "%cluster_nctarank": lambda g: _constant(g.wave.launch.cluster_size),
}
_triple(SPECIAL, "%tid", lambda g, axis: g.take(g.wave.thread_index(axis)))
_triple(SPECIAL, "%ctaid", lambda g, axis: g.take(g.wave.block_index(axis)))
_triple(SPECIAL, "%ntid", lambda g, axis: _constant(g.wave.launch.block[axis]))
_triple(SPECIAL, "%nctaid", lambda g, axis: _constant(g.wave.launch.grid[axis]))
_triple(
    SPECIAL,
    "%clusterid",
    lambda g, axis: g.take(g.wave.block_index(axis)) // _constant(g.wave.launch.cluster[axis]),
)
_triple(
    SPECIAL,
    "%nclusterid",
    lambda g, axis: _constant(g.wave.launch.grid[axis] // g.wave.launch.cluster[axis]),
)
_triple(
    SPECIAL,
    "%cluster_ctaid",
    lambda g, axis: g.take(g.wave.block_index(axis)) % _constant(g.wave.launch.cluster[axis]),
)
_triple(SPECIAL, "%cluster_nctaid", lambda g, axis: _constant(g.wave.launch.cluster[axis]))
