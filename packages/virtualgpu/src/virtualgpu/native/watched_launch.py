"""Launches under ``check()`` in native code: records of accesses, and undo of stores.

Records are kept in a reserved address range in which only touched pages use memory. Each granule
of device memory (:mod:`.watched.rules`) has four bytes at the corresponding position. Before the
first store to an allocation, its bytes are saved at the same position of a second such range. Time
continues from launch to launch, so that records need not be cleared in between.
"""

from __future__ import annotations

import bisect
import mmap
from typing import NoReturn

import numpy as np

from virtualgpu.compilers.llvm import pointer
from virtualgpu.launch.launch import Launch
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.memory.mapping import BASE
from virtualgpu.memory.sparse import touched, zeros
from virtualgpu.native.blocks.core import Core
from virtualgpu.native.blocks.multicore import Run
from virtualgpu.native.compiled import NativeKernel
from virtualgpu.native.context import LANES
from virtualgpu.native.watched.clock import END, TICK
from virtualgpu.native.watched.rules import (
    ALL,
    FIELDS,
    KEPT,
    MANY,
    NONE,
    SITE_WORDS,
    STATE_WORDS,
    TRACKED,
    WORD,
    WRITTEN,
)

RECORDS = ("writes", "reads", "strong")
RECORD = 4  # bytes
ATTEMPTS = 8  # restarts before the loads of all allocations are recorded


class Suspicion(Exception):
    """Signal that native code met something that the checkers may have to report."""


class Space:
    """Records of one device's memory, and the copy of its bytes for undo."""

    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self.now = TICK
        self.backup = zeros(nbytes)
        self.records = {kind: zeros(RECORD * nbytes) for kind in RECORDS}


def space_of(memory: GlobalMemory) -> Space | None:
    """Return the records of a memory, with space for all allocations and enough time left.

    Returns None if the system provides no address space.
    """
    end = (memory.ends[-1] if memory.ends else BASE) - BASE
    known = memory.records
    if isinstance(known, Space) and known.nbytes >= end and known.now < END // 2:
        return known
    try:
        known = memory.records = Space(1 << max(end, mmap.PAGESIZE).bit_length())
    except (ValueError, MemoryError):
        return None
    return known


class Watch:
    """State of one watched run of the blocks from ``first`` on."""

    def __init__(self, launch: Launch, kernel: NativeKernel, space: Space, first: int):
        assert kernel.checked is not None
        self.launch, self.space, self.grain = launch, space, kernel.checked.grain
        # A copy, because other threads and Python's garbage collector allocate and free meanwhile.
        self.memory = launch.memory
        self.starts, self.ends = launch.memory.starts, launch.memory.ends
        # Huge arrays are saved separately, only their touched pages.
        self.huge = [
            (self.memory.huge[one], self.memory.huge[one].keep())
            for one in self.starts
            if one in self.memory.huge
        ]
        self.words = words = np.zeros(len(FIELDS), np.int64)
        self.floor = space.now + TICK
        self._kept = [words]
        warps = -(-launch.threads // LANES)
        self.states = np.zeros((len(self.starts) + 1, STATE_WORDS), np.int64)
        self.states[:, WRITTEN] = ALL
        fields = {
            "now": self.floor,
            "floor": self.floor,
            "end": END,
            "warp_times": self._room(warps, np.uint32),
            "sites": self._room(SITE_WORDS * (len(kernel.record.sites) + 1), np.int64),
            "states": pointer(self.states),
            "backup": pointer(space.backup) - BASE,
            "global_shift": self.grain.global_,
            "shared_shift": self.grain.shared,
            "local_shift": self.grain.local,
            "has_strong": self.grain.strong,
            "local_writes": self._room(
                (_local_bytes(launch, kernel) >> self.grain.local) + 1, np.uint32
            ),
        }
        for kind in RECORDS:
            granules = (launch.shared_bytes >> self.grain.shared) + 1
            fields[f"shared_{kind}"] = self._room(granules, np.uint32)
            fields[f"global_{kind}"] = pointer(space.records[kind]) - RECORD * (
                BASE >> self.grain.global_
            )
        for name, value in fields.items():
            words[WORD[name]] = value
        self.numbers = {start: number for number, start in enumerate(self.starts)}
        for huge, _ in self.huge:
            self.states[self.numbers[huge.start], KEPT] = 1
        unwritten = list(self.memory.unwritten.items())
        self.unwritten = [one for one in unwritten if one[0] in self.numbers]
        for start, known in self.unwritten:
            state = self.states[self.numbers[start]]
            state[WRITTEN] = NONE if known.left == known.nbytes else pointer(known.map()) - start
        for start in kernel.checked.tracked & self.numbers.keys():
            self.states[self.numbers[start], TRACKED] = 1
        if first:
            self._take_over()

    def _room(self, count: int, dtype: type[np.generic]) -> int:
        array = np.zeros(count, dtype)
        self._kept.append(array)
        return pointer(array)

    def _records(self, kind: str, start: int, nbytes: int) -> np.ndarray:
        shift = self.grain.global_
        first = (start - BASE) >> shift
        count = -(-nbytes >> shift)
        return self.space.records[kind].view(np.uint32)[first : first + count]

    def _take_over(self) -> None:
        """Record the accesses of earlier waves as accesses of other blocks."""
        size = 1 << self.grain.global_
        for observer in self.launch.observers:
            for start, granule, masks in observer.touched():
                at = bisect.bisect(self.starts, start) - 1
                if at < 0 or start >= self.ends[at]:
                    continue  # freed since the launch began
                nbytes = self.ends[at] - start
                for kind, here in zip(RECORDS, masks, strict=True):
                    if not here.any():
                        continue
                    self.states[at, TRACKED] = 1
                    records = self._records(kind, start, nbytes)
                    if granule > size:
                        here = np.repeat(here, granule // size)
                    elif granule < size:
                        firsts = np.arange(0, len(here), size // granule)
                        here = np.logical_or.reduceat(here, firsts)
                    records[here[: len(records)]] = self.floor | MANY

    def to_track(self) -> list[int]:
        """Return the allocations whose loads also have to be recorded.

        This is the one at which the run stopped, or all of them after several attempts. The list
        is empty if the run stopped for another reason.
        """
        again = int(self.words[WORD["again"]])
        if not again:
            return []
        few = np.count_nonzero(self.states[:, TRACKED]) < ATTEMPTS
        return [self.starts[again - 1]] if few else self.starts

    # -- the end -------------------------------------------------------------------------------

    def undo(self) -> None:
        """Undo the run's stores."""
        raw, backup = self.memory.mapping.raw, self.space.backup
        for huge, pages in self.huge:
            huge.put_back(pages)
            self.states[self.numbers[huge.start], KEPT] = 0
        for start, end, state in zip(self.starts, self.ends, self.states, strict=False):
            if state[KEPT]:
                raw[start - BASE : end - BASE] = backup[start - BASE : end - BASE]
        self._leave()

    def settle(self) -> None:
        """Record which bytes the run has written."""
        for start, known in self.unwritten:
            if not self.states[self.numbers[start], KEPT]:
                continue
            if self.memory.unwritten.get(start) is not known:
                continue  # freed meanwhile; the address may belong to another array now
            floor = np.uint32(self.words[WORD["floor"]])
            for kind in ("writes", "strong") if self.grain.strong else ("writes",):
                records = self._records(kind, start, known.nbytes)
                for part in touched(records):
                    known.add_map(records[part] >= floor, 1 << self.grain.global_, part.start)
            if not known.left:
                self.memory.unwritten.pop(start, None)
        self._leave()

    def _leave(self) -> None:
        self.space.now = int(self.words[WORD["now"]])
        if self.words[WORD["swept"]]:
            self.memory.records = None


def _local_bytes(launch: Launch, kernel: NativeKernel) -> int:
    stride = -(-kernel.record.local_size // 16) * 16
    return -(-launch.threads // LANES) * LANES * stride


class Watched(Run):
    """A run that stops at its first suspicion."""

    def __init__(self, launch: Launch, kernel: NativeKernel, watch: Watch):
        super().__init__(launch, kernel)
        self.cores[0].set({"watch": pointer(watch.words)})

    def _stopped(self, core: Core) -> NoReturn:
        raise Suspicion
