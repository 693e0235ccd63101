"""Race rules of native code: records of the last accesses to memory, as LLVM values.

A *record* is one word of 32 bits for each granule of memory and kind of access: its time, which
moves on at each barrier and each block, and below it ``CODE``, who it was. Kept are the last plain
write, the plain reads, and the strong accesses (atomics, volatile) that nothing orders yet. The
rules are those of :mod:`virtualgpu.watch.racecheck` for kernels whose threads meet at barriers
of whole blocks and warps alone. They are told apart more coarsely where that is cheaper: what they
suspect, that check looks at again; what they pass, it would have passed.
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
# Up to 1023 a thread of the block; then several of one warp, of several blocks, of one block.
OF_WARP, MANY, SEVERAL = 1024, CODE - 1, CODE
LARGEST = 3  # granules have at most 1 << LARGEST bytes

# The words of a watched run. Times are as they stand in records, their code 0: now, when the block
# started, its last barrier, when the launch began, the last there is, each warp's own barrier.
FIELDS = (
    "now",
    "start",
    "barrier",
    "floor",
    "end",
    "warp_times",
    # Records by address: the host's address of the granule at address 0 of each memory.
    "global_writes",
    "global_reads",
    "global_strong",
    "shared_writes",
    "shared_reads",
    "shared_strong",
    "local_writes",
    # For each memory instruction: the allocation used last (low, span), its unwritten bytes, and
    # whether loads from it go unrecorded.
    "sites",
    # For each allocation: whether its bytes are kept in `backup`, which were written, whether some
    # load went unrecorded, and whether none may.
    "states",
    "backup",
    "again",  # the allocation, from 1 on, that was stored to after such loads
    "swept",  # whether time has run out once
    # The kernel's grain: granules of each memory have 1 << so many bytes; whether it has strong
    # accesses.
    "global_shift",
    "shared_shift",
    "local_shift",
    "has_strong",
)
WORD = {name: number for number, name in enumerate(FIELDS)}
LOW, SPAN, MAP, FREE, SITE_WORDS = range(5)
KEPT, WRITTEN, READ, TRACKED, STATE_WORDS = range(5)
# What is known of an allocation's written bytes: all are, none is, or the address of a map of them
# (one byte each), less the address of the allocation.
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
    """Granularity at which one kernel's memory is watched, and its requirements."""

    global_: int  # granules of 1 << so many bytes
    shared: int
    local: int
    strong: bool  # it has atomics or volatile accesses
    warps: bool  # ... barriers of a warp

    def of(self, space: str) -> int:
        return {"global": self.global_, "shared": self.shared, "local": self.local}[space]


@dataclass(slots=True)
class Checked:
    """Additions of a kernel's variant under ``check()`` to its code.

    ``tracked`` has the starts of allocations that it was seen to load from and to store to.
    """

    grain: Grain
    tracked: set[int] = field(default_factory=set)


class Rules:
    """Rules for an access by ``code`` (one number, or one in each lane) in ``space``.

    ``warp`` is the number of the lanes' warp, a word of 32 bits. ``together``: the one number may
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
        self.far = space == "global"  # other blocks reach it too
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
        """Return the record of this access and of those before it that nothing orders."""
        several = record.number(SEVERAL)
        if self.grain.warps:
            several = select(self._warp_of(record) == self.warp, self.warp + OF_WARP, several)
        who = select(self._beside(record), several, self.code)  # of several too: the wider group
        elsewhere = self._elsewhere(record, True)
        if elsewhere is not None:
            who = select(elsewhere, record.number(MANY), who)
        return self.now | who

    def holds(self, record: Value) -> Value:
        """Return True if a record of several already covers this access."""
        who = record & CODE
        holds = (record >= self.barrier) & (who == SEVERAL)
        return holds | ((record >= self.floor) & (who == MANY)) if self.far else holds

    def several(self) -> Value:
        """Return the record of two lanes of this access at one place."""
        return self.now | (self.warp + OF_WARP if self.grain.warps else self.now.number(SEVERAL))

    def fresh(self, record: Value) -> Value:
        """Return True if the record is of this launch; in shared memory, of this block."""
        return record >= self.floor


def lanes_of(part: int, width: int) -> list[int]:
    """Return the lane of each of 32 granules, where each lane has ``width`` side by side."""
    return [(part * LANES + i) // width for i in range(LANES)]
