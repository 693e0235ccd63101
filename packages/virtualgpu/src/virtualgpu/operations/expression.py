"""Expression language for the arithmetic of one lane, compiled for many lanes.

The body of an operation is a Python function of :class:`Value` objects, such as ``lambda a, b, c:
a * b + c``. Calling the body *builds* LLVM instructions, for sixteen lanes at a time or for one
(:mod:`.compiler`). So a whole PTX instruction, including flushes, roundings and clamps, is one
pass over memory. Measured on 16,384 lanes: ``a + b`` with the canonical NaN of a GPU costs 2.1 µs,
as much as ``np.add``; ``np.where`` costs 10 µs, and the compiled select 2.3 µs.

A kind is the type of a value: ``pred``, ``u8`` ... ``u128``, ``s8`` ... ``s128``, ``f32``,
``f64``. Both operands of an operator must have the same kind; a plain number on the right gets the
kind of the left. There are no implicit conversions: :meth:`Value.to` converts the number, and
:meth:`Value.view` keeps the bits. Integers wrap. Shift amounts must be within the width and
divisors must not be zero, so guard them with :func:`select`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from virtualgpu.operations.types import kind

PRED = "pred"
Number: TypeAlias = "Value | float"  # a plain number means this number in every lane
Body: TypeAlias = "Callable[..., Value]"
Results: TypeAlias = "Callable[..., Value | tuple[Value, ...]]"


def bits_of(kind: str) -> int:
    """Return the width of a kind in bits; a predicate has one bit."""
    return 1 if kind == PRED else int(kind[1:])


def is_float(kind: str) -> bool:
    return kind[0] == "f"


def is_signed(kind: str) -> bool:
    return kind[0] == "s"


def llvm_type(kind: str, lanes: int | None) -> ir.Type:
    """Return the LLVM type of a kind: a vector of ``lanes``, or a scalar for None."""
    if is_float(kind):
        scalar = ir.FloatType() if kind == "f32" else ir.DoubleType()
    else:
        scalar = ir.IntType(bits_of(kind))
    return scalar if lanes is None else ir.VectorType(scalar, lanes)


class Splat(ir.Constant):  # type: ignore[misc]  # llvmlite has no types
    """Vector of equal constants in LLVM's short form.

    A kernel of 500 instructions has many of them, and writing out 32 numbers for each took half
    the compile time.
    """

    def __init__(self, element: ir.Constant, lanes: int):
        self.type = ir.VectorType(element.type, lanes)
        self.constant, self.element = [element] * lanes, element

    def _get_reference(self) -> str:
        return f"splat ({self.element.type} {self.element.get_reference()})"

    def _to_string(self) -> str:
        return f"{self.type} {self.get_reference()}"


class Value:
    """One operand or intermediate result: an LLVM value and its kind."""

    __slots__ = ("_loose", "builder", "kind", "node")
    __hash__ = None  # type: ignore[assignment]  # `==` builds a comparison

    def __init__(
        self, builder: ir.IRBuilder, node: ir.Value, kind: str, loose: Value | None = None
    ):
        self.builder, self.node, self.kind, self._loose = builder, node, kind, loose

    @property
    def loose(self) -> Value:
        """Return the same number, but with unspecified bits if it is NaN.

        This is for operations that replace every NaN by their own. The value is ready before the
        bits of a NaN are determined, which takes half the time in a chain of additions.
        """
        return self if self._loose is None else self._loose

    @property
    def lanes(self) -> int | None:
        return self.node.type.count if isinstance(self.node.type, ir.VectorType) else None

    @property
    def known(self) -> int | None:
        """Return the integer that it is in every lane, if it is known at compile time."""
        node = self.node.element if isinstance(self.node, Splat) else self.node
        number = node.constant if isinstance(node, ir.Constant) else None
        return number if isinstance(number, int) else None

    @property
    def constant(self) -> float | None:
        """Return the float that it is in every lane, if it is known at compile time."""
        node = self.node.element if isinstance(self.node, Splat) else self.node
        number = node.constant if isinstance(node, ir.Constant) else None
        return number if isinstance(number, float) else None

    def number(self, value: float, kind: str | None = None) -> Value:
        """Return a plain number in every lane, by default of this value's kind."""
        kind = kind or self.kind
        if is_float(kind):
            value = float(value)
        elif kind == PRED:
            value = int(bool(value))
        else:
            value = int(value) & ((1 << bits_of(kind)) - 1)
        scalar = ir.Constant(llvm_type(kind, None), value)
        constant = scalar if self.lanes is None else Splat(scalar, self.lanes)
        return Value(self.builder, constant, kind)

    def _pair(self, other: Number) -> tuple[ir.Value, ir.Value]:
        if not isinstance(other, Value):
            other = self.number(other)
        if other.kind != self.kind:
            raise TypeError(f"{self.kind} meets {other.kind}: convert one with .to or .view")
        return self.node, other.node

    def _arithmetic(self, other: Number, integer: str | None, real: str | None) -> Value:
        name = real if is_float(self.kind) else integer
        if name is None:
            raise TypeError(f"no such operator on {self.kind}")
        return Value(self.builder, getattr(self.builder, name)(*self._pair(other)), self.kind)

    def _compare(self, operator: str, other: Number, unordered: bool = False) -> Value:
        left, right = self._pair(other)
        if is_float(self.kind):
            compare = self.builder.fcmp_unordered if unordered else self.builder.fcmp_ordered
        elif is_signed(self.kind):
            compare = self.builder.icmp_signed
        else:
            compare = self.builder.icmp_unsigned
        return Value(self.builder, compare(operator, left, right), PRED)

    def __add__(self, other: Number) -> Value:
        if type(other) is int and other == 0 and not is_float(self.kind):
            return self
        return self._arithmetic(other, "add", "fadd")

    def __sub__(self, other: Number) -> Value:
        return self._arithmetic(other, "sub", "fsub")

    def __mul__(self, other: Number) -> Value:
        return self._arithmetic(other, "mul", "fmul")

    def __truediv__(self, other: Number) -> Value:
        return self._arithmetic(other, None, "fdiv")

    def __floordiv__(self, other: Number) -> Value:
        """Return the integer quotient, rounded towards zero as in C."""
        return self._arithmetic(other, "sdiv" if is_signed(self.kind) else "udiv", None)

    def __mod__(self, other: Number) -> Value:
        """Return the integer remainder, with the sign of the dividend as in C."""
        return self._arithmetic(other, "srem" if is_signed(self.kind) else "urem", None)

    def __and__(self, other: Number) -> Value:
        return self._arithmetic(other, "and_", None)

    def __or__(self, other: Number) -> Value:
        return self._arithmetic(other, "or_", None)

    def __xor__(self, other: Number) -> Value:
        return self._arithmetic(other, "xor", None)

    def __lshift__(self, other: Number) -> Value:
        return self._arithmetic(other, "shl", None)

    def __rshift__(self, other: Number) -> Value:
        return self._arithmetic(other, "ashr" if is_signed(self.kind) else "lshr", None)

    def __invert__(self) -> Value:
        return self ^ -1 if self.kind != PRED else self ^ True

    def __neg__(self) -> Value:
        negate = self.builder.fneg if is_float(self.kind) else self.builder.neg
        return Value(self.builder, negate(self.node), self.kind)

    def __eq__(self, other: Number) -> Value:  # type: ignore[override]
        return self._compare("==", other)

    def __ne__(self, other: Number) -> Value:  # type: ignore[override]
        """Return True if the values differ or one is NaN, as in C."""
        return self._compare("!=", other, unordered=True)

    def __lt__(self, other: Number) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Number) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Number) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Number) -> Value:
        return self._compare(">=", other)

    def ordered(self, other: Number) -> Value:
        """Return True if neither value is NaN."""
        return self._compare("ord", other)

    def unordered(self, other: Number) -> Value:
        """Return True if one value, or both, is NaN."""
        return self._compare("uno", other, unordered=True)

    def view(self, kind: str) -> Value:
        """Return the same bits as another kind of the same width."""
        if bits_of(kind) != bits_of(self.kind):
            raise TypeError(f"{self.kind} and {kind} differ in width")
        node = self.builder.bitcast(self.node, llvm_type(kind, self.lanes))
        return Value(self.builder, node, kind)

    def to(self, kind: str) -> Value:
        """Convert the number to another kind.

        Integers are extended or truncated. Floats are rounded to nearest even, and floats outside
        an integer's range are clamped (NaN gives 0).
        """
        if kind == self.kind:
            return self
        have, want = is_float(self.kind), is_float(kind)
        if not have and not want and kind != PRED and (known := self.known) is not None:
            if is_signed(self.kind) and known >> (bits_of(self.kind) - 1):
                known -= 1 << bits_of(self.kind)
            return self.number(known, kind)
        if have and not want:
            return self._clamped_to(kind)
        if want:
            signed = is_signed(self.kind)
            convert = (
                ("fpext" if kind == "f64" else "fptrunc")
                if have
                else "sitofp"
                if signed
                else "uitofp"
            )
        elif bits_of(kind) == bits_of(self.kind):
            return self.view(kind)
        elif bits_of(kind) < bits_of(self.kind):
            convert = "trunc"
        else:
            convert = "sext" if is_signed(self.kind) else "zext"
        node = getattr(self.builder, convert)(self.node, llvm_type(kind, self.lanes))
        return Value(self.builder, node, kind)

    def _clamped_to(self, kind: str) -> Value:
        """Convert a float to an integer with clamping.

        LLVM's own saturating conversion works lane by lane: it takes 15 µs for 16,384 lanes, and
        this takes 3 µs.
        """
        width, signed = bits_of(kind), is_signed(kind)
        convert = self.builder.fptosi if signed else self.builder.fptoui
        # Undefined outside the integer's range; such lanes get another value below.
        inside = Value(self.builder, convert(self.node, llvm_type(kind, self.lanes)), kind)
        lowest, beyond = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
        result = select(self < beyond, inside, beyond - 1)
        result = select(self > lowest, result, lowest)
        return select(self != self, 0, result)


def adapt(value: Value, have: np.dtype, want: np.dtype) -> Value:
    """Convert the bits of a value held as ``have`` to an array element of ``want``.

    They are truncated or zero-extended.
    """
    if have == want:
        return value
    if have.kind == "b":
        return value.to(f"u{8 * want.itemsize}").view(kind(want))
    bits = value.view(f"u{8 * have.itemsize}").to(f"u{8 * want.itemsize}")
    return bits != 0 if want.kind == "b" else bits.view(kind(want))


def select(condition: Value, yes: Number, no: Number) -> Value:
    """Return ``yes`` in lanes where the predicate is true, else ``no``; both are computed."""
    like = yes if isinstance(yes, Value) else no
    assert isinstance(like, Value)
    yes = yes if isinstance(yes, Value) else like.number(yes)
    node = like.builder.select(condition.node, *yes._pair(no))
    return Value(like.builder, node, yes.kind)


def call(
    name: str, arguments: list[Value], kind: str | None = None, overloads: tuple[str, ...] = ()
) -> Value:
    """Call an LLVM intrinsic.

    ``overloads`` are the kinds in the intrinsic's name (by default, the kind of the first
    argument).
    """
    first = arguments[0]
    result = llvm_type(kind or first.kind, first.lanes)
    lanes = "" if first.lanes is None else f"v{first.lanes}"
    suffix = "".join(
        f".{lanes}{'f' if is_float(k) else 'i'}{bits_of(k)}" for k in overloads or (first.kind,)
    )
    module = first.builder.module
    function = module.globals.get(f"llvm.{name}{suffix}")
    if function is None:
        types = [argument.node.type for argument in arguments]
        function = ir.Function(module, ir.FunctionType(result, types), f"llvm.{name}{suffix}")
    node = first.builder.call(function, [argument.node for argument in arguments])
    return Value(first.builder, node, kind or first.kind)


def fma(a: Value, b: Value, c: Number) -> Value:
    """Return ``a * b + c`` with one rounding.

    LLVM uses the processor's instruction if there is one, and otherwise calls the C library's
    exact ``fma``.
    """
    return call("fma", [a, b, c if isinstance(c, Value) else a.number(c)])


def sqrt(x: Value) -> Value:
    """Return the square root, rounded to nearest even; NaN below zero."""
    return call("sqrt", [x])


def integral(x: Value, mode: str) -> Value:
    """Round a float to an integer: ``n`` to nearest even, ``z`` to zero, ``m`` down, ``p`` up."""
    return call({"n": "rint", "z": "trunc", "m": "floor", "p": "ceil"}[mode], [x])


def opaque(x: Value) -> Value:
    """Hide from LLVM that a float is a constant.

    LLVM would turn ``x * -1`` into ``-x`` and ``x * 1`` into ``x``, which have other NaN bits.
    """
    return call("arithmetic.fence", [x])


def count_ones(x: Value) -> Value:
    return call("ctpop", [x])


def leading_zeros(x: Value) -> Value:
    """Count the zeros above the highest one; the result for 0 is the full width."""
    never_poison = Value(x.builder, ir.Constant(ir.IntType(1), 0), PRED)
    return call("ctlz", [x, never_poison])


def reverse_bits(x: Value) -> Value:
    return call("bitreverse", [x])


def smaller(a: Value, b: Number) -> Value:
    """Return the lesser of two integers, or of two floats that are not NaN."""
    return select(a < b, a, b)


def larger(a: Value, b: Number) -> Value:
    """Return the greater of two integers, or of two floats that are not NaN."""
    return select(a > b, a, b)


def sign_bit(kind: str) -> int:
    """Return the sign bit of a float's encoding, as an unsigned integer of the same width."""
    return 1 << (bits_of(kind) - 1)


def magnitude(x: Value) -> Value:
    """Return the float with its sign bit cleared, NaN included."""
    unsigned = f"u{bits_of(x.kind)}"
    return (x.view(unsigned) & (sign_bit(x.kind) - 1)).view(x.kind)


def with_sign_of(x: Value, sign: Value) -> Value:
    """Return the magnitude of ``x`` with the sign bit of ``sign``."""
    unsigned, bit = f"u{bits_of(x.kind)}", sign_bit(x.kind)
    joined = (x.view(unsigned) & (bit - 1)) | (sign.view(unsigned) & bit)
    return joined.view(x.kind)


def is_finite(x: Value) -> Value:
    """Return True for a number that is neither infinite nor NaN."""
    return magnitude(x) < math.inf
