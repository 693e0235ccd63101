"""Data instructions of PTX: a table with one small function per opcode.

``lookup("mad", ("lo", "s32"), sources=3, destinations=1)`` gives the :class:`Operation` of
``mad.lo.s32 d, a, b, c``. The families:

=====================  ===========================================================
:mod:`.integer`        add, sub, mul, mad, mul24, div, rem, abs, neg, min, max, sad
:mod:`.carry`          add.cc, addc, sub.cc, subc, mad.cc, madc
:mod:`.floating`       f32 and f64 arithmetic, div, rcp, sqrt, rsqrt, min, max
:mod:`.half`           the same for f16, bf16 and pairs of them
:mod:`.transcendental` sin, cos, lg2, ex2, tanh
:mod:`.comparison`     setp, set, selp, slct, testp
:mod:`.logic`          and, or, xor, not, cnot, lop3, shl, shr, shf
:mod:`.bits`           popc, clz, bfind, brev, bfe, bfi, fns, prmt, szext, bmsk
:mod:`.dot`            dp4a, dp2a and the packed-integer (video) instructions
:mod:`.convert`        cvt, cvt.pack
=====================  ===========================================================

Results that IEEE 754 defines are exact to the bit, every rounding mode included. Where the ISA
leaves a result open, the operation gives what an H200 gives, if that is known, and its docstring
says so. A NaN result is 0x7fffffff for f32 and 0x7fff for f16 and bf16. For f64 it is the NaN
operand, or 0xfff8000000000000 if no operand is a NaN.
"""

from virtualgpu.operations import (  # noqa: F401  (importing registers the opcodes)
    bits,
    carry,
    comparison,
    convert,
    dot,
    floating,
    half,
    integer,
    logic,
    transcendental,
)
from virtualgpu.operations.table import Operation, lookup, opcodes

__all__ = ["Operation", "lookup", "opcodes"]
