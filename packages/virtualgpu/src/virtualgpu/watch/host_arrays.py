"""Pinned, mapped and managed host arrays that report their reads and writes.

They are created only while streams are checked (:func:`watched`). Accesses by NumPy's methods,
operators, functions and ufuncs are reported; those through ``np.asarray``, buffers and pointers
are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from virtualgpu.watch import instruments, queues

_READERS = (
    "__getitem__",
    "__iter__",
    "__bool__",
    "__int__",
    "__float__",
    "__complex__",
    "__index__",
    "__repr__",
    "__str__",
    "__format__",
    "__contains__",
    "__array__",
    "tolist",
    "tobytes",
    "tofile",
    "item",
    "copy",
    "astype",
    "dump",
    "dumps",
    "take",
    "argsort",
    "argmax",
    "argmin",
    "nonzero",
    "searchsorted",
    "repeat",
    "compress",
    "choose",
    "flatten",
    "dot",
    "__reduce__",
    "__copy__",
    "__deepcopy__",
    "sum",
    "mean",
    "min",
    "max",
    "any",
    "all",
    "prod",
    "std",
    "var",
    "cumsum",
    "round",
)
_WRITERS = ("__setitem__", "fill", "sort", "put", "partition")


class ReportingArray(np.ndarray):
    """Mixin for array classes, which reports their accesses."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **named):
        for value in (*inputs, named.get("where")):
            _tell("read", value)
        for value in out:
            _tell("write", value)
        plain = {**named, "out": tuple(map(_plain, out))} if out else named
        if plain.get("where") is not None:
            plain["where"] = _plain(plain["where"])
        result = getattr(ufunc, method)(*map(_plain, inputs), **plain)
        return out[0] if len(out) == 1 and result is not None else result

    def __array_function__(self, function, types, arguments, named):
        target = arguments[0] if function is np.copyto and arguments else named.get("out")
        for value in (*arguments, *named.values()):
            for one in value if isinstance(value, list | tuple) else (value,):
                if one is not target:
                    _tell("read", one)
        _tell("write", target)
        return function(*map(_plain, arguments), **{k: _plain(v) for k, v in named.items()})


def _tell(kind: str, array: Any) -> None:
    if isinstance(array, ReportingArray) and array.size:
        low, high = np.lib.array_utils.byte_bounds(_plain(array))
        queues.tell(kind, target=low, nbytes=high - low)


def _plain(value: Any) -> Any:
    if isinstance(value, ReportingArray):
        return np.ndarray.view(value, np.ndarray)
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value
    return value


def _method(name: str, kind: str):
    core = getattr(np.ndarray, name, None)

    def method(self, *arguments, **named):
        if name == "__getitem__":
            # Creating a view reads nothing.
            part = core(self, *arguments)
            if _is_view(part, self):
                return part
        _tell(kind, self if name != "__setitem__" else _part(self, arguments[0]))
        for value in arguments:
            _tell("read", value)
        return core(
            _plain(self),
            *map(_plain, arguments),
            **{key: _plain(value) for key, value in named.items()},
        )

    method.__name__ = name
    return core and method


def _part(array: np.ndarray, index: Any) -> np.ndarray:
    part = np.ndarray.__getitem__(array, index)
    return part if _is_view(part, array) else array


def _is_view(part: Any, array: np.ndarray) -> bool:
    return isinstance(part, ReportingArray) and np.may_share_memory(_plain(part), _plain(array))


for _kind, _names in (("read", _READERS), ("write", _WRITERS)):
    for _name in _names:
        if (_made := _method(_name, _kind)) is not None:
            setattr(ReportingArray, _name, _made)

_classes: dict[type, type] = {np.ndarray: ReportingArray}


def watched(array: np.ndarray) -> np.ndarray:
    """Return the same memory as an array that reports accesses.

    If streams are not checked, this is the array itself.
    """
    if not any(observer.watches_host for observer in instruments.observers()):
        return array
    kind = type(array)
    if kind not in _classes:
        _classes[kind] = type(
            kind.__name__, (ReportingArray, kind), {"__module__": kind.__module__}
        )
    # NumPy's own method, because Numba's arrays define another one of this name.
    made: np.ndarray = np.ndarray.view(array, _classes[kind])
    vars(made).update(getattr(array, "__dict__", {}))
    return made
