"""Thread block clusters.

PTX ISA, "Cluster of Cooperative Thread Arrays"; CUDA C++ Programming Guide, "Thread Block
Clusters", "Distributed Shared Memory".

All blocks of a cluster run in one wave with consecutive numbers, because a launch numbers its
blocks cluster by cluster, in the order of their ranks. The window of shared addresses begins with
the block's own shared memory. The shared memory of every block of the cluster follows, in the
order of their ranks. ``mapa`` returns such an address, which refers to the same bytes for all
threads of the cluster.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from virtualgpu.errors import (
    BarrierError,
    LaunchError,
    Location,
    MemoryAccessError,
)
from virtualgpu.lanes.barriers import location
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.wave import Wave
from virtualgpu.memory.windows import LARGEST_CLUSTER, SHARED_BASE, WINDOW
from virtualgpu.ptx import Function, Instruction

Triple = tuple[int, int, int]
_SHIFT, _MASK = np.uint64(WINDOW.bit_length() - 1), np.uint64(WINDOW - 1)
_SHARED = np.uint64(SHARED_BASE)
U32, U64 = np.dtype("u4"), np.dtype("u8")
AWAY, ARRIVED, OVER = 0, 1, 2  # state of a thread: not at the barrier, arrived, may pass


def of_launch(function: Function, kernel: str, grid: Triple, wanted: Triple | None) -> Triple:
    """Return a launch's cluster size, from the kernel's directives and the launch's request.

    Raises LaunchError if they differ, if no device accepts such a cluster, or if clusters do not
    fill the grid.
    """
    declared = function.required_cluster
    if wanted and declared and wanted != declared:
        raise LaunchError(
            f"a launch in clusters of {wanted}, but {kernel} is compiled for "
            f"clusters of {declared} (__cluster_dims__). Leave one of the two out"
        )
    cluster = wanted or declared
    if cluster is None:
        if function.explicit_cluster:
            raise LaunchError(
                f"{kernel} must be launched in clusters (.explicitcluster): pass "
                "a cluster size at the launch, or declare `__cluster_dims__` on the kernel"
            )
        return 1, 1, 1
    size = cluster[0] * cluster[1] * cluster[2]
    if min(cluster) < 1:
        raise LaunchError(f"a cluster of {cluster} blocks: every dimension must be at least 1")
    most = min(function.maximum_cluster or LARGEST_CLUSTER, LARGEST_CLUSTER)
    if size > most:
        whose = "a cluster has" if most == LARGEST_CLUSTER else f"{kernel} is compiled for"
        raise LaunchError(f"a cluster of {size} blocks {cluster}; {whose} at most {most}")
    if any(blocks % part for blocks, part in zip(grid, cluster, strict=True)):
        raise LaunchError(
            f"a grid of {grid} blocks in clusters of {cluster}: each dimension of the grid must be "
            "a multiple of the cluster's dimension"
        )
    return cluster


# -- addresses -------------------------------------------------------------------------------------


def split(group: Group, address: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split addresses of the shared window into offsets, blocks and validity.

    Blocks are numbers in the wave. If there is no such block, the address stays unchanged. All
    results have shape (n,).
    """
    wave = group.wave
    address = group.spread(address)
    own, size = group.take(wave.block_of), wave.launch.cluster_size
    window = (address >> _SHIFT).astype(np.int64)
    known = (window >= 0) & (window <= size)
    blocks = np.where((window == 0) | ~known, own, own - own % size + window - 1)
    return np.where(known, address & _MASK, address), blocks, known


def joined(group: Group, offset: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Join the offsets and blocks that :func:`split` returns, for the group's own clusters."""
    ranks = (blocks % group.wave.launch.cluster_size + 1).astype(np.uint64)
    address: np.ndarray = offset + (ranks << _SHIFT)
    return address


def reach(site: Any, group: Group, address: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets and blocks that an access may touch, shape (n,) each.

    Raises MemoryAccessError for another block's shared memory if the instruction names its own
    (``.shared::cta``), and for the shared memory of a block that has ended.
    """
    wave = group.wave
    offset, blocks, _ = split(group, address)
    other = blocks != group.take(wave.block_of)
    if not site.cluster and other.any():
        at = int(np.argmax(other))
        raise MemoryAccessError(
            f"illegal address: {site.instruction.name} accesses the block's own shared memory, but "
            f"this address is in that of block {_block(wave, blocks[at])}. Use .shared::cluster or "
            "a generic address",
            site.location(group, int(group.lanes[at])),
            address=int(group.spread(address)[at]),
            space="shared",
        )
    ended = wave.exited[blocks] == wave.threads
    if ended.any():
        at = int(np.argmax(ended))
        raise MemoryAccessError(
            "illegal address: the thread accesses the shared memory of block "
            f"{_block(wave, blocks[at])}, which has ended. Synchronise the cluster after the "
            "last such access: cluster.sync() before the kernel's end",
            site.location(group, int(group.lanes[at])),
            address=int(offset[at]),
            space="shared",
        )
    return offset, blocks


def mapped(
    generic: bool, instruction: Instruction, group: Group, address: np.ndarray, rank: np.ndarray
) -> np.ndarray:
    """Execute ``mapa``: map addresses to block ``rank``'s shared memory; uint64, shape (n,).

    Raises MemoryAccessError for a rank that does not exist in the cluster and for an address that
    is not in shared memory. The ISA defines neither.
    """
    size = group.wave.launch.cluster_size
    rank = group.spread(rank).astype(np.int64)
    if (rank >= size).any():
        at = int(np.argmax(rank >= size))
        which = f"a cluster of {size} blocks" if size > 1 else "a launch without clusters"
        _refuse(
            instruction,
            group,
            at,
            f"{which} has no rank {int(rank[at])}: ranks go from 0 to "
            f"{size - 1} (cluster.num_blocks())",
            int(group.spread(address)[at]),
        )
    why = (
        "only addresses in shared memory can be mapped to another block: declare the variable "
        "__shared__"
    )
    offset, _ = _shared(generic, instruction, group, address, why)
    base = _SHARED if generic else np.uint64(0)
    return base + joined(group, offset, rank)


def rank_of(
    generic: bool, instruction: Instruction, group: Group, address: np.ndarray
) -> np.ndarray:
    """Execute ``getctarank``: return the rank of the block that owns each address, uint32."""
    why = "the address is in no block's shared memory"
    _, blocks = _shared(generic, instruction, group, address, why)
    ranks: np.ndarray = (blocks % group.wave.launch.cluster_size).astype(np.uint32)
    return ranks


def is_shared(whole: bool, group: Group, address: np.ndarray) -> np.ndarray:
    """Execute ``isspacep.shared``; return bool, shape (n,).

    It is True for generic addresses in the block's own shared memory or, with ``whole``, in that
    of any block of the cluster.
    """
    _, blocks, known = split(group, address - _SHARED)
    result: np.ndarray = known if whole else known & (blocks == group.take(group.wave.block_of))
    return result


def _shared(
    generic: bool, instruction: Instruction, group: Group, address: np.ndarray, why: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return each address's offset and block; raise an error for one outside shared memory."""
    addresses = group.spread(address)
    offset, blocks, known = split(group, addresses - _SHARED if generic else addresses)
    if not known.all():
        at = int(np.argmax(~known))
        _refuse(instruction, group, at, why, int(addresses[at]))
    return offset, blocks


def _block(wave: Wave, block: Any) -> Any:
    return wave.where(int(block) * wave.threads)[0]


def _refuse(
    instruction: Instruction, group: Group, position: int, why: str, address: int
) -> NoReturn:
    wave = group.wave
    where = Location.of(
        wave.launch.kernel, instruction.source, *wave.where(int(group.lanes[position]))
    )
    raise MemoryAccessError(f"{instruction.name}: {why}", where, address=address, space="shared")


# -- the barrier -----------------------------------------------------------------------------------


class ClusterBarrier:
    """Barrier of each cluster of a wave: each lane's state, and the waiting groups."""

    def __init__(self, wave: Wave):
        self.stands = np.full(wave.lanes, AWAY, np.int8)
        self.waiting: list[Group] = []


def of(wave: Wave) -> ClusterBarrier:
    if wave.cluster_barrier is None:
        wave.cluster_barrier = ClusterBarrier(wave)
    found: ClusterBarrier = wave.cluster_barrier
    return found


def at_barrier(wave: Wave, group: Group) -> list[Group]:
    """Execute ``barrier.cluster.arrive`` or ``.wait``; return the groups that may continue.

    Raises BarrierError for a thread that arrives twice or waits without having arrived, because
    both are undefined (PTX ISA, "barrier.cluster").
    """
    state = of(wave)
    instruction = wave.launch.program.blocks[group.block].last
    if "arrive" in instruction.modifiers:
        _expect(
            group,
            state.stands[group.lanes] == AWAY,
            "arrives at the cluster's barrier again "
            "before it has waited: call barrier_wait() after each barrier_arrive()",
        )
        state.stands[group.lanes] = ARRIVED
        if (watch := wave.launch.standstill) is not None:
            watch.changed()
        for observer in wave.launch.observers:
            observer.cluster_arrived(group, instruction)
        group.block += 1
        return [group, *release(wave)]
    _expect(
        group,
        state.stands[group.lanes] != AWAY,
        "waits at the cluster's barrier but has not "
        "arrived there: call barrier_arrive() first, or cluster.sync()",
    )
    state.waiting.append(group)
    return _passed(wave)


def release(wave: Wave) -> list[Group]:
    """Complete barriers that no live thread is missing; return the groups that may continue."""
    state = of(wave)
    size = wave.threads * wave.launch.cluster_size
    stands = state.stands.reshape(-1, size)
    here = (stands == ARRIVED) | wave.has_exited.reshape(-1, size)
    over = here.all(1) & (stands == ARRIVED).any(1)
    if not over.any():
        return []
    chosen = np.repeat(over, size)
    arrived = np.flatnonzero(chosen & (state.stands == ARRIVED))
    missing = np.flatnonzero(chosen & (state.stands != ARRIVED))
    state.stands[chosen & wave.has_exited] = AWAY
    state.stands[arrived] = np.where(wave.has_exited[arrived], AWAY, OVER)
    for observer in wave.launch.observers:
        observer.cluster_completed(wave, arrived, missing)
    return _passed(wave)


def _passed(wave: Wave) -> list[Group]:
    """Return the lanes of waiting groups whose barrier is complete, placed after it."""
    state = of(wave)
    onward, left = [], []
    for group in state.waiting:
        over = state.stands[group.lanes] == OVER
        if not over.all():
            left.append(group.subset(np.flatnonzero(~over), group.block))
        if not over.any():
            continue
        passed = group.subset(np.flatnonzero(over), group.block)
        state.stands[passed.lanes] = AWAY
        for observer in wave.launch.observers:
            observer.cluster_passed(passed, passed.basic_block.last)
        passed.block += 1
        onward.append(passed)
    state.waiting = left
    return onward


def _expect(group: Group, right: np.ndarray, what: str) -> None:
    if not right.all():
        at = int(np.argmax(~right))
        where = location(group.wave, group.subset(np.array([at]), group.block))
        raise BarrierError(f"thread {where.thread} of block {where.block} {what}", where)
