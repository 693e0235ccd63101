"""Stores in which all threads of a launch store one value, whatever the data.

Examples are ``done[0] = 1`` and ``total[0] = first[k]``. The value is computed from literals and
the kernel's parameters. In a kernel without synchronisation it may also come from global memory at
addresses computed from these. (A write to such memory would be a race with the loads, which is a
separate finding.) Stores in device functions are not analysed, because each thread may call them
with different arguments.
"""

from __future__ import annotations

from virtualgpu.program.program import Program
from virtualgpu.program.speculation import reads, writes
from virtualgpu.program.steps import registers_in
from virtualgpu.ptx import Address, Instruction, Symbol
from virtualgpu.ptx.opcodes import traits

# These are equal for all threads of a launch. (%ctaid and %tid are not.)
_SIZES = ("%ntid", "%nctaid", "WARP_SZ")
_ORDERLESS = ("data", "move", "address", "memory", "control")


def stores_one_value(program: Program, instruction: Instruction) -> bool:
    """Return True if the instruction stores one value for all threads."""
    function = program.entry_code.function
    if instruction.opcode != "st" or not any(one is instruction for one in function.body):
        return False
    makers: dict[str, list[Instruction]] = {}
    for one in function.body:
        for name in writes(one):
            makers.setdefault(name, []).append(one)
    parameters = {parameter.name for parameter in function.parameters}
    orderless = all(
        traits(one).family in _ORDERLESS and one.opcode not in ("atom", "red", "call")
        for one in function.body
    )
    known: dict[str, bool] = {}

    def same(name: str) -> bool:
        """Return True if a register always has the same value for all threads."""
        if name not in known:
            known[name] = False  # a register that is computed from itself changes
            made = makers.get(name, [])
            known[name] = name.startswith(_SIZES) or (
                len(made) == 1
                and made[0].guard is None
                and given(made[0])
                and all(map(same, reads(made[0])))
            )
        return known[name]

    def given(maker: Instruction) -> bool:
        if maker.opcode != "ld":
            return traits(maker).pure and not traits(maker).carry
        place = maker.operands[1]
        if "param" in maker.modifiers:  # a kernel parameter, not the result of a call
            return (
                isinstance(place, Address)
                and isinstance(place.base, Symbol)
                and place.base.name in parameters
            )
        return orderless and "global" in maker.modifiers

    return all(same(register.name) for register in registers_in(instruction.operands[1:]))
