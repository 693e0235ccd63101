"""Code generation for ``tex``, ``suld.b`` and ``sust.b`` by handle.

PTX ISA, "Texture Instructions", "Surface Instructions"; the unified mode, as NVRTC writes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from virtualgpu.lanes.emitter import Emitter
from virtualgpu.lanes.families import texture_unit
from virtualgpu.lanes.families.texture_unit import Use
from virtualgpu.operations.types import DTYPES
from virtualgpu.program.steps import Formed

_COORDINATES = {"1d": 1, "2d": 2, "3d": 4, "a2d": 4}


def emit(emitter: Emitter, step: Formed) -> None:
    """Add the lines of a texture or surface instruction to the block of ``emitter``."""
    instruction, name = step.instruction, emitter.program.display
    if instruction.opcode == "tex":
        geometry, made, counted = step.words
        use = Use(instruction, name, geometry, DTYPES[made], integers=counted == "s32")
        function: Callable[..., Any] = texture_unit.fetch
    else:
        geometry, _, type_, outside = step.words
        width = len(step.targets) or len(step.sources) - 1 - _COORDINATES[geometry]
        use = Use(instruction, name, geometry, DTYPES[type_], width, outside=outside)
        function = texture_unit.load if step.targets else texture_unit.store
    operands = list(zip(step.sources, step.kinds, strict=True))
    if _COORDINATES[geometry] == 4:
        del operands[4]  # the last of four coordinates is unused
    values = [emitter.get(one, dtype) for one, dtype in operands]
    call = f"{emitter.put(function, 'f')}({emitter.put(use, 'use')}, group, {', '.join(values)})"
    emitter.lines.append(f" {'made = ' if step.targets else ''}{call}")
    for number, slot in enumerate(step.targets):
        if slot is not None:
            emitter.give(slot, f"made[{number}]", use.dtype)
