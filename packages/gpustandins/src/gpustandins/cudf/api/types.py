"""``cudf.api.types``: checks of column, dtype and value types."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pandas as pd

_OF_DTYPES = """
is_any_real_numeric_dtype is_bool_dtype is_categorical_dtype is_complex_dtype
is_datetime64_any_dtype is_datetime64_dtype is_datetime64_ns_dtype is_float_dtype is_int64_dtype
is_integer_dtype is_numeric_dtype is_object_dtype is_signed_integer_dtype is_string_dtype
is_timedelta64_dtype is_timedelta64_ns_dtype is_unsigned_integer_dtype
""".split()
_OF_VALUES = """
is_bool is_complex is_dict_like is_file_like is_float is_hashable is_integer is_iterator
is_list_like is_named_tuple is_number is_re is_re_compilable is_scalar
""".split()


def _of_dtype(function: Callable) -> Callable:
    @functools.wraps(function)
    def asked(arr_or_dtype):
        return function(getattr(arr_or_dtype, "dtype", arr_or_dtype))

    return asked


def is_categorical_dtype(obj) -> bool:
    """Return True if a column or dtype is categorical."""
    dtype = getattr(obj, "dtype", obj)
    return isinstance(dtype, pd.CategoricalDtype) or str(dtype) == "category"


for _name in _OF_DTYPES:
    if _name not in globals():
        globals()[_name] = _of_dtype(getattr(pd.api.types, _name))
for _name in _OF_VALUES:
    globals()[_name] = getattr(pd.api.types, _name)
is_datetime_dtype = globals()["is_datetime64_dtype"]
is_timedelta_dtype = globals()["is_timedelta64_dtype"]

__all__ = [*_OF_DTYPES, *_OF_VALUES, "is_datetime_dtype", "is_timedelta_dtype"]
