"""Operators of an array: each calls one ufunc, and defers to other types as in CuPy."""

from __future__ import annotations

import numpy as np

_MISSING = object()
#: The ufunc of each operator, by the method's name without underscores.
BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "matmul": "matmul",
    "divmod": "divmod",
}
_IN_PLACE = [name for name in BINARY if name not in ("matmul", "divmod")]
COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


#: The package's functions by name, complete after the package has been imported.
FUNCTIONS: dict = {}
named = FUNCTIONS.__getitem__


def defers(x, y) -> bool:
    """Return True if the reflected operator of ``y`` must run (NEP 13, array priorities)."""
    theirs = getattr(y, "__array_ufunc__", _MISSING)
    if theirs is not _MISSING:
        return theirs is None
    return getattr(x, "__array_priority__", 0) < getattr(y, "__array_priority__", 0)


class Operators:
    """Mixin of ``ndarray`` with the operators."""

    __slots__ = ()

    def __neg__(self):
        return named("negative")(self)

    def __pos__(self):
        if self.dtype == bool:
            import warnings

            warnings.warn(
                "Applying '+' to a non-numerical array is ill-defined. Returning a copy, but in "
                "the future this will error.",
                DeprecationWarning,
                stacklevel=2,
            )
            return self.copy()
        return named("positive")(self)

    def __abs__(self):
        return named("absolute")(self)

    def __invert__(self):
        return named("invert")(self)

    def __pow__(self, other, modulo=None):
        """Use ``square``, ``sqrt`` and ``reciprocal`` for exponents 2, 0.5, −1, as CuPy 14.2 does.

        Other exponents and arrays use ``power``, which versions before 14.2 used for all
        exponents.
        """
        fast = None
        if type(other) is int and other == 2:
            fast, known = "square", self.dtype.kind in "ifc"
        elif type(other) is float and other in (0.5, 2.0, -1.0):
            fast = {0.5: "sqrt", 2.0: "square", -1.0: "reciprocal"}[other]
            known = self.dtype.kind in "fc"
        if fast is not None:
            return named(fast)(self, dtype=None if known else np.result_type(self.dtype, other))
        return _binary("power", self, other)

    def __rpow__(self, other):
        return _reflected("power", self, other)

    def __ipow__(self, other):
        return named("power")(self, other, self)

    def __imatmul__(self, other):
        return named("matmul")(self, other, out=self)


def _binary(name: str, x, y):
    if isinstance(y, Operators) or type(y) in (int, float, complex, bool):
        return named(name)(x, y)
    if defers(x, y):
        return NotImplemented
    return getattr(np, name)(x, y)


def _reflected(name: str, x, y):
    """Return ``y OP x`` for a ``y`` whose own operator does not support ``x``."""
    if type(y) in (int, float, complex, bool):
        return named(name)(y, x)
    return getattr(np, name)(y, x)


def _compare(name: str, x, y):
    if type(y) is int and x.dtype == bool:
        y = min(max(y, -1), 2)  # NumPy refuses integers beyond its default integer type
    if isinstance(y, Operators) or type(y) in (int, float, complex, bool):
        return named(name)(x, y)
    if defers(x, y):
        return NotImplemented
    if isinstance(y, np.ndarray) and y.ndim == 0:
        y = y.item()
    if name in ("equal", "not_equal") and (y is None or type(y).__eq__ is object.__eq__):
        # An object that compares by identity never equals a number.
        return named("full")(x.shape, name == "not_equal", dtype=bool)
    return getattr(np, name)(x, y)


def _add_operators() -> None:
    def add(method: str, function, name: str, doc: str):
        def operator(self, other):
            return function(name, self, other)

        operator.__name__ = method
        operator.__doc__ = doc
        setattr(Operators, method, operator)

    def in_place(name, x, y):
        return named(name)(x, y, x)

    for short, name in BINARY.items():
        add(f"__{short}__", _binary, name, f"Return ``cupy.{name}(self, other)``.")
        add(f"__r{short}__", _reflected, name, f"Return ``cupy.{name}(other, self)``.")
    for short in _IN_PLACE:
        add(
            f"__i{short}__",
            in_place,
            BINARY[short],
            f"Return ``cupy.{BINARY[short]}(self, other, out=self)``.",
        )
    for short, name in COMPARISONS.items():
        add(f"__{short}__", _compare, name, f"Return ``cupy.{name}(self, other)``.")


_add_operators()
