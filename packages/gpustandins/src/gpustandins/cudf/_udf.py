"""User functions of cuDF's ``apply``, compiled with Numba and run as kernels.

A function that cannot run on a GPU therefore cannot be applied to numbers here either. Python
computes the results for nulls and strings on the host, following cuDF's rules.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable

import cupy
import numpy as np
import pandas as pd

from virtualgpu.standins.interface import raised_by_handler

from ._columns import Column, as_column, with_nulls


class _Null:
    """A null as ``apply`` functions see it: false, and every operation on it returns a null."""

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str):  # string methods
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args: self


for _name in "add sub mul truediv floordiv mod pow and or xor".split():
    for _of in (f"__{_name}__", f"__r{_name}__"):
        setattr(_Null, _of, lambda self, other: self)
for _name in "eq ne lt le gt ge".split():
    setattr(_Null, f"__{_name}__", lambda self, other: self)
for _name in "neg pos abs invert".split():
    setattr(_Null, f"__{_name}__", lambda self: self)
NULL = _Null()


def apply(column: Column, function, arguments: tuple) -> Column:
    """Compute ``function(value, *arguments)`` for each value, including nulls."""
    if column.dtype == np.dtype(object):
        return as_column(_on_host(function, _seen(column), arguments))
    _check(column)
    values, null = _split(column)
    answers = _on_host(function, [NULL], arguments) * int(null.sum()) if null.any() else []
    return _join(*_launch(function, values, arguments), null, answers)


def apply_rows(columns: dict, function, arguments: tuple) -> Column:
    """Compute ``function(row, *arguments)`` for each row; ``row["name"]`` is a value."""
    named = {name: one for name, one in columns.items() if name in _constants(function)}
    if any(one.dtype == np.dtype(object) for one in named.values()):
        rows = zip(*map(_seen, named.values()), strict=True)
        rows = [dict(zip(named, row, strict=True)) for row in rows]
        return as_column(_on_host(function, rows, arguments))
    for one in named.values():
        _check(one)
    parts = {name: _split(one) for name, one in named.items()}
    length = len(next(iter(columns.values()))) if columns else 0
    rows = np.empty(
        length, np.dtype([(name, values.dtype) for name, (values, _) in parts.items()], align=True)
    )
    null = np.zeros(length, bool)
    for name, (values, gone) in parts.items():
        rows[name] = values
        null |= gone
    with_nulls_in = [
        {name: NULL if gone[i] else values[i] for name, (values, gone) in parts.items()}
        for i in np.flatnonzero(null)
    ]
    answers = _on_host(function, with_nulls_in, arguments)
    return _join(*_launch(function, rows, arguments), null, answers)


def _constants(function) -> set:
    return {one for one in _code(function).co_consts if isinstance(one, str)}


def _code(function):
    """Return the code object of a plain function or of a Numba-decorated one."""
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    if code is None:
        raise ValueError("user defined function compilation failed.") from TypeError(
            f"{function!r} is not written in Python, so Numba cannot compile it"
        )
    return code


def _with_null(function, null):
    """Return ``function`` with ``cudf.NA`` replaced by ``null``; Numba needs None there."""
    python = getattr(function, "py_func", function)
    if "NA" not in (*_code(function).co_names, *_code(function).co_freevars):
        return python

    def swapped(value):
        if value is pd.NA:
            return null
        if not isinstance(value, types.ModuleType) or getattr(value, "NA", None) is not pd.NA:
            return value
        shadow = types.ModuleType(value.__name__)
        shadow.__dict__.update(vars(value), NA=null)
        return shadow

    names = {name: swapped(value) for name, value in python.__globals__.items()}
    cells = tuple(types.CellType(swapped(one.cell_contents)) for one in python.__closure__ or ())
    return types.FunctionType(
        python.__code__, names, python.__name__, python.__defaults__, cells or None
    )


def _on_host(function, values: list, arguments: tuple) -> list:
    """Compute the function's results in Python; a null result is None."""
    python = _with_null(function, NULL)
    return [_of_one(python, value, arguments) for value in values]


def _of_one(python, value, arguments: tuple):
    try:
        with np.errstate(all="ignore"):
            answer = python(value, *arguments)
    except TypeError:
        seen = value.values() if isinstance(value, dict) else (value,)
        if not any(one is NULL for one in seen):
            raise
        return None  # a numeric function such as math.sqrt received the null
    return None if answer is NULL else answer


def _seen(column: Column) -> list:
    return [
        NULL if gone else one
        for one, gone in zip(column.values, pd.isna(column.values), strict=True)
    ]


def _check(column: Column) -> None:
    if getattr(column.dtype, "kind", "O") not in "biuf":
        raise NotImplementedError(
            f"applying a function to {column.dtype} values is not in the stand-in for cuDF: "
            "use the .dt and .cat methods"
        )


def _split(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers and a mask of the nulls."""
    if isinstance(column.values, np.ndarray):
        return column.device()._host, np.zeros(len(column), bool)
    null = np.asarray(pd.isna(column.values))
    return column.values.to_numpy(column.dtype, na_value=0), null


def _join(results: cupy.ndarray, valid: np.ndarray, null: np.ndarray, answers: list) -> Column:
    """Return the kernel's results with ``answers`` in the rows that are null."""
    given = [one for one in answers if one is not None]
    dtype = np.result_type(results.dtype, *given)
    if dtype != results.dtype:
        results = results.astype(dtype)
    gone = ~valid
    gone[null] = [one is None for one in answers]
    results._host[null] = [0 if one is None else one for one in answers]
    if gone.any():
        return Column(with_nulls(results._host, gone), results)
    return Column(results._host, results)


def _compiled(function, element, arguments: tuple) -> tuple[Callable, np.dtype]:
    """Compile the function for the device; return it and its result dtype for ``element``."""
    from numba import cuda, typeof
    from numba import types as numba_types

    try:
        signature = (element, *(typeof(one) for one in arguments))
        python = _with_null(function, None)
        _, returned = cuda.compile(python, signature, device=True, abi="numba")
        dtype = np.dtype(str(numba_types.unliteral(getattr(returned, "type", returned))))
    except Exception as error:
        if raised_by_handler(error):
            raise
        raise ValueError("user defined function compilation failed.") from error
    return cuda.jit(device=True)(python), dtype


def _launch(function, values: np.ndarray, arguments: tuple) -> tuple[cupy.ndarray, np.ndarray]:
    """Return the function's results on the device and a mask of those that are not null."""
    from numba import cuda, from_dtype

    called, dtype = _compiled(function, from_dtype(values.dtype), arguments)

    @cuda.jit
    def kernel(results, valid, inputs):
        i = cuda.grid(1)
        if i < results.size:
            result = called(inputs[i], *arguments)
            if result is not None:
                results[i] = result
                valid[i] = True

    results = cuda.device_array(len(values), dtype)
    valid = cuda.to_device(np.zeros(len(values), bool))
    _run(kernel, results, valid, cuda.to_device(values))
    return cupy.asarray(results), valid.copy_to_host()


def apply_windows(
    column: Column, function, starts: np.ndarray, ends: np.ndarray, least: int
) -> Column:
    """Compute ``function(values)`` per window; null if it has fewer than ``least`` values."""
    from numba import cuda, typeof

    values = cuda.to_device(column.device()._host)
    called, dtype = _compiled(function, typeof(values), ())

    @cuda.jit
    def kernel(results, starts, ends, values):
        i = cuda.grid(1)
        if i < results.size and ends[i] - starts[i] >= least:
            results[i] = called(values[starts[i] : ends[i]])

    results = cuda.to_device(np.zeros(len(starts), dtype))
    _run(kernel, results, cuda.to_device(starts), cuda.to_device(ends), values)
    results, gone = cupy.asarray(results), ends - starts < least
    return Column(with_nulls(results._host, gone) if gone.any() else results._host, results)


def _run(kernel, results, *arguments) -> None:
    from numba.cuda.core.errors import NumbaPerformanceWarning

    if results.size:
        with warnings.catch_warnings():
            # cuDF does not warn of a small grid for a few rows either.
            warnings.simplefilter("ignore", NumbaPerformanceWarning)
            kernel.forall(results.size)(results, *arguments)
