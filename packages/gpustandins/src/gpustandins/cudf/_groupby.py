"""Groups of rows; as in cuDF, they are sorted only if ``sort=True``."""

from __future__ import annotations

import copy

from ._missing import no_attribute
from ._names import GROUPBY
from ._rolling import REDUCTIONS, nans_as_nulls
from ._wrapping import call, unwrap, wrap

METHODS = frozenset(
    (
        "agg aggregate all any bfill corr count cov cumcount cummax cummin cumprod cumsum describe "
        "diff ffill first get_group head idxmax idxmin last max mean median min ngroup nth nunique "
        "pct_change prod quantile rank sample shift size std sum tail transform value_counts var"
    ).split()
)


# cuDF always adds the group names to these methods' results; pandas does so only on request.
LABELLED = frozenset(("corr", "cov", "describe"))
# Methods that leave some rows without a value; the column keeps its dtype.
ADDING_NULLS = frozenset(("diff", "shift"))


def named(aggregation):
    """Convert aggregations to names, also those given as NumPy functions.

    Raises TypeError for other functions, because cuDF compiles no function for ``agg``.
    :meth:`GroupBy.apply` accepts any function.
    """
    if isinstance(aggregation, list):
        return [named(one) for one in aggregation]
    if isinstance(aggregation, dict):
        return {name: named(one) for name, one in aggregation.items()}
    if getattr(aggregation, "__module__", "").partition(".")[0] == "numpy":
        return aggregation.__name__
    if aggregation in (list, "collect", "unique"):
        raise NotImplementedError(
            f"{_spoken(aggregation)} of groups returns a column of lists, which the stand-in for "
            "cuDF does not support: iterate over the groups, or use Awkward Arrays for nested data"
        )
    if callable(aggregation):
        raise TypeError(
            f"cannot aggregate groups with the function {_spoken(aggregation)}: pass the name of "
            "an aggregation, such as 'sum', or use .apply()"
        )
    return aggregation


def _spoken(aggregation) -> str:
    return repr(aggregation) if isinstance(aggregation, str) else aggregation.__name__


class GroupBy:
    """Wrapper of pandas' GroupBy object."""

    def __init__(self, grouped):
        self._grouped = grouped

    def __getattr__(self, name: str):
        if name in METHODS:
            grouped = self._grouped
            if name in LABELLED:
                grouped = copy.copy(grouped)
                grouped.group_keys = True
            elif name in ADDING_NULLS:
                grouped = copy.copy(grouped)
                grouped.obj, grouped._cache = unwrap(wrap(grouped.obj), True), {}
            function = getattr(grouped, name)

            def method(*args, **kwargs):
                args = [named(one) for one in unwrap(args)]
                kwargs = {key: named(one) for key, one in unwrap(kwargs).items()}
                return call("GroupBy", name, function, args, kwargs)

            return method
        if name in ("collect", "unique"):
            named(name)
        raise no_attribute(self, name, GROUPBY, "cudf.DataFrame.groupby(...)")

    def __dir__(self):
        return sorted([*METHODS, "apply", "groups", "indices", "ngroups", "pipe"])

    def __iter__(self):
        for name, group in self._grouped:
            yield name, wrap(group)

    def __len__(self) -> int:
        return len(self._grouped)

    @property
    def groups(self) -> dict:
        """Row labels of each group, by group name."""
        return {name: wrap(labels) for name, labels in self._grouped.groups.items()}

    @property
    def indices(self) -> dict:
        """Row positions of each group, by group name."""
        return {name: wrap(places) for name, places in self._grouped.indices.items()}

    @property
    def ngroups(self) -> int:
        return self._grouped.ngroups

    def apply(self, func, *args, engine: str = "auto", **kwargs):
        """Call ``func`` with the rows of each group, one group after the other.

        cuDF compiles ``func`` for all groups if ``engine="jit"``; the results are the same here.
        """
        return wrap(
            self._grouped.apply(lambda group: unwrap(func(wrap(group), *args, **kwargs), True))
        )

    def rolling(self, window, min_periods=None, center=False):
        """Return windows that move over the rows of each group."""
        return GroupRolling(self._grouped.rolling(window, min_periods, center))

    def pipe(self, func, *args, **kwargs):
        return func(self, *args, **kwargs)


class GroupRolling:
    """Result of ``frame.groupby("key").rolling(3)``: float64, null if there are too few values."""

    def __init__(self, windows):
        self._windows = windows

    def __getitem__(self, key):
        return GroupRolling(self._windows[unwrap(key)])

    def __getattr__(self, name: str):
        if name in REDUCTIONS:
            return lambda: nans_as_nulls(getattr(self._windows, name)())
        raise AttributeError(f"'RollingGroupby' object has no attribute '{name}'")


class SeriesGroupBy(GroupBy):
    """Groups of a Series."""


class DataFrameGroupBy(GroupBy):
    """Groups of a DataFrame; ``grouped["x"]`` and ``grouped.x`` select columns."""

    def __getattr__(self, name: str):
        if not name.startswith("_") and name in self._grouped.obj.columns:
            return self[name]
        return super().__getattr__(name)

    def __getitem__(self, key):
        chosen = self._grouped[unwrap(key)]
        return (DataFrameGroupBy if isinstance(key, list) else SeriesGroupBy)(chosen)
