"""What decides whether a loop ends: the registers, and whether memory or other lanes decide it.

A loop is a strongly connected part of a function's blocks, the largest one. The registers that
its branches depend on, directly or through others, are its *slice* (Weiser, "Program Slicing",
1981). Where these are at its head what they were in an earlier round, and so is the memory that
they are loaded from, the lane goes the same way again and again.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from virtualgpu.program.liveness import successors
from virtualgpu.program.program import Block, FunctionCode, Program
from virtualgpu.ptx import Address, Instruction, Register, Symbol, Vector
from virtualgpu.ptx.module import Operand
from virtualgpu.ptx.opcodes import has_result, traits

N = TypeVar("N", bound=Hashable)
# What depends on time, or on the order in which lanes happen to run.
_MOMENTARY = ("%clock", "%globaltimer")


@dataclass(frozen=True, slots=True)
class Loop:
    """What decides how lanes at the head of a loop go on.

    Attributes
    ----------
    slots : tuple of int
        Registers.
    sees : bool
        Whether they depend on memory or on other lanes too.
    stores : bool
        Whether it may change memory.
    looks : frozenset of int
        The loads and atomics by which they do: each instruction's ``id``.
    """

    slots: tuple[int, ...]
    sees: bool
    stores: bool
    looks: frozenset[int]


def heads(program: Program) -> dict[int, Loop]:
    """The loops of a program by their heads: blocks that a jump back leads to. A loop that looks
    at a clock is not among them, nor one of which it cannot be told what it depends on."""
    found: dict[int, Loop] = {}
    timely = any(_momentary(instruction) for code in program.functions.values()
                 for instruction in code.function.body)
    for code in program.functions.values():
        first = code.entry
        onward = [set(successors(block)) for block in code.blocks]
        onward = [{index - first for index in some if 0 <= index - first < len(onward)}
                  for some in onward]
        for part in cycles(dict(enumerate(onward))):
            loop = _loop(code, [code.blocks[index] for index in part], timely)
            if loop is not None:
                found |= dict.fromkeys(
                    (first + target for index in part for target in onward[index] & part
                     if target <= index), loop)
    return found


def _loop(code: FunctionCode, blocks: list[Block], timely: bool) -> Loop | None:
    steps = [step for block in blocks for step in block.steps]
    body = [step.instruction for step in steps]
    if any(block.kind == "call" for block in blocks):  # what it calls may see anything
        slots = frozenset[int]().union(*(block.live_in for block in blocks))
        return None if timely else Loop(
            tuple(sorted(slots)), True, True, frozenset(id(one) for one in body if _looks(one)))
    wanted = _slots(code, _deciding(body))
    wanted |= {block.warp_mask for block in blocks if isinstance(block.warp_mask, int)}
    made = [(step.instruction, set(step.writes), step.reads) for step in steps]
    deciding: dict[int, Instruction] = {}
    while True:
        more = {id(one): one for one, writes, _ in made if writes & wanted}
        grown = wanted.union(*(reads for one, _, reads in made if id(one) in more))
        if grown == wanted and len(more) == len(deciding):
            break
        wanted, deciding = grown, more
    if any(_momentary(one) or not (_looks(one) or _meets(one) or _is_pure(one))
           for one in deciding.values()) or any(map(_momentary, _branches(body))):
        return None
    looks = frozenset(number for number, one in deciding.items() if _looks(one))
    sees = bool(looks) or any(map(_meets, deciding.values()))
    stores = any(traits(one).stores and "param" not in one.modifiers for one in body)
    return Loop(tuple(sorted(wanted)), sees, stores, looks)


# -- single instructions -------------------------------------------------------------------------


def _looks(instruction: Instruction) -> bool:
    return traits(instruction).loads and not {"param", "const"} & set(instruction.modifiers)


def _meets(instruction: Instruction) -> bool:
    opcode = traits(instruction)
    return (opcode.meets and opcode.name != "elect") or (
        opcode.family == "barrier" and "red" in instruction.modifiers)


def _is_pure(instruction: Instruction) -> bool:
    return traits(instruction).pure or instruction.opcode in ("ld", "ldu", "st")


def _momentary(instruction: Instruction) -> bool:
    return any(isinstance(operand, Register) and operand.name.startswith(_MOMENTARY)
               for operand in instruction.operands)


def _branches(body: Iterable[Instruction]) -> list[Instruction]:
    return [one for one in body if one.guard is not None or one.opcode == "brx"]


def _deciding(body: Iterable[Instruction]) -> list[Operand]:
    """Predicates of all that may be left out, what a jump by a table goes by, and addresses: an
    illegal one ends the kernel as well."""
    found: list[Operand] = [
        operand.base for one in body for operand in one.operands if isinstance(operand, Address)]
    found += [one.operands[has_result(one)] for one in body
              if traits(one).family == "texture" and len(one.operands) > 1]
    for one in _branches(body):
        found += [one.guard[0]] if one.guard is not None else []
        found += one.operands[:1] if one.opcode == "brx" else ()
    return found


def _slots(code: FunctionCode, operands: Iterable[Operand]) -> set[int]:
    items = [item for operand in operands
             for item in (operand.items if isinstance(operand, Vector) else (operand,))]
    names = {item.name.removeprefix("!") for item in items if isinstance(item, Register | Symbol)}
    return {code.slots[name] for name in names if name in code.slots}


def cycles(onward: Mapping[N, Collection[N]]) -> list[set[N]]:
    """The strongly connected parts of a graph that hold a cycle (Tarjan 1972), without recursion.

    ``onward`` has the nodes that each node leads to.
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
