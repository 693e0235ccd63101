"""A launch on native code: who may have one, the context, the loop over batches of blocks."""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from virtualgpu.codegen import stuck
from virtualgpu.codegen.context import (
    ADDRESSES,
    AT,
    DEADLOCK,
    LANES,
    LIMIT,
    SITE_WORDS,
    SITES,
    STOPPED,
    WAITING,
    WORD,
    size,
)
from virtualgpu.codegen.control_flow import Place
from virtualgpu.codegen.counting import Counts
from virtualgpu.codegen.kernel import NativeKernel, build
from virtualgpu.codegen.refusal import Refused
from virtualgpu.codegen.resident import TABLE
from virtualgpu.errors import (
    BudgetExceeded,
    LaunchError,
    Location,
    MemoryAccessError,
    MisalignedAddressError,
    TrapError,
    UnsupportedInstruction,
    VirtualGPUError,
)
from virtualgpu.machine import access, barriers, calls, simt
from virtualgpu.machine.events import Observer
from virtualgpu.machine.group import Group
from virtualgpu.machine.launch import WAITING as WAITING_WAVES
from virtualgpu.machine.launch import WAVE_LANES, Launch
from virtualgpu.machine.mapping import BASE
from virtualgpu.machine.program import Program
from virtualgpu.machine.registers import Registers
from virtualgpu.machine.schedule import Lockstep
from virtualgpu.machine.wave import MAX_LOCAL, Wave

# Whether an error of the compiler's own is one: tests ask for it, users get the other machine.
STRICT = os.environ.get("VIRTUALGPU_NATIVE") == "always"
SLICE = 0.05  # seconds of a batch of blocks, as far as can be foreseen
REPLAY = 5.0  # seconds to find the words for an error
ROUNDS = 20_000  # of loops, between two looks at the clock
SIDE_BY_SIDE = 4 << 20  # bytes that blocks which may wait for each other have together

_lock = threading.Lock()


def natively(launch: Launch, first: int = 0) -> bool:
    """Run the blocks from ``first`` on in native code if they can be; False where nothing has
    been done."""
    counts = bool(launch.observers)
    if (counts and not _can_be_counted(launch.observers)) or (
            not isinstance(launch.schedule, Lockstep)
            or not math.isinf(launch.budget.instructions)):
        return False
    start = time.thread_time()
    kernel = _kernel(launch.program, counts)
    launch.deadline += time.thread_time() - start  # the kernel's own time is what is limited
    if kernel is None or kernel.local_size > MAX_LOCAL or (
            kernel.grid_barrier and not launch.cooperative):
        return False
    if kernel.parking is not None:
        side_by_side(launch, kernel, first)
        return True
    run = Run(launch, kernel)
    if counts:
        run.count(launch.observers[0].counts(kernel, first))
    try:
        run.run(first)
    finally:
        if run.counts is not None:
            launch.observers[0].counted(kernel, run.counts)
    return True


def _can_be_counted(observers: list[Observer]) -> bool:
    """Whether native code can count for those who watch, instead of telling them."""
    return len(observers) == 1 and type(observers[0]).counts is not Observer.counts


def side_by_side(launch: Launch, kernel: NativeKernel, first: int) -> None:
    """Run blocks that may wait for others: as many at a time as fit a core's cache (of a
    cooperative launch all), and the next ones where those before only wait."""
    waiting: list[Run] = []
    ended: list[Run] = []
    while first < launch.blocks or waiting:
        if first < launch.blocks and (not waiting or len(waiting) < waiting[0].most):
            run = ended.pop() if ended else Run(launch, kernel)
            run.place(first)
            first += run.width
            waiting.append(run)
        left = [run for run in waiting if run.goes_on()]
        ended = [*ended, *(run for run in waiting if run not in left)][-1:]
        waiting = left


def _kernel(program: Program, counts: bool) -> NativeKernel | None:
    """The program's native code, compiled when first asked for; None without."""
    variant = "counting" if counts else "native"
    with _lock:
        if getattr(program, variant) is None:
            setattr(program, variant, _build(program, counts))
    kernel = getattr(program, variant)
    return kernel if isinstance(kernel, NativeKernel) else None


def _build(program: Program, counts: bool) -> NativeKernel | str:
    """Native code, or why there is none."""
    try:
        return build(program, counts)
    except (Refused, UnsupportedInstruction) as refusal:
        return str(refusal) or "refused"
    except Exception as error:  # an unforeseen form: the other machine knows it
        if STRICT:
            raise
        warnings.warn(
            f"the kernel {program.display!r} cannot be compiled whole ({error!r}) and "
            "runs slower than it could: please report this", RuntimeWarning, stacklevel=2)
        return repr(error)


def _words(count: int) -> np.ndarray:
    """int64, aligned to 64 bytes."""
    raw = np.zeros(count + 8, np.int64)
    return raw[(-raw.ctypes.data // WORD) % 8 :][:count]


class Run:
    """One launch on one core."""

    def __init__(self, launch: Launch, kernel: NativeKernel):
        self.launch, self.kernel = launch, kernel
        self.error: BaseException | None = None
        self.context = _words(size(len(kernel.sites)))
        self._kept: list[Any] = []  # what the context points to
        # Blocks that have memory of their own, and how many such runs may wait for others.
        self.blocks = self.most = 1
        if kernel.parking is not None:
            own = launch.shared_bytes + -(-launch.threads // LANES) * (
                LANES * kernel.local_size + kernel.state_size)
            self.blocks = launch.blocks if launch.cooperative else max(
                1, min(launch.blocks, WAVE_LANES // launch.threads, SIDE_BY_SIDE // own))
            launch.reserve(self.blocks * own, "memory of blocks that wait for each other")
            self.most = min(WAITING_WAVES * WAVE_LANES // (self.blocks * launch.threads),
                            launch.budget.nbytes // (self.blocks * own))
        self.counts: Counts | None = None
        self._fill()

    def count(self, counts: Counts) -> None:
        """Count into these tables."""
        self.counts = counts
        pointers = [array.ctypes.data for array in counts.data]
        fields = {
            "place_counts": counts.places, "site_counts": counts.sites, "passes": counts.passes,
            "thread_instructions": counts.instructions, "thread_accesses": counts.accesses,
        }
        for name, array in fields.items():
            self.context[AT[name]] = array.ctypes.data
        for name in ("thread_instructions", "thread_accesses"):
            self.context[AT[name]] -= 4 * counts.first  # bytes of threads before the first
        self.context[AT["count_apart"]] = counts.loop
        self.context[AT["count_data"]] = self._table(pointers)

    def _table(self, values: ArrayLike, dtype: type[np.generic] = np.int64) -> int:
        """The address of an array that lives as long as this run."""
        array = np.ascontiguousarray(values, dtype)
        if not array.size:
            array = np.zeros(1, dtype)
        self._kept.append(array)
        return int(array.ctypes.data)

    def _room(self, nbytes: int) -> int:
        return self._table(_words(-(-nbytes // WORD) + 1))

    def _fill(self) -> None:
        launch, memory, kernel = self.launch, self.launch.memory, self.kernel
        stride = -(-kernel.local_size // 16) * 16
        warps = -(-launch.threads // LANES)
        x, y, _ = launch.block
        thread = np.arange(warps * LANES)
        extents = sorted((start, end) for start, end, _ in launch.shared_layout.extents)
        tick = ctypes.CFUNCTYPE(None)(self._tick)
        self._kept.append(tick)
        rooms = {"shared": -(-launch.shared_bytes // 16) * 16, "local": warps * LANES * stride,
                 "states": warps * kernel.state_size}
        self.states_room = rooms["states"]
        for name, nbytes in rooms.items():
            self.context[AT[f"{name}_room"]] = nbytes
            self.context[AT[name]] = self.context[AT[f"{name}_all"]] = self._room(
                self.blocks * nbytes)
        self.states = self._kept[-1]  # of `rooms`, the last
        fields = {
            "delta": memory.host - BASE, "local_stride": stride,
            "tables": self._room(self.blocks * 8 * TABLE),
            "threads": launch.threads, "warps": warps,
            "parameters": self._table(np.frombuffer(launch.parameters, np.uint8), np.uint8),
            "state_size": kernel.state_size,
            "global_starts": self._table(memory.starts), "global_ends": self._table(memory.ends),
            "global_count": len(memory.starts),
            "shared_starts": self._table([start for start, _ in extents]),
            "shared_ends": self._table([end for _, end in extents]),
            "shared_count": len(extents), "shared_bytes": launch.shared_bytes,
            "local_bytes": launch.threads * stride,
            "dynamic_smem_size": launch.dynamic_shared, "total_smem_size": launch.packed_shared,
            "fuel": ROUNDS, "tick": ctypes.cast(tick, ctypes.c_void_p).value or 0,
            "tid_x": self._table(thread % x, np.uint32),
            "tid_y": self._table(thread // x % y, np.uint32),
            "tid_z": self._table(thread // (x * y), np.uint32),
        }
        for axis, letter in enumerate("xyz"):
            fields[f"ntid_{letter}"] = launch.block[axis]
            fields[f"nctaid_{letter}"] = launch.grid[axis]
        for name, value in fields.items():
            self.context[AT[name]] = value
        # A site knows no variable yet: its first access looks one up.
        self.context[SITES + LIMIT :: SITE_WORDS] = [
            place.frame + place.block.function.frame_size for _, place in kernel.sites]

    # -- running -------------------------------------------------------------------------------

    def run(self, first: int) -> None:
        where = self.context.ctypes.data
        count, blocks = 1, self.launch.blocks
        while first < blocks:
            count = min(count, blocks - first)
            start = time.perf_counter()
            with self._hearing_signals():
                stopped = self.kernel.run(where, first, count)
            if stopped:
                self._stopped()
            took = time.perf_counter() - start
            first += count
            self._look_at_the_clock()
            if took < SLICE / 2:
                count *= 8 if took < SLICE / 16 else 2
            elif took > SLICE:
                count = max(1, count // 2)

    def place(self, first: int) -> None:
        """Begin with blocks ``first`` and those after it, side by side."""
        self.first, self.width = first, min(self.blocks, self.launch.blocks - first)
        self.context[AT["started"]] = 0

    def goes_on(self) -> bool:
        """One turn for blocks side by side; whether some are left."""
        launch = self.launch
        if time.thread_time() > launch.deadline:
            self.context[AT["fuel"]] = 0  # the next loop says where
        with self._hearing_signals():
            result = self.kernel.run(self.context.ctypes.data, self.first, self.width)
        if result == STOPPED:
            self._stopped()
        if result == DEADLOCK:
            assert self.kernel.parking is not None
            states = self.states.view(np.uint32)[: self.width * self.states_room // 4]
            raise stuck.deadlock(launch, self.kernel.parking, self.first, states.reshape(
                self.width, -1, self.kernel.state_size // 4))
        return bool(result == WAITING)

    def _tick(self) -> None:
        """From within a loop. Native code stops unless this comes to its end."""
        try:
            self._look_at_the_clock()
            self.context[AT["fuel"]] = ROUNDS
            self.context[AT["ended"]] = 0
        except BaseException as error:  # it must pass through native code
            self.error = error

    @contextmanager
    def _hearing_signals(self) -> Iterator[None]:
        """Keep what Ctrl-C raises in :meth:`_tick`. A signal's handler runs as a function of
        Python begins, before any ``try`` in it, and what leaves a callback ctypes gives to
        ``sys.unraisablehook`` alone. Only the main thread runs handlers."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = sys.unraisablehook

        def heard(unraisable: Any) -> None:
            trace = unraisable.exc_traceback
            if trace is not None and trace.tb_frame.f_code is Run._tick.__code__:
                self.error = unraisable.exc_value
            else:
                before(unraisable)

        sys.unraisablehook = heard
        try:
            yield
        finally:
            sys.unraisablehook = before

    def _look_at_the_clock(self) -> None:
        launch = self.launch
        if time.thread_time() > launch.deadline:
            raise BudgetExceeded(
                f"the kernel ran for {launch.budget.seconds:g} s of processor time and was "
                "stopped: does this loop end? (set VIRTUALGPU_TIME_LIMIT, in seconds, to allow "
                "more)", Location(launch.kernel))
        if launch.patience and time.monotonic() > launch.patience.due:
            launch.patience.tell(Location(launch.kernel))

    # -- what went wrong -----------------------------------------------------------------------

    def _stopped(self) -> NoReturn:
        """Raise what the interpreting machine would."""
        fault, block, warp, mask = (
            int(self.context[AT[name]]) for name in ("fault", "block", "warp", "fault_mask"))
        lanes = np.array([warp * LANES + i for i in range(LANES) if mask >> i & 1])
        wave = Wave(self.launch, block, 1)
        group = Group(wave, lanes, 0, Registers.of({}, lanes, wave.lanes))
        place = self.kernel.places[-1 - fault] if fault < 0 else self.kernel.sites[fault][1]
        group.block, group.frame = place.block.index, place.frame
        if self.error is not None:
            if isinstance(self.error, BudgetExceeded):
                raise BudgetExceeded(self.error.message, barriers.location(wave, group))
            raise self.error
        kinds = {"indexed": VirtualGPUError, "call": MemoryAccessError, "barrier": LaunchError}
        self._replay(kinds.get(place.block.kind, TrapError) if fault < 0 else (
            MemoryAccessError, MisalignedAddressError))
        if fault < 0 and place.block.kind in ("indexed", "call"):
            self._lead_nowhere(group, place)
        elif fault < 0 and place.block.kind != "barrier":
            simt._trap(wave, group, place.block, None)
        elif fault >= 0:
            self._refused_access(fault, group)
        raise VirtualGPUError("native code stopped where nothing is wrong: please report this")

    def _lead_nowhere(self, group: Group, place: Place) -> None:
        """Have the interpreting machine look at the index or the addresses that lead nowhere."""
        ways = self.context[ADDRESSES : ADDRESSES + LANES].view(np.uint64)[group.lanes % LANES]
        follow = simt._indexed if place.block.kind == "indexed" else calls.call
        follow(group.wave, group, place.block, ways)

    def _refused_access(self, number: int, group: Group) -> None:
        """Have the interpreting machine look at the addresses that native code refused."""
        site = self.kernel.sites[number][0].site
        addresses = self.context[ADDRESSES : ADDRESSES + LANES].view(np.uint64)
        addresses = addresses[group.lanes % LANES]
        offset, site.offset = site.offset, 0
        try:
            values = [np.zeros(len(addresses), site.dtype)] * max(site.width, 2)
            if site.kind == "load":
                access.load(site, group, addresses)
            elif site.kind == "store":
                access.store(site, group, addresses, *values[: site.width])
            else:
                access.atomic(site, group, addresses,
                              *values[: 1 + (site.operation == "cas")])
        finally:
            site.offset = offset

    def _replay(self, kinds: type[VirtualGPUError] | tuple[type[VirtualGPUError], ...]) -> None:
        """Raise the interpreting machine's error, if it comes to one of these ``kinds``.

        How many other threads do the same, and which is the first of all, only that machine can
        say, which runs many blocks side by side. It runs the kernel once more, over what the
        stopped one left in memory; it may go another way there, or take long: then native code's
        own error must do, which knows the lanes of one warp.
        """
        self.launch.deadline = time.thread_time() + REPLAY
        if self.counts is not None:  # who watches hears all from the other machine
            self.counts = None
            self.launch.observers[0].launch_started(self.launch)
        try:
            self.launch.run_waves()
        except kinds:
            raise
        except VirtualGPUError:
            pass
