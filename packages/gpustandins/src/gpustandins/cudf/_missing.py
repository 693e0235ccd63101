"""Errors for names that the stand-in lacks; each message names an alternative."""

from __future__ import annotations

import pandas as pd

from gpustandins.importing import as_import_error


class MissingError(NotImplementedError, AttributeError):
    """Error for a name that cuDF has and the stand-in lacks.

    It is also an AttributeError, so that ``hasattr`` returns False.
    """


def missing(owner: str, name: str) -> MissingError:
    """Return the error for ``owner.name``, where ``owner`` is a name such as ``cudf.Series``."""
    if not _pandas_has(owner, name):
        instead = "pandas has no such name either, but `.to_pandas()` returns the data"
    elif owner == "cudf":
        instead = (
            "apply the pandas function of that name to `.to_pandas()`, and convert the result "
            "with `cudf.from_pandas`"
        )
    else:
        path = owner.removeprefix("cudf.").partition(".")[2]  # "str" of "cudf.Series.str"
        chain = ".to_pandas()." + (f"{path}." if path else "") + name
        instead = f"use `{chain}`, and convert the result with `cudf.from_pandas`"
    return as_import_error(
        MissingError(
            f"{owner}.{name} is not in the stand-in for cuDF that is used without a GPU: "
            f"{instead} (docs/standins.md lists the names that it has)"
        )
    )


def _pandas_has(owner: str, name: str) -> bool:
    """Return True if pandas has this name in the same class or module (see :func:`missing`)."""
    if ".groupby(" in owner:
        return hasattr(pd.api.typing.DataFrameGroupBy, name)
    there: object = pd
    for one in owner.split(".")[1:]:
        there = getattr(there, one, None)
    return hasattr(there, name)


def no_attribute(owner: object, name: str, there: frozenset[str], spoken: str) -> AttributeError:
    """Return the error for a name that an object of the stand-in does not have.

    ``there`` holds the names that cuDF has, and ``spoken`` is the owner's name, such as
    ``cudf.Series``.
    """
    if name in there:
        return missing(spoken, name)
    return AttributeError(f"'{type(owner).__name__}' object has no attribute '{name}'")
