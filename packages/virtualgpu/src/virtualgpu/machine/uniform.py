"""Which registers of a kernel hold one value in all lanes, whatever the input.

Kept apart from the rest, such values stay one number instead of one per lane.
"""

from __future__ import annotations

from virtualgpu import operations
from virtualgpu.machine.program import Program
from virtualgpu.ptx import Address, Immediate, Instruction, Register, Symbol, Vector

UNIFORM_SPECIALS = {
    *(f"%{name}.{axis}" for name in ("ntid", "nctaid") for axis in "xyz"),
    "%nwarpid", "%dynamic_smem_size", "%total_smem_size",
}


def uniform_slots(program: Program) -> frozenset[int]:
    """Registers of the kernel that hold one value in all lanes, whatever the input.

    Those written once, from parameters, literals, launch dimensions and such registers.
    """
    if program.uniform is not None:
        return program.uniform
    code = program.entry_code
    definitions: dict[str, list[Instruction]] = {}
    for instruction in code.function.body:
        if instruction.opcode in ("st", "red", "bra", "bar", "call") or not instruction.operands:
            continue
        target = instruction.operands[0]
        for item in target.items if isinstance(target, Vector) else (target,):
            if isinstance(item, Register):
                definitions.setdefault(item.name, []).append(instruction)
        if instruction.second is not None:
            definitions.setdefault(instruction.second.name, []).append(instruction)
    names: set[str] = set()
    again = True
    while again:
        again = False
        for name, found in definitions.items():
            if name not in names and len(found) == 1 and _is_uniform(found[0], names):
                names.add(name)
                again = True
    program.uniform = frozenset(code.slots[n] for n in names if n in code.slots)
    return program.uniform


def _is_uniform(instruction: Instruction, names: set[str]) -> bool:
    if instruction.guard is not None:
        return False
    if instruction.opcode == "ld":
        where = instruction.operands[1]
        return "param" in instruction.modifiers and (
            isinstance(where, Address) and isinstance(where.base, Symbol))
    if instruction.opcode not in operations.opcodes() | {"mov", "cvta"}:
        return False
    return all(
        isinstance(o, Immediate) or (isinstance(o, Register) and
                                     (o.name in names or o.name in UNIFORM_SPECIALS))
        for o in instruction.operands[1:]
    )
