"""Functions generated from the table; NumPy computes them on views of device memory."""

from __future__ import annotations

import inspect
import re

import numpy as np

from .. import _launches
from .core import from_host, ndarray, wrote
from .operands import SCALARS, as_array, wrap
from .operators import named
from .reductions import FUSES

_LINE = re.compile(r"(?P<name>\w+)\((?P<parameters>.*)\)(?P<rest>.*)")
_JOIN = dict.fromkeys("stack hstack vstack dstack row_stack".split(), "concatenated") | {
    "column_stack": "column stacked"
}
# CuPy converts the arguments of these functions with atleast_1d and its siblings.
_AT_LEAST = frozenset(("hstack", "vstack", "dstack", "row_stack"))


class Routine:
    """Parsed line of the table.

    Attributes
    ----------
    name : str
    signature : inspect.Signature
    strict : dict
        Marks by parameter: ``*`` and ``**`` require device arrays, ``***`` excludes NumPy arrays.
    kernel : str or None
        The only kernel that it launches, if that is known.
    writes, stays_on_host : bool
    """

    def __init__(self, line: str):
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"not a line of the table: {line!r}")
        self.name = found["name"]
        self.strict: dict[str, str] = {}
        self.signature = inspect.signature(eval(f"lambda {self._unmarked(found['parameters'])}: 0"))
        rest = found["rest"].split()
        self.writes = "!" in rest
        self.stays_on_host = "host" in rest
        self.kernel = rest[rest.index("->") + 1] if "->" in rest else None

    def _unmarked(self, parameters: str) -> str:
        def note(mark: re.Match) -> str:
            self.strict[mark["name"]] = mark["stars"]
            return mark["name"]

        return re.sub(r"(?P<name>\b[A-Za-z]\w*)(?P<stars>\*{1,3})(?=[,)=]|$)", note, parameters)


def make(line: str, module, where: str, run=None):
    """Return the function that a line of the table describes.

    Parameters
    ----------
    module : module
        The NumPy module with the function of the same name.
    where : str
        The CuPy module's name, for messages.
    run : callable, optional
        A replacement for NumPy's function, with the same arguments (host views).
    """
    routine = Routine(line)
    run = run or getattr(module, routine.name, None)
    if run is None:
        return None  # this NumPy is too old for a name that CuPy 14 has
    defaults, moved = _differences(routine.signature, run)
    label = f"{where}.{routine.name}"

    def function(*args, **kwargs):
        if any(hasattr(one, "__cupy_override_elementwise_kernel__") for one in args):
            raise NotImplementedError(f"{label} {FUSES}; call {label} outside the fused function")
        bound = routine.signature.bind(*args, **kwargs)
        for name, value in defaults.items():
            bound.arguments.setdefault(name, value)
        arrays: list[ndarray] = []
        for name, value in bound.arguments.items():
            bound.arguments[name] = _argument(routine, name, value, arrays)
        out = bound.arguments.get("out")
        with np.errstate(all="ignore"):
            by_name = {name: bound.arguments.pop(name) for name in moved & {*bound.arguments}}
            result = run(*bound.args, **bound.kwargs, **by_name)
        if routine.writes:
            wrote(arrays[0])
        _record(routine, label, result, arrays)
        if out is not None and result is out:
            made = next(a for a in arrays if a._host is out)
            wrote(made)
            return made
        if routine.stays_on_host:
            return result
        if isinstance(result, bool | float | int | complex):
            return from_host(np.asarray(result))
        itself = next((array for array in arrays if array._host is result), None)
        if itself is not None:
            return itself
        return wrap(result, arrays)

    function.__name__ = function.__qualname__ = routine.name
    function.__module__ = where
    function.__signature__ = routine.signature
    function.__doc__ = (
        f"Do the same as ``{module.__name__}.{routine.name}``, on device arrays"
        f"{'; the result stays on the host' if routine.stays_on_host else ''}."
    )
    return function


def table(lines: str, module, where: str, own: dict | None = None) -> dict:
    """Return all functions of a part of the table, by name."""
    made = {}
    for line in lines.strip().splitlines():
        if not line.startswith("#"):
            name = line.partition("(")[0]
            function = make(line, module, where, (own or {}).get(name))
            if function is not None:
                made[name] = function
    return made


def _differences(signature: inspect.Signature, run) -> tuple[dict, set[str]]:
    """Return CuPy's defaults that differ from NumPy's, and parameters in other positions."""
    try:
        theirs = inspect.signature(run).parameters
    except (ValueError, TypeError):
        return {}, set()
    places = list(theirs)
    empty = inspect.Parameter.empty
    return {
        name: one.default
        for name, one in signature.parameters.items()
        if name in theirs
        and one.default is not empty
        and one.default is not None
        and theirs[name].default is not empty
        and theirs[name].default is not np._NoValue
        and theirs[name].default != one.default
    }, {
        name
        for place, name in enumerate(signature.parameters)
        if name in theirs and places.index(name) != place
    }


def _argument(routine: Routine, name: str, value, arrays: list[ndarray]):
    mark = routine.strict.get(name)
    kind = routine.signature.parameters[name].kind
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(
            _strict(routine, one, arrays) if mark else _lenient(one, arrays) for one in value
        )
    if kind is inspect.Parameter.VAR_KEYWORD:
        return {key: _lenient(one, arrays) for key, one in value.items()}
    if mark == "*" and value is not None:
        return _strict(routine, value, arrays)
    if mark == "**":
        array = as_array(value)
        if array is not None:
            arrays.append(array)
            return list(array._host)
        return [_strict(routine, one, arrays) for one in value]
    if (mark == "***" and isinstance(value, np.ndarray)) or (
        name == "out" and value is not None and as_array(value) is None
    ):
        raise TypeError(f"Unsupported type {type(value)}")
    return _lenient(value, arrays)


def _strict(routine: Routine, value, arrays: list[ndarray]):
    array = as_array(value)
    if array is not None:
        arrays.append(array)
        return array._host
    if routine.name in _AT_LEAST:
        arrays.append(made := named("asarray")(value))
        return made._host
    if routine.name in _JOIN:
        raise TypeError(f"Only cupy arrays can be {_JOIN[routine.name]}")
    if isinstance(value, SCALARS):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def _lenient(value, arrays: list[ndarray]):
    array = as_array(value)
    if array is not None:
        arrays.append(array)
        return array._host
    if type(value) in (list, tuple):
        return type(value)(_lenient(one, arrays) for one in value)
    return value


def _record(routine: Routine, label: str, result, arrays: list[ndarray]) -> None:
    if not _launches.listening():
        return
    parts = result if isinstance(result, tuple | list) else [result]
    if (
        all(
            not isinstance(one, np.ndarray)
            or any(a._mem.ptr and np.may_share_memory(one, a._host) for a in arrays)
            for one in parts
        )
        and not routine.writes
        and (any(isinstance(one, np.ndarray) for one in parts))
    ):
        return  # the result is a view, so no kernel runs
    size = next((one.size for one in parts if isinstance(one, np.ndarray)), 0)
    size = size or max((a.size for a in arrays), default=0)
    if routine.stays_on_host or not size:
        return
    _launches.record(
        routine.kernel or label,
        "elementwise" if routine.kernel else "routine",
        size=size,
        exact=routine.kernel is not None,
    )
