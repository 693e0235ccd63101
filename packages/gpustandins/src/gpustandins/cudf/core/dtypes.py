"""``cudf.core.dtypes``: the categorical dtype; the other classes have no instances."""

from __future__ import annotations

from pandas import CategoricalDtype

__all__ = ["CategoricalDtype"]


class _Absent:
    """cuDF data type that no column of the stand-in has, so nothing is an instance of it."""

    def __init__(self, *arguments, **named):
        from .._missing import missing

        raise missing("cudf", type(self).__name__)


def _absent(name: str) -> type:
    return type(name, (_Absent,), {"__module__": __name__, "__doc__": _Absent.__doc__})


Decimal32Dtype, Decimal64Dtype, Decimal128Dtype = map(
    _absent, ("Decimal32Dtype", "Decimal64Dtype", "Decimal128Dtype")
)
ListDtype, StructDtype, IntervalDtype = map(_absent, ("ListDtype", "StructDtype", "IntervalDtype"))
