"""Shared parts of generated kernels: parameters, types, shapes, code and launch."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from virtualgpu.standins.interface import Argument, PerDevice

from .._arrays import core
from .._arrays.creation import asarray
from ..cuda.texture import Handle
from .code import HEADERS, pack_array, pack_indexer, type_name
from .launch import Function, load

_NAME = re.compile(r"[A-Za-z_]\w*")


class Parameter(NamedTuple):
    """Declared parameter such as ``raw float32 x`` or ``T y``.

    For a placeholder (one letter), ``dtype`` is None and ``ctype`` is the letter.
    """

    name: str
    dtype: np.dtype | None
    ctype: str
    raw: bool
    is_const: bool


class Operand(NamedTuple):
    """Kernel argument: the address and layout of an array, or a number."""

    dtype: np.dtype
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    pointer: int = 0
    contiguous: bool = True
    number: np.generic | None = None

    @property
    def is_array(self) -> bool:
        return self.number is None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def c_type(self) -> str:
        name = type_name(self.dtype)
        if not self.is_array:
            return name
        return f"CArray<{name}, {len(self.shape)}, {'true' if self.contiguous else 'false'}>"

    def argument(self) -> Argument:
        if not self.is_array:
            return Argument(self.number.tobytes())
        return Argument(pack_array(self.pointer, self.shape, self.strides, self.size))


@lru_cache(maxsize=512)
def parameters(text: str, is_const: bool) -> tuple[Parameter, ...]:
    """Parse a declaration list such as ``"float32 x, raw T y"``.

    Raises TypeError for an unknown type and ValueError for an invalid declaration.
    """
    found = []
    for declaration in filter(None, (part.strip() for part in text.strip().split(","))):
        words = declaration.split()
        if len(words) < 2:
            raise ValueError(f"Syntax error: {declaration}: a parameter needs a type and a name")
        *keywords, kind, name = words
        if unknown := [word for word in keywords if word not in ("raw", "_non_const")]:
            raise ValueError(f'Unknown keyword "{unknown[0]}" in "{declaration}"')
        dtype = None if len(kind) == 1 else np.dtype(kind)
        found.append(
            Parameter(
                name,
                dtype,
                kind if dtype is None else type_name(dtype),
                "raw" in keywords,
                is_const and "_non_const" not in keywords,
            )
        )
    return tuple(found)


def operand(value: Any) -> tuple[Operand | Any, bool]:
    """Return an :class:`Operand` and True for an array, or the number itself and False.

    Raises TypeError for anything that no kernel accepts, including NumPy arrays.
    """
    if not isinstance(value, core.ndarray) and hasattr(value, "__cuda_array_interface__"):
        value = asarray(value)
    if isinstance(value, core.ndarray):
        return _of(value), True
    if isinstance(value, Handle):
        return np.uint64(value.ptr), False
    if type(value) in (bool, int, float, complex) or isinstance(value, np.bool_ | np.number):
        return value, False
    if isinstance(value, np.ndarray):
        raise TypeError(
            f"Unsupported type {type(value)}: a NumPy array lies on the host; "
            "copy it to the device with cupy.asarray(array)"
        )
    raise TypeError(f"Unsupported type {type(value)}")


def number(value: Any, dtype: np.dtype) -> Operand:
    """Return a number as an operand of the type of its parameter."""
    return Operand(np.dtype(dtype), number=np.dtype(dtype).type(value))


def resolve_types(
    inputs: Sequence[Parameter],
    outputs: Sequence[Parameter],
    in_types: Sequence[np.dtype | None],
    out_types: Sequence[np.dtype],
) -> tuple[list[np.dtype], list[np.dtype], dict[str, np.dtype]]:
    """Return the dtypes of all parameters, and the type of each placeholder.

    Numbers (None in ``in_types``) do not determine a type. Raises TypeError if an array has
    another type than declared, or if two arrays of one placeholder have different types.
    """
    meaning: dict[str, np.dtype] = {}
    # The outputs come first, so a placeholder takes the type of the given result.
    for one, given in [*zip(outputs, out_types, strict=False), *zip(inputs, in_types, strict=True)]:
        if given is None:
            continue
        wanted = one.dtype if one.dtype is not None else meaning.setdefault(one.ctype, given)
        if wanted != given:
            declared = one.ctype if one.dtype is None else f"{one.ctype} ({one.dtype})"
            raise TypeError(
                f"Type is mismatched. {one.name} is {given}, declared is {declared}"
                + (f", which is {wanted} already" if one.dtype is None else "")
                + f"; convert it with {one.name}.astype({str(wanted)!r})"
            )
    for one in (*inputs, *outputs):
        if one.dtype is None and one.ctype not in meaning:
            raise TypeError(
                f"no array determines the type {one.ctype} of {one.name}: declare a type such as "
                "float64, or pass the output as an argument"
            )

    def types(declared):
        return [one.dtype if one.dtype is not None else meaning[one.ctype] for one in declared]

    return types(inputs), types(outputs), meaning


def broadcast(
    operands: list[Operand], declared: Sequence[Parameter]
) -> tuple[list[Operand], tuple[int, ...] | None]:
    """Broadcast arrays that are not ``raw`` to their common shape; None if there are none.

    Raises ValueError for shapes that cannot be broadcast together.
    """
    spread = [one.is_array and not p.raw for one, p in zip(operands, declared, strict=True)]
    shapes = [one.shape for one, is_spread in zip(operands, spread, strict=True) if is_spread]
    if not shapes:
        return operands, None
    shape = np.broadcast_shapes(*shapes)
    return [
        _spread(one, shape) if is_spread else one
        for one, is_spread in zip(operands, spread, strict=True)
    ], shape


def squash(
    operands: list[Operand], declared: Sequence[Parameter], shape: tuple[int, ...]
) -> tuple[list[Operand], tuple[int, ...]]:
    """Merge dimensions that are adjacent in memory in every array, to save index computations."""
    takes_part = [one.is_array and not p.raw for one, p in zip(operands, declared, strict=True)]
    arrays = [one for one, part in zip(operands, takes_part, strict=True) if part]
    groups: list[list[int]] = []
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        joins = groups and all(
            one.strides[groups[-1][-1]] == one.strides[axis] * length for one in arrays
        )
        if joins:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) == len(shape) or not shape:
        return operands, shape
    groups = groups or [[len(shape) - 1]]
    joined = tuple(int(np.prod([shape[axis] for axis in group])) for group in groups)

    def change(one: Operand) -> Operand:
        strides = tuple(one.strides[group[-1]] for group in groups)
        return one._replace(
            shape=joined,
            strides=strides,
            contiguous=_is_contiguous(joined, strides, one.dtype.itemsize),
        )

    return [
        change(one) if part else one for one, part in zip(operands, takes_part, strict=True)
    ], joined


def new_outputs(
    outputs: Sequence[Parameter],
    types: Sequence[np.dtype],
    shape: tuple[int, ...],
    given: Sequence[Any],
) -> list[core.ndarray]:
    """Return the output arrays of a kernel: the given ones, or new ones."""
    if not given:
        return [core.empty(shape, dtype) for dtype in types]
    for one, array in zip(outputs, given, strict=True):
        if not isinstance(array, core.ndarray):
            raise TypeError("Output arguments type must be cupy.ndarray")
        if not one.raw and array.shape != shape:
            raise ValueError(
                f"Out shape is mismatched: {one.name} has {array.shape}, the result {shape}"
            )
    return list(given)


def output(array: core.ndarray) -> Operand:
    return _of(array)


def indexer(shape: tuple[int, ...]) -> Argument:
    """Return a ``CIndexer`` over ``shape``."""
    return Argument(pack_indexer(shape, int(np.prod(shape, dtype=np.int64))))


class GeneratedKernel:
    """Base class of kernels whose C++ is generated for the types of their arguments."""

    in_params: tuple[Parameter, ...]
    out_params: tuple[Parameter, ...]
    name: str
    _kind: str

    def _init(self, in_params: str, out_params: str, name: str, options: tuple) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f'Invalid kernel name: "{name}"')
        self.in_params = parameters(in_params, True)
        self.out_params = parameters(out_params, False)
        self.nin, self.nout = len(self.in_params), len(self.out_params)
        self.nargs = self.nin + self.nout
        self.name = self.__name__ = name
        self._options = options
        self._functions: dict[tuple, tuple[str, PerDevice]] = {}
        self._codes: dict[tuple, str] = {}

    def _count(self, given: int) -> None:
        if given not in (self.nin, self.nargs):
            raise TypeError(
                f"Wrong number of arguments for {self.name!r}. It must be either {self.nin} or "
                f"{self.nargs} (with outputs), but given {given}."
            )

    def _function(
        self, operands: Sequence[Operand], dimensions: tuple[int, ...], meaning: dict[str, np.dtype]
    ) -> Function:
        """Return the compiled kernel for operands of these types."""
        key = (*(one.c_type() for one in operands), dimensions, *meaning.items())
        known = self._functions.get(key)
        if known is None:
            if not isinstance(self._options, tuple):
                raise TypeError(
                    "Argument 'options' has incorrect type (expected tuple, got "
                    f"{type(self._options).__name__})"
                )
            types = tuple(one.dtype for one in operands if one.is_array)
            code = self._code(operands, dimensions, meaning)
            self._codes.setdefault(types, code)
            known = self._functions[key] = code, PerDevice()
        code, loaded = known
        return loaded.get_or(
            lambda: Function(
                load(code, self._options, f"{self.name}.cu", headers=HEADERS), self.name, self._kind
            )
        )

    def _code(
        self, operands: Sequence[Operand], dimensions: tuple[int, ...], meaning: dict[str, np.dtype]
    ) -> str:
        """Return the C++ of the kernel, with indexers of these ``dimensions``."""
        raise NotImplementedError

    @property
    def cached_codes(self) -> dict[tuple, str]:
        """Generated C++ code, by the dtypes of the arguments."""
        if not self._codes:
            warnings.warn(
                "No codes are cached because compilation is deferred until the first "
                "function call.",
                stacklevel=2,
            )
        return dict(self._codes)

    @property
    def cached_code(self) -> str:
        """The C++ code that was generated first."""
        if len(self._codes) > 1:
            warnings.warn(
                "The input types of the kernel could not be inferred. Please use "
                "`.cached_codes` instead.",
                stacklevel=2,
            )
        return next(iter(self.cached_codes.values()))


def typedefs(meaning: dict[str, np.dtype]) -> str:
    return "".join(
        f"typedef {type_name(dtype)} {name};\n" for name, dtype in sorted(meaning.items())
    )


def _of(array: core.ndarray) -> Operand:
    return Operand(
        array.dtype,
        array.shape,
        array.strides,
        array.data.ptr,
        _is_contiguous(array.shape, array.strides, array.dtype.itemsize),
    )


def _spread(one: Operand, shape: tuple[int, ...]) -> Operand:
    if one.shape == shape:
        return one
    missing = len(shape) - len(one.shape)
    strides = (0,) * missing + tuple(
        stride if length == wanted else 0
        for stride, length, wanted in zip(one.strides, one.shape, shape[missing:], strict=True)
    )
    return one._replace(shape=shape, strides=strides, contiguous=False)


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    step = itemsize
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != step:
            return False
        step *= length
    return True
