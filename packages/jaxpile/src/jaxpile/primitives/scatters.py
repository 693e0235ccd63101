"""Scatters: updates written into a copy of the operand, or in place if it is not used later."""

from __future__ import annotations

import math

from jaxpile.expressions import (
    BOOL,
    apply,
    clamp_index,
    const,
    dims_of,
    linear,
    load,
    row_major,
    var,
)
from jaxpile.primitives.indexing import as_index, mode_of, within
from jaxpile.program import Nest, Store, When
from jaxpile.registry import translates
from jaxpile.values import whole

OPERATIONS = {
    "scatter": None,
    "scatter-add": "add",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
    "scatter-sub": "sub",
    "scatter_add": "add",
    "scatter_mul": "mul",
    "scatter_min": "min",
    "scatter_max": "max",
    "scatter_sub": "sub",
}


@translates(*OPERATIONS)
def scatter(driver, equation, operand, indices, updates):
    name, numbers = equation.primitive.name, equation.params["dimension_numbers"]
    mode = mode_of(equation)
    if mode not in ("clip", "fill", "promise"):
        raise driver.refuse(equation, f"mode {mode!r}; use 'clip', 'drop' or 'promise_in_bounds'")
    inner = equation.params.get("update_jaxpr")
    if name == "scatter" and inner is not None and inner.eqns:
        raise driver.refuse(
            equation,
            "a function applied to elements (x.at[i].apply); read them, apply it, and set them",
        )
    if not updates.size or not operand.size:
        return operand
    builder = driver.builder
    indices = driver.cheap(indices)
    buffer, (indices, updates) = driver.owned(operand, [indices, updates])
    window = list(numbers.update_window_dims)
    batch_axes = [a for a in range(len(updates.shape)) if a not in window]
    batches = math.prod(updates.shape[a] for a in batch_axes)
    # Updates of one window go to different positions. So do all updates if JAX declares them
    # unique.
    apart = batches == 1 or equation.params.get("unique_indices")
    if apart:
        dims = list(dims_of(updates.shape))
    else:
        dims = [var(builder.fresh("u"), 0, size) for size in updates.shape]
    batch = [dims[a] for a in batch_axes]
    dropped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    widths, offsets, left = [], {}, iter(window)
    for axis in range(len(operand.shape)):
        if axis in dropped:
            widths.append(1)
        else:
            offsets[axis] = next(left)
            widths.append(updates.shape[offsets[axis]])
    at, inside = [], const(True, BOOL)
    for axis, (size, width) in enumerate(zip(operand.shape, widths, strict=True)):
        parts = []
        if axis in numbers.scatter_dims_to_operand_dims:
            column = numbers.scatter_dims_to_operand_dims.index(axis)
            start = as_index(indices.at([*batch, linear([], column)]))
            if mode == "clip":
                start = clamp_index(start, 0, size - width)
            else:
                inside = apply("and", BOOL, inside, within(start, size - width))
            parts.append((start, 1))
        if axis in numbers.operand_batching_dims:
            where = numbers.operand_batching_dims.index(axis)
            parts.append((batch[numbers.scatter_indices_batching_dims[where]], 1))
        if axis in offsets:
            parts.append((dims[offsets[axis]], 1))
        at.append(linear(parts))
    position = row_major(operand.shape, at)
    value = updates.at(dims)
    if OPERATIONS[name]:
        operation = OPERATIONS[name]
        if operand.dtype == BOOL:
            operation = {"add": "or", "mul": "and", "min": "and", "max": "or"}[operation]
        value = apply(operation, operand.dtype, load(buffer, position), value)
    body: list = [Store(buffer, position, value)]
    if inside.op != "const":
        body = [When(inside, body)]
    elif not inside.attr:
        body = []
    if apart:
        builder.nest(updates.shape, body)
    else:
        order = [*batch_axes, *window]
        body = builder.loops(body, [dims[a] for a in order], [updates.shape[a] for a in order])
        builder.emit(Nest((), body))
    return whole(buffer, operand.shape)
