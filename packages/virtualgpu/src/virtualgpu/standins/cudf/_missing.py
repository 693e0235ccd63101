"""What a stand-in lacks, said with its name and what to use instead."""

from __future__ import annotations


class MissingError(NotImplementedError, AttributeError):
    """cuDF has this name and the stand-in has not.

    Also an AttributeError, so that ``hasattr`` answers False.
    """


def missing(owner: str, name: str) -> MissingError:
    """The error for ``owner.name`` (``owner`` as in ``cudf.Series``)."""
    instead = {
        "cudf": "the pandas function of that name on `.to_pandas()`, then `cudf.from_pandas`",
    }.get(owner, f"`.to_pandas().{name}`, and `cudf.from_pandas` on what comes out")
    return MissingError(
        f"{owner}.{name} is not in the stand-in for cuDF that answers without a GPU: use "
        f"{instead} (docs/standins.md lists what it has)"
    )


def no_attribute(owner: object, name: str, there: frozenset[str], spoken: str) -> AttributeError:
    """The error for a name that an object of the stand-in does not have.

    ``there``: the names that cuDF has; ``spoken``: the owner as in ``cudf.Series``.
    """
    if name in there:
        return missing(spoken, name)
    return AttributeError(f"'{type(owner).__name__}' object has no attribute '{name}'")
