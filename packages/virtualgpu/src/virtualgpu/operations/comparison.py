"""Comparison and selection (PTX ISA 9.7.6 and 9.7.7), and testp (9.7.3.1).

For floats, ``eq ne lt le gt ge`` are false if either operand is NaN, and the same names with a
``u`` are true. ``num`` is true if neither is NaN, and ``nan`` if at least one is.
"""

from __future__ import annotations

import math

import numpy as np

from virtualgpu.operations.expression import Body, Results, Value, magnitude, select
from virtualgpu.operations.formats import DECODE, flush, halves, is_nan, join
from virtualgpu.operations.table import (
    BITS,
    INTEGERS,
    SIGNED,
    UNSIGNED,
    Form,
    Operation,
    kind_of,
    operation,
)

FLOATS = ("f32", "f64")
HALVES = ("f16", "bf16")
PAIRS = ("f16x2", "bf16x2")
ONES = {"f16": 0x3C00, "bf16": 0x3F80}
_ORDER = ("lt", "le", "gt", "ge")
_FLOAT_COMPARISONS = ("eq", "ne", *_ORDER, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_COMPARISONS = {
    **dict.fromkeys(BITS, ("eq", "ne")),
    **dict.fromkeys(SIGNED, ("eq", "ne", *_ORDER)),
    **dict.fromkeys(UNSIGNED, ("eq", "ne", *_ORDER, "lo", "ls", "hi", "hs")),
    **dict.fromkeys((*FLOATS, *HALVES, *PAIRS), _FLOAT_COMPARISONS),
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# Comparisons that one NumPy ufunc computes directly on the operands.
_NUMPY = {
    "eq": np.equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def compare(name: str, a: Value, b: Value) -> Value:
    """Apply a PTX comparison operator to two values of one kind."""
    name = _UNSIGNED_NAMES.get(name, name)
    if name == "num":
        return a.ordered(b)
    if name == "nan":
        return ~a.ordered(b)
    unordered = len(name) == 3
    return a._compare(_SIGNS[name[:2]], b, unordered)


def combine(name: str | None, t: Value, c: Value | None) -> Value:
    """Combine the result of a comparison with a predicate; with None, return it unchanged."""
    if name is None:
        return t
    assert c is not None
    return {"and": t & c, "or": t | c, "xor": t ^ c}[name]


def _comparison(form: Form) -> tuple[str, str | None, bool]:
    """Read ``.CmpOp{.BoolOp}{.ftz}`` and check it against the last type."""
    assert form.type is not None
    name = form.choice(*_COMPARISONS[form.type])
    return name, form.choice("and", "or", "xor", default=None), form.flag("ftz")


def _loader(kind: str, ftz: bool) -> Body:
    """Return the function that converts an operand of a type to a value to compare."""
    if kind in HALVES:
        decode = DECODE[kind]
        return (lambda x: _flushed_half(decode(x))) if ftz else decode
    return flush if ftz else lambda x: x


def _flushed_half(x: Value) -> Value:
    return select(magnitude(x) < 2.0**-14, 0, x)


@operation("setp", types=_COMPARISONS, section="9.7.6.2")
def setp(form: Form) -> Operation:
    """Build ``setp.CmpOp{.BoolOp}{.ftz}.type p[|q], a, b {, c}``.

    q is the opposite comparison. For packed halves, p is the result for the lower ones and q for
    the upper ones.
    """
    name, boolean, ftz = _comparison(form)
    kind = form.choice(*(("f32", *HALVES[:1], *PAIRS[:1]) if ftz else _COMPARISONS))
    form.end(3 if boolean else 2, form.destinations)
    if form.destinations not in (1, 2) or (kind in PAIRS and form.destinations != 2):
        form.end(form.sources, 2)
    if boolean is None and not ftz and form.destinations == 1 and kind not in HALVES:
        ufunc = _NUMPY.get(_UNSIGNED_NAMES.get(name, name))
        if name == "neu" or (name == "ne" and kind not in FLOATS):
            ufunc = np.not_equal
        if ufunc is not None:
            return form.plain(ufunc, [kind, kind], ["pred"])
    if kind in PAIRS:
        return form.compiled(
            _setp_pair(kind[:-2], name, boolean, ftz),
            [kind, kind, *["pred"] * bool(boolean)],
            ["pred", "pred"],
        )
    load = _loader(kind, ftz)

    def body(a: Value, b: Value, c: Value | None = None) -> Value | tuple[Value, Value]:
        t = compare(name, load(a), load(b))
        p = combine(boolean, t, c)
        return p if form.destinations == 1 else (p, combine(boolean, ~t, c))

    return form.compiled(
        body, [kind, kind, *["pred"] * bool(boolean)], ["pred"] * form.destinations
    )


def _setp_pair(kind: str, name: str, boolean: str | None, ftz: bool) -> Results:
    load = _loader(kind, ftz)

    def body(a: Value, b: Value, c: Value | None = None) -> tuple[Value, ...]:
        return tuple(
            combine(boolean, compare(name, load(x), load(y)), c)
            for x, y in zip(halves(a), halves(b), strict=True)
        )

    return body


@operation("set", types=_COMPARISONS, section="9.7.6.1")
def set_(form: Form) -> Operation:
    """Build ``set.CmpOp{.BoolOp}{.ftz}.dtype.stype d, a, b {, c}``.

    True is 1.0, or all ones for an integer type.
    """
    name, boolean, ftz = _comparison(form)
    kind = form.type
    assert kind is not None
    wanted: tuple[str, ...]
    if kind in HALVES:
        wanted = ("u16", "s16", "u32", "s32", kind)
    elif kind in PAIRS:
        wanted = ("u32", "s32", kind)
    else:
        wanted = ("u32", "s32", "f32")
    result = form.choice(*wanted)
    form.choice(*(("f32", *HALVES[:1], *PAIRS[:1]) if ftz else _COMPARISONS))
    form.end(3 if boolean else 2)
    load = _loader(kind.removesuffix("x2"), ftz)

    def truth(a: Value, b: Value, c: Value | None) -> Value:
        return combine(boolean, compare(name, load(a), load(b)), c)

    def body(a: Value, b: Value, c: Value | None = None) -> Value:
        if kind in PAIRS:
            one = ONES[kind[:-2]] if result == kind else 0xFFFF
            return join(
                *(
                    select(truth(x, y, c), x.number(one), 0)
                    for x, y in zip(halves(a), halves(b), strict=True)
                )
            ).view(kind_of(result))
        true = {"f32": 1.0, **ONES}.get(result, -1)
        return select(truth(a, b, c), a.number(true, kind_of(result)), 0)

    return form.compiled(body, [kind, kind, *["pred"] * bool(boolean)], [result])


@operation("selp", types=(*BITS, *INTEGERS, *FLOATS), section="9.7.6.3")
def selp(form: Form) -> Operation:
    """Build ``selp.type d, a, b, c``: a if the predicate c is true, else b."""
    kind = form.choice(*BITS, *INTEGERS, *FLOATS)
    form.end(3)
    return form.compiled(lambda a, b, c: select(c, a, b), [kind, kind, "pred"], [kind])


@operation("slct", types=("s32", "f32"), section="9.7.6.4")
def slct(form: Form) -> Operation:
    """Build ``slct{.ftz}.dtype.s32|f32 d, a, b, c``: a if c >= 0, else b (also for NaN)."""
    ftz = form.flag("ftz")
    kind = form.choice(*BITS, *INTEGERS, *FLOATS)
    sign = form.choice("f32") if ftz else form.choice("s32", "f32")
    form.end(3)

    def body(a: Value, b: Value, c: Value) -> Value:
        return select((flush(c) if ftz else c) >= 0, a, b)

    return form.compiled(body, [kind, kind, sign], [kind])


@operation("testp", types=FLOATS, section="9.7.3.1")
def testp(form: Form) -> Operation:
    """Build ``testp.op.type p, a``; zeros count as normal."""
    name = form.choice("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    kind = form.choice(*FLOATS)
    form.end(1)
    smallest = 2.0**-126 if kind == "f32" else 2.0**-1022

    def body(a: Value) -> Value:
        size = magnitude(a)
        return {
            "finite": lambda: size < math.inf,
            "infinite": lambda: size == math.inf,
            "number": lambda: ~is_nan(a),
            "notanumber": lambda: is_nan(a),
            "normal": lambda: ((size >= smallest) & (size < math.inf)) | (size == 0),
            "subnormal": lambda: (size > 0) & (size < smallest),
        }[name]()

    return form.compiled(body, [kind], ["pred"])
