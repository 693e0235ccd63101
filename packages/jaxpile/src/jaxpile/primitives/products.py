"""Matrix products (dot_general) as loops."""

from __future__ import annotations

import numpy as np

from jaxpile.expressions import apply, const, dims_of, load, local, row_major, var
from jaxpile.program import Set, Store
from jaxpile.registry import translates
from jaxpile.values import cast, full, whole


@translates("dot_general")
def dot_general(driver, equation, left, right):
    (left_sum, right_sum), (left_batch, right_batch) = equation.params["dimension_numbers"]
    aval = equation.outvars[0].aval
    shape, dtype = tuple(aval.shape), np.dtype(aval.dtype)
    if dtype.kind == "b":
        raise driver.refuse(equation, "products of booleans; convert to integers first")
    builder = driver.builder
    sizes = [left.shape[axis] for axis in left_sum]
    if not np.prod(shape, dtype=int) or not np.prod(sizes, dtype=int):
        return full(shape, 0, dtype)
    # Each element is read many times, so both operands are put into memory first.
    left, right = (cast(builder.materialise(x), dtype) for x in (left, right))
    left_free = [a for a in range(len(left.shape)) if a not in (*left_sum, *left_batch)]
    right_free = [a for a in range(len(right.shape)) if a not in (*right_sum, *right_batch)]
    out = builder.buffer(shape, dtype)
    loops = [var(builder.fresh("r"), 0, size) for size in sizes]
    in_rows = driver.target == "cpu" and bool(right_free) and shape[-1] > 1
    outer = shape[:-1] if in_rows else shape
    dims = list(dims_of(outer))
    if in_rows:
        dims.append(var(builder.fresh("j"), 0, shape[-1]))

    def factor(x, batch, contracted, free, first):
        at = {axis: dims[k] for k, axis in enumerate(batch)}
        at |= dict(zip(contracted, loops, strict=True))
        at |= {axis: dims[first + k] for k, axis in enumerate(free)}
        return x.at([at[axis] for axis in range(len(x.shape))])

    product = apply(
        "mul",
        dtype,
        factor(left, left_batch, left_sum, left_free, len(left_batch)),
        factor(right, right_batch, right_sum, right_free, len(left_batch) + len(left_free)),
    )
    position = row_major(shape, dims)
    zero = const(0, dtype)
    if in_rows:
        # The loops write a row of the result at a time, so the inner one runs along memory without
        # a sum.
        last = dims[-1:]
        step = Store(out, position, apply("add", dtype, load(out, position), product))
        builder.nest(
            outer,
            [
                *builder.loops([Store(out, position, zero)], last, shape[-1:]),
                *builder.loops([step], [*loops, *last], [*sizes, shape[-1]]),
            ],
        )
    else:
        name = builder.fresh("s")
        total = local(name, dtype)
        builder.nest(
            outer,
            [
                Set(name, zero),
                *builder.loops([Set(name, apply("sum_add", dtype, total, product))], loops, sizes),
                Store(out, position, total),
            ],
        )
    return whole(out)
