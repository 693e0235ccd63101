"""sin, cos, lg2, ex2 and tanh (PTX ISA 9.7.3.18 to .22, 9.7.4.9 and .10).

All are approximations on a GPU. Here each is computed by NumPy in double precision and rounded
once, so it is more accurate than the hardware and keeps every error bound that the ISA states;
a program whose answer depends on the hardware's own error will see another error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from virtualgpu.operations.expression import Value
from virtualgpu.operations.formats import (
    DECODE,
    ENCODE,
    canonical,
    flush,
    halves,
    join,
    odd_f32,
)
from virtualgpu.operations.table import Form, Operation, operation

_FUNCTIONS = {"sin": np.sin, "cos": np.cos, "lg2": np.log2, "ex2": np.exp2, "tanh": np.tanh}


def _single(form: Form, ftz: bool) -> Operation:
    function = _FUNCTIONS[form.opcode]

    def load(a: Value) -> Value:
        return (flush(a) if ftz else a).to("f64")

    def store(x: Value) -> Value:
        return canonical(flush(x.to("f32")) if ftz else x.to("f32"))
    before, after = form.function(load, ["f32"], ["f64"]), form.function(store, ["f64"], ["f32"])
    return form.plain(lambda a: after(function(before(a))), ["f32"], ["f32"])


def _half(form: Form, kind: str, ftz: bool) -> Operation:
    """On f16 or bf16, or on both halves of a pair of them."""
    function = _FUNCTIONS[form.opcode]
    element = kind.removesuffix("x2")

    def load(a: Value) -> Value:
        x = DECODE[element](a)
        return (flush(x) if ftz else x).to("f64")

    def store(x: Value) -> Value:
        x = odd_f32(x)
        return ENCODE[element](flush(x) if ftz else x)
    if kind == element:
        before, after = form.function(load, [kind], ["f64"]), form.function(store, ["f64"], [kind])
        return form.plain(lambda a: after(function(before(a))), [kind], [kind])
    split = form.function(lambda a: tuple(map(load, halves(a))), [kind], ["f64", "f64"])
    joined = form.function(lambda x, y: join(store(x), store(y)), ["f64", "f64"], [kind])

    def run(a: np.ndarray) -> Any:
        low, high = split(a)
        return joined(function(low), function(high))
    return form.plain(run, [kind], [kind])


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
