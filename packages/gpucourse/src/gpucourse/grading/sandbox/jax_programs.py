"""Traced JAX functions as data that one process writes and another rebuilds.

The worker traces a function and sends its operations by name. Their parameters are numbers, strings
and the few other kinds that :func:`_write` allows. :func:`rebuild` makes a function from this
description with JAX's own primitives and rules, and executes nothing of it as Python. Every
program, whoever wrote it, is then counted and run in the same way.

::

    {"in": [type, …], "constants": [type, …], "equations": [[name, operands, parameters], …],
     "out": [operand, …]}

Values are numbered in the order in which they appear: constants, inputs, then the results of each
operation. An operand is such a number or a literal.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from gpucourse.grading.sandbox.wire import ProtocolError, is_number_type
from gpucourse.grading.testing.jaxprs import BODIES, CALLS

#: Largest number of operations in one program, and of elements in its constants. The limit on
#: constants excludes programs that are tables of results.
MOST_OPERATIONS = 20_000
MOST_CONSTANTS = 1 << 16
# Operations without effect on the result: printing, and moving data between devices.
DROPPED = ("debug_callback", "debug_print")
PLACED = "device_put"
# Parameter of `reduce` that holds the combining function. Its jaxpr is another parameter.
REDUCE, FUNCTION = "reduce", "computation"


class NotAProgram(TypeError):
    """An operation or a type of value that a program cannot contain."""


# -- writing -------------------------------------------------------------------------------------


def describe(closed: Any, arrays: list[np.ndarray]) -> dict:
    """Return a closed jaxpr as data; append its constants to `arrays`.

    Raises NotAProgram, naming the operation.
    """
    jaxpr = getattr(closed, "jaxpr", closed)
    numbers: dict[Any, int] = {}
    count = itertools.count()

    def appear(variables: Sequence) -> None:
        numbers.update(zip(variables, count, strict=False))

    appear([*jaxpr.constvars, *jaxpr.invars])

    def operand(atom: Any) -> Any:
        if hasattr(atom, "val"):
            return {"type": _type(atom.aval), "value": _array(atom.val, atom.aval, arrays)}
        return numbers[atom]

    equations = []
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in DROPPED:
            continue
        if name in CALLS:
            body = next(equation.params[key] for key in BODIES if key in equation.params)
            name, parameters = "jit", {"jaxpr": _write(body, arrays)}
        else:
            try:
                parameters = (
                    {}
                    if name == PLACED
                    else {
                        key: _write(value, arrays)
                        for key, value in equation.params.items()
                        if (name, key) != (REDUCE, FUNCTION)
                    }
                )
            except NotAProgram as unknown:
                raise NotAProgram(f"the operation '{name}', which takes {unknown}") from None
        equations.append([name, [operand(atom) for atom in equation.invars], parameters])
        appear(equation.outvars)
    return {
        "in": [_type(variable.aval) for variable in jaxpr.invars],
        "constants": [
            [_type(variable.aval), _array(value, variable.aval, arrays)]
            for variable, value in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True)
        ],
        "equations": equations,
        "out": [operand(atom) for atom in jaxpr.outvars],
    }


def operation_in(refusal: str) -> str:
    """Return the JAX operation that a :class:`NotAProgram` message names; otherwise ""."""
    named = re.match(r"the operation '([\w-]+)'", refusal)
    return named[1] if named and named[1] in _primitives() else ""


def _type(aval: Any) -> list:
    """Return a type as ``["float64", [3, 4]]``; the type of random keys is ``key<fry>``."""
    return [str(aval.dtype), [int(length) for length in aval.shape]]


def _array(value: Any, aval: Any, arrays: list[np.ndarray]) -> int:
    """Append `value` to `arrays` as an array; return its index."""
    import jax

    if str(aval.dtype).startswith("key<"):
        array = np.asarray(jax.random.key_data(value))
    else:
        array = np.asarray(value, aval.dtype)
    if not is_number_type(array.dtype):
        raise NotAProgram(f"an array of {array.dtype}")
    arrays.append(array)
    return len(arrays) - 1


def _write(value: Any, arrays: list[np.ndarray]) -> Any:
    """Return a parameter as JSON. Raises NotAProgram, naming its type."""
    if value is None or isinstance(value, bool | str) or type(value) in (int, float):
        return value
    if isinstance(value, np.integer | np.floating | np.bool_):
        return value.item()
    if isinstance(value, enum.Enum):
        return {"enum": [type(value).__name__, value.name]}
    if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
        kind = "closed" if hasattr(value, "jaxpr") else "open"
        return {kind: describe(value, arrays)}
    if isinstance(value, tuple) and hasattr(value, "tag") and hasattr(value, "fold_in"):
        return {"generator": value.tag}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"named": [type(value).__name__, [_write(item, arrays) for item in value]]}
    if isinstance(value, list | tuple):
        return {"tuple": [_write(item, arrays) for item in value]}
    try:
        return {"dtype": np.dtype(value).name}
    except TypeError:
        raise NotAProgram(f"a value of type {type(value).__name__}") from None


# -- reading -------------------------------------------------------------------------------------


def rebuild(described: Any, arrays: Sequence[np.ndarray]) -> Any:
    """Rebuild the closed jaxpr that :func:`describe` described.

    Raises ProtocolError if the program exceeds a limit, and other exceptions if the description is
    malformed or breaks JAX's rules.
    """
    return _Reader(arrays).closed(described)


class _Reader:
    """Reader of one description that also counts its operations."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        if sum(array.size for array in arrays) > MOST_CONSTANTS:
            raise ProtocolError("a program with more constants than operations need")
        self.arrays = arrays
        self.operations = 0

    def closed(self, described: Any) -> Any:
        import jax

        as_type: Callable = jax.ShapeDtypeStruct
        types = [as_type(tuple(shape), _dtype(name)) for name, shape in described["in"]]
        return jax.make_jaxpr(self._function(described))(*types)

    def _function(self, described: dict) -> Callable:
        """Return a function that applies the operations and returns a flat list of results."""
        constants = [self._value(kind, number) for kind, number in described["constants"]]
        steps = [
            (self._operation(name, parameters), [self._operand(one) for one in operands])
            for name, operands, parameters in described["equations"]
        ]
        out = [self._operand(one) for one in described["out"]]

        def run(*arguments: Any) -> list:
            values = [*constants, *arguments]

            def given(operands: list) -> list:
                return [values[one] if type(one) is int else one for one in operands]

            for operation, operands in steps:
                values += operation(*given(operands))
            return given(out)

        return run

    def _operand(self, described: Any) -> Any:
        if type(described) is int and described >= 0:
            return described
        return self._value(described["type"], described["value"])

    def _value(self, kind: Any, number: Any) -> Any:
        import jax

        if type(number) is not int or number < 0:
            raise ValueError
        array, (name, shape) = self.arrays[number], kind
        if (generator := _generators().get(name)) is not None:
            return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=generator.name)
        return array.astype(name).reshape(tuple(shape))

    def _operation(self, name: str, parameters: dict) -> Callable[..., Sequence]:
        """Return an operation as a function from operands to the list of its results."""
        import jax
        import jax.extend

        self.operations += 1
        if self.operations > MOST_OPERATIONS:
            raise ProtocolError("a program of too many operations")
        if name == PLACED:
            return lambda *operands: operands
        read = {str(key): self._read(value) for key, value in parameters.items()}
        if name == "jit":
            body = read["jaxpr"]
            closed = body if hasattr(body, "jaxpr") else jax.extend.core.ClosedJaxpr(body, ())
            return jax.jit(jax.extend.core.jaxpr_as_fun(closed))
        if name == REDUCE:
            read[FUNCTION] = jax.extend.core.jaxpr_as_fun(read["jaxpr"])
        primitive = _primitives()[name]

        def operation(*operands: Any) -> Sequence:
            result = primitive.bind(*operands, **read)
            return result if primitive.multiple_results else [result]

        return operation

    def _read(self, value: Any) -> Any:
        """Return the parameter that :func:`_write` wrote."""
        import jax

        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "tuple":
            return tuple(map(self._read, content))
        if kind == "dtype":
            return np.dtype(content)
        if kind == "generator":
            return _generators()[f"key<{content}>"]
        if kind == "closed":
            return self.closed(content)
        if kind == "open":
            made = self.closed(content)
            if made.consts:
                raise ProtocolError("a malformed program")
            return made.jaxpr
        known = getattr(jax.lax, content[0])
        if kind == "enum" and issubclass(known, enum.Enum):
            return known[content[1]]
        if kind == "named" and issubclass(known, tuple) and hasattr(known, "_fields"):
            return known(*map(self._read, content[1]))
        raise ValueError


def _dtype(name: str) -> Any:
    import jax

    generator = _generators().get(name)
    return np.dtype(name) if generator is None else jax.random.key(0, impl=generator.name).dtype


@cache
def _generators() -> dict[str, Any]:
    """Return JAX's random number generators by the dtype of their keys."""
    import jax.extend.random as known

    return {
        f"key<{one.tag}>": one
        for one in (known.threefry_prng_impl, known.rbg_prng_impl, known.unsafe_rbg_prng_impl)
    }


@cache
def _primitives() -> dict[str, Any]:
    """Return JAX's primitives by name, without those that call or leave the program."""
    import jax
    import jax.extend

    def keys(data: Any) -> Any:
        key = jax.random.wrap_key_data(data)
        clone: Callable = jax.random.clone
        return jax.random.key_data(clone(key))

    # Primitives without a public name are found by tracing code that uses them.
    met = jax.make_jaxpr(keys)(np.zeros(2, np.uint32)).eqns
    listed = [
        *vars(jax.extend.core.primitives).values(),
        *vars(jax.lax).values(),
        *(equation.primitive for equation in met),
    ]
    left_out = ("callback", "ffi", "feed", "call", "custom", "token", "print")
    return {
        one.name: one
        for one in listed
        if isinstance(one, jax.extend.core.Primitive)
        and not any(word in one.name for word in left_out)
    }
