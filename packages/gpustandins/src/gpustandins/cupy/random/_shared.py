"""Conversion of NumPy's random numbers to arrays on the device."""

from __future__ import annotations

import inspect

import numpy as np

from .. import _launches
from .._arrays.core import from_host, ndarray, wrote
from .._arrays.operands import on_host


def on_device(host, dtype, name: str) -> ndarray:
    """Return drawn numbers as a device array (of no dimensions for one number)."""
    made = from_host(np.asarray(host) if dtype is None else np.asarray(host).astype(dtype))
    _launches.record(f"cupy.random.{name}", "routine", size=made.size, exact=False)
    return made


def floating(dtype) -> np.dtype:
    """Return float32 or float64; raise TypeError for others, which cuRAND lacks."""
    dtype = np.dtype(dtype)
    if dtype.char not in "fd":
        raise TypeError("cupy.random only supports float32 and float64")
    return dtype


def method(name: str, parameters: str, source: str, has_out: bool = False):
    """Return a method that draws by NumPy's method of that name.

    Parameters
    ----------
    parameters : str
        CuPy's signature, without ``self``.
    source : str
        The attribute with NumPy's generator.
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
            # Rounding must not make 1 of a number below it.
            host = np.minimum(host, np.nextafter(np.float32(1), np.float32(0)))
        if out is None:
            return on_device(host, dtype, name)
        out._host[...] = host
        wrote(out)
        return out

    draw.__name__ = name
    draw.__signature__ = signature
    draw.__doc__ = f"As NumPy's ``{name}``; an array on the device, other numbers than cuRAND's."
    return draw
