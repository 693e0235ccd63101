"""Functions of the user, compiled with Numba and run as kernels: what cuDF's ``apply`` does.

So a function that cannot run on a GPU cannot be applied here either.
"""

from __future__ import annotations

import warnings

import cupy
import numpy as np
import pandas as pd

from ._columns import Column, with_nulls


def apply(column: Column, function, arguments: tuple) -> Column:
    """``function(value, *arguments)`` of each value that is no null."""
    _check(function, [column])
    values, null = _split(column)
    return _finish(_launch(function, values, arguments), null)


def apply_rows(columns: dict, function, arguments: tuple) -> Column:
    """``function(row, *arguments)`` of each row; ``row["name"]`` is a value."""
    named = [name for name in columns if name in _constants(function)]
    _check(function, [columns[name] for name in named])
    parts = {name: _split(columns[name]) for name in named}
    length = len(next(iter(columns.values()))) if columns else 0
    rows = np.empty(
        length, np.dtype([(name, values.dtype) for name, (values, _) in parts.items()], align=True)
    )
    null = np.zeros(length, bool)
    for name, (values, gone) in parts.items():
        rows[name] = values
        null |= gone
    return _finish(_launch(function, rows, arguments), null)


def _constants(function) -> set:
    return {one for one in _code(function).co_consts if isinstance(one, str)}


def _code(function):
    """The code of a plain function or of one that Numba has decorated."""
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    if code is None:
        raise ValueError("user defined function compilation failed.") from TypeError(
            f"{function!r} is not written in Python: Numba has nothing to compile"
        )
    return code


def _check(function, columns: list[Column]) -> None:
    if "NA" in _code(function).co_names:
        raise NotImplementedError(
            "a function that asks `is cudf.NA` is not in the stand-in for cuDF: nulls stay null "
            "here; call .fillna() before .apply()"
        )
    for column in columns:
        if getattr(column.dtype, "kind", "O") not in "biuf":
            raise NotImplementedError(
                f"applying a function to {column.dtype} values is not in the stand-in for cuDF: "
                "use the .str, .dt and .cat methods"
            )


def _split(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """The numbers, and which are null."""
    if isinstance(column.values, np.ndarray):
        return column.device()._host, np.zeros(len(column), bool)
    null = np.asarray(pd.isna(column.values))
    return column.values.to_numpy(column.dtype, na_value=0), null


def _finish(results: np.ndarray, null: np.ndarray) -> Column:
    if null.any():
        return Column(with_nulls(results._host, null), results)
    return Column(results._host, results)


def _launch(function, values: np.ndarray, arguments: tuple) -> cupy.ndarray:
    from numba import cuda, from_dtype, typeof, types
    from numba.cuda.core.errors import NumbaPerformanceWarning

    try:
        element = from_dtype(values.dtype)
        signature = (element, *(typeof(one) for one in arguments))
        python = getattr(function, "py_func", function)
        _, returned = cuda.compile(python, signature, device=True, abi="numba")
        dtype = np.dtype(str(types.unliteral(returned)))
    except Exception as error:
        raise ValueError("user defined function compilation failed.") from error
    called = cuda.jit(device=True)(python)

    @cuda.jit
    def kernel(results, inputs):
        i = cuda.grid(1)
        if i < results.size:
            results[i] = called(inputs[i], *arguments)

    results = cuda.device_array(len(values), dtype)
    if len(values):
        with warnings.catch_warnings():
            # cuDF, too, says nothing of a few rows being a small grid.
            warnings.simplefilter("ignore", NumbaPerformanceWarning)
            kernel.forall(len(values))(results, cuda.to_device(values))
    return cupy.asarray(results)
