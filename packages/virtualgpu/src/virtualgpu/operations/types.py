"""PTX fundamental types as NumPy dtypes (PTX ISA, "Fundamental Types")."""

from __future__ import annotations

import numpy as np

DTYPES: dict[str, np.dtype] = {
    name: np.dtype(code)
    for name, code in {
        "pred": "?",
        "b8": "u1",
        "u8": "u1",
        "s8": "i1",
        "b16": "u2",
        "u16": "u2",
        "s16": "i2",
        "f16": "f2",
        "bf16": "u2",
        "b32": "u4",
        "u32": "u4",
        "s32": "i4",
        "f32": "f4",
        "f16x2": "u4",
        "bf16x2": "u4",
        "b64": "u8",
        "u64": "u8",
        "s64": "i8",
        "f64": "f8",
    }.items()
}

# A register has its declared width; each instruction defines the meaning of the bits.
REGISTER_DTYPES = {
    **DTYPES,
    **{name: np.dtype("u2") for name in ("s16", "u16", "b16", "f16")},
    **{name: np.dtype("u4") for name in ("s32", "u32", "b32")},
    **{name: np.dtype("u8") for name in ("s64", "u64", "b64")},
    **{name: np.dtype("u1") for name in ("s8", "u8", "b8")},
    "b128": np.dtype("V16"),  # no arithmetic: only moved, and split into 64-bit halves (lanes.wide)
}

UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def kind(dtype: np.dtype) -> str:
    """Return the kind (:mod:`.expression`) in which an array's elements are computed.

    Numbers are computed as themselves, and half precision as its bits.
    """
    if dtype.kind == "b":
        return "pred"
    if dtype == np.float16:
        return "u16"
    return {"u": "u", "i": "s", "f": "f"}[dtype.kind] + str(8 * dtype.itemsize)
