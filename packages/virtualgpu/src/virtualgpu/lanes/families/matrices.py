"""Loads, stores and products of matrices by whole warps.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions".

The ISA does not define how sums are computed; here they agree with an H200
(``tests/operations/h200``). For f16, bf16 and tf32, an element of D is one sum
(:func:`_aligned_sum`). For f64, the sum starts with the element of C and adds the products in the
order of k, each with one ``fma``, rounded to nearest even or as the instruction says. Integer sums
are exact and then wrapped, or clamped by ``.satfinite``. For tf32 the lower 13 bits are ignored,
and a NaN result is the canonical one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from virtualgpu import operations
from virtualgpu.errors import BarrierError, MemoryAccessError, MisalignedAddressError
from virtualgpu.lanes import access
from virtualgpu.lanes.families.fragments import gather, scatter
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.warp_exchange import lane_ids
from virtualgpu.lanes.wave import WARP
from virtualgpu.memory import windows
from virtualgpu.operations.formats import NAN_16, NAN_F32, NAN_F64
from virtualgpu.program.fragments import Fragment
from virtualgpu.program.site import Site

_FLOATS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "f16": lambda bits: bits.view(np.float16),
    "bf16": lambda bits: (bits.astype(np.uint32) << 16).view(np.float32),
    "tf32": lambda bits: (bits & np.uint32(0xFFFFE000)).view(np.float32),
    "f32": lambda bits: bits.view(np.float32),
    "f64": lambda bits: bits.view(np.float64),
}
_SMALLEST_EXPONENT = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126}
_KEPT = 25  # binary places that a term of a sum keeps below the largest exponent


@dataclass(frozen=True)
class Product:
    """Computation of one ``mma``: D = A · B + C. ``site`` is its position in the program."""

    site: Site
    a: Fragment
    b: Fragment
    c: Fragment
    d: Fragment
    saturated: bool = False
    rounding: str = "rn"


@dataclass(frozen=True)
class Tile:
    """Matrix in memory, as ``wmma.load`` and ``wmma.store`` access it.

    ``lines`` is the number of rows of a row-major matrix or columns of a column-major one, and
    ``length`` is the number of elements in a line. Each lane moves ``site.size`` bytes at a time.
    """

    site: Site
    fragment: Fragment
    by_rows: bool

    @property
    def lines(self) -> int:
        return self.fragment.size[0 if self.by_rows else 1]

    @property
    def length(self) -> int:
        return self.fragment.size[1 if self.by_rows else 0]


# -- what instructions do --------------------------------------------------------------------------


def multiply(product: Product, group: Group, *words: np.ndarray) -> tuple[np.ndarray, ...]:
    """Compute ``mma``: from the registers of A, B and C to the registers of D."""
    check_warps(product.site, group)
    held = iter(words)
    a, b, c = (
        gather(one, np.stack([group.spread(next(held)) for _ in range(one.registers)], 1))
        for one in (product.a, product.b, product.c)
    )
    if product.d.type == "s32":
        total = a.astype(np.int64) @ b.astype(np.int64) + c
        if product.saturated:
            total = total.clip(-(1 << 31), (1 << 31) - 1)
        return scatter(product.d, total.astype(np.int32))
    a, b, c = (
        _FLOATS[one.type](bits).astype(np.float64)
        for one, bits in zip((product.a, product.b, product.c), (a, b, c), strict=True)
    )
    if product.d.type == "f64":
        fma = operations.lookup("fma", (product.rounding, "f64"), 3, 1).function
        for k in range(product.a.shape.k):
            c = np.asarray(fma(a[:, :, k, None], b[:, None, k, :], c))
        bits = np.ascontiguousarray(c).view(product.d.element)
        bits[np.isnan(c)] = NAN_F64
        return scatter(product.d, bits)
    total = _aligned_sum(product, a, b, c)
    to = product.d.type
    convert = operations.lookup("cvt", ("rn" if to == "f16" else "rz", to, "f64"), 1, 1).function
    bits = np.ascontiguousarray(convert(total)).view(product.d.element)
    bits[np.isnan(total)] = NAN_16 if to == "f16" else NAN_F32
    if to == "f32":
        beyond = np.abs(total) >= 2.0**128
        bits[beyond] = np.where(total[beyond] < 0, 0xFF800000, 0x7F800000)
    return scatter(product.d, bits)


def _aligned_sum(product: Product, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the unrounded A · B + C of f16, bf16 or tf32, exact in float64.

    An H200 adds the products over all of k and C at once. Each term is aligned to the largest
    exponent among them (the exponent of a product is the sum of those of its factors) and
    truncated towards zero after ``_KEPT`` binary places. Then the terms are added exactly. This
    was derived from its results for seven instructions, 20,480 lanes each (all equal). M. Fasi et
    al., "Numerical behavior of NVIDIA tensor cores" (2021), find the same for earlier GPUs with
    fewer terms and places. Three cases are not in the data, so the behaviour of a GPU is unknown:
    subnormal numbers (here they count), the sign of a zero sum (here +), and sums beyond the
    largest number (here infinite).
    """
    powers = [
        _powers(one, values)
        for one, values in zip((product.a, product.b, product.c), (a, b, c), strict=True)
    ]
    largest = powers[2].copy()
    for k in range(a.shape[2]):
        np.maximum(largest, powers[0][:, :, k, None] * powers[1][:, None, k, :], out=largest)
    scale = 2.0**_KEPT / np.where(largest > 0, largest, 1)
    total = np.trunc(c * scale)
    for k in range(a.shape[2]):
        total += np.trunc(a[:, :, k, None] * b[:, None, k, :] * scale)
    return total / scale


def _powers(fragment: Fragment, values: np.ndarray) -> np.ndarray:
    """Return two to the power of each number's exponent in its format.

    It is 0 for a zero and 1 for a number that is not finite.
    """
    exponents = np.maximum(np.frexp(values)[1] - 1, _SMALLEST_EXPONENT[fragment.type])
    return np.where(values == 0, 0.0, np.where(np.isfinite(values), np.ldexp(1.0, exponents), 1.0))


def load_rows(
    site: Site, count: int, transposed: bool, group: Group, address: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Execute ``ldmatrix``: load ``count`` matrices of 8 rows of 16 bytes, one register each."""
    part, where = _rows(site, count, group, address)
    tiles = np.stack(access.load(site, part, where), 1).view(np.uint16).reshape(-1, count, 8, 8)
    _moved(group, part)
    if transposed:
        tiles = tiles.swapaxes(2, 3)
    words = np.ascontiguousarray(tiles).view(np.uint32).reshape(-1, count, WARP)
    return tuple(words[:, i].ravel() for i in range(count))


def store_rows(
    site: Site, count: int, transposed: bool, group: Group, address: np.ndarray, *words: np.ndarray
) -> None:
    """Execute ``stmatrix``, the inverse of :func:`load_rows`."""
    part, where = _rows(site, count, group, address)
    held = np.stack([group.spread(one).reshape(-1, WARP) for one in words], 1)
    tiles = np.ascontiguousarray(held).view(np.uint16).reshape(-1, count, 8, 8)
    if transposed:
        tiles = np.ascontiguousarray(tiles.swapaxes(2, 3))
    access.store(site, part, where, *tiles.view(np.uint32).reshape(-1, 4).T)
    _moved(group, part)


def load_tile(
    tile: Tile, group: Group, address: np.ndarray, stride: np.ndarray | None
) -> tuple[np.ndarray, ...]:
    """Execute ``wmma.load``: load a fragment's registers from a matrix in memory."""
    fragment, site = tile.fragment, tile.site
    pieces = []
    for part, where in _pieces(tile, group, address, stride):
        got = access.load(site, part, where)
        words = np.stack(got if isinstance(got, tuple) else (got,), 1)
        pieces.append(_turned(words, group.count // WARP))
        _moved(group, part)
    matrices = np.concatenate(pieces, 1).view(fragment.element).reshape(-1, tile.lines, tile.length)
    return scatter(fragment, matrices if tile.by_rows else matrices.swapaxes(1, 2))


def store_tile(
    tile: Tile, group: Group, address: np.ndarray, stride: np.ndarray | None, *words: np.ndarray
) -> None:
    """Execute ``wmma.store``, the inverse of :func:`load_tile`."""
    pieces = _pieces(tile, group, address, stride)
    matrices = gather(tile.fragment, np.stack([group.spread(one) for one in words], 1))
    if not tile.by_rows:
        matrices = matrices.swapaxes(1, 2)
    values = np.ascontiguousarray(matrices).reshape(len(matrices), -1).view(np.uint32)
    at = 0
    for part, where in pieces:
        width = tile.site.width
        here = part.count // len(values) * width
        turned = _turned(values[:, at : at + here].reshape(-1, width), len(values))
        access.store(tile.site, part, where, *turned.reshape(-1, width).T)
        at += here
        _moved(group, part)


# -- which lane goes where -------------------------------------------------------------------------


def _rows(site: Site, count: int, group: Group, address: np.ndarray) -> tuple[Group, np.ndarray]:
    """Return the lanes that provide a row's address: eight for each matrix."""
    check_warps(site, group)
    where = group.spread(address)
    if site.space == "generic":
        _in_shared(site, group, where + _offset(site))
    chosen = np.flatnonzero(lane_ids(group) < 8 * count)
    return group.subset(chosen, group.block, ()), where[chosen]


def _pieces(
    tile: Tile, group: Group, address: np.ndarray, stride: np.ndarray | None
) -> list[tuple[Group, np.ndarray]]:
    """Return lanes and addresses such that neighbouring lanes take neighbouring pieces.

    The last lane takes the first piece. The ISA does not define which lane moves which piece, so
    no program may rely on it. With this order, a warp that filled the tile in the natural order
    and did not synchronise gets a wrong result.
    """
    site, fragment, size = tile.site, tile.fragment, tile.fragment.element.itemsize
    check_warps(site, group)
    given = np.array([tile.length], np.uint32) if stride is None else stride
    where, steps = group.spread(address), group.spread(given.astype(np.uint64)) * np.uint64(size)
    for what, values in (("address", where), ("stride", steps)):
        of_warps = values.reshape(-1, WARP)
        if (bad := (of_warps != of_warps[:, :1])).any():
            _fault(
                BarrierError,
                site,
                group,
                int(np.argmax(bad.ravel())),
                f"this thread's {what} differs from that of its warp's first thread; all lanes "
                f"of a warp access the same matrix and must pass the same {what}",
            )
    start = where + _offset(site)
    if site.space == "generic":
        local = windows.reaches(start, "local")
        if local.any():
            _fault(
                MemoryAccessError,
                site,
                group,
                int(np.argmax(local)),
                "the matrix is in a thread's local memory, which the other lanes of its warp "
                "cannot reach; keep it in global or shared memory",
            )
    for values, multiple, what in (
        (start, min(fragment.nbytes, 32), "the matrix starts at an address that"),
        (steps, min(fragment.nbytes, 16), "the number of bytes from one line to the next"),
    ):
        if (bad := values & np.uint64(multiple - 1) != 0).any():
            at = int(np.argmax(bad))
            _fault(
                MisalignedAddressError,
                site,
                group,
                at,
                f"misaligned address: {what} is not a multiple of {multiple} "
                f"({int(values[at]):#x}). Start tiles at multiples of {multiple} bytes "
                "(alignas(32) for an array) and pad rows by 16 bytes",
            )
    a_line = tile.length * size // site.size
    total = tile.lines * a_line
    lane, found = lane_ids(group).astype(np.int64), []
    for first in range(0, total, WARP):
        turn = min(WARP, total - first)
        chosen = np.flatnonzero(lane < turn)
        number = first + turn - 1 - lane[chosen]
        line, piece = (one.astype(np.uint64) for one in np.divmod(number, a_line))
        found.append(
            (
                group.subset(chosen, group.block, ()),
                where[chosen] + line * steps[chosen] + piece * np.uint64(site.size),
            )
        )
    return found


def _turned(words: np.ndarray, warps: int) -> np.ndarray:
    """Exchange the words of lanes, shape (lanes, words), and of pieces, shape (warps, …)."""
    return words.reshape(warps, -1, words.shape[1])[:, ::-1].reshape(warps, -1)


def _offset(site: Site) -> np.uint64:
    return np.uint64(site.offset & 0xFFFF_FFFF_FFFF_FFFF)


def _moved(group: Group, part: Group) -> None:
    group.changed |= part.changed
    group.waited = max(group.waited, part.waited)


# -- misuse ----------------------------------------------------------------------------------------


def check_warps(site: Site, group: Group) -> None:
    """Raise an error unless all 32 lanes of each warp are here."""
    if group.full and group.wave.threads % WARP == 0:
        return
    warps, counts = np.unique(group.take(group.wave.warp_of), return_counts=True)
    if (counts == WARP).all():
        return
    few = warps[counts < WARP][0]
    at = int(np.argmax(group.take(group.wave.warp_of) == few))
    here = int(counts[counts < WARP][0])
    _fault(
        BarrierError,
        site,
        group,
        at,
        f"{here} of the 32 lanes of this warp run {site.instruction.name}, but all of "
        "them must run it together. Launch whole warps (a block size that is a multiple "
        "of 32). Keep the call out of branches that only some lanes of a warp take",
    )


def _in_shared(site: Site, group: Group, where: np.ndarray) -> None:
    outside = ~windows.reaches(where, "shared")
    if outside.any():
        _fault(
            MemoryAccessError,
            site,
            group,
            int(np.argmax(outside)),
            f"{site.instruction.name} needs addresses in shared memory, but this row is not "
            "there; copy the tile to a __shared__ array first",
        )


def _fault(
    kind: type[BarrierError | MemoryAccessError], site: Site, group: Group, at: int, words: str
) -> NoReturn:
    raise kind(words, site.location(group, int(group.lanes[at])))
