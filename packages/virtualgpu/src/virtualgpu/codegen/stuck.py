"""Who waits where, when no thread of the blocks that run side by side can go on."""

from __future__ import annotations

import numpy as np

from virtualgpu.codegen.apart import GRID, NUMBER, Apart
from virtualgpu.codegen.context import LANES
from virtualgpu.codegen.control_flow import Place
from virtualgpu.codegen.state import LANES_AT
from virtualgpu.errors import DeadlockError
from virtualgpu.machine import barriers
from virtualgpu.machine.group import Group
from virtualgpu.machine.launch import Launch
from virtualgpu.machine.registers import Registers
from virtualgpu.machine.wave import Wave

# A place, where a warp's state has the lanes parked there, and (for a barrier) its number.
Parking = list[tuple[Place, int, int | None]]


def parking(apart: Apart) -> Parking:
    return [
        *((arrival.place, arrival.offset, arrival.offset + 4 * NUMBER)
          for arrival in apart.arrivals if not arrival.step.onward),
        *((place, apart.kept[place.index], None) for place in apart.meets)]


def deadlock(launch: Launch, places: Parking, first: int, states: np.ndarray) -> DeadlockError:
    """The interpreting machine's words.

    ``states`` are the warps' states of the blocks from ``first`` on: uint32, shape (blocks,
    warps, words).
    """
    blocks, warps, _ = states.shape
    wave = Wave(launch, first, blocks)
    for place, at, number_at in places:
        masks = states[:, :, at // 4]
        present = masks[:, :, None] >> np.arange(LANES, dtype=np.uint32) & 1
        block, thread = np.nonzero(present.reshape(blocks, warps * LANES))
        if not len(block):
            continue
        lanes = block * launch.threads + thread
        group = Group(wave, lanes, place.block.index, Registers.of({}, lanes, wave.lanes))
        if number_at is None:
            wave.parked.setdefault(group.key, []).append(group)
            continue
        number = int(states[block[0], thread[0] // LANES, number_at // 4])
        key = "grid" if number == GRID else number
        wave.waiting.setdefault(key, barriers.Waiting(wave)).groups.append(group)
    alive = np.bitwise_count(states[:, :, LANES_AT // 4]).sum(1)
    wave.exited[:] = launch.threads - alive
    return barriers.deadlock(wave)
