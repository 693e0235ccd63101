"""Instructions whose memory order matters, because other lanes may access the same memory."""

from __future__ import annotations

from collections.abc import Iterable

from virtualgpu.ptx import Instruction, Register, Symbol, Vector
from virtualgpu.ptx.opcodes import traits


def shared_accesses(body: Iterable[Instruction]) -> set[int]:
    """Return the positions of such instructions in the body of a function.

    Local memory, constants and parameters accessed by name, and addresses on the thread's own
    stack are left out. Code for a debugger keeps each variable on the stack and uses a generic
    address.
    """
    body = list(body)
    stack = _stack_pointers(body)
    return {at for at, instruction in enumerate(body) if _reaches_others(instruction, stack)}


def _reaches_others(instruction: Instruction, stack: set[Register]) -> bool:
    opcode = traits(instruction)
    if not (opcode.loads or opcode.stores) or opcode.family == "control":
        return False
    if opcode.family != "memory":
        return True
    if "local" in instruction.modifiers:
        return False
    bases = [getattr(operand, "base", None) for operand in instruction.operands]
    if any(base in stack for base in bases):
        return False
    # A constant or parameter accessed by name; any other register may have any address.
    return not {"param", "const"} & set(instruction.modifiers) or not any(
        isinstance(base, Symbol) for base in bases
    )


def _stack_pointers(body: list[Instruction]) -> set[Register]:
    """Return the registers that are set only by ``cvta.local``."""
    local: set[Register] = set()
    other: set[Register] = set()
    for instruction in body:
        if not instruction.operands:
            continue
        first = instruction.operands[0]
        written = first.items if isinstance(first, Vector) else (first,)
        to_generic = (
            instruction.opcode == "cvta"
            and "local" in instruction.modifiers
            and "to" not in instruction.modifiers
        )
        (local if to_generic else other).update(one for one in written if isinstance(one, Register))
    return local - other
