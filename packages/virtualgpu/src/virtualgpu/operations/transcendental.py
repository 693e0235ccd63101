"""sin, cos, lg2, ex2 and tanh (PTX ISA 9.7.3.18 to .22, 9.7.4.9 and .10).

All are approximations on a GPU. Here each is computed in double precision (:mod:`.elementary`) and
rounded once, so it is more accurate than the hardware and keeps every error bound that the ISA
states; a program whose answer depends on the hardware's own error will see another error.
"""

from __future__ import annotations

from virtualgpu.operations import elementary
from virtualgpu.operations.expression import Value
from virtualgpu.operations.formats import (
    DECODE,
    ENCODE,
    canonical,
    flush,
    odd_f32,
    on_halves,
)
from virtualgpu.operations.table import Form, Operation, operation

_FUNCTIONS = {"sin": elementary.sine, "cos": elementary.cosine, "lg2": elementary.log2,
              "ex2": elementary.exp2, "tanh": elementary.tanh}


def _single(form: Form, ftz: bool) -> Operation:
    function = _FUNCTIONS[form.opcode]

    def body(a: Value) -> Value:
        x = function((flush(a) if ftz else a).to("f64")).to("f32")
        return canonical(flush(x) if ftz else x)
    return form.compiled(body, ["f32"], ["f32"])


def _half(form: Form, kind: str, ftz: bool) -> Operation:
    """On f16 or bf16, or on both halves of a pair of them."""
    function = _FUNCTIONS[form.opcode]
    element = kind.removesuffix("x2")

    def one(a: Value) -> Value:
        x = DECODE[element](a)
        x = odd_f32(function((flush(x) if ftz else x).to("f64")))
        return ENCODE[element](flush(x) if ftz else x)

    return form.compiled(one if kind == element else on_halves(one), [kind], [kind])


@operation("sin", types=("f32",), section="9.7.3.18")
@operation("cos", types=("f32",), section="9.7.3.19")
@operation("lg2", types=("f32",), section="9.7.3.20")
def sin_cos_lg2(form: Form) -> Operation:
    """sin|cos|lg2.approx{.ftz}.f32 d, a"""
    form.choice("approx")
    ftz = form.flag("ftz")
    form.choice("f32")
    form.end(1)
    return _single(form, ftz)


@operation("ex2", types=("f32", "f16", "f16x2", "bf16", "bf16x2"), section="9.7.3.21")
def ex2(form: Form) -> Operation:
    """ex2.approx{.ftz}.f32 d, a; ex2.approx.f16|f16x2; ex2.approx.ftz.bf16|bf16x2."""
    form.choice("approx")
    ftz = form.flag("ftz")
    kind = form.choice("f32", *(("bf16", "bf16x2") if ftz else ("f16", "f16x2")))
    form.end(1)
    return _single(form, ftz) if kind == "f32" else _half(form, kind, ftz)


@operation("tanh", types=("f32", "f16", "f16x2", "bf16", "bf16x2"), section="9.7.3.22")
def tanh(form: Form) -> Operation:
    """tanh.approx.type d, a"""
    form.choice("approx")
    kind = form.choice("f32", "f16", "f16x2", "bf16", "bf16x2")
    form.end(1)
    return _single(form, False) if kind == "f32" else _half(form, kind, False)
