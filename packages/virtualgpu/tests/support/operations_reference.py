"""What the tests of the operations compare with: exact fractions rounded once, Python integers,
and the operands at which arithmetic goes wrong.

Nothing here uses the code under test or NumPy's arithmetic: NumPy only carries bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from virtualgpu.operations import lookup

INF, NAN = "inf", "nan"


def call(name: str, *operands, destinations: int = 1):
    """Run the instruction ``name`` (with dots): lists are numbers, arrays are bits."""
    opcode, *modifiers = name.split(".")
    operation = lookup(opcode, tuple(modifiers), len(operands), destinations)
    arrays = []
    for operand, wanted in zip(operands, operation.sources, strict=True):
        if isinstance(operand, np.ndarray):
            assert operand.dtype.itemsize == wanted.itemsize, (name, operand.dtype, wanted)
            arrays.append(operand.view(wanted))
        else:
            arrays.append(np.array(operand, wanted))
    with np.errstate(all="ignore"):
        result = operation.function(*arrays)
    results = result if isinstance(result, tuple) else (result,)
    assert [r.dtype for r in results] == list(operation.destinations)
    return result


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: sign, exponent field, fraction field."""

    exponent_bits: int
    fraction_bits: int
    nan: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @lru_cache(maxsize=1 << 16)  # noqa: B019  (the formats live as long as the process)
    def value(self, bits: int) -> Fraction | str:
        """The number that the bits stand for: a fraction, or INF or NAN (see :meth:`negative`)."""
        fraction = bits & ((1 << self.fraction_bits) - 1)
        exponent = (bits & (self.sign - 1)) >> self.fraction_bits
        if exponent == (1 << self.exponent_bits) - 1:
            return NAN if fraction else INF
        if exponent:
            fraction += 1 << self.fraction_bits
        size = Fraction(fraction) * Fraction(2) ** (
            max(exponent, 1) - self.bias - self.fraction_bits
        )
        return -size if self.negative(bits) else size

    def negative(self, bits: int) -> bool:
        return bool(bits & self.sign)

    def round(self, exact: Fraction, mode: str = "n", negative_zero: bool = False) -> int:
        """The encoding of a fraction rounded once: nearest even, to zero, down (m) or up (p)."""
        if exact == 0:
            return self.sign if negative_zero else 0
        negative, size, unit = exact < 0, abs(exact.numerator), exact.denominator
        # The last place of the result is 2**place; steps of it, and what is left over.
        place = max(size.bit_length() - unit.bit_length() - 1, 1 - self.bias) - self.fraction_bits
        steps, rest = self._divide(size, unit, place)
        if steps >> (self.fraction_bits + 1):  # one binary place more than was estimated
            place += 1
            steps, rest = self._divide(size, unit, place)
        if mode == "n":
            steps += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and steps % 2)
        elif mode == ("m" if negative else "p"):
            steps += rest > 0
        # A carry out of the fraction raises the exponent by itself.
        bits = steps + ((place + self.fraction_bits + self.bias - 1) << self.fraction_bits)
        if bits >= self.infinity:
            inwards = mode == "z" or mode == ("p" if negative else "m")
            bits = self.infinity - 1 if inwards else self.infinity
        return bits | self.sign if negative else bits

    @staticmethod
    def _divide(size: int, unit: int, place: int) -> tuple[int, Fraction]:
        size, unit = size << max(-place, 0), unit << max(place, 0)
        steps, rest = divmod(size, unit)
        return steps, Fraction(rest, unit) if rest else Fraction(0)

    def is_subnormal(self, bits: int) -> bool:
        return 0 < (bits & (self.sign - 1)) < 1 << self.fraction_bits


F16 = Format(5, 10, 0x7FFF)
BF16 = Format(8, 7, 0x7FFF)
F32 = Format(8, 23, 0x7FFFFFFF)
F64 = Format(11, 52, 0xFFF8000000000000)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
BITS_DTYPE = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def nan_of(fmt: Format, *operands: int) -> int:
    """A NaN result: of f64 the first NaN among the operands, made quiet, else the format's."""
    for bits in operands if fmt is F64 else ():
        if fmt.value(bits) == NAN:
            return bits | 1 << 51
    return fmt.nan


def multiply_add(fmt: Format, a: int, b: int, c: int, mode: str = "n") -> int:
    """``a * b + c`` on encodings, by the rules of IEEE 754 (6.1 to 6.3)."""
    x, y, z = fmt.value(a), fmt.value(b), fmt.value(c)
    sign = fmt.negative(a) ^ fmt.negative(b)
    if NAN in (x, y, z) or (INF in (x, y) and 0 in (x, y)):
        return nan_of(fmt, b, c, a)
    if INF in (x, y):
        if z == INF and sign != fmt.negative(c):
            return fmt.nan
        return fmt.infinity | (fmt.sign if sign else 0)
    if z == INF:
        return c
    exact = x * y + z
    if exact == 0:
        # A sum of two zeros of one sign keeps it; else the sum is +0, or -0 rounding down.
        both = x * y == 0 and z == 0 and sign == fmt.negative(c)
        return fmt.round(exact, mode, sign if both else mode == "m")
    return fmt.round(exact, mode)


def add(fmt: Format, a: int, b: int, mode: str = "n") -> int:
    one = fmt.bias << fmt.fraction_bits
    return multiply_add(fmt, a, one, b, mode)


def multiply(fmt: Format, a: int, b: int, mode: str = "n") -> int:
    zero = fmt.sign if fmt.negative(a) ^ fmt.negative(b) else 0
    return multiply_add(fmt, a, b, zero, mode)


def divide(fmt: Format, a: int, b: int, mode: str = "n") -> int:
    x, y = fmt.value(a), fmt.value(b)
    sign = fmt.negative(a) ^ fmt.negative(b)
    signed = fmt.sign if sign else 0
    if NAN in (x, y) or (x == y == INF) or (x == 0 and y == 0):
        return nan_of(fmt, a, b)
    if x == INF or y == 0:
        return fmt.infinity | signed
    if y == INF:
        return signed
    return fmt.round(x / y, mode, sign)


def square_root(fmt: Format, a: int, mode: str = "n") -> int:
    x = fmt.value(a)
    if x == 0:
        return a
    if x == NAN or fmt.negative(a):
        return nan_of(fmt, a)
    if x == INF:
        return a
    # An integer root with so many places that only the sign of the rest matters, and that rest
    # kept as one more bit.
    scale = 4 ** (2 * fmt.bias + 4 * fmt.fraction_bits)
    scaled = x * scale
    root = math.isqrt(scaled.numerator // scaled.denominator)
    exact = Fraction(root) if Fraction(root) ** 2 == scaled else Fraction(2 * root + 1, 2)
    return fmt.round(exact / math.isqrt(scale), mode)


def edges(fmt: Format) -> list[int]:
    """Encodings at which arithmetic goes wrong, of both signs."""
    one = fmt.bias << fmt.fraction_bits
    smallest_normal = 1 << fmt.fraction_bits
    positive = [
        0,
        1,
        2,
        smallest_normal - 1,
        smallest_normal,
        smallest_normal + 1,
        one - 1,
        one,
        one + 1,
        one + (1 << (fmt.fraction_bits - 1)),
        one + smallest_normal,
        fmt.infinity - 1,
        fmt.infinity,
        fmt.infinity | 1 << (fmt.fraction_bits - 1),
    ]
    return positive + [bits | fmt.sign for bits in positive]


def samples(fmt: Format, count: int, seed: int) -> np.ndarray:
    """Random encodings: half of any exponent, half near 1 so that sums cancel and tie."""
    generator = np.random.default_rng(seed)
    bits = generator.integers(0, 1 << fmt.width, count, dtype=np.uint64)
    one = fmt.bias << fmt.fraction_bits
    near = generator.integers(0, 1 << (fmt.fraction_bits + 2), count, dtype=np.uint64)
    near = near + np.uint64(one - (1 << (fmt.fraction_bits + 1)))
    # Few set bits: exact halves and cancellations.
    near = np.where(
        generator.random(count) < 0.5,
        near & np.uint64(-1 << (fmt.fraction_bits - 3) & (1 << 64) - 1),
        near,
    )
    near |= generator.integers(0, 2, count, dtype=np.uint64) << np.uint64(fmt.width - 1)
    return np.where(generator.random(count) < 0.5, bits, near).astype(BITS_DTYPE[fmt.width])


def tuples(fmt: Format, count: int, random: int, seed: int) -> list[np.ndarray]:
    """``count`` operand arrays: every combination of the edges, then random ones."""
    table = np.array(edges(fmt), BITS_DTYPE[fmt.width])
    grids = [g.ravel() for g in np.meshgrid(*[table] * count)]
    return [np.concatenate([grid, samples(fmt, random, seed + i)]) for i, grid in enumerate(grids)]


def assert_bits(fmt: Format, got: np.ndarray, expected: list[int], *operands) -> None:
    """Equal bit for bit, NaN included."""
    bits = got.view(BITS_DTYPE[fmt.width])
    wanted = np.array(expected, BITS_DTYPE[fmt.width])
    wrong = bits != wanted
    if wrong.any():
        i = int(np.argmax(wrong))
        inputs = [hex(int(o[i % len(o)])) for o in operands]
        raise AssertionError(
            f"{int(wrong.sum())} of {len(wrong)} differ, first at {inputs}: "
            f"{int(bits[i]):#x} instead of {int(wanted[i]):#x}"
        )


def integers(kind: str) -> list[int]:
    """Edge values of an integer type."""
    width, signed = int(kind[1:]), kind[0] == "s"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    values = {
        0,
        1,
        2,
        3,
        5,
        7,
        10,
        low,
        low + 1,
        high,
        high - 1,
        high // 2,
        high // 2 + 1,
        high // 3,
        1 << (width // 2),
        (1 << (width // 2)) - 1,
        0x5A5A5A5A5A5A5A5A & high,
    }
    if signed:
        values |= {-v for v in values if low <= -v <= high}
    return sorted(values)


def wrap(value: int, kind: str) -> int:
    """A Python integer as an integer of ``kind`` that wraps."""
    width = int(kind[1:])
    value &= (1 << width) - 1
    return value - (1 << width) if kind[0] == "s" and value >> (width - 1) else value


def dtype(kind: str) -> np.dtype:
    return np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")


def combinations(*kinds: str) -> list[np.ndarray]:
    """Operand arrays: every combination of the edge values of each type."""
    grids = np.meshgrid(*[np.array(integers(kind), dtype(kind)) for kind in kinds])
    return [grid.ravel().copy() for grid in grids]
