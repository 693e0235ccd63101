"""Columns of one dtype: nulls are <NA>, and numbers are copied to the device on first use.

A column without nulls is a NumPy array (bool, integer, float, datetime64, timedelta64). A column
with nulls is pandas' masked array of the same dtype. Strings are pandas string arrays, and
categories are pandas Categoricals. As in cuDF, no column holds Python objects.

Integers with a missing value stay integers here, although pandas often converts them to floats.
For this, :func:`settle` converts the results of pandas to the forms above, and :func:`nullable`
makes a masked array of each argument to which a pandas method may add nulls.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import cupy
import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype
from pandas.arrays import BooleanArray, FloatingArray, IntegerArray

STRING = pd.StringDtype("python")  # its missing value is <NA>
_MASKED = {"b": BooleanArray, "i": IntegerArray, "u": IntegerArray, "f": FloatingArray}


class MixedTypeError(TypeError):
    """Error for values of several types in one column (``cudf.errors.MixedTypeError``)."""


class Column:
    """Values of one dtype.

    Parameters
    ----------
    values : numpy.ndarray or pandas.api.extensions.ExtensionArray
        An array in one of the forms that :func:`settle` returns.
    device : cupy.ndarray, optional
        The device array whose memory ``values`` (or its unmasked data) views from the host.
    """

    __slots__ = ("device_array", "values")

    def __init__(self, values, device: cupy.ndarray | None = None):
        self.values = values
        self.device_array = device  # keeps the memory alive as long as the view

    def __len__(self) -> int:
        return len(self.values)

    @property
    def dtype(self):
        """The NumPy dtype (object for strings) or pandas' CategoricalDtype."""
        return dtype_of(self.values)

    @property
    def null_count(self) -> int:
        if isinstance(self.values, np.ndarray) and self.values.dtype.kind not in "mM":
            return 0  # a NaN from a computation is not a null
        return int(np.asarray(pd.isna(self.values)).sum())

    def bytes(self) -> int:
        """Return the size of the column on a GPU: its values, null mask and string offsets."""
        length, values = len(self.values), self.values
        mask = -(-length // 512) * 64 if self.null_count else 0  # a bit per value, in 64-byte units
        if isinstance(self.dtype, pd.CategoricalDtype):
            categories = Column(settle(self.dtype.categories.array)).bytes()
            return len(values.codes) * values.codes.itemsize + categories + mask
        if self.dtype == np.dtype(object):
            texts = (one for one in values if not pd.isna(one))
            return sum(len(one.encode()) for one in texts) + 4 * (length + 1) + mask
        return length * np.dtype(self.dtype).itemsize + mask

    def device(self) -> cupy.ndarray:
        """Return the values on the device; only the first call copies them.

        As in cuDF, numbers with nulls become float64 with NaN. Raises ValueError for booleans with
        nulls, NotImplementedError for dates, TypeError for strings.
        """
        if self.dtype == np.dtype(object):
            raise TypeError("cupy does not support object")
        if not isinstance(self.dtype, np.dtype) or self.dtype.kind in "mM":
            raise NotImplementedError(f"cupy does not support {self.dtype}")
        if not isinstance(self.values, np.ndarray):
            return cupy.asarray(self.host())
        if self.device_array is None:
            self.device_array = cupy.asarray(np.ascontiguousarray(self.values))
            self.values = self.device_array._host
        return self.device_array

    def host(self) -> np.ndarray:
        """Return the values as a new NumPy array; nulls are treated as in :meth:`device`."""
        if isinstance(self.values, np.ndarray):
            return self.values.copy()
        kind = getattr(self.dtype, "kind", "O")
        if kind == "b":
            raise ValueError("Column must have no nulls.")
        if kind in "iuf":
            to = np.float32 if self.dtype == np.float32 else np.float64
            return self.values.to_numpy(to, na_value=np.nan)
        return np.asarray(self.values, dtype=object)

    def update(self, values) -> None:
        """Replace the values, in the same memory if dtype and length are unchanged."""
        same = (
            isinstance(values, np.ndarray)
            and isinstance(self.values, np.ndarray)
            and values.dtype == self.values.dtype
            and values.shape == self.values.shape
        )
        if same and self.device_array is not None:
            self.device_array._host[...] = values
        else:
            self.values, self.device_array = values, None


def dtype_of(values):
    """Return the dtype that cuDF reports for these values."""
    dtype = values.dtype
    if isinstance(dtype, pd.StringDtype):
        return np.dtype(object)
    return getattr(dtype, "numpy_dtype", dtype)


def settle(array):
    """Convert any one-dimensional pandas or NumPy array to the form of a column."""
    if isinstance(array, pd.Series | pd.Index):
        array = array.array
    if isinstance(array, pd.RangeIndex):
        array = np.asarray(array)
    dtype = array.dtype
    if isinstance(dtype, pd.StringDtype):
        return (
            array
            if dtype == STRING
            else pd.array(
                [None if gone else text for text, gone in zip(array, pd.isna(array), strict=True)],
                dtype=STRING,
            )
        )
    if isinstance(dtype, pd.CategoricalDtype):
        return array
    if isinstance(dtype, pd.DatetimeTZDtype):
        raise NotImplementedError(
            "the stand-in for cuDF does not support columns with time zones: convert them in "
            "pandas first, with `.dt.tz_convert('UTC').dt.tz_localize(None)`"
        )
    if hasattr(dtype, "numpy_dtype") and isinstance(array, tuple(_MASKED.values())):
        return _settle_masked(array)
    values = np.asarray(array)
    if values.dtype.kind in "OUS":
        return settle_objects(values)
    check_dtype(values.dtype)
    return values


def _settle_masked(array):
    null = np.asarray(array.isna())
    kind = array.dtype.numpy_dtype
    if not null.any():
        return array.to_numpy(dtype=kind, copy=False)
    return array


def settle_objects(objects: np.ndarray):
    """Convert Python objects to the one type that they share. Raises MixedTypeError."""
    kind = infer_dtype(objects, skipna=True)
    if kind in ("string", "empty"):
        gone = pd.isna(objects)
        return pd.array(
            [None if no else text for text, no in zip(objects, gone, strict=True)], dtype=STRING
        )
    if kind == "boolean":
        return settle(pd.array(objects, dtype="boolean"))
    if kind in ("integer", "integer-na"):
        return settle(pd.array(objects, dtype="Int64"))
    if kind in ("floating", "mixed-integer-float"):
        return settle(pd.array([None if pd.isna(x) else float(x) for x in objects], "Float64"))
    if kind in ("datetime", "datetime64", "date", "timedelta", "timedelta64"):
        return np.asarray(pd.Series(list(objects)).convert_dtypes())
    if kind == "complex":
        raise TypeError("Unsupported type complex128")
    if any(isinstance(one, list | dict | tuple | np.ndarray) for one in objects):
        raise NotImplementedError(
            "columns of lists and structs are not in the stand-in for cuDF: use Awkward Arrays "
            "for nested data, or flatten the data into several columns"
        )
    raise MixedTypeError("Cannot create column with mixed types")


def check_dtype(dtype: np.dtype) -> None:
    """Raise TypeError for a dtype that no cuDF column has."""
    if dtype.kind not in "biufmM" or dtype == np.float16 or dtype.itemsize > 8:
        raise TypeError(f"Unsupported type {dtype}")


def with_nulls(values: np.ndarray, null: np.ndarray):
    """Return a masked array with these numbers and nulls, sharing the memory of ``values``."""
    return _MASKED[values.dtype.kind](values, null)


def nullable(values):
    """Return the values in a form that keeps its dtype when pandas adds nulls."""
    if isinstance(values, np.ndarray) and values.dtype.kind in _MASKED:
        return with_nulls(values, np.zeros(len(values), bool))
    return values


def as_column(
    data, dtype=None, nan_as_null: bool | None = True, length: int | None = None
) -> Column:
    """Return a column with the values of ``data``.

    ``data`` is a device array (shared, not copied), a NumPy or pandas object, a sequence, or a
    number or string to repeat ``length`` times.

    ``nan_as_null`` replaces NaN with <NA>, which is the default in cuDF.
    """
    column = _as_column(data, nan_as_null is None or nan_as_null, length)
    return column if dtype is None else astype(column, dtype)


def _as_column(data, nan_as_null: bool, length: int | None) -> Column:
    if isinstance(data, Column):
        return data
    if hasattr(data, "_column"):  # one of our Series or Index objects
        return data._column
    if hasattr(data, "__cuda_array_interface__"):
        array = cupy.asarray(data)
        if array.ndim > 1:
            raise ValueError("Data must be 1-dimensional")
        check_dtype(array.dtype)
        array = cupy.ascontiguousarray(array.reshape(-1))
        return Column(nans_to_nulls(array._host, nan_as_null), array)
    if isinstance(data, pd.Series | pd.Index | pd.api.extensions.ExtensionArray | np.ndarray):
        if getattr(data, "ndim", 1) > 1:
            raise ValueError("Data must be 1-dimensional")
        if isinstance(data, np.ndarray):
            data = data.reshape(-1).copy()
        return Column(nans_to_nulls(settle(data), nan_as_null))
    if isinstance(data, np.generic):
        data = np.array([data])
        return Column(nans_to_nulls(settle(data), nan_as_null).repeat(length or 1))
    if (
        np.isscalar(data)
        or data is pd.NA
        or data is None
        or isinstance(data, pd.Timestamp | pd.Timedelta)
    ):
        return Column(_settle_items([data], nan_as_null).repeat(length or 1))
    if not isinstance(data, Iterable):
        raise TypeError(f"{type(data).__name__} must be an iterable or sequence.")
    if isinstance(data, range):
        return Column(np.arange(data.start, data.stop, data.step))
    items = list(data)
    if items and isinstance(items[0], cupy.ndarray):
        return _as_column(cupy.array(items), nan_as_null, length)
    return Column(_settle_items(items, nan_as_null))


def _settle_items(items: list, nan_as_null: bool):
    objects = _objects(items)
    if not nan_as_null:
        nan = np.array([isinstance(one, float | np.floating) and one != one for one in items], bool)
        if nan.any() and infer_dtype(objects, skipna=True) in (*_NUMBERS, "empty"):
            null = np.asarray(pd.isna(objects)) & ~nan
            values = np.array(
                [np.nan if gone else one for one, gone in zip(items, null, strict=True)], np.float64
            )
            return with_nulls(values, null) if null.any() else values
    return nans_to_nulls(settle(objects), nan_as_null)


# pandas' names for lists of numbers that may contain NaN or None.
_NUMBERS = ("integer", "integer-na", "floating", "mixed-integer-float")


def _objects(items: list) -> np.ndarray:
    out = np.empty(len(items), object)
    for at, item in enumerate(items):
        out[at] = item
    return out


def nans_to_nulls(values, nan_as_null: bool = True):
    """Return the values with <NA> in place of NaN; a NumPy array's memory is shared.

    If ``nan_as_null`` is False, they are returned unchanged.
    """
    if not nan_as_null:
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        nan = np.isnan(values)
        if nan.any():
            return with_nulls(values, nan)
    elif isinstance(values, FloatingArray):
        null = np.asarray(values.isna())
        numbers = values.to_numpy(values.dtype.numpy_dtype, na_value=np.nan)
        if (np.isnan(numbers) & ~null).any():
            return with_nulls(numbers, np.isnan(numbers))
    return values


# cuDF prints ten significant digits, with an exponent outside these limits.
_LARGE, _SMALL, _DIGITS = 1e9, 1e-4, 10


def float_text(value: float) -> str:
    """Format a number as cuDF does: ``1.123456789``, ``2.0e+09``, ``NaN``, ``Inf``."""
    value = float(value)
    if math.isnan(value):
        return "NaN"
    sign, value = "-" if math.copysign(1, value) < 0 else "", abs(value)
    if math.isinf(value):
        return f"{sign}Inf"
    if value == 0 or _SMALL <= value <= _LARGE:
        places = _DIGITS - len(str(int(value)))
        whole, _, part = f"{value:.{places}f}".partition(".")
        return f"{sign}{whole}.{part.rstrip('0') or '0'}"
    digits, _, power = f"{value:.{_DIGITS - 1}e}".partition("e")
    whole, _, part = digits.partition(".")
    return f"{sign}{whole}.{part.rstrip('0') or '0'}e{power}"


def astype(column: Column, dtype) -> Column:
    """Return the column converted to ``dtype``.

    Raises ValueError for a string that is not a number.
    """
    if dtype in (str, "str", "string", object, "object", np.dtype(object)):
        if column.dtype == np.dtype(object):
            return column
        # A NaN that is not a null becomes the text "NaN".
        gone = (
            np.zeros(len(column), bool)
            if isinstance(column.values, np.ndarray) and column.dtype.kind == "f"
            else pd.isna(column.values)
        )
        texts = (
            map(
                float_text,
                np.asarray(column.values, dtype=float, copy=None)
                if isinstance(column.values, np.ndarray)
                else column.values.to_numpy(float, na_value=np.nan),
            )
            if getattr(column.dtype, "kind", "") == "f"
            else pd.Series(column.values).astype(str)
        )
        return Column(
            pd.array(
                [None if no else text for text, no in zip(texts, gone, strict=True)], dtype=STRING
            )
        )
    if dtype == "category" or isinstance(dtype, pd.CategoricalDtype):
        return Column(pd.Series(column.values).astype(dtype).array)
    dtype = np.dtype(dtype)
    check_dtype(dtype)
    if column.dtype == dtype:
        return column
    values = column.values
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "mM" and dtype.kind in _MASKED and column.null_count:
            gone = np.isnat(values)
            return Column(with_nulls(np.where(gone, 0, values.view("int64")).astype(dtype), gone))
        return Column(values.astype(dtype))
    if dtype.kind in _MASKED:
        gone = np.asarray(pd.isna(values))
        filled = np.zeros(len(values), dtype)
        filled[~gone] = np.asarray(values[~gone], dtype=object).astype(dtype)
        return Column(with_nulls(filled, gone) if gone.any() else filled)
    return Column(settle(pd.Series(values).astype(dtype)))
