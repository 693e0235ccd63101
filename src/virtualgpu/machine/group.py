"""Groups: lanes that stand at the same basic block and run together.

A *lane* is one CUDA thread of a wave. A group carries the registers of its lanes as NumPy
arrays: shape ``(n,)``, one element per lane in the order of ``lanes``, or ``(1,)`` where all
lanes hold the same value. Arrays are never changed in place, so groups may share them.

Divergence splits a group in two; reconvergence merges groups that meet at one block. Only the
registers that are live there are carried over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from virtualgpu.machine.wave import Wave

Registers = dict[int, np.ndarray]


class Group:
    """Lanes (sorted indices into the wave), where they stand, and their registers.

    ``stack`` holds one ``(return block, caller's frame, caller's registers)`` per call;
    ``frame`` is the byte offset of the running function's variables in local memory.
    """

    __slots__ = (
        "block",
        "changed",
        "count",
        "frame",
        "lanes",
        "registers",
        "spins",
        "stack",
        "waited",
        "wave",
    )

    def __init__(self, wave: Wave, lanes: np.ndarray, block: int, registers: Registers,
                 stack: tuple = (), frame: int = 0):
        self.wave = wave
        self.lanes = lanes
        self.count = len(lanes)
        self.block = block
        self.registers = registers
        self.stack = stack
        self.frame = frame
        self.changed = False  # memory changed since the last backward branch
        self.waited = False  # ... or was only looked at, as a spinning lane does
        self.spins = 0

    @property
    def full(self) -> bool:
        """All lanes of the wave are here."""
        return self.count == self.wave.lanes

    @property
    def key(self) -> tuple:
        """Deeper calls first, then the lowest block; return addresses keep call sites apart."""
        return (-len(self.stack), self.block, tuple(f[0] for f in self.stack))

    def take(self, whole: np.ndarray) -> np.ndarray:
        """This group's part of an array over all lanes of the wave (or a uniform one)."""
        if len(whole) == 1 or self.full:
            return whole
        return whole.take(self.lanes)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """``values`` with one element per lane."""
        return values if len(values) == self.count else np.broadcast_to(values, (self.count,))

    def subset(self, chosen: np.ndarray, block: int, live=None) -> Group:
        """The lanes at positions ``chosen``, standing at ``block``."""
        if len(chosen) == self.count:
            registers = self.registers
        else:
            registers = _pick(self.registers, chosen, live)
        stack = self.stack
        if stack and len(chosen) != self.count:
            stack = tuple((r, f, _pick(saved, chosen)) for r, f, saved in stack)
        group = Group(self.wave, self.lanes[chosen], block, registers, stack, self.frame)
        group.changed, group.waited, group.spins = self.changed, self.waited, self.spins
        return group


def _pick(registers: Registers, chosen: np.ndarray, live=None) -> Registers:
    if live is None:
        live = registers
    return {
        slot: value if len(value) == 1 else value.take(chosen)
        for slot in live
        if (value := registers.get(slot)) is not None
    }


def merge(groups: list[Group], live, dtypes) -> Group:
    """One group of all the lanes of ``groups``, which stand at one block with one stack.

    ``live`` are the register slots that are live there, ``dtypes`` their declared types: a
    register that no path has written yet reads as zero.
    """
    if len(groups) == 1:
        return groups[0]
    lanes = np.concatenate([g.lanes for g in groups])
    order = np.argsort(lanes, kind="stable")
    first = groups[0]
    registers = _join([g.registers for g in groups], live, groups, order, dtypes)
    stack = tuple(
        (frame[0], frame[1],
         _join([g.stack[d][2] for g in groups], frame[2], groups, order, dtypes))
        for d, frame in enumerate(first.stack)
    )
    merged = Group(first.wave, lanes[order], first.block, registers, stack, first.frame)
    merged.changed = any(g.changed for g in groups)
    merged.waited = all(g.waited for g in groups)
    return merged


def _join(parts: list[Registers], live, groups, order, dtypes) -> Registers:
    joined = {}
    for slot in live:
        values = [p.get(slot) for p in parts]
        first = values[0]
        if all(v is first for v in values):
            if first is not None and (len(first) == 1 and groups[0].count > 1):
                joined[slot] = first
                continue
            if first is None:
                continue
        values = [np.zeros(1, dtypes[slot]) if v is None else v for v in values]
        if all(len(v) == 1 for v in values):
            bits = values[0].tobytes()
            if all(v.tobytes() == bits for v in values):
                joined[slot] = values[0]
                continue
        joined[slot] = np.concatenate(
            [v if len(v) == g.count else np.broadcast_to(v, (g.count,))
             for v, g in zip(values, groups, strict=True)]
        ).take(order)
    return joined
