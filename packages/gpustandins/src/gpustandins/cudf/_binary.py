"""Arithmetic and comparison operators of columns."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pandas as pd

from ._wrapping import unwrap, wrap

OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "matmul": operator.matmul,
}
COMPARISONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
# The quotient of small integers is a small float in cuDF, as in NumPy but not in pandas
# (NumericalColumn._binaryop).
_QUOTIENT = {
    "bool": "float32",
    "int8": "float32",
    "int16": "float32",
    "int32": "float32",
    "uint8": "float32",
    "uint16": "float32",
    "uint32": "float64",
}


def give_operators(cls: type) -> None:
    """Add the binary operators, the reflected ones and the unary ones to a class."""
    for name, function in {**OPERATORS, **COMPARISONS}.items():
        setattr(cls, f"__{name}__", _operator(function, name))
    for name, function in OPERATORS.items():
        setattr(cls, f"__r{name}__", _reflected(function, name))
    for name in ("neg", "pos", "abs", "invert"):
        setattr(cls, f"__{name}__", _unary(getattr(operator, f"__{name}__")))


def _kind(side) -> str:
    """Return the name of a column's dtype or of a scalar's type."""
    return str(getattr(side, "dtype", type(side).__name__)).lower()


def _operator(function: Callable, name: str) -> Callable:
    def method(self, other):
        left, right = _operands(self, other, name)
        return wrap(function(left, right))

    return method


def _reflected(function: Callable, name: str) -> Callable:
    def method(self, other):
        left, right = _operands(self, other, name)
        return wrap(function(right, left))

    return method


def _unary(function: Callable) -> Callable:
    def method(self):
        return wrap(function(self._as_pandas()))

    return method


def _operands(self, other, name: str) -> tuple:
    # Different indexes produce nulls, and integers must remain integers.
    aligning = getattr(other, "_index", self._index) is not self._index and not (
        other._index.equals(self._index)
    )
    nothing = other is None or other is pd.NA  # a comparison with it is null everywhere
    left = self._as_pandas(aligning or nothing)
    right = pd.NA if nothing else unwrap(other, aligning)
    if isinstance(right, list | tuple):
        right = np.asarray(right)
    if name in ("and", "or", "xor"):
        kinds = [_kind(side) for side in (left, right)]
        if any(kind.startswith("float") for kind in kinds):
            raise TypeError(
                f"Operation 'bitwise {name}' not supported between {kinds[0]} and {kinds[1]}"
            )
    if name == "truediv" and left.ndim == 1:
        small = _QUOTIENT.get(str(self.dtype))
        if small:
            left = left.astype(small.capitalize() if hasattr(left.dtype, "numpy_dtype") else small)
    return left, right
