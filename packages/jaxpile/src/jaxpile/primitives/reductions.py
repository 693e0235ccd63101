"""Translators of reductions and running sums."""

from __future__ import annotations

import numpy as np

from jaxpile.errors import UnsupportedType
from jaxpile.expressions import (
    BOOL,
    INDEX,
    Expr,
    apply,
    const,
    dim,
    dims_of,
    flattened,
    index,
    linear,
    load,
    local,
    row_major,
    var,
)
from jaxpile.program import Loop, Nest, Set, Store
from jaxpile.registry import translates
from jaxpile.values import Value, full, reverse, view, whole

#: A sum of more elements than this is split into partial sums, which threads can share.
PARTS_FROM = 1 << 15
PARTS = 64
#: Rows of at least this length are added row by row instead of column by column.
ROW = 8


def lowest(dtype: np.dtype):
    if dtype.kind == "f":
        return -np.inf
    return False if dtype.kind == "b" else np.iinfo(dtype).min


def highest(dtype: np.dtype):
    if dtype.kind == "f":
        return np.inf
    return True if dtype.kind == "b" else np.iinfo(dtype).max


def monoid(name: str, dtype: np.dtype):
    """Return the operation and its neutral element."""
    kind = name.rpartition("_")[2]
    if dtype.kind == "c" and kind not in ("sum", "prod"):
        raise UnsupportedType(f"{kind!r} of complex numbers is not translated")
    if dtype.kind == "b" and kind in ("max", "min"):
        kind = {"max": "or", "min": "and"}[kind]
    everything = True if dtype.kind == "b" else np.array(-1).astype(dtype)
    if kind in ("sum", "prod"):
        return ("sum_add", 0) if kind == "sum" else ("sum_mul", 1)
    return {
        "max": ("max", lowest(dtype)),
        "min": ("min", highest(dtype)),
        "and": ("and", everything if dtype.kind != "f" else 1),
        "or": ("or", 0),
        "xor": ("xor", 0),
    }[kind]


@translates(
    "reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_xor"
)
def reduction(driver, equation, x):
    op, neutral = monoid(equation.primitive.name, x.dtype)
    return reduce(driver, x, sorted(a % len(x.shape) for a in equation.params["axes"]), op, neutral)


def reduce(driver, x: Value, axes: list[int], op: str, neutral) -> Value:
    """Reduce over the axes in an order that suits the memory."""
    builder = driver.builder
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    shape = tuple(x.shape[axis] for axis in kept)
    if not axes:
        return x
    if not x.size:
        return full(shape, neutral, x.dtype)
    if all(x.shape[axis] == 1 for axis in axes):
        # nothing to add to, so -0 remains -0, as in XLA
        dims = dict(zip(kept, dims_of(shape), strict=True))
        return view(x, shape, [dims.get(axis, index(0)) for axis in range(len(x.shape))])
    out = builder.buffer(shape, x.dtype)
    position = row_major(shape, dims_of(shape))
    start = const(neutral, x.dtype)
    if not shape and x.size >= PARTS_FROM:
        in_parts(builder, x, out, op, start)
        return whole(out)
    variables = {axis: var(builder.fresh("r"), 0, x.shape[axis]) for axis in axes}
    ranges = [x.shape[axis] for axis in axes]
    loops = [variables[axis] for axis in axes]
    places = dict(zip(kept, dims_of(shape), strict=True))
    rows = driver.target == "cpu" and kept and kept[-1] == len(x.shape) - 1 and shape[-1] >= ROW
    if rows:
        last = var(builder.fresh("j"), 0, shape[-1])
        outer = shape[:-1]
        at = {**dict(zip(kept, dims_of(outer), strict=False)), **variables, kept[-1]: last}
        position = row_major(shape, [*dims_of(outer), last])
        value = x.at([at[axis] for axis in range(len(x.shape))])
        step = Store(out, position, apply(op, x.dtype, load(out, position), value))
        body = [
            *builder.loops([Store(out, position, start)], [last], shape[-1:]),
            *builder.loops([step], [*loops, last], [*ranges, shape[-1]]),
        ]
        builder.nest(outer, body)
        return whole(out)
    at = {**places, **variables}
    value = x.at([at[axis] for axis in range(len(x.shape))])
    name = builder.fresh("s")
    total = local(name, x.dtype)
    body = [
        Set(name, start),
        *builder.loops([Set(name, apply(op, x.dtype, total, value))], loops, ranges),
        Store(out, position, total),
    ]
    builder.nest(shape, body)
    return whole(out)


@translates("reduce")
def reduce_by(driver, equation, *operands):
    """Reduce element by element with the program's own function of scalars (lax.reduce)."""
    builder, half = driver.builder, len(operands) // 2
    arrays, starts = operands[:half], operands[half:]
    axes = equation.params["dimensions"]
    kept = [axis for axis in range(len(arrays[0].shape)) if axis not in axes]
    shape = tuple(arrays[0].shape[axis] for axis in kept)
    if not arrays[0].size:
        return [Value(shape, start.dtype, start.expr) for start in starts]
    at = dict(zip(kept, dims_of(shape), strict=True))
    at |= {axis: var(builder.fresh("r"), 0, arrays[0].shape[axis]) for axis in axes}
    totals = [local(builder.fresh("s"), x.dtype) for x in arrays]
    elements = [x.at([at[axis] for axis in range(len(at))]) for x in arrays]
    with builder.block() as steps:
        results = driver.inline(
            equation.params["jaxpr"],
            [],
            [Value((), expr.dtype, expr) for expr in (*totals, *elements)],
        )
    if steps:
        raise driver.refuse(equation, "a function of arrays; only one of scalars, without loops")
    news = [local(builder.fresh("s"), x.dtype) for x in arrays]
    step = [
        *(Set(new.attr, result.expr) for new, result in zip(news, results, strict=True)),
        *(Set(total.attr, new) for total, new in zip(totals, news, strict=True)),
    ]
    outs = [builder.buffer(shape, x.dtype) for x in arrays]
    position = row_major(shape, dims_of(shape))
    builder.nest(
        shape,
        [
            *(Set(total.attr, start.expr) for total, start in zip(totals, starts, strict=True)),
            *builder.loops(step, [at[axis] for axis in axes], [arrays[0].shape[a] for a in axes]),
            *(Store(out, position, total) for out, total in zip(outs, totals, strict=True)),
        ],
    )
    return [whole(out) for out in outs]


def in_parts(builder, x: Value, out, op: str, start) -> None:
    """Reduce all elements to several partial results, and then reduce those."""
    flat = var(builder.fresh("r"), 0, x.size)
    value = flattened(x.expr, x.shape, flat, {})
    length, inner, inner_sizes = x.size, [], []
    if value is None:
        length = x.shape[0]
        flat = var(builder.fresh("r"), 0, length)
        inner_sizes = list(x.shape[1:])
        inner = [var(builder.fresh("r"), 0, size) for size in inner_sizes]
        value = x.at([flat, *inner])
    each = -(-length // PARTS)
    partial = builder.buffer((PARTS,), x.dtype)
    part = dim(0, 0, PARTS)
    name = builder.fresh("s")
    total = local(name, x.dtype)
    low = apply("min", INDEX, linear([(part, each)]), index(length))
    high = apply("min", INDEX, linear([(part, each)], each), index(length))
    step = builder.loops([Set(name, apply(op, x.dtype, total, value))], inner, inner_sizes)
    loop = Loop(flat, low, high, step) if length > 1 else None
    builder.nest(
        (PARTS,), [Set(name, start), *([loop] if loop else step), Store(partial, part, total)]
    )
    last, again = builder.fresh("s"), var(builder.fresh("r"), 0, PARTS)
    builder.emit(
        Nest(
            (),
            [
                Set(last, start),
                *builder.loops(
                    [Set(last, apply(op, x.dtype, local(last, x.dtype), load(partial, again)))],
                    [again],
                    [PARTS],
                ),
                Store(out, index(0), local(last, x.dtype)),
            ],
        )
    )


@translates("argmax", "argmin")
def arg_extreme(driver, equation, x):
    """Return the first index of the extreme value; a NaN counts as one."""
    (axis,), dtype = equation.params["axes"], np.dtype(equation.params["index_dtype"])
    builder = driver.builder
    kept = [a for a in range(len(x.shape)) if a != axis]
    shape = tuple(x.shape[a] for a in kept)
    if not x.size:
        return full(shape, 0, dtype)
    if dtype.kind == "f":
        raise driver.refuse(equation, "an index_dtype that is no integer")
    out = builder.buffer(shape, dtype)
    at = dict(zip(kept, dims_of(shape), strict=True))
    at[axis] = var(builder.fresh("r"), 0, x.shape[axis])
    value = x.at([at[a] for a in range(len(x.shape))])
    first = x.at([at[a] if a != axis else index(0) for a in range(len(x.shape))])
    best, where = builder.fresh("s"), builder.fresh("i")
    so_far, place = local(best, x.dtype), local(where, INDEX)
    better = apply("gt" if equation.primitive.name == "argmax" else "lt", BOOL, value, so_far)
    if x.dtype.kind == "f":
        news = apply(
            "and", BOOL, apply("ne", BOOL, value, value), apply("eq", BOOL, so_far, so_far)
        )
        better = apply("or", BOOL, better, news)
    found = builder.fresh("m")
    hit = local(found, BOOL)
    step = [
        Set(found, better),
        Set(where, apply("select", INDEX, hit, at[axis], place)),
        Set(best, apply("select", x.dtype, hit, value, so_far)),
    ]
    body = [
        Set(best, first),
        Set(where, index(0)),
        *builder.loops(step, [at[axis]], [x.shape[axis]]),
        Store(out, row_major(shape, dims_of(shape)), apply("cast", dtype, place)),
    ]
    builder.nest(shape, body)
    return whole(out)


def log_add(x: Expr, y: Expr) -> Expr:
    """Compute log(exp(x) + exp(y)) as the larger argument plus log1p of the rest.

    For two equal infinities, the result is that infinity.
    """
    kind = x.dtype
    high, low = apply("max", kind, x, y), apply("min", kind, x, y)
    rest = apply("log1p", kind, apply("exp", kind, apply("exact_sub", kind, low, high)))
    endless = apply("eq", BOOL, apply("abs", kind, high), const(np.inf, kind))
    return apply("select", kind, endless, high, apply("exact_add", kind, high, rest))


@translates("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def running(driver, equation, x):
    log = equation.primitive.name == "cumlogsumexp"
    op, neutral = monoid("_max" if log else f"_{equation.primitive.name[3:]}", x.dtype)
    # the order of additions is kept, and each sum is rounded
    op = {"sum_add": "add", "sum_mul": "mul"}.get(op, op)
    axis, backwards = equation.params["axis"], equation.params["reverse"]
    if not x.size:
        return x
    builder = driver.builder
    if backwards:
        x = reverse(x, (axis,))
    out = builder.buffer(x.shape, x.dtype)
    outer = tuple(size for a, size in enumerate(x.shape) if a != axis)
    at = list(dims_of(outer))
    at.insert(axis, var(builder.fresh("r"), 0, x.shape[axis]))
    name = builder.fresh("s")
    total = local(name, x.dtype)
    target = list(at)
    if backwards:
        target[axis] = linear([(at[axis], -1)], x.shape[axis] - 1)
    value = x.at(at)
    joined = log_add(total, value) if log else apply(op, x.dtype, total, value)
    step = [Set(name, joined), Store(out, row_major(x.shape, target), total)]
    builder.nest(
        outer,
        [Set(name, const(neutral, x.dtype)), *builder.loops(step, [at[axis]], [x.shape[axis]])],
    )
    return whole(out)
