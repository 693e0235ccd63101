"""Elementwise functions of a ``GPUArray``, in the array's own type."""

from __future__ import annotations

import cupy

from ._missing import lookup
from ._operators import into, need_contiguous
from .gpuarray import GPUArray

_UNARY = """
acos asin atan ceil cos cosh exp floor log log10 sin sinh sqrt tan tanh
""".split()
__all__ = [*_UNARY, "fabs", "fmod", "frexp", "ldexp", "modf"]


def _unary(name: str, function):
    def apply(array: GPUArray, stream_or_out=None, *, out=None, stream=None) -> GPUArray:
        need_contiguous(array)
        if isinstance(stream_or_out, GPUArray):
            out = stream_or_out
        result = into(out, array.shape, array._new_like_me, array.dtype)
        if result.strides != array.strides:
            raise AssertionError(
                f"out has strides {result.strides}, but the array has {array.strides}"
            )
        return result._write(function(array._array))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Return ``{name}`` of each element, in ``out`` if it is given."
    return apply


for _name in _UNARY:
    _of_numpy = f"arc{_name[1:]}" if _name[0] == "a" else _name
    globals()[_name] = _unary(_name, getattr(cupy, _of_numpy))
fabs = _unary("fabs", cupy.abs)


def fmod(arg: GPUArray, mod: GPUArray, stream=None) -> GPUArray:
    """Return the remainder of ``arg / mod``, with the sign of ``arg``."""
    return arg._new_like_me()._write(cupy.fmod(arg._array, mod._array))


def frexp(arg: GPUArray, stream=None) -> tuple[GPUArray, GPUArray]:
    """Return significands and exponents, both in the array's own type."""
    significand, exponent = cupy.frexp(arg._array)
    return arg._new_like_me()._write(significand), arg._new_like_me()._write(exponent)


def ldexp(significand: GPUArray, exponent: GPUArray, stream=None) -> GPUArray:
    """Compute ``significand * 2**exponent``."""
    powers = exponent._array.astype("int32")
    return significand._new_like_me()._write(cupy.ldexp(significand._array, powers))


def modf(arg: GPUArray, stream=None) -> tuple[GPUArray, GPUArray]:
    """Return the fractional and the integral parts."""
    fraction, whole = cupy.modf(arg._array)
    return arg._new_like_me()._write(fraction), arg._new_like_me()._write(whole)


__getattr__ = lookup("pycuda.cumath")
