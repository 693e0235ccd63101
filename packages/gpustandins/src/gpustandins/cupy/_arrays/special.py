"""Functions that a line of the table cannot describe."""

from __future__ import annotations

import numpy as np

from .. import _launches
from .casting import cast
from .core import copy_into, fresh, from_host, ndarray, wrote
from .creation import asarray, asnumpy
from .dlpack import take_in
from .indexing import axis_of
from .operands import as_array, on_host, operand
from .operators import named


def where(condition, x=None, y=None):
    """Return ``x`` where the condition is true and ``y`` elsewhere.

    Without ``x`` and ``y``, return the indices at which the condition is true.
    """
    for one in (condition, x, y):
        if hasattr(one, "__cupy_override_elementwise_kernel__"):  # the fusion tracer takes over
            return one.__cupy_override_elementwise_kernel__(where, condition, x, y)
    if (x is None) != (y is None):
        raise ValueError("Must provide both 'x' and 'y' or neither.")
    if x is None:
        return named("nonzero")(condition)
    chosen, one, other = operand(condition.astype("?", copy=False)), operand(x), operand(y)
    made = from_host(np.where(chosen, one, other))
    if _launches.listening() and made.size:
        _launches.record(f"cupy_where__bool_{made.dtype.name}", size=made.size)
    return made


def concatenate(tup, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """Join CuPy arrays along an axis (None: flattened)."""
    hosts = _to_join(tup, "concatenated")
    if not hosts:
        raise ValueError("Cannot concatenate from empty tuple")
    if out is None and axis is not None and len({host.ndim for host in hosts}) == 1:
        shape = list(hosts[0].shape)
        if -len(shape) <= axis < len(shape):
            shape[axis] = sum(host.shape[axis] for host in hosts)
            made = fresh(tuple(shape), np.dtype(dtype or np.result_type(*hosts)))
            np.concatenate(hosts, axis, made._host, casting=casting)
            _launches.record("cupy.concatenate", "routine", size=made.size, exact=False)
            return made
    result = np.concatenate(
        hosts, axis, None if out is None else out._host, dtype=dtype, casting=casting
    )
    _launches.record("cupy.concatenate", "routine", size=result.size, exact=False)
    if out is None:
        return from_host(result)
    wrote(out)
    return out


concat = concatenate


def _to_join(tup, what: str) -> list[np.ndarray]:
    arrays = [as_array(one) for one in tup]
    if any(one is None for one in arrays):
        raise TypeError(f"Only cupy arrays can be {what}")
    return [one._host for one in arrays]


def cumsum(a, axis=None, dtype=None, out=None):
    """Return running sums along an axis (None: of the flattened array)."""
    return _scan(np.cumsum, a, axis, dtype, out)


def cumprod(a, axis=None, dtype=None, out=None):
    """Return running products along an axis (None: of the flattened array)."""
    return _scan(np.cumprod, a, axis, dtype, out)


def _scan(function, a, axis, dtype, out):
    host = operand(a)
    if out is None:
        kind = function(np.ones((), host.dtype), dtype=dtype).dtype
        out = fresh((host.size,) if axis is None else host.shape, kind)
    with np.errstate(all="ignore"):
        function(host, axis, dtype, out._host)
    wrote(out)
    _launches.record(f"cupy.{function.__name__}", "routine", size=host.size, exact=False)
    return out


def take(a, indices, axis=None, out=None):
    """Return elements along an axis (None: of the flattened array); indices wrap around."""
    return a.take(indices, axis, out)


def put(a, ind, v, mode="wrap") -> None:
    """Assign ``a.flat[ind] = v``; the default ``mode`` is 'wrap', as kernels cannot raise."""
    if mode not in ("wrap", "clip", "raise"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    indices = np.asarray(on_host(ind), dtype=np.int64)
    if mode == "raise" and indices.size and (indices.min() < -a.size or indices.max() >= a.size):
        raise IndexError("invalid entry in indices array")
    values = np.asarray(on_host(v))
    converted = np.empty(values.shape, a.dtype)
    cast(values, converted)
    np.put(a._host, indices, converted, mode="wrap" if mode == "raise" else mode)
    wrote(a)
    _launches.record("cupy_put", "copy", size=indices.size)


def copyto(dst, src, casting="same_kind", where=None) -> None:
    """Copy ``src``, a device array or scalar, into ``dst`` where ``where`` is true."""
    of_host = isinstance(src, np.ndarray)
    if of_host and src.size != 1:
        raise ValueError("non-scalar numpy.ndarray cannot be used for copyto")
    given = src if of_host else operand(src)
    scalar = of_host or (np.ndim(given) == 0 and as_array(src) is None)
    if scalar or casting != "unsafe":  # NumPy checks the cast, also by a Python number's value
        np.copyto(np.empty((), dst.dtype), given if scalar else np.empty((), given.dtype), casting)
    source = np.asarray(given)
    if where is None:
        copy_into(dst, source)
        return
    converted = np.empty(source.shape, dst.dtype)
    cast(source, converted)
    np.copyto(dst._host, converted, where=operand(where))
    wrote(dst)
    _launches.record("cupy_copy_where", "copy", size=dst.size)


def clip(a, a_min, a_max, out=None):
    """Limit the values to an interval; None means no limit on that side."""
    for one in (a, a_min, a_max):
        if hasattr(one, "__cupy_override_elementwise_kernel__"):  # the fusion tracer takes over
            return one.__cupy_override_elementwise_kernel__(clip, a, a_min, a_max, out=out)
    if not isinstance(a, ndarray):
        raise TypeError(f"Unsupported type {type(a)}")
    limits = [None if one is None else operand(one) for one in (a_min, a_max)]
    given = [one for one in limits if one is not None]
    made = out
    if out is None:
        made = fresh(
            np.broadcast_shapes(a.shape, *map(np.shape, given)), np.result_type(a._host, *given)
        )
    np.clip(a._host, *limits, out=made._host, casting="same_kind")
    wrote(made)
    if _launches.listening() and a.size:
        _launches.record(f"cupy_clip__{made.dtype.name}", size=made.size)
    return made


def msort(a):
    """Return a copy sorted along the first axis."""
    return named("sort")(a, axis=0)


def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """Apply ``func1d`` to every slice of a CuPy array along an axis, one after the other."""

    def on_device(part):
        return asarray(func1d(from_host(part), *args, **kwargs)).get()

    return from_host(np.asarray(np.apply_along_axis(on_device, axis, operand(arr))))


def apply_over_axes(func, a, axes):
    """Apply ``func(a, axis)`` to a CuPy array for one axis after the other."""
    result = asarray(a)
    for axis in (axes,) if np.isscalar(axes) else axes:
        axis = axis_of(axis, result.ndim)
        once = func(result, axis)
        result = (
            once
            if once.ndim == result.ndim
            else once.reshape((*once.shape[:axis], 1, *once.shape[axis:]))
        )
    return result


def piecewise(x, condlist, funclist):
    """Choose values by condition; as in CuPy, ``funclist`` may contain only scalars."""
    if any(callable(one) for one in funclist):
        raise NotImplementedError("Callable functions are not supported currently")
    condition = (
        [operand(one) for one in condlist] if isinstance(condlist, list) else (operand(condlist))
    )
    values = [on_host(one) for one in funclist]
    _launches.record("cupy.piecewise", "routine", size=x.size, exact=False)
    return from_host(np.asarray(np.piecewise(operand(x), condition, values)))


def mask_indices(n, mask_func, k=0):
    """Return the indices of an (n, n) array for which ``mask_func`` returns a non-zero value."""
    return named("nonzero")(mask_func(named("ones")((n, n), dtype=int), k) != 0)


def byte_bounds(a) -> tuple[int, int]:
    """Return the device addresses of the first byte and of the byte after the last."""
    low, high = np.lib.array_utils.byte_bounds(a._host)
    start = a.data.ptr - a._host.__array_interface__["data"][0]
    return low + start, high + start


def save(file, arr, allow_pickle=None) -> None:
    np.save(file, asnumpy(arr), allow_pickle=bool(allow_pickle))


def savez(file, *args, **kwds) -> None:
    np.savez(file, *map(asnumpy, args), **{k: asnumpy(v) for k, v in kwds.items()})


def savez_compressed(file, *args, **kwds) -> None:
    np.savez_compressed(file, *map(asnumpy, args), **{k: asnumpy(v) for k, v in kwds.items()})


def savetxt(fname, X, *args, **kwargs) -> None:
    np.savetxt(fname, asnumpy(X), *args, **kwargs)


def from_dlpack(array_, *, device=None, copy=None):
    """Return an array that shares the memory of another library's array."""
    if device is not None:
        raise NotImplementedError("from_dlpack() does not support device yet.")
    return take_in(array_)


__all__ = """
apply_along_axis apply_over_axes byte_bounds clip concat concatenate copyto cumprod cumsum
from_dlpack mask_indices msort piecewise put save savetxt savez savez_compressed take where
""".split()
