"""Conversion of a submission's values to values in the oracle; only plain ones are accepted.

The student's process may send anything. Accepted are None, bools, numbers of at most 64 bits,
strings, arrays of numbers, and lists, tuples and dictionaries of these, limited in number and
depth. NumPy converts these to arrays of numbers or strings, except for lists with None or with
lists of unequal lengths, which become arrays of Python objects. Such arrays go no further than the
test (:mod:`virtualgpu.memory.plain_dtypes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpucourse.grading.sandbox.wire import (
    MAX_DEPTH,
    MAX_ITEMS,
    ProtocolError,
    decode,
    is_number_type,
)

# Range of NumPy's int64 and uint64; NumPy stores other integers as Python objects.
LEAST, MOST = -(1 << 63), (1 << 64) - 1


class Refused(Exception):
    """A value that is refused; the message, which the student sees, names its kind."""


def value(
    tree: object, arrays: list[np.ndarray], device_array: Callable[[Any], np.ndarray] | None = None
) -> Any:
    """Return the value that a worker describes.

    Raises ProtocolError, or Refused for a value that is not plain. `device_array(description)`
    fetches an array from device memory; without it, such arrays are refused.
    """
    found = decode(tree, arrays, device_array)
    _admit(found, [0], 0)
    return found


def _admit(found: object, count: list[int], depth: int) -> None:
    """Raise Refused unless `found` has exactly one of the accepted types."""
    count[0] += 1
    if count[0] > MAX_ITEMS or depth > MAX_DEPTH + 1:
        raise Refused("a value with too many parts")
    kind = type(found)
    if found is None or kind in (bool, float, str):
        return
    if kind is int:
        if not LEAST <= found <= MOST:  # type: ignore[operator]
            raise Refused("an integer that does not fit in 64 bits")
    elif isinstance(found, np.ndarray | np.generic):
        if isinstance(found, np.ndarray) and kind is not np.ndarray:
            raise Refused(f"an array of the type {kind.__name__}")
        if not is_number_type(found.dtype):
            raise Refused(f"an array of {found.dtype} instead of numbers")
    elif kind in (list, tuple):
        for item in found:  # type: ignore[attr-defined]
            _admit(item, count, depth + 1)
    elif kind is dict:
        for key, item in found.items():  # type: ignore[attr-defined]
            if type(key) is not str:
                raise Refused("a dictionary whose keys are not strings")
            _admit(item, count, depth + 1)
    else:
        raise Refused(f"a value of the type {kind.__name__}")


def counts(told: object) -> dict[str, int]:
    """Return counts by name. Raises ProtocolError for anything else."""
    if (
        not isinstance(told, dict)
        or len(told) > MAX_ITEMS
        or not all(type(number) is int and 0 <= number <= MOST for number in told.values())
    ):
        raise ProtocolError("something that is not a table of counts")
    return told
