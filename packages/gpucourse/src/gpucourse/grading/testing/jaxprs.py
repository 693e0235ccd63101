"""What a JAX function is made of: the operations that tracing it records.

JAX calls a function once with stand-ins for its array arguments and writes down each operation
that they go through, a *jaxpr*. Loops of Python are unrolled in it, loops of JAX are not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def traced(function: Callable, args: Sequence, static: Sequence[int]) -> tuple[Any, Any]:
    """The closed jaxpr of ``function(*args)``, and its result with shapes in place of arrays.

    `static` are the positions of arguments that stay Python values, as in
    ``jax.jit(static_argnums=…)``; of the others only type and shape matter.
    """
    import jax

    __tracebackhide__ = True
    return jax.make_jaxpr(function, static_argnums=tuple(static), return_shape=True)(*args)


def operations(closed: Any, elements: str = "") -> Counter[str]:
    """How often each primitive occurs in a closed jaxpr, inner jaxprs included.

    With `elements`: how many elements it gives, in one turn of a loop ("turn") or in all ("all").
    Of a turn, what is done for all at once counts for all, and what is done for one after the other
    counts for one. A scan says how many turns it makes; a while loop is taken for two, the fewest
    for which anybody needs a loop.
    """
    counted: Counter[str] = Counter()
    open_ = [(closed.jaxpr, 1)]
    while open_:
        jaxpr, times = open_.pop()
        for equation in jaxpr.eqns:
            name, params = equation.primitive.name, equation.params
            counted[name] += times * sum(
                math.prod(variable.aval.shape) for variable in equation.outvars
            ) if elements else 1
            turns = {"scan": params.get("length"), "while": 2}.get(name, 1)
            turns = times * turns if elements == "all" else 1
            open_ += ((inner, turns) for inner in _inner(list(params.values())))
    return counted


def _inner(value: Any) -> list:
    """The jaxprs among the parameters of an operation: loops, branches and calls have some."""
    if isinstance(value, (list, tuple)):
        return [jaxpr for item in value for jaxpr in _inner(item)]
    value = getattr(value, "jaxpr", value)  # a closed jaxpr holds one
    return [value] if hasattr(value, "eqns") else []


def without_jax(value: Any) -> Any:
    """`value` with JAX arrays as NumPy arrays, in lists, tuples and dicts too.

    Keys made by ``jax.random.key`` are no numbers and stay what they are.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(map(without_jax, value)) if type(value) in (list, tuple) else value
    if type(value) is dict:
        return {key: without_jax(item) for key, item in value.items()}
    if type(value).__module__.startswith("jaxlib") and hasattr(value, "addressable_shards"):
        return np.asarray(value)
    return value
