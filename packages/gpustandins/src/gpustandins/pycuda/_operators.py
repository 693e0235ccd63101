"""Operators of ``GPUArray`` with PyCUDA's results, including its peculiarities.

Comparisons return 0 and 1 in the type of the arrays, the two shapes must be equal (or one of them
empty), and integer division follows C.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

_NOT_CONTIGUOUS = "only contiguous arrays may be used as arguments to this operation"


class Operators:
    """Mixin that gives ``GPUArray`` its operators.

    This module recognises arrays by this class.
    """

    __hash__ = None

    def __pos__(self):
        return self

    def __neg__(self):
        need_contiguous(self)
        return self._new_like_me()._write(-self._array)

    def __abs__(self):
        need_contiguous(self)
        dtype = np.dtype(f"f{self.itemsize // 2}") if self.dtype.kind == "c" else self.dtype
        return self._new_like_me(dtype)._write(cupy.abs(self._array))

    def __truediv__(self, other):
        if isinstance(other, Operators):
            return _binary(_divide, self, other)
        if np.isscalar(other) and other == 1:
            return self.copy()
        return _binary(_divide_by, self, other)

    def __rtruediv__(self, other):
        return _binary(_swapped(_divide), self, other)

    def __itruediv__(self, other):
        if isinstance(other, Operators):
            return _binary(_divide, self, other, self)
        return self if other == 1 else _binary(_divide_by, self, other, self)

    def mul_add(self, selffac, other, otherfac, add_timer=None, stream=None, out=None):
        """Compute ``selffac * self + otherfac * other`` in one kernel."""
        need_contiguous(self, other)
        shape = self.shape or other.shape
        result = into(out, shape, lambda: self._new_like_me(common_dtype(self, other)))
        return result._write(selffac * self._array + otherfac * other._array)

    def fill(self, value, stream=None):
        """Set all elements to ``value``."""
        need_contiguous(self)
        return self._write(value)

    def reverse(self, stream=None):
        """Return the elements in reverse order, as in a one-dimensional array."""
        need_contiguous(self)
        flat = self._array.reshape(-1, order="A")[::-1]
        result = self._new_like_me()
        return result._write(flat.reshape(self.shape, order=order_of(self)))

    def astype(self, dtype, stream=None):
        need_contiguous(self)
        return self._new_like_me(dtype)._write(self._array)

    def any(self, stream=None, allocator=None):
        return self._scalar(cupy.any(self._array), bool)

    def all(self, stream=None, allocator=None):
        return self._scalar(cupy.all(self._array), bool)

    @property
    def real(self):
        if self.dtype.kind != "c":
            return self
        return self._new_like_me(f"f{self.itemsize // 2}", order_of(self))._write(self._array.real)

    @property
    def imag(self):
        if self.dtype.kind != "c":
            return self._new_like_me()._write(0)
        return self._new_like_me(f"f{self.itemsize // 2}", order_of(self))._write(self._array.imag)

    def conj(self, out=None):
        if self.dtype.kind != "c":
            return self
        return into(out, self.shape, self._new_like_me)._write(self._array.conj())

    conjugate = conj


def order_of(array: Any) -> str:
    """Return "F" if an array is contiguous only in Fortran order, else "C"."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def need_contiguous(*arrays) -> None:
    """Raise RuntimeError for arrays with gaps."""
    for one in arrays:
        if isinstance(one, Operators) and not one.flags.forc:
            raise RuntimeError(_NOT_CONTIGUOUS)


def into(out: Any, shape: tuple[int, ...], make: Callable[[], Any], dtype: Any = None) -> Any:
    """Return ``out``, or a new array if it is None.

    As in PyCUDA, raises AssertionError if ``out`` has another shape than the result, or another
    dtype if ``dtype`` is given.
    """
    if out is None:
        return make()
    if out.shape != shape:
        raise AssertionError(f"out has shape {out.shape}, but the result has {shape}")
    if dtype is not None and out.dtype != dtype:
        raise AssertionError(f"out has dtype {out.dtype}, but the result has {dtype}")
    return out


def common_dtype(x: Operators, y: Any) -> np.dtype:
    """Return the dtype of the result by NumPy's rule for numbers and arrays."""
    other = np.zeros(1, y.dtype) if isinstance(y, Operators) else y
    return (np.zeros(1, x.dtype) + other).dtype


def _binary(function, x: Operators, y: Any, out: Operators | None = None):
    if not isinstance(y, Operators) and not np.isscalar(y):
        return NotImplemented
    need_contiguous(x, y)
    dtype = common_dtype(x, y)
    if isinstance(y, Operators) and x.shape != y.shape and x.shape and y.shape:
        raise NotImplementedError(
            f"Broadcasting binary operator with shapes: {x.shape}, {y.shape}."
        )
    if out is None:
        like = y if isinstance(y, Operators) and not x.shape else x
        out = like._new_like_me(dtype)
    values = x._array, y._array if isinstance(y, Operators) else y
    if isinstance(function, cupy.ufunc) and (dtype.kind != "c" or out.dtype.kind == "c"):
        function(*values, out=out._array, casting="unsafe")
        return out
    return out._write(function(*values))


def _divide(x: cupy.ndarray, y: cupy.ndarray) -> cupy.ndarray:
    """Divide integers as in C and other numbers exactly.

    An integer division by zero sets all bits, as on a GPU.
    """
    if cupy.result_type(x, y).kind not in "iu":
        return cupy.true_divide(x, y)
    zero = y == 0
    divisor = cupy.where(zero, y.dtype.type(1), y)
    quotient = cupy.floor_divide(x, divisor)
    quotient += ((quotient < 0) & (quotient * divisor != x)).astype(quotient.dtype)
    return cupy.where(zero, quotient.dtype.type(0) - quotient.dtype.type(1), quotient)


def _divide_by(x: cupy.ndarray, y: Any) -> cupy.ndarray:
    """Multiply by ``1 / y`` as PyCUDA does, which is impossible for integer arrays."""
    if cupy.result_type(x, y).kind in "iu":
        raise struct.error(
            "required argument is not an integer (PyCUDA multiplies an integer "
            "array by 1 / number: convert it with .astype first)"
        )
    return x * (1 / y)


def _power(x, y):
    if cupy.result_type(x, y).kind in "iu":  # computed with pow(double, double)
        return cupy.power(cupy.asarray(x, np.float64), y)
    return cupy.power(x, y)


def _swapped(function):
    return lambda x, y: function(cupy.asarray(y, cupy.result_type(x, y)), x)


def _operator(function, in_place: bool = False):
    def method(self, other):
        return _binary(function, self, other, self if in_place else None)

    return method


for _name, _function in (
    ("add", cupy.add),
    ("sub", cupy.subtract),
    ("mul", cupy.multiply),
    ("pow", _power),
):
    setattr(Operators, f"__{_name}__", _operator(_function))
    setattr(Operators, f"__r{_name}__", _operator(_swapped(_function)))
    setattr(Operators, f"__i{_name}__", _operator(_function, in_place=True))
# PyCUDA's comparisons return 0 and 1 in the type of the operands.
for _name, _function in (
    ("eq", cupy.equal),
    ("ne", cupy.not_equal),
    ("lt", cupy.less),
    ("le", cupy.less_equal),
    ("gt", cupy.greater),
    ("ge", cupy.greater_equal),
):
    setattr(Operators, f"__{_name}__", _operator(_function))
