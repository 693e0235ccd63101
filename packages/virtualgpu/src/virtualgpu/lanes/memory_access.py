"""Decoding of loads, stores and atomics: the lines that they add to a block's function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction
from virtualgpu.lanes import access
from virtualgpu.lanes.atomics import HALF_SUMS, OPERATIONS
from virtualgpu.operations.types import DTYPES, UNSIGNED
from virtualgpu.program.site import Site
from virtualgpu.ptx import Address, Immediate, Instruction, Symbol, Vector
from virtualgpu.ptx.module import Operand
from virtualgpu.ptx.opcodes import traits

Emitter: TypeAlias = Any  # lanes.emit's, whose module is made of this one

U64 = np.dtype("u8")
SPACES = {"global", "shared", "local", "const", "param"}
_CACHE_HINTS = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified", "noftz", "aligned"}
_ORDERS = {"relaxed", "acquire", "release", "acq_rel", "sc"}
_SCOPES = {"cta": "cta", "cluster": "gpu", "gpu": "gpu", "sys": "sys"}


def site_of(kernel: str, instruction: Instruction) -> Site:
    """The decoded site of a memory instruction of ``kernel``."""
    opcode, modifiers = instruction.opcode, list(instruction.modifiers)
    kind = {"ld": "load", "ldu": "load", "st": "store"}.get(opcode, "atomic")
    whole = modifiers[-1:] == ["b128"]
    if whole:
        modifiers[-1] = "b64"  # its halves
    if not modifiers or modifiers[-1] not in DTYPES:
        raise UnsupportedInstruction(f"{instruction.name}: no type that the machine has")
    element = modifiers.pop()
    space, width, order, scope, operation = "generic", 1, "", "", ""
    strong, cluster = kind == "atomic", False
    for modifier in modifiers:
        plain = modifier.split(":")[0]
        if plain in SPACES and not operation:
            space, cluster = plain, modifier == "shared:cluster"
        elif modifier in ("v2", "v4") or (modifier == "v8" and kind == "atomic"):
            width = int(modifier[1:])
        elif modifier in ("volatile", "mmio"):
            strong, order = True, "relaxed"
        elif modifier == "weak" or modifier in _CACHE_HINTS:
            pass
        elif plain in ("L1", "L2", "level"):
            pass  # cache hints change no result
        elif modifier in _ORDERS:
            strong, order = True, modifier
        elif modifier in _SCOPES:
            scope = _SCOPES[modifier]
        elif kind == "atomic" and modifier in OPERATIONS and not operation:
            operation = modifier
        else:
            raise UnsupportedInstruction(f"{instruction.name}: .{modifier}")
    dtype = DTYPES[element]
    if kind == "atomic":
        if width > 1:
            _check_vector(instruction, operation, element, space, width)
        if whole and (operation not in ("exch", "cas") or opcode == "red"):
            raise UnsupportedInstruction(
                f"{instruction.name}: atomics of 128 bits are atom.exch and atom.cas")
        dtype, operation = _atomic_type(instruction, operation, element, dtype)
        order = order or "relaxed"
        scope = scope or "gpu"
    if whole:
        if width > 1:
            raise PTXSyntaxError(f"{instruction.name}: there are no vectors of .b128")
        width = 2
    quiet = space in ("const", "param")
    if kind != "load" and space == "const":
        raise PTXSyntaxError(f"{instruction.name}: nothing writes to .const")
    return Site(instruction, kernel, kind, "global" if space == "const" else space, dtype, width,
                strong=strong, order=order, scope=scope, quiet=quiet, operation=operation,
                cluster=cluster or space == "generic", whole=whole)


def _atomic_type(instruction: Instruction, operation: str, element: str,
                 dtype: np.dtype) -> tuple[np.dtype, str]:
    allowed = {
        "add": {"u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"},
        "min": {"u32", "s32", "u64", "s64"}, "max": {"u32", "s32", "u64", "s64"},
        "inc": {"u32"}, "dec": {"u32"},
        "exch": {"b32", "b64", "u32", "s32", "u64", "s64", "f32", "f64"},
        "cas": {"b16", "b32", "b64", "u16", "u32", "s32", "u64", "s64"},
    }
    bitwise = {"b32", "b64", "u32", "s32", "u64", "s64"}
    if element not in allowed.get(operation, bitwise) or not operation:
        raise UnsupportedInstruction(f"{instruction.name}: an atomic of this type")
    if (half := f"{operation}_{element}") in HALF_SUMS:
        return UNSIGNED[dtype.itemsize], half
    return dtype, operation


def _check_vector(instruction: Instruction, operation: str, element: str, space: str,
                  width: int) -> None:
    """PTX ISA, "atom", "red": vectors of at most 16 bytes, in global memory only."""
    most = {"f32": 4, "f16x2": 4, "bf16x2": 4, "f16": 8, "bf16": 8}.get(element, 0)
    if operation != "add" or width > most:
        raise UnsupportedInstruction(
            f"{instruction.name}: vector atomics add .f32, .f16x2 and .bf16x2 by two or four, "
            ".f16 and .bf16 by two, four or eight")
    if space not in ("global", "generic"):
        raise PTXSyntaxError(f"{instruction.name}: vector atomics are for global memory")


def _check_parts(instruction: Instruction, operand: Operand, width: int) -> None:
    """Memory is checked for ``width`` elements, so there must be as many values."""
    parts = len(operand.items) if isinstance(operand, Vector) else 1
    if parts != width or isinstance(operand, Vector) != (width > 1):
        raise PTXSyntaxError(f"{parts} values where {instruction.name} moves {width}")


def emit(emitter: Emitter, instruction: Instruction) -> None:
    """Add the lines of a memory instruction to the block of ``emitter``."""
    if traits(instruction).family == "hint":
        return  # hints: nothing that a program can see
    site = site_of(emitter.program.display, instruction)
    name = emitter.put(site, "site")
    operands: tuple[Any, ...] = instruction.operands
    if instruction.opcode in ("ld", "ldu"):
        target, where = operands
        _check_parts(instruction, target, site.width)
        if site.space == "param" and _parameter_load(emitter, site, target, where):
            return
        call = f"{emitter.put(access.load, 'f')}({name}, group, {address_of(emitter, site, where)})"
        _take(emitter, target, call, site.dtype)
    elif instruction.opcode == "st":
        where, value = operands
        _check_parts(instruction, value, site.width)
        values = value.items if isinstance(value, Vector) else (value,)
        if site.space == "param" and _parameter_store(emitter, site, where, values):
            return
        arguments = [emitter.get(v, site.dtype) for v in values]
        emitter.lines.append(
            f" {emitter.put(access.store, 'f')}({name}, group, {address_of(emitter, site, where)}, "
            f"{', '.join(arguments)})")
    else:
        has_result = instruction.opcode == "atom"
        where, *given = operands[1:] if has_result else operands
        if len(given) != 1 + (site.operation == "cas"):
            raise PTXSyntaxError(f"an atomic with {len(given)} values: {instruction.text}")
        if site.width > 1:
            _check_parts(instruction, given[0], site.width)
            given = given[0].items
        arguments = [emitter.get(v, site.dtype) for v in given]
        call = (f"{emitter.put(access.atomic, 'f')}({name}, group, "
                f"{address_of(emitter, site, where)}, {', '.join(arguments)})")
        if has_result:
            _check_parts(instruction, operands[0], site.width)
            _take(emitter, operands[0], call, site.dtype)
        else:
            emitter.lines.append(f" {call}")


def _take(emitter: Emitter, target: Any, call: str, dtype: np.dtype) -> None:
    """Give a register, or each of a vector of them, what a call returns."""
    if not isinstance(target, Vector):
        emitter.set(target, call, dtype)
        return
    emitter.lines.append(f" values = {call}")
    parts: tuple[Any, ...] = target.items
    for i, item in enumerate(parts):
        if item.name != "_":
            emitter.set(item, f"values[{i}]", dtype)


def address_of(emitter: Emitter, site: Site, where: Operand) -> str:
    """The address operand as u64; a constant offset goes to the site."""
    if not isinstance(where, Address):
        raise PTXSyntaxError(f"expected an address, found {where}")
    base = where.base
    if isinstance(base, Immediate):
        address: str = emitter.get(Immediate(base.value + where.offset), U64)
        return address
    if isinstance(base, Symbol):
        if site.space == "param":
            site.space = "local" if base.name in emitter.code.frame else _param_space(emitter)
        address = emitter.symbol_address(Symbol(base.name, base.offset + where.offset))
        return address
    site.offset = where.offset
    if site.space == "param":
        site.space = _param_space(emitter)
    address = emitter.get(base, U64)
    return address


def _param_space(emitter: Emitter) -> str:
    return "global" if emitter.code.function.is_entry else "local"


def _parameter_load(emitter: Emitter, site: Site, target: Any, where: Address) -> bool:
    """A load of a parameter that is held like a register; False where memory holds it."""
    if not isinstance(where.base, Symbol):
        return False
    name, offset = where.base.name, where.offset + where.base.offset
    program = emitter.program
    if emitter.code is program.entry_code and name in program.parameter_offsets:
        offset += program.parameter_offsets[name]
        targets = target.items if isinstance(target, Vector) else (target,)
        for i, item in enumerate(targets):
            at = offset + i * site.dtype.itemsize
            if at + site.dtype.itemsize > program.parameter_bytes or at < 0:
                raise PTXSyntaxError(f"ld.param beyond the parameters of {program.name}")
            value = f"group.wave.launch.parameter({at}, {emitter.dtype(site.dtype)})"
            if item.name != "_":
                emitter.set(item, value, site.dtype)
        return True
    slot = emitter.code.slots.get(name)
    if slot is None or name in emitter.code.frame or offset or isinstance(target, Vector):
        return False
    emitter.set(target, emitter.cast(*emitter.read(slot), site.dtype), site.dtype)
    return True


def _parameter_store(emitter: Emitter, site: Site, where: Address,
                     values: Sequence[Operand]) -> bool:
    if not isinstance(where.base, Symbol):
        return False
    name, offset = where.base.name, where.offset + where.base.offset
    slot = emitter.code.slots.get(name)
    if slot is None or name in emitter.code.frame or offset or len(values) != 1:
        return False
    emitter.write_slot(slot, emitter.get(values[0], site.dtype), site.dtype)
    return True
