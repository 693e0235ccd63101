"""Random example tables; their numbers differ from those of ``cudf.datasets``."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ._dataframe import DataFrame

_NAMES = ("Alice Bob Charlie Dan Edith Frank George Hannah Ingrid Jerry Kevin Laura").split()
_MAKE = {
    float: lambda random, n: random.uniform(-1, 1, n),
    int: lambda random, n: random.poisson(1000, n),
    str: lambda random, n: random.choice(_NAMES, n),
}


def randomdata(nrows: int = 10, dtypes: dict | None = None, seed: int | None = None) -> DataFrame:
    """Return random columns of Python types (``{"id": int, "x": float, "y": float}``)."""
    random = np.random.default_rng(seed)
    dtypes = dtypes or {"id": int, "x": float, "y": float}
    return DataFrame({name: _MAKE[kind](random, nrows) for name, kind in dtypes.items()})


def timeseries(
    start="2000-01-01", end="2000-01-31", freq="1s", dtypes=None, nulls_frequency=0, seed=None
) -> DataFrame:
    """Return a random table with one row per ``freq`` from ``start`` to ``end``."""
    times = pd.date_range(start, end, freq=freq, name="timestamp")
    frame = randomdata(len(times), dtypes or {"id": int, "name": str, "x": float, "y": float}, seed)
    frame.index = times
    return frame
