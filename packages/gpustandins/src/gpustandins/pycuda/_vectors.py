"""CUDA's vector types as dtypes: ``vec.float3``, ``vec.make_float3(1, 2, 3)``."""

from __future__ import annotations

import numpy as np

from virtualgpu.standins.interface import many

from .tools import get_or_register_dtype

_BASES = {
    "char": np.int8,
    "uchar": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "longlong": np.int64,
    "ulonglong": np.uint64,
    "float": np.float32,
    "double": np.float64,
}


class vec:
    """Types with fields ``x``, ``y``, ``z``, ``w``; ``make_float3`` creates a value."""


def _maker(dtype: np.dtype):
    def make(*values):
        if len(values) != len(dtype.names):
            raise TypeError(f"{many(len(dtype.names), 'value')} for {', '.join(dtype.names)}")
        return np.array(values, dtype=dtype)

    return staticmethod(make)


for _base, _type in _BASES.items():
    for _count in range(1, 3 if _base in ("longlong", "ulonglong", "double") else 5):
        _dtype = np.dtype([(field, _type) for field in "xyzw"[:_count]])
        _name = f"{_base}{_count}"
        get_or_register_dtype(_name, _dtype)
        setattr(vec, _name, _dtype)
        setattr(vec, f"make_{_name}", _maker(_dtype))
