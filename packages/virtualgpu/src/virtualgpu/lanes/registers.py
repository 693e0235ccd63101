"""Registers of a group of lanes, copied as little as divergence allows.

While all lanes of a wave are together, a group's registers are arrays over the whole wave, the
*base*. When lanes diverge, the groups continue to share that base, and each keeps only the
registers that it writes, its *own*. When they meet again, registers that no group has written are
still valid in the base. So an ``if`` around two instructions costs what these two write and not
what the whole kernel uses. (Measured on a tree sum of a million elements: half the time.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    from virtualgpu.lanes.wave import Wave

Values = dict[int, np.ndarray]
NOTHING: Values = {}


class Registers:
    """Registers by slot, for ``lanes`` of a wave of ``whole`` lanes.

    ``base`` has arrays over the whole wave and ``own`` has arrays over ``lanes``. Both may hold
    uniform values of shape (1,). If ``lanes`` are the whole wave, ``own`` is empty.
    """

    __slots__ = ("base", "lanes", "own", "whole")

    def __init__(self, lanes: np.ndarray, whole: int, base: Values, own: Values):
        self.lanes, self.whole, self.base, self.own = lanes, whole, base, own

    @classmethod
    def of(cls, values: Values, lanes: np.ndarray, whole: int) -> Registers:
        """Return registers that hold only ``values``, which are arrays over ``lanes``."""
        if len(lanes) == whole:
            return cls(lanes, whole, values, NOTHING)
        return cls(lanes, whole, NOTHING, values)

    @overload
    def get(self, slot: int, default: np.ndarray) -> np.ndarray: ...

    @overload
    def get(self, slot: int, default: None = None) -> np.ndarray | None: ...

    def get(self, slot: int, default: np.ndarray | None = None) -> np.ndarray | None:
        """Return the value for ``lanes``: shape (n,) or (1,)."""
        value = self.own.get(slot)
        if value is not None:
            return value
        value = self.base.get(slot)
        if value is None:
            return default
        if len(value) == 1 or len(self.lanes) == self.whole:
            return value
        return value.take(self.lanes)

    @property
    def reader(self) -> Callable[[int, np.ndarray], np.ndarray]:
        """Return a fast :meth:`get` for many slots: a dict's ``get`` if all lanes are here."""
        return self.base.get if len(self.lanes) == self.whole else self.get

    def carry(self, kept: tuple[int, ...], made: Values) -> Registers:
        """Return the registers after a block: the slots ``kept``, and the block's results."""
        full = len(self.lanes) == self.whole
        old = self.base if full else self.own
        if old:
            for slot in kept:
                if slot in old:
                    made[slot] = old[slot]
        if full:
            return Registers(self.lanes, self.whole, made, NOTHING)
        return Registers(self.lanes, self.whole, self.base, made)

    def updated(self, made: Values) -> Registers:
        """Return these registers with some new values over ``lanes``."""
        if len(self.lanes) == self.whole:
            return Registers(self.lanes, self.whole, {**self.base, **made}, NOTHING)
        return Registers(self.lanes, self.whole, self.base, {**self.own, **made})

    def pick(
        self, chosen: np.ndarray, lanes: np.ndarray, live: Collection[int] | None = None
    ) -> Registers:
        """Return the registers of the lanes at positions ``chosen``.

        Their indices in the wave are ``lanes``.
        """
        own = {
            slot: value if len(value) == 1 else value.take(chosen)
            for slot, value in self.own.items()
            if live is None or slot in live
        }
        return Registers(lanes, self.whole, self.base, own)


def places(parts: list[np.ndarray], wave: Wave) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the union of disjoint sorted lanes, and each part's positions in it."""
    if sum(map(len, parts)) == wave.lanes:
        return wave.all_lanes, parts
    here = np.zeros(wave.lanes, bool)
    for part in parts:
        here[part] = True
    lanes = np.flatnonzero(here)
    position = np.empty(wave.lanes, np.int64)
    position[lanes] = np.arange(len(lanes))
    return lanes, [position[part] for part in parts]


def join(
    parts: list[Registers],
    positions: list[np.ndarray],
    lanes: np.ndarray,
    live: Collection[int] | None,
    dtypes: Sequence[np.dtype],
) -> Registers:
    """Join the registers of groups that have met, for ``lanes``; ``live`` None means all."""
    first = parts[0]
    base, whole = first.base, first.whole
    slots: set[int] = set().union(*(p.own for p in parts))
    if any(p.base is not base for p in parts):
        # This does not happen while a wave has one base at a time; the values would be right.
        slots = slots.union(*(p.base for p in parts))
        base = NOTHING
    own: Values = {}
    for slot in slots:
        if live is None or slot in live:
            own[slot] = _assembled(
                [p.get(slot) for p in parts], positions, len(lanes), dtypes[slot]
            )
    if len(lanes) < whole:
        return Registers(lanes, whole, base, own)
    kept = base if live is None else {s: base[s] for s in live if s in base}
    return Registers(lanes, whole, {**kept, **own}, NOTHING)


def _assembled(
    found: list[np.ndarray | None], positions: list[np.ndarray], count: int, dtype: np.dtype
) -> np.ndarray:
    values = [np.zeros(1, dtype) if v is None else v for v in found]
    if all(len(v) == 1 for v in values):
        bits = values[0].tobytes()
        if all(v.tobytes() == bits for v in values):
            return values[0]
    result = np.empty(count, dtype)
    for value, where in zip(values, positions, strict=True):
        result[where] = value
    return result
