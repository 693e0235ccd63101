"""Race rules of native code: records of the last accesses to memory, as LLVM values.

A *record* is a 32-bit word for each granule of memory and kind of access. Its upper bits are a
time, which advances at each barrier and each block; its low bits (``CODE``) identify the thread.
There are records of the last plain write, the plain reads, and the strong accesses (atomics,
volatile) that nothing orders yet.

The rules are those of :mod:`virtualgpu.watch.racecheck`, for kernels whose threads synchronise
only at barriers of whole blocks and warps. Some rules are coarser because that is cheaper. An
access that they suspect is checked again by the race detector, and an access that they accept
would also pass it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from llvmlite import ir

from virtualgpu.compilers.loop_language import Words
from virtualgpu.native.context import LANES
from virtualgpu.native.values import I32, Context, splat
from virtualgpu.operations.expression import Value, select

BITS = 11
CODE = (1 << BITS) - 1
# Codes up to 1023 are threads of the block. The others mean several threads of one warp, of several
# blocks, or of one block.
OF_WARP, MANY, SEVERAL = 1024, CODE - 1, CODE
LARGEST = 3  # granules have at most 1 << LARGEST bytes

# The words of a watched run. Times are stored as in records, with code 0: the present, the start of
# the block, its last barrier, the start of the launch, the last possible time, and each warp's own
# barrier.
FIELDS = (
    "now",
    "start",
    "barrier",
    "floor",
    "end",
    "warp_times",
    # Arrays of records, given as the host address of the record of the granule at address 0.
    "global_writes",
    "global_reads",
    "global_strong",
    "shared_writes",
    "shared_reads",
    "shared_strong",
    "local_writes",
    # For each memory instruction: the allocation used last (low, span), its map of written bytes,
    # and a flag that its loads need not be recorded.
    "sites",
    # For each allocation: a flag that its bytes are saved in `backup`, its map of written bytes, a
    # flag that a load was not recorded, and a flag that all loads have to be.
    "states",
    "backup",
    "again",  # number of the allocation (from 1) that was stored to after unrecorded loads
    "swept",  # true after the clock has reached its end once
    # The kernel's grain: granules of each memory have 1 << shift bytes; a flag for strong accesses.
    "global_shift",
    "shared_shift",
    "local_shift",
    "has_strong",
)
WORD = {name: number for number, name in enumerate(FIELDS)}
LOW, SPAN, MAP, FREE, SITE_WORDS = range(5)
KEPT, WRITTEN, READ, TRACKED, STATE_WORDS = range(5)
# State of an allocation's bytes: ALL written, NONE written, or the address of a map with one byte
# for each, minus the address of the allocation.
ALL, NONE = 0, 1


class WatchWords(Words):
    """The words of a watched run, for run-time routines."""

    at = WORD


class WatchedSite(Words):
    """Words of a memory instruction."""

    at: ClassVar = {"low": LOW, "span": SPAN, "map": MAP, "free": FREE}


class AllocationState(Words):
    """Words of an allocation."""

    at: ClassVar = {"kept": KEPT, "written": WRITTEN, "read": READ, "tracked": TRACKED}


@dataclass(frozen=True, slots=True)
class Grain:
    """Granularity at which one kernel's memory is watched, and its kinds of access."""

    global_: int  # a granule has 1 << global_ bytes
    shared: int
    local: int
    strong: bool  # the kernel has atomics or volatile accesses
    warps: bool  # the kernel has warp barriers

    def of(self, space: str) -> int:
        return {"global": self.global_, "shared": self.shared, "local": self.local}[space]


@dataclass(slots=True)
class Checked:
    """Additional data of the variant of a kernel under ``check()``.

    ``tracked`` holds the start addresses of allocations that the kernel has both loaded from and
    stored to.
    """

    grain: Grain
    tracked: set[int] = field(default_factory=set)


class Rules:
    """Race rules for an access by ``code`` (one number, or one in each lane) in ``space``.

    ``warp`` is the number of the lanes' warp, a 32-bit word. With ``together``, the one code may
    stand for several lanes.
    """

    def __init__(
        self,
        words: Context,
        grain: Grain,
        space: str,
        code: Value,
        warp: ir.Value,
        together: bool = False,
    ):
        self.build, self.words, self.grain = words.build, words, grain
        self.together = together
        self.far = space == "global"  # other blocks can access it too
        self.code, self.lanes = code, code.lanes
        self.warp = self._spread(warp)
        self.now, self.start, self.barrier = map(self._word, ("now", "start", "barrier"))
        self.floor = self._word("floor") if self.far else self.start
        if grain.warps:
            times = self.build.inttoptr(words.load(WORD["warp_times"]), ir.PointerType())
            at = self.build.gep(times, [warp], source_etype=I32)
            self.warp_time = self._spread(self.build.load(at, typ=I32))

    def _word(self, field: str) -> Value:
        return self._spread(self.build.trunc(self.words.load(WORD[field]), I32))

    def _spread(self, node: ir.Value) -> Value:
        return Value(
            self.build, node if self.lanes is None else splat(self.build, node, self.lanes), "u32"
        )

    def _warp_of(self, record: Value) -> Value:
        who = record & CODE
        return select(who < OF_WARP, who >> 5, who - OF_WARP)

    def _beside(self, record: Value) -> Value:
        """Return True if another thread of the block made the access, with no barrier since."""
        other = (record & CODE) != self.code
        if self.together:
            other = other | (self.code >= OF_WARP)
        beside = (record >= self.barrier) & other
        if self.grain.warps:
            met = (self._warp_of(record) == self.warp) & (record < self.warp_time)
            beside = beside & ~met
        return beside

    def _elsewhere(self, record: Value, several: bool) -> Value | None:
        """Return True if another block made the access."""
        if not self.far:
            return None
        other = record - self.floor < self.start - self.floor
        if several:
            other = other | ((record >= self.floor) & ((record & CODE) == MANY))
        return other

    def unordered(self, record: Value, several: bool) -> Value:
        """Return True if one access of the record is not ordered before this one."""
        beside, elsewhere = self._beside(record), self._elsewhere(record, several)
        return beside if elsewhere is None else beside | elsewhere

    def mine(self) -> Value:
        return self.now | self.code

    def joined(self, record: Value) -> Value:
        """Return the record that covers this access and earlier ones that nothing orders."""
        several = record.number(SEVERAL)
        if self.grain.warps:
            several = select(self._warp_of(record) == self.warp, self.warp + OF_WARP, several)
        who = select(self._beside(record), several, self.code)  # the wider group of threads
        elsewhere = self._elsewhere(record, True)
        if elsewhere is not None:
            who = select(elsewhere, record.number(MANY), who)
        return self.now | who

    def holds(self, record: Value) -> Value:
        """Return True if a record of several threads already covers this access."""
        who = record & CODE
        holds = (record >= self.barrier) & (who == SEVERAL)
        return holds | ((record >= self.floor) & (who == MANY)) if self.far else holds

    def several(self) -> Value:
        """Return the record of two lanes of this access to one granule."""
        return self.now | (self.warp + OF_WARP if self.grain.warps else self.now.number(SEVERAL))

    def fresh(self, record: Value) -> Value:
        """Return True if the record is from this launch; in shared memory, from this block."""
        return record >= self.floor


def lanes_of(part: int, width: int) -> list[int]:
    """Return the lane of each of 32 granules, if each lane has ``width`` contiguous ones."""
    return [(part * LANES + i) // width for i in range(LANES)]
