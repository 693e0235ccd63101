"""Tracing, counting and running jaxprs of JAX functions.

JAX calls a function once with placeholders for its array arguments and records each operation on
them as a *jaxpr*. The jaxpr contains Python loops unrolled, but JAX loops as one operation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Entry of :func:`operations` with `elements`: number of keys from which random numbers are drawn.
KEYS = "random_bits keys"


def traced(function: Callable, args: Sequence, static: Sequence[int]) -> tuple[Any, Any]:
    """Return the closed jaxpr of ``function(*args)``, and its result as shapes.

    `static` are the positions of arguments that stay Python values, as in
    ``jax.jit(static_argnums=…)``. Only the types and shapes of the others matter.
    """
    import jax

    __tracebackhide__ = True
    return jax.make_jaxpr(function, static_argnums=tuple(static), return_shape=True)(*args)


def operations(closed: Any, elements: str = "") -> Counter[str]:
    """Count each primitive in a closed jaxpr, inner jaxprs included.

    With `elements`, count the elements that each primitive produces, in one "iteration" of each
    loop or in "all" iterations. Within an iteration, an operation on a whole array counts all its
    elements. A scan states its number of iterations; a while loop is counted as two, the smallest
    number for which a loop is needed. :data:`KEYS` counts the keys from which random numbers are
    drawn.
    """
    counted: Counter[str] = Counter()
    open_ = [(closed.jaxpr, 1)]
    while open_:
        jaxpr, times = open_.pop()
        for equation in jaxpr.eqns:
            name, params = equation.primitive.name, equation.params
            counted[name] += (
                times * sum(math.prod(variable.aval.shape) for variable in equation.outvars)
                if elements
                else 1
            )
            if elements and name == "random_bits":
                counted[KEYS] += times * math.prod(equation.invars[0].aval.shape)
            iterations = {"scan": params.get("length"), "while": 2}.get(name, 1)
            iterations = times * iterations if elements == "all" else 1
            open_ += ((inner, iterations) for inner in _inner(list(params.values())))
    return counted


def run_by_jax(
    function: Callable, args: Sequence, static: Sequence[int], squeezed: float | None
) -> Any:
    """Return the result of a function that runs under ``jax.jit``.

    If `squeezed` is given, apply :func:`with_squeezed_numbers` first.
    """
    import jax
    from jax.extend.core import jaxpr_as_fun

    __tracebackhide__ = True
    if squeezed is None:
        return jax.jit(function, static_argnums=tuple(static))(*args)
    closed, shapes = traced(function, args, static)
    given = [value for number, value in enumerate(args) if number not in static]
    program = jax.jit(jaxpr_as_fun(with_squeezed_numbers(closed, squeezed)))
    results = program(*jax.tree.leaves(given))
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


# Primitives that call an inner jaxpr. Their purpose (compiling, derivatives, memory) does not
# change values.
CALLS = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "checkpoint",
    "remat",
    "remat2",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
)
BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")


def with_squeezed_numbers(closed: Any, low: float) -> Any:
    """Return a closed jaxpr that draws random numbers from a narrower range.

    They are from [low, low + 1/2) instead of [0, 1).
    """
    import jax
    from jax.extend.core import Literal

    def run(jaxpr: Any, constants: Sequence, *arguments: Any) -> list:
        known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

        def value(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            given = map(value, equation.invars)
            name, params, several = (
                equation.primitive.name,
                equation.params,
                equation.primitive.multiple_results,
            )
            if name in CALLS:
                body = next(params[key] for key in BODIES if key in params)
                results = run(getattr(body, "jaxpr", body), getattr(body, "consts", ()), *given)
            else:
                result = equation.primitive.bind(
                    *given, **{key: again(part) for key, part in params.items()}
                )
                results = result if several else [result]
            if name == "random_bits":
                # The highest bits determine the leading digits of a number.
                (drawn,) = results
                bits = np.iinfo(drawn.dtype).bits
                results = [(drawn >> 1) + drawn.dtype.type(int(low * 2.0**bits))]
            known.update(zip(equation.outvars, results, strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def again(part: Any) -> Any:
        if type(part) is tuple:
            return tuple(map(again, part))
        closed = hasattr(part, "jaxpr") and hasattr(part, "consts")
        return with_squeezed_numbers(part, low) if closed else part

    as_type: Callable = jax.ShapeDtypeStruct
    types = [as_type(aval.shape, aval.dtype) for aval in closed.in_avals]
    return jax.make_jaxpr(lambda *arguments: run(closed.jaxpr, closed.consts, *arguments))(*types)


def _inner(value: Any) -> list:
    """Return the jaxprs in an operation's parameters, which loops, branches and calls have."""
    if isinstance(value, (list, tuple)):
        return [jaxpr for item in value for jaxpr in _inner(item)]
    value = getattr(value, "jaxpr", value)  # a closed jaxpr contains one
    return [value] if hasattr(value, "eqns") else []


def without_jax(value: Any) -> Any:
    """Convert JAX arrays in `value` to NumPy arrays, also in lists, tuples and dicts.

    Keys made by ``jax.random.key`` are not numbers and do not change.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(map(without_jax, value)) if type(value) in (list, tuple) else value
    if type(value) is dict:
        return {key: without_jax(item) for key, item in value.items()}
    if type(value).__module__.startswith("jaxlib") and hasattr(value, "addressable_shards"):
        return np.asarray(value)
    return value
