"""PTX to look instructions up in: a broad set of Numba kernels and of CUDA C++, through the real
compilers."""

from __future__ import annotations

import cmath
import math

import numba
from numba import cuda, types

from virtualgpu.compilers.nvrtc import compile_to_ptx

INTEGERS = [
    types.int8,
    types.uint8,
    types.int16,
    types.uint16,
    types.int32,
    types.uint32,
    types.int64,
    types.uint64,
]
FLOATS = [types.float16, types.float32, types.float64]
ARITHMETIC = [
    "a + b",
    "a - b",
    "a * b",
    "-a",
    "abs(a)",
    "min(a, b)",
    "max(a, b)",
    "a * b + a",
    "a if a < b else b",
    "a < b",
    "a <= b",
    "a == b",
    "a != b",
    "a > b",
    "a >= b",
]
DIVISION = ["a / b", "a // b", "a % b", "a ** b", "divmod(a, b)[0]", "round(a)"]
BITWISE = ["a & b", "a | b", "a ^ b", "~a", "a << b", "a >> b", "not a"]
COMPLEX = [
    "a + b",
    "a - b",
    "a * b",
    "a / b",
    "a ** b",
    "a == b",
    "abs(a)",
    "cmath.exp(a)",
    "cmath.log(a)",
    "cmath.sqrt(a)",
    "cmath.acos(a)",
    "cmath.atan(a)",
    "a.conjugate()",
]
MATH = [
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "exp",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "floor",
    "ceil",
    "trunc",
    "fabs",
    "erf",
    "erfc",
    "gamma",
    "lgamma",
    "degrees",
    "radians",
    "isnan",
    "isinf",
    "isfinite",
]
MATH_OF_TWO = ["atan2", "hypot", "copysign", "fmod", "pow", "nextafter"]
LIBDEVICE = {
    "ff": [
        "fadd_rd",
        "fadd_rz",
        "fmul_ru",
        "fdiv_rz",
        "fsub_rn",
        "fmin",
        "fmax",
        "fast_fdividef",
        "powif",
    ],
    "f": [
        "frcp_rd",
        "fsqrt_ru",
        "frsqrt_rn",
        "saturatef",
        "float2int_rn",
        "float2uint_ru",
        "float2ll_rd",
        "float2ull_rz",
        "float2half_rn",
        "fast_sinf",
        "fast_cosf",
        "fast_expf",
        "fast_log2f",
        "fast_tanf",
        "float_as_int",
        "rintf",
        "cbrtf",
        "normcdff",
        "j0f",
    ],
    "d": [
        "drcp_rz",
        "dsqrt_rd",
        "double2int_rn",
        "double2uint_rz",
        "double2ll_ru",
        "double2float_rz",
        "double2hiint",
        "rsqrt",
        "cbrt",
        "sinpi",
        "erfinv",
        "y1",
    ],
    "dd": ["dadd_ru", "dmul_rz", "ddiv_rd", "fmin", "remainder"],
    "ii": ["mul24", "umul24", "mulhi", "umulhi", "hadd", "rhadd", "uhadd"],
    "iii": ["byte_perm", "sad", "usad"],
    "i": ["int2float_rz", "uint2float_rd", "int2double_rn", "brev", "clz", "popc", "ffs"],
    "ll": ["mul64hi", "umul64hi"],
    "l": ["ll2float_ru", "ull2double_rd", "brevll", "clzll", "popcll", "ffsll"],
    "fff": ["fmaf_rz", "fmaf_ru"],
    "ddd": ["fma_rd", "fma_ru"],
}
LETTERS = {"f": types.float32, "d": types.float64, "i": types.int32, "l": types.int64}


def numba_ptx(expressions, arguments, result, cc=(9, 0), fastmath=False) -> str:
    """A kernel that stores one expression after another of ``a``, ``b``, ... (one element of
    each argument), compiled by NVVM."""
    names = "abc"[: len(arguments)]
    lines = [f"def kernel(out, {', '.join(n * 2 for n in names)}):", " i = cuda.grid(1)"]
    lines += [f" {n} = {n * 2}[i]" for n in names]
    lines += [f" out[i, {k}] = {e}" for k, e in enumerate(expressions)]
    scope = {"cuda": cuda, "math": math, "cmath": cmath, "libdevice": cuda.libdevice}
    exec("\n".join(lines), scope)
    signature = (result[:, :], *(t[:] for t in arguments))
    return cuda.compile_ptx(scope["kernel"], signature, cc=cc, fastmath=fastmath)[0]


def conversions_ptx() -> str:
    """Every number type to every other."""
    targets, scope = [*INTEGERS, *FLOATS], {"cuda": cuda}
    inputs = [f"a{k}" for k in range(len(targets))]
    outputs = [f"o{k}" for k in range(len(targets))]
    exec(
        "\n".join(
            [
                f"def kernel({', '.join(inputs + outputs)}):",
                " i = cuda.grid(1)",
                *(f" {o}[i, {k}] = {a}[i]" for o in outputs for k, a in enumerate(inputs)),
            ]
        ),
        scope,
    )
    signature = (*(t[:] for t in targets), *(t[:, :] for t in targets))
    return cuda.compile_ptx(scope["kernel"], signature, cc=(9, 0))[0]


def numba_corpus():
    """Operators on every type, conversions between all of them, math, libdevice, complex."""
    for kind in INTEGERS[:1] + INTEGERS[3:]:  # the others add no instruction
        more = ["a ** b", "a / b", "round(a)"] if kind is types.int64 else []
        yield numba_ptx([*ARITHMETIC, *BITWISE, "a // b", "a % b", *more], [kind, kind], kind)
    for kind in FLOATS:
        more = ["a / b"] if kind is types.float16 else DIVISION
        yield numba_ptx(ARITHMETIC + more, [kind, kind], kind)
    yield numba_ptx(ARITHMETIC, [types.float16] * 2, types.float16, cc=(8, 0))
    yield conversions_ptx()
    for kind, fastmath in ((types.float32, False), (types.float32, True), (types.float64, False)):
        calls = (
            [f"math.{name}(a)" for name in MATH]
            + [f"math.{name}(a, b)" for name in MATH_OF_TWO]
            + [
                "math.ldexp(a, 3)",
                "math.frexp(a)[0]",
                "math.modf(a)[1]",
                "cuda.fma(a, b, a)",
                "cuda.selp(a > b, a, b)",
                "cuda.cbrt(a)",
            ]
        )
        yield numba_ptx(calls, [kind, kind], kind, fastmath=fastmath)
    for kind in (types.int32, types.int64):
        yield numba_ptx(
            ["cuda.popc(a)", "cuda.clz(a)", "cuda.brev(a)", "cuda.ffs(a)"], [kind], kind
        )
    yield numba_ptx(COMPLEX, [types.complex128] * 2, types.complex128)
    for letters, names in LIBDEVICE.items():
        operands = ", ".join("abc"[: len(letters)])
        yield numba_ptx(
            [f"libdevice.{name}({operands})" for name in names],
            [LETTERS[c] for c in letters],
            numba.float64,
        )


_HALF = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#define RUN(name, R, T, e) \\
  __global__ void name(R *r, const T *p, const T *q, const T *s) { \\
    int i = threadIdx.x; T a = p[i], b = q[i], c = s[i]; r[i] = e; }
"""
_SCALAR = """__hadd(a,b) __hsub(a,b) __hmul(a,b) __hdiv(a,b) __hfma(a,b,c) __hfma_relu(a,b,c)
__hfma_sat(a,b,c) __hadd_sat(a,b) __hsub_sat(a,b) __hmul_sat(a,b) __hadd_rn(a,b) __hmul_rn(a,b)
__hneg(a) __habs(a) __hmin(a,b) __hmax(a,b) __hmin_nan(a,b) __hmax_nan(a,b) hsqrt(a) hrsqrt(a)
hrcp(a) hsin(a) hcos(a) hexp(a) hexp2(a) hexp10(a) hlog(a) hlog2(a) htanh(a) htanh_approx(a)
hceil(a) hfloor(a) htrunc(a) hrint(a)""".split()
_TESTS = """__heq(a,b) __hne(a,b) __hlt(a,b) __hle(a,b) __hgt(a,b) __hge(a,b) __hequ(a,b)
__hneu(a,b) __hltu(a,b) __hleu(a,b) __hgtu(a,b) __hgeu(a,b) __hisnan(a) __hisinf(a)""".split()
_PAIRED = """__hadd2(a,b) __hsub2(a,b) __hmul2(a,b) __h2div(a,b) __hfma2(a,b,c)
__hfma2_relu(a,b,c) __hfma2_sat(a,b,c) __hadd2_sat(a,b) __hneg2(a) __habs2(a) __hmin2(a,b)
__hmax2(a,b) __hmin2_nan(a,b) __hmax2_nan(a,b) h2sqrt(a) h2sin(a) h2exp(a) h2exp2(a) h2log2(a)
h2tanh_approx(a) h2rint(a) __heq2(a,b) __hlt2(a,b) __hgtu2(a,b) __hisnan2(a)
__hcmadd(a,b,c)""".split()
_PAIR_TESTS = "__hbeq2(a,b) __hblt2(a,b) __heq2_mask(a,b) __hne2_mask(a,b)".split()
_CONVERSIONS = [
    "signed char",
    "unsigned char",
    "short",
    "unsigned short",
    "int",
    "unsigned",
    "long long",
    "unsigned long long",
    "float",
    "double",
]

_WORDS = """
__global__ void words(unsigned *u, int *s, unsigned long long *l, long long *d) {
  u[0] = __funnelshift_l(u[1], u[2], u[3]);   u[4] = __funnelshift_lc(u[1], u[2], u[3]);
  u[5] = __funnelshift_r(u[1], u[2], u[3]);   u[6] = __funnelshift_rc(u[1], u[2], u[3]);
  u[7] = __byte_perm(u[1], u[2], u[3]);       u[8] = __fns(u[1], u[2], s[3]);
  u[9] = __brev(u[3]);      u[10] = __ffs(u[2]);       u[11] = __clz(s[1]);
  u[12] = __popc(u[4]);     s[1] = __mul24(s[2], s[3]);  s[4] = __sad(s[1], s[2], u[3]);
  s[5] = __usad(u[1], u[2], u[3]);   s[6] = __mulhi(s[1], s[2]);   s[7] = __rhadd(s[1], s[2]);
  s[8] = __dp4a(s[1], s[2], s[3]);   u[13] = __dp4a(u[1], u[2], u[3]);
  u[14] = (u[1] >> 5) & 31;  u[15] = (u[3] & ~0xff00) | ((u[4] & 255) << 8);
  u[16] = (u[1] << 13) | (u[1] >> 19);  u[17] = u[1] & u[2] ^ u[3] | u[4];
  u[18] = max(min(u[1], u[2]), 3u);  s[9] = abs(s[10]);  s[11] = s[1] / 7 + s[2] % s[3];
  s[12] = (s[1] << 7) >> 20;  u[19] = u[1] / u[2] % u[3];
  l[0] = __umul64hi(l[1], l[2]);  d[1] = __mul64hi(d[2], d[3]);  l[3] = __popcll(l[4]);
  l[5] = __clzll(l[6]);  l[7] = __brevll(l[8]);  l[9] = l[10] >> u[1];  d[4] = d[5] >> u[2];
  d[6] = d[7] << u[3];  d[8] = d[9] / d[10] + d[11] % d[12];  l[11] = l[12] / 10;
  l[13] = (unsigned long long)u[1] * u[2] + l[14];  d[13] = (long long)s[1] * s[2] + d[14];
  u[20] = __vabsdiffu4(u[1], u[2]);  u[21] = __vsadu4(u[1], u[2]);  u[22] = __vadd2(u[1], u[2]);
  u[23] = __vaddss4(u[1], u[2]);  u[24] = __vmaxs2(u[1], u[2]);  u[25] = __vcmpgts4(u[1], u[2]);
  u[26] = __vimax_s32_relu(u[1], u[2]);  u[27] = __vimin_s16x2_relu(u[1], u[2]);
  u[28] = __viaddmax_s16x2(u[1], u[2], u[3]);  u[29] = __vavgu4(u[1], u[2]);
}
__global__ void pairs(short2 *a, ushort2 *b, char4 *c, uchar4 *e, int *s, unsigned *u) {
  s[0] = __dp4a(c[0], c[1], s[1]);  u[0] = __dp4a(e[0], e[1], u[1]);
  s[2] = __dp2a_lo(a[0], c[2], s[3]);  s[4] = __dp2a_hi(a[0], c[2], s[5]);
  u[2] = __dp2a_lo(b[0], e[2], u[3]);  u[4] = __dp2a_hi(b[0], e[2], u[5]);
}
__global__ void small(short *s, unsigned short *u, signed char *c, unsigned char *b) {
  s[0] = s[1] * s[2] + s[3];  u[0] = u[1] / u[2] % u[3];  s[4] = min(s[5], s[6]);
  s[7] = s[8] >> s[9];  c[0] = c[1] / c[2];  b[0] = b[1] >> b[2];  s[10] = abs(s[11]);
}
__global__ void huge(__int128 *a, unsigned __int128 *b) {
  a[0] = a[1] + a[2];  a[3] = a[4] * a[5];  a[6] = a[7] - a[8];  b[0] = b[1] * b[2] + b[3];
  b[4] = b[5] >> 17;  a[9] = a[10] << 3;
}
__global__ void reals(float *r, float *a, double *d, bool *p) {
  r[0] = __fmaf_rz(a[0], a[1], a[2]);  r[1] = __fadd_ru(a[0], a[1]);  r[2] = __fmul_rd(a[0], a[1]);
  r[3] = __fdiv_rz(a[0], a[1]);  r[4] = __fsqrt_ru(a[0]);  r[5] = __frcp_rd(a[0]);
  r[6] = __saturatef(a[0]);  r[7] = __fdividef(a[0], a[1]);  r[8] = __sinf(a[0]) + __cosf(a[1]);
  r[9] = __expf(a[0]) + __logf(a[1]) + __powf(a[2], a[3]) + __tanf(a[4]);
  d[0] = __fma_rd(d[1], d[2], d[3]);  d[4] = __dadd_rz(d[5], d[6]);  d[7] = __ddiv_ru(d[1], d[2]);
  d[8] = __dsqrt_rd(d[3]);  d[9] = __drcp_rz(d[4]);  d[10] = rsqrt(d[13]);  d[11] = 1.0 / d[12];
  r[10] = rsqrtf(a[3]);  r[11] = tanhf(a[6]);  r[12] = fmaxf(fminf(a[1], a[2]), 0.f);
  r[13] = roundf(a[1]) + rintf(a[2]) + floorf(a[3]);  r[14] = copysignf(a[1], a[2]);
  d[14] = nearbyint(d[2]) + copysign(d[3], d[4]) + fmin(d[5], d[6]);  r[15] = fmodf(a[1], a[2]);
  p[0] = a[0] < a[1] && !(a[2] >= a[3]);  p[1] = isnan(a[4]) != isfinite(d[5]);
  r[16] = p[2] ? a[5] : a[6];  p[3] = signbit(a[7]) || a[8] != a[9];  r[17] = p[4] ? 1.f : 0.f;
}
__global__ void tiny(__nv_fp8_e4m3 *e, __nv_fp8_e5m2 *f, __half *h, __nv_bfloat16 *b, float *x) {
  e[0] = __nv_fp8_e4m3(x[0]);  f[0] = __nv_fp8_e5m2(x[1]);  e[1] = __nv_fp8_e4m3(h[0]);
  f[1] = __nv_fp8_e5m2(b[0]);  h[1] = __half(e[2]);  x[2] = float(f[2]);
}
"""


def cuda_source() -> str:
    """CUDA C++ that uses the intrinsics for half precision, bits, rounding and conversion."""
    lines, number = [_HALF], 0

    def run(result, operand, expressions):
        nonlocal number
        for expression in expressions:
            number += 1
            lines.append(f"RUN(k{number}, {result}, {operand}, {expression})")

    for scalar, pair in (("__half", "__half2"), ("__nv_bfloat16", "__nv_bfloat162")):
        run(scalar, scalar, _SCALAR)
        run("int", scalar, _TESTS)
        run(pair, pair, _PAIRED)
        run("unsigned", pair, _PAIR_TESTS)
        for other in _CONVERSIONS:
            run(other, scalar, [f"({other})a"])
            run(scalar, other, [f"({scalar})a"])
    for one in _CONVERSIONS:
        for other in _CONVERSIONS[-4:]:
            run(other, one, [f"({other})a"])
            run(one, other, [f"({one})a"])
    return "\n".join([*lines, _WORDS])


def cuda_corpus():
    """The CUDA C++ for both architectures, and with the fast arithmetic."""
    source = cuda_source()
    for architecture in ("sm_80", "sm_90"):
        for options in ((), ("--use_fast_math",)):
            yield compile_to_ptx(
                source, options=("--device-int128", *options), architecture=architecture
            )[0]
