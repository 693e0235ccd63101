"""Functions for ``GPUArray``: creation, joining, selection and reductions.

CuPy computes on the arrays' memory; result types and refusals are PyCUDA's.
"""

from __future__ import annotations

import math
import warnings

import cupy
import numpy as np

from virtualgpu.standins.interface import many

from . import _memory
from ._array import ArrayFlags, GPUArray, scalar_array, splay  # noqa: F401
from ._missing import lookup
from ._operators import common_dtype, into
from ._vectors import vec  # noqa: F401

__all__ = """
ArrayFlags GPUArray all any arange concatenate dot empty empty_like if_positive logical_and
logical_not logical_or max maximum min minimum ones ones_like reshape splay stack subset_dot
subset_max subset_min subset_sum sum take to_gpu to_gpu_async transpose vec where zeros zeros_like
""".split()

# -- creation -----------------------------------------------------------------------------------


def to_gpu(ary: np.ndarray, allocator=_memory.mem_alloc) -> GPUArray:
    """Copy a host array to the device."""
    strides = np.empty_like(ary, order="K", subok=False).strides
    result = GPUArray(ary.shape, ary.dtype, allocator, strides=strides)
    result.set(ary)
    return result


# Set here and not in _array, because a pickle must name a public function that PyCUDA has too.
GPUArray.__reduce__ = lambda self: (to_gpu, (self.get(),))


def to_gpu_async(ary: np.ndarray, allocator=_memory.mem_alloc, stream=None) -> GPUArray:
    """Return a device copy, made at once as by :func:`to_gpu`."""
    return to_gpu(ary, allocator)


empty = GPUArray
transpose, reshape, any, all = GPUArray.transpose, GPUArray.reshape, GPUArray.any, GPUArray.all


def zeros(shape, dtype=np.float64, allocator=_memory.mem_alloc, order="C") -> GPUArray:
    """Return an array of zeros."""
    return GPUArray(shape, dtype, allocator, order=order)._write(0)


def ones(shape, dtype=np.float64, allocator=_memory.mem_alloc, order="C") -> GPUArray:
    return GPUArray(shape, dtype, allocator, order=order)._write(1)


def empty_like(other_ary: GPUArray, dtype=None, order="K") -> GPUArray:
    made = np.empty_like(other_ary._layout(), dtype=dtype, order=order)
    return GPUArray(other_ary.shape, made.dtype, other_ary.allocator, strides=made.strides)


def zeros_like(other_ary: GPUArray, dtype=None, order="K") -> GPUArray:
    return empty_like(other_ary, dtype, order)._write(0)


def ones_like(other_ary: GPUArray, dtype=None, order="K") -> GPUArray:
    return empty_like(other_ary, dtype, order)._write(1)


def arange(*args, dtype=None, stream=None, **named) -> GPUArray:
    """Return ``arange([start,] stop[, step], dtype=)``.

    As in PyCUDA, a call without a dtype warns unless the guessed type is float32.
    """
    args = list(args)
    if args and isinstance(args[-1], np.dtype):
        dtype = args.pop()
    if len(args) > 3:
        raise ValueError("too many arguments")
    places = {1: ["stop"], 2: ["start", "stop"], 3: ["start", "stop", "step"]}.get(len(args), [])
    values = dict(zip(places, args, strict=True)) | named
    if unknown := named.keys() - {"start", "stop", "step"}:
        raise ValueError(f"unexpected keyword argument '{unknown.pop()}'")
    if "stop" not in values:
        raise ValueError("stop argument required")
    start, stop, step = values.get("start", 0), values["stop"], values.get("step", 1)
    if dtype is None:
        dtype = np.array([start, stop, step]).dtype
        if dtype != np.float32:
            warnings.warn(
                "behavior change: arange guessed dtype other than float32. suggest "
                "specifying explicit dtype.",
                stacklevel=2,
            )
    dtype = np.dtype(dtype)
    size = math.ceil((dtype.type(stop) - dtype.type(start)) / dtype.type(step))
    size = size if size > 0 else 0
    result = GPUArray((size,), dtype)
    return result._write(dtype.type(start) + np.arange(size).astype(dtype) * dtype.type(step))


def concatenate(arrays, axis=0, allocator=None) -> GPUArray:
    """Join arrays along an axis."""
    joined = cupy.concatenate([one._array for one in arrays], axis)
    return GPUArray(joined.shape, joined.dtype, allocator or arrays[0].allocator)._write(joined)


def stack(arrays, axis=0, allocator=None) -> GPUArray:
    """Join arrays along a new axis."""
    if not arrays:
        raise ValueError("need at least one array to stack")
    if len({one.shape for one in arrays}) > 1:
        raise ValueError("arrays must have the same shape")
    joined = cupy.stack([one._array for one in arrays], axis)
    return GPUArray(
        joined.shape,
        joined.dtype,
        allocator or arrays[0].allocator,
        order="C" if axis == 0 else "F",
    )._write(joined)


# -- selection by condition and by index --------------------------------------------------------


def take(a: GPUArray, indices: GPUArray, out=None, stream=None) -> GPUArray:
    """Return ``a[indices]`` for a one-dimensional array of indices.

    Raises IndexError for an index outside ``a``, where a GPU would read foreign memory.
    """
    if indices.ndim != 1:
        raise AssertionError("indices must have one dimension")
    out = into(out, indices.shape, lambda: GPUArray(indices.shape, a.dtype, a.allocator))
    chosen = indices._array
    flat = a._array.reshape(-1, order="A")
    if chosen.size:
        low, high = int(chosen.min()), int(chosen.max())
        if low < 0 or high >= flat.size:
            raise IndexError(
                f"indices go from {low} to {high}, but the array has {many(flat.size, 'element')}"
            )
    return out._write(flat[chosen])


def if_positive(criterion, then_, else_, out=None, stream=None) -> GPUArray:
    """Return ``then_`` where ``criterion`` is positive, else ``else_``."""
    if not criterion.shape == then_.shape == else_.shape:
        raise ValueError("shapes do not match")
    if then_.dtype != else_.dtype:
        raise ValueError("dtypes do not match")
    out = into(out, then_.shape, lambda: empty_like(then_))
    return out._write(cupy.where(criterion._array > 0, then_._array, else_._array))


def where(criterion, then_, else_, out=None, stream=None) -> GPUArray:
    """Return ``then_`` where ``criterion`` is not 0, else ``else_``."""
    if criterion.shape != then_.shape or then_.shape != else_.shape:
        raise NotImplementedError("shape broadcast not implemented")
    if then_.dtype != else_.dtype:
        raise NotImplementedError("dtype broadcast not implemented")
    out = into(out, then_.shape, lambda: empty_like(then_))
    return out._write(cupy.where(criterion._array != 0, then_._array, else_._array))


def _logical(function):
    def apply(*args, out=None, allocator=_memory.mem_alloc) -> GPUArray:
        *operands, out = args if len(args) > function.nin else (*args, out)
        made = function(*map(cupy.asarray, _arrays(operands)))
        out = into(out, made.shape, lambda: GPUArray(made.shape, bool, allocator), np.bool_)
        return out._write(made)

    apply.__name__ = apply.__qualname__ = function.__name__
    apply.__doc__ = f"Return ``{function.__name__}`` of arrays and numbers as booleans."
    return apply


logical_and, logical_or = _logical(cupy.logical_and), _logical(cupy.logical_or)
logical_not = _logical(cupy.logical_not)


def minimum(a, b, out=None, stream=None) -> GPUArray:
    """Return the smaller of two values; NaN is ignored if the other is a number."""
    return _extreme(cupy.fmin, a, b, out)


def maximum(a, b, out=None, stream=None) -> GPUArray:
    """Return the larger of two values; NaN is ignored if the other is a number."""
    return _extreme(cupy.fmax, a, b, out)


# -- reductions: arrays of shape () -------------------------------------------------------------


def sum(a, dtype=None, stream=None, allocator=None) -> GPUArray:
    """Return the sum, in the array's own type unless ``dtype`` is given."""
    dtype = np.dtype(dtype or a.dtype)
    return scalar_array(cupy.sum(a._array, dtype=dtype), dtype, allocator)


def subset_sum(subset, a, dtype=None, stream=None, allocator=None) -> GPUArray:
    """Return the sum of the elements whose indices are in ``subset``."""
    return sum(take(a, subset), dtype, allocator=allocator)


def dot(a, b, dtype=None, stream=None, allocator=None) -> GPUArray:
    """Return the sum of elementwise products; complex numbers are not conjugated."""
    dtype = np.dtype(dtype or common_dtype(a, b))
    return scalar_array(cupy.sum(a._array * b._array, dtype=dtype), dtype, allocator)


def subset_dot(subset, a, b, dtype=None, stream=None, allocator=None) -> GPUArray:
    return dot(take(a, subset), take(b, subset), dtype, allocator=allocator)


def max(a, stream=None) -> GPUArray:
    """Return the largest element, ignoring NaN."""
    return scalar_array(cupy.nanmax(a._array), a.dtype)


def min(a, stream=None) -> GPUArray:
    """Return the smallest element, ignoring NaN."""
    return scalar_array(cupy.nanmin(a._array), a.dtype)


def subset_max(subset, a, stream=None) -> GPUArray:
    return max(take(a, subset))


def subset_min(subset, a, stream=None) -> GPUArray:
    return min(take(a, subset))


def _extreme(function, a, b, out):
    array = a if isinstance(a, GPUArray) else b
    out = into(out, array.shape, lambda: empty_like(array))
    return out._write(function(*_arrays((a, b))))


def _arrays(operands) -> list:
    return [one._array if isinstance(one, GPUArray) else one for one in operands]


#: Names that the stand-in lacks, with alternatives.
MISSING = {
    "multi_take": "take for each array",
    "multi_put": "an elementwise kernel",
    "multi_take_put": "an elementwise kernel",
}
__getattr__ = lookup("pycuda.gpuarray", MISSING)
