"""Matrices that are distributed over the registers of a warp.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions".

A *fragment* is a lane's part of a matrix. For ``mma`` the ISA defines which lane holds which
element. For ``wmma`` it does not, and here a larger matrix consists of several ``mma`` fragments,
as GPUs of sm_75 and later are known to do. If a fragment of ``wmma`` has more registers than its
matrix needs, the registers repeat.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from virtualgpu.lanes.wave import WARP
from virtualgpu.program.fragments import Fragment, Shape


def gather(fragment: Fragment, words: np.ndarray) -> np.ndarray:
    """Return the matrices of warps from their lanes' registers.

    Registers have shape (warps · 32, registers).
    """
    places = _places_of(fragment)
    elements = np.ascontiguousarray(words).view(fragment.element)[:, : places.shape[1]]
    matrices = np.empty((len(words) // WARP, places.size), fragment.element)
    matrices[:, places.ravel()] = elements.reshape(matrices.shape)
    return matrices.reshape(-1, *fragment.size)


def scatter(fragment: Fragment, matrices: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the lanes' registers, one array for each register.

    They are computed from the matrices of warps, shape (warps, rows, columns).
    """
    places = _places_of(fragment)
    elements = matrices.reshape(len(matrices), -1)[:, places.ravel()]
    words = elements.reshape(-1, places.shape[1]).view(fragment.word).T
    return tuple(words[i % len(words)].copy() for i in range(fragment.registers))


def _places_of(fragment: Fragment) -> np.ndarray:
    """Return the row-major index of the element that each lane holds in each position."""
    return _places(
        fragment.role, fragment.shape, fragment.word.itemsize // fragment.element.itemsize
    )


@lru_cache(maxsize=128)
def _places(role: str, shape: Shape, per_register: int) -> np.ndarray:
    """Return each element's position in the matrix, shape (32, elements of a lane).

    Tiles have 8 rows (8 columns for B), and four neighbouring lanes hold each of them. For A and
    C, two tiles one below the other come first, then those to the right, then those 16 rows below.
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
