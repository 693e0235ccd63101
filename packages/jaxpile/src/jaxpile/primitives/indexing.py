"""Translators of reads and writes at computed positions: gather and dynamic slices."""

from __future__ import annotations

import numpy as np

from jaxpile.expressions import (
    BOOL,
    INDEX,
    Expr,
    apply,
    clamp_index,
    const,
    dims_of,
    index,
    linear,
    row_major,
)
from jaxpile.registry import translates
from jaxpile.values import Value, view, whole


def as_index(expr: Expr) -> Expr:
    """Return a value from an array as an index."""
    return apply("cast", INDEX, expr)


def within(start: Expr, most: int) -> Expr:
    """Return the condition 0 <= start <= most."""
    return apply(
        "and", BOOL, apply("ge", BOOL, start, index(0)), apply("le", BOOL, start, index(most))
    )


def missing(dtype: np.dtype):
    """Return JAX's value for reads outside an array.

    It is NaN, the lowest integer, the highest unsigned integer, or True.
    """
    if dtype.kind in "fc":
        return np.nan
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


def mode_of(equation) -> str:
    """Return "clip", "fill" or "promise"."""
    name = str(equation.params["mode"]).rpartition(".")[2].lower()
    return {"fill_or_drop": "fill", "promise_in_bounds": "promise"}.get(name, name)


@translates("gather")
def gather(driver, equation, operand, indices):
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    shape = tuple(equation.outvars[0].aval.shape)
    dims = dims_of(shape)
    mode = mode_of(equation)
    if mode not in ("clip", "fill", "promise"):
        raise driver.refuse(equation, f"mode {mode!r}; use 'clip', 'fill' or 'promise_in_bounds'")
    dtype = operand.dtype
    given = equation.params.get("fill_value")
    filler = const(missing(dtype) if given is None else given, dtype)
    if not operand.size:
        return Value(shape, dtype, filler)
    if np.prod(shape) * 2 >= operand.size:
        operand = driver.cheap(operand)
    indices = driver.cheap(indices)
    batch = [d for axis, d in enumerate(dims) if axis not in numbers.offset_dims]
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    offsets = dict(
        zip(
            [a for a in range(len(operand.shape)) if a not in dropped],
            numbers.offset_dims,
            strict=True,
        )
    )
    at, inside = [], const(True, BOOL)
    for axis, (size, width) in enumerate(zip(operand.shape, sizes, strict=True)):
        parts = []
        if axis in numbers.start_index_map:
            column = index(numbers.start_index_map.index(axis))
            start = as_index(indices.at([*batch, column]))
            inside = apply("and", BOOL, inside, within(start, size - width))
            parts.append((clamp_index(start, 0, size - width), 1))
        if axis in numbers.operand_batching_dims:
            where = numbers.operand_batching_dims.index(axis)
            parts.append((batch[numbers.start_indices_batching_dims[where]], 1))
        if axis in offsets:
            parts.append((dims[offsets[axis]], 1))
        at.append(linear(parts))
    found = operand.at(at)
    if mode == "fill":
        found = apply("select", dtype, inside, found, filler)
    return Value(shape, dtype, found)


def starts_of(starts, shape, sizes) -> list[Expr]:
    """Return scalars as starts of a slice, clamped so that the slice is inside the array."""
    return [
        clamp_index(as_index(start.expr), 0, size - width)
        for start, size, width in zip(starts, shape, sizes, strict=True)
    ]


@translates("dynamic_slice")
def dynamic_slice(driver, equation, operand, *starts):
    sizes = tuple(equation.params["slice_sizes"])
    starts = [driver.cheap(start) for start in starts[: len(sizes)]]
    at = [
        linear([(d, 1), (start, 1)])
        for d, start in zip(dims_of(sizes), starts_of(starts, operand.shape, sizes), strict=True)
    ]
    return view(operand, sizes, at)


@translates("dynamic_update_slice")
def dynamic_update_slice(driver, equation, operand, update, *starts):
    beside = [update, *starts] if update.size > 1 else []
    buffer, beside = driver.owned(operand, beside)
    if beside:
        update, *starts = beside
    at = [
        linear([(d, 1), (start, 1)])
        for d, start in zip(
            dims_of(update.shape), starts_of(starts, operand.shape, update.shape), strict=True
        )
    ]
    driver.builder.store(buffer, update, row_major(operand.shape, at))
    return whole(buffer, operand.shape)
