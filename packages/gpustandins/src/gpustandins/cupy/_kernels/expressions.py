"""Universal functions as C++ expressions, for kernels that fuse several of them.

Where CuPy 14's functions differ from NumPy's, these follow CuPy (integer division by zero gives 0,
``floor_divide`` of floats is ``floor(x / y)``), as in :mod:`cupy._arrays.arithmetic`.
"""

from __future__ import annotations

import numpy as np

PREAMBLE = r"""
template <class T> __device__ T _floor_divide(T a, T b) {
    if (b == 0) return 0;
    T quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
template <class T> __device__ T _remainder(T a, T b) {
    if (b == 0) return 0;
    T rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
template <class T> __device__ T _power(T base, T exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    T result = 1;
    for (; exponent > 0; exponent >>= 1, base *= base) if (exponent & 1) result *= base;
    return result;
}
"""

# For all numeric types for which the second table has no entry.
_COMMON = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "true_divide": "{0} / {1}",
    "negative": "-{0}",
    "positive": "{0}",
    "square": "{0} * {0}",
    "equal": "{0} == {1}",
    "not_equal": "{0} != {1}",
    "less": "{0} < {1}",
    "less_equal": "{0} <= {1}",
    "greater": "{0} > {1}",
    "greater_equal": "{0} >= {1}",
    "logical_and": "bool({0}) && bool({1})",
    "logical_or": "bool({0}) || bool({1})",
    "logical_xor": "bool({0}) != bool({1})",
    "logical_not": "!bool({0})",
    "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}",
    "invert": "~{0}",
    "left_shift": "{0} << {1}",
    "right_shift": "{0} >> {1}",
    "conjugate": "{0}",
    "maximum": "{0} > {1} ? {0} : {1}",
    "minimum": "{0} < {1} ? {0} : {1}",
    "fmax": "{0} > {1} ? {0} : {1}",
    "fmin": "{0} < {1} ? {0} : {1}",
    "absolute": "{0} < 0 ? -{0} : {0}",
    "sign": "({0} > 0) - ({0} < 0)",
    "floor": "{0}",
    "ceil": "{0}",
    "trunc": "{0}",
    "rint": "{0}",
    "isnan": "false",
    "isinf": "false",
    "isfinite": "true",
    "floor_divide": "_floor_divide({0}, {1})",
    "remainder": "_remainder({0}, {1})",
    "power": "_power({0}, {1})",
    "reciprocal": "{0} == 0 ? 0 : 1 / {0}",
    "fmod": "{1} == 0 ? 0 : {0} % {1}",
    "where": "{0} ? {1} : {2}",
}
_BY_KIND: dict[str, dict[str, str]] = {
    "b": {"add": "{0} || {1}", "multiply": "{0} && {1}", "invert": "!{0}", "absolute": "{0}"},
    "u": {"absolute": "{0}", "sign": "{0} > 0", "negative": "-{0}"},
    "f": {
        "maximum": "isnan({0}) ? {0} : isnan({1}) ? {1} : {0} > {1} ? {0} : {1}",
        "minimum": "isnan({0}) ? {0} : isnan({1}) ? {1} : {0} < {1} ? {0} : {1}",
        "sign": "isnan({0}) ? {0} : ({0} > 0) - ({0} < 0)",
        "floor_divide": "floor({0} / {1})",
        "remainder": "{0} - floor({0} / {1}) * {1}",
        "power": "pow({0}, {1})",
        "reciprocal": "1 / {0}",
        "absolute": "fabs({0})",
        "deg2rad": "{0} * (M_PI_ / 180)",
        "rad2deg": "{0} * (180 / M_PI_)",
        **{
            name: f"{name}({{0}})"
            for name in (
                "sqrt",
                "exp",
                "exp2",
                "expm1",
                "log",
                "log2",
                "log10",
                "log1p",
                "sin",
                "cos",
                "tan",
                "sinh",
                "cosh",
                "tanh",
                "cbrt",
                "floor",
                "ceil",
                "trunc",
                "rint",
                "isnan",
                "isinf",
                "isfinite",
                "signbit",
                "fabs",
            )
        },
        **{
            f"arc{name}": f"a{name}({{0}})"
            for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")
        },
        **{
            name: f"{name}({{0}}, {{1}})"
            for name in ("hypot", "copysign", "fmod", "nextafter", "fmax", "fmin")
        },
        "arctan2": "atan2({0}, {1})",
    },
    "c": {
        "absolute": "abs({0})",
        "conjugate": "conj({0})",
        "power": "pow({0}, {1})",
        "reciprocal": "_one / {0}",
        **{
            name: f"{name}({{0}})"
            for name in ("sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh")
        },
    },
}
# Not defined for floats and complex numbers, unless their own tables have an entry.
_INTEGERS_ONLY = {
    "floor_divide",
    "remainder",
    "power",
    "reciprocal",
    "fmod",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "isnan",
    "isinf",
    "isfinite",
}


def expression(name: str, dtype: np.dtype) -> str | None:
    """Return the C++ expression of the ufunc ``name`` for arguments of ``dtype``, or None.

    The arguments are ``{0}`` and ``{1}``.
    """
    own = _BY_KIND.get("i" if dtype.kind == "i" else dtype.kind, {}).get(name)
    if own is not None:
        return own.replace("M_PI_", "3.14159265358979323846").replace(
            "_one", f"complex<{'float' if dtype.itemsize == 8 else 'double'}>(1)"
        )
    if dtype.kind in "fc" and name in _INTEGERS_ONLY:
        return None
    if dtype.kind == "c" and name in (
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "absolute",
        "sign",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
    ):
        return None
    return _COMMON.get(name)
