"""Launch arguments in numba-cuda's layout: the worker sends them and the oracle checks them.

The layout is the one that ``_Kernel._prepare_args`` of numba-cuda 0.30 uses. Arrays are
C-contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpucourse.adapters.awkward_arguments import describe_form
from gpucourse.wording import a_or_an
from virtualgpu.api import AWKWARD_PARAMETERS, is_awkward, is_plain

NUMBERS = "biufc"  # type codes (numpy.dtype.kind) of numbers
DEEPEST = 8  # greatest nesting depth of lists in an argument, the same as in a message


def demand_plain_arguments(verb: str, args: Sequence[object], records: bool = False) -> None:
    """Raise TypeError, naming the argument, for non-numeric arrays and lists nested too deeply.

    NumPy creates non-numeric arrays from some results of a student's function, for example from a
    list that contains None. With `records`, arrays of records are allowed if their fields are
    numbers.
    """
    for number, value in enumerate(args, 1):
        for array in _arrays(value, f"argument {number} of {verb}"):
            if array.dtype.kind not in NUMBERS and not (
                records and array.dtype.kind == "V" and is_plain(array.dtype)
            ):
                raise TypeError(
                    f"argument {number} of {verb} is an array of {array.dtype}; its "
                    "elements must be numbers"
                )


def _arrays(value: object, name: str, depth: int = 1) -> Iterator[np.ndarray | np.generic]:
    if isinstance(value, np.ndarray | np.generic):
        yield value
    elif isinstance(value, list | tuple | dict):
        if depth > DEEPEST:
            raise TypeError(f"{name} has lists more than {DEEPEST} deep")
        for item in value.values() if isinstance(value, dict) else value:
            yield from _arrays(item, name, depth + 1)


def describe_type(value: object) -> dict:
    """Return a description of an argument for the worker: type and dimensions, never values."""
    if is_awkward(value):
        return {"form": describe_form(value)}
    if isinstance(value, np.ndarray):
        return {"dtype": describe_dtype(value.dtype), "ndim": value.ndim}
    return {"dtype": np.asarray(scalar(value)).dtype.name, "ndim": 0}


def describe_dtype(dtype: np.dtype) -> str | list:
    """Return a dtype as JSON: ``"float64"``, or ``[["s0", "uint64"], …]`` for records."""
    if dtype.names is None:
        return dtype.name
    return [[name, describe_dtype(dtype[name])] for name in dtype.names]


def read_dtype(described: str | list) -> np.dtype:
    """Return the dtype that :func:`describe_dtype` described; records use C's layout."""
    if isinstance(described, str):
        return np.dtype(described)
    return np.dtype([(name, read_dtype(part)) for name, part in described], align=True)


def scalar(value: object) -> np.generic:
    """Return a number with the type that Numba infers: int is int64, float is float64."""
    if isinstance(value, np.generic | complex | float | int):
        number = np.asarray(value)
        if number.dtype.kind not in NUMBERS:
            raise TypeError(
                f"a kernel takes numbers of at most 64 bits, not {a_or_an(number.dtype)}"
            )
        kind: type[np.generic] = number.dtype.type
        return kind(value)
    raise TypeError(f"a kernel takes arrays and numbers, not {type(value).__name__}")


def parameter_sizes(described: dict) -> list[int]:
    """Return the sizes in bytes of the kernel parameters for one argument.

    They follow numba-cuda's ``_prepare_args``.
    """
    if "form" in described:
        return [8] * AWKWARD_PARAMETERS
    if described["ndim"]:
        return [8] * (5 + 2 * described["ndim"])
    dtype = np.dtype(described["dtype"])
    if dtype.kind == "c":
        return [dtype.itemsize // 2] * 2
    return [dtype.itemsize]


def scalar_parameter(value: object) -> bytes:
    return scalar(value).tobytes()
