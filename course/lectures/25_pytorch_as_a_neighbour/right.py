"""Right answers to the exercises of "PyTorch as a neighbour" in other styles than the lecture's."""

from __future__ import annotations

import math
from functools import cache

from numba import cuda

from wrong_answers import of_the_lecture, other_styles

LECTURE = "25_pytorch_as_a_neighbour"
RIGHT, right = other_styles(LECTURE)


@right("collect")
@cuda.jit
def striding_and_side_by_side(x, charge, g, by_x, by_charge):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        left = math.floor(x[i])
        of_x = of_charge = x[i] * 0
        for side in range(2):
            k = int(left) + side
            if k >= 0 and k < g.shape[0]:
                of_charge += g[k] * (1 - abs(x[i] - k))
                of_x += g[k] * (2 * side - 1)
        by_x[i], by_charge[i] = charge[i] * of_x, of_charge


@cuda.jit(device=True)
def slope_of(g, k):
    return g[k] if 0 <= k < g.size else g.dtype.type(0)


@right("collect")
@cuda.jit
def early_return_and_a_device_function(x, charge, g, by_x, by_charge):
    i = cuda.grid(1)
    if i >= len(x):
        return
    share, left = math.modf(x[i])
    if share < 0:
        share, left = share + 1, left - 1
    here, there = slope_of(g, int(left)), slope_of(g, int(left) + 1)
    by_charge[i] = here + share * (there - here)
    by_x[i] = charge[i] * (there - here)


@cache
def given():
    """The lecture's `collect`: with PyTorch its operator, which is made once."""
    return of_the_lecture(LECTURE, "collect")


def keeping_attributes(ctx, inputs, output):
    ctx.x, ctx.charge, _ = inputs


def by_attributes(ctx, g):
    return (*given()(ctx.x, ctx.charge, g), None)


right("rule", "kept as attributes")(keeping_attributes, by_attributes)


def keeping_in_another_order(ctx, inputs, output):
    x, charge, ctx.strips = inputs
    ctx.save_for_backward(charge, x)


def in_another_order(ctx, g):
    charge, x = ctx.saved_tensors
    slopes = given()(x, charge, g[:ctx.strips])
    return slopes[0], slopes[1], None


right("rule", "kept in another order, with the number of strips")(
    keeping_in_another_order, in_another_order)
