"""A launch on native code: who may have one, the context, the loop over batches of blocks."""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
import warnings

import numpy as np

from virtualgpu.codegen.context import ADDRESSES, AT, LANES, WORD, size
from virtualgpu.codegen.kernel import NativeKernel, build
from virtualgpu.codegen.refusal import Refused
from virtualgpu.errors import (
    BudgetExceeded,
    Location,
    MemoryAccessError,
    MisalignedAddressError,
    TrapError,
    UnsupportedInstruction,
    VirtualGPUError,
)
from virtualgpu.machine import access, simt
from virtualgpu.machine.memory import BASE
from virtualgpu.machine.schedule import Lockstep
from virtualgpu.machine.wave import MAX_LOCAL, Wave

# With `1` a kernel is compiled once it has run as long as that would take; with `always`, which
# tests use, at its first launch.
MODE = os.environ.get("VIRTUALGPU_NATIVE", "1")
WORTH = 0.15  # seconds in the interpreting machine
SLICE = 0.05  # seconds of a batch of blocks, as far as can be foreseen
REPLAY = 5.0  # seconds to find the words for an error
ROUNDS = 20_000  # of loops, between two looks at the clock

_lock = threading.Lock()


def natively(launch) -> bool:
    """Run a launch on native code if it can be; False where nothing has been done."""
    if launch.observers or launch.cooperative or (
            not isinstance(launch.schedule, Lockstep)
            or not math.isinf(launch.budget.instructions)):
        return False
    kernel = _kernel(launch.program)
    if kernel is None:
        return False
    limit = launch.program.entry_code.frame_size
    if limit > MAX_LOCAL:
        return False
    Run(launch, kernel).run()
    return True


def spent(launch, seconds: float) -> None:
    """The interpreting machine took so long."""
    program = launch.program
    program.interpreted = getattr(program, "interpreted", 0.0) + seconds


def _kernel(program) -> NativeKernel | None:
    """The program's native code, compiled when it is worth it; None without."""
    with _lock:
        known = getattr(program, "native", None)
        if known is None:
            if MODE != "always" and getattr(program, "interpreted", 0.0) < WORTH:
                return None
            try:
                known = build(program)
            except (Refused, UnsupportedInstruction) as refusal:
                known = str(refusal) or "refused"
            except Exception as error:  # an unforeseen form: the other machine knows it
                if MODE == "always":
                    raise
                known = repr(error)
                warnings.warn(
                    f"the kernel {program.display!r} has no native code and runs as without "
                    f"VIRTUALGPU_NATIVE ({known}): please report this", RuntimeWarning,
                    stacklevel=2)
            program.native = known
    return known if isinstance(known, NativeKernel) else None


def _words(count: int) -> np.ndarray:
    """int64, aligned to 64 bytes."""
    raw = np.zeros(count + 8, np.int64)
    return raw[(-raw.ctypes.data // WORD) % 8 :][:count]


class Run:
    """One launch on one core."""

    def __init__(self, launch, kernel: NativeKernel):
        self.launch, self.kernel = launch, kernel
        self.error: BaseException | None = None
        self.context = _words(size(len(kernel.sites)))
        self._kept: list = []
        self._fill()

    def _table(self, values, dtype) -> int:
        """The address of an array that lives as long as this run."""
        array = np.ascontiguousarray(values, dtype)
        if not array.size:
            array = np.zeros(1, dtype)
        self._kept.append(array)
        return array.ctypes.data

    def _fill(self) -> None:
        launch, memory = self.launch, self.launch.memory
        limit = launch.program.entry_code.frame_size
        stride = -(-limit // 16) * 16
        warps = -(-launch.threads // LANES)
        padded = warps * LANES
        x, y, _ = launch.block
        thread = np.arange(padded)
        extents = sorted((start, end) for start, end, _ in launch.shared_layout.extents)
        shared = _words(-(-launch.shared_bytes // WORD) + 1)
        local = _words(padded * stride // WORD + 1)
        states = _words(warps * self.kernel.state_size // WORD + 8)
        self._kept += [shared, local, states]
        tick = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(self._tick)
        self._kept.append(tick)
        fields = {
            "delta": memory.host - BASE, "shared": shared.ctypes.data,
            "local": local.ctypes.data, "local_stride": stride, "local_limit": limit,
            "threads": launch.threads, "warps": warps,
            "parameters": self._table(np.frombuffer(launch._parameters, np.uint8), np.uint8),
            "states": states.ctypes.data, "state_size": self.kernel.state_size,
            "global_starts": self._table(memory.starts, np.int64),
            "global_ends": self._table(memory.ends, np.int64),
            "global_count": len(memory.starts),
            "shared_starts": self._table([s for s, _ in extents], np.int64),
            "shared_ends": self._table([e for _, e in extents], np.int64),
            "shared_count": len(extents), "shared_bytes": launch.shared_bytes,
            "local_bytes": launch.threads * stride,
            "dynamic_smem_size": launch.dynamic_shared, "total_smem_size": launch.packed_shared,
            "fuel": ROUNDS, "tick": ctypes.cast(tick, ctypes.c_void_p).value,
            "tid_x": self._table(thread % x, np.uint32),
            "tid_y": self._table(thread // x % y, np.uint32),
            "tid_z": self._table(thread // (x * y), np.uint32),
        }
        for axis, letter in enumerate("xyz"):
            fields[f"ntid_{letter}"] = launch.block[axis]
            fields[f"nctaid_{letter}"] = launch.grid[axis]
        for name, value in fields.items():
            self.context[AT[name]] = value
        # The sites' bounds stand at no bytes from 0: the first access of each looks them up.

    # -- running -------------------------------------------------------------------------------

    def run(self) -> None:
        where = self.context.ctypes.data
        first, count, blocks = 0, 1, self.launch.blocks
        while first < blocks:
            count = min(count, blocks - first)
            start = time.perf_counter()
            if self.kernel.run(where, first, count):
                self._stopped()
            took = time.perf_counter() - start
            first += count
            self._look_at_the_clock()
            if took < SLICE / 2:
                count *= 8 if took < SLICE / 16 else 2
            elif took > SLICE:
                count = max(1, count // 2)

    def _tick(self, _context: int) -> int:
        """From within a loop: 1 to stop, with the reason in ``error``."""
        try:
            self.context[AT["fuel"]] = ROUNDS
            self._look_at_the_clock()
        except BaseException as error:  # Ctrl-C among them: it must pass through native code
            self.error = error
            return 1
        return 0

    def _look_at_the_clock(self) -> None:
        launch = self.launch
        if time.thread_time() > launch._deadline:
            raise BudgetExceeded(
                f"the kernel ran for {launch.budget.seconds:g} s of processor time and was "
                "stopped: does this loop end? (set VIRTUALGPU_TIME_LIMIT, in seconds, to allow "
                "more)", Location(launch.kernel, None, None))

    # -- what went wrong -----------------------------------------------------------------------

    def _stopped(self) -> None:
        """Raise what the interpreting machine would."""
        fault = int(self.context[AT["fault"]])
        block = int(self.context[AT["block"]])
        warp = int(self.context[AT["warp"]])
        mask = int(self.context[AT["fault_mask"]])
        lanes = np.array([warp * LANES + i for i in range(LANES) if mask >> i & 1])
        wave = Wave(self.launch, block, 1)
        group = simt.Group(wave, lanes, 0, simt.Registers.of({}, lanes, wave.lanes))
        program = self.launch.program
        if self.error is not None:
            error = self.error
            if isinstance(error, BudgetExceeded):
                group.block = -1 - fault
                error = BudgetExceeded(error.message, simt.barriers.location(wave, group))
            raise error
        self._replay(TrapError if fault < 0 else (MemoryAccessError, MisalignedAddressError))
        if fault < 0:
            group.block = -1 - fault
            simt._trap(wave, group, program.blocks[group.block], None)
        site = self.kernel.sites[fault].site
        addresses = self.context[ADDRESSES : ADDRESSES + LANES].view(np.uint64)[lanes % LANES]
        offset, site.offset = site.offset, 0
        group.block = program.entry_code.entry
        try:
            values = [np.zeros(len(lanes), site.dtype)] * max(site.width, 2)
            if site.kind == "load":
                access.load(site, group, addresses)
            elif site.kind == "store":
                access.store(site, group, addresses, *values[: site.width])
            else:
                access.atomic(site, group, addresses,
                              *values[: 1 + (site.operation == "cas")])
        finally:
            site.offset = offset
        raise VirtualGPUError("native code stopped where nothing is wrong: please report this")

    def _replay(self, kinds) -> None:
        """Raise the interpreting machine's error, if it comes to one of these ``kinds``.

        How many other threads do the same, and which is the first of all, only that machine can
        say, which runs many blocks side by side. It runs the kernel once more, over what the
        stopped one left in memory; it may go another way there, or take long: then native code's
        own error must do, which knows the lanes of one warp.
        """
        self.launch._deadline = time.thread_time() + REPLAY
        try:
            self.launch.run_waves()
        except kinds:
            raise
        except VirtualGPUError:
            pass
