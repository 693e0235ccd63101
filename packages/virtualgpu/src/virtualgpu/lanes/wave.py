"""Wave: thread blocks that are resident together, lane by lane.

Lanes are numbered block by block, and within a block as the hardware numbers threads, x fastest
(PTX ISA, "%tid"). Warps are 32 consecutive threads of a block; the last warp may be partial.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from virtualgpu.errors import Index, LaunchError
from virtualgpu.memory.global_memory import POISON
from virtualgpu.memory.mapping import BASE

WARP = 32
# Bytes of local memory per thread (CUDA C++ Programming Guide, "Compute Capabilities").
MAX_LOCAL = 512 << 10
# Top of a thread's stack in its local memory. The stack grows down from here (lanes.stack), and no
# frame comes near.
STACK_TOP = 1 << 23


class Geometry:
    """Thread, warp and block of each lane of a wave; equal for all full waves.

    Arrays are int64, shape (lanes,), and created at first use.
    """

    def __init__(self, blocks: int, block: tuple[int, int, int]):
        self.blocks, self.block = blocks, block
        self.threads = block[0] * block[1] * block[2]  # per block
        self.lanes = blocks * self.threads
        self.warps = blocks * -(-self.threads // WARP)
        self.all_lanes = np.arange(self.lanes)
        self._thread_index: dict[int, np.ndarray] = {}

    @cached_property
    def block_of(self) -> np.ndarray:
        return self.all_lanes // self.threads

    @cached_property
    def thread_of(self) -> np.ndarray:
        return self.all_lanes % self.threads

    @cached_property
    def warp_of(self) -> np.ndarray:
        """Return a number for each lane's warp in the wave."""
        warps: np.ndarray = self.block_of * -(-self.threads // WARP) + self.thread_of // WARP
        return warps

    def thread_index(self, axis: int) -> np.ndarray:
        """Return ``%tid`` along an axis: uint32, shape (1,) or (lanes,)."""
        index = self._thread_index.get(axis)
        if index is None:
            x, y, _ = self.block
            if self.block[axis] == 1:
                index = np.zeros(1, np.uint32)
            else:
                thread = self.thread_of
                index = (thread % x, thread // x % y, thread // (x * y))[axis].astype(np.uint32)
            self._thread_index[axis] = index
        return index


geometry = lru_cache(maxsize=8)(Geometry)


def indices(launch: Any, thread: int) -> tuple[Index, Index]:
    """Return ``(block index, thread index)`` for a thread's number in the grid."""
    block, thread = divmod(thread, launch.threads)
    bx, by, _ = launch.block
    return (
        Index(tuple(map(int, block_indices(launch, block))), launch.grid),
        Index((thread % bx, thread // bx % by, thread // (bx * by)), launch.block),
    )


def block_indices(launch: Any, number: Any) -> tuple[Any, Any, Any]:
    """Return ``%ctaid`` of blocks from their numbers.

    Numbers count cluster by cluster, with x fastest among clusters and within a cluster.

    If a launch runs only some of its blocks, only these are numbered.
    """
    gx, gy, _ = launch.grid
    if launch.chosen is not None:
        number = launch.chosen[number]
    if launch.cluster_size == 1:
        return number % gx, number // gx % gy, number // (gx * gy)
    cx, cy, cz = launch.cluster
    number, rank = number // launch.cluster_size, number % launch.cluster_size
    gx, gy = gx // cx, gy // cy
    return (
        number % gx * cx + rank % cx,
        number // gx % gy * cy + rank // cx % cy,
        number // (gx * gy) * cz + rank // (cx * cy),
    )


class Wave:
    """Blocks ``first`` to ``first + blocks`` of a launch.

    ``shared`` has each block's shared memory and ``local`` each lane's local memory, both as one
    flat byte array with a fixed stride.
    """

    def __init__(self, launch: Any, first: int, blocks: int):
        self.launch = launch  # a Launch; its module is made of this one
        self.first = first
        self.geometry = lanes = geometry(blocks, launch.block)
        self.blocks, self.threads, self.lanes = blocks, lanes.threads, lanes.lanes
        self.warps, self.all_lanes = lanes.warps, lanes.all_lanes
        self.thread_index = lanes.thread_index
        self.shared_stride = -(-launch.shared_bytes // 8) * 8
        self.shared = np.full(blocks * self.shared_stride, POISON, np.uint8)
        self.shared_views: dict[np.dtype, np.ndarray] = {}
        self.local_stride = 0
        self.local = np.zeros(0, np.uint8)
        self.local_views: dict[np.dtype, np.ndarray] = {}
        # Use of each lane's part of `local`: frames from its start, the stack from its end.
        self.frame_bytes = self.stack_bytes = 0
        self.exited = np.zeros(blocks, np.int64)  # exited lanes of each block
        self.has_exited = np.zeros(self.lanes, bool)
        self.finished = 0
        # Groups by key, and groups that wait for others.
        self.pending: dict[tuple[Any, ...], list[Any]] = {}
        self.yielded: list[Any] = []
        self.waiting: dict[int | str, Any] = {}  # barrier → waiting groups
        # Barriers in shared memory and copies in flight (lanes.families: mbarrier, copies).
        self.barriers: Any = None
        self.cluster_barrier: Any = None  # lanes.clusters
        self.copies: Any = None
        self.parked: dict[Any, list[Any]] = {}  # warp-synchronous block's key → groups
        self.met: list[Any] = []  # groups that met others at another instruction and run first
        self.steps = 0
        # For an adversarial schedule: the number of blocks that each lane may run before it is held
        # back.
        self.patience: np.ndarray | None = None
        # Number of groups at a key of `pending` whose lanes are all held back, if it was computed.
        # It stays valid until the next round, and the key is new when a group joins them.
        self.held: dict[tuple[Any, ...], int] = {}

    def push(self, group: Any) -> None:
        """Add ``group`` to the groups that can run."""
        self.pending.setdefault(group.key, []).append(group)

    # -- geometry ------------------------------------------------------------------------------

    @property
    def block_of(self) -> np.ndarray:
        return self.geometry.block_of

    @property
    def thread_of(self) -> np.ndarray:
        return self.geometry.thread_of

    @property
    def warp_of(self) -> np.ndarray:
        return self.geometry.warp_of

    def block_index(self, axis: int) -> np.ndarray:
        """Return ``%ctaid`` along an axis: uint32, shape (1,) or (lanes,)."""
        number = np.arange(self.first, self.first + self.blocks)
        index: np.ndarray = block_indices(self.launch, number)[axis].astype(np.uint32)
        if self.blocks == 1 or (index == index[0]).all():
            return index[:1]
        return np.repeat(index, self.threads)

    def where(self, lane: int) -> tuple[Index, Index]:
        """Return ``(block index, thread index)`` of a lane."""
        return indices(self.launch, self.first * self.threads + int(lane))

    # -- memories of the wave ------------------------------------------------------------------

    def shared_view(self, dtype: np.dtype) -> np.ndarray:
        view = self.shared_views.get(dtype)
        if view is None:
            view = self.shared_views[dtype] = self.shared.view(dtype)
        return view

    def local_view(self, dtype: np.dtype) -> np.ndarray:
        view = self.local_views.get(dtype)
        if view is None:
            view = self.local_views[dtype] = self.local.view(dtype)
        return view

    def bytes_at(
        self,
        space: str,
        addresses: np.ndarray,
        lanes: np.ndarray,
        size: int,
        blocks: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the present bytes of memory.

        Parameters
        ----------
        space : str
            ``global``, ``shared`` or ``local``.
        addresses : ndarray, uint64, shape (n,)
            Legal addresses, as in :class:`~virtualgpu.lanes.events.Access`.
        lanes : ndarray, int64, shape (n,)
            Lanes of the accesses.
        size : int
            Bytes at each address.
        blocks : ndarray, int64, shape (n,), optional
            Blocks of the wave that own the shared memory, if some are not the lanes' own.

        Returns
        -------
        ndarray, uint8, shape (n, size)
        """
        index = addresses.astype(np.int64)
        if space == "global":
            whole, index = self.launch.memory.mapping.raw, index - BASE
        elif space == "shared":
            blocks = self.block_of[lanes] if blocks is None else blocks
            whole, index = self.shared, index + blocks * self.shared_stride
        else:
            whole, index = self.local, index + lanes * self.local_stride
        taken: np.ndarray = whole[index[:, None] + np.arange(size)]
        return taken

    @cached_property
    def stack_used(self) -> np.ndarray:
        """Number of bytes that ``alloca`` has given each lane: int64, shape (lanes,)."""
        return np.zeros(self.lanes, np.int64)

    def on_stack(self, addresses: np.ndarray, lanes: np.ndarray, size: int) -> np.ndarray:
        """Return True for each local address with ``size`` bytes in its lane's stack.

        Addresses are uint64, shape (n,).
        """
        low = (STACK_TOP - self.stack_used[lanes]).astype(np.uint64)
        inside: np.ndarray = (addresses >= low) & (addresses <= np.uint64(STACK_TOP - size))
        return inside

    def local_offset(self, addresses: np.ndarray) -> np.ndarray:
        """Return the offsets of local addresses (uint64) in a lane's part of ``local``."""
        if not self.stack_bytes:
            return addresses
        # No frame reaches half of STACK_TOP, which is eight times MAX_LOCAL.
        moved = np.uint64(STACK_TOP - self.local_stride)
        return np.where(addresses > np.uint64(STACK_TOP >> 1), addresses - moved, addresses)

    def freshen(self, lanes: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> None:
        """Fill the lanes' stacks, from local addresses on, with the poison of new memory."""
        rows = self.local.reshape(self.lanes, self.local_stride)
        for lane, start, size in zip(
            lanes, starts - STACK_TOP + self.local_stride, sizes, strict=True
        ):
            rows[lane, start : start + size] = POISON

    def grow_local(self, nbytes: int, stack: int = 0) -> None:
        """Provide ``nbytes`` of local memory per lane for frames, and ``stack`` for its stack.

        The present contents are kept.
        """
        if nbytes <= self.frame_bytes and stack <= self.stack_bytes:
            return
        frames, top = self.frame_bytes, self.stack_bytes
        self.frame_bytes, self.stack_bytes = max(nbytes, frames), max(stack, top)
        nbytes = self.frame_bytes
        if nbytes + self.stack_bytes <= self.local_stride:
            return
        if nbytes > MAX_LOCAL:
            raise LaunchError(
                f"a thread needs {nbytes:,} bytes of local memory, but it has at most "
                f"{MAX_LOCAL:,}. Make local arrays smaller, or nest calls less deeply"
            )
        nbytes += self.stack_bytes
        stride = max(-(-nbytes // 16) * 16, min(2 * self.local_stride, MAX_LOCAL))
        self.launch.reserve(self.lanes * (stride - self.local_stride), "local memory")
        grown = np.full((self.lanes, stride), POISON, np.uint8)
        if self.local_stride:
            before = self.local.reshape(self.lanes, self.local_stride)
            grown[:, :frames] = before[:, :frames]
            grown[:, stride - top :] = before[:, self.local_stride - top :]
        self.local, self.local_stride, self.local_views = grown.reshape(-1), stride, {}
