"""Detector of endless loops in native code, in which the deciding state repeats.

From time to time, a core asks from within a loop if it may continue (:mod:`.core`). It then also
stores the registers that decide the lanes' control flow from the loop header on
(:mod:`virtualgpu.program.loops`). If these have the same values as at an earlier time, the lanes
repeat a state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from virtualgpu.native.context import LANES, LANES_AT, PHASE
from virtualgpu.program import loops
from virtualgpu.program.program import Program

if TYPE_CHECKING:
    from virtualgpu.native.flow.control_flow import Place


@dataclass(frozen=True, slots=True)
class Head:
    """Loop header: the registers in ``slots``, and a flag that memory also decides.

    ``registers`` lists, for each register as a core stores it, the offset, the type and a flag
    that each lane has its own value.
    """

    sees: bool
    slots: frozenset[int]
    registers: list[tuple[int, np.dtype, bool]]


def heads(program: Program, places: list[Place]) -> dict[int, Head]:
    """Return the loop heads to watch, by place.

    Loops that memory decides are watched only if they contain no store and no call.
    """
    if program.loops is None:
        program.loops = loops.heads(program)
    found: dict[int, Head] = {}
    for place in places:
        loop = program.loops.get(place.block.index)
        if loop is not None and not place.stack and not (loop.sees and loop.stores):
            found[place.index] = Head(loop.sees, place.live_in & set(loop.slots), [])
    return found


class LoopWatch:
    """Observation of a core's loops, compared with an earlier snapshot.

    The next snapshot is taken after twice as many observations (Brent 1980).

    Attributes
    ----------
    head : Head or None
        Header of the loop in which the core's lanes repeat a state.
    times : int
        Number of consecutive observations of a repeated state.
    """

    def __init__(self, room: np.ndarray):
        self.room = room  # uint8, aligned to 64 bytes
        self.begin()

    def begin(self) -> None:
        """Discard the records of another launch."""
        self.head: Head | None = None
        self.times = self._visits = 0
        self._due, self._snapshot = 1, b""
        self.room[:4] = 255

    def leave(self) -> None:
        """Forget the loops, which have ended or are waiting."""
        self.head, self.times = None, 0

    def look(self, heads: dict[int, Head], block: int, warp: int) -> None:
        """Compare a warp's loop with its earlier snapshot; ``heads`` are the kernel's loops."""
        number = int(self.room[PHASE : PHASE + 4].view(np.int32)[0])
        head, self.head = heads.get(number), None
        if head is None:
            self.times = 0
            return
        seen = self._seen(head, number, block, warp)
        self._visits += 1
        if seen == self._snapshot:
            self.head, self.times = head, self.times + 1
        else:
            self.times = 0
            if self._visits >= self._due:
                self._snapshot, self._due = seen, 2 * self._visits

    def _seen(self, head: Head, *where: int) -> bytes:
        mask = self.room[LANES_AT : LANES_AT + 4].view(np.uint32)
        lanes = (mask >> np.arange(LANES, dtype=np.uint32) & 1).astype(bool)
        parts = [np.array(where).tobytes(), mask.tobytes()]
        for offset, dtype, own in head.registers:
            if dtype.kind == "b":
                word = self.room[offset : offset + (4 if own else 1)]
                parts.append((word.view(np.uint32) & mask if own else word).tobytes())
                continue
            values = self.room[offset : offset + dtype.itemsize * (LANES if own else 1)]
            values = values.reshape(-1, dtype.itemsize)
            parts.append((values[lanes] if own else values).tobytes())
        return b"".join(parts)
