"""Functions of each element of a ``GPUArray``, in the array's own type."""

from __future__ import annotations

import numpy as np

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
            raise AssertionError(f"out has strides {result.strides}, and the array {array.strides}")
        with np.errstate(all="ignore"):
            return result._write(function(array._host))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}`` of each element; into ``out`` where it is given."
    return apply


globals().update({name: _unary(name, getattr(np, name)) for name in _UNARY})
fabs = _unary("fabs", np.abs)


def fmod(arg: GPUArray, mod: GPUArray, stream=None) -> GPUArray:
    """Return the remainder of ``arg / mod``, with the sign of ``arg``."""
    with np.errstate(all="ignore"):
        return arg._new_like_me()._write(np.fmod(arg._host, mod._host))


def frexp(arg: GPUArray, stream=None) -> tuple[GPUArray, GPUArray]:
    """Significands and exponents, both in the array's own type."""
    significand, exponent = np.frexp(arg._host)
    return arg._new_like_me()._write(significand), arg._new_like_me()._write(exponent)


def ldexp(significand: GPUArray, exponent: GPUArray, stream=None) -> GPUArray:
    """``significand * 2**exponent``."""
    with np.errstate(all="ignore"):
        powers = exponent._host.astype(np.int32)
        return significand._new_like_me()._write(np.ldexp(significand._host, powers))


def modf(arg: GPUArray, stream=None) -> tuple[GPUArray, GPUArray]:
    """Fractional and integral parts."""
    fraction, whole = np.modf(arg._host)
    return arg._new_like_me()._write(fraction), arg._new_like_me()._write(whole)


__getattr__ = lookup("pycuda.cumath")
