"""Errors for names that a stand-in lacks, each with an alternative."""

from __future__ import annotations

import pandas as pd

from gpustandins.importing import as_import_error


class MissingError(NotImplementedError, AttributeError):
    """cuDF has this name and the stand-in has not.

    Also an AttributeError, so that ``hasattr`` answers False.
    """


def missing(owner: str, name: str) -> MissingError:
    """Return the error for ``owner.name`` (``owner`` as in ``cudf.Series``)."""
    if not _pandas_has(owner, name):
        instead = "pandas has none of that name either, and `.to_pandas()` has the data"
    elif owner == "cudf":
        instead = "use the pandas function of that name on `.to_pandas()`, then `cudf.from_pandas`"
    else:
        path = owner.removeprefix("cudf.").partition(".")[2]  # "str" of "cudf.Series.str"
        chain = ".to_pandas()." + (f"{path}." if path else "") + name
        instead = f"use `{chain}`, and `cudf.from_pandas` on what comes out"
    return as_import_error(
        MissingError(
            f"{owner}.{name} is not in the stand-in for cuDF that answers without a GPU: "
            f"{instead} (docs/standins.md lists what it has)"
        )
    )


def _pandas_has(owner: str, name: str) -> bool:
    """Return True if pandas has a name where cuDF has it (``owner`` as for :func:`missing`)."""
    if ".groupby(" in owner:
        return hasattr(pd.api.typing.DataFrameGroupBy, name)
    there: object = pd
    for one in owner.split(".")[1:]:
        there = getattr(there, one, None)
    return hasattr(there, name)


def no_attribute(owner: object, name: str, there: frozenset[str], spoken: str) -> AttributeError:
    """Return the error for a name that an object of the stand-in does not have.

    ``there``: the names that cuDF has; ``spoken``: the owner as in ``cudf.Series``.
    """
    if name in there:
        return missing(spoken, name)
    return AttributeError(f"'{type(owner).__name__}' object has no attribute '{name}'")
