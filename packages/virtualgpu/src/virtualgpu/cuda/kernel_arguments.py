"""Checks of kernel arguments against the kernel's parameters, and their messages.

CUDA itself does not check arguments, because a launch only passes bytes. A frontend that promises
a check raises an error. A frontend that stands in for a library without a check calls
:func:`report`, so that ``virtualgpu.check()`` reports what the library accepts silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from virtualgpu.compilers.signatures import ParameterType
from virtualgpu.findings import Finding
from virtualgpu.memory.global_memory import POISON
from virtualgpu.memory.plain_dtypes import demand_plain
from virtualgpu.ptx import Function
from virtualgpu.watch import instruments
from virtualgpu.watch.checking import Recorder
from virtualgpu.wording import many


class Argument(NamedTuple):
    """Kernel argument: its bytes, and their type if it is known.

    ``dtype`` is the element type of an array (``is_array``), or the type of the number itself.
    """

    raw: bytes
    dtype: np.dtype | None = None
    is_array: bool = False

    def __str__(self) -> str:
        if self.dtype is None:
            return many(len(self.raw), "byte")
        return f"an array of {self.dtype}" if self.is_array else f"a number of type {self.dtype}"


def array_argument(address: int, dtype: np.dtype | str) -> Argument:
    """Return the argument for a pointer to an array; Python objects raise TypeError."""
    demand_plain(dtype)
    return Argument(int(address).to_bytes(8, "little"), np.dtype(dtype), True)


def number_argument(value: np.generic) -> Argument:
    """Return the argument for a number or a record; Python objects in it raise TypeError."""
    demand_plain(value.dtype, "a record")
    return Argument(value.tobytes(), value.dtype)


def misfit(argument: Argument, size: int, declared: ParameterType | None) -> str | None:
    """Explain why ``argument`` does not fit a parameter of ``size`` bytes; None if it fits.

    ``declared`` is the parameter's C++ type if the compiler was asked for it. An integer fits a
    narrower integer parameter if its value does, because the kernel reads the low bytes, which
    come first.
    """
    if declared is None:
        return None if len(argument.raw) == size else many(size, "byte")
    if argument.dtype is None:
        return None if len(argument.raw) == size else f"{declared}, {many(size, 'byte')}"
    if argument.is_array:
        if declared.pointer:
            return None if declared.takes_array_of(argument.dtype) else str(declared)
        # A struct may contain a pointer.
        return None if declared.kind == "?" and size == 8 else str(declared)
    kind, width = argument.dtype.kind, argument.dtype.itemsize
    if declared.pointer:
        return None if kind in "iu" and width == 8 else str(declared)  # an address
    if declared.kind == "?":
        return None if width == size else f"{declared}"
    if kind in "iub" and declared.kind in "iub":
        value = int(np.frombuffer(argument.raw, argument.dtype)[0])
        if width == size or (width > size and -(1 << 8 * size - 1) <= value < 1 << 8 * size):
            return None
        return str(declared)
    return None if kind == declared.kind and width == size else str(declared)


def misfits(
    kernel: str,
    arguments: Sequence[Argument],
    sizes: Sequence[int],
    signature: Sequence[ParameterType] | None,
) -> list[str]:
    """Return one sentence for each wrong argument of a launch; positions count from 0."""
    if len(arguments) != len(sizes):
        return [f"{kernel} takes {many(len(sizes), 'argument')} and was given {len(arguments)}"]
    found = []
    for position, (argument, size) in enumerate(zip(arguments, sizes, strict=True)):
        declared = signature[position] if signature is not None else None
        if wanted := misfit(argument, size, declared):
            found.append(
                f"argument {position} of {kernel} is {argument}; the kernel's parameter is {wanted}"
            )
    return found


def is_checking() -> bool:
    """Return True if the next launch is inside a ``with virtualgpu.check()`` block."""
    return any(isinstance(observer, Recorder) for observer in instruments.observers())


def report(function: Function, kernel: str, sentences: Sequence[str]) -> None:
    """Add ``sentences`` to the report of every active ``check()``, at the kernel's first line."""
    for observer in instruments.observers():
        if isinstance(observer, Recorder):
            filename, line = function.source or (None, None)
            observer.report.findings.extend(
                Finding(
                    "arguments",
                    sentence,
                    kernel,
                    filename,
                    line,
                    launch=observer.report.launches + 1,
                )
                for sentence in sentences
            )


def fit(raw: bytes, size: int) -> bytes:
    """Return ``raw`` with a length of ``size`` bytes, as a launch reads it.

    Extra bytes are cut off. Missing bytes are filled with poison, which is unlikely to pass for a
    zero.
    """
    return raw[:size].ljust(size, bytes([POISON]))
