"""A launch under ``check()`` in native code: its records, and the undoing of its stores.

Records lie in address space that costs memory where it is touched, four bytes for a granule
(:mod:`.watched.rules`), at the places where a device's memory has its bytes; before the first store
to an allocation its bytes are kept at the same place of another such space. Times go on from launch
to launch, so that nothing has to be cleared between two.
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
ATTEMPTS = 8  # runs begun again because one more allocation is loaded and stored to


class Suspicion(Exception):
    """Native code came to something that the checkers may have words for."""


class Space:
    """The records of one device's memory, and room to keep its bytes."""

    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self.now = TICK
        self.backup = zeros(nbytes)
        self.records = {kind: zeros(RECORD * nbytes) for kind in RECORDS}


def space_of(memory: GlobalMemory) -> Space | None:
    """Return the records of a memory, with room for all allocations and for time to pass.

    None where the system gives no address space.
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
    """The words of one watched run of the blocks from ``first`` on."""

    def __init__(self, launch: Launch, kernel: NativeKernel, space: Space, first: int):
        assert kernel.checked is not None
        self.launch, self.space, self.grain = launch, space, kernel.checked.grain
        # As they are now: while this runs, other threads and Python's collector allocate and free.
        self.memory = launch.memory
        self.starts, self.ends = launch.memory.starts, launch.memory.ends
        # An allocation that is only said to be large is kept here instead, its touched pages.
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
        """Take over the accesses of earlier waves as those of other blocks."""
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
        """Return the allocations whose loads have to be recorded too.

        It is the one where the run stopped, or after some attempts all that there are; none where
        the run did not stop for that.
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
        """Record the bytes that the run has written."""
        for start, known in self.unwritten:
            if not self.states[self.numbers[start], KEPT]:
                continue
            if self.memory.unwritten.get(start) is not known:
                continue  # freed meanwhile, and the place may be another array's
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
    """A run that stops at the first suspicion."""

    def __init__(self, launch: Launch, kernel: NativeKernel, watch: Watch):
        super().__init__(launch, kernel)
        self.cores[0].set({"watch": pointer(watch.words)})

    def _stopped(self, core: Core) -> NoReturn:
        raise Suspicion
