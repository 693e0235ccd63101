"""Events that observers receive while a kernel runs.

Events come in batches: one call reports what all lanes of a group did in one instruction.

An observer may use the launch that it is notified of (:class:`WatchedLaunch`). Of a group, it may
use ``lanes`` (int64, shape (n,), indices into the wave), ``basic_block`` and ``wave``. Of a
:class:`~virtualgpu.lanes.wave.Wave`, it may use the positions of lanes (``where``, ``first``,
``block_of``, ``thread_of``, ``warp_of``, ``all_lanes``), the sizes (``blocks``, ``threads``,
``lanes``, ``warps``, and of exited ones ``exited`` and ``finished``), and the layout of memory
(``shared_stride`` and ``local_stride``, both in bytes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from virtualgpu.ptx import Instruction

if TYPE_CHECKING:
    from virtualgpu.errors import VirtualGPUError
    from virtualgpu.lanes.group import Group
    from virtualgpu.lanes.wave import Wave
    from virtualgpu.memory.global_memory import GlobalMemory


class WatchedLaunch(Protocol):
    """Protocol of a launch as observers see it.

    Attributes
    ----------
    kernel : str
        Name of the kernel in its source.
    grid, block : tuple of three ints
    blocks, threads : int
        Number of blocks that run, and of threads in a block.
    chosen : ndarray or None
        Positions in the grid of the blocks that run, if not all run.
    shared_bytes : int
        Shared memory of each block, static and dynamic.
    memory : GlobalMemory
        The allocations (``extent``, ``starts``) and their unwritten bytes (``unwritten``).
    program : Program
        Its basic blocks.
    shared_layout : SharedLayout
        Positions of variables in shared memory.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks: int
    chosen: np.ndarray | None
    threads: int
    shared_bytes: int
    memory: GlobalMemory
    program: Any
    shared_layout: Any


class Access(NamedTuple):
    """Legal access to memory by the lanes of a group in one instruction.

    Attributes
    ----------
    kind : str
        ``load``, ``store`` or ``atomic``.
    space : str
        ``global``, ``shared`` or ``local``. Reads of constants and parameters are not reported. An
        access to other memory is reported whatever space the instruction names.
    lanes : ndarray, int64, shape (n,)
        The lanes of the wave.
    addresses : ndarray, uint64, shape (n,)
        Device addresses; for ``shared`` and ``local``, offsets into the block's or thread's own
        memory.
    size : int
        Bytes per lane, all vector elements together.
    strong : bool
        True for volatile, relaxed, acquire, release and atomic accesses. They do not race with
        each other (PTX ISA, "Memory Consistency Model", morally strong).
    order : str
        ``""``, ``relaxed``, ``acquire``, ``release`` or ``acq_rel``.
    scope : str
        ``cta``, ``gpu``, ``sys`` or ``""``.
    blocks : ndarray, int64, shape (n,), or None
        The wave's blocks that own the shared memory, if not all are the lanes' own (clusters).
    wanted : ndarray, bool, shape (n,) or (1,), or None
        For a load that the compiler moved before a condition: True for lanes whose value is used.
        None means all lanes (:mod:`virtualgpu.program.speculation`).
    """

    kind: str
    space: str
    group: Group
    instruction: Instruction
    lanes: np.ndarray
    addresses: np.ndarray
    size: int
    strong: bool = False
    order: str = ""
    scope: str = ""
    blocks: np.ndarray | None = None
    wanted: np.ndarray | None = None

    def by_the_program(self) -> Access | None:
        """Return the event without lanes whose value is unused, or None if no lane is left."""
        if self.wanted is None:
            return self
        kept = np.broadcast_to(self.wanted, self.lanes.shape)
        return (
            self._replace(
                lanes=self.lanes[kept],
                addresses=self.addresses[kept],
                wanted=None,
                blocks=None if self.blocks is None else self.blocks[kept],
            )
            if kept.any()
            else None
        )

    def owners(self) -> np.ndarray:
        """Return the wave's blocks that own the accessed shared memory: int64, shape (n,)."""
        return self.group.wave.block_of[self.lanes] if self.blocks is None else self.blocks

    def bytes_at(self, addresses: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Return the bytes that memory holds now, for some lanes: uint8, shape (n, size)."""
        blocks = None if self.blocks is None else self.blocks[np.searchsorted(self.lanes, lanes)]
        return self.group.wave.bytes_at(self.space, addresses, lanes, self.size, blocks)


class Observer:
    """Base class of observers of a launch; override the events of interest."""

    # True to keep the memory's record of written bytes up to date (see `memory.written`).
    marks_written = False
    # True to receive accesses to pinned and mapped memory on the host.
    watches_host = False
    # True to receive indices that wrap: kernels with such indices also compute them exactly.
    follows_indices = False

    def launch_started(self, launch: WatchedLaunch) -> None:
        """Handle the start of a launch, before the first block runs."""

    def counts(self, kernel: Any, first: int) -> Any:
        """Return tables for native code that runs and counts the blocks from ``first`` on.

        They are :class:`virtualgpu.native.counting.Counts`. Return None if the observer needs
        events.
        """
        return None

    def counted(self, kernel: Any, counts: Any) -> None:
        """Handle the counts that native code has added to the tables."""

    def has_found(self) -> bool | None:
        """Return True if there is something to report about this launch so far.

        Return None if the observer needs all events. Otherwise native code may run the rest
        without events. It stops where there might be something to report, and the interpreter runs
        its blocks again.
        """
        return None

    def launch_began_again(self, launch: WatchedLaunch) -> None:
        """Discard what has been observed of this launch so far.

        Only observers that do not need all events from native code (:meth:`counts`,
        :meth:`has_found`) receive this.
        """
        self.launch_started(launch)

    def touched(self) -> Iterable[tuple[int, int, tuple[np.ndarray, ...]]]:
        """Return the accesses of this launch to global memory so far.

        Each item has an address in an allocation, the bytes of a granule, and three bool arrays of
        shape (granules,) for the granules from there on: written, read, and accessed by strong
        operations.
        """
        return ()

    def launch_finished(self, launch: WatchedLaunch) -> None:
        """Handle the end of a launch, after the last block or an error."""

    def failed(self, launch: WatchedLaunch, error: VirtualGPUError) -> None:
        """Handle the error that stopped the launch.

        The error is raised after ``launch_finished``.
        """

    def host_wrote(self, address: int, nbytes: int) -> None:
        """Handle a host copy or fill of ``nbytes`` bytes from ``address`` between launches."""

    def host_copied(self, target: int, origin: int, nbytes: int) -> None:
        """Handle a copy of ``nbytes`` bytes on the device between launches."""

    def commanded(self, command: Any) -> None:
        """Handle a command of the host to a stream, or a wait for one.

        See :class:`virtualgpu.watch.queues.Command`.
        """

    def accessed(self, access: Access) -> None:
        """Handle one instruction's reads or writes, just before or just after them."""

    def executed(self, group: Group, instructions: list[Instruction]) -> None:
        """Handle a basic block that the lanes of ``group`` are about to run."""

    def branched(self, group: Group, instruction: Instruction, taken: np.ndarray) -> None:
        """Handle a conditional branch; ``taken`` is bool, shape (n,)."""

    def arrived(self, group: Group, instruction: Instruction, barrier: int) -> None:
        """Handle the arrival of the group's lanes at a block-wide barrier."""

    def released(
        self, barrier: int | str, lanes: np.ndarray, groups: list[Group], missing: np.ndarray | None
    ) -> None:
        """Handle a barrier (its number, or ``grid``) that released ``lanes``.

        ``groups`` are the groups that waited, each still at its barrier's block. ``missing`` are
        the exited lanes of these blocks that never arrived, or None.
        """

    def warp_synchronised(self, group: Group, instruction: Instruction, mask: np.ndarray) -> None:
        """Handle ``bar.warp.sync``, ``shfl.sync`` and similar instructions.

        The lanes of each warp in ``mask`` (uint32, shape (1,) or (n,)) have met.
        """

    def shuffled_nothing(
        self, group: Group, instruction: Instruction, positions: np.ndarray
    ) -> None:
        """Handle lanes that read the value of a lane that does not take part.

        The instruction is ``shfl.sync.idx`` or ``.bfly``.
        """

    def wrapped(
        self, group: Group, comparison: Any, differ: np.ndarray, values: Sequence[np.ndarray]
    ) -> None:
        """Handle lanes whose address or branch is wrong because an index has wrapped.

        ``comparison`` is from :mod:`virtualgpu.program.exact_indices`. ``differ`` (bool) and
        ``values`` (int64), which it names, have shape (n,) or (1,). Only observers with
        ``follows_indices`` receive this.
        """

    def stack_grew(self, group: Group, offsets: np.ndarray, sizes: np.ndarray) -> None:
        """Handle ``alloca``, which gives each lane new local memory.

        The memory of each lane has ``sizes`` bytes (int64, shape (n,)) from ``offsets`` (uint64,
        shape (n,)), which are relative like the addresses of an :class:`Access`.
        """

    def printed(
        self,
        group: Group,
        instruction: Instruction,
        lane: int,
        offset: int,
        size: int,
        conversion: str,
    ) -> None:
        """Handle a read of a lane's local memory by ``printf``, for one conversion.

        The conversion is for example ``%lld``, or a string in local memory, where its arguments
        are too. ``accessed`` is not called for it, because a GPU prints when the kernel has
        finished.
        """

    def copy_began(self, access: Access) -> None:
        """Handle the start of an asynchronous copy, which will write to shared memory later."""

    def copy_arrived(self, access: Access) -> None:
        """Handle the arrival of such a copy; ``accessed`` reports its write too."""

    def mbarrier_made(self, wave: Wave, words: np.ndarray) -> None:
        """Handle ``mbarrier.init`` for 8-byte words of the wave's shared memory."""

    def mbarrier_arrived(self, group: Group, instruction: Instruction, word: int) -> None:
        """Handle the arrival of all lanes of a group, or of their copies, at one mbarrier."""

    def mbarrier_completed(self, wave: Wave, word: int, phase: int) -> None:
        """Handle the end of a phase (modulo 8) of an mbarrier, after all arrivals."""

    def mbarrier_passed(
        self, group: Group, instruction: Instruction, words: np.ndarray, phases: np.ndarray
    ) -> None:
        """Handle lanes that saw the end of these phases of the objects at ``words``."""

    def cluster_arrived(self, group: Group, instruction: Instruction) -> None:
        """Handle ``barrier.cluster.arrive``."""

    def cluster_completed(self, wave: Wave, arrived: np.ndarray, missing: np.ndarray) -> None:
        """Handle the end of cluster barriers: ``arrived`` lanes, and exited lanes (``missing``)."""

    def cluster_passed(self, group: Group, instruction: Instruction) -> None:
        """Handle lanes that pass ``barrier.cluster.wait``."""

    def fenced(self, group: Group, instruction: Instruction, scope: str) -> None:
        """Handle a ``membar`` or ``fence``; scope is ``cta``, ``gpu`` or ``sys``."""

    def exited(self, group: Group) -> None:
        """Handle the end of the group's lanes."""


class Listeners(NamedTuple):
    """Observers to call for the most frequent events.

    Only observers that override the method of an event are listed for it.
    """

    executed: list[Callable[[Group, list[Instruction]], None]]
    branched: list[Callable[[Group, Instruction, np.ndarray], None]]
    accessed: list[Callable[[Access], None]]

    @classmethod
    def of(cls, observers: list[Observer]) -> Listeners:
        if not observers:
            return NO_LISTENERS
        return cls(
            *(
                [
                    getattr(one, event)
                    for one in observers
                    if getattr(type(one), event) is not getattr(Observer, event)
                ]
                for event in cls._fields
            )
        )


NO_LISTENERS = Listeners([], [], [])
