"""Decoding of ``tex``, ``suld.b`` and ``sust.b`` by handle.

PTX ISA, "Texture Instructions", "Surface Instructions"; the unified mode, as NVRTC writes it.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from virtualgpu import operations
from virtualgpu.errors import PTXSyntaxError
from virtualgpu.lanes.emitter import Emitter
from virtualgpu.lanes.families import texture_unit
from virtualgpu.lanes.families.texture_unit import Use
from virtualgpu.operations.types import DTYPES
from virtualgpu.ptx import Instruction, Register, Vector
from virtualgpu.wording import many

U64 = np.dtype("u8")
# Operands of a place, and how many of them count.
_PLACES = {"1d": (1, 1), "2d": (2, 2), "3d": (4, 3), "a2d": (4, 3)}
_CACHE_HINTS = {"ca", "cg", "cs", "cv", "wb", "wt"}


def texture(emitter: Emitter, instruction: Instruction) -> None:
    """``tex``."""
    words = instruction.modifiers
    if (
        len(words) != 4
        or words[0] not in _PLACES
        or words[1] != "v4"
        or words[2] not in ("f32", "s32", "u32")
        or words[3] not in ("f32", "s32")
    ):
        _refuse(instruction)
    geometry, _, made, counted = words
    integers = counted == "s32"
    if (integers and geometry != "1d") or instruction.second or len(instruction.operands) != 2:
        _refuse(instruction)  # texels by number, sparse textures, offsets, depth
    target, where = instruction.operands
    place = _place(instruction, where, geometry)
    use = Use(instruction, emitter.program.display, geometry, DTYPES[made], integers=integers)
    kinds = [DTYPES[counted]] * len(place)
    if geometry == "a2d":
        kinds[0] = np.dtype("u4")
    arguments = [emitter.get(one, kind) for one, kind in zip(place, kinds, strict=True)]
    _call(emitter, texture_unit.fetch, use, where, arguments, _items(instruction, target, 4))


def surface(emitter: Emitter, instruction: Instruction) -> None:
    """``suld.b`` and ``sust.b``."""
    words = [word for word in instruction.modifiers if word not in _CACHE_HINTS]
    width = int(words[2][1]) if words[2:3] in (["v2"], ["v4"]) else 1
    if width > 1:
        words.pop(2)
    if (
        len(words) != 4
        or words[0] != "b"
        or words[1] not in _PLACES
        or words[2] not in ("b8", "b16", "b32", "b64")
        or words[3] not in ("trap", "clamp", "zero")
    ):
        _refuse(instruction)
    if len(instruction.operands) != 2:
        raise PTXSyntaxError(
            f"{instruction.name} with {many(len(instruction.operands), 'operand')}"
        )
    loads = instruction.opcode == "suld"
    values, where = instruction.operands if loads else reversed(instruction.operands)
    dtype = DTYPES[words[2]]
    use = Use(instruction, emitter.program.display, words[1], dtype, width, outside=words[3])
    items = _items(instruction, values, width)
    arguments = [emitter.get(one, np.dtype("i4")) for one in _place(instruction, where, words[1])]
    if loads:
        _call(emitter, texture_unit.load, use, where, arguments, items)
    else:
        arguments += [emitter.get(one, dtype) for one in items]
        _call(emitter, texture_unit.store, use, where, arguments, ())


def _place(instruction: Instruction, where: Any, geometry: str) -> tuple[Any, ...]:
    operands, counted = _PLACES[geometry]
    if not isinstance(where, Vector) or len(where.items) != 1 + operands:
        raise PTXSyntaxError(
            f"{instruction.name}: [object, {{coordinates}}] with "
            f"{operands} coordinate{'s' if operands > 1 else ''}"
        )
    return where.items[1 : 1 + counted]


def _items(instruction: Instruction, operand: Any, count: int) -> tuple[Any, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise PTXSyntaxError(f"{many(len(items), 'value')} where {instruction.name} moves {count}")
    return items


def _call(
    emitter: Emitter,
    function: Any,
    use: Use,
    where: Any,
    arguments: list[str],
    targets: tuple[Any, ...],
) -> None:
    handle = emitter.get(where.items[0], U64)
    call = (
        f"{emitter.put(function, 'f')}({emitter.put(use, 'use')}, group, "
        f"{', '.join([handle, *arguments])})"
    )
    emitter.lines.append(f" {'made = ' if targets else ''}{call}")
    for i, target in enumerate(targets):
        if not isinstance(target, Register):
            raise PTXSyntaxError(f"{use.instruction.name}: results go to registers")
        if target.name != "_":
            emitter.set(target, f"made[{i}]", use.dtype)


def _refuse(instruction: Instruction) -> NoReturn:
    """Refuse an instruction as the table refuses what it lacks."""
    operations.lookup(instruction.opcode, instruction.modifiers, 1, 1)
    raise AssertionError(instruction.name)  # the table has no such opcode
