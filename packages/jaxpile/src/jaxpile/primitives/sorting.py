"""Stable merge sort of row indices, and reads of the rows in that order."""

from __future__ import annotations

from jaxpile.expressions import (
    BOOL,
    INDEX,
    Expr,
    apply,
    const,
    dims_of,
    index,
    linear,
    load,
    local,
    row_major,
    var,
)
from jaxpile.primitives.elementwise import rank
from jaxpile.program import Nest, Set, Store, Until, When
from jaxpile.registry import translates
from jaxpile.values import Value, cast, cut, pointwise


def before(keys: list[tuple[Expr, Expr]]) -> Expr:
    """Return the condition that the first of each pair comes first.

    Keys are compared in order. NaN comes last, and -0 equals 0.
    """
    answer = const(False, BOOL)
    for x, y in reversed(keys):
        less, more = apply("lt", BOOL, x, y), apply("lt", BOOL, y, x)
        if x.dtype.kind == "f":
            nan_x, nan_y = apply("ne", BOOL, x, x), apply("ne", BOOL, y, y)
            less = apply("or", BOOL, less, apply("and", BOOL, nan_y, apply("not", BOOL, nan_x)))
            more = apply("or", BOOL, more, apply("and", BOOL, nan_x, apply("not", BOOL, nan_y)))
        answer = apply("or", BOOL, less, apply("and", BOOL, apply("not", BOOL, more), answer))
    return answer


@translates("sort")
def sort(driver, equation, *operands):
    axis, count = equation.params["dimension"], equation.params["num_keys"]
    return in_order(driver, operands, axis, count)


@translates("top_k")
def top_k(driver, equation, x):
    """Return the largest values along the last axis and their indices, by a stable sort."""
    axis = equation.params.get("axis", -1) % len(x.shape)
    shape = tuple(equation.outvars[0].aval.shape)
    key = pointwise("not", rank(x.expr).dtype, Value(x.shape, x.dtype, rank(x.expr)))
    places = cast(Value(x.shape, INDEX, dims_of(x.shape)[axis]), equation.outvars[1].aval.dtype)
    found = in_order(driver, [key, x, places], axis, 1)[1:]
    return [cut(value, [0] * len(shape), shape) for value in found]


def in_order(driver, operands, axis: int, count: int) -> list[Value]:
    """Sort the operands' rows along an axis by the first ``count`` operands."""
    builder, shape = driver.builder, operands[0].shape
    length = shape[axis]
    if length < 2 or not operands[0].size:
        return list(operands)
    rows = [builder.materialise(value) for value in operands]
    outer = tuple(size for a, size in enumerate(shape) if a != axis)
    # Each row keeps the order so far and the order being merged, and they take turns.
    order, merged = (builder.buffer((*outer, length), INDEX) for _ in range(2))
    dims = list(dims_of(outer))

    def place(at: Expr) -> Expr:
        return row_major((*outer, length), [*dims, at])

    def element(value: Value, at: Expr) -> Expr:
        return value.at([*dims[:axis], at, *dims[axis:]])

    names = {
        word: builder.fresh("w")
        for word in ("width", "start", "left", "right", "middle", "end", "out", "take")
    }

    def word(name: str) -> Expr:
        return local(names[name], BOOL if name == "take" else INDEX)

    def plus(x: Expr, y: Expr) -> Expr:
        return linear([(x, 1), (y, 1)])

    def put(name: str, value: Expr) -> Set:
        return Set(names[name], value)

    def lt(x: Expr, y: Expr) -> Expr:
        return apply("lt", BOOL, x, y)

    each, again = (var(builder.fresh("r"), 0, length) for _ in range(2))
    end = index(length)
    # a position may be one past the end, so the read is clamped to the row
    here = {
        side: load(order, place(apply("min", INDEX, word(side), index(length - 1))))
        for side in ("left", "right")
    }
    right_first = before(
        [(element(value, here["right"]), element(value, here["left"])) for value in rows[:count]]
    )
    more_left, more_right = lt(word("left"), word("middle")), lt(word("right"), word("end"))
    take_right = apply(
        "and", BOOL, more_right, apply("or", BOOL, apply("not", BOOL, more_left), right_first)
    )
    merge = [
        put("take", take_right),
        Store(
            merged,
            place(word("out")),
            apply("select", INDEX, word("take"), here["right"], here["left"]),
        ),
        put("out", linear([(word("out"), 1)], 1)),
        When(
            word("take"),
            [put("right", linear([(word("right"), 1)], 1))],
            [put("left", linear([(word("left"), 1)], 1))],
        ),
    ]
    runs = [
        put("left", word("start")),
        put("middle", apply("min", INDEX, plus(word("start"), word("width")), end)),
        put("right", word("middle")),
        put("end", apply("min", INDEX, linear([(word("start"), 1), (word("width"), 2)]), end)),
        Until(lt(word("out"), word("end")), merge),
        put("start", word("end")),
    ]
    body = [
        *builder.loops([Store(order, place(each), each)], [each], [length]),
        put("width", index(1)),
        Until(
            lt(word("width"), end),
            [
                put("start", index(0)),
                put("out", index(0)),
                Until(lt(word("start"), end), runs),
                *builder.loops(
                    [Store(order, place(again), load(merged, place(again)))], [again], [length]
                ),
                put("width", linear([(word("width"), 2)])),
            ],
        ),
    ]
    builder.emit(Nest(tuple((0, size) for size in outer), body))
    full = dims_of(shape)
    rest = [d for a, d in enumerate(full) if a != axis]
    at = load(order, row_major((*outer, length), [*rest, full[axis]]))
    return [
        Value(shape, value.dtype, value.at([*full[:axis], at, *full[axis + 1 :]])) for value in rows
    ]
