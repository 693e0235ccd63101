"""sin, cos, lg2, ex2 and tanh (PTX ISA 9.7.3.18 to .22, 9.7.4.9 and .10).

On a GPU all of them are approximations from unpublished tables. Here each is computed in double
precision (:mod:`.elementary`) and rounded once. Arguments and results are reduced as on an H200 if
its results showed how (``tests/operations/h200``, whose test has the bounds): ``sin`` and ``cos``
use 25 binary places of the number of turns, and 16-bit results are truncated towards zero. A
program whose answer depends on the hardware's own error gets a different error here.
"""

from __future__ import annotations

import math

from virtualgpu.operations import elementary
from virtualgpu.operations.expression import (
    Value,
    integral,
    is_finite,
    magnitude,
    select,
    with_sign_of,
)
from virtualgpu.operations.floating import treated
from virtualgpu.operations.formats import (
    DECODE,
    ENCODE,
    flush,
    is_nan,
    odd_f32,
    on_halves,
)
from virtualgpu.operations.rounding import directed, multiply_f32
from virtualgpu.operations.table import Form, Operation, operation

_FUNCTIONS = {"lg2": elementary.log2, "ex2": elementary.exp2, "tanh": elementary.tanh}
_BEYOND = {"f16": 2.0**16, "bf16": 2.0**128}
_TURN_BITS = 25
_QUARTER = 1 << (_TURN_BITS - 2)
_TURNS = float.fromhex("0x1.45f306p-3")  # 1 / (2 pi) in f32, with which ptxas multiplies the angle


def _turned(a: Value, quarters: int) -> Value:
    """Return the sine (``quarters`` 0) or cosine (1) of an f32 as hardware computes it.

    The number of turns is the angle times 1 / (2 pi), both in f32 and truncated, with
    ``_TURN_BITS`` binary places. So large angles lose their places: from 2**22 turns on, every
    sine is 0. In every other quarter the places are inverted, not negated.
    """
    turns = magnitude(multiply_f32(a, a.number(_TURNS), "z")).to("f64")
    places = ((turns - integral(turns, "m")) * 2.0**_TURN_BITS).to("u32")
    quarter = (places >> (_TURN_BITS - 2)) + quarters
    places = places & (_QUARTER - 1)
    places = select((quarter & 1) == 0, places, places ^ (_QUARTER - 1))
    result = elementary.sine_of_turn(places.to("f64") * 2.0**-_TURN_BITS).to("f32")
    sign = (quarter & 2) << 30
    if not quarters:
        sign = sign ^ (a.view("u32") & 0x80000000)
    result = (result.view("u32") | sign).view("f32")
    return select(is_finite(a), result, math.nan)


def _single(form: Form, ftz: bool) -> Operation:
    function = _FUNCTIONS[form.opcode]

    def body(a: Value) -> Value:
        return function(a.to("f64")).to("f32")

    return form.compiled(treated(body, ftz=ftz), ["f32"], ["f32"])


def _cut(x: Value, kind: str) -> Value:
    """Truncate an f64 to f16 or bf16 towards zero.

    A number above the largest one by at least one unit becomes infinite.
    """
    bits = ENCODE[kind](odd_f32(x))
    back = DECODE[kind](bits).to("f64")
    finite = magnitude(x) < _BEYOND[kind]
    return directed(bits, finite & (x > back), finite & (x < back), "z")


def _ex2_of_places(x: Value) -> Value:
    """Return 2 to the power of a half, of which 23 binary places are used."""
    return elementary.exp2(integral(x * 2.0**23, "z") * 2.0**-23)


def _tanh_of_few(x: Value) -> Value:
    """Return tanh of a half; the smallest numbers are returned unchanged, the largest give 1."""
    size = magnitude(x)
    exact = select(size < 2.0**-8, x, elementary.tanh(x))
    return select(size < 8, exact, select(is_nan(x), x, with_sign_of(x.number(1), x)))


def _half(form: Form, kind: str, ftz: bool) -> Operation:
    """Build the operation on f16 or bf16, or on both halves of a pair of them."""
    function = _ex2_of_places if form.opcode == "ex2" else _tanh_of_few
    element = kind.removesuffix("x2")

    def one(a: Value) -> Value:
        x = DECODE[element](a)
        x = function((flush(x) if ftz else x).to("f64"))
        return _cut(flush(x, "f32") if ftz else x, element)

    return form.compiled(one if kind == element else on_halves(one), [kind], [kind])


@operation("sin", types=("f32",), section="9.7.3.18")
@operation("cos", types=("f32",), section="9.7.3.19")
@operation("lg2", types=("f32",), section="9.7.3.20")
def sin_cos_lg2(form: Form) -> Operation:
    """Build ``sin|cos|lg2.approx{.ftz}.f32 d, a``."""
    form.choice("approx")
    ftz = form.flag("ftz")
    form.choice("f32")
    form.end(1)
    if form.opcode == "lg2":
        return _single(form, ftz)
    quarters = int(form.opcode == "cos")
    return form.compiled(treated(lambda a: _turned(a, quarters), ftz=ftz), ["f32"], ["f32"])


@operation("ex2", types=("f32", "f16", "f16x2", "bf16", "bf16x2"), section="9.7.3.21")
def ex2(form: Form) -> Operation:
    """Build ``ex2.approx{.ftz}.f32 d, a`` and its f16, f16x2, bf16 and bf16x2 forms."""
    form.choice("approx")
    ftz = form.flag("ftz")
    kind = form.choice("f32", *(("bf16", "bf16x2") if ftz else ("f16", "f16x2")))
    form.end(1)
    return _single(form, ftz) if kind == "f32" else _half(form, kind, ftz)


@operation("tanh", types=("f32", "f16", "f16x2", "bf16", "bf16x2"), section="9.7.3.22")
def tanh(form: Form) -> Operation:
    """Build ``tanh.approx.type d, a``."""
    form.choice("approx")
    kind = form.choice("f32", "f16", "f16x2", "bf16", "bf16x2")
    form.end(1)
    return _single(form, False) if kind == "f32" else _half(form, kind, False)
