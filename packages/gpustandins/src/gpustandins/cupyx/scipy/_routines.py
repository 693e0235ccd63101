"""Wrappers of SciPy's functions and classes for device arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from cupy import _launches
from cupy._arrays.core import ndarray, wrote
from cupy._arrays.operands import as_array, on_this_device, wrap
from cupy._missing import missing

#: Parameters for which CuPy accepts only device arrays, in every function.
_ON_DEVICE = {"coordinates", "in1", "in2", "index", "input", "labels", "matrix"}
# Parameters that CuPy has in addition to SciPy's; they do not change the result.
_BEYOND = {"texture_memory", "brute_force_limit"}


def functions(names: str, module: Any, where: str, *, first_on_device: bool) -> dict[str, Callable]:
    """Return the functions ``names`` of SciPy's ``module``, by name.

    If ``first_on_device`` is True, the first argument must be a device array or a number, as for
    CuPy's kernels.
    """
    return {
        name: _function(getattr(module, name), f"{where}.{name}", first_on_device)
        for name in names.split()
        if hasattr(module, name)
    }


def classes(names: str, module: Any, where: str) -> dict[str, type]:
    """Return wrappers of classes of SciPy's ``module``, by name.

    They are created from device arrays and called with device arrays.
    """
    for name in names.split():
        theirs = getattr(module, name)
        about = {"_theirs": theirs, "__module__": where, "__doc__": f"Like SciPy's ``{name}``."}
        OBJECTS[theirs] = type(name, (Wrapped,), about)
    return {name: OBJECTS[getattr(module, name)] for name in names.split()}


class Wrapped:
    """SciPy object whose methods accept and return device arrays."""

    _theirs: type

    def __init__(self, *args, **kwargs):
        arrays: list[ndarray] = []
        self._object = self._theirs(
            *(host(one, arrays) for one in args),
            **{name: host(one, arrays) for name, one in kwargs.items()},
        )

    def __call__(self, *args, **kwargs):
        return _function(self._object, type(self).__name__, False)(*args, **kwargs)

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._object, name)
        return _function(value, name, False) if callable(value) else on_device(value, [])

    @classmethod
    def of(cls, made: Any) -> Wrapped:
        self = object.__new__(cls)
        self._object = made
        return self


#: Our wrapper class for each SciPy class.
OBJECTS: dict[type, type[Wrapped]] = {}


def absent(where: str, lacking: Collection[str], library: str) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that raises NotImplementedError for missing names.

    These are the names in `lacking`. The message names an alternative: the entry in `lacking` if
    it is a dictionary, otherwise SciPy's function.
    """

    def look_up(name: str) -> Any:
        if name in lacking:
            there = f"{library}.{name} on x.get()"
            raise missing(where, name, lacking[name] if isinstance(lacking, dict) else there)
        raise AttributeError(f"module {where!r} has no attribute {name!r}")

    return look_up


def _function(theirs: Callable, label: str, first_on_device: bool) -> Callable:
    try:
        order = [
            name if name in _ON_DEVICE else "" for name in inspect.signature(theirs).parameters
        ]
    except (TypeError, ValueError):  # NumPy's ufuncs have no signature
        order = []

    def function(*args, **kwargs):
        if first_on_device and args and isinstance(args[0], np.ndarray | list | tuple):
            raise TypeError(f"Unsupported type {type(args[0])}")
        for name, one in (*zip(order, args, strict=False), *kwargs.items()):
            if name in _ON_DEVICE and isinstance(one, np.ndarray | list | tuple):
                raise TypeError(f"{name} must be cupy.ndarray, not {type(one)}")
        arrays: list[ndarray] = []
        given = [host(one, arrays) for one in args]
        named = {name: host(one, arrays) for name, one in kwargs.items() if name not in _BEYOND}
        with np.errstate(all="ignore"):
            result = theirs(*given, **named)
        written = [array for array in arrays if _is_in(result, array)]
        for array in written:
            wrote(array)
        if _launches.listening() and arrays:
            _launches.record(label, "routine", size=max(a.size for a in arrays), exact=False)
        output = kwargs.get("output", kwargs.get("out"))
        if isinstance(output, ndarray):
            wrote(output)
            return output if result is None or _is_in(result, output) else on_device(result, arrays)
        return on_device(result, arrays)

    name = getattr(theirs, "__name__", label.rpartition(".")[2])
    functools.update_wrapper(function, theirs, assigned=(), updated=())
    function.__name__ = function.__qualname__ = name
    function.__module__ = label.rpartition(".")[0]
    function.__doc__ = f"Call ``{label.removeprefix('cupyx.')}`` on device arrays."
    del function.__wrapped__  # SciPy's accepts other arrays
    return function


def host(value: Any, arrays: list[ndarray]) -> Any:
    """Return the host view of a device array, also inside lists and tuples."""
    array = as_array(value)
    if array is not None:
        on_this_device(array)
        arrays.append(array)
        return array._host
    if type(value) in (list, tuple):
        return type(value)(host(one, arrays) for one in value)
    return value._object if isinstance(value, Wrapped) else value


def on_device(result: Any, arrays: list[ndarray]) -> Any:
    """Return SciPy's result with device arrays, also inside dictionaries."""
    if type(result) in OBJECTS:
        return OBJECTS[type(result)].of(result)
    if type(result) is dict:
        return {name: on_device(one, arrays) for name, one in result.items()}
    if isinstance(result, tuple) and not hasattr(result, "_fields"):
        return tuple(on_device(one, arrays) for one in result)
    return wrap(result, arrays)


def _is_in(result: Any, array: ndarray) -> bool:
    return isinstance(result, np.ndarray) and np.may_share_memory(result, array._host)
