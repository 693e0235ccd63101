"""Scalar operations in CUDA C++, and the helpers that give them JAX's semantics."""

from __future__ import annotations

import math

import numpy as np

from jaxpile.expressions import BOOL, Expr

TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
    "complex64": "jx_complex<float>",
    "complex128": "jx_complex<double>",
}
SIGNS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
    "xor": "^",
}
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
FUNCTIONS = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round_even": "rint",
    "round_away": "round",
    "exp": "exp",
    "log": "log",
    "expm1": "expm1",
    "log1p": "log1p",
    "tanh": "tanh",
    "sin": "sin",
    "cos": "cos",
    "abs": "fabs",
    "rem": "fmod",
    "copysign": "copysign",
    "fma": "fma",
}

# fmax and fmin drop NaN. JAX keeps it and orders -0 below 0.
HELPERS = """\
template <class T> struct alignas(2 * sizeof(T)) jx_complex { T real, imag; };
template <class T> __device__ T jx_max(T a, T b) {
    return a > b || a != a ? a : a == b && signbit((double)b) ? a : b;
}
template <class T> __device__ T jx_min(T a, T b) {
    return a < b || a != a ? a : a == b && signbit((double)a) ? a : b;
}
template <class T> __device__ T jx_max_int(T a, T b) { return a > b ? a : b; }
template <class T> __device__ T jx_min_int(T a, T b) { return a < b ? a : b; }
template <class T> __device__ T jx_div(T a, T b) {  // x / 0 is -1; the lowest number / -1 itself
    if (b == 0) return (T)-1;
    if ((T)-1 < 0 && b == (T)-1) return (T)(0 - (unsigned long long)a);
    return a / b;
}
template <class T> __device__ T jx_rem(T a, T b) {
    if (b == 0) return a;
    if ((T)-1 < 0 && b == (T)-1) return 0;
    return a % b;
}
template <class U, class T> __device__ T jx_shl(T a, T b) {
    return (U)b >= sizeof(T) * 8 ? 0 : (T)((U)a << (U)b);
}
template <class U, class T> __device__ T jx_shr(T a, T b) {
    return (U)b >= sizeof(T) * 8 ? 0 : (T)((U)a >> (U)b);
}
template <class U, class T> __device__ T jx_sar(T a, T b) {
    return a >> ((U)b >= sizeof(T) * 8 ? sizeof(T) * 8 - 1 : (U)b);
}
template <class T, class F> __device__ T jx_to_int(F x, T low, T high) {  // NaN is 0
    return x != x ? 0 : x <= (F)low ? low : x >= (F)high ? high : (T)x;
}
template <class T, class F> __device__ T jx_bits(F x) {
    union { F from; T to; } both;
    both.from = x;
    return both.to;
}
"""


def type_name(dtype: np.dtype) -> str:
    return TYPES[dtype.name]


def unsigned(dtype: np.dtype) -> str:
    return TYPES[f"uint{8 * dtype.itemsize}"]


def constant(value, dtype: np.dtype) -> str:
    """Return a C++ literal; NaN and infinity are written as bits."""
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype.kind == "f":
        if not math.isfinite(value):
            bits = value.view(np.uint32 if dtype.itemsize == 4 else np.uint64)
            call = "__uint_as_float" if dtype.itemsize == 4 else "__longlong_as_double"
            return f"{call}({hex(int(bits))}{'u' if dtype.itemsize == 4 else 'll'})"
        text = repr(float(value))
        return f"{text}f" if dtype.itemsize == 4 else text
    if dtype.kind == "c":
        parts = (constant(part, part.dtype) for part in (value.real, value.imag))
        return f"{type_name(dtype)}{{{', '.join(parts)}}}"
    number = int(value)
    if number == np.iinfo(dtype).min and dtype.kind == "i":
        return f"({type_name(dtype)})({number + 1}ll - 1)"
    suffix = {"int64": "ll", "uint64": "ull", "uint32": "u"}.get(dtype.name, "")
    return f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"


def operation(node: Expr, args: list[str]) -> str:
    """Return the C++ expression of a node whose arguments are C++ expressions."""
    op, dtype = node.op, node.dtype
    source = node.args[0].dtype
    real = source.kind == "f"
    kind = type_name(dtype)
    name = op.rpartition("_")[2] if op.startswith(("sum_", "exact_")) else op
    single = "f" if dtype.itemsize == 4 and real else ""
    if name in ARITHMETIC:
        if real and op.startswith("exact_"):
            return f"__{'f' if single else 'd'}{name}_rn({', '.join(args)})"
        text = f"{args[0]} {ARITHMETIC[name]} {args[1]}"
        if real or (dtype.kind == "u" and dtype.itemsize >= 4):
            return f"({text})"
        # signed overflow is undefined in C++, unsigned overflow wraps
        wide = TYPES["uint64"] if dtype.itemsize == 8 else TYPES["uint32"]
        return f"({kind})(({wide}){args[0]} {ARITHMETIC[name]} ({wide}){args[1]})"
    if op in SIGNS:
        text = f"({args[0]} {SIGNS[op]} {args[1]})"
        return text if dtype == BOOL or dtype.itemsize >= 4 else f"({kind}){text}"
    match op:
        case "div" if real:
            return f"({args[0]} / {args[1]})"
        case "div" | "rem" if not real:
            return f"jx_{op}<{kind}>({', '.join(args)})"
        case "neg":
            return f"(-{args[0]})" if real else f"({kind})(0 - ({unsigned(dtype)}){args[0]})"
        case "max" | "min":
            return f"jx_{op}{'' if real else '_int'}<{kind}>({', '.join(args)})"
        case "abs" if not real:
            if source.kind in "ub":
                return args[0]
            return f"({args[0]} < 0 ? ({kind})(0 - ({unsigned(dtype)}){args[0]}) : {args[0]})"
        case "not":
            return f"(!{args[0]})" if dtype == BOOL else f"({kind})(~{args[0]})"
        case "complex":
            return f"{kind}{{{', '.join(args)}}}"
        case "real" | "imag":
            return f"{args[0]}.{op}"
        case "select":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        case "shl" | "shr_l" | "shr_a":
            word = {"shl": "shl", "shr_l": "shr", "shr_a": "sar"}[op]
            return f"jx_{word}<{unsigned(dtype)}, {kind}>({', '.join(args)})"
        case "cast":
            return cast(args[0], source, dtype)
        case "bitcast":
            return f"jx_bits<{kind}, {type_name(source)}>({args[0]})"
        case "popcnt":
            return f"({kind})__popcll(({unsigned(dtype)}){args[0]})"
        case "clz":
            return f"({kind})(__clzll(({unsigned(dtype)}){args[0]}) - {64 - 8 * dtype.itemsize})"
        case "libm":
            return f"{node.attr}{single}({', '.join(args)})"
        case "idiv":
            return f"({args[0]} / {node.attr})"
        case "imod":
            return f"({args[0]} % {node.attr})"
        case "iclamp":
            low, high = node.attr
            return f"jx_min_int<long long>(jx_max_int<long long>({args[0]}, {low}), {high})"
        case "piece":
            return f"({args[0]} < {node.attr} ? {args[1]} : {args[2]})"
        case _ if op in FUNCTIONS:
            return f"{FUNCTIONS[op]}{single}({', '.join(args)})"
    raise NotImplementedError(f"the CUDA back end has no operation {op!r}")


def cast(text: str, source: np.dtype, target: np.dtype) -> str:
    kind = type_name(target)
    if target == BOOL:
        return f"({text} != 0)"
    if source.kind == "f" and target.kind in "iu":
        info = np.iinfo(target)
        low, high = (constant(target.type(end), target) for end in (info.min, info.max))
        return f"jx_to_int<{kind}, {type_name(source)}>({text}, {low}, {high})"
    return f"(({kind}){text})"
