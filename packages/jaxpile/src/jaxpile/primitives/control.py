"""Translators of calls, loops and branches."""

from __future__ import annotations

import jax
import numpy as np

from jaxpile.expressions import BOOL, apply, const, dims_of, linear, row_major, var
from jaxpile.primitives.reductions import reduce
from jaxpile.program import Branch, Repeat, While
from jaxpile.registry import translates
from jaxpile.values import Value, broadcast, full, pointwise, whole


@translates(
    "pjit",
    "jit",
    "closed_call",
    "core_call",
    "checkpoint",
    "remat",
    "remat2",
    "composite",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
    "custom_lin",
)
def call(driver, equation, *operands):
    """Translate the equations of an inner function in place."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if name in equation.params:
            return driver.inline(equation.params[name], [], operands)
    raise driver.refuse(equation, "it carries no jaxpr of what it calls")


def carries_for(driver, values) -> list:
    """Return buffers that hold the initial values of a loop's carries."""
    buffers = []
    for value in values:
        buffer = driver.builder.buffer(value.shape, value.dtype)
        driver.builder.store(buffer, value)
        buffers.append(buffer)
    return buffers


def at_level(buffers, level: int) -> None:
    """Allow the loop at that level to overwrite the buffers."""
    for buffer in buffers:
        buffer.level = level


def scan_parts(equation) -> tuple[int, int]:
    """Return the numbers of constants and carries among a scan's operands.

    JAX's parameters for them change from version to version. In the body, an array scanned row by
    row has one axis less than outside, and a carry has the same number of axes.
    """
    body = equation.params["jaxpr"].jaxpr
    carries = sum(
        outside.aval.ndim == inside.aval.ndim
        for outside, inside in zip(equation.outvars, body.outvars, strict=True)
    )
    rows = sum(
        outside.aval.ndim > inside.aval.ndim
        for outside, inside in zip(equation.invars, body.invars, strict=True)
    )
    return len(equation.invars) - carries - rows, carries


@translates("scan")
def scan(driver, equation, *operands):
    params, builder = equation.params, driver.builder
    consts, carried = scan_parts(equation)
    first = consts + carried
    length, body = params["length"], params["jaxpr"]
    fixed = [driver.cheap(value) for value in operands[:consts]]
    carries = carries_for(driver, operands[consts:first])
    rows = operands[first:]
    outs = [
        builder.buffer(v.aval.shape, np.dtype(a.dtype))
        for v, a in ((v, _stored(v)) for v in equation.outvars[carried:])
    ]
    outer = builder.levels[-1]
    if length:
        step = var(builder.fresh("t"), 0, length)
        now = linear([(step, -1)], length - 1) if params["reverse"] else step
        with builder.block() as steps:
            at_level(carries, builder.levels[-1])
            slices = [
                Value(row.shape[1:], row.dtype, row.at([now, *dims_of(row.shape[1:])]))
                for row in rows
            ]
            results = driver.inline(body, [], [*fixed, *map(whole, carries), *slices])
            for out, value in zip(outs, results[carried:], strict=True):
                where = row_major(out.shape, [now, *dims_of(value.shape)])
                builder.store(out, value, where)
            builder.assign(carries, results[:carried])
        builder.emit(Repeat(step, length, steps))
        at_level(carries, outer)
    return [whole(buffer) for buffer in (*carries, *outs)]


def _stored(variable):
    from jaxpile.driver import storage_dtype

    return np.empty(0, storage_dtype(variable.aval))


@translates("while")
def while_(driver, equation, *operands):
    params, builder = equation.params, driver.builder
    tests, bodies = params["cond_nconsts"], params["body_nconsts"]
    fixed = [driver.cheap(value) for value in operands[: tests + bodies]]
    carries = carries_for(driver, operands[tests + bodies :])
    going = builder.buffer((), BOOL)
    outer = builder.levels[-1]
    # The condition of a vmapped loop has a value for each element. The loop runs while any of them
    # is true, and changes only those elements.
    each = None
    with builder.block() as test:
        (answer,) = driver.inline(params["cond_jaxpr"], [], [*fixed[:tests], *map(whole, carries)])
        if answer.shape:
            answer = each = whole(builder.copied(answer))
            answer = reduce(driver, answer, list(range(len(answer.shape))), "or", False)
        builder.store(going, answer)
    with builder.block() as steps:
        at_level(carries, builder.levels[-1])
        results = driver.inline(params["body_jaxpr"], [], [*fixed[tests:], *map(whole, carries)])
        if each is not None:
            results = [
                _where(each, new, whole(old)) for new, old in zip(results, carries, strict=True)
            ]
        builder.assign(carries, results)
    at_level(carries, outer)
    builder.emit(While(test, going, steps))
    return [whole(buffer) for buffer in carries]


def _where(each: Value, new: Value, old: Value) -> Value:
    """Select the new values where the condition holds.

    The condition's axes are the first axes of the values.
    """
    answer = broadcast(each, new.shape, range(len(each.shape)))
    return pointwise("select", new.dtype, answer, new, old)


@translates("cond")
def cond(driver, equation, which, *operands):
    branches, builder = equation.params["branches"], driver.builder
    kind = np.dtype(np.int32)
    if which.dtype == BOOL:
        number = apply("cast", kind, which.expr)
    else:
        low, high = (const(end, which.dtype) for end in (0, len(branches) - 1))
        number = apply("min", which.dtype, apply("max", which.dtype, which.expr, low), high)
        number = apply("cast", kind, number)
    selector = builder.buffer((), kind)
    builder.store(selector, Value((), kind, number))
    outs = [builder.buffer(v.aval.shape, _stored(v).dtype) for v in equation.outvars]
    lists = []
    for branch in branches:
        with builder.block() as steps:
            for out, value in zip(outs, driver.inline(branch, [], operands), strict=True):
                builder.store(out, value)
        lists.append(steps)
    builder.emit(Branch(selector, lists))
    return [whole(out) for out in outs]


@translates("custom_linear_solve")
def custom_linear_solve(driver, equation, *operands):
    """Translate the solver in the equation; its other functions serve derivatives."""
    lengths, jaxprs = equation.params["const_lengths"], equation.params["jaxprs"]
    first = lengths.matvec + lengths.vecmat
    consts = operands[first : first + lengths.solve]
    return driver.inline(jaxprs.solve, [], [*consts, *operands[sum(lengths) :]])


@translates("platform_index")
def platform_index(driver, equation):
    """Choose the CPU's case of lax.platform_dependent, because results are on the CPU."""
    for number, platforms in enumerate(equation.params["platforms"]):
        if platforms is None or "cpu" in platforms:
            return full((), number, np.int32)
    raise driver.refuse(equation, "it has no case for the CPU")


@translates("call_hi_primitive")
def call_hi_primitive(driver, equation, *operands):
    """Translate JAX 0.12's compound primitives, such as searchsorted, into simpler ones."""
    definition = equation.params["_prim"]

    def function(*leaves):
        args = jax.tree.unflatten(definition.in_tree, leaves)
        return jax.tree.leaves(definition.expand(*args))

    return driver.traced(function, 0, *operands)
