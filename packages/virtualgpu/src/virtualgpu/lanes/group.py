"""Groups of lanes that are at the same basic block and run together.

A *lane* is one CUDA thread of a wave. A group has the registers of its lanes as NumPy arrays:
shape ``(n,)``, one element per lane in the order of ``lanes``, or ``(1,)`` if all lanes hold the
same value. Arrays are never changed in place, so groups may share them.

Divergence splits a group into two, and reconvergence merges groups at the same block. Registers
that were not written in between are neither split nor merged (:mod:`virtualgpu.lanes.registers`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from virtualgpu.lanes.registers import Registers, join, places

if TYPE_CHECKING:
    from virtualgpu.lanes.wave import Wave


Frame = tuple[int, int, Registers]  # calling block, caller's frame, caller's registers


NONE, SOME, ALL = range(3)  # of a group's lanes


class Group:
    """Lanes (sorted indices into the wave), the block that they are at, and their registers.

    ``stack`` has one ``(calling block, caller's frame, caller's registers)`` per call. ``frame``
    is the byte offset of the running function's variables in local memory.
    """

    __slots__ = (
        "block",
        "changed",
        "count",
        "frame",
        "lanes",
        "met",
        "registers",
        "spins",
        "stack",
        "waited",
        "wanted",
        "wave",
    )

    def __init__(
        self,
        wave: Wave,
        lanes: np.ndarray,
        block: int,
        registers: Registers,
        stack: tuple[Frame, ...] = (),
        frame: int = 0,
    ):
        self.wave = wave
        self.lanes = lanes
        self.count = len(lanes)
        self.block = block
        self.registers = registers
        self.stack = stack
        self.frame = frame
        self.met: Any = None  # of lanes that met at another instruction: see `warp_sync.exchange`
        self.changed = False  # memory changed since the last backward branch
        self.waited = NONE  # lanes that only read memory since then, as a spinning lane does
        self.spins = 0
        # For the next load, the lanes whose value is used (program.speculation): bool, shape (n,)
        # or (1,); None means all lanes.
        self.wanted: np.ndarray | None = None

    @property
    def full(self) -> bool:
        """Return True if all lanes of the wave are in this group."""
        return self.count == self.wave.lanes

    @property
    def basic_block(self) -> Any:
        """Return the lanes' :class:`~virtualgpu.program.program.BasicBlock`.

        Observers use ``last`` (its last instruction) and ``source`` (its line).
        """
        return self.wave.launch.program.blocks[self.block]

    @property
    def key(self) -> tuple[int, int, tuple[int, ...]]:
        """Return the sort key: deeper calls first, then lower blocks, with separate call sites."""
        if not self.stack:
            return (0, self.block, ())
        return (-len(self.stack), self.block, tuple(f[0] for f in self.stack))

    def take(self, whole: np.ndarray) -> np.ndarray:
        """Return this group's part of an array over all lanes of the wave (or a uniform one)."""
        if len(whole) == 1 or self.full:
            return whole
        return whole.take(self.lanes)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return ``values`` with one element per lane."""
        return values if len(values) == self.count else np.broadcast_to(values, (self.count,))

    def subset(self, chosen: np.ndarray, block: int, live: Collection[int] | None = None) -> Group:
        """Return the lanes at positions ``chosen``, placed at ``block``.

        ``live`` are the register slots that are needed there, if that is known.
        """
        if len(chosen) == self.count:
            lanes, registers, stack = self.lanes, self.registers, self.stack
        else:
            lanes = chosen if self.full else self.lanes[chosen]
            registers = self.registers.pick(chosen, lanes, live)
            stack = tuple((r, f, saved.pick(chosen, lanes)) for r, f, saved in self.stack)
        group = Group(self.wave, lanes, block, registers, stack, self.frame)
        group.changed, group.waited, group.spins = self.changed, self.waited, self.spins
        return group


def merge(groups: list[Group], live: Collection[int] | None, dtypes: Sequence[np.dtype]) -> Group:
    """Merge ``groups`` with the same basic block and stack into one group.

    ``live`` are the register slots that are live there, and ``dtypes`` their declared types. A
    register that no path has written yet reads as zero.
    """
    if len(groups) == 1:
        return groups[0]
    first = groups[0]
    lanes, positions = places([g.lanes for g in groups], first.wave)
    registers = join([g.registers for g in groups], positions, lanes, live, dtypes)
    stack = tuple(
        (
            frame[0],
            frame[1],
            join([g.stack[depth][2] for g in groups], positions, lanes, None, dtypes),
        )
        for depth, frame in enumerate(first.stack)
    )
    merged = Group(first.wave, lanes, first.block, registers, stack, first.frame)
    merged.changed = any(g.changed for g in groups)
    waited = [g.waited for g in groups]
    merged.waited = max(waited) if min(waited) == max(waited) else SOME
    merged.spins = min(g.spins for g in groups)
    return merged
