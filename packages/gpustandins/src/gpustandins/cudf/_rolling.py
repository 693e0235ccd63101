"""Windows that move over rows, and their reductions."""

from __future__ import annotations

import numpy as np
import pandas as pd

from . import _udf
from ._columns import Column, nans_to_nulls
from ._wrapping import wrap

REDUCTIONS = frozenset(("sum", "min", "max", "mean", "var", "std", "count"))


class Rolling:
    """Result of ``series.rolling(3)``: float64, null where a window has too few values."""

    def __init__(self, frame, window, min_periods=None, center: bool = False, win_type=None):
        if win_type is not None:
            raise NotImplementedError("Only the default win_type 'None' is currently supported")
        self._frame, self.window, self.center = frame, window, center
        number = isinstance(window, int)
        self.min_periods = (window if number else 1) if min_periods is None else min_periods

    def __repr__(self) -> str:
        return f"Rolling [window={self.window},min_periods={self.min_periods},center={self.center}]"

    def _windows(self, min_periods: int):
        return self._frame._as_pandas().rolling(self.window, min_periods, self.center)

    def __getattr__(self, name: str):
        if name in REDUCTIONS:
            return lambda *args, **kwargs: nans_as_nulls(
                getattr(self._windows(self.min_periods), name)(*args, **kwargs)
            )
        if name.startswith("_") or not hasattr(pd.api.typing.Rolling, name):
            raise AttributeError(f"'Rolling' object has no attribute '{name}'")
        raise NotImplementedError(f"Rolling.{name}() is not yet implemented")

    def apply(self, func, *args, **kwargs):
        """Compile ``func`` with Numba for the device and call it with each window as an array."""
        if self._frame._as_pandas().isna().to_numpy().any():
            raise NotImplementedError("Handling UDF with null values is not yet supported")
        sizes = self._windows(0).count()
        if sizes.ndim == 1:
            return self._applied(self._frame, func, sizes)
        columns = {
            name: self._applied(self._frame[name], func, sizes.iloc[:, at])
            for at, name in enumerate(self._frame.columns)
        }
        return type(self._frame)(columns, index=self._frame.index)

    def _applied(self, series, func, sizes: pd.Series):
        """Return a column with the results of ``func``; ``sizes`` holds each window's length."""
        sizes = sizes.to_numpy(np.int64)
        later = (self.window - 1) // 2 if self.center else 0
        ends = np.minimum(np.arange(1, len(sizes) + 1) + later, len(sizes))
        column = _udf.apply_windows(series._column, func, ends - sizes, ends, self.min_periods)
        return type(series)._of(column, series._index, series.name)


class ExponentialMovingWindow:
    """Result of ``series.ewm(com=0.5)``; only its mean exists, as in cuDF."""

    def __init__(self, windows):
        self._windows = windows

    def mean(self):
        return nans_as_nulls(self._windows.mean())


def nans_as_nulls(result):
    """Convert pandas' window results to cuDF's, with nulls in place of NaN."""
    result = wrap(result)
    if result.ndim == 2:
        columns = {name: Column(nans_to_nulls(one.values)) for name, one in result._columns.items()}
        return type(result)._of(columns, result._index, result.columns)
    return result.nans_to_nulls()


def give_windows(cls: type) -> None:
    """Add ``rolling`` and ``ewm`` to a class."""

    def rolling(self, window, min_periods=None, center=False, win_type=None):
        return Rolling(self, window, min_periods, center, win_type)

    def ewm(self, com=None, span=None, halflife=None, alpha=None, adjust=True):
        windows = self._as_pandas().ewm(com, span, halflife, alpha, adjust=adjust)
        return ExponentialMovingWindow(windows)

    cls.rolling, cls.ewm = rolling, ewm
