"""Control flow of a warp: places, the order in which they run, and where lanes may wait.

The lanes of a warp at the lowest place run first, and lanes that meet at a place continue
together. This is the order of :class:`~virtualgpu.lanes.schedule.Lockstep`, so stores of lanes
that diverged come in the same order as in the interpreter. The places where other lanes can wait
are known at compile time. A basic block during which no lane can wait runs with all lanes of the
warp that have not ended, and needs no mask.

A set of places is a Python integer whose bit ``i`` stands for place ``i``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from virtualgpu.native.refusal import Refused
from virtualgpu.program.program import BasicBlock, FunctionCode, Program
from virtualgpu.ptx import Register, Symbol
from virtualgpu.ptx.module import Operand

# A function has separate places for each chain of calls to it. Each place takes 1 to 3 ms to
# compile.
MOST_PLACES = 1000
Stand = tuple[tuple[int, ...], int]  # calling blocks, block


@dataclass(slots=True)
class Passing:
    """Values that a call or a return passes.

    ``registers`` maps each register that is written to the register that is read (None: zero).
    ``memory`` lists copies in a thread's local memory: source offset, target offset, bytes.
    """

    registers: dict[int, int | None]
    memory: list[tuple[int, int, int]]


@dataclass(slots=True, eq=False)
class Place:
    """A basic block, together with the calls by which lanes came to it.

    ``index`` gives the order of places, the same as that of :attr:`Group.key`: deeper calls come
    first, then lower blocks. ``after`` is the next place in the text (-1: none). ``targets`` are
    the places to which a jump, call or return leads; there are several if a table or an address
    decides. ``frame`` is the offset of the function's own variables in local memory.
    """

    block: BasicBlock
    stack: tuple[int, ...]
    frame: int
    index: int = -1
    after: int = -1
    targets: tuple[int, ...] = ()
    passing: Passing | None = None
    live_in: frozenset[int] = frozenset()
    live_out: frozenset[int] = frozenset()

    @property
    def target(self) -> int:
        """Return the only target."""
        (only,) = self.targets
        return only

    @property
    def onward(self) -> set[int]:
        return {index for index in (self.after, *self.targets) if index >= 0}


def places(program: Program) -> list[Place]:
    """Return all reachable places of a kernel, in order; the first may not be its entry.

    Raises Refused for recursive functions.
    """
    found: dict[Stand, Place] = {}
    leads: dict[Stand, tuple[Stand | None, list[Stand]]] = {}
    todo: list[Stand] = [((), program.entry_code.entry)]
    while todo:
        stand = todo.pop()
        if stand in found:
            continue
        if len(found) >= MOST_PLACES:
            raise Refused("more code than is worth compiling")
        stack, index = stand
        block = program.blocks[index]
        frame = sum(program.blocks[caller].function.frame_size for caller in stack)
        place = found[stand] = Place(block, stack, frame)
        after, targets = leads[stand] = _leads(program, place)
        todo += targets if after is None else [after, *targets]
    order = sorted(found, key=lambda stand: (-len(stand[0]), stand[1], stand[0]))
    number = {stand: index for index, stand in enumerate(order)}
    for stand, (after, targets) in leads.items():
        place = found[stand]
        place.index = number[stand]
        place.after = -1 if after is None else number[after]
        place.targets = tuple(number[target] for target in targets)
    result = [found[stand] for stand in order]
    for place in result:
        place.live_in = place.block.live_in.union(
            *(
                caller.live_out - set(caller.receives)
                for caller in (program.blocks[index] for index in place.stack)
            )
        )
    for place in result:
        place.live_out = frozenset().union(*(result[index].live_in for index in place.onward))
    return result


def _leads(program: Program, place: Place) -> tuple[Stand | None, list[Stand]]:
    """Return the places that lanes reach from a place: the next one and the targets."""
    block, stack = place.block, place.stack
    after: Stand | None = (stack, block.index + 1)
    targets: list[Stand] = []
    if block.kind in ("goto", "branch"):
        targets = [(stack, block.target)]
    elif block.kind == "indexed":
        targets = [(stack, target) for target in block.targets]
    elif block.kind == "call":
        inside = (*stack, block.index)
        targets = [(inside, callee.entry) for callee in callees(program, block)]
        place.passing = _arguments(program, place)
    elif block.kind == "return":
        targets = [(stack[:-1], stack[-1] + 1)]
        place.passing = _results(program, place)
    if block.guard is None and block.kind in ("goto", "indexed", "exit", "trap", "call", "return"):
        after = None
    return after, targets


def callees(program: Program, block: BasicBlock) -> list[FunctionCode]:
    """Return the functions that a call may enter.

    A call through a register may enter every function with this number of arguments whose address
    is taken.
    """
    site = block.call
    assert site is not None
    if site.target is not None:
        return [program.functions[site.target]]
    pointed_at = set(program.module.functions_in_tables()) | {
        operand.name
        for code in program.functions.values()
        for instruction in code.function.body
        if instruction.opcode != "call"
        for operand in instruction.operands
        if isinstance(operand, Symbol)
    }
    return [
        code
        for name, code in program.functions.items()
        if name in pointed_at and len(code.function.parameters) == len(site.arguments)
    ]


def chosen(place: Place) -> Operand | None:
    """Return the index or address that selects one of several successors of a place."""
    block = place.block
    if block.kind == "indexed" and block.last is not None:
        return block.last.operands[0]
    if block.kind == "call" and block.call is not None and block.call.target is None:
        assert block.last is not None
        return next(operand for operand in block.last.operands if isinstance(operand, Register))
    return None


def _arguments(program: Program, place: Place) -> Passing:
    block, caller = place.block, place.block.function
    assert block.call is not None
    frame, passing = place.frame + caller.frame_size, Passing({}, [])
    fitting = callees(program, block)
    for callee in fitting:
        if callee is caller or any(program.blocks[i].function is callee for i in place.stack):
            raise Refused("a function that calls itself")
        formal = callee.function.parameters
        if len(formal) != len(block.call.arguments):
            raise Refused("a call whose arguments differ from the function's parameters")
        handed = _handed_over(
            (caller, place.frame, block.call.arguments),
            (callee, frame, [variable.name for variable in formal]),
            [variable.size for variable in formal],
        )
        if handed.memory and len(fitting) > 1:
            raise Refused("a call through an address that passes memory")
        # The registers of a called function are zero at first, even if an earlier call wrote to
        # them.
        fresh = program.blocks[callee.entry].live_in - set(handed.registers)
        passing.registers |= handed.registers | dict.fromkeys(fresh)
        passing.memory += handed.memory
    return passing


def _results(program: Program, place: Place) -> Passing:
    site = program.blocks[place.stack[-1]]
    assert site.call is not None
    callee, caller = place.block.function, site.function
    given = [variable.name for variable in callee.function.returns]
    if len(given) != len(site.call.returns):
        raise Refused("a call whose results differ from the function's")
    return _handed_over(
        (callee, place.frame, given),
        (caller, place.frame - caller.frame_size, site.call.returns),
        [variable.size for variable in callee.function.returns],
    )


def _handed_over(
    origin: tuple[FunctionCode, int, Sequence[str]],
    target: tuple[FunctionCode, int, Sequence[str]],
    sizes: list[int],
) -> Passing:
    """Return the copy from variables of one function's frame to those of another."""
    (giver, from_frame, given), (taker, to_frame, taken) = origin, target
    passing = Passing({}, [])
    for one, other, size in zip(given, taken, sizes, strict=True):
        if one in giver.slots and other in taker.slots:
            passing.registers[taker.slots[other]] = giver.slots[one]
        elif one in giver.frame and other in taker.frame:
            passing.memory.append(
                (from_frame + giver.frame[one], to_frame + taker.frame[other], size)
            )
        else:
            raise Refused(
                "a parameter that is a register on one side of a call and memory on the other"
            )
    return passing


def ends_others(place: Place) -> bool:
    """Return True if lanes wait here for all other live lanes of their warp."""
    mask = place.block.warp_mask
    everyone = isinstance(mask, np.ndarray) and int(mask[0]) == 0xFFFF_FFFF
    return place.block.kind == "barrier" or everyone


def members(numbers: int) -> Iterable[int]:
    """Yield the numbers in a set, lowest first."""
    while numbers:
        lowest = numbers & -numbers
        yield lowest.bit_length() - 1
        numbers ^= lowest


def above(index: int) -> int:
    """Return all places after ``index``."""
    return -1 << (index + 1)


def endings(places: list[Place]) -> set[int]:
    """Return the places that only end the thread, or that jump to such a place.

    No effect of these places can be observed.
    """
    gone: set[int] = set()
    while True:
        more = {place.index for place in places if _only_ends(place, gone)}
        if more == gone:
            return gone
        gone = more


def _only_ends(place: Place, gone: set[int]) -> bool:
    block = place.block
    if block.guard is not None or any(
        i.opcode not in ("ret", "exit", "bra") for i in block.instructions
    ):
        return False
    return block.kind == "exit" or (block.kind == "goto" and place.target in gone)


def waiting(places: list[Place], parting: set[int], guarded: set[int], gone: set[int]) -> list[int]:
    """Return, for each place, the places where other lanes may wait while it runs.

    Parameters
    ----------
    places : list of Place
        All reachable places, by index.
    parting : set of int
        Places with a branch at which the lanes of a warp may diverge.
    guarded : set of int
        Places under a predicate that may differ between lanes; lanes that skip one wait after it.
    gone : set of int
        Ending places; lanes with such a target wait nowhere.
    """
    found = [0] * len(places)
    onward = [sorted(place.onward - gone) for place in places]
    todo = set(range(len(places)))
    while todo:
        index = todo.pop()
        grown: dict[int, int] = {}
        here = found[index]
        # If lanes wait at two places, those at the higher one continue to wait.
        for place in members(here):
            grown[place] = here & above(place)
        if index in guarded:
            after = places[index].after
            behind = 0 if after in gone else 1 << after
            grown[index] = grown.get(index, 0) | behind
            here |= behind
        for target in onward[index]:
            others = here
            if index in parting:
                for other in onward[index]:
                    others |= 1 << other
            grown[target] = grown.get(target, 0) | (others & above(target))
            # Lanes that arrive at `target` wait there for lanes at lower places.
            for place in members(others & ~above(target) & ~(1 << target)):
                grown[place] = grown.get(place, 0) | 1 << target
        for place, more in grown.items():
            if more & ~found[place]:
                found[place] |= more
                todo.add(place)
    return found


def anywhere(
    places: list[Place], parting: set[int], guarded: set[int], gone: set[int]
) -> list[int]:
    """Return the places where lanes can wait once they may have diverged.

    Unlike in :func:`waiting`, lanes may also be held back, so some can wait at every place that
    can still be reached.
    """
    stirred = set(guarded)
    todo = [*parting, *guarded]
    while todo:
        more = places[todo.pop()].onward - gone - stirred
        stirred |= more
        todo += more
    everyone = sum(1 << index for index in stirred)
    return [everyone if index in stirred else 0 for index in range(len(places))]
