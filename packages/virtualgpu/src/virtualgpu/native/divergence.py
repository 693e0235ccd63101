"""Divergence in native code: lanes that wait while others of the warp run.

Most kernels need none of this, because their lanes meet before each barrier and each instruction
of the whole warp, and no loop waits for another thread. If that cannot be proved, lanes are
*parked*: each barrier, each meeting of the warp and each loop in which lanes may spin has a mask
of the lanes that wait there. When no lane of a warp can continue, its registers and masks are
saved, and the next warp runs. :mod:`.block_scheduler` decides when parked lanes may continue.

In other kernels, the places where lanes can wait are known at compile time. Here they are
determined at run time: ``others`` is the mask of the lanes that wait at any place. While it is
zero, lanes go directly from place to place, as in other kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from virtualgpu.compilers.building import while_
from virtualgpu.native.context import (
    ARRIVAL_WORDS,
    AT_BARRIER,
    COUNT,
    DONE,
    GIVEN,
    GRID,
    NUMBER,
    PARKED,
    PREDICATE,
    RESULT,
    YIELDED,
)
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.operands import BOOL, U32
from virtualgpu.native.refusal import Refused
from virtualgpu.native.state import State
from virtualgpu.native.values import I1, I32, bits_of_mask, mask_of_bits, splat, spread
from virtualgpu.native.warp_function import WarpFunction
from virtualgpu.operations.expression import Value, select
from virtualgpu.program.steps import Barrier, Step
from virtualgpu.ptx.opcodes import COLLECTIVES

ROUNDS = 64  # iterations of a loop that may wait before other lanes run


@dataclass(slots=True)
class Arrival:
    """One barrier instruction: the offset of its words in the state, and its step."""

    place: Place
    step: Barrier
    offset: int


def barrier_of(steps: Iterable[Step]) -> Barrier:
    return next(step for step in steps if isinstance(step, Barrier))


class ParkedLanes:
    """The waiting lanes of a warp, in its saved state and in masks of its function."""

    def __init__(self, warp: WarpFunction, spinning: set[int]):
        self.warp, self.build = warp, warp.build
        self.spinning = spinning
        places = warp.places
        self.meets = [place for place in places if place.block.warp_mask is not None]
        self.spin_heads = [
            places[head]
            for head in sorted(
                {
                    target
                    for place in places
                    if place.index in spinning
                    for target in place.onward & spinning
                    if target <= place.index
                }
            )
        ]
        self._check_warp_barriers()
        self.again = [*self.meets, *self.spin_heads]
        offset = State.HEADER
        self.kept: dict[int, int] = {}  # place → offset of its mask in the state
        for place in self.again:
            self.kept[place.index] = offset
            offset += 4
        self.arrivals = []
        for place in warp.barriers:
            step = barrier_of(warp.steps[place.index])
            self.arrivals.append(Arrival(place, step, offset))
            offset += 4 * ARRIVAL_WORDS
        live = [place.live_in for place in self.again]
        live += [places[place.after].live_in for place in warp.barriers]
        self.live = frozenset().union(*live)
        self.state = State(warp.registers, warp.function.args[1], self.live, offset)
        self.others, self.rounds = self._word(), self._word()
        self.parked = {place.index: self._word() for place in self.meets}
        self.yielded = {place.index: self._word() for place in self.spin_heads}
        self.waiting = [(self._word(), self._word()) for _ in self.arrivals]  # arrived, predicate

    def places(self) -> set[int]:
        """Return the places where parked lanes may continue."""
        after = {arrival.place.after for arrival in self.arrivals}
        after |= {partner.after for place in self.meets for partner in self._partners(place)}
        return {place.index for place in self.again} | after

    def _check_warp_barriers(self) -> None:
        """Refuse the kernel if it is unclear which warp barriers meet.

        Lanes at different ``bar.warp.sync`` instructions meet if they name the same lanes. This is
        decided at compile time, so their masks have to be constants.
        """
        here = [p.block.warp_mask for p in self.meets if _is_warp_barrier(p)]
        if len(here) > 1 and not all(isinstance(mask, np.ndarray) for mask in here):
            raise Refused("warp barriers whose lanes are known only at run time")

    def _word(self) -> ir.Value:
        place = self.build.alloca(I32)
        self.build.store(I32(0), place)
        return place

    def _any(self, words: Iterable[ir.Value]) -> ir.Value:
        total = I32(0)
        for word in words:
            total = self.build.or_(total, self.build.load(word))
        return total

    def _all_parked(self) -> list[ir.Value]:
        return [*self.parked.values(), *self.yielded.values(), *(w for w, _ in self.waiting)]

    def move(self, place: int, lanes: ir.Value) -> None:
        """Let lanes wait at a place for their turn."""
        build, warp = self.build, self.warp
        if place in warp.ending:
            if warp.marks is not None:
                warp.marks.ended(place, lanes)
            return
        for word in (warp.waiting_lanes[place], self.others):
            build.store(build.or_(build.load(word), lanes), word)

    def to_the_next(self, place: Place) -> None:
        """Continue with the lowest waiting lanes, or leave the warp's function."""
        warp = self.warp
        waiting = warp.waiting[place.index]
        self.build.branch(warp.checks[warp.waiting_places[0]] if waiting else warp.finish)

    def leave(self, lanes: ir.Value) -> None:
        """Remove lanes that now run from the waiting ones."""
        build = self.build
        build.store(build.and_(build.load(self.others), build.not_(lanes)), self.others)

    # -- meetings of the warp ------------------------------------------------------------------

    def meet(self, place: Place, mask: ir.Value) -> ir.Value:
        """Return the lanes that may continue at a meeting; park the others.

        A lane continues once all lanes that it names have arrived or ended.
        """
        build = self.build
        word = self.parked[place.index]
        lanes = build.or_(mask, build.load(word))
        build.store(I32(0), word)
        team = self._complete(place, lanes)
        met, parted = (build.append_basic_block(name) for name in ("met", "parked"))
        build.cbranch(build.icmp_unsigned("!=", team, I32(0)), met, parted)
        build.position_at_end(parted)
        build.store(lanes, word)
        self.to_the_next(place)
        build.position_at_end(met)
        self.move(place.index, build.and_(lanes, build.not_(team)))
        for partner in self._partners(place):
            # The barrier is the only instruction of its block.
            self.move(partner.after, build.load(self.parked[partner.index]))
            build.store(I32(0), self.parked[partner.index])
        return team

    def _partners(self, place: Place) -> list[Place]:
        """Return the other ``bar.warp.sync`` that name the same lanes."""
        if not _is_warp_barrier(place):
            return []
        return [
            other
            for other in self.meets
            if other is not place and _is_warp_barrier(other) and _literal(other) == _literal(place)
        ]

    def _complete(self, place: Place, lanes: ir.Value) -> ir.Value:
        """Return the lanes of one complete team among ``lanes``, which wait at a meeting.

        The result is 0 if no team is complete.
        """
        build, warp = self.build, self.warp
        alive = build.or_(build.load(self.others), self._any(self._all_parked()))
        alive = build.or_(alive, lanes)
        here = build.or_(
            lanes, self._any(self.parked[partner.index] for partner in self._partners(place))
        )
        mask = place.block.warp_mask
        if isinstance(mask, np.ndarray):
            return self._if_all(I32(int(mask[0])), alive, here, lanes)
        assert mask is not None
        home = build.load(warp.registers.homes[mask])
        if not isinstance(home.type, ir.VectorType):
            return self._if_all(home, alive, here, lanes)
        if _is_warp_barrier(place):
            raise Refused("warp barriers whose lanes are known only at run time")
        named = Value(build, home, "u32")
        left, found = self._word_here(lanes), self._word_here(I32(0))
        with while_(build, lambda: build.icmp_unsigned("!=", build.load(left), I32(0))):
            first = build.cttz(build.load(left), I1(1))
            name = build.extract_element(home, first)
            same = Value(build, splat(build, name), "u32") == named
            team = build.and_(bits_of_mask(build, same.node), lanes)
            whole = self._if_all(name, alive, team, team)
            build.store(whole, found)
            rest = build.and_(build.load(left), build.not_(team))
            ended = build.icmp_unsigned("!=", whole, I32(0))
            build.store(build.select(ended, I32(0), rest), left)
        return build.load(found)

    def _word_here(self, value: ir.Value) -> ir.Value:
        with self.build.goto_entry_block():
            place = self.build.alloca(I32)
        self.build.store(value, place)
        return place

    def _if_all(
        self, named: ir.Value, alive: ir.Value, here: ir.Value, lanes: ir.Value
    ) -> ir.Value:
        build = self.build
        missing = build.and_(build.and_(named, alive), build.not_(here))
        return build.select(build.icmp_unsigned("==", missing, I32(0)), lanes, I32(0))

    # -- barriers of the block, loops that wait --------------------------------------------------

    def arrive(self, place: Place, mask: ir.Value) -> None:
        """Park lanes that arrive at a barrier of the block or the grid."""
        build, registers = self.build, self.warp.registers
        number = self.warp.barriers.index(place)
        arrival, (word, predicates) = self.arrivals[number], self.waiting[number]
        step = arrival.step
        build.store(build.or_(build.load(word), mask), word)
        if step.predicate is not None:
            true = bits_of_mask(build, spread(registers.get(step.predicate, BOOL)).node)
            kept = build.and_(build.load(predicates), build.not_(mask))
            build.store(build.or_(kept, build.and_(true, mask)), predicates)
        for field, operand in ((NUMBER, step.number), (COUNT, step.count)):
            value = I32(GRID if field == NUMBER and step.grid else 0)
            if operand is not None:
                given = registers.get(operand, U32)
                if given.lanes is not None:
                    raise Refused("a barrier whose number or count may differ between lanes")
                value = given.node
            build.store(value, self.state.at(arrival.offset + 4 * field))
        self.to_the_next(place)

    def tire(self, place: Place, target: int, mask: ir.Value) -> None:
        """Let other lanes run after many iterations of a loop that may wait."""
        if target > place.index or place.index not in self.spinning or (target not in self.yielded):
            return
        build = self.build
        rounds = build.add(build.load(self.rounds), I32(1))
        build.store(rounds, self.rounds)
        tired, onward = (build.append_basic_block(name) for name in ("tired", "awake"))
        build.cbranch(build.icmp_unsigned(">", rounds, I32(ROUNDS)), tired, onward)
        build.position_at_end(tired)
        build.store(I32(0), self.rounds)
        word = self.yielded[target]
        build.store(build.or_(build.load(word), mask), word)
        self.to_the_next(place)
        build.position_at_end(onward)

    # -- leaving the warp and coming back --------------------------------------------------------

    def finish(self) -> None:
        """Resume a completed meeting if no lane can run; otherwise save the state and return."""
        build, warp, state = self.build, self.warp, self.state
        for place in self.meets:
            lanes = build.load(self.parked[place.index])
            some, onward, whole = (
                build.append_basic_block(name) for name in ("some", "onward", "whole")
            )
            build.cbranch(build.icmp_unsigned("!=", lanes, I32(0)), some, onward)
            build.position_at_end(some)
            team = self._complete(place, lanes)
            build.cbranch(build.icmp_unsigned("!=", team, I32(0)), whole, onward)
            build.position_at_end(whole)
            build.store(I32(0), self.parked[place.index])
            build.store(lanes, warp.mask)
            build.branch(warp.entries[place.index])
            build.position_at_end(onward)
        alive = self._any(self._all_parked())
        leave, done = (build.append_basic_block(name) for name in ("leave", "done"))
        build.cbranch(build.icmp_unsigned("==", alive, I32(0)), done, leave)
        build.position_at_end(done)
        build.ret(I32(DONE))
        build.position_at_end(leave)
        for words in (self.parked, self.yielded):
            for index, word in words.items():
                build.store(build.load(word), state.at(self.kept[index]))
        for arrival, pair in zip(self.arrivals, self.waiting, strict=True):
            for field, word in zip((PARKED, PREDICATE), pair, strict=True):
                build.store(build.load(word), state.at(arrival.offset + 4 * field))
        state.save(1, alive, self.live)
        tired = build.icmp_unsigned("!=", self._any(self.yielded.values()), I32(0))
        build.ret(build.select(tired, I32(YIELDED), I32(AT_BARRIER)))

    def resume(self) -> None:
        """Load the saved state, with the lanes that the block has released."""
        build, registers, state = self.build, self.warp.registers, self.state
        state.restore(self.live)

        def kept(offset: int) -> ir.Value:
            return build.load(state.at(offset), typ=I32)

        for place in self.again:
            if place.index in self.parked:
                build.store(kept(self.kept[place.index]), self.parked[place.index])
            if place.index in self.yielded:
                self.move(place.index, kept(self.kept[place.index]))
        for arrival, pair in zip(self.arrivals, self.waiting, strict=True):
            for field, word in zip((PARKED, PREDICATE), pair, strict=True):
                build.store(kept(arrival.offset + 4 * field), word)
            given = kept(arrival.offset + 4 * GIVEN)
            build.store(I32(0), state.at(arrival.offset + 4 * GIVEN))
            self.move(arrival.place.after, given)
            (slot,) = arrival.place.block.receives or (None,)
            if arrival.step.mode and slot in registers.homes:
                home, result = registers.homes[slot], kept(arrival.offset + 4 * RESULT)
                counts = arrival.step.mode == "popc"
                if not counts:
                    result = build.trunc(result, I1)
                result, old = (
                    Value(build, node, "u32" if counts else "pred")
                    for node in (result, build.load(home))
                )
                here = Value(build, mask_of_bits(build, given), "pred")
                build.store(select(here, spread(result), old).node, home)


def needed(
    places: list[Place],
    waiting: list[int],
    steps: list[list[Step]],
    varying: set[int],
    spinning: set[int],
) -> bool:
    """Return True if lanes may arrive at a meeting one by one, or may spin."""
    if spinning:
        return True
    for place in places:
        block, parted = place.block, False
        if block.guard is not None:
            parted = block.guard[0] in varying
        if isinstance(block.warp_mask, int) and block.warp_mask in varying:
            return True
        meets = block.kind == "barrier" or block.warp_mask is not None
        if meets and (waiting[place.index] or parted):
            return True
        if block.kind == "barrier" and not barrier_of(steps[place.index]).plain:
            return True
    return False


def _is_warp_barrier(place: Place) -> bool:
    return place.block.instructions[0].opcode not in COLLECTIVES


def _literal(place: Place) -> int | None:
    mask = place.block.warp_mask
    return int(mask[0]) if isinstance(mask, np.ndarray) else None
