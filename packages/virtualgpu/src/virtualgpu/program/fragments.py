"""Matrices distributed over the lanes of a warp: shapes, types and registers.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

WARP = 32
_ELEMENTS = {
    "f16": "u2",
    "bf16": "u2",
    "tf32": "u4",
    "f32": "u4",
    "f64": "u8",
    "s8": "i1",
    "u8": "u1",
    "s32": "i4",
}
# Shapes by the type of A and B.
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


class Shape(NamedTuple):
    """Shape of a product: A is m × k, B is k × n, C and D are m × n."""

    m: int
    n: int
    k: int

    @classmethod
    def of(cls, name: str) -> Shape | None:
        """Return the shape with a name such as ``m16n8k16``, or None if it is not a shape."""
        found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", name)
        return found and cls(*map(int, found.groups()))


@dataclass(frozen=True)
class Fragment:
    """Part of a matrix that one lane holds; ``role`` is a, b or c.

    ``registers`` is the number of registers of a lane: 64-bit ones for f64, otherwise 32-bit ones.
    """

    role: str
    shape: Shape
    type: str
    registers: int

    @property
    def word(self) -> np.dtype:
        """Return the dtype of a register."""
        return np.dtype("u8" if self.type == "f64" else "u4")

    @property
    def element(self) -> np.dtype:
        """Return the dtype of an element; half precision is represented by its bits."""
        return np.dtype(_ELEMENTS[self.type])

    @property
    def size(self) -> tuple[int, int]:
        """Return the number of rows and columns."""
        m, n, k = self.shape
        return {"a": (m, k), "b": (k, n), "c": (m, n)}[self.role]

    @property
    def nbytes(self) -> int:
        """Return the bytes of a lane's registers."""
        return self.registers * self.word.itemsize

    @property
    def operand(self) -> str:
        """Return the registers as an operand of :mod:`.forms`."""
        return f"b{8 * self.word.itemsize}*{self.registers}"


def _fragment(role: str, shape: str, type_: str, eight: bool = False) -> Fragment:
    """Return the fragment that holds each element once, or that has ``eight`` registers."""
    found = Shape.of(shape)
    assert found is not None, shape
    one = Fragment(role, found, type_, 8)
    if eight:
        return one
    rows, columns = one.size
    return replace(one, registers=rows * columns * one.element.itemsize // (32 * one.word.itemsize))


def forms(opcode: str) -> Iterator[tuple[str, tuple[Fragment, ...]]]:
    """Yield the forms of ``mma`` or ``wmma``, with the fragments of their operands."""
    shapes = _WMMA if opcode == "wmma" else _MMA
    for a, b in (*((one, one) for one in shapes), ("s8", "u8"), ("u8", "s8")):
        # The ISA writes the rounding before the types; NVRTC writes it after them.
        rounding = ".rn/rz/rm/rp?" if a == "f64" else ""
        saturated = ".satfinite?" if a in ("s8", "u8") else ""
        for shape, d, c in product(shapes[a], _SUMS[a], _SUMS[a]):
            # A and B of f16 have eight registers in wmma, whatever their size.
            eight = opcode == "wmma" and a == "f16"
            parts = (
                _fragment("c", shape, d),
                _fragment("a", shape, a, eight),
                _fragment("b", shape, b, eight),
                _fragment("c", shape, c),
            )
            first, *rest = (one.operand for one in parts)
            operands = f"{first} = {' '.join(rest)}"
            if opcode == "wmma":
                inputs = "" if a == "f16" else f".{a}.{b}"
                start = f"wmma.mma.sync.aligned.row/col.row/col.{shape}{rounding}"
                yield f"{start}.{d}{inputs}.{c}{rounding}{saturated} {operands}", parts
            elif c == d:
                start = f"mma.sync.aligned.{shape}.row.col{rounding}{saturated}"
                yield f"{start}.{d}.{a}.{b}.{c}{rounding} {operands}", parts
    if opcode != "wmma":
        return
    for a in shapes:
        for shape in shapes[a]:
            end = f"sync.aligned.row/col.{shape}.global/shared/shared:cta?"
            for role in ("a", "b"):
                part = _fragment(role, shape, a, a == "f16")
                yield f"wmma.load.{role}.{end}.{a} {part.operand} = [] b32?", (part,)
            for sums in _SUMS[a]:
                part = _fragment("c", shape, sums)
                yield f"wmma.load.c.{end}.{sums} {part.operand} = [] b32?", (part,)
                yield f"wmma.store.d.{end}.{sums} = [] {part.operand} b32?", (part,)
