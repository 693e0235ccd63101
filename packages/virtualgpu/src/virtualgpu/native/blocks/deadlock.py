"""Handover of resident blocks to the interpreter when native code cannot continue.

The interpreter decides if the waiting lanes can ever continue, and has the messages for them.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from virtualgpu.errors import EndlessError, VirtualGPUError
from virtualgpu.lanes import barriers, simt
from virtualgpu.lanes.group import Frame, Group
from virtualgpu.lanes.registers import Registers, Values
from virtualgpu.lanes.wave import Wave
from virtualgpu.launch.launch import Launch
from virtualgpu.launch.standstill import Standstill
from virtualgpu.native.blocks.core import Core
from virtualgpu.native.context import (
    ARRIVED,
    CAME,
    COUNTED,
    EXPECTED,
    GIVEN,
    GRID,
    LANES,
    LANES_AT,
    NUMBER,
    PARKED,
    PHASE,
    PREDICATE,
    RESULT,
    TABLE,
    WARPS,
)
from virtualgpu.ptx.opcodes import COLLECTIVES

if TYPE_CHECKING:
    from virtualgpu.native.divergence import Arrival
    from virtualgpu.native.flow.control_flow import Place
    from virtualgpu.native.state_layout import StateLayout


def take_over(launch: Launch, found: StateLayout, core: Core) -> Wave:
    """Return a wave of blocks in which no lane can continue in native code.

    Native lanes meet only at one instruction. The interpreter can match lanes at several
    instructions. If it cannot match them either, it reports which lanes wait.
    """
    wave = _Handover(launch, found, core).wave
    parked, wave.parked = wave.parked, {}
    for groups in parked.values():
        for group in groups:
            wave.push(group)
    return wave


def look(launch: Launch, found: StateLayout, cores: Sequence[Core], seconds: float) -> None:
    """Run copies of all blocks in the interpreter, for some seconds of processor time.

    Raises EndlessError if it is certain that they never end. Otherwise nothing has changed. Call
    it only if no blocks are left to begin, or there is no space for them.
    """
    waves = [_Handover(launch, found, core).wave for core in cores]
    before = launch.deadline, launch.look_at, launch.resident, launch.instructions
    printed = launch.lines[:], launch.printed
    watch = launch.standstill = Standstill(launch, takes_back=True)
    launch.deadline, launch.look_at = time.thread_time() + seconds, math.inf
    launch.resident, launch.unstarted = waves, 0
    try:
        while not any(simt.run(wave) for wave in waves):
            pass
    except EndlessError:
        raise
    except VirtualGPUError:  # out of time, or an error that native code will also meet
        pass
    finally:
        watch.take_back()
        launch.standstill = None
        launch.lines, launch.printed = printed
        launch.deadline, launch.look_at, launch.resident, launch.instructions = before


class _Handover:
    """One context's blocks as a wave of the interpreter."""

    def __init__(self, launch: Launch, found: StateLayout, core: Core):
        self.program, self.found, common = launch.program, found, core.common
        blocks, warps = core.width, common.fields["warps"]
        self.wave = wave = Wave(launch, core.first, blocks)

        def memory(name: str) -> np.ndarray:
            """Return a view of one memory of all blocks: uint8, shape (blocks, bytes)."""
            room = common.rooms[name]
            array = (ctypes.c_uint8 * (blocks * room)).from_address(core.word(f"{name}_all"))
            return np.ctypeslib.as_array(array).reshape(blocks, room)

        self.states = memory("states").reshape(blocks, warps, -1)
        shared = wave.shared.reshape(blocks, wave.shared_stride)
        shared[:] = memory("shared")[:, : wave.shared_stride]
        if stride := common.fields["local_stride"]:
            wave.grow_local(stride)
            own = memory("local").reshape(blocks, warps * LANES, stride)[:, : wave.threads]
            wave.local.reshape(wave.lanes, -1)[:, :stride] = own.reshape(wave.lanes, stride)
        tables = (ctypes.c_int64 * (blocks * TABLE)).from_address(core.word("tables"))
        self.tables = np.ctypeslib.as_array(tables).reshape(blocks, TABLE)
        self._fill()

    def _word(self, offset: int) -> np.ndarray:
        """Return a word of each warp's state: uint32, shape (blocks, warps)."""
        return np.ascontiguousarray(self.states[:, :, offset : offset + 4]).view(np.uint32)[..., 0]

    def _fill(self) -> None:
        wave, found = self.wave, self.found
        begun = self._word(PHASE)
        alive = np.where(begun == 0xFFFF_FFFF, 0, self._word(LANES_AT)).astype(np.uint32)
        for place, words in self._running(np.where(begun == 0, alive, 0)):
            for group, _ in self._groups(place, words, place.live_in):
                wave.push(group)
        for arrival in found.arrivals:
            if not arrival.step.onward:
                self._wait(arrival)
        for place, offset in found.meets:
            for group, _ in self._groups(place, self._word(offset), place.live_in):
                named = place.block.instructions[0].opcode in COLLECTIVES
                key = group.key if named else "bar.warp.sync"
                wave.parked.setdefault(key, []).append(group)
        wave.has_exited[:] = True
        wave.has_exited[self._lanes(alive)[0]] = False
        wave.exited[:] = np.bincount(wave.block_of[wave.has_exited], minlength=wave.blocks)
        wave.finished = int(np.count_nonzero(wave.has_exited))

    def _running(self, fresh: np.ndarray) -> Iterator[tuple[Place, np.ndarray]]:
        """Yield the places where lanes may continue, and their masks; ``fresh`` have not begun."""
        yield self.found.first, fresh.astype(np.uint32)
        for place, offset in self.found.spin_heads:
            yield place, self._word(offset)
        for arrival in self.found.arrivals:
            yield (self.found.places[arrival.place.after], self._word(arrival.offset + 4 * GIVEN))

    def _wait(self, arrival: Arrival) -> None:
        """Add the lanes that wait at a barrier."""
        wave, place, step = self.wave, arrival.place, arrival.step
        words = [
            self._word(arrival.offset + 4 * field) for field in (PARKED, COUNTED, NUMBER, PREDICATE)
        ]
        live = self.found.places[place.after].live_in
        for number in np.unique(words[2]):
            here = np.where(words[2] == number, words[0], 0).astype(np.uint32)
            for group, (block, warp, lane) in self._groups(place, here, live):
                key = "grid" if number == GRID else int(number)
                if key not in wave.waiting:
                    state = wave.waiting[key] = barriers.Waiting(wave)
                    if key != "grid":
                        for array, start in ((state.arrived, ARRIVED), (state.expected, EXPECTED)):
                            array[:] = self.tables[:, start + int(number)]
                        came = np.ascontiguousarray(self.tables[:, CAME:]).view(np.uint32)
                        came = came.reshape(wave.blocks, -1, WARPS)[:, int(number)]
                        state.came[self._lanes(came)[0]] = True
                state = wave.waiting[key]
                if key == "grid":
                    state.arrived += np.bincount(block, minlength=wave.blocks)
                state.groups.append(group)
                true = (words[3][block, warp] >> lane.astype(np.uint32) & 1).astype(bool)
                state.predicates.append(true if step.mode else None)

    def _lanes(self, words: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Return the waiting lanes of each warp as masks, and their block, warp and lane.

        Warps are numbered as in the wave.
        """
        where = (words[..., None] >> np.arange(LANES, dtype=np.uint32) & 1).nonzero()
        block, warp, lane = where
        return block * self.wave.threads + warp * LANES + lane, where

    def _groups(
        self, place: Place, words: np.ndarray, live: frozenset[int]
    ) -> Iterator[tuple[Group, tuple[np.ndarray, ...]]]:
        """Yield the lanes at a place as a group, if there are any."""
        lanes, where = self._lanes(words)
        if not len(lanes):
            return
        whole, blocks = self.wave.lanes, self.program.blocks
        stack: list[Frame] = []
        frame = 0
        for index in place.stack:
            caller = blocks[index]
            stack.append(
                (index, frame, Registers.of(self._values(caller.live_out, where), lanes, whole))
            )
            frame += caller.function.frame_size
        yield (
            Group(
                self.wave,
                lanes,
                place.block.index,
                Registers.of(self._values(live, where), lanes, whole),
                tuple(stack),
                place.frame,
            ),
            where,
        )

    def _values(self, slots: frozenset[int], where: tuple[np.ndarray, ...]) -> Values:
        """Return the registers from the states, each of shape (lanes,)."""
        block, warp, lane = where
        values: Values = {}
        for slot in slots & set(self.found.registers):
            offset, own = self.found.registers[slot]
            dtype = self.program.dtypes[slot]
            if dtype.kind == "b" and own:
                bits = self._word(offset)[block, warp] >> lane.astype(np.uint32)
                values[slot] = (bits & 1).astype(bool)
                continue
            nbytes = dtype.itemsize * (LANES if own else 1)
            found = np.ascontiguousarray(self.states[:, :, offset : offset + nbytes]).view(dtype)
            values[slot] = found[block, warp, lane if own else 0]
        for arrival in self.found.arrivals:  # the result of a barrier reduction, for released lanes
            slot = next(iter(arrival.place.block.receives), -1)
            if arrival.step.mode and slot in slots:
                given = self._word(arrival.offset + 4 * GIVEN)[block, warp]
                new = (given >> lane.astype(np.uint32) & 1).astype(bool)
                result = self._word(arrival.offset + 4 * RESULT)[block, warp]
                dtype = self.program.dtypes[slot]
                old = values.get(slot, np.zeros(len(block), dtype))
                values[slot] = np.where(new, result.astype(dtype), old)
        return values
