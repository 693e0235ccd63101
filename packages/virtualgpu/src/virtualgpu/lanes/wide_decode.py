"""Decoding of what moves values of 128 bits: ``mov.b128``, loads, stores and atomics of ``.b128``
(PTX ISA, "mov", "ld", "st", "atom").
"""

from __future__ import annotations

from typing import Any, TypeAlias

from virtualgpu.errors import PTXSyntaxError
from virtualgpu.lanes import access, memory_access
from virtualgpu.lanes.wide import U64, WIDE, halves, join
from virtualgpu.program.site import Site
from virtualgpu.ptx import Address, Immediate, Instruction, Register, Symbol, Vector
from virtualgpu.ptx.opcodes import has_result

Emitter: TypeAlias = Any  # lanes.emit's, whose module imports this one


def emit(emitter: Emitter, instruction: Instruction) -> None:
    """Add the lines of a load, store or atomic of 128 bits to the block of ``emitter``."""
    site = memory_access.site_of(emitter.program.display, instruction)
    name = emitter.put(site, "site")
    operands: list[Any] = list(instruction.operands)
    target = operands.pop(0) if has_result(instruction) else None
    where, *given = operands
    wanted = {"load": 0, "store": 1}.get(site.kind, 1 + (site.operation == "cas"))
    if len(given) != wanted or not all(isinstance(one, Register) for one in (
            *given, *([target] if target else []))):
        raise PTXSyntaxError(f"{instruction.name} takes {wanted} values, registers of .b128: "
                             f"{instruction.text[:80]}")
    if site.space == "param" and _parameter(emitter, site, target, where, given):
        return
    arguments = "".join(
        f", *{emitter.put(halves, 'f')}({emitter.get(value, WIDE)})" for value in given)
    function = {"load": access.load, "store": access.store}.get(site.kind, access.atomic)
    address = memory_access.address_of(emitter, site, where)
    call = f"{emitter.put(function, 'f')}({name}, group, {address}{arguments})"
    if target:
        emitter.set(target, f"{emitter.put(join, 'f')}(*{call})", WIDE)
    else:
        emitter.lines.append(f" {call}")


def _parameter(emitter: Emitter, site: Site, target: Any, where: Any, given: list[Any]) -> bool:
    """A kernel's parameter, or one that a register holds; False where memory has it."""
    if not isinstance(where, Address) or not isinstance(where.base, Symbol):
        return False
    program, code, base = emitter.program, emitter.code, where.base
    offset = where.offset + base.offset
    if code is program.entry_code and base.name in program.parameter_offsets:
        at = program.parameter_offsets[base.name] + offset
        if given or at < 0 or at + 16 > program.parameter_bytes:
            raise PTXSyntaxError(f"no 16 bytes of a parameter of {program.name}: {base.name}")
        parts = ", ".join(f"group.wave.launch.parameter({at + half}, {emitter.dtype(U64)})"
                          for half in (0, 8))
        emitter.set(target, f"{emitter.put(join, 'f')}({parts})", WIDE)
        return True
    slot = code.slots.get(base.name)
    if slot is None or base.name in code.frame or offset:
        return False
    if given:
        emitter.write_slot(slot, emitter.get(given[0], WIDE), WIDE)
    else:
        emitter.set(target, emitter.cast(*emitter.read(slot), WIDE), WIDE)
    return True


def move(emitter: Emitter, target: Any, source: Any) -> None:
    """``mov.b128``: a copy, or two registers of 64 bits to and from one (PTX ISA, "mov")."""
    for operand in (target, source):
        if isinstance(operand, Vector) and len(operand.items) != 2:
            raise PTXSyntaxError(f"mov.b128 of {len(operand.items)} parts: it has two, of .b64")
    if isinstance(source, Immediate):
        raise PTXSyntaxError("mov.b128 of a literal: put two of .b64 together")
    if isinstance(source, Vector):
        parts = ", ".join(emitter.get(item, U64) for item in source.items)
        emitter.set(target, f"{emitter.put(join, 'f')}({parts})", WIDE)
    elif isinstance(target, Vector):
        emitter.lines.append(f" both = {emitter.put(halves, 'f')}({emitter.get(source, WIDE)})")
        parts_of: tuple[Any, ...] = target.items
        for half, item in enumerate(parts_of):
            if item.name != "_":
                emitter.set(item, f"both[{half}]", U64)
    else:
        emitter.set(target, emitter.get(source, WIDE), WIDE)
