"""Where the states of warps that wait hold what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtualgpu.codegen.apart import Apart, Arrival
from virtualgpu.codegen.control_flow import Place


@dataclass(frozen=True, slots=True)
class Kept:
    """What the states of warps hold: where lanes may be parked, with the first byte of their word;
    of each register its first byte, and whether each lane has its own."""

    heads: Sequence[tuple[Place, int]]
    meets: Sequence[tuple[Place, int]]
    arrivals: Sequence[Arrival]
    registers: dict[int, tuple[int, bool]]
    first: Place
    places: Sequence[Place]


def kept(apart: Apart) -> Kept:
    low = apart.low
    return Kept(
        [(place, apart.kept[place.index]) for place in apart.heads],
        [(place, apart.kept[place.index]) for place in apart.meets], apart.arrivals,
        {slot: (offset, slot in low.registers.varying)
         for slot, offset in apart.state.offsets.items()}, low.first, low.places)
