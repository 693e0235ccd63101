"""Builders of a warp's LLVM values (vectors, uniform values, masks), and access to the context."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
from llvmlite import ir

from virtualgpu.compilers.building import intrinsic
from virtualgpu.native.context import AT, LANES, WORD
from virtualgpu.operations.expression import Splat, Value, llvm_type

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
POINTER = ir.PointerType()
MASK = ir.VectorType(I1, LANES)
EVERYONE = ir.Constant(I32, 0xFFFF_FFFF)
IOTA = np.arange(LANES)


def constant_vector(numbers: Iterable[int], bits: int = 32) -> ir.Constant:
    """Return a constant vector of the numbers, with as many elements as there are numbers.

    32-bit elements serve as the order of a shuffle.
    """
    return _constant_vector(tuple(int(n) & ((1 << bits) - 1) for n in numbers), bits)


@cache
def _constant_vector(numbers: tuple[int, ...], bits: int) -> ir.Constant:
    """Return the cached constant, because formatting one takes 0.1 ms."""
    return ir.Constant(ir.VectorType(ir.IntType(bits), len(numbers)), list(numbers))


def splat(build: ir.IRBuilder, node: ir.Value, lanes: int = LANES) -> ir.Value:
    """Return a vector with one number in every lane."""
    if isinstance(node, ir.Constant):
        return Splat(node, lanes)
    vector = ir.VectorType(node.type, lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    one = build.insert_element(undefined, node, I32(0))
    return build.shuffle_vector(one, undefined, Splat(I32(0), lanes))


def spread(value: Value) -> Value:
    """Return the value with one element per lane."""
    if value.lanes is not None:
        return value
    return Value(value.builder, splat(value.builder, value.node), value.kind)


def together(values: list[Value]) -> list[Value]:
    """Return the values unchanged if all are uniform; otherwise give each one element per lane."""
    if all(value.lanes is None for value in values):
        return values
    return [spread(value) for value in values]


def bits_of_mask(build: ir.IRBuilder, predicate: ir.Value) -> ir.Value:
    """Return a predicate of 32 lanes as a word; lane 0 is the lowest bit."""
    return build.bitcast(predicate, I32)


def mask_of_bits(build: ir.IRBuilder, word: ir.Value) -> ir.Value:
    return build.bitcast(word, MASK)


def any_bits(build: ir.IRBuilder, node: ir.Value) -> ir.Value:
    """Return the bits that are set in some element of a vector of integers.

    Without AVX-512, this takes half as many instructions as converting each lane's condition to a
    bit.
    """
    of = node.type
    return intrinsic(
        build, f"llvm.vector.reduce.or.v{of.count}i{of.element.width}", of.element, [node]
    )


def alike(build: ir.IRBuilder, one: ir.Value, other: ir.Value) -> ir.Value:
    """Return the condition that two integer vectors are equal in all elements."""
    differing = any_bits(build, build.xor(one, other))
    return build.icmp_unsigned("==", differing, differing.type(0))


def first_lane(build: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """Return the number of the first lane of ``mask``."""
    return build.zext(build.cttz(mask, I1(0)), I64)


def out_of(build: ir.IRBuilder, far: ir.Value, span: ir.Value) -> ir.Value:
    """Return a negative number for each element of ``far`` that is at least ``span`` (< 2**63)."""
    last = splat(build, build.sub(span, I64(1)))
    return build.or_(far, build.sub(last, far))


def zero(kind: str, lanes: int | None) -> ir.Constant:
    number = 0.0 if kind[0] == "f" else 0
    scalar = ir.Constant(llvm_type(kind, None), number)
    return scalar if lanes is None else Splat(scalar, lanes)


class Context:
    """Words of the context, read and written by a kernel's code."""

    def __init__(self, build: ir.IRBuilder, pointer: ir.Value):
        self.build, self.pointer = build, pointer

    def at(self, field: str | int) -> ir.Value:
        word = AT[field] if isinstance(field, str) else field
        return self.build.gep(self.pointer, [I64(word * WORD)], source_etype=ir.IntType(8))

    def load(self, field: str | int) -> ir.Value:
        return self.build.load(self.at(field), typ=I64)

    def store(self, field: str | int, value: ir.Value) -> None:
        self.build.store(value, self.at(field))

    def word32(self, field: str) -> Value:
        """Return a field as a 32-bit register."""
        return Value(self.build, self.build.trunc(self.load(field), I32), "u32")


def pointer_to(build: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return build.inttoptr(address, POINTER)
