"""Atomics of different sizes that may access the same bytes.

Two atomics are atomic with respect to each other only if they overlap completely (PTX ISA, "Memory
Consistency Model", "Morally Strong Operations"). Each element of a vector or of a packed
half-precision pair is a separate atomic.
"""

from __future__ import annotations

from itertools import combinations

from virtualgpu.operations.types import DTYPES
from virtualgpu.program.program import FunctionCode, Program
from virtualgpu.program.steps import Data, MemoryAccess, Move, Parameter, Step
from virtualgpu.ptx import Instruction, Symbol

Roots = frozenset[object]


def unit(instruction: Instruction, size: int) -> int:
    """Return the number of bytes that an atomic of ``size`` bytes changes in one step."""
    kind = instruction.modifiers[-1] if instruction.modifiers else ""
    if kind in ("f16x2", "bf16x2"):
        return 2
    return DTYPES[kind].itemsize if kind in DTYPES else size


def mixes_sizes(program: Program) -> bool:
    """Return True if atomics of two sizes may access one array; computed once per program.

    Addresses from different parameters or variables count as different arrays.
    """
    if program.mixes is None:
        atomics = [
            (unit(step.instruction, step.site.size), _roots(code, step))
            for code in program.functions.values()
            for step in (step for block in code.blocks for step in block.steps)
            if isinstance(step, MemoryAccess) and step.site.kind == "atomic"
        ]
        program.mixes = any(
            one != other and (not here or not there or here & there)
            for (one, here), (other, there) in combinations(set(atomics), 2)
        )
    return program.mixes


def _roots(code: FunctionCode, access: MemoryAccess) -> Roots:
    """Return the pointers from which an address is computed; empty if that is unknown."""
    makers: dict[int, list[Step]] = {}
    for step in (step for block in code.blocks for step in block.steps):
        for slot in step.writes:
            makers.setdefault(slot, []).append(step)
    found, seen = set[object](), set[int]()
    todo: list[Step] = [access]
    while todo:
        step = todo.pop()
        # For the atomic itself, use only the address.
        operands = step.sources[:1] if step is access else step.sources
        found |= {("variable", one.name) for one in operands if isinstance(one, Symbol)}
        for operand in operands:
            slot = code.slots.get(getattr(operand, "name", ""), -1)
            if slot in seen:
                continue
            seen.add(slot)
            for maker in makers.get(slot, []):
                if isinstance(maker, Parameter):
                    if maker.dtype.itemsize == 8:
                        found.add(("parameter", maker.offset))
                elif isinstance(maker, Data | Move) or maker.instruction.opcode == "cvta":
                    todo.append(maker)
    return frozenset(found)
