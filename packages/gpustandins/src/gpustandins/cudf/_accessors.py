"""The accessors ``.str``, ``.dt`` and ``.cat`` of a Series."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from ._missing import no_attribute
from ._names import CAT, DT, STR
from ._texts import OF_ONE_TEXT
from ._wrapping import PANDAS_NAME, call, wrap


class Accessor:
    """Base class of the accessors; a method that is missing raises NotImplementedError."""

    _name: str
    _methods: frozenset[str] = frozenset()
    _properties: frozenset[str] = frozenset()
    _dtypes: dict[str, str] = {}  # noqa: RUF012  (results whose dtype differs from pandas')
    _names_there: frozenset[str]  # the public names of cuDF's accessor

    def __init__(self, series):
        self._series = series

    def __getattr__(self, name: str):
        if name in self._properties:
            return self._given(name, getattr(self._there(), PANDAS_NAME.get(name, name)))
        if name in self._methods:
            function = getattr(self._there(), name)
            return lambda *args, **kwargs: self._given(
                name, call(self._name, name, function, args, kwargs)
            )
        raise no_attribute(self, name, self._names_there, f"cudf.Series.{self._name}")

    def __dir__(self):
        return sorted(self._methods | self._properties)

    def _there(self):
        return getattr(self._series._as_pandas(), self._name)

    def _given(self, name: str, result):
        result = wrap(result)
        if getattr(getattr(result, "dtype", None), "kind", "") == "f" and name in self._properties:
            result = result.nans_to_nulls()  # a missing date has null parts
        dtype = self._dtypes.get(name)
        return result.astype(dtype) if dtype else result


class StringMethods(Accessor):
    """String methods. Lengths and positions are int32, as in cuDF."""

    _name = "str"
    _names_there = STR
    _methods = frozenset(
        (
            "capitalize cat center contains count endswith extract find get index isalnum isalpha "
            "isdecimal isdigit islower isnumeric isspace istitle isupper len ljust lower "
            "lstrip match "
            "pad partition removeprefix removesuffix repeat replace rfind rindex rjust rpartition "
            "rstrip slice slice_replace split rsplit startswith strip swapcase title upper "
            "zfill"
        ).split()
    )
    _dtypes = dict.fromkeys(("count", "find", "len", "rfind"), "int32")

    def split(self, pat=None, n=-1, expand=False, regex=None):
        """Split strings into columns. Only ``expand=True`` works, as there are no list columns."""
        if not expand:
            raise NotImplementedError(
                "cudf.Series.str.split without expand=True returns a column of lists, which the "
                "stand-in for cuDF does not support: pass expand=True"
            )
        return wrap(self._there().split(pat, n=n, expand=True, regex=regex))

    def contains(self, pat, case=True, flags=0, na=None, regex=True):
        """Return True for each string that contains a match of ``pat``."""
        if regex and not case:
            raise NotImplementedError("`case=False` only supported when `regex=False`")
        return self.__getattr__("contains")(pat, case, flags, na, regex)

    def replace(self, pat, repl, n=-1, case=None, flags=0, regex=True):
        """Replace matches of ``pat``, a regular expression unless ``regex=False``.

        ``repl`` is inserted literally. Use :meth:`replace_with_backrefs` to refer to matched
        groups.
        """
        found = (lambda _: repl) if regex and isinstance(repl, str) else repl
        return self.__getattr__("replace")(pat, found, n, case, flags, regex)

    def isempty(self):
        """Return True for each empty string; the result for a null is False."""
        return wrap(self._series._as_pandas() == "").fillna(False)

    def __getitem__(self, key):
        return wrap(self._there()[key])


def _of_one_text(name: str, function: Callable, dtype: str) -> Callable:
    """Return a method that calls ``function`` with each string and leaves nulls null."""

    def method(self, *args, **kwargs):
        texts = self._series._as_pandas()
        done = [None if pd.isna(one) else function(one, *args, **kwargs) for one in texts]
        return wrap(pd.Series(done, texts.index, dtype=object, name=texts.name)).astype(dtype)

    method.__name__, method.__doc__ = name, f"Do the same as cuDF's ``str.{name}``."
    return method


for _name, (_function, _dtype) in OF_ONE_TEXT.items():
    setattr(StringMethods, _name, _of_one_text(_name, _function, _dtype))


class DatetimeProperties(Accessor):
    """Date and time properties. Parts of a date are small integers, as in cuDF."""

    _name = "dt"
    _names_there = DT
    _properties = frozenset(
        (
            "year month day hour minute second microsecond nanosecond weekday dayofweek dayofyear "
            "day_of_year quarter is_month_start is_month_end is_year_start is_year_end "
            "is_leap_year "
            "is_quarter_start is_quarter_end days_in_month days seconds microseconds nanoseconds "
            "components"
        ).split()
    )
    _methods = frozenset(
        ("ceil floor round strftime isocalendar total_seconds day_name month_name").split()
    )
    _dtypes = {  # noqa: RUF012
        **dict.fromkeys(
            (
                "year month day hour minute second nanosecond weekday dayofweek dayofyear "
                "day_of_year days_in_month"
            ).split(),
            "int16",
        ),
        "quarter": "int8",
        "microsecond": "int32",
        **dict.fromkeys("days seconds microseconds nanoseconds".split(), "int64"),
    }


class CategoricalAccessor(Accessor):
    """Methods and properties of categorical columns."""

    _name = "cat"
    _names_there = CAT
    _properties = frozenset(("categories", "codes", "ordered"))
    _methods = frozenset(
        (
            "add_categories as_ordered as_unordered remove_categories "
            "reorder_categories set_categories"
        ).split()
    )
