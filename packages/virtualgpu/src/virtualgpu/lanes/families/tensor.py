"""Code generation for ``mma``, ``wmma``, ``ldmatrix`` and ``stmatrix``.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from virtualgpu.lanes.emit_access import address_of
from virtualgpu.lanes.emitter import Emitter
from virtualgpu.lanes.families import matrices
from virtualgpu.program.site import Site
from virtualgpu.program.steps import Formed

U32 = np.dtype("u4")
_EVERYONE = np.array([0xFFFF_FFFF], U32)


def multiply(emitter: Emitter, step: Formed) -> None:
    """Emit ``mma`` or ``wmma.mma``."""
    d, a, b, c = step.fragments
    site = Site(step.instruction, emitter.program.display, "load", "generic", U32)
    rounding = next((word for word in step.words if word in ("rz", "rm", "rp")), "rn")
    made = matrices.Product(site, a, b, c, d, "satfinite" in step.words, rounding)
    values = [emitter.get(one, d.word) for one in step.sources]
    _call(emitter, step, partial(matrices.multiply, made), values, d.word)


def fragments(emitter: Emitter, step: Formed) -> None:
    """Emit any form of ``wmma``."""
    if len(step.fragments) > 1:
        multiply(emitter, step)
        return
    layout, space = step.words
    (fragment,) = step.fragments
    kind = "load" if step.targets else "store"
    where = space.split(":")[0] or "generic"
    site = Site(step.instruction, emitter.program.display, kind, where, U32)
    tile = matrices.Tile(site, fragment, layout == "row")
    size = min(16, fragment.nbytes, tile.length * fragment.element.itemsize)
    tile = replace(tile, site=replace(site, width=size // 4))
    address, *rest = step.sources
    held = 0 if step.targets else fragment.registers
    values = [
        address_of(emitter, tile.site, address),
        emitter.get(rest[held], U32) if len(rest) > held else "None",
        *(emitter.get(one, fragment.word) for one in rest[:held]),
    ]
    function = matrices.load_tile if step.targets else matrices.store_tile
    _call(emitter, step, partial(function, tile), values, fragment.word)


def rows(emitter: Emitter, step: Formed) -> None:
    """Emit ``ldmatrix`` or ``stmatrix``."""
    number, transposed, space = step.words
    kind = "load" if step.targets else "store"
    where = "shared" if space else "generic"
    site = Site(step.instruction, emitter.program.display, kind, where, U32, 4)
    address, *rest = step.sources
    values = [address_of(emitter, site, address), *(emitter.get(one, U32) for one in rest)]
    function = matrices.load_rows if step.targets else matrices.store_rows
    made = partial(function, site, int(number[1:]), bool(transposed))
    _call(emitter, step, made, values, U32)


def _call(
    emitter: Emitter, step: Formed, function: Callable[..., Any], values: list[str], word: np.dtype
) -> None:
    """Emit a meeting of all lanes of the warp, followed by the instruction."""
    emitter.block.warp_mask = _EVERYONE
    call = f"{emitter.put(function, 'f')}({', '.join(['group', *values])})"
    emitter.lines.append(f" made = {call}" if step.targets else f" {call}")
    for number, slot in enumerate(step.targets):
        if slot is not None:
            emitter.give(slot, f"made[{number}]", word)
