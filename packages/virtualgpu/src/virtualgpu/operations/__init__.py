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

Results that IEEE 754 defines are exact to the bit, every rounding mode included. What the ISA
leaves open is chosen as an H200 does it where that is known, and said in the docstring: a NaN
result of f32 is 0x7fffffff, of f16 and bf16 0x7fff, of f64 a NaN operand, else 0xfff8000000000000.
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
