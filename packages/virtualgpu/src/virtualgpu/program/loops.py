"""Loops of a program, and the registers, memory or lanes that decide when they end.

A loop is a maximal strongly connected component of a function's blocks. The registers on which its
branches depend, directly or through others, are its *slice* (Weiser, "Program Slicing", 1981);
this includes the functions that the loop calls. If the slice at the loop's head, and the memory
from which it is loaded, are the same as in an earlier iteration, the lane repeats the same
iterations for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from virtualgpu.program.liveness import successors
from virtualgpu.program.program import BasicBlock, FunctionCode, Program
from virtualgpu.ptx import Address, Instruction, Register, Symbol, Vector
from virtualgpu.ptx.module import Operand
from virtualgpu.ptx.opcodes import has_result, traits

N = TypeVar("N", bound=Hashable)
# Registers that depend on time or on the order in which lanes run.
_MOMENTARY = ("%clock", "%globaltimer")


@dataclass(frozen=True, slots=True)
class Loop:
    """Values that decide how lanes at the head of a loop continue.

    Attributes
    ----------
    slots : tuple of int
        Registers of the slice.
    sees : bool
        True if the slice also depends on memory or on other lanes.
    stores : bool
        True if the loop may change memory.
    looks : frozenset of int
        The ``id`` of each load or atomic on which the slice depends.
    """

    slots: tuple[int, ...]
    sees: bool
    stores: bool
    looks: frozenset[int]


def heads(program: Program) -> dict[int, Loop]:
    """Return the loops of a program by their heads, the blocks to which jumps go back.

    Loops that read a clock, or have unknown dependences, are left out.
    """
    found: dict[int, Loop] = {}
    timely = any(
        _momentary(instruction)
        for code in program.functions.values()
        for instruction in code.function.body
    )
    for code in program.functions.values():
        first = code.entry
        onward = [set(successors(block)) for block in code.blocks]
        onward = [
            {index - first for index in some if 0 <= index - first < len(onward)} for some in onward
        ]
        for part in cycles(dict(enumerate(onward))):
            loop = _loop(program, code, [code.blocks[index] for index in part], timely)
            if loop is not None:
                found |= dict.fromkeys(
                    (
                        first + target
                        for index in part
                        for target in onward[index] & part
                        if target <= index
                    ),
                    loop,
                )
    return found


def _loop(
    program: Program, code: FunctionCode, blocks: list[BasicBlock], timely: bool
) -> Loop | None:
    called = _called(program, blocks)
    if called is None:  # unknown functions may depend on anything
        body = [step.instruction for block in blocks for step in block.steps]
        slots = frozenset[int]().union(*(block.live_in for block in blocks))
        return (
            None
            if timely
            else Loop(
                tuple(sorted(slots)), True, True, frozenset(id(one) for one in body if _looks(one))
            )
        )
    inside = [(code, blocks), *((function, function.blocks) for function in called)]
    body, wanted = [], set[int]()
    made: list[tuple[Instruction | None, set[int], Collection[int]]] = []
    for function, some in inside:
        steps = [step for block in some for step in block.steps]
        own = [step.instruction for step in steps]
        body += own
        wanted |= _slots(function, _deciding(own))
        wanted |= {block.warp_mask for block in some if isinstance(block.warp_mask, int)}
        made.extend((step.instruction, set(step.writes), step.reads) for step in steps)
        made.extend(
            (None, {after}, {before}) for block in some for before, after in _handed(program, block)
        )
    deciding: dict[int, Instruction] = {}
    while True:
        moving = [(one, reads) for one, writes, reads in made if writes & wanted]
        more = {id(one): one for one, _ in moving if one is not None}
        grown = wanted.union(*(reads for _, reads in moving))
        if grown == wanted and len(more) == len(deciding):
            break
        wanted, deciding = grown, more
    if any(
        _momentary(one) or not (_looks(one) or _meets(one) or _is_pure(one))
        for one in deciding.values()
    ) or any(map(_momentary, _branches(body))):
        return None
    looks = frozenset(number for number, one in deciding.items() if _looks(one))
    sees = bool(looks) or any(map(_meets, deciding.values()))
    stores = any(traits(one).stores and "param" not in one.modifiers for one in body)
    return Loop(tuple(sorted(wanted)), sees, stores, looks)


# -- calls ---------------------------------------------------------------------------------------


def _called(program: Program, blocks: list[BasicBlock]) -> list[FunctionCode] | None:
    """Return the functions that blocks call, directly or indirectly.

    Return None if they are unknown, or if one of them takes parameters in memory.
    """
    found: list[FunctionCode] = []
    todo = list(blocks)
    while todo:
        block = todo.pop()
        if block.kind != "call":
            continue
        site = block.call
        if site is None or site.target is None:
            return None
        callee = program.functions[site.target]
        handed = (*site.arguments, *site.returns)
        if not all(name in block.function.slots for name in handed):
            return None
        if callee not in found:
            found.append(callee)
            todo += callee.blocks
    return found


def _handed(program: Program, block: BasicBlock) -> list[tuple[int, int]]:
    """Return the pairs of registers between which a call passes arguments and results."""
    site = block.call if block.kind == "call" else None
    if site is None or site.target is None:
        return []
    here = block.function.slots
    callee = program.functions[site.target]
    formal = [variable.name for variable in callee.function.parameters]
    results = [variable.name for variable in callee.function.returns]
    return [
        (here[given], callee.slots[wanted])
        for given, wanted in zip(site.arguments, formal, strict=False)
        if wanted in callee.slots
    ] + [
        (callee.slots[given], here[wanted])
        for given, wanted in zip(results, site.returns, strict=False)
        if given in callee.slots
    ]


# -- single instructions -------------------------------------------------------------------------


def _looks(instruction: Instruction) -> bool:
    return traits(instruction).loads and not {"param", "const"} & set(instruction.modifiers)


def _meets(instruction: Instruction) -> bool:
    opcode = traits(instruction)
    return (opcode.meets and opcode.name != "elect") or (
        opcode.family == "barrier" and "red" in instruction.modifiers
    )


def _is_pure(instruction: Instruction) -> bool:
    return traits(instruction).pure or instruction.opcode in ("ld", "ldu", "st")


def _momentary(instruction: Instruction) -> bool:
    return any(
        isinstance(operand, Register) and operand.name.startswith(_MOMENTARY)
        for operand in instruction.operands
    )


def _branches(body: Iterable[Instruction]) -> list[Instruction]:
    return [one for one in body if one.guard is not None or one.opcode == "brx"]


def _deciding(body: Iterable[Instruction]) -> list[Operand]:
    """Return the operands that decide the control flow of a body.

    These are the predicates of all guarded instructions, the index of a jump table, and addresses,
    because an illegal address ends the kernel too.
    """
    found: list[Operand] = [
        operand.base
        for one in body
        for operand in one.operands
        if isinstance(operand, Address) and isinstance(operand.base, Register)
    ]
    found += [
        one.operands[has_result(one)]
        for one in body
        if traits(one).family == "texture" and len(one.operands) > 1
    ]
    for one in _branches(body):
        found += [one.guard[0]] if one.guard is not None else []
        found += one.operands[:1] if one.opcode == "brx" else ()
    return found


def _slots(code: FunctionCode, operands: Iterable[Operand]) -> set[int]:
    items = [
        item
        for operand in operands
        for item in (operand.items if isinstance(operand, Vector) else (operand,))
    ]
    names = {item.name.removeprefix("!") for item in items if isinstance(item, Register | Symbol)}
    return {code.slots[name] for name in names if name in code.slots}


def cycles(onward: Mapping[N, Collection[N]]) -> list[set[N]]:
    """Return the strongly connected components of a graph that contain a cycle.

    Tarjan's algorithm (1972), without recursion.

    ``onward`` maps each node to its successors.
    """
    order: dict[N, int] = {}
    low: dict[N, int] = {}
    stack: list[N] = []
    on_stack: set[N] = set()
    result = []
    for root in onward:
        if root in order:
            continue
        work = [(root, iter(onward[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for after in rest:
                if after not in order:
                    order[after] = low[after] = len(order)
                    stack.append(after)
                    on_stack.add(after)
                    work.append((after, iter(onward[after])))
                    break
                if after in on_stack:
                    low[node] = min(low[node], order[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    part = set()
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        part.add(member)
                        if member == node:
                            break
                    if len(part) > 1 or node in onward[node]:
                        result.append(part)
    return result
