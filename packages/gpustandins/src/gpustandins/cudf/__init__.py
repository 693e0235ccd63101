"""cuDF for machines without a GPU: pandas computes, and columns lie in virtual device memory.

The stand-in raises cuDF's own errors where cuDF refuses an operation, for example for iterating
over a Series, for passing one to NumPy and for columns of mixed types. Nulls are <NA> in every
dtype. ``apply`` compiles functions with Numba and runs them on the virtual GPU.
"""

from __future__ import annotations

from gpustandins import only_as

only_as("cudf", __name__)

try:
    import pandas as _pandas
except ImportError as _error:
    raise ImportError(
        "this machine has no GPU, so `import cudf` finds cuDF's stand-in, which needs pandas: "
        "pip install pandas"
    ) from _error

from pandas import CategoricalDtype, DateOffset  # noqa: E402

from . import api, core, datasets, errors, testing  # noqa: E402
from ._dataframe import DataFrame  # noqa: E402
from ._functions import (  # noqa: E402
    concat,
    crosstab,
    date_range,
    dtype,
    factorize,
    from_pandas,
    get_dummies,
    isclose,
    melt,
    merge,
    pivot,
    pivot_table,
    read_csv,
    read_json,
    read_parquet,
    to_datetime,
    to_numeric,
    unique,
)
from ._index import DatetimeIndex, Index, MultiIndex, RangeIndex  # noqa: E402
from ._missing import missing as _missing  # noqa: E402
from ._names import MODULE as _MODULE  # noqa: E402
from ._series import Series  # noqa: E402
from .options import describe_option, get_option, option_context, set_option  # noqa: E402

__version__ = "26.10.0+virtualgpu"
NA = _pandas.NA
NaT = _pandas.NaT

__all__ = [
    "NA",
    "CategoricalDtype",
    "DataFrame",
    "DateOffset",
    "DatetimeIndex",
    "Index",
    "MultiIndex",
    "NaT",
    "RangeIndex",
    "Series",
    "api",
    "concat",
    "core",
    "crosstab",
    "datasets",
    "date_range",
    "describe_option",
    "dtype",
    "errors",
    "factorize",
    "from_pandas",
    "get_dummies",
    "get_option",
    "isclose",
    "melt",
    "merge",
    "option_context",
    "pivot",
    "pivot_table",
    "read_csv",
    "read_json",
    "read_parquet",
    "set_option",
    "testing",
    "to_datetime",
    "to_numeric",
    "unique",
]


def __getattr__(name: str):
    if name in _MODULE:
        raise _missing("cudf", name)
    raise AttributeError(f"module 'cudf' has no attribute '{name}'")
