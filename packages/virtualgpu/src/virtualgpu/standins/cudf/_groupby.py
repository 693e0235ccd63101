"""Groups of rows. As in cuDF the groups are not sorted unless ``sort=True``."""

from __future__ import annotations

from ._missing import no_attribute
from ._names import GROUPBY
from ._wrapping import unwrap, wrap

METHODS = frozenset(
    (
        "agg aggregate all any bfill corr count cov cumcount cummax cummin cumprod cumsum describe "
        "diff ffill first get_group head idxmax idxmin last max mean median min ngroup nth nunique "
        "pct_change prod quantile rank sample shift size std sum tail transform value_counts var"
    ).split()
)


def named(aggregation):
    """Aggregations by name; NumPy's functions have theirs. Raises TypeError for other functions.

    cuDF compiles no function for ``agg``; :meth:`GroupBy.apply` takes any.
    """
    if isinstance(aggregation, list):
        return [named(one) for one in aggregation]
    if isinstance(aggregation, dict):
        return {name: named(one) for name, one in aggregation.items()}
    if getattr(aggregation, "__module__", "").partition(".")[0] == "numpy":
        return aggregation.__name__
    if aggregation in (list, "collect"):
        raise NotImplementedError(
            f"{_spoken(aggregation)} of groups makes a column of lists, which the stand-in for "
            "cuDF has not: iterate over the groups, or use Awkward Arrays for nested data"
        )
    if callable(aggregation):
        raise TypeError(
            f"cannot aggregate groups by the function {_spoken(aggregation)}: name an aggregation "
            "such as 'sum', or use .apply()"
        )
    return aggregation


def _spoken(aggregation) -> str:
    return repr(aggregation) if isinstance(aggregation, str) else aggregation.__name__


class GroupBy:
    """Wraps pandas' GroupBy object."""

    def __init__(self, grouped):
        self._grouped = grouped

    def __getattr__(self, name: str):
        if name in METHODS:
            function = getattr(self._grouped, name)
            return lambda *args, **kwargs: wrap(
                function(
                    *map(named, unwrap(args)),
                    **{key: named(one) for key, one in unwrap(kwargs).items()},
                )
            )
        raise no_attribute(self, name, GROUPBY, "cudf.DataFrame.groupby(...)")

    def __dir__(self):
        return sorted([*METHODS, "apply", "groups", "ngroups", "pipe"])

    def __iter__(self):
        for name, group in self._grouped:
            yield name, wrap(group)

    def __len__(self) -> int:
        return len(self._grouped)

    @property
    def groups(self) -> dict:
        """Labels of the rows by the group's name."""
        return {name: wrap(labels) for name, labels in self._grouped.groups.items()}

    @property
    def ngroups(self) -> int:
        return self._grouped.ngroups

    def apply(self, func, *args, **kwargs):
        """Call ``func`` with the rows of each group, one group after the other."""
        return wrap(
            self._grouped.apply(lambda group: unwrap(func(wrap(group), *args, **kwargs), True))
        )

    def pipe(self, func, *args, **kwargs):
        return func(self, *args, **kwargs)


class SeriesGroupBy(GroupBy):
    """Groups of a Series."""


class DataFrameGroupBy(GroupBy):
    """Groups of a DataFrame; ``grouped["x"]`` and ``grouped.x`` choose columns."""

    def __getattr__(self, name: str):
        if not name.startswith("_") and name in self._grouped.obj.columns:
            return self[name]
        return super().__getattr__(name)

    def __getitem__(self, key):
        chosen = self._grouped[unwrap(key)]
        return (DataFrameGroupBy if isinstance(key, list) else SeriesGroupBy)(chosen)
