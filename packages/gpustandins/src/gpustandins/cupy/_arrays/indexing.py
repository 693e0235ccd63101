"""Indexing and assignment with CuPy's rules.

Integer arrays with out-of-range indices wrap around, since a kernel cannot raise an exception;
plain integers raise IndexError. NumPy arrays and lists are accepted as indices (CuPy copies them
to the device), but not as values of a plain assignment.
"""

from __future__ import annotations

import numpy as np

from .. import _launches
from .casting import cast
from .core import copy_into, fresh, ndarray, view_of, wrote
from .operands import as_array, wrap


def getitem(array: ndarray, key) -> ndarray:
    """Return ``array[key]``: a view for plain indices and slices, otherwise a new array."""
    if isinstance(key, str) or _is_fields(key):
        return view_of(array, array._host[key])
    keys, advanced = _prepare(array._host, key, lone=True)
    host = array._host
    if not advanced:
        return view_of(array, host[(*keys, Ellipsis) if Ellipsis not in keys else keys])
    if len(keys) == 1 and advanced == "integers":
        made = fresh(keys[0].shape + host.shape[1:], host.dtype)
        np.take(host, keys[0], 0, made._host, mode="wrap")
    else:
        made = wrap(np.asarray(host[keys]), [])
    _record(
        "take" if advanced == "integers" else "getitem_mask",
        made.size,
        exact=advanced == "integers",
    )
    return made


def setitem(array: ndarray, key, value) -> None:
    """Assign ``array[key] = value``; the array keeps its type."""
    if isinstance(key, str) or _is_fields(key):
        array, key = view_of(array, array._host[key]), Ellipsis
    keys, advanced = _prepare(array._host, key)
    given = as_array(value)
    if advanced:
        source = given._host if given is not None else np.asarray(value, array.dtype)
        if source.dtype != array.dtype:
            made = np.empty(source.shape, array.dtype)
            cast(source, made)
            source = made
        array._host[keys] = source
        wrote(array)
        _record(
            "scatter_update" + ("_mask" if advanced == "mask" else ""),
            source.size,
            exact=advanced == "integers",
        )
        return
    target = view_of(
        array, array._host[keys] if Ellipsis in keys else array._host[(*keys, Ellipsis)]
    )
    if given is None:
        fill(target, value)
        return
    source = _squeezed(given._host, target.ndim)
    if source.shape != target.shape:
        try:
            np.broadcast_shapes(source.shape, target.shape)
        except ValueError:
            raise ValueError(
                "operands could not be broadcast together with shapes "
                f"{target.shape} {source.shape}".replace(", ", ",")
            ) from None
    if (
        source.dtype == target.dtype
        and target.flags.c_contiguous
        and (source.shape == target.shape and source.strides == target.strides)
    ):
        np.copyto(target._host, source)  # the driver copies, so no kernel runs
        wrote(target)
        return
    copy_into(target, source)


def fill(array: ndarray, value) -> None:
    """Set all elements to a scalar or to a 0-d CuPy array.

    Raises ValueError for host arrays, because assigning one would hide a copy to the device.
    """
    given = as_array(value)
    if given is not None:
        if given.shape != ():
            raise ValueError("non-scalar cupy.ndarray cannot be used for fill")
        cast(given._host, array._host)
    else:
        # Only a cast converts numbers to raw bytes.
        scalar = (
            np.asarray(value).astype(array.dtype)
            if array.dtype.type is np.void and (not array.dtype.names)
            else np.asarray(value, array.dtype)
        )
        if scalar.shape != ():
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        array._host[...] = scalar
        if scalar.dtype.kind != "V" and scalar == 0 and array.flags.c_contiguous:
            wrote(array)
            return  # a memset, so no kernel runs
    wrote(array)
    _record("fill", array.size, prefix="cupy_", kind="fill")


def scatter(array: ndarray, key, value, operation) -> None:
    """Implement ``ufunc.at``: ``array[key] OP= value``; every repeated index counts (atomics)."""
    keys, advanced = _prepare(array._host, key)
    if not advanced:
        target = getitem(array, key)
        operation(target, value, target)
        return
    given = as_array(value)
    source = given._host if given is not None else np.asarray(value)
    if source.dtype != array.dtype:
        made = np.empty(source.shape, array.dtype)
        cast(source, made)
        source = made
    with np.errstate(all="ignore"):
        operation._loops.at(array._host, keys, source)
    wrote(array)
    _record(f"scatter_{operation.__name__}", source.size)


def take(array: ndarray, indices, axis=None, out=None) -> ndarray:
    """Return elements along an axis (None: of the flattened array); indices wrap around."""
    host = array._host
    given = as_array(indices)
    where = given._host if given is not None else np.asarray(indices, dtype=int)
    if axis is None:
        shape = where.shape
    else:
        axis = axis_of(axis, host.ndim)
        shape = host.shape[:axis] + where.shape + host.shape[axis + 1 :]
    if out is None:
        out = fresh(shape, host.dtype)
    elif out.dtype != array.dtype:
        raise TypeError("Output dtype mismatch")
    elif out.shape != shape:
        raise ValueError("Output shape mismatch")
    np.take(host, where, axis, out._host, mode="wrap")
    wrote(out)
    _record("take", out.size)
    return out


def axis_of(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def _is_fields(key) -> bool:
    return isinstance(key, list) and bool(key) and all(isinstance(one, str) for one in key)


def _squeezed(host: np.ndarray, ndim: int) -> np.ndarray:
    """Remove leading axes of length 1 that the target does not have."""
    while host.ndim > ndim and host.shape[0] == 1:
        host = host[0]
    return host


def _prepare(host: np.ndarray, key, *, lone: bool = False) -> tuple[tuple, str]:
    """Return keys for NumPy, and the kind of index arrays: '', 'integers' or 'mask'.

    If ``lone`` is True, the caller wraps a single integer array itself.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    advanced, used = "", 0
    for i, one in enumerate(keys):
        if one is None or one is Ellipsis:
            continue
        if isinstance(one, slice):
            used += 1
            keys[i] = slice(*(_integer(part) for part in (one.start, one.stop, one.step)))
            continue
        if isinstance(one, int | np.integer) and not isinstance(one, bool | np.bool_):
            used += 1
            continue
        keys[i] = one = _index_array(one)
        advanced = "mask" if one.dtype == bool or advanced == "mask" else "integers"
        used += one.ndim if one.dtype == bool else 1
    if used > host.ndim:
        raise IndexError(
            f"too many indices for array: array is {host.ndim}-dimensional, but {used} were indexed"
        )
    if not (lone and len(keys) == 1 and advanced == "integers"):
        _check(host, keys, used)
    return tuple(keys), advanced


def _integer(part):
    return int(part) if isinstance(part, ndarray) else part


def _index_array(one) -> np.ndarray:
    given = as_array(one)
    if given is not None:
        host = given._host
    else:
        host = np.asarray(one)
        if host.size == 0 and isinstance(one, list | tuple):
            host = host.astype(np.int32)
        if host.dtype == object:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and "
                "integer or boolean arrays are valid indices"
            )
    if host.dtype.kind not in "biu":
        raise IndexError(
            "arrays used as indices must be of integer or boolean type. (actual: "
            f"{host.dtype.type})"
        )
    return host


def _check(host: np.ndarray, keys: list, used: int) -> None:
    """Wrap index arrays in place. Raises IndexError for integers and masks that do not fit."""
    axis = 0
    for i, one in enumerate(keys):
        if one is None:
            continue
        if one is Ellipsis:
            axis += host.ndim - used
        elif isinstance(one, slice):
            axis += 1
        elif not isinstance(one, np.ndarray):
            size = host.shape[axis]
            if not -size <= one < size:
                raise IndexError(f"Index {one} is out of bounds for axis {axis} with size {size}")
            axis += 1
        elif one.dtype == bool:
            for length in one.shape:
                if length not in (0, host.shape[axis]):
                    raise IndexError(
                        "boolean index did not match indexed array along dimension "
                        f"{axis}; dimension is {host.shape[axis]} but corresponding boolean "
                        f"dimension is {length}"
                    )
                axis += 1
        else:
            keys[i] = _wrapped(one, host.shape[axis])
            axis += 1


def _wrapped(indices: np.ndarray, length: int) -> np.ndarray:
    if indices.size == 0:
        return indices
    if length == 0:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    if indices.min() < -length or indices.max() >= length:
        # a small type may not be able to hold the length
        return (
            indices.astype(np.int64) % length
            if indices.dtype.itemsize < 8
            else (indices % np.asarray(length, indices.dtype))
        )
    return indices


def _record(
    name: str, size: int, *, prefix: str = "cupy_", kind: str = "copy", exact: bool = True
) -> None:
    if _launches.listening() and size:
        _launches.record(prefix + name, kind, size=size, exact=exact)
