"""One processor core's part in a launch: its context, its clock, and what stopped it there."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from virtualgpu.codegen.context import (
    ADDRESSES,
    AT,
    LANES,
    LIMIT,
    SITE_WORDS,
    SITES,
    WORD,
    size,
)
from virtualgpu.codegen.kernel import NativeKernel
from virtualgpu.errors import Location
from virtualgpu.machine import barriers
from virtualgpu.machine.group import Group
from virtualgpu.machine.launch import Launch
from virtualgpu.machine.mapping import BASE
from virtualgpu.machine.registers import Registers
from virtualgpu.machine.wave import Wave

ROUNDS = 20_000  # of loops, between two looks at the clock


class Tables:
    """Memory that native code reaches by its address, for as long as this object lives."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def table(self, values: ArrayLike, dtype: type[np.generic] = np.int64) -> int:
        """The address of an array with these values."""
        array = np.ascontiguousarray(values, dtype)
        if not array.size:
            array = np.zeros(1, dtype)
        self.kept.append(array)
        return int(array.ctypes.data)

    def words(self, count: int) -> np.ndarray:
        """int64, zero, aligned to 64 bytes."""
        raw = np.zeros(count + 8, np.int64)
        self.kept.append(raw)
        return raw[(-raw.ctypes.data // WORD) % 8 :][:count]

    def room(self, nbytes: int) -> int:
        return int(self.words(-(-nbytes // WORD) + 1).ctypes.data)


def common_fields(launch: Launch, tables: Tables) -> dict[str, int]:
    """What the contexts of all cores of a launch have in common."""
    memory = launch.memory
    x, y, _ = launch.block
    warps = -(-launch.threads // LANES)
    thread = np.arange(warps * LANES)
    extents = sorted((start, end) for start, end, _ in launch.shared_layout.extents)
    fields = {
        "delta": memory.host - BASE, "threads": launch.threads, "warps": warps,
        "parameters": tables.table(np.frombuffer(launch.parameters, np.uint8), np.uint8),
        "global_starts": tables.table(memory.starts), "global_ends": tables.table(memory.ends),
        "global_count": len(memory.starts),
        "shared_starts": tables.table([start for start, _ in extents]),
        "shared_ends": tables.table([end for _, end in extents]),
        "shared_count": len(extents), "shared_bytes": launch.shared_bytes,
        "dynamic_smem_size": launch.dynamic_shared, "total_smem_size": launch.packed_shared,
        "tid_x": tables.table(thread % x, np.uint32),
        "tid_y": tables.table(thread // x % y, np.uint32),
        "tid_z": tables.table(thread // (x * y), np.uint32),
    }
    for axis, letter in enumerate("xyz"):
        fields[f"ntid_{letter}"] = launch.block[axis]
        fields[f"nctaid_{letter}"] = launch.grid[axis]
    return fields


class Core:
    """Runs blocks of a launch, one after the other.

    Parameters
    ----------
    fields : dict
        From :func:`common_fields`.
    look : callable
        Asked in the midst of long loops whether the core may go on; it may raise.

    Attributes
    ----------
    count : int
        How many blocks it shall be given at once.
    done : bool
        Whether it will run no more blocks.
    spent : float
        Seconds of its thread's processor time, when it last looked.
    error : BaseException or None
        What was raised meanwhile.
    """

    def __init__(self, launch: Launch, kernel: NativeKernel, fields: dict[str, int],
                 look: Callable[[Core], bool]):
        self.launch, self.kernel, self._look = launch, kernel, look
        self.count, self.done = 1, False
        self.spent = self._began = 0.0
        self.error: BaseException | None = None
        self._own = own = Tables()
        self.context = own.words(size(len(kernel.sites)))
        stride = -(-kernel.local_size // 16) * 16
        warps = fields["warps"]
        tick = ctypes.CFUNCTYPE(None)(self._tick)
        own.kept.append(tick)
        for name, value in (fields | {
            "shared": own.room(launch.shared_bytes), "local_stride": stride,
            "local": own.room(warps * LANES * stride), "local_bytes": launch.threads * stride,
            "states": own.room(warps * kernel.state_size), "state_size": kernel.state_size,
            "fuel": ROUNDS, "tick": ctypes.cast(tick, ctypes.c_void_p).value or 0,
        }).items():
            self.context[AT[name]] = value
        # A site knows no variable yet: its first access looks one up.
        self.context[SITES + LIMIT :: SITE_WORDS] = [
            place.frame + place.block.function.frame_size for _, place in kernel.sites]

    # -- running -------------------------------------------------------------------------------

    def start_clock(self) -> None:
        """From its own thread, before the first block."""
        self._began = time.thread_time()

    def read_clock(self) -> None:
        self.spent = time.thread_time() - self._began

    def run(self, first: int, count: int) -> bool:
        """Run blocks; False where one stopped. Other threads go on meanwhile."""
        with self._hearing_signals():
            return not self.kernel.run(self.context.ctypes.data, first, count)

    def _tick(self) -> None:
        """From within a loop. Native code stops unless this comes to its end."""
        try:
            if self._look(self):
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
            if trace is not None and trace.tb_frame.f_code is Core._tick.__code__:
                self.error = unraisable.exc_value
            else:
                before(unraisable)

        sys.unraisablehook = heard
        try:
            yield
        finally:
            sys.unraisablehook = before

    # -- where it is ---------------------------------------------------------------------------

    def word(self, field: str) -> int:
        return int(self.context[AT[field]])

    def stand(self) -> tuple[Wave, Group]:
        """Block and lanes that stopped or last looked up from a loop, for the machine's words."""
        fault, warp, mask = (self.word(name) for name in ("fault", "warp", "fault_mask"))
        lanes = np.array([warp * LANES + i for i in range(LANES) if mask >> i & 1])
        wave = Wave(self.launch, self.word("block"), 1)
        group = Group(wave, lanes, 0, Registers.of({}, lanes, wave.lanes))
        place = self.kernel.places[-1 - fault] if fault < 0 else self.kernel.sites[fault][1]
        group.block, group.frame = place.block.index, place.frame
        return wave, group

    def location(self) -> Location:
        """Line and thread, where the kernel has a loop that took long; else the block."""
        if self.word("fault_mask"):
            return barriers.location(*self.stand())
        block, _ = Wave(self.launch, self.word("block"), 1).where(0)
        return Location(self.launch.kernel, block=block)

    def addresses(self, lanes: np.ndarray) -> np.ndarray:
        """What an access that was refused had asked for."""
        of_all = self.context[ADDRESSES : ADDRESSES + LANES].view(np.uint64)
        asked: np.ndarray = of_all[lanes % LANES]
        return asked
