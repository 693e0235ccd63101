"""Translators of primitives that only move elements, into index arithmetic instead of loops."""

from __future__ import annotations

import numpy as np

from jaxpile import values
from jaxpile.expressions import dims_of
from jaxpile.registry import translates
from jaxpile.values import Value, cut, full

#: Number of uses from which an array with another last axis is copied.
OFTEN = 3


@translates("broadcast_in_dim")
def broadcast_in_dim(driver, equation, x, *_):
    shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
    if int(np.prod(shape)) > x.size:
        x = driver.cheap(x)
    return values.broadcast(x, shape, axes)


@translates("reshape")
def reshape(driver, equation, x, *_):
    if equation.params.get("dimensions") is not None:
        x = values.transpose(x, equation.params["dimensions"])
    found = values.reshape(x, equation.params["new_sizes"])
    if found is None:
        found = values.reshape(driver.builder.materialise(x), equation.params["new_sizes"])
    return found


@translates("squeeze")
def squeeze(driver, equation, x):
    axes = {axis % len(x.shape) for axis in equation.params["dimensions"]}
    shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
    dims = iter(dims_of(shape))
    return values.view(
        x,
        shape,
        [values.linear([], 0) if axis in axes else next(dims) for axis in range(len(x.shape))],
    )


@translates("expand_dims")
def expand_dims(driver, equation, x):
    axes = set(equation.params["dimensions"])
    shape = equation.outvars[0].aval.shape
    dims = dims_of(shape)
    return values.view(x, shape, [dims[a] for a in range(len(shape)) if a not in axes])


@translates("transpose")
def transpose(driver, equation, x):
    """Transpose, with a copy in memory if it is used often and moves the last axis.

    Loops with strides would miss the cache.
    """
    found = values.transpose(x, equation.params["permutation"])
    turned = equation.params["permutation"][-1:] != (len(x.shape) - 1,)
    if turned and driver.uses(equation.outvars[0]) >= OFTEN and min(x.shape) > 1:
        return driver.builder.materialise(found)
    return found


@translates("rev")
def rev(driver, equation, x):
    return values.reverse(x, equation.params["dimensions"])


@translates("slice")
def slice_(driver, equation, x):
    starts, steps = equation.params["start_indices"], equation.params["strides"]
    return cut(x, starts, equation.outvars[0].aval.shape, steps)


@translates("split")
def split(driver, equation, x):
    axis, start, parts = equation.params["axis"], 0, []
    x = driver.cheap(x)
    for size in equation.params["sizes"]:
        starts, sizes = [0] * len(x.shape), list(x.shape)
        starts[axis], sizes[axis] = start, size
        parts.append(cut(x, starts, sizes))
        start += size
    return parts


@translates("concatenate")
def concatenate(driver, equation, *operands):
    return values.concatenate(operands, equation.params["dimension"])


@translates("pad")
def pad(driver, equation, x, filler):
    widths = [tuple(map(int, width)) for width in equation.params["padding_config"]]
    return values.pad(x, filler, widths)


@translates("iota")
def iota(driver, equation, *_):
    shape, dtype = tuple(equation.params["shape"]), np.dtype(equation.params["dtype"])
    if not all(shape):
        return full(shape, 0, dtype)
    at = dims_of(shape)[equation.params["dimension"]]
    return values.cast(Value(shape, at.dtype, at), dtype)


@translates("empty", "empty2")
def empty(driver, equation, *_):
    """Return memory to be written, which holds zeros, as in XLA's CPU code."""
    return full(equation.params.get("shape", ()), 0, equation.params["dtype"])


@translates("tile")
def tile(driver, equation, x):
    shape = equation.outvars[0].aval.shape
    return values.view(
        x,
        shape,
        [
            values.modulo(d, size) if size else d
            for d, size in zip(dims_of(shape), x.shape, strict=True)
        ],
    )


@translates("stack")
def stack(driver, equation, *operands):
    axis = equation.params["axis"]
    shape = list(operands[0].shape)
    shape.insert(axis, 1)
    dims = list(dims_of(shape))
    del dims[axis]
    return values.concatenate([values.view(x, shape, dims) for x in operands], axis)


@translates("unstack")
def unstack(driver, equation, x):
    axis = equation.params["axis"] % len(x.shape)
    x = driver.cheap(x)
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    parts = []
    for k in range(x.shape[axis]):
        indices = list(dims_of(shape))
        indices.insert(axis, values.linear([], k))
        parts.append(values.view(x, shape, indices))
    return parts
