"""Reductions, whose results stay on the device as 0-d arrays.

Real CuPy computes most of them with CUB, in one kernel or two depending on the size; some
(``var``, ``median``) need several kernels. Each is therefore recorded as one entry that is not
marked as exact. Sums of floats are NumPy's pairwise sums; a GPU adds in another order and so
rounds differently.
"""

from __future__ import annotations

import contextlib
import operator
import warnings

import numpy as np

from .. import _launches
from .casting import cast
from .core import from_host, ndarray, wrote
from .operands import as_array

#: name → (NumPy's function, extra parameters, True if an empty array has a result)
METHODS = {
    "sum": (np.sum, "dtype", True),
    "prod": (np.prod, "dtype", True),
    "max": (np.max, "", False),
    "min": (np.min, "", False),
    "ptp": (np.ptp, "", False),
    "mean": (np.mean, "dtype", True),
    "var": (np.var, "dtype ddof", True),
    "std": (np.std, "dtype ddof", True),
    "all": (np.all, "", True),
    "any": (np.any, "", True),
    "argmax": (np.argmax, "dtype", False),
    "argmin": (np.argmin, "dtype", False),
}
NAN = {
    "nansum": (np.nansum, "dtype", True),
    "nanprod": (np.nanprod, "dtype", True),
    "nanmax": (np.nanmax, "", False),
    "nanmin": (np.nanmin, "", False),
    "nanmean": (np.nanmean, "dtype", True),
    "nanvar": (np.nanvar, "dtype ddof", True),
    "nanstd": (np.nanstd, "dtype ddof", True),
    "nanargmax": (np.nanargmax, "dtype", False),
    "nanargmin": (np.nanargmin, "dtype", False),
}
#: End of the messages about a function that cannot be fused.
FUSES = (
    "cannot be fused: the stand-in's cupy.fuse fuses only elementwise functions, operators, "
    "sum, prod, max and min"
)
ALIASES = {"amax": "max", "amin": "min", "product": "prod", "alltrue": "all", "sometrue": "any"}


def reduce(name: str, a: ndarray, axis=None, dtype=None, out=None, keepdims=False, **more):
    """Reduce ``a`` with the NumPy function of that name.

    Parameters
    ----------
    axis : None, int or tuple of int
    dtype : dtype, optional
        The type of the computation and the result.
    out : cupy.ndarray, optional
    keepdims : bool
    **more
        Only ``ddof``.
    """
    function, takes, empty_result = METHODS.get(name) or NAN[name]
    if hasattr(a, "__cupy_override_elementwise_kernel__"):
        raise NotImplementedError(
            f"cupy.{name} {FUSES}; call cupy.{name} outside the fused function"
        )
    host = a._host
    axes = axis if axis is None or isinstance(axis, tuple) else (axis,)
    if not empty_result and host.size == 0 and (axes is None or 0 in np.take(host.shape, axes)):
        raise ValueError(
            f"zero-size array to reduction operation cupy_{name} which has no identity"
        )
    index = name.endswith(("argmax", "argmin"))
    if dtype is not None and "dtype" in takes and not index:
        more["dtype"] = dtype
    small = host.dtype == np.float16 and not dtype and name.endswith(("sum", "prod"))
    host = host.astype(np.float32) if small else host  # CuPy's kernels add in float32
    with (
        np.errstate(all="ignore"),
        _no_warnings(
            (name in NAN and name not in ("nanmax", "nanmin")) or not host.size or "ddof" in more
        ),
    ):
        result = np.asarray(_call(function, host, axis, keepdims, more))
    if (index and dtype is not None) or small:
        result = result.astype(dtype or a.dtype)
    if _launches.listening() and host.size:
        _launches.record(f"cupy_{name}", "reduction", size=host.size, exact=False)
    if out is None:
        return from_host(result)
    target = as_array(out)
    if target is None:
        raise TypeError(f"output array must be a cupy.ndarray, not {type(out)}")
    if target.shape != result.shape:
        raise ValueError("Out shape is mismatched")
    cast(result, target._host)
    wrote(target)
    return out


@contextlib.contextmanager
def _no_warnings(may_come: bool):
    """Silence NumPy's warnings about empty slices and NaN.

    A GPU gives no warnings, but two CuPy functions check for slices that contain only NaN.
    """
    if not may_come:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _call(function, host, axis, keepdims, more):
    try:
        return function(host, axis, keepdims=keepdims, **more)
    except ValueError as error:
        if "All-NaN slice" not in str(error):
            raise
        # NumPy raises an error if all values are NaN; CuPy's kernel returns 0.
        nan = np.isnan(host)
        return function(np.where(nan.all(axis, keepdims=True), 0, host), axis, keepdims=keepdims)


def parameters(takes: str) -> list[str]:
    """Return the parameters after ``axis``, in CuPy's order."""
    return [
        *(["dtype"] if "dtype" in takes else []),
        "out",
        *(["ddof"] if "ddof" in takes else []),
        "keepdims",
    ]


def _function(name: str, takes: str, run):
    """Return ``cupy.NAME(a, ...)`` with the parameters in ``takes``."""
    defaults = {"dtype": None, "out": None, "ddof": 0, "keepdims": False}
    order = parameters(takes)
    function = eval(
        f"lambda a, axis=None, {', '.join(f'{one}={defaults[one]}' for one in order)}:"
        f" run(a, axis=axis, {', '.join(f'{one}={one}' for one in order)})",
        {"run": run},
    )
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Do the same as ``numpy.{name}``, without warnings; always return a CuPy array."
    )
    return function


def _by_method(name: str):
    """Return a function that calls the array's own method, as CuPy's functions do."""
    return lambda a, **given: getattr(a, name)(**given)


def _by_name(name: str):
    return lambda a, **given: reduce(name, a, **given)


def _with_known_method(function):
    """Wrap a function so that it refuses all interpolation methods except CuPy's five."""

    def run(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
        if method not in ("linear", "lower", "higher", "midpoint", "nearest"):
            raise ValueError(
                f"'{method}' method is not yet supported. Please use any other method."
            )
        return function(a, q, axis, out, overwrite_input, method, keepdims)

    return run


#: Functions that the table uses in place of NumPy's.
OWN = {name: _with_known_method(getattr(np, name)) for name in ("percentile", "quantile")} | {
    "matrix_transpose": operator.attrgetter("mT"),
    "meshgrid": lambda *xi, **given: tuple(np.meshgrid(*xi, **given)),  # a list if sparse
}

FUNCTIONS = {name: _function(name, METHODS[name][1], _by_method(name)) for name in METHODS}
FUNCTIONS |= {
    name: _function(name, METHODS[method][1], _by_method(method))
    for name, method in ALIASES.items()
}
FUNCTIONS |= {name: _function(name, NAN[name][1], _by_name(name)) for name in NAN}
