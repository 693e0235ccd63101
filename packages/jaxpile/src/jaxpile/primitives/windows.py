"""Windows that move over an array: pooling and convolutions, as reductions of a view."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpile.expressions import dims_of, divide, linear
from jaxpile.primitives.reductions import monoid, reduce
from jaxpile.registry import translates
from jaxpile.values import Value, cast, full, pad, pointwise, view


@translates("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def reduce_window(driver, equation, x):
    params = equation.params
    axes, sizes = len(x.shape), tuple(params["window_dimensions"])
    op, neutral = monoid(equation.primitive.name, x.dtype)
    x = padded(driver, x, neutral, params["padding"], params["base_dilation"])
    shape = tuple(equation.outvars[0].aval.shape)
    dims = dims_of((*shape, *sizes))
    steps, spread = params["window_strides"], params["window_dilation"]
    found = view(
        x,
        (*shape, *sizes),
        [
            linear([(dims[axis], steps[axis]), (dims[axes + axis], spread[axis])])
            for axis in range(axes)
        ],
    )
    return reduce(driver, found, list(range(axes, 2 * axes)), op, neutral)


def padded(driver, x: Value, filler, margins, dilation) -> Value:
    """Pad and dilate the array; expensive elements are computed once."""
    widths = [
        (int(low), int(high), int(apart) - 1)
        for (low, high), apart in zip(margins, dilation, strict=True)
    ]
    return pad(driver.cheap(x), full((), filler, x.dtype), widths)


@translates("conv_general_dilated")
def convolution(driver, equation, left, right):
    """Translate a convolution without flipping its kernel, with groups of features."""
    params, aval = equation.params, equation.outvars[0].aval
    if params["batch_group_count"] != 1:
        raise driver.refuse(equation, "batch_group_count other than 1")
    shape, dtype = tuple(aval.shape), np.dtype(aval.dtype)
    left_spec, right_spec, out_spec = params["dimension_numbers"]
    margins, dilation = [(0, 0)] * len(shape), [1] * len(shape)
    for k, axis in enumerate(left_spec[2:]):
        margins[axis], dilation[axis] = params["padding"][k], params["lhs_dilation"][k]
    left = padded(driver, cast(left, dtype), 0, margins, dilation)
    right = cast(driver.builder.materialise(right), dtype)
    channels = right.shape[right_spec[1]]
    window = [right.shape[axis] for axis in right_spec[2:]]
    each = right.shape[right_spec[0]] // params["feature_group_count"]
    dims = dims_of((*shape, channels, *window))
    batch, feature, *places = (dims[axis] for axis in out_spec)
    channel, *offsets = dims[len(shape) :]
    at_left: list = [None] * len(shape)
    at_right: list = [None] * len(shape)
    at_left[left_spec[0]], at_right[right_spec[0]] = batch, feature
    at_left[left_spec[1]] = linear([(divide(feature, each), channels), (channel, 1)])
    at_right[right_spec[1]] = channel
    for k, (place, offset) in enumerate(zip(places, offsets, strict=True)):
        at_left[left_spec[2 + k]] = linear(
            [(place, params["window_strides"][k]), (offset, params["rhs_dilation"][k])]
        )
        at_right[right_spec[2 + k]] = offset
    both = [
        view(x, (*shape, channels, *window), at) for x, at in ((left, at_left), (right, at_right))
    ]
    return reduce(
        driver,
        pointwise("mul", dtype, *both),
        list(range(len(shape), len(shape) + 1 + len(window))),
        "sum_add",
        0,
    )


@translates("select_and_scatter_add")
def select_and_scatter_add(driver, equation, source, operand):
    """Translate the gradient of pooling.

    Each number is added to the first largest element of its window.
    """
    params = equation.params
    largest = params["select_prim"].name == "ge"
    sizes, steps, margins = (
        params[name] for name in ("window_dimensions", "window_strides", "padding")
    )
    filler = monoid("_max" if largest else "_min", operand.dtype)[1]

    def scattered(source, operand):
        padded = lax.pad(
            operand, jnp.array(filler, operand.dtype), [(low, high, 0) for low, high in margins]
        )
        starts = [
            lax.broadcasted_iota(np.int32, source.shape, axis) * step
            for axis, step in enumerate(steps)
        ]
        offsets = np.indices(sizes, np.int32).reshape(len(sizes), -1)
        windows = padded[
            tuple(start[..., None] + offset for start, offset in zip(starts, offsets, strict=True))
        ]
        chosen = (jnp.argmax if largest else jnp.argmin)(windows, -1)
        places = tuple(
            start + jnp.asarray(offset)[chosen]
            for start, offset in zip(starts, offsets, strict=True)
        )
        total = jnp.zeros(padded.shape, source.dtype).at[places].add(source)
        return lax.pad(
            total, jnp.zeros((), total.dtype), [(-low, -high, 0) for low, high in margins]
        )

    return driver.traced(scattered, 0, source, operand)
