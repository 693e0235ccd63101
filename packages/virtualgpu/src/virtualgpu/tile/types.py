"""Element types of tiles, and their representation in NumPy.

An integer is signless in Tile IR and signed here; unsigned operations reinterpret it. The formats
that NumPy lacks (bfloat16, tfloat32, 8-bit floats) are float32 arrays that contain only values of
the format; :func:`rounded` rounds a result to the format.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True)
class Element:
    """One element of a tile.

    Attributes
    ----------
    name : str
        Name in Tile IR: ``i32``, ``bf16``, ``ptr<f32>``.
    kind : str
        ``i`` integer, ``f`` float, ``p`` pointer.
    bits : int
        Size in memory.
    dtype : numpy.dtype
        Dtype of the arrays that represent tiles.
    pointee : Element or None
        Element type to which a pointer points.
    """

    name: str
    kind: str
    bits: int
    dtype: np.dtype
    pointee: Element | None = None

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.bits // 8 or 1

    @property
    def stored(self) -> np.dtype:
        """Return the dtype in memory: ``dtype``, or unsigned integers of the format's size."""
        if self.name in _NARROW:
            return np.dtype(f"u{self.size}")
        return np.dtype(np.uint8) if self.name == "i1" else self.dtype

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TileType:
    """The type of a tile; a scalar has shape ()."""

    element: Element
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"tile<{'x'.join([*map(str, self.shape), self.element.name])}>"


@dataclass(frozen=True)
class TensorType:
    """The type of a view of a whole array; None stands for a size or stride that is an operand."""

    element: Element
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]

    def __str__(self) -> str:
        sizes = "x".join("?" if size is None else str(size) for size in self.shape)
        return f"tensor_view<{sizes}x{self.element}>"


@dataclass(frozen=True)
class ViewType:
    """The type of a view that is loaded and stored tile by tile.

    ``kind`` is ``partition``, ``strided`` or ``gather_scatter``. Tile dimension ``d`` extends
    along dimension ``dims[d]`` of the tensor and begins at ``index * steps[d]``, except for the
    ``sparse`` dimension, which has an index for each element. ``padding`` is None if elements
    outside are unspecified.
    """

    kind: str
    shape: tuple[int, ...]
    tensor: TensorType
    dims: tuple[int, ...]
    steps: tuple[int, ...]
    padding: str | None
    sparse: int | None = None

    def __str__(self) -> str:
        return f"{self.kind}_view<tile=({'x'.join(map(str, self.shape))}), {self.tensor}>"


@dataclass(frozen=True)
class Token:
    """The type of a token, which orders memory operations of a block."""

    def __str__(self) -> str:
        return "token"


@dataclass(frozen=True)
class Signature:
    """The type of a function."""

    parameters: tuple
    results: tuple


def _element(name: str, kind: str, bits: int, dtype: type) -> Element:
    return Element(name, kind, bits, np.dtype(dtype))


# By their tags in bytecode ("Type Section" of the specification).
ELEMENTS = {
    0: _element("i1", "i", 1, np.bool_),
    1: _element("i8", "i", 8, np.int8),
    2: _element("i16", "i", 16, np.int16),
    3: _element("i32", "i", 32, np.int32),
    4: _element("i64", "i", 64, np.int64),
    5: _element("f16", "f", 16, np.float16),
    6: _element("bf16", "f", 16, np.float32),
    7: _element("f32", "f", 32, np.float32),
    8: _element("tf32", "f", 32, np.float32),
    9: _element("f64", "f", 64, np.float64),
    10: _element("f8E4M3FN", "f", 8, np.float32),
    11: _element("f8E5M2", "f", 8, np.float32),
    18: _element("f8E8M0FNU", "f", 8, np.float32),
}
LACKING = {19: "f4E2M1FN", 22: "i4", 130: "f8E5M3FNU"}
NAMED = {one.name: one for one in ELEMENTS.values()}
# Exponent bits, fraction bits and whether all-ones exponents are infinity and NaN (IEEE 754).
_NARROW = {
    "bf16": (8, 7, True),
    "f8E4M3FN": (4, 3, False),
    "f8E5M2": (5, 2, True),
    "f8E8M0FNU": (8, 0, False),
}


def pointer(pointee: Element) -> Element:
    return Element(f"ptr<{pointee}>", "p", 64, np.dtype(np.int64), pointee)


def unsigned(array: np.ndarray) -> np.ndarray:
    """Return the same bits, read as unsigned integers; booleans as they are."""
    array = np.asarray(array)
    return array if array.dtype == bool else array.view(f"u{array.dtype.itemsize}")


def rounded(array: np.ndarray, element: Element) -> np.ndarray:
    """Round ``array`` to the element's own format: to nearest, ties to even."""
    if element.name == "tf32":
        return _shortened(np.asarray(array, np.float32), 13)
    if element.name == "bf16":
        return _shortened(np.asarray(array, np.float32), 16)
    if element.name in _NARROW:
        return decoded(encoded(array, element), element)
    return np.asarray(array).astype(element.dtype, copy=False)


def _shortened(array: np.ndarray, cut: int) -> np.ndarray:
    """Round float32 to nearest even, dropping the last ``cut`` bits of the fraction."""
    bits = array.view(np.uint32)
    half = np.uint32((1 << cut - 1) - 1)
    up = bits + half + (bits >> np.uint32(cut) & np.uint32(1))
    kept = up & np.uint32(0xFFFFFFFF << cut & 0xFFFFFFFF)
    return np.where(np.isnan(array), array, kept.view(np.float32))


def encoded(array: np.ndarray, element: Element) -> np.ndarray:
    """Return the bits of values in memory: unsigned integers, or the array itself."""
    if element.name == "bf16":
        short = _shortened(np.asarray(array, np.float32), 16)
        return (np.asarray(short).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if element.name not in _NARROW:
        return np.asarray(array, element.dtype).astype(element.stored, copy=False)
    _values, middles, most = _ladder(element.name)
    array = np.asarray(array, np.float64)
    size = np.abs(array)
    code = np.searchsorted(middles, size)
    tie = (code < len(middles)) & (size == middles[np.minimum(code, len(middles) - 1)])
    code = code + (tie & (code % 2 == 1))
    exponent, fraction, ieee = _NARROW[element.name]
    nan = (1 << exponent + fraction) - 1
    past = ((1 << exponent) - 1) << fraction if ieee else nan
    code = np.where(size >= most, past, code)
    code = np.where(np.isnan(array), nan, code)
    if element.name != "f8E8M0FNU":
        code = code | (np.signbit(array).astype(np.int64) << 7)
    return code.astype(np.uint8)


def decoded(bits: np.ndarray, element: Element) -> np.ndarray:
    """Return the values of elements from their bits in memory."""
    if element.name == "bf16":
        return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if element.name in _NARROW:
        return _table(element.name)[np.asarray(bits)]
    return np.asarray(bits).astype(element.dtype, copy=False)


@cache
def _table(name: str) -> np.ndarray:
    """Return all 256 values of an 8-bit format (OCP 8-bit Floating Point Specification)."""
    exponent, fraction, ieee = _NARROW[name]
    codes = np.arange(256)
    if name == "f8E8M0FNU":
        return np.where(codes == 255, np.nan, np.exp2(codes - 127.0)).astype(np.float32)
    power, part = codes >> fraction & ((1 << exponent) - 1), codes & ((1 << fraction) - 1)
    bias, top = (1 << exponent - 1) - 1, (1 << exponent) - 1
    values = np.where(
        power == 0,
        part * 2.0 ** (1 - bias - fraction),
        (1 + part / 2**fraction) * np.exp2(power - float(bias)),
    )
    if ieee:
        values = np.where(power == top, np.where(part == 0, np.inf, np.nan), values)
    else:
        values = np.where((power == top) & (part == (1 << fraction) - 1), np.nan, values)
    return np.where(codes < 128, values, -values).astype(np.float32)


@cache
def _ladder(name: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the finite values from 0 up, their midpoints, and the smallest too-large value."""
    steps = _table(name) if name == "f8E8M0FNU" else _table(name)[:128]
    steps = steps[np.isfinite(steps)].astype(np.float64)
    beyond = steps[-1] + (steps[-1] - steps[-2]) / 2
    return steps, (steps[1:] + steps[:-1]) / 2, beyond
