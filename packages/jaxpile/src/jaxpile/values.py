"""Arrays as functions of their index, with views and elementwise operations on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxpile.expressions import (
    INDEX,
    Expr,
    apply,
    clamp_index,
    const,
    dims_of,
    divide,
    flattened,
    linear,
    load,
    modulo,
    ordered,
    piece,
    row_major,
    transform,
)
from jaxpile.program import Buffer


@dataclass(frozen=True)
class Value:
    """An array: its shape, its dtype, and the expression of the element at (dim 0, dim 1, …)."""

    shape: tuple[int, ...]
    dtype: np.dtype
    expr: Expr

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def at(self, indices: Sequence[Expr]) -> Expr:
        """Return the element at other indices, one for each axis."""
        change = dict(zip(dims_of(self.shape), indices, strict=True))
        change = {old: new for old, new in change.items() if old.op == "dim"}
        return transform(self.expr, change) if self.expr.moves else self.expr


def full(shape: Sequence[int], value, dtype) -> Value:
    return Value(tuple(shape), np.dtype(dtype), const(value, dtype))


def whole(buffer: Buffer, shape: tuple[int, ...] | None = None) -> Value:
    """Return the array that a buffer holds, in the given shape if there is one."""
    shape = buffer.shape if shape is None else shape
    return Value(shape, buffer.dtype, load(buffer, row_major(shape, dims_of(shape))))


def buffer_of(value: Value) -> Buffer | None:
    """Return the buffer whose entire contents, in order, are the value, or None."""
    if value.expr.op != "load" or value.expr.attr.size != value.size:
        return None
    return value.expr.attr if is_identity(value.expr, value.shape) else None


def is_identity(node: Expr, shape: Sequence[int]) -> bool:
    """Return True if a load reads, at each index of the shape, the element of that index."""
    return node.args[0] is row_major(shape, dims_of(shape))


def loads_of(expr: Expr, buffers) -> list[Expr]:
    """Return the loads below an expression that read one of the buffers."""
    if not any(read in buffers for read in expr.reads):
        return []
    return [node for node in ordered([expr]) if node.op == "load" and node.attr in buffers]


def pointwise(op: str, dtype, *values: Value, attr=None) -> Value:
    """Apply the operation to elements at equal indices; all values have the same shape."""
    expr = apply(op, np.dtype(dtype), *(value.expr for value in values), attr=attr)
    return Value(values[0].shape, expr.dtype, expr)


def cast(value: Value, dtype) -> Value:
    return pointwise("cast", dtype, value)


def view(value: Value, shape: Sequence[int], indices: Sequence[Expr]) -> Value:
    """Return a view in another shape; its element is the value's element at ``indices``."""
    return Value(tuple(shape), value.dtype, value.at(indices))


def transpose(value: Value, permutation: Sequence[int]) -> Value:
    shape = tuple(value.shape[axis] for axis in permutation)
    dims = dims_of(shape)
    return view(value, shape, [dims[list(permutation).index(a)] for a in range(len(shape))])


def broadcast(value: Value, shape: Sequence[int], axes: Sequence[int]) -> Value:
    """Broadcast so that axis k becomes ``axes[k]``; new axes and those of size 1 are repeated."""
    dims = dims_of(shape)
    return view(value, shape, [dims[axis] for axis in axes])


def cut(
    value: Value, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None
) -> Value:
    """Return a rectangular part, with every ``steps``-th element; sizes are the result's."""
    steps = steps or [1] * len(sizes)
    dims = dims_of(sizes)
    return view(
        value,
        sizes,
        [linear([(d, step)], start) for d, start, step in zip(dims, starts, steps, strict=True)],
    )


def reverse(value: Value, axes: Sequence[int]) -> Value:
    return view(
        value,
        value.shape,
        [
            linear([(d, -1)], value.shape[axis] - 1) if axis in axes else d
            for axis, d in enumerate(dims_of(value.shape))
        ],
    )


def reshape(value: Value, shape: Sequence[int]) -> Value | None:
    """Return the elements in row-major order in another shape.

    Return None if only a copy would be cheap.
    """
    shape = tuple(shape)
    if not value.size:
        return full(shape, 0, value.dtype)
    if not value.expr.moves:
        return Value(shape, value.dtype, value.expr)
    flat = row_major(shape, dims_of(shape))
    straight = flattened(value.expr, value.shape, flat, {})
    if straight is not None:
        return Value(shape, value.dtype, straight)
    indices, stride = [], value.size
    for size in value.shape:
        stride //= size
        indices.append(modulo(divide(flat, stride), size))
    found = view(value, shape, indices)
    before = set(ordered([value.expr]))
    divides = any(
        node.op in ("idiv", "imod") and node not in before for node in ordered([found.expr])
    )
    return None if divides else found


def concatenate(values: Sequence[Value], axis: int) -> Value:
    """Concatenate arrays along an axis; nests are split at the borders."""
    shape = list(values[0].shape)
    shape[axis] = sum(value.shape[axis] for value in values)
    values = [value for value in values if value.size] or list(values[:1])
    dims = list(dims_of(shape))
    start, borders, parts = 0, [], []
    for value in values:
        inside = list(dims)
        inside[axis] = clamp_index(linear([(dims[axis], 1)], -start), 0, value.shape[axis] - 1)
        parts.append(value.at(inside))
        start += value.shape[axis]
        borders.append(start)
    expr = parts[-1]
    for part, border in zip(parts[-2::-1], borders[-2::-1], strict=True):
        expr = piece(dims[axis], border, part, expr)
    return Value(tuple(shape), values[0].dtype, expr)


def pad(value: Value, filler: Value, widths: Sequence[tuple[int, int, int]]) -> Value:
    """Pad with margins (low, high, between elements), as lax.pad; negative margins cut off."""
    shape = tuple(
        low + high + size + max(size - 1, 0) * inner
        for size, (low, high, inner) in zip(value.shape, widths, strict=True)
    )
    if not value.size:
        return Value(shape, value.dtype, filler.expr)
    dims = dims_of(shape)
    indices = []
    for d, size, (low, _, inner) in zip(dims, value.shape, widths, strict=True):
        moved = clamp_index(linear([(d, 1)], -low), 0, (size - 1) * (inner + 1))
        indices.append(divide(moved, inner + 1))
    expr = value.at(indices)
    for d, size, (low, _, inner) in zip(dims, value.shape, widths, strict=True):
        if inner:
            moved = clamp_index(linear([(d, 1)], -low), 0, (size - 1) * (inner + 1))
            hit = apply("eq", np.dtype(bool), modulo(moved, inner + 1), const(0, INDEX))
            expr = apply("select", value.dtype, hit, expr, filler.expr)
        expr = piece(d, low + (size - 1) * (inner + 1) + 1, expr, filler.expr)
        expr = piece(d, low, filler.expr, expr)
    return Value(shape, value.dtype, expr)
