"""Conversion of NumPy's random numbers to device arrays."""

from __future__ import annotations

import inspect

import numpy as np

from .. import _launches
from .._arrays.core import from_host, ndarray, wrote
from .._arrays.operands import on_host


def on_device(host, dtype, name: str) -> ndarray:
    """Return drawn numbers as a device array (0-d for one number)."""
    made = from_host(np.asarray(host) if dtype is None else np.asarray(host).astype(dtype))
    _launches.record(f"cupy.random.{name}", "routine", size=made.size, exact=False)
    return made


def floating(dtype) -> np.dtype:
    """Return float32 or float64. Raises TypeError for other types, which cuRAND lacks."""
    dtype = np.dtype(dtype)
    if dtype.char not in "fd":
        raise TypeError("cupy.random only supports float32 and float64")
    return dtype


def method(name: str, parameters: str, source: str, has_out: bool = False):
    """Return a method that draws numbers with the NumPy method ``name``.

    Parameters
    ----------
    parameters : str
        CuPy's signature, without ``self``.
    source : str
        The attribute that holds NumPy's generator.
    """
    signature = inspect.signature(eval(f"lambda self, {parameters}: 0"))

    def draw(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        self, dtype, out = given.pop("self"), given.pop("dtype", None), given.pop("out", None)
        floats = dtype is not None and np.dtype(dtype).kind == "f"
        if floats:
            dtype = floating(dtype)
        given.pop("method", None)
        size = given.pop("size", None)
        if out is not None:
            size, dtype = out.shape, out.dtype
        host = getattr(getattr(self, source), name)(*map(on_host, given.values()), size=size)
        if name in ("random", "random_sample") and np.dtype(dtype or float) == np.float32:
            # A number below 1 must not be rounded to 1.
            host = np.minimum(host, np.nextafter(np.float32(1), np.float32(0)))
        if out is None:
            return on_device(host, dtype, name)
        out._host[...] = host
        wrote(out)
        return out

    draw.__name__ = name
    draw.__signature__ = signature
    draw.__doc__ = f"Draw as NumPy's ``{name}`` does, into a device array; cuRAND's numbers differ."
    return draw
