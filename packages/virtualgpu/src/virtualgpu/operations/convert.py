"""cvt between integers and floats (PTX ISA 9.7.9.21). Packed forms are in :mod:`.pack`.

Float to integer clamps to the destination's range. NaN gives 0, except that from f64, or to a
64-bit integer, only the highest bit of the result is set (9.7.9.21, "Integer Notes"). Float to
float and integer to float round once, in any of the four modes.
"""

from __future__ import annotations

from virtualgpu.operations.expression import (
    Value,
    bits_of,
    integral,
    is_signed,
    larger,
    select,
    smaller,
)
from virtualgpu.operations.formats import (
    DECODE,
    ENCODE,
    canonical,
    clamp_negative,
    converted,
    flush,
    inherited,
    is_nan,
    odd_f32,
    round_to_odd,
    saturate,
    two_sum,
)
from virtualgpu.operations.pack import PACKED_SOURCES, limited, packed_form
from virtualgpu.operations.rounding import MODES, directed, narrow
from virtualgpu.operations.table import Form, Operation, kind_of, operation

INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
FLOATS = ("bf16", "f16", "f32", "f64")
INTEGER_MODES = ("rni", "rzi", "rmi", "rpi")
_WIDTH = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}


def load(x: Value, kind: str, ftz: bool) -> Value:
    """Return a float operand as f32 or f64.

    A NaN of f16 becomes the canonical NaN of f32; a NaN of bf16 keeps its bits.
    """
    if kind in DECODE:
        return canonical(DECODE[kind](x)) if kind == "f16" else DECODE[kind](x)
    return flush(x, "f32") if ftz else x


def to_half(x: Value, kind: str, mode: str) -> Value:
    """Round f32 or f64 to the bits of f16 or bf16, once, with mode ``n``, ``z``, ``m`` or ``p``."""
    nearest = ENCODE[kind](odd_f32(x) if x.kind == "f64" else x)
    back = DECODE[kind](nearest).to(x.kind)
    return directed(nearest, x > back, x < back, mode)


def to_float(x: Value, kind: str, mode: str) -> Value:
    """Convert f32 or f64 to another float type with one rounding; f16 and bf16 as bits."""
    if kind in ENCODE:
        return to_half(x, kind, mode)
    if kind == "f32" and x.kind == "f64":
        return narrow(x, None, mode)
    return x.to(kind)


def from_integer(x: Value, kind: str, mode: str) -> Value:
    """Convert an integer to a float type with one rounding."""
    if mode == "n" and kind not in ENCODE:
        return x.to(kind)
    if bits_of(x.kind) <= 32:
        return to_float(x.to("f64"), kind, mode)
    upper, lower = (x >> 32).to("f64") * 2.0**32, (x & 0xFFFFFFFF).to("f64")
    total, error = two_sum(upper, lower)
    if kind == "f64":
        return directed(total.view("u64"), error > 0, error < 0, mode).view("f64")
    if kind == "f32":
        return narrow(total, error, mode)
    return to_half(round_to_odd(total, error), kind, mode)


def to_integer(x: Value, kind: str, source: str) -> Value:
    """Convert an integral f32 or f64 to an integer type, with clamping."""
    result = x.to(kind)
    if source == "f64" or bits_of(kind) == 64:
        return select(is_nan(x), 1 << (bits_of(kind) - 1), result)
    return result


def between_integers(x: Value, kind: str, sat: bool) -> Value:
    """Truncate or extend to ``kind``; with ``sat``, clamp to its range first."""
    if sat:
        width = bits_of(kind)
        signed = is_signed(kind)
        lowest, highest = (
            (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        )
        own = bits_of(x.kind)
        if is_signed(x.kind):
            if lowest > -(1 << (own - 1)):
                x = larger(x, x.number(lowest))
            if highest < (1 << (own - 1)) - 1:
                x = smaller(x, x.number(highest))
        elif highest < (1 << own) - 1:
            x = smaller(x, x.number(highest))
    return x.to(kind)


@operation("cvt", types=(*INTEGERS, *FLOATS, *PACKED_SOURCES), section="9.7.9.21")
def cvt(form: Form) -> Operation:
    """Build ``cvt{.rnd}{.ftz}{.sat}.dtype.atype d, a`` and the packed forms."""
    packed = packed_form(form)
    if packed is not None:
        return packed
    mode = form.choice(*MODES, *INTEGER_MODES, default=None)
    relu, satfinite = form.flag("relu"), form.flag("satfinite")
    ftz, sat = form.flag("ftz"), form.flag("sat")
    if relu or satfinite:
        to, source = form.choice("f16", "bf16"), form.choice("f32")
    else:
        to, source = form.choice(*INTEGERS, *FLOATS), form.choice(*INTEGERS, *FLOATS)
    form.end(1)
    if ftz and "f32" not in (to, source):
        raise form.unsupported("'.ftz' needs .f32 as one of the two types")
    _check_rounding(form, mode, to, source)

    def body(a: Value) -> Value:
        if source in INTEGERS:
            if to in INTEGERS:
                return between_integers(a, kind_of(to), sat)
            if sat:  # integers other than 0 and 1 saturate, and those two are exact in every format
                a = select(a <= 0, 0, select(a >= 1, 1, a))
            assert mode is not None  # _check_rounding ensures it
            return from_integer(a, to, mode[1])
        x = load(a, source, ftz)
        if mode in INTEGER_MODES:
            x = integral(x, mode[1])
        if to in INTEGERS:
            return to_integer(x, kind_of(to), source)
        if relu:
            x = clamp_negative(x)
        if satfinite:
            x = limited(x, to)
        if sat:
            x = saturate(x)
        result = to_float(x, to, mode[1] if mode in MODES else "n")
        if to == "f32" and ftz:
            result = flush(result)
        if source == "f64":
            return inherited(result, x) if to == source else converted(x, to, result)
        if to in ENCODE or (source == "bf16" and to == x.kind):
            return result
        return canonical(result) if to == x.kind else converted(x, to, result)

    return form.compiled(body, [source], [to])


def _check_rounding(form: Form, mode: str | None, to: str, source: str) -> None:
    """Check that a rounding mode is given exactly if the conversion may round."""
    allowed: tuple[str, ...] = ()
    if to in INTEGERS and source in INTEGERS:
        required = False
    elif to in INTEGERS:
        allowed, required = INTEGER_MODES, True
    elif source in INTEGERS:
        allowed, required = MODES, True
    elif to == source:
        allowed, required = INTEGER_MODES, False
    else:
        required = _WIDTH[to] <= _WIDTH[source]
        allowed = MODES if required else ()
    if (mode is None and required) or (mode is not None and mode not in allowed):
        wanted = ", ".join(f".{name}" for name in allowed) or "no rounding modifier"
        raise form.unsupported(f"a conversion from .{source} to .{to} needs {wanted}")
