"""Decoding of tensor core instructions: ``mma``, ``wmma``, ``ldmatrix`` and ``stmatrix``.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction
from virtualgpu.lanes.emitter import Emitter
from virtualgpu.lanes.families import matrices
from virtualgpu.lanes.families.fragments import Fragment, Shape, registers_of
from virtualgpu.lanes.memory_access import address_of
from virtualgpu.operations.types import REGISTER_DTYPES
from virtualgpu.program.site import Site
from virtualgpu.ptx import Instruction, Register, Vector
from virtualgpu.wording import many

U32 = np.dtype("u4")
_EVERYONE = np.array([0xFFFF_FFFF], U32)
_SPACES = {"global": "global", "shared": "shared", "shared:cta": "shared"}
_ROUNDINGS = {"rn", "rz", "rm", "rp"}

# By the type of A and B.
_MMA = {
    "f16": ("m16n8k8", "m16n8k16"),
    "bf16": ("m16n8k8", "m16n8k16"),
    "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    **dict.fromkeys(("s8", "u8"), ("m8n8k16", "m16n8k16", "m16n8k32")),
}
_WMMA = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), ("m16n16k16", "m8n32k16", "m32n8k16")),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
}
_SUMS = {
    "f16": ("f16", "f32"),
    "bf16": ("f32",),
    "tf32": ("f32",),
    "f64": ("f64",),
    "s8": ("s32",),
    "u8": ("s32",),
}
_KNOWN = (
    "the machine multiplies matrices of f16, bf16, tf32, f64, s8 and u8, in the shapes that "
    "the PTX ISA has for them on sm_80 to sm_90"
)


def multiply(emitter: Emitter, instruction: Instruction) -> None:
    """``mma``."""
    first = instruction.modifiers[:1]
    if first and first[0].startswith("sp"):
        _refuse(
            instruction,
            "products with a sparse A (mma.sp) are not modelled; multiply the "
            "dense matrix: mma.sync without .sp",
        )
    words, saturated, rounding = _options(instruction)
    if words[:2] != ["sync", "aligned"] or len(words) != 9:
        _refuse(instruction, _KNOWN)
    shape, *layouts = words[2:5]
    if shape == "m8n8k4" and words[6] == "f16":
        _refuse(
            instruction,
            "this shape of f16 is of sm_70; compile for compute_80 or later and use m16n8k16",
        )
    if layouts != ["row", "col"]:
        raise PTXSyntaxError(f"{instruction.name}: A is .row and B is .col")
    if words[5] != words[8]:
        raise PTXSyntaxError(f"{instruction.name}: C and D have one type")
    _product(emitter, instruction, _shape(instruction, shape), words[5:], saturated, rounding)


def fragments(emitter: Emitter, instruction: Instruction) -> None:
    """``wmma``."""
    what, *_ = instruction.modifiers or ("",)
    if what in ("load", "store"):
        _tile(emitter, instruction, what)
        return
    words, saturated, rounding = _options(instruction)
    if words[:3] != ["mma", "sync", "aligned"] or len(words) not in (8, 10):
        _refuse(instruction, _KNOWN)
    if not set(words[3:5]) <= {"row", "col"}:
        raise PTXSyntaxError(f"{instruction.name}: the layouts of A and B are missing")
    d, *_, c = types = words[6:]
    if len(types) == 2:
        types = [d, "f16", "f16", c]
    _product(emitter, instruction, _shape(instruction, words[5]), types, saturated, rounding)


def rows(emitter: Emitter, instruction: Instruction) -> None:
    """``ldmatrix`` and ``stmatrix``."""
    loads = instruction.opcode == "ldmatrix"
    words = list(instruction.modifiers)
    if words[:2] != ["sync", "aligned"] or words[2:3] != ["m8n8"] or words[-1] != "b16":
        _refuse(
            instruction,
            "matrices of 8 rows of eight 16-bit elements (.m8n8 … .b16) are what "
            "sm_75 to sm_90 have; compile for compute_90 without a letter",
        )
    number, *more = words[3:-1] or [""]
    transposed = more[:1] == ["trans"]
    space = more[transposed:]
    if (
        number not in ("x1", "x2", "x4")
        or len(space) > 1
        or not set(space) <= set(_SPACES) - {"global"}
    ):
        raise PTXSyntaxError(f"{instruction.name}: .x1, .x2 or .x4, .trans, .shared")
    count = int(number[1:])
    site = Site(
        instruction,
        emitter.program.display,
        "load" if loads else "store",
        "shared" if space else "generic",
        U32,
        4,
    )
    operands: Sequence[Any] = instruction.operands
    if len(operands) != 2:
        raise PTXSyntaxError(f"{instruction.name} with {many(len(operands), 'operand')}")
    registers, where = operands if loads else reversed(operands)
    function = partial(
        matrices.load_rows if loads else matrices.store_rows, site, count, transposed
    )
    items = _items(emitter, instruction, registers, count, U32)
    arguments = ["group", address_of(emitter, site, where)]
    if loads:
        _call(emitter, function, arguments, items, U32)
    else:
        _call(emitter, function, [*arguments, *(emitter.get(one, U32) for one in items)])


# -- their parts -----------------------------------------------------------------------------------


def _product(
    emitter: Emitter,
    instruction: Instruction,
    shape: Shape,
    types: list[str],
    saturated: bool,
    rounding: str,
) -> None:
    d, a, b, c = types
    shapes = _WMMA if instruction.opcode == "wmma" else _MMA
    if a not in shapes or str(shape) not in shapes[a]:
        _refuse(instruction, _KNOWN)
    if (a != b and not {a, b} <= {"s8", "u8"}) or not {c, d} <= set(_SUMS[a]):
        raise PTXSyntaxError(f"{instruction.name}: no product of these types")
    if (saturated and d != "s32") or (rounding and d != "f64"):
        raise PTXSyntaxError(f"{instruction.name}: .satfinite is for integers, a rounding for f64")
    of_a, of_b, of_c, of_d = [
        _fragment(instruction, *one)
        for one in (("a", shape, a), ("b", shape, b), ("c", shape, c), ("c", shape, d))
    ]
    if len(instruction.operands) != 4:
        raise PTXSyntaxError(
            f"{instruction.name} with {many(len(instruction.operands), 'operand')}"
        )
    targets, *given = (
        _items(emitter, instruction, operand, one.registers, one.word)
        for operand, one in zip(instruction.operands, (of_d, of_a, of_b, of_c), strict=True)
    )
    site = Site(instruction, emitter.program.display, "load", "generic", U32)
    function = partial(
        matrices.multiply,
        matrices.Product(site, of_a, of_b, of_c, of_d, saturated, rounding or "rn"),
    )
    arguments = [emitter.get(item, of_d.word) for items in given for item in items]
    _call(emitter, function, ["group", *arguments], targets, of_d.word)


def _tile(emitter: Emitter, instruction: Instruction, what: str) -> None:
    words = list(instruction.modifiers[1:])
    role, *rest = words
    if (
        rest[:2] != ["sync", "aligned"]
        or len(rest) not in (5, 6)
        or rest[2] not in ("row", "col")
        or role not in (("a", "b", "c") if what == "load" else ("d",))
    ):
        _refuse(instruction, _KNOWN)
    layout, shape, *space, type_ = rest[2:]
    if space and space[0] not in _SPACES:
        raise PTXSyntaxError(f"{instruction.name}: from and to .global or .shared")
    sums = role in ("c", "d")
    inputs = [a for a in _WMMA if shape in _WMMA[a] and type_ in (_SUMS[a] if sums else (a,))]
    if not inputs:
        _refuse(instruction, _KNOWN)
    fragment = _fragment(instruction, "c" if sums else role, _shape(instruction, shape), type_)
    site = Site(
        instruction, emitter.program.display, what, _SPACES[space[0]] if space else "generic", U32
    )
    tile = matrices.Tile(site, fragment, layout == "row")
    size = min(16, fragment.nbytes, tile.length * fragment.element.itemsize)
    site = replace(site, width=size // 4)
    operands: list[Any] = list(instruction.operands)
    if len(operands) not in (2, 3):
        raise PTXSyntaxError(f"{instruction.name} with {many(len(operands), 'operand')}")
    registers, where = operands[:2] if what == "load" else operands[1::-1]
    function = partial(
        matrices.load_tile if what == "load" else matrices.store_tile, replace(tile, site=site)
    )
    items = _items(emitter, instruction, registers, fragment.registers, fragment.word)
    arguments = [
        "group",
        address_of(emitter, site, where),
        emitter.get(operands[2], U32) if len(operands) == 3 else "None",
    ]
    if what == "load":
        _call(emitter, function, arguments, items, fragment.word)
    else:
        _call(emitter, function, [*arguments, *(emitter.get(one, fragment.word) for one in items)])


def _options(instruction: Instruction) -> tuple[list[str], bool, str]:
    """Return the modifiers without ``.satfinite`` and without a rounding, and these two."""
    words = list(instruction.modifiers)
    rounding = next((word for word in words if word in _ROUNDINGS), "")
    left = [word for word in words if word not in ("satfinite", rounding)]
    return left, "satfinite" in words, rounding


def _shape(instruction: Instruction, name: str) -> Shape:
    found = Shape.of(name)
    if found is None:
        _refuse(instruction, _KNOWN)
    return found


def _fragment(instruction: Instruction, role: str, shape: Shape, type_: str) -> Fragment:
    """Return the fragment; A and B of f16 ``wmma`` have eight registers, whatever their size."""
    eight = instruction.opcode == "wmma" and type_ == "f16" and role != "c"
    return Fragment(role, shape, type_, 8 if eight else registers_of(role, shape, type_))


def _items(
    emitter: Emitter, instruction: Instruction, operand: Any, count: int, word: np.dtype
) -> tuple[Any, ...]:
    """Return the registers of a fragment, of which there must be as many as it has."""
    items: tuple[Any, ...] = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise PTXSyntaxError(
            f"{instruction.name}: {many(len(items), 'register')} where a lane's part of "
            f"the matrix has {count}"
        )
    registers = emitter.code.function.registers
    for one in items:
        declared = registers.get(one.name) if isinstance(one, Register) else None
        if declared is not None and REGISTER_DTYPES[declared].itemsize != word.itemsize:
            raise PTXSyntaxError(f"{instruction.name}: {one.name} has not {8 * word.itemsize} bits")
    return items


def _call(
    emitter: Emitter,
    function: Callable[..., Any],
    arguments: list[str],
    targets: Sequence[Any] = (),
    word: np.dtype = U32,
) -> None:
    """All lanes of the warp meet, then run it."""
    emitter.block.warp_mask = _EVERYONE
    call = f"{emitter.put(function, 'f')}({', '.join(arguments)})"
    emitter.lines.append(f" made = {call}" if targets else f" {call}")
    for i, target in enumerate(targets):
        if not isinstance(target, Register):
            raise PTXSyntaxError("the result of a matrix instruction goes to registers")
        if target.name != "_":
            emitter.set(target, f"made[{i}]", word)


def _refuse(instruction: Instruction, why: str) -> NoReturn:
    raise UnsupportedInstruction(f"the virtual GPU has no instruction '{instruction.name}': {why}")
