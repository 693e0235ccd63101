"""Traced values of a fused function, and the record of its operations.

A :class:`Traced` value has operators and is accepted by ufuncs; each use adds a line of C++ to its
:class:`Trace`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import core
from .._arrays.operators import BINARY, COMPARISONS
from .code import type_name
from .expressions import expression

NUMBERS = (bool, int, float, complex)
# A single element has no matrix product, and divmod has two results.
_BINARY = {short: name for short, name in BINARY.items() if short not in ("matmul", "divmod")}
_BINARY["pow"] = "power"


class Traced:
    """Traced argument or result of a fused function, with a dtype and a C++ name.

    It has operators, ``astype`` and ``copy``. Ufuncs accept it, other functions do not.
    """

    __array_ufunc__ = None  # NumPy's ufuncs and scalars then defer to this class
    __hash__ = None

    def __init__(
        self, trace: Trace, name: str, dtype: np.dtype, ndim: int, weak: type | None = None
    ):
        self._trace, self._name, self._weak = trace, name, weak
        self.dtype, self.ndim = np.dtype(dtype), ndim

    def __repr__(self) -> str:
        return f"<fused {self.dtype} {f'{self.ndim}-dim array' if self.ndim >= 0 else 'scalar'}>"

    def __cupy_override_elementwise_kernel__(self, kernel, *args, **kwargs):
        return self._trace.call(kernel, *args, **kwargs)

    def __neg__(self):
        return _ufunc("negative")(self)

    def __pos__(self):
        return _ufunc("positive")(self)

    def __pow__(self, other):
        # The same rule as for arrays, because pow() costs a hundred times as much.
        if type(other) is int and other == 2 and self.dtype.kind in "ifc":
            return _ufunc("square")(self)
        return _ufunc("power")(self, other)

    def __abs__(self):
        return _ufunc("absolute")(self)

    def __invert__(self):
        return _ufunc("invert")(self)

    def __bool__(self):
        raise TypeError(
            "Can't cast to bool: cupy.fuse calls the function once, before any element exists; "
            "use cupy.where(condition, a, b) instead of if"
        )

    def __array__(self, dtype=None, copy=None):
        raise NotImplementedError(
            f"{self!r} has no elements while a function is fused: create and copy arrays outside, "
            "and pass them as arguments (a traced value has .copy() and .astype())"
        )

    def __iter__(self):
        raise TypeError(
            "a fused function describes what happens to one element, so it cannot loop over arrays"
        )

    def __setitem__(self, index, value):
        if not (index is Ellipsis or (isinstance(index, slice) and index == slice(None))):
            raise ValueError("The fusion supports `[...]` or `[:]`.")
        self._trace.assign(self, self._trace.traced(value))

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(
            f"{self!r}.{name} cannot be fused: the stand-in's cupy.fuse fuses only elementwise "
            f"functions, operators, sum, prod, max and min; use .{name} outside the fused function"
        )

    def sum(self, axis=None, dtype=None, out=None, keepdims=False):
        return self._reduce("sum", axis, dtype, out, keepdims)

    def prod(self, axis=None, dtype=None, out=None, keepdims=False):
        return self._reduce("prod", axis, dtype, out, keepdims)

    def max(self, axis=None, out=None, keepdims=False):
        return self._reduce("max", axis, None, out, keepdims)

    def min(self, axis=None, out=None, keepdims=False):
        return self._reduce("min", axis, None, out, keepdims)

    def _reduce(self, name, axis, dtype, out, keepdims) -> Reduced:
        if out is not None:
            raise NotImplementedError(f"the stand-in's cupy.fuse cannot fuse {name} with out=")
        return Reduced(self, name, dtype, {"axis": axis, "keepdims": keepdims})

    def clip(self, min=None, max=None, out=None):
        return self._trace.clip(self, min, max, out)

    def copy(self):
        return _ufunc("positive")(self) if self.dtype != bool else self | False

    def astype(self, dtype, copy: bool = True):
        return self._trace.cast(self, np.dtype(dtype))


class Reduced:
    """Reduction as the last step of a fused function, which can only be returned."""

    __array_ufunc__ = None
    __hash__ = None

    def __init__(self, value: Traced, name: str, dtype, kwargs: dict):
        self.value, self.name, self.kwargs = value, name, kwargs
        given = value.dtype if dtype is None else np.dtype(dtype)
        self.dtype = getattr(np.empty(1, given), name)().dtype

    def __repr__(self) -> str:
        return f"<fused {self.name} of {self.value!r}>"

    def __getattr__(self, name: str):
        if name.startswith("__") and name != "__cupy_override_elementwise_kernel__":
            raise AttributeError(name)
        raise NotImplementedError(
            f"{self!r} must be the last step in the stand-in's cupy.fuse: return it, and continue "
            "outside the fused function"
        )

    def _refuse(self, *others):
        return self.more

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _refuse
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __abs__ = __bool__ = _refuse


def _ufunc(name: str):
    from .._arrays.ufunc import UFUNCS

    return UFUNCS[name]


def _operators() -> None:
    def binary(function, reflected=False, in_place=False):
        def method(self, other):
            if in_place:
                return _ufunc(function)(self, other, self)
            return _ufunc(function)(other, self) if reflected else _ufunc(function)(self, other)

        return method

    for name, function in _BINARY.items():
        if name != "pow":
            setattr(Traced, f"__{name}__", binary(function))
        setattr(Traced, f"__r{name}__", binary(function, reflected=True))
        setattr(Traced, f"__i{name}__", binary(function, in_place=True))
    for name, function in COMPARISONS.items():
        setattr(Traced, f"__{name}__", binary(function))


_operators()


class Trace:
    """C++ code recorded during one run of a fused function."""

    def __init__(self, args: tuple):
        self.lines: list[str] = []
        self.assigned: set[str] = set()
        self._count = 0
        self.arguments: list[Traced | None] = []
        for one in args:
            name, weak = f"v{len(self.arguments)}", type(one) if type(one) in NUMBERS else None
            if one is None:
                self.arguments.append(None)
            elif isinstance(one, core.ndarray):
                self.arguments.append(Traced(self, name, one.dtype, one.ndim))
            else:
                dtype = one.dtype if isinstance(one, np.generic) else np.dtype(type(one))
                self.arguments.append(Traced(self, name, dtype, -1, weak))

    def traced(self, value: Any) -> Traced:
        """Return an operand, possibly a constant, as a traced value, or raise TypeError."""
        if isinstance(value, Traced):
            return value
        if isinstance(value, (*NUMBERS, np.generic)):
            weak = type(value) if type(value) in NUMBERS else None
            scalar = value if isinstance(value, np.generic) else np.asarray(value)[()]
            return Traced(self, literal(scalar), scalar.dtype, -1, weak)
        raise TypeError(
            f"Unsupported type {type(value)} in a fused function: pass arrays as arguments of "
            "the function, so that they become arguments of the kernel"
        )

    def call(self, function, *args, out=None, dtype=None, **unknown):
        """Call a ufunc on traced values."""
        if getattr(function, "__name__", "") == "where":
            return self.where(*args)
        if getattr(function, "__name__", "") == "clip":
            return self.clip(*args, out=out)
        loops = getattr(function, "_loops", None)
        if loops is None:
            raise NotImplementedError(
                f"{function!r} cannot be fused: cupy.fuse fuses ufuncs; call the kernel outside "
                "the fused function, or write its operation in terms of ufuncs"
            )
        if out is not None:
            args = (*args, *(out if isinstance(out, tuple) else (out,)))
        if function.nout != 1 or dtype is not None or unknown.keys() - {"casting"}:
            raise NotImplementedError(
                f"{function!r} cannot be fused: only ufuncs with one result and without dtype= are "
                "supported; use .astype"
            )
        values = [self.traced(one) for one in args[: function.nin]]
        kinds = tuple(_kind(one) for one in values)
        try:
            *types, result = loops.resolve_dtypes((*kinds, None))
        except TypeError:
            raise TypeError(
                f"Invalid type cast in '{function.name}': {[str(one.dtype) for one in values]}"
            ) from None
        name = function.name.removeprefix("cupy_")
        code = expression(name, types[0])
        if code is None:
            raise NotImplementedError(
                f"cupy.{function.__name__} of {types[0]} cannot be fused, because the stand-in has "
                "no C++ for it; compute it outside, or write an ElementwiseKernel"
            )
        operands = [cast(one._name, dtype) for one, dtype in zip(values, types, strict=True)]
        made = self._new(f"({code.format(*operands)})", result, max(one.ndim for one in values))
        targets = args[function.nin :]
        if not targets:
            return made
        (target,) = targets
        if not np.can_cast(result, target.dtype, "same_kind"):
            raise TypeError(
                f"Cannot cast output operand from {result!r} to {target.dtype!r} "
                "according to the rule 'same_kind'"
            )
        return self.assign(target, made)

    def where(self, condition, x, y) -> Traced:
        """Trace ``cupy.where``."""
        condition, x, y = (self.traced(one) for one in (condition, x, y))
        # NumPy's rule for weak numbers, looked up through a function of two arguments.
        result = np.maximum.resolve_dtypes((_kind(x), _kind(y), None))[-1]
        code = f"(bool({condition._name}) ? {cast(x._name, result)} : {cast(y._name, result)})"
        return self._new(code, result, max(condition.ndim, x.ndim, y.ndim))

    def clip(self, a, a_min, a_max, out=None) -> Traced:
        """Trace ``cupy.clip`` as two ufuncs, which keep NaN."""
        made = a if a_min is None else self.call(_ufunc("maximum"), a, a_min)
        made = made if a_max is None else self.call(_ufunc("minimum"), made, a_max)
        return made if out is None else self.assign(out, made)

    def cast(self, value: Traced, dtype: np.dtype) -> Traced:
        if value.dtype.kind == "c" and dtype.kind != "c":
            raise NotImplementedError(
                "the stand-in's cupy.fuse cannot convert a complex number to a real one"
            )
        return self._new(value._name, dtype, value.ndim)

    def assign(self, target: Traced, value: Traced) -> Traced:
        """Trace ``target[...] = value``; a target that is an argument is the caller's array."""
        if not isinstance(target, Traced) or target.ndim < 0:
            raise TypeError("return arrays must be of ArrayType")
        self.assigned.add(target._name)
        self.lines.append(f"{target._name} = {cast(value._name, target.dtype)};")
        return target

    def _new(self, code: str, dtype: np.dtype, ndim: int) -> Traced:
        self._count += 1
        made = Traced(self, f"t{self._count}", dtype, ndim)
        self.lines.append(f"{type_name(dtype)} {made._name} = {cast(code, dtype)};")
        return made


def _kind(value: Traced):
    """Return the type for NumPy's promotion rules, in which Python numbers are weak."""
    if value._weak in (int, float, complex):
        return value._weak
    return value.dtype


def cast(code: str, dtype: np.dtype) -> str:
    """Return a C++ expression converted to ``dtype``; half precision computes in single."""
    name = "float" if dtype == np.float16 else type_name(dtype)
    return f"static_cast<{name}>({code})"


def literal(value: np.generic) -> str:
    """Return a C++ constant with exactly the same bits."""
    kind, name = value.dtype.kind, type_name(value.dtype)
    if kind == "b":
        return "true" if value else "false"
    if kind in "iu":
        if kind == "i" and value == np.iinfo(value.dtype).min:
            return f"static_cast<{name}>({int(value) + 1}ll - 1)"
        return f"static_cast<{name}>({int(value)}{'ull' if kind == 'u' else 'll'})"
    if kind == "c":
        part = "float" if value.dtype.itemsize == 8 else "double"
        return f"{name}({_real(value.real, part)}, {_real(value.imag, part)})"
    return _real(value, name)


def _real(value, name: str) -> str:
    number = float(value)
    if number != number:
        return f"{name}(__longlong_as_double(0x7ff8000000000000ll))"
    if number in (float("inf"), float("-inf")):
        sign = "-" if number < 0 else ""
        return f"{name}({sign}__longlong_as_double(0x7ff0000000000000ll))"
    return f"{name}({number.hex()})"
