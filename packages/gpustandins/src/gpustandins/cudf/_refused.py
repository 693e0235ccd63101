"""Errors for arguments that pandas accepts and cuDF refuses."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Each line lists methods (or Class.method where classes differ) and a keyword with the only values
# that cuDF 26.10 accepts for it. A keyword without values is always refused. None counts as not
# given.
_TABLE = """
add sub subtract mul multiply div divide truediv floordiv mod pow: level
radd rsub rmul rdiv rtruediv rfloordiv rmod rpow: level
fillna ffill bfill: limit limit_area axis=0
kurt kurtosis skew rank diff mode nunique quantile take: axis=0
add_prefix add_suffix: axis
where mask: axis level
Series.all Series.any: bool_only=True
clip: axis=1
corr: method=pearson|spearman min_periods numeric_only=False
cov: min_periods numeric_only=False
Series.cov: min_periods ddof
interpolate: method=linear|values|index limit limit_direction limit_area inplace=False
join: on validate
melt: col_level
merge: indicator=False validate
pct_change: freq
pivot_table: margins=False margins_name=All dropna observed=False sort=True
reindex: method level limit tolerance
rename: errors=ignore
Series.rename: errors=ignore inplace=False level
replace: regex=False
reset_index: allow_duplicates=False names
searchsorted: sorter
shift: axis=0 freq suffix
sort_index: kind=quicksort key
sort_values: axis=0 inplace=False key
to_records: column_dtypes index_dtypes
update: join=left filter_func
groupby: axis=0 observed=True
GroupBy.agg GroupBy.aggregate GroupBy.transform: engine engine_kwargs
GroupBy.corr: method=pearson numeric_only=False
GroupBy.cov GroupBy.quantile: numeric_only=False
GroupBy.cumcount: ascending=True
GroupBy.describe: percentiles include exclude
GroupBy.sample: weights
GroupBy.std GroupBy.var: engine engine_kwargs numeric_only=False
str.partition str.rpartition: expand=True
str.contains str.count str.extract: flags=0|8|16|24
str.match: case=True flags=0|8|16|24
str.replace: case flags=0
crosstab: normalize=False
date_range: normalize=False tz closed
get_dummies: sparse=False
to_datetime: exact=True origin=unix yearfirst=False errors=raise
to_numeric: dtype_backend
"""
_AXES = {"index": 0, "columns": 1}
_SPOKEN = {"cudf": "cudf", "str": "cudf.Series.str", "GroupBy": "cudf.DataFrame.groupby(...)"}


def _value(text: str) -> Any:
    return ast.literal_eval(text) if text in ("True", "False") or text.isdigit() else text


_TAKEN: dict[str, dict[str, list]] = {
    method: {
        keyword: [_value(text) for text in values.split("|")] if values else []
        for keyword, _, values in (one.partition("=") for one in keywords.split())
    }
    for methods, _, keywords in (line.partition(": ") for line in _TABLE.strip().split("\n"))
    for method in methods.split()
}


def refuse(
    owner: str, name: str, function: Callable, args: Sequence, kwargs: Mapping[str, Any]
) -> None:
    """Raise NotImplementedError for an argument that cuDF refuses in ``owner.name``.

    ``function`` is the pandas function, whose signature names the positional arguments.
    """
    taken = _TAKEN.get(f"{owner}.{name}") or _TAKEN.get(name)
    if not taken:
        return
    given = dict(zip(inspect.signature(function).parameters, args, strict=False)) | dict(kwargs)
    for keyword, values in taken.items():
        value = given.get(keyword)
        plain = value if isinstance(value, str | int) else str(value)
        if value is None or (_AXES.get(plain, plain) if keyword == "axis" else plain) in values:
            continue
        spoken = _SPOKEN.get(owner, f"cudf.{owner}")
        only = " or ".join(f"{keyword}={one!r}" for one in values)
        raise NotImplementedError(
            f"{spoken}.{name} does not accept {keyword}={value!r}"
            f"{f' (only {only})' if only else ''}, neither on a GPU nor here: call the pandas "
            "method on `.to_pandas()`, and convert the result with `cudf.from_pandas`"
        )
