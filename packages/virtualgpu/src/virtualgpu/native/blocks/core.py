"""Part of a launch that runs on one processor core: its context, clock and stopping."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from virtualgpu.compilers.llvm import pointer
from virtualgpu.errors import Location
from virtualgpu.lanes import barriers
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.registers import Registers
from virtualgpu.lanes.wave import Wave
from virtualgpu.launch.launch import WAVE_LANES, Launch
from virtualgpu.memory.mapping import BASE
from virtualgpu.native import intrinsics
from virtualgpu.native.compiled import NativeKernel
from virtualgpu.native.context import (
    ADDRESSES,
    ADDS,
    AT,
    EXITED,
    LANES,
    LIMIT,
    ROOM,
    SITE_WORDS,
    SITES,
    SPAN,
    STOPPED,
    TABLE,
    TICK,
    WORD,
    size,
)
from virtualgpu.native.flow.livelock import LoopWatch
from virtualgpu.native.host_arrays import HostArrays
from virtualgpu.signal_handlers import raised_by_handler

# Iterations of loops before the first check of the clock, and the most between two checks. A check
# takes 0.1 ms, during which other cores wait. If iterations are short, each interval is twice as
# long as the one before.
ROUNDS, MOST_ROUNDS = 20_000, 160_000
OFTEN = 0.0025  # seconds of processor time between two looks
SMALL = 1 << 20  # bytes of shared and local memory that may be kept between launches
SIDE_BY_SIDE = 4 << 20  # total bytes of resident blocks that may wait for each other


def given(launch: Launch, names: list[str]) -> dict[str, int]:
    """Return the global addresses that a kernel needs, and allocate them on first use."""
    known: dict[str, Callable[[], int]] = {
        "workspace": launch.workspace,
        "parameter_address": lambda: int(launch.parameter_address(0)[0]),
    }
    return {name: known[name]() for name in names}


class Common:
    """State that the contexts of all cores of a launch share.

    Later launches with the same dimensions share it too.

    Attributes
    ----------
    blocks : int
        Number of blocks with separate memory in a context; 1 if no block waits for another.
    rooms : dict
        Bytes of a block's memories, by name.
    """

    def __init__(self, launch: Launch, kernel: NativeKernel):
        self.dimensions = _dimensions(launch)
        self._arrays = arrays = HostArrays()
        self._parameters = np.frombuffer(bytearray(launch.parameters) or bytearray(1), np.uint8)
        x, y, _ = launch.block
        warps = -(-launch.threads // LANES)
        thread = np.arange(warps * LANES)
        extents = sorted((start, end) for start, end, _ in launch.shared_layout.extents)
        record = kernel.record
        stride = -(-record.local_size // 16) * 16
        self.rooms = {
            "shared": -(-launch.shared_bytes // 16) * 16,
            "local": warps * LANES * stride,
            "states": warps * record.state_size,
        }
        self.blocks = self._side_by_side(launch) if record.parked else 1
        self.fields = {
            "delta": launch.memory.host - BASE,
            "threads": launch.threads,
            "warps": warps,
            "local_stride": stride,
            "local_bytes": launch.threads * stride,
            "state_size": record.state_size,
            "parameters": pointer(self._parameters),
            "shared_starts": arrays.array([start for start, _ in extents]),
            "shared_ends": arrays.array([end for _, end in extents]),
            "shared_count": len(extents),
            "shared_bytes": launch.shared_bytes,
            "dynamic_smem_size": launch.dynamic_shared,
            "total_smem_size": launch.packed_shared,
            "in_rows": x % record.row_length == 0 or x == launch.threads,
            "tid_x": arrays.array(thread % x, np.uint32),
            "tid_y": arrays.array(thread // x % y, np.uint32),
            "tid_z": arrays.array(thread // (x * y), np.uint32),
        }
        for axis, letter in enumerate("xyz"):
            self.fields[f"ntid_{letter}"] = launch.block[axis]
            self.fields[f"nctaid_{letter}"] = launch.grid[axis]
        self.fields |= {f"{name}_room": nbytes for name, nbytes in self.rooms.items()}
        self._given = record.given
        self.fields |= given(launch, record.given)
        self.fields |= self.allocations(launch)

    @property
    def nbytes(self) -> int:
        """Return the bytes of a context's shared memory, local memory and states."""
        return self.blocks * sum(self.rooms.values())

    def _side_by_side(self, launch: Launch) -> int:
        """Return the number of resident blocks in a context, which may wait for each other.

        As many blocks as fit a core's cache are resident, or all blocks of a cooperative launch.
        """
        own = sum(self.rooms.values())
        blocks = (
            launch.blocks
            if launch.cooperative
            else max(1, min(launch.blocks, WAVE_LANES // launch.threads, SIDE_BY_SIDE // own))
        )
        launch.reserve(blocks * own, "memory of blocks that wait for each other")
        return blocks

    def allocations(self, launch: Launch) -> dict[str, int]:
        """Return the fields that describe global memory."""
        memory, self._allocations = launch.memory, HostArrays()
        self.version, starts, ends = memory.version, memory.starts, memory.ends
        return {
            "global_starts": self._allocations.array(starts),
            "global_ends": self._allocations.array(ends),
            "global_count": len(starts),
        }

    def renew(self, launch: Launch) -> None:
        """Prepare for another launch for which this state is suitable."""
        self._parameters[: len(launch.parameters)] = np.frombuffer(launch.parameters, np.uint8)
        self.fields |= given(launch, self._given)  # another version of memory, if it has versions
        if self.version != launch.memory.version:
            self.fields |= self.allocations(launch)

    def fits(self, launch: Launch) -> bool:
        return self.dimensions == _dimensions(launch)


@contextmanager
def hearing_signals(launch: Launch) -> Iterator[None]:
    """Postpone Ctrl-C while no Python code can handle it, and raise it later.

    Exceptions of other signal handlers are postponed too. They are stored in
    ``launch.native.lost`` and raised if the launch has not raised them.

    A signal handler runs at the start of any Python function: in :meth:`Core._tick` before its
    ``try``, or in the ``__del__`` of an object, such as those of the compiler. Exceptions that
    leave these are only passed to ``sys.unraisablehook``. Only the main thread runs handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook

    def heard(unraisable: Any) -> None:
        error, trace = unraisable.exc_value, unraisable.exc_traceback
        if (error is not None and raised_by_handler(error)) or (
            trace is not None and trace.tb_frame.f_code is Core._tick.__code__
        ):
            launch.native.lost = error
        else:
            before(unraisable)

    sys.unraisablehook = heard
    try:
        yield
    finally:
        sys.unraisablehook = before
    if launch.native.lost is not None:
        raise launch.native.lost


def _dimensions(launch: Launch) -> tuple[object, ...]:
    return (
        launch.memory,
        launch.block,
        launch.grid,
        launch.blocks,
        launch.dynamic_shared,
        launch.cooperative,
        launch.budget.nbytes,
    )


class Core:
    """Processor core that runs blocks of a launch, one by one or resident (:meth:`place`).

    Parameters
    ----------
    look : callable
        Called at intervals within long loops; it returns True if the core may continue, or raises.

    Attributes
    ----------
    count : int
        Number of blocks in the next batch.
    first, width : int
        The first of the blocks that it runs or that are resident here, and their number.
    done : bool
        True if it will run no more blocks.
    spent : float
        Processor time of its thread in seconds, at the last check.
    loop_watch : LoopWatch
        Observations of the loops in which the core was at its checks.
    error : BaseException or None
        Exception that was raised while native code ran.
    helpers : list of Core
        Idle helpers of a launch's first core, which share its ``common``.
    """

    def __init__(
        self, launch: Launch, kernel: NativeKernel, common: Common, look: Callable[[Core], bool]
    ):
        self.kernel, self.common, record = kernel, common, kernel.record
        self._version = common.version
        self.helpers: list[Core] = []
        self._own = own = HostArrays()
        self.context = own.words(size(len(record.sites)))
        tick = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(self._tick)
        own.kept.append(tick)
        self.loop_watch = LoopWatch(
            own.words(record.loop_state_bytes // WORD + WORD).view(np.uint8)
        )
        self.set({"seen": pointer(self.loop_watch.room)})
        self.is_small = common.nbytes <= SMALL
        self.set(common.fields | {"tick": ctypes.cast(tick, ctypes.c_void_p).value or 0})
        for name, nbytes in common.rooms.items():
            room = own.room(common.blocks * nbytes)
            self.set({name: room, f"{name}_all": room})
        if record.parked:
            self.set({"tables": own.room(common.blocks * WORD * TABLE)})
        # The words of a memory instruction are zero at first, so its first access looks up a
        # variable.
        self.context[SITES + LIMIT :: SITE_WORDS] = record.limits
        self.context[SITES + ADDS :: SITE_WORDS] = record.adds
        self._sums = 0 if record.ordered or not any(record.adds) else own.room(ROOM)
        self.set({"sites": len(record.sites), "warp_function": kernel.warp})
        # This core's copy of `Program.ran`.
        self.ran = None if launch.program.ran is None else np.zeros_like(launch.program.ran)
        if self.ran is not None:
            self.set({"ran": pointer(self.ran)})
        self._begin(launch, look)

    def again(self, launch: Launch, look: Callable[[Core], bool]) -> Core:
        """Return this core, prepared for another launch with the same dimensions."""
        self.common.renew(launch)
        if self._version != self.common.version:
            self._version = self.common.version
            self.set(self.common.fields)
            self.forget_variables()
        self._begin(launch, look)
        return self

    def _begin(self, launch: Launch, look: Callable[[Core], bool]) -> None:
        self.launch, self._look = launch, look
        self.count, self.done = 1, False
        self.loop_watch.begin()
        self.first = self.width = 0
        self._stood: tuple[int, int, int, int] | None = None
        self.spent = self._began = 0.0
        self._rounds = ROUNDS
        self.error: BaseException | None = None
        if self.ran is not None:
            self.ran[:] = 0
        self.set({"fuel": ROUNDS, "several": 0, "block": 0, "own_room": self._sums, "own_span": 0})

    def forget_variables(self) -> None:
        """Make each memory instruction look up its variable again."""
        self.context[SITES + SPAN :: SITE_WORDS] = 0

    def set(self, fields: dict[str, int]) -> None:
        """Write words of the context."""
        for name, value in fields.items():
            self.context[AT[name]] = value

    # -- running -------------------------------------------------------------------------------

    def start_clock(self) -> None:
        """Start the core's clock, from its own thread, before the first block or a slice."""
        self._began = time.thread_time() - self.spent

    def read_clock(self) -> None:
        self.spent = time.thread_time() - self._began

    def place(self, first: int, count: int) -> None:
        """Set the resident blocks; :meth:`run` runs them and can be called again to continue."""
        self.first, self.width = first, count
        self.set({"started": 0})

    def run(self, first: int, count: int) -> int:
        """Run blocks that are neighbours in the grid.

        Returns ENDED or STOPPED; for resident blocks also WAITING or DEADLOCK. Other Python
        threads run meanwhile.
        """
        chosen = self.launch.chosen
        self.context[AT["ahead"]] = 0 if chosen is None else chosen[first] - first
        result = self.kernel.run(pointer(self.context), first, count)
        self.loop_watch.leave()
        if result == STOPPED:
            self.error = self.error or self.launch.native.lost
            self._note()
        return result

    def _tick(self, context: int, number: int) -> None:
        """Handle a call from within a loop, or a call of a function that the device provides.

        ``number`` is the number of that function, or TICK. Native code stops unless ``ended`` is
        cleared here.
        """
        try:
            self._note()
            if number != TICK:
                self._serve(number)
            elif not self._goes_on():
                return
            if self.error is None and self.launch.native.lost is None:
                self.context[AT["ended"]] = 0
        except BaseException as error:  # an exception cannot propagate through native code
            self.error = error

    def _goes_on(self) -> bool:
        before = self.spent
        self.loop_watch.look(self.kernel.loop_heads, self.word("block"), self.word("warp"))
        if not self._look(self):
            return False
        if self.spent - before < OFTEN:
            self._rounds = min(2 * self._rounds, MOST_ROUNDS)
        self.context[AT["fuel"]] = self._rounds
        return True

    # -- where it is ---------------------------------------------------------------------------

    def word(self, field: str) -> int:
        return int(self.context[AT[field]])

    def ended(self) -> int:
        """Count the side-by-side blocks that have ended."""
        return int(np.count_nonzero(self._exited() == self.launch.threads))

    def end(self) -> None:
        """Mark all blocks as ended, because the interpreter has run them."""
        self._exited()[:] = self.launch.threads

    def _exited(self) -> np.ndarray:
        """Return a view of the number of ended threads of each block: int64, (blocks,)."""
        whole = (ctypes.c_int64 * (self.width * TABLE)).from_address(self.word("tables"))
        return np.ctypeslib.as_array(whole).reshape(self.width, TABLE)[:, EXITED]

    def _note(self) -> None:
        self._stood = (
            self.word("fault"),
            self.word("block"),
            self.word("warp"),
            self.word("fault_mask"),
        )

    def stand(self) -> tuple[Wave, Group]:
        """Return the block and lanes of the last stop or check of the clock, for messages."""
        assert self._stood is not None
        fault, block, warp, mask = self._stood
        lanes = np.array([warp * LANES + i for i in range(LANES) if mask >> i & 1])
        wave = Wave(self.launch, block, 1)
        group = Group(wave, lanes, 0, Registers.of({}, lanes, wave.lanes))
        place = self.kernel.places[-1 - fault] if fault < 0 else self.kernel.sites[fault][1]
        group.block, group.frame = place.block.index, place.frame
        return wave, group

    def _serve(self, number: int) -> None:
        """Call a device function for the lanes that need it, with the block's local memory."""
        wave, group = self.stand()
        stride = self.common.fields["local_stride"]
        if stride:
            nbytes = wave.lanes * stride
            memory = (ctypes.c_uint8 * nbytes).from_address(self.word("local"))
            wave.local, wave.local_stride = np.ctypeslib.as_array(memory), stride
            wave.frame_bytes = stride
        intrinsics.serve(number, group, self.context)

    def location(self) -> Location:
        """Return the line and thread of the last stop or check of the clock.

        Before the first one, return only the block.
        """
        if self._stood is not None:
            return barriers.location(*self.stand())
        block, _ = Wave(self.launch, self.word("block"), 1).where(0)
        return Location(self.launch.kernel, block=block)

    def addresses(self, lanes: np.ndarray) -> np.ndarray:
        """Return the addresses of a refused access."""
        of_all = self.context[ADDRESSES : ADDRESSES + LANES].view(np.uint64)
        asked: np.ndarray = of_all[lanes % LANES]
        return asked
