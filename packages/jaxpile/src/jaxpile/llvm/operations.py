"""Scalar operations as LLVM instructions.

Only two fast-math flags are set. ``contract`` on sums and products of the program allows a*b + c
with one rounding, as in XLA's CPU compiler. ``reassoc`` on the additions of a reduction is needed
because otherwise LLVM must add one number after another.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from jaxpile.expressions import BOOL, Expr

CONTRACT = ("contract",)
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
FLOAT_UNARY = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round_even": "roundeven",
    "round_away": "round",
}


def type_of(dtype: np.dtype) -> ir.Type:
    """Return the type of a value in a register; booleans are one bit, in memory a byte."""
    if dtype == BOOL:
        return ir.IntType(1)
    if dtype.kind in "iu":
        return ir.IntType(8 * dtype.itemsize)
    if dtype.kind == "c":
        return ir.LiteralStructType([type_of(np.dtype(f"float{4 * dtype.itemsize}"))] * 2)
    return ir.FloatType() if dtype.itemsize == 4 else ir.DoubleType()


def memory_type(dtype: np.dtype) -> ir.Type:
    return ir.IntType(8) if dtype == BOOL else type_of(dtype)


def constant(node: Expr) -> ir.Constant:
    kind = type_of(node.dtype)
    if node.dtype == BOOL:
        return ir.Constant(kind, int(bool(node.attr)))
    if node.dtype.kind == "c":
        return ir.Constant.literal_struct(
            [
                ir.Constant(kind.elements[0], float(part))
                for part in (node.attr.real, node.attr.imag)
            ]
        )
    return ir.Constant(kind, float(node.attr) if node.dtype.kind == "f" else int(node.attr))


def intrinsic(builder: ir.IRBuilder, name: str, result: ir.Type, *args):
    """Call an LLVM intrinsic or a C library function by its full name."""
    module = builder.module
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, [a.type for a in args]), name)
    return builder.call(function, args)


def suffix(dtype: np.dtype) -> str:
    kind = "f" if dtype.kind == "f" else "i"
    return f"{kind}{8 * dtype.itemsize if dtype != BOOL else 1}"


def emit(builder: ir.IRBuilder, node: Expr, args: list):
    """Emit the instruction for a node whose arguments are already LLVM values."""
    op, dtype = node.op, node.dtype
    source = node.args[0].dtype if node.args else dtype
    real = source.kind == "f"
    kind = type_of(dtype)
    if op in COMPARE:
        sign = COMPARE[op]
        if real:
            ordered = builder.fcmp_unordered if op == "ne" else builder.fcmp_ordered
            return ordered(sign, *args)
        unsigned = source.kind in "ub"
        return (builder.icmp_unsigned if unsigned else builder.icmp_signed)(sign, *args)
    if op in ("add", "sub", "mul", "exact_add", "exact_sub", "exact_mul", "sum_add", "sum_mul"):
        name = op.rpartition("_")[2]
        if not real:
            return getattr(builder, name)(*args)
        flags = () if op.startswith("exact") else CONTRACT
        flags = ("reassoc",) if op.startswith("sum") else flags
        return getattr(builder, "f" + name)(*args, flags=flags)
    match op:
        case "complex":
            first = builder.insert_value(ir.Constant(kind, ir.Undefined), args[0], 0)
            return builder.insert_value(first, args[1], 1)
        case "real" | "imag":
            return builder.extract_value(args[0], int(op == "imag"))
        case "select":
            return builder.select(*args)
        case "neg":
            return builder.fneg(*args) if real else builder.neg(*args)
        case "fma":
            return intrinsic(builder, f"llvm.fma.{suffix(dtype)}", kind, *args)
        case "copysign":
            return intrinsic(builder, f"llvm.copysign.{suffix(dtype)}", kind, *args)
        case "abs":
            if real:
                return intrinsic(builder, f"llvm.fabs.{suffix(dtype)}", kind, *args)
            if source.kind in "ub":
                return args[0]
            return intrinsic(
                builder, f"llvm.abs.{suffix(dtype)}", kind, args[0], ir.Constant(ir.IntType(1), 0)
            )
        case "max" | "min":
            # llvm.maximum keeps NaN and orders -0 below +0, as XLA does
            name = f"{op}imum" if real else ("u" if source.kind in "ub" else "s") + op
            return intrinsic(builder, f"llvm.{name}.{suffix(dtype)}", kind, *args)
        case "and":
            return builder.and_(*args)
        case "or":
            return builder.or_(*args)
        case "xor":
            return builder.xor(*args)
        case "not":
            return builder.not_(*args)
        case "shl" | "shr_l" | "shr_a":
            return shift(builder, op, dtype, *args)
        case "div" | "rem":
            return division(builder, op, dtype, *args)
        case "cast":
            return convert(builder, args[0], source, dtype)
        case "bitcast":
            return builder.bitcast(args[0], kind)
        case "popcnt":
            return intrinsic(builder, f"llvm.ctpop.{suffix(dtype)}", kind, *args)
        case "clz":
            return intrinsic(
                builder, f"llvm.ctlz.{suffix(dtype)}", kind, args[0], ir.Constant(ir.IntType(1), 0)
            )
        case "libm":
            name = node.attr + ("f" if dtype.itemsize == 4 else "")
            return intrinsic(builder, name, kind, *args)
        case _ if op in FLOAT_UNARY:
            return intrinsic(builder, f"llvm.{FLOAT_UNARY[op]}.{suffix(dtype)}", kind, *args)
    raise NotImplementedError(f"the LLVM back end has no operation {op!r}")


def shift(builder: ir.IRBuilder, op: str, dtype: np.dtype, x, by):
    """Shift; a shift by at least the width, undefined in LLVM, gives 0 (or all sign bits)."""
    width = 8 * dtype.itemsize
    most = ir.Constant(by.type, width - 1)
    over = builder.icmp_unsigned(">", by, most)
    safe = builder.select(over, most, by)
    if op == "shr_a":
        return builder.ashr(x, safe)
    moved = builder.shl(x, safe) if op == "shl" else builder.lshr(x, safe)
    return builder.select(over, ir.Constant(x.type, 0), moved)


def division(builder: ir.IRBuilder, op: str, dtype: np.dtype, x, y):
    """Divide integers as XLA does: x / 0 is -1, x % 0 is x, lowest / -1 is the lowest."""
    if dtype.kind == "f":
        if op == "div":
            return builder.fdiv(x, y)
        return builder.frem(x, y)
    zero, ones = ir.Constant(x.type, 0), ir.Constant(x.type, -1)
    null = builder.icmp_unsigned("==", y, zero)
    if dtype.kind in "ub":
        safe = builder.select(null, ir.Constant(x.type, 1), y)
        if op == "div":
            return builder.select(null, ones, builder.udiv(x, safe))
        return builder.select(null, x, builder.urem(x, safe))
    minus = builder.icmp_unsigned("==", y, ones)
    safe = builder.select(builder.or_(null, minus), ir.Constant(x.type, 1), y)
    if op == "div":
        result = builder.select(minus, builder.neg(x), builder.sdiv(x, safe))
        return builder.select(null, ones, result)
    result = builder.select(minus, zero, builder.srem(x, safe))
    return builder.select(null, x, result)


def convert(builder: ir.IRBuilder, x, source: np.dtype, target: np.dtype):
    """Convert as XLA does: floats to integers truncate and clamp, and NaN becomes 0."""
    kind = type_of(target)
    if target == BOOL:
        zero = ir.Constant(x.type, 0.0 if source.kind == "f" else 0)
        return (
            builder.fcmp_unordered("!=", x, zero)
            if source.kind == "f"
            else builder.icmp_unsigned("!=", x, zero)
        )
    if source.kind == "f" and target.kind == "f":
        return (builder.fpext if target.itemsize > source.itemsize else builder.fptrunc)(x, kind)
    if source.kind == "f":
        sign = "s" if target.kind == "i" else "u"
        name = f"llvm.fpto{sign}i.sat.{suffix(target)}.{suffix(source)}"
        return intrinsic(builder, name, kind, x)
    if target.kind == "f":
        return (builder.uitofp if source.kind in "ub" else builder.sitofp)(x, kind)
    bits = 1 if source == BOOL else 8 * source.itemsize
    if kind.width == bits:
        return x
    if kind.width < bits:
        return builder.trunc(x, kind)
    return (builder.zext if source.kind in "ub" else builder.sext)(x, kind)
