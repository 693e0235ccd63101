"""Matrices spread over the registers of a warp.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions".

A *fragment* is a lane's part of a matrix. For ``mma`` the ISA says which lane holds which element;
for ``wmma`` it leaves that open, and here a matrix of more rows or columns is the fragments of
``mma`` side by side, which is what GPUs of sm_75 and later are known to do. Where a fragment of
``wmma`` has more registers than its matrix needs, the registers repeat.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from virtualgpu.lanes.wave import WARP

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


class Shape(NamedTuple):
    """A is m × k, B is k × n, C and D are m × n."""

    m: int
    n: int
    k: int

    @classmethod
    def of(cls, modifier: str) -> Shape | None:
        """``m16n8k16``; None where it is no shape."""
        found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", modifier)
        return found and cls(*map(int, found.groups()))

    def __str__(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"


@dataclass(frozen=True)
class Fragment:
    """Distribution of the matrix ``role`` (a, b or c) of a PTX type over a warp.

    ``registers`` says how many a lane has: of 64 bits for f64, else of 32.
    """

    role: str
    shape: Shape
    type: str
    registers: int

    @property
    def word(self) -> np.dtype:
        """A register's bits."""
        return np.dtype("u8" if self.type == "f64" else "u4")

    @property
    def element(self) -> np.dtype:
        """An element's bits; an integer as itself."""
        return np.dtype(_ELEMENTS[self.type])

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        m, n, k = self.shape
        return {"a": (m, k), "b": (k, n), "c": (m, n)}[self.role]

    @property
    def nbytes(self) -> int:
        """Return the bytes of a lane's registers."""
        return self.registers * self.word.itemsize

    @property
    def places(self) -> np.ndarray:
        """Return the element, in row-major order, that each lane holds in each place."""
        return _places(self.role, self.shape, self.word.itemsize // self.element.itemsize)

    def gather(self, words: np.ndarray) -> np.ndarray:
        """Return the matrices of warps from their lanes' registers.

        Registers have shape (warps · 32, registers).
        """
        places = self.places
        elements = np.ascontiguousarray(words).view(self.element)[:, : places.shape[1]]
        matrices = np.empty((len(words) // WARP, places.size), self.element)
        matrices[:, places.ravel()] = elements.reshape(matrices.shape)
        return matrices.reshape(-1, *self.size)

    def scatter(self, matrices: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the lanes' registers, one array each.

        They come from the matrices of warps, shape (warps, rows, columns).
        """
        places = self.places
        elements = matrices.reshape(len(matrices), -1)[:, places.ravel()]
        words = elements.reshape(-1, places.shape[1]).view(self.word).T
        return tuple(words[i % len(words)].copy() for i in range(self.registers))


def registers_of(role: str, shape: Shape, type_: str) -> int:
    """Return how many registers of a lane hold its part, each element once."""
    fragment = Fragment(role, shape, type_, 0)
    rows, columns = fragment.size
    return rows * columns * fragment.element.itemsize // (WARP * fragment.word.itemsize)


@lru_cache(maxsize=128)
def _places(role: str, shape: Shape, per_register: int) -> np.ndarray:
    """Positions in the matrix, shape (32, elements of a lane).

    Tiles are of 8 rows (of B: columns), each of which four neighbouring lanes hold. Of A and C two
    tiles one below the other come first, then those to the right, then those 16 rows below.
    """
    m, n, k = shape
    lane = np.arange(WARP)[:, None]
    in_tile, place = lane >> 2, lane & 3
    if role == "c":
        pair, element = np.divmod(np.arange(m * n // WARP), 2)
        across, width, step = n // 8, n, 8
        inner = place * 2 + element
    else:
        size = m * k if role == "a" else k * n
        pair, element = np.divmod(np.arange(size // WARP), per_register)
        step = 4 * per_register
        across, width = k // step, k
        inner = place * per_register + element
    if role == "b":
        tile, chunk = np.divmod(pair, across)
        found: np.ndarray = (chunk * step + inner) * n + tile * 8 + in_tile
        return found
    down = min(m // 8, 2)
    below, rest = np.divmod(pair, down * across)
    row = below * 16 + rest % down * 8 + in_tile
    return np.asarray(row * width + rest // down * step + inner)
