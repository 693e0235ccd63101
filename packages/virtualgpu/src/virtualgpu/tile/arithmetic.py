"""Element-by-element operations on tiles, and matrix products.

A function takes the operation and its tiles as NumPy arrays and returns the result. A format that
NumPy lacks is represented as float32, and results are rounded to it (:mod:`.types`). The functions
are called under ``np.errstate(all="ignore")``, because a division by zero is not an error on a
GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from virtualgpu.errors import UnsupportedInstruction
from virtualgpu.operations.table import lookup
from virtualgpu.tile.body import TileOperation
from virtualgpu.tile.types import decoded, encoded, rounded, unsigned

ELEMENTWISE: dict[str, Callable[..., np.ndarray]] = {}
_NORMAL = {2: np.float16(2.0**-14), 4: np.float32(2.0**-126), 8: np.float64(2.0**-1022)}


def _does(*names: str):
    def put(function):
        ELEMENTWISE.update(dict.fromkeys(names, function))
        return function

    return put


def _flushed(array: np.ndarray) -> np.ndarray:
    """Replace subnormal numbers by zeros of the same sign."""
    return np.where(
        np.abs(array) < _NORMAL[array.dtype.itemsize],
        np.copysign(array.dtype.type(0), array),
        array,
    )


def _float(function: Callable[..., np.ndarray]):
    """Wrap a function of floats: flush subnormal numbers if requested, and round to the format."""

    def run(operation: TileOperation, *tiles: np.ndarray) -> np.ndarray:
        element = operation.results[0].element
        if "ftz" in operation.flags:
            tiles = tuple(map(_flushed, tiles))
        result = rounded(function(*tiles), element)
        return _flushed(result) if "ftz" in operation.flags else result

    return run


def _widely(function: Callable[..., np.ndarray]):
    """Wrap a function that computes in float64 unless its result is float64."""
    return _float(lambda *tiles: function(*[np.asarray(one, np.float64) for one in tiles]))


_MODES = {"zero": "rz", "negative_inf": "rm", "positive_inf": "rp"}
# Where a GPU may be less exact ("approx", "full"), results are rounded to nearest.
_NEAREST = ("nearest_even", "approx", "full", None)


def _directed(name: str, plain: Callable[..., np.ndarray]):
    """Return an operation with a rounding mode, using the host's own arithmetic."""
    nearest = _float(plain)

    def run(operation: TileOperation, *tiles: np.ndarray) -> np.ndarray:
        mode, element = operation.attributes.get("rounding"), operation.results[0].element
        if mode in _NEAREST:
            return nearest(operation, *tiles)
        if mode not in _MODES or element.name not in ("f32", "f64"):
            raise UnsupportedInstruction(
                f"{operation}: the virtual GPU does not round {element} by {mode}"
            )
        ftz = ("ftz",) if "ftz" in operation.flags and element.name == "f32" else ()
        does = lookup(name, (_MODES[mode], *ftz, element.name), len(tiles), 1)
        return _apply(does.function, tiles)

    return run


def _apply(function: Callable, tiles: tuple[np.ndarray, ...]) -> np.ndarray:
    whole = np.broadcast_arrays(*tiles)
    return np.asarray(function(*[np.ascontiguousarray(one).reshape(-1) for one in whole])).reshape(
        whole[0].shape
    )


def _fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Multiply and add with one rounding, in float64 if the product is exact there."""
    if a.dtype == np.float16:
        return np.multiply(a, b, dtype=np.float64) + c
    return _apply(
        lookup("fma", ("rn", "f32" if a.dtype == np.float32 else "f64"), 3, 1).function, (a, b, c)
    )


_plain: Callable[..., np.ndarray]
for _name, _plain in (
    ("addf", np.add),
    ("subf", np.subtract),
    ("mulf", np.multiply),
    ("divf", np.divide),
):
    ELEMENTWISE[_name] = _directed({"divf": "div"}.get(_name, _name[:3]), _plain)
ELEMENTWISE["fma"] = _directed("fma", _fma)
ELEMENTWISE["sqrt"] = _directed("sqrt", np.sqrt)
for _name, _plain in (
    ("absf", np.abs),
    ("negf", np.negative),
    ("ceil", np.ceil),
    ("floor", np.floor),
    ("remf", np.fmod),
):
    ELEMENTWISE[_name] = _float(_plain)
for _name, _plain in (
    ("exp", np.exp),
    ("exp2", np.exp2),
    ("log", np.log),
    ("log2", np.log2),
    ("sin", np.sin),
    ("cos", np.cos),
    ("tan", np.tan),
    ("sinh", np.sinh),
    ("cosh", np.cosh),
    ("tanh", np.tanh),
    ("pow", np.power),
    ("atan2", np.arctan2),
    ("fpowi", np.power),
    ("rsqrt", lambda x: 1 / np.sqrt(x)),
):
    ELEMENTWISE[_name] = _widely(_plain)


@_does("maxf", "minf")
def _extreme(operation: TileOperation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if "ftz" in operation.flags:
        a, b = _flushed(a), _flushed(b)
    if operation.name == "maxf":
        return (np.maximum if "nan" in operation.flags else np.fmax)(a, b)
    return (np.minimum if "nan" in operation.flags else np.fmin)(a, b)


_COMPARES = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


@_does("cmpf")
def _compare(operation: TileOperation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    said = _COMPARES[operation.attributes["predicate"]](a, b)
    neither = np.isnan(a) | np.isnan(b)
    return said | neither if operation.attributes["ordering"] == "unordered" else said & ~neither


# -- integers ------------------------------------------------------------------------------------


def _meant(operation: TileOperation, *tiles: np.ndarray, name: str = "sign") -> list[np.ndarray]:
    """Return tiles as signed or unsigned, according to the operation's attribute."""
    return list(tiles if operation.attributes[name] == "signed" else map(unsigned, tiles))


def _integer(function: Callable[..., np.ndarray], *, as_bool: Callable[..., np.ndarray]):
    def run(operation: TileOperation, *tiles: np.ndarray) -> np.ndarray:
        return (as_bool if tiles[0].dtype == bool else function)(*tiles)

    return run


for _name, _plain, _bool in (
    ("addi", np.add, np.logical_xor),
    ("subi", np.subtract, np.logical_xor),
    ("muli", np.multiply, np.logical_and),
    ("andi", np.bitwise_and, np.logical_and),
    ("ori", np.bitwise_or, np.logical_or),
    ("xori", np.bitwise_xor, np.logical_xor),
    ("negi", np.negative, np.positive),
    ("absi", np.abs, np.positive),
):
    ELEMENTWISE[_name] = _integer(
        _plain, as_bool=((lambda x: x) if _bool is np.positive else _bool)
    )


@_does("maxi", "mini")
def _extreme_integer(operation: TileOperation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    function = np.maximum if operation.name == "maxi" else np.minimum
    return _back(function(*_meant(operation, a, b)), a)


def _back(result: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return the same bits in the tile's own dtype."""
    result = np.asarray(result)
    return result if result.dtype == like.dtype else result.view(like.dtype)


@_does("cmpi")
def _compare_integers(operation: TileOperation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype == bool and operation.attributes["sign"] == "signed":
        a, b = -a.astype(np.int8), -b.astype(np.int8)  # the only bit is the sign
    return _COMPARES[operation.attributes["predicate"]](*_meant(operation, a, b))


@_does("divi", "remi")
def _divide(operation: TileOperation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Divide, or take the remainder. Division by zero gives the result of PTX's div and rem.

    A quotient by zero has all bits set, and the remainder is the dividend.
    """
    if a.dtype == bool:
        return a if operation.name == "divi" else a & ~b
    x, y = _meant(operation, a, b)
    zero = y == 0
    y = np.where(zero, y.dtype.type(1), y)
    rest = np.fmod(x, y)  # sign of the dividend
    if operation.name == "remi":
        return _back(np.where(zero, x, rest), a)
    whole = ((x - rest) // y).astype(x.dtype)
    mode = operation.attributes["rounding"]
    if mode in ("negative_inf", "positive_inf"):
        below = (rest < 0) != (y < 0)
        step = (rest != 0) & (below if mode == "negative_inf" else ~below)
        whole = whole + np.where(step, -1 if mode == "negative_inf" else 1, 0).astype(x.dtype)
    return _back(np.where(zero, np.invert(np.zeros_like(x)), whole), a)


@_does("shli", "shri")
def _shift(operation: TileOperation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Shift; from the width on, only zeros or sign bits remain (PTX's shl and shr)."""
    if a.dtype == bool:
        return a & ~b
    bits = a.dtype.itemsize * 8
    by = np.minimum(unsigned(b), bits)
    within = np.minimum(by, bits - 1)
    if operation.name == "shli":
        return _back(
            np.where(by == bits, 0, np.left_shift(unsigned(a), within)).astype(unsigned(a).dtype), a
        )
    if operation.attributes["sign"] == "signed":
        return np.right_shift(a, within.astype(a.dtype))
    shifted = np.right_shift(unsigned(a), within)
    return _back(np.where(by == bits, 0, shifted).astype(shifted.dtype), a)


@_does("mulhii")
def _high(operation: TileOperation, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    if a.dtype == bool:
        return np.zeros_like(a)
    x, y = unsigned(a), unsigned(b)
    if bits < 64:
        wide = x.astype(np.uint64) * y.astype(np.uint64)
        return _back((wide >> np.uint64(bits)).astype(x.dtype), a)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = x0 * y1 + (middle & low)
    return _back(x1 * y1 + (middle >> half) + (other >> half), a)


# -- conversions ---------------------------------------------------------------------------------


@_does("exti", "trunci")
def _resize(operation: TileOperation, a: np.ndarray) -> np.ndarray:
    to = operation.results[0].element
    if a.dtype == bool:
        wide = a.astype(to.dtype)
        return -wide if operation.attributes.get("sign") == "signed" else wide
    if to.name == "i1":
        return (a & a.dtype.type(1)).astype(bool)
    if operation.attributes.get("sign") == "unsigned":
        a = unsigned(a)
    return a.astype(to.dtype)


@_does("ftof")
def _refloat(operation: TileOperation, a: np.ndarray) -> np.ndarray:
    to, mode = operation.results[0].element, operation.attributes["rounding"]
    nearest = rounded(a, to)
    if mode in _NEAREST:
        return nearest
    if mode not in (*_MODES, "nearest_away"):
        raise UnsupportedInstruction(
            f"{operation}: the virtual GPU does not round to {to} by {mode}"
        )
    # The format's two values around the number; codes are in the order of the values.
    size = np.abs(np.asarray(a, np.float64))
    near = rounded(size, to)
    codes, step = _bits(near, to), 1 << 13 if to.name == "tf32" else 1
    low, high = (
        decoded((codes + codes.dtype.type(step) * by).astype(codes.dtype).view(to.stored), to)
        for by in (-(near > size).astype(np.int8), near < size)
    )
    if mode == "nearest_away":
        upper = np.where(np.isfinite(high), high - size <= size - low, near > size)
    else:
        upper = a < 0 if mode == "negative_inf" else (a > 0) & (mode == "positive_inf")
    found = np.where(upper, high, low)
    signed = found if to.name == "f8E8M0FNU" else np.copysign(found, a)
    return np.where(np.isnan(a), nearest, signed).astype(to.dtype)


@_does("itof")
def _to_float(operation: TileOperation, a: np.ndarray) -> np.ndarray:
    to = operation.results[0].element
    if a.dtype == bool:
        a = a.astype(np.int8)
        (a,) = (-a,) if operation.attributes["sign"] == "signed" else (a,)
    (a,) = _meant(operation, a)
    if to.dtype == np.float16 and a.dtype.itemsize > 2:
        return (
            np.clip(a, -65536 if a.dtype.kind == "i" else 0, 65536)
            .astype(np.float32)
            .astype(np.float16)
        )
    return rounded(a.astype(to.dtype), to)


@_does("ftoi")
def _to_integer(operation: TileOperation, a: np.ndarray) -> np.ndarray:
    """Convert to integers: towards zero, saturating, NaN to 0 (PTX's cvt)."""
    to = operation.results[0].element
    if to.name == "i1":
        return np.trunc(a) != 0
    signed = operation.attributes["sign"] == "signed"
    dtype = to.dtype if signed else np.dtype(f"u{to.dtype.itemsize}")
    limits, wide = np.iinfo(dtype), np.trunc(np.asarray(a, np.float64))
    inside = np.where(np.isnan(wide), 0, wide)
    high, low = inside >= float(limits.max), inside <= float(limits.min)
    result = np.where(high | low, 0, inside).astype(dtype)
    result = np.where(high, dtype.type(limits.max), result)
    return _back(np.where(low, dtype.type(limits.min), result), np.zeros((), to.dtype))


def _bits(array: np.ndarray, element) -> np.ndarray:
    array = np.ascontiguousarray(encoded(array, element))
    return array if array.dtype == bool else array.view(f"u{array.dtype.itemsize}")


@_does("bitcast")
def _bitcast(operation: TileOperation, a: np.ndarray) -> np.ndarray:
    here, there = operation.types[0].element, operation.results[0].element
    return decoded(_bits(a, here).reshape(np.shape(a)).view(there.stored), there).astype(
        there.dtype, copy=False
    )


@_does("pack")
def _pack(operation: TileOperation, a: np.ndarray) -> np.ndarray:
    return _bits(a, operation.types[0].element).view(np.int8)


@_does("unpack")
def _unpack(operation: TileOperation, a: np.ndarray) -> np.ndarray:
    there = operation.results[0].element
    return decoded(np.ascontiguousarray(a).view(there.stored), there)


@_does("int_to_ptr", "ptr_to_int", "ptr_to_ptr", "assume")
def _as_it_is(operation: TileOperation, a: np.ndarray) -> np.ndarray:
    return np.asarray(a).astype(operation.results[0].element.dtype)


@_does("offset")
def _offset(operation: TileOperation, pointers: np.ndarray, by: np.ndarray) -> np.ndarray:
    return pointers + by.astype(np.int64) * operation.types[0].element.pointee.size


@_does("select")
def _select(
    operation: TileOperation, condition: np.ndarray, yes: np.ndarray, no: np.ndarray
) -> np.ndarray:
    return np.where(condition, yes, no)


# -- matrix products -----------------------------------------------------------------------------


@_does("mmaf")
def _product(operation: TileOperation, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return a matrix product.

    Products are exact. Sums are accumulated in float32, or in float64 for f64. A GPU adds in
    another order, so the last bits may differ.
    """
    wide = np.float64 if c.dtype == np.float64 else np.float32
    return rounded(np.matmul(a.astype(wide), b.astype(wide)) + c, operation.results[0].element)


@_does("mmai")
def _integer_product(
    operation: TileOperation, a: np.ndarray, b: np.ndarray, c: np.ndarray
) -> np.ndarray:
    (a,), (b,) = _meant(operation, a, name="left"), _meant(operation, b, name="right")
    if a.shape[-1] <= 1 << 20:  # sums of 8-bit products are exact in float64, which BLAS multiplies
        exact = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
        return (exact + c).astype(np.int32)
    return np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32) + c


@lru_cache(1024)
def constant(data: bytes, tile) -> np.ndarray:
    """Return a constant's tile from its bytes (read-only).

    The bytes hold one value for all elements, or one for each.
    """
    element, count = tile.element, math.prod(tile.shape)
    if element.name == "i1":
        if len(data) == 1 and (count > 8 or data[0] in (0, 255)):
            values = np.full(count, data[0] != 0)
        else:
            values = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count].astype(
                bool
            )
    elif element.name == "tf32":
        raw = np.frombuffer(data, np.uint8).reshape(-1, 3).astype(np.uint32)
        bits = raw[:, 0] | raw[:, 1] << 8 | raw[:, 2] << 16
        values = (bits << np.uint32(13)).view(np.float32)
    else:
        values = decoded(np.frombuffer(data, element.stored), element)
    made = np.broadcast_to(values, (count,)).reshape(tile.shape)
    made = np.array(made, element.dtype)
    made.flags.writeable = False
    return made
