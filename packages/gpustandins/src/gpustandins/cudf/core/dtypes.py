"""``cudf.core.dtypes``: the categorical type; the stand-in has no others."""

from __future__ import annotations

from pandas import CategoricalDtype

__all__ = ["CategoricalDtype"]


class _Absent:
    """A data type of cuDF's that no column of the stand-in has: nothing is an instance of it."""

    def __init__(self, *arguments, **named):
        from .._missing import missing

        raise missing("cudf", type(self).__name__)


def _absent(name: str) -> type:
    return type(name, (_Absent,), {"__module__": __name__, "__doc__": _Absent.__doc__})


Decimal32Dtype, Decimal64Dtype, Decimal128Dtype = map(
    _absent, ("Decimal32Dtype", "Decimal64Dtype", "Decimal128Dtype")
)
ListDtype, StructDtype, IntervalDtype = map(_absent, ("ListDtype", "StructDtype", "IntervalDtype"))
