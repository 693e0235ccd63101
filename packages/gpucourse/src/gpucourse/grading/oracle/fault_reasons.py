"""Messages about faults that reveal no hidden inputs.

Once the student's code has seen hidden inputs, any string that it chooses may contain one: a name
in PTX, the text of an assertion, the type of an exception. Messages therefore consist only of
words that the submission contained before it ran, and of the virtual GPU's own sentences about
addresses, barriers and limits.
"""

from __future__ import annotations

import builtins
import contextlib
import keyword
import re
from collections.abc import Callable, Iterable, Iterator

from numba.core import errors as of_numba

from gpucourse.grading.sandbox import cells
from virtualgpu import errors, sources

#: Errors whose messages quote neither PTX nor device memory.
OWN_WORDS = (
    errors.MemoryAccessError,
    errors.DeadlockError,
    errors.BudgetExceeded,
    errors.LaunchError,
    errors.OutOfMemory,
)
NOTHING_MORE = "details are not shown, because the code has seen hidden inputs"
ANOTHER_FILE = "another file"
_WORD = re.compile(r"[^\W\d]\w*")
# Exceptions of the libraries that solutions use, except Python's and Numba's.
_LIBRARIES = frozenset(
    {
        "AxisError",
        "LinAlgError",
        "UFuncTypeError",
        "CudaAPIError",
        "CudaSupportError",
        "TracerArrayConversionError",
        "TracerBoolConversionError",
        "ConcretizationTypeError",
        "TracerIntegerConversionError",
        "NonConcreteBooleanIndexError",
        "UnexpectedTracerError",
    }
)


def words(texts: Iterable[str]) -> frozenset[str]:
    """Return every word in the texts."""
    return frozenset(word for text in texts for word in _WORD.findall(text))


def error_name(name: str) -> str:
    """Return `name` if it is an exception of Python, a library or the virtual GPU."""
    for module in (builtins, errors, of_numba):
        known = getattr(module, name, None)
        if isinstance(known, type) and issubclass(known, BaseException):
            return name
    return name if name in _LIBRARIES else "an exception"


def type_name(name: str) -> str:
    """Return `name` if it is a type that students often return by mistake."""
    known = getattr(builtins, name, None)
    return (
        name
        if isinstance(known, type)
        or name
        in ("function", "NoneType", "ndarray", "CPUDispatcher", "builtin_function_or_method")
        else "value of another type"
    )


def kernel_name(name: str, known: frozenset[str]) -> str:
    """Return `name` if it is one of the submission's own words, otherwise "kernel"."""
    return name if name in known and not keyword.iskeyword(name) else "kernel"


@contextlib.contextmanager
def quietly(secret: Callable[[], bool]) -> Iterator[None]:
    """Remove strings that the student's side wrote from errors of the virtual GPU.

    `secret()` returns True if the student's code has seen hidden inputs. The text of an assertion
    is never shown, because it is in device memory, which may contain a hidden input.
    """
    try:
        yield
    except errors.TrapError as error:
        if not error.message.startswith("assertion `"):
            raise
        raise errors.TrapError("an assertion in it does not hold", error.location) from None
    except OWN_WORDS:
        raise
    except errors.VirtualGPUError as error:
        if not secret():
            raise
        raise type(error)(NOTHING_MORE) from None


@contextlib.contextmanager
def naming(known: frozenset[str]) -> Iterator[None]:
    """Let messages name a source file by its cell, and quote only cells in `known`.

    Other file names are not shown, because line tables come from the worker.
    """

    def name(filename: str) -> str:
        found = cells.namer(filename) if cells.cell_of(filename) in known else None
        return found or ANOTHER_FILE

    sources.register_namer(name)
    try:
        with sources.quoting(lambda filename: cells.cell_of(filename) in known):
            yield
    finally:
        sources.unregister_namer(name)
