"""Layout of the states of waiting warps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from virtualgpu.native.divergence import Arrival, ParkedLanes, barrier_of
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.flow.decode import decode
from virtualgpu.program.program import Program


@dataclass(frozen=True, slots=True)
class StateLayout:
    """Layout of the states of warps.

    It lists the places where lanes may be parked, each with the offset of its mask. For each
    register it has the offset, and a flag that is True if each lane has its own value.
    """

    spin_heads: Sequence[tuple[Place, int]]
    meets: Sequence[tuple[Place, int]]
    arrivals: Sequence[Arrival]
    registers: dict[int, tuple[int, bool]]
    first: Place
    places: Sequence[Place]


def parked(lanes: ParkedLanes) -> dict[str, Any]:
    """Return the layout as plain numbers."""
    return {
        "spin_heads": [(place.index, lanes.kept[place.index]) for place in lanes.spin_heads],
        "meets": [(place.index, lanes.kept[place.index]) for place in lanes.meets],
        "arrivals": [(arrival.place.index, arrival.offset) for arrival in lanes.arrivals],
        "registers": [
            (slot, offset, slot in lanes.warp.registers.varying)
            for slot, offset in lanes.state.offsets.items()
        ],
        "first": lanes.warp.first.index,
    }


def state_layout(program: Program, places: Sequence[Place], parked: dict[str, Any]) -> StateLayout:
    """Return the layout that the numbers describe."""
    return StateLayout(
        [(places[place], offset) for place, offset in parked["spin_heads"]],
        [(places[place], offset) for place, offset in parked["meets"]],
        [
            Arrival(places[place], barrier_of(decode(program, places[place])), offset)
            for place, offset in parked["arrivals"]
        ],
        {slot: (offset, own) for slot, offset, own in parked["registers"]},
        places[parked["first"]],
        places,
    )
