"""Universal functions: each is one kernel, computed with NumPy's loops and CuPy's rules.

The result types are NumPy's. CuPy 14's tables give the same types for every pair of arguments,
except where CuPy refuses them (``REFUSED``). There are no floating-point warnings, since a GPU has
no flags for them.
"""

from __future__ import annotations

import numpy as np

from .. import _launches
from .._tracing import TRACING
from .arithmetic import SPECIAL
from .casting import cast
from .core import fresh, ndarray, wrote
from .creation import asarray
from .indexing import scatter
from .operands import as_array, on_host, on_this_device, operand, wrap

#: Names that share the kernel of another name.
KERNELS = {
    "abs": "absolute",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift",
    "bitwise_not": "invert",
    "bitwise_right_shift": "right_shift",
    "conj": "conjugate",
    "degrees": "rad2deg",
    "divide": "true_divide",
    "mod": "remainder",
    "pow": "power",
    "radians": "deg2rad",
}

NAMES = """
abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan
atan2 atanh bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor cbrt ceil conj conjugate copysign cos cosh deg2rad degrees divide
divmod equal exp exp2 expm1 fabs float_power floor floor_divide fmax fmin fmod frexp gcd greater
greater_equal heaviside hypot invert isfinite isinf isnan lcm ldexp left_shift less less_equal log
log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor maximum
minimum mod modf multiply negative nextafter not_equal positive pow power rad2deg radians
reciprocal remainder right_shift rint sign signbit sin sinh sqrt square subtract tan tanh
true_divide trunc
""".split()

#: Types (of any argument) that NumPy accepts and CuPy refuses.
REFUSED = dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), "FD")

#: For ``ufunc.at``: the types with an atomic operation on the GPU (CuPy 14's scatter kernels).
AT = {
    "add": ("add", "iqILQlefd", "int32, int64, float16, float32, float64, uint32, uint64"),
    "subtract": ("subtract", "iI", "int32, uint32,"),
    "maximum": ("maximum", "iqILQlfd", "int32, int64, float32, float64, uint32, uint64"),
    "minimum": ("minimum", "iqILQlfd", "int32, int64, float32, float64, uint32, uint64"),
    "bitwise_and": ("bitwise_and", "iqILQl", "int32, int64, uint32, uint64"),
    "bitwise_or": ("bitwise_or", "iqILQl", "int32, int64, uint32, uint64"),
    "bitwise_xor": ("bitwise_xor", "iqILQl", "int32, int64, uint32, uint64"),
}


class ufunc:
    """Function of single elements; the arguments must be CuPy arrays or scalars.

    ``name`` is the kernel's name (``cupy_add``), ``nin``, ``nout`` and ``nargs`` count arguments
    and results, and ``types`` lists NumPy's loops.
    """

    def __init__(self, name: str, loops: np.ufunc):
        self.__name__ = self._python_name = name
        self.name = f"cupy_{KERNELS.get(name, name)}"
        self._loops = loops
        self.nin, self.nout, self.nargs = loops.nin, loops.nout, loops.nargs
        self.types = [t for t in loops.types if not set(t) & set("gGOMm")]
        self._resolved: dict = {}
        self.__doc__ = f"Compute ``numpy.{name}`` elementwise, in one kernel named ``{self.name}``."

    def __repr__(self) -> str:
        return f"<ufunc '{self.name}'>"

    def __reduce__(self):
        return _by_name, (self._python_name,)

    def __call__(self, *args, out=None, dtype=None, casting="same_kind", **unknown):
        """Apply the function to arrays and scalars.

        Parameters
        ----------
        *args
            ``nin`` arguments, followed by at most ``nout`` arrays for the results.
        out : cupy.ndarray or tuple of them, optional
        dtype : dtype, optional
            The type of the result and of the computation.
        casting : str
            The casting rule for the conversion of the result to ``out``.

        Raises
        ------
        TypeError
            ``Unsupported type ...`` for NumPy arrays, lists and other host objects.
        """
        if unknown:
            raise TypeError(f"Wrong arguments {unknown}")
        if not self.nin <= len(args) <= self.nargs:
            raise TypeError(
                f"Wrong number of arguments for {self.name!r}. It must be either {self.nin} or "
                f"{self.nargs} (with outputs), but given {len(args)}."
            )
        if out is None and dtype is None and len(args) == self.nin:
            made = self._quick(args)
            if made is not None:
                return made
        if TRACING.trace is not None and all(np.isscalar(one) for one in args):
            return TRACING.trace.call(self, *args, out=out, dtype=dtype)
        for one in args:
            # The fusion tracer and other libraries' arrays handle the call themselves.
            if type(one) is not ndarray and hasattr(one, "__cupy_override_elementwise_kernel__"):
                given = {"out": out, "dtype": dtype, "casting": casting}
                return one.__cupy_override_elementwise_kernel__(
                    self, *args, **{k: v for k, v in given.items() if v is not None}
                )
        inputs = [operand(a) for a in args[: self.nin]]
        outs = self._outs(args[self.nin :], out)
        shape = _common_shape(inputs, outs)
        given, loop, results = self._types(inputs, dtype)
        arrays = [
            fresh(shape, result) if one is None else _fitting(one, shape, result, casting)
            for one, result in zip(outs, results, strict=True)
        ]
        if shape == () or 0 not in shape:
            self._compute(inputs, arrays, given, results)
            for one in outs:
                if one is not None:
                    wrote(one)
            if _launches.listening():
                self._record(inputs, arrays, loop)
        return arrays[0] if self.nout == 1 else tuple(arrays)

    def _quick(self, args):
        """Compute the frequent case of equal shapes and Python numbers; otherwise return None."""
        inputs, key, shape = [], [], None
        for one in args:
            kind = type(one)
            if kind is ndarray:
                on_this_device(one)
                one = one._host
                if shape is None:
                    shape = one.shape
                elif one.shape != shape:
                    return None
                kind = one.dtype
            elif kind is not int and kind is not float:
                return None
            inputs.append(one)
            key.append(kind)
        found = self._resolved.get((*key, None))
        if found is None or shape is None or 0 in shape:
            return None
        _, loop, results = found
        arrays = [fresh(shape, result) for result in results]
        targets = [array._host for array in arrays]
        special = SPECIAL.get(self.name)
        with np.errstate(all="ignore"):
            if special is None or not special(inputs, targets):
                self._loops(*inputs, out=tuple(targets), casting="unsafe")
        if _launches.listening():
            self._record(inputs, arrays, loop)
        return arrays[0] if self.nout == 1 else tuple(arrays)

    def _outs(self, positional, out) -> list:
        if out is not None:
            if positional:
                raise ValueError("Cannot specify 'out' as both a positional and keyword argument")
            positional = out if isinstance(out, tuple) else (out,)
            if len(positional) != self.nout:
                raise ValueError(
                    "'out' must be a tuple of arrays"
                    if self.nout > 1
                    else "The 'out' tuple must have exactly one entry per ufunc output"
                )
        outs = []
        for one in positional:
            array = None if one is None else as_array(one)
            if one is not None and array is None:
                if isinstance(one, np.ndarray):
                    raise TypeError(f"Unsupported type {type(one)}")
                raise TypeError("Output arguments type must be cupy.ndarray")
            outs.append(array)
        return outs + [None] * (self.nout - len(outs))

    def _types(self, inputs, dtype) -> tuple:
        """Return the cast types (None if NumPy casts), the loop's types and the result types."""
        # _quick uses the same keys.
        key = (*(_weak_type(one) for one in inputs), dtype)
        found = self._resolved.get(key)
        if found is None:
            found = self._resolved[key] = self._resolve(key[:-1], dtype)
        return found

    def _resolve(self, kinds, dtype) -> tuple:
        refused = REFUSED.get(self._python_name, "")
        if any(
            isinstance(kind, np.dtype) and (kind.char in refused or kind.kind in "mM")
            for kind in kinds
        ):
            raise TypeError(f"Wrong type ({kinds}) of arguments for {self.name}")
        nothing = (None,) * self.nout
        if dtype is not None:
            dtype = np.dtype(dtype)
            for types in self.types:
                ins, outs = types.split("->")
                if all(np.dtype(char) == dtype for char in outs):
                    loop = tuple(np.dtype(char) for char in ins)
                    return loop, loop, (dtype,) * self.nout
            raise TypeError(f"Wrong type ({dtype}) of arguments for {self.name}")
        try:
            resolved = self._loops.resolve_dtypes((*kinds, *nothing))
        except TypeError as error:
            raise TypeError(f"Wrong type ({kinds}) of arguments for {self.name}: {error}") from None
        return None, resolved[: self.nin], resolved[self.nin :]

    def _compute(self, inputs, arrays, given, results) -> None:
        targets = [
            array._host if array.dtype == result else np.empty(array.shape, result)
            for array, result in zip(arrays, results, strict=True)
        ]
        if given is not None:
            inputs = [_as(one, dtype) for one, dtype in zip(inputs, given, strict=True)]
        with np.errstate(all="ignore"):
            special = SPECIAL.get(self.name)
            if special is None or not special(inputs, targets):
                self._loops(*inputs, out=tuple(targets), casting="unsafe")
        for array, target in zip(arrays, targets, strict=True):
            if target is not array._host:
                cast(target, array._host)

    def _record(self, inputs, arrays, loop) -> None:
        words = [
            one.dtype.name if isinstance(one, np.ndarray) else kind.name.rstrip("0123456789")
            for one, kind in zip(inputs, loop, strict=True)
        ]
        words += [array.dtype.name for array in arrays]
        _launches.record(
            f"{self.name}__{'_'.join(words)}", "elementwise", size=arrays[0].size, dtypes=words
        )

    def outer(self, A, B, **kwargs):
        """Apply the function to every pair of an element of ``A`` and one of ``B``."""
        A, B = asarray(A), asarray(B)
        return self(A.reshape(A.shape + (1,) * B.ndim), B, **kwargs)

    def at(self, a, indices, b=None) -> None:
        """Compute ``a[indices] OP= b`` for each index, also for repeated indices."""
        if self._python_name not in AT:
            raise NotImplementedError(f"`{self.name}.at` is not supported yet")
        name, types, words = AT[self._python_name]
        if a.dtype.char not in types:
            raise TypeError(f"cupy.{name}.at only supports {words} as data type")
        scatter(a, indices, b, self)

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        """Reduce with ``add`` or ``multiply``; CuPy supports no others."""
        method = {"cupy_add": "sum", "cupy_multiply": "prod"}.get(self.name)
        if method is None:
            raise NotImplementedError(f"`{self.name}.reduce` is not supported yet")
        return getattr(array, method)(axis, dtype, out, keepdims)

    def accumulate(self, array, axis=0, dtype=None, out=None):
        """Accumulate with ``add`` or ``multiply``; CuPy supports no others."""
        method = {"cupy_add": "cumsum", "cupy_multiply": "cumprod"}.get(self.name)
        if method is None:
            raise NotImplementedError(f"`{self.name}.accumulate` is not supported yet")
        return getattr(array, method)(axis, dtype, out)

    def reduceat(self, array, indices, axis=0, dtype=None, out=None):
        """Reduce slices with ``add``; CuPy supports no other ufunc."""
        if self.name != "cupy_add":
            raise NotImplementedError(f"`{self.name}.reduceat` is not supported yet")
        _launches.record("cupy.add.reduceat", "routine", size=array.size, exact=False)
        result = wrap(np.add.reduceat(array._host, on_host(indices), axis, dtype), [])
        if out is None:
            return result
        out[...] = result
        return out


def _weak_type(x):
    if isinstance(x, np.ndarray):
        return x.dtype
    if isinstance(x, np.generic) and not isinstance(x, float | complex):
        return x.dtype
    if isinstance(x, np.generic):  # float64 and complex128 are subclasses of Python's types
        return np.dtype(type(x))
    return np.dtype(bool) if type(x) is bool else type(x)


def _as(x, dtype: np.dtype):
    if not isinstance(x, np.ndarray):
        return dtype.type(x)
    if x.dtype == dtype:
        return x
    made = np.empty(x.shape, dtype)
    cast(x, made)
    return made


def _common_shape(inputs, outs) -> tuple[int, ...]:
    shapes = [x.shape for x in inputs if isinstance(x, np.ndarray)]
    shapes += [x.shape for x in outs if x is not None]
    first = shapes[0] if shapes else ()
    if all(shape == first for shape in shapes):
        return first
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(
            "operands could not be broadcast together with shapes "
            + " ".join(f"{shape}".replace(" ", "") for shape in shapes)
        ) from None


def _fitting(out: ndarray, shape, dtype: np.dtype, casting: str) -> ndarray:
    if out.shape != shape:
        raise ValueError("Out shape is mismatched")
    if out.dtype != dtype and not np.can_cast(dtype, out.dtype, casting):
        raise TypeError(
            f"Cannot cast output operand from {dtype!r} to {out.dtype!r} "
            f"according to the rule '{casting}'"
        )
    return out


UFUNCS = {name: ufunc(name, getattr(np, name)) for name in NAMES if hasattr(np, name)}


def _by_name(name: str) -> ufunc:
    return UFUNCS[name]
