"""Products of matrices as the machine defines them: laid out by hand, from the PTX ISA's text on
each shape, and summed in exact arithmetic that is rounded once a step."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

# Which row and column the lane 4 * g + t holds at its place i.
C16 = (4, lambda g, t, i: (g + 8 * (i >= 2), t * 2 + i % 2))
C8 = (2, lambda g, t, i: (g, t * 2 + i))
A2 = (2, lambda g, t, i: (g + 8 * i, t))
A4 = (4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4))
B1 = (1, lambda g, t, i: (t, g))
B2 = (2, lambda g, t, i: (t if i == 0 else t + 4, g))
LAYOUTS = {
    ("16", "m16n8k8"): (
        (4, lambda g, t, i: (g if i < 2 else g + 8, t * 2 + i % 2)),
        (2, lambda g, t, i: (t * 2 + i, g)),
        C16,
    ),
    ("16", "m16n8k16"): (
        (
            8,
            lambda g, t, i: (
                g if i in (0, 1, 4, 5) else g + 8,
                t * 2 + i % 2 + (0 if i < 4 else 8),
            ),
        ),
        (4, lambda g, t, i: (t * 2 + i % 2 + (0 if i < 2 else 8), g)),
        C16,
    ),
    ("32", "m16n8k4"): (A2, B1, C16),
    ("32", "m16n8k8"): (A4, B2, C16),
    ("64", "m8n8k4"): ((1, lambda g, t, i: (g, t)), B1, C8),
    ("64", "m16n8k4"): (A2, B1, C16),
    ("64", "m16n8k8"): (A4, B2, C16),
    ("64", "m16n8k16"): (
        (8, lambda g, t, i: (g + i % 2 * 8, i // 2 * 4 + t)),
        (4, lambda g, t, i: (i * 4 + t, g)),
        C16,
    ),
    ("8", "m8n8k16"): (
        (4, lambda g, t, i: (g, t * 4 + i)),
        (4, lambda g, t, i: (t * 4 + i, g)),
        C8,
    ),
    ("8", "m16n8k16"): (
        (8, lambda g, t, i: (g if i < 4 else g + 8, t * 4 + i % 4)),
        (4, lambda g, t, i: (t * 4 + i, g)),
        C16,
    ),
    ("8", "m16n8k32"): (
        (
            16,
            lambda g, t, i: (
                g if i < 4 or 8 <= i < 12 else g + 8,
                t * 4 + i % 4 + (0 if i < 8 else 16),
            ),
        ),
        (8, lambda g, t, i: (t * 4 + i % 4 + (0 if i < 4 else 16), g)),
        C16,
    ),
}
WIDTH = {"f16": "16", "bf16": "16", "tf32": "32", "f64": "64", "s8": "8", "u8": "8"}
BITS = {
    "f16": "u2",
    "bf16": "u2",
    "tf32": "u4",
    "f32": "u4",
    "f64": "u8",
    "s8": "i1",
    "u8": "u1",
    "s32": "i4",
}
FORMATS = {"f16": (11, -14, 15), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
EDGES = {
    "f16": (0, 0x8000, 1, 0x83FF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x0400),
    "bf16": (0, 0x8000, 1, 0x807F, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0x0080),
    "tf32": (
        0,
        0x80000000,
        0x2000,
        0x1FFF,
        0x7F7FE000,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0x3F801FFF,
    ),
    "f32": (0, 0x80000000, 1, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0x7F800001, 0x00800000),
    "f64": (0, 1 << 63, 1, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF8000000000000),
    "s8": (-128, 127, 0, -1),
    "u8": (255, 0, 1, 128),
    "s32": (-(1 << 31), (1 << 31) - 1, (1 << 31) - 5, 0),
}


def numbers(chance, type_: str, size: tuple[int, int], edges: float) -> np.ndarray:
    """Bits of random numbers of about 1, some of them of the edge."""
    dtype = np.dtype(BITS[type_])
    if dtype.kind == "i" or type_ == "u8":
        limits = np.iinfo(dtype)
        found = chance.integers(limits.min, limits.max, size, dtype, endpoint=True)
    elif type_ == "f16":
        found = chance.normal(size=size).astype(np.float16).view(np.uint16)
    elif type_ == "f64":
        found = chance.normal(size=size).view(np.uint64)
    else:
        found = chance.normal(size=size).astype(np.float32).view(np.uint32)
        found = (found >> 16).astype(np.uint16) if type_ == "bf16" else found
    picked = chance.choice(np.array(EDGES[type_], dtype), size)
    return np.where(chance.random(size) < edges, picked, found)


def value(bits: int, type_: str) -> float:
    """As Python's float, which holds them all exactly; the lower 13 bits of tf32 do not count."""
    if type_ == "bf16":
        return float(np.uint32(int(bits) << 16).view(np.float32))
    if type_ == "tf32":
        return float(np.uint32(int(bits) & 0xFFFFE000).view(np.float32))
    if type_[0] in "su":
        return int(bits)
    return float(bits.view(f"f{bits.itemsize}"))


def rounded(x: Fraction, type_: str, mode: str = "rn") -> float:
    """The number of a format next to ``x``, which is not 0."""
    digits, smallest, largest = FORMATS[type_]
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** (max(exponent, smallest) - digits + 1)
    steps = {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}[mode](x / unit)
    result = abs(steps * unit)
    limit = (2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** largest
    if result > limit:
        outwards = mode == "rn" or mode == ("rp" if x > 0 else "rm")
        return (1 if x > 0 else -1) * (math.inf if outwards else float(limit))
    return (1 if x > 0 else -1) * float(result)


def fma(a: float, b: float, c: float, type_: str, mode: str) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        if (
            math.isnan(a)
            or math.isnan(b)
            or (0 in (a, b) and not (math.isfinite(a) and math.isfinite(b)))
        ):
            return math.nan
        product = (
            math.copysign(1, a)
            * math.copysign(1, b)
            * (1 if math.isfinite(a) and math.isfinite(b) else math.inf)
        )
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return rounded(exact, type_, mode)
    sign = math.copysign(1, a) * math.copysign(1, b)
    if a * b == 0 and c == 0 and sign == math.copysign(1, c):
        return c
    return -0.0 if mode == "rm" else 0.0


def _exponent(x: float, type_: str) -> int:
    return max(math.frexp(x)[1] - 1, -14 if type_ == "f16" else -126)


def aligned_sum(pairs: list[tuple[float, float]], c: float, types) -> float:
    """C and all products at once: brought to the largest exponent, cut after 25 places, added,
    then cut to f32 or rounded to f16."""
    if not all(map(math.isfinite, (c, *(x for pair in pairs for x in pair)))):
        return sum((x * y for x, y in pairs), c)
    d_type, a_type, _, c_type = types
    terms = [
        (Fraction(x) * Fraction(y), _exponent(x, a_type) + _exponent(y, a_type))
        for x, y in pairs
        if x and y
    ] + [(Fraction(c), _exponent(c, c_type))] * bool(c)
    if not terms:
        return 0.0
    unit = Fraction(2) ** (max(exponent for _, exponent in terms) - 25)
    total = sum(math.trunc(term / unit) for term, _ in terms) * unit
    if d_type == "f32" and abs(total) >= 2**128:
        return math.inf if total > 0 else -math.inf
    return rounded(total, d_type, "rn" if d_type == "f16" else "rz") if total else 0.0


def product(a, b, c, types, mode="rn", saturated=False) -> np.ndarray:
    """D's bits from those of A, B and C: the definition in docs/virtualgpu.md, step by step."""
    d_type, a_type, b_type, c_type = types
    d = np.empty(c.shape, BITS[d_type])
    for at in np.ndindex(*c.shape):
        pairs = [
            (value(x, a_type), value(y, b_type)) for x, y in zip(a[at[0]], b[:, at[1]], strict=True)
        ]
        total = value(c[at], c_type)
        if d_type == "s32":
            total += sum(x * y for x, y in pairs)
            if saturated:
                total = min(max(total, -(1 << 31)), (1 << 31) - 1)
            d[at] = (total + (1 << 31)) % (1 << 32) - (1 << 31)
            continue
        if d_type != "f64":
            total = aligned_sum(pairs, total, types)
        else:
            for x, y in pairs:
                total = fma(x, y, total, "f64", mode)
        if math.isnan(total):
            d[at] = {"f16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}[d_type]
        else:
            d[at] = np.array(total, f"f{d.itemsize}").view(d.dtype)
    return d


def spread(matrix: np.ndarray, layout) -> np.ndarray:
    """A matrix as its lanes hold it, shape (32, bytes)."""
    count, place = layout
    lanes = [[matrix[place(lane // 4, lane % 4, i)] for i in range(count)] for lane in range(32)]
    return np.array(lanes, matrix.dtype).view(np.uint8)


def collected(lanes: np.ndarray, layout, size, dtype) -> np.ndarray:
    count, place = layout
    values = lanes.view(dtype)
    matrix = np.zeros(size, dtype)
    for lane in range(32):
        for i in range(count):
            matrix[place(lane // 4, lane % 4, i)] = values[lane, i]
    return matrix


def size_of(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def in_memory(matrix: np.ndarray, layout: str, pad: int) -> tuple[np.ndarray, int]:
    """A matrix as its bytes lie, each line with some elements after it, and the stride."""
    lines = matrix if layout == "row" else matrix.T
    padded = np.zeros((len(lines), lines.shape[1] + pad), matrix.dtype)
    padded[:, : lines.shape[1]] = lines
    return padded, padded.shape[1]


def registers(role: str, shape: str, type_: str) -> int:
    """As the ISA's table of fragments has them."""
    m, n, k = size_of(shape)
    if type_ == "f16" and role in "ab":
        return 8
    elements = {"a": m * k, "b": k * n}.get(role, m * n)
    itemsize = np.dtype(BITS[type_]).itemsize
    return elements * itemsize // 32 // (8 if type_ == "f64" else 4)
