"""Names of shared arrays in a kernel's source, for messages.

PTX from CUDA C++ contains the names. Numba names its variables ``_cudapy_smem_1``,
``_cudapy_smem_2`` and so on, and its successor ``static_shared_memory_0``, in the order of the
source of each function. The names are then read from the source. Nothing in this module runs
during a launch without errors.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from virtualgpu import sources
from virtualgpu.memory.array_names import element_of

#: End of the mangled name of a function's variable in CUDA C++, and names that Numba declares.
_CPP = re.compile(r"(?=E(\d+)(\w+?)(_\d+)?$)")
_NUMBA = re.compile(r"(?:_cudapy_smem_?|static_shared_memory_)(\d*)")

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """Shared array with its name in the source; ``shape`` is empty if it is unknown."""

    name: str
    shape: Shape = ()


def find(program: Any, extent: str) -> Named | None:
    """Return the source's name of a variable of a shared layout, or None if it is unknown."""
    symbols = list(program.shared.addresses)
    if extent == "dynamic":
        static = {name for _, _, name in program.shared.extents}
        dynamic = [name for name in symbols if name not in static]
        if len(dynamic) != 1:  # none is declared, or several are at one address
            return None
        extent = dynamic[0]
    symbol = extent.partition("@")[0]
    if symbol.startswith("_ZZ"):
        names = (one[2] for one in _CPP.finditer(symbol) if len(one[2]) == int(one[1]))
        return next((Named(name) for name in names), None)
    if not _NUMBA.fullmatch(extent):
        # Other names without an underscore are extern "C", `extern __shared__`, or Triton's own.
        own_name = not symbol.startswith("_") and symbol != "global_smem"
        return Named(symbol) if own_name else None
    # Numba compiles the functions that a kernel calls first, so the kernel's arrays are last.
    *called, own = _declared(program)
    symbols = sorted(symbols, key=_number)
    if len(called) < 2 and sum(map(len, called)) + len(own) == len(symbols):
        return [*chain(*called), *own][symbols.index(extent)]
    place = symbols.index(extent) - len(symbols)
    return own[place] if -len(own) <= place else None


def element(one: Named, at: int, elements: int) -> str | None:
    """Return an element such as ``tile[3, 14] of (16, 16)``, or None for an unknown index.

    ``at`` and ``elements`` count accesses, which may be wider than elements.
    """
    if not one.shape or math.prod(one.shape) != elements:
        return None
    index = []
    for length in reversed(one.shape):
        at, place = divmod(at, length)
        index.append(place)
    return element_of(one.name, index[::-1], one.shape)


def _number(symbol: str) -> int:
    found = _NUMBA.fullmatch(symbol)
    return int(found[1] or 0) if found else 0


def _declared(program: Any) -> list[list[Named]]:
    """Return the shared arrays that each function of a kernel declares, the kernel's own last."""
    found: dict[tuple[str, int], list[Named]] = {}
    own: tuple[str, int] | None = None
    for code in (*program.functions.values(), program.entry_code):
        for source in {one.source for one in code.function.body if one.source and one.source.line}:
            for line in (source, *source.callers):
                if (function := _function_at(line)) is None:
                    continue
                key = line.filename, function.lineno
                if key not in found:
                    numbers = _constants(line.filename)
                    found[key] = list(_assigned(function, numbers))
            if code is program.entry_code and function is not None:
                own = key
    last = found.pop(own, []) if own else []
    return [*filter(None, found.values()), last]


def _function_at(line: sources.SourceLine) -> ast.FunctionDef | None:
    """Return the innermost function that contains a line of Python."""
    around = [
        one
        for one in ast.walk(_module(line.filename))
        if isinstance(one, ast.FunctionDef)
        and one.lineno <= line.line <= (one.end_lineno or one.lineno)
    ]
    return max(around, key=lambda one: one.lineno, default=None)


def _module(filename: str) -> ast.Module:
    with suppress(SyntaxError):
        return ast.parse(sources.whole(filename))
    return ast.Module([], [])


def _constants(filename: str) -> dict[str, object]:
    """Return the named constants of a file."""
    return {
        target.id: statement.value.value
        for statement in _module(filename).body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


def _assigned(function: ast.FunctionDef, numbers: dict[str, object]) -> Iterator[Named]:
    assignments = [one for one in ast.walk(function) if isinstance(one, ast.Assign)]
    for one in sorted(assignments, key=lambda one: (one.lineno, one.col_offset)):
        for target in one.targets:
            pairs = [(target, one.value)]
            if isinstance(target, ast.Tuple) and isinstance(one.value, ast.Tuple):
                pairs = list(zip(target.elts, one.value.elts, strict=False))
            for to, value in pairs:
                if isinstance(to, ast.Name) and isinstance(value, ast.Call) and _is_shared(value):
                    yield Named(to.id, _shape(value, numbers))


def _is_shared(call: ast.Call) -> bool:
    """Return True for ``cuda.shared.array(…)`` and ``shared.array(…)``."""
    return ast.unparse(call.func).split(".")[-2:] == ["shared", "array"]


def _shape(call: ast.Call, numbers: dict[str, object]) -> Shape:
    given = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "shape")]
    if not given:
        return ()
    lengths = given[0].elts if isinstance(given[0], ast.Tuple) else [given[0]]
    shape = []
    for one in lengths:
        value: object = one.value if isinstance(one, ast.Constant) else None
        if isinstance(one, ast.Name):
            value = numbers.get(one.id)
        if not isinstance(value, int):
            return ()
        shape.append(value)
    return tuple(shape)
