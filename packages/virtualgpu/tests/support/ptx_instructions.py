"""Arithmetic for random kernels: what one instruction may be, and numbers at the edges.

`@c` is a register of class c to write, `$c` a register or literal to read, `a/b/c` in braces one
of several words. Classes: p predicates, h 16 bits, r 32, d 64, w 128, f and x floats of 32 and 64.
"""

from __future__ import annotations

from random import Random

DATA = """
{add/sub/mul.lo/mul.hi/min/max/div/rem}.{s32/u32} @r, $r, $r
{add/sub/mul.lo/mul.hi/min/max/div/rem}.{s64/u64} @d, $d, $d
{add/sub/mul.lo/mul.hi/min/max/div/rem}.{s16/u16} @h, $h, $h
mul.wide.{s32/u32} @d, $r, $r
{mad.lo/mad.hi}.{s32/u32} @r, $r, $r, $r
mad.wide.{s32/u32} @d, $r, $r, $d
{add.cc/sub.cc/addc.cc/subc/addc}.{s32/u32} @r, $r, $r
{and/or/xor}.b32 @r, $r, $r
{and/or/xor}.b64 @d, $d, $d
{and/or/xor}.pred @p, $p, $p
{not/cnot}.b32 @r, $r
not.pred @p, $p
{shl.b32/shr.u32/shr.s32} @r, $r, $r
{shl.b64/shr.u64/shr.s64} @d, $d, $r
{shf.l.wrap/shf.r.clamp}.b32 @r, $r, $r, $r
{popc/clz/brev}.b32 @r, $r
{popc/clz}.b64 @r, $d
{bfind.u32/bfind.shiftamt.s32} @r, $r
bfe.{u32/s32} @r, $r, $r, $r
bfi.b32 @r, $r, $r, $r, $r
bfe.u64 @d, $d, $r, $r
prmt.b32 @r, $r, $r, $r
lop3.b32 @r, $r, $r, $r, 0x{1b/e8/96/00/ff}
{dp4a.u32.u32/dp4a.s32.s32} @r, $r, $r, $r
{abs/neg}.s32 @r, $r
sad.u32 @r, $r, $r, $r
{add/sub/mul/div.rn/min/max}.f32 @f, $f, $f
{add/sub/mul/div.rn/min/max}.f64 @x, $x, $x
fma.{rn/rz/rm/rp}.f32 @f, $f, $f, $f
fma.rn.f64 @x, $x, $x, $x
{sqrt.rn/rcp.rn/sqrt.approx/rsqrt.approx/sin.approx/cos.approx/ex2.approx/lg2.approx}.f32 @f, $f
{sqrt.rn/rcp.rn}.f64 @x, $x
{abs/neg}.f32 @f, $f
copysign.f64 @x, $x, $x
testp.{finite/normal/notanumber}.f32 @p, $f
setp.{eq/ne/lt/le/gt/ge}.{s32/u32} @p, $r, $r
setp.{lt/hs}.u64 @p, $d, $d
setp.{eq/ltu/nan}.f32 @p|@p, $f, $f
setp.{gt/neu}.f64 @p, $x, $x
setp.lt.and.s32 @p, $r, $r, $p
set.ge.u32.s32 @r, $r, $r
selp.b32 @r, $r, $r, $p
selp.f64 @x, $x, $x, $p
slct.b32.s32 @r, $r, $r, $r
mov.b32 @r, $r
mov.b64 @d, $d
mov.f32 @f, $f
mov.pred @p, $p
mov.b64 @d, {open}$r, $r{close}
mov.b64 {open}@r, @r{close}, $d
mov.b32 {open}@h, @h{close}, $r
cvt.{u32.u64/s32.s64} @r, $d
cvt.{u64.u32/s64.s32} @d, $r
cvt.{rzi.s32.f32/rni.u32.f32/rzi.sat.s32.f32} @r, $f
cvt.rzi.s64.f64 @d, $x
cvt.{rn.f32.s32/rz.f32.u32} @f, $r
cvt.rn.f32.f64 @f, $x
cvt.f64.f32 @x, $f
cvt.rn.f16.f32 @h, $f
cvt.f32.f16 @f, @h
{add/mul}.f16 @h, @h, @h
fma.rn.f16 @h, @h, @h, @h
add.f16x2 @r, $r, $r
mov.b128 @w, {open}$d, $d{close}
mov.b128 {open}@d, @d{close}, @w
mov.b128 @w, @w
""".strip().splitlines()

LITERALS = {
    "p": ("1", "0"),
    "h": ("0", "1", "-1", "0x7fff", "0x3c00"),
    "r": ("0", "1", "-1", "4", "31", "32", "63", "0x7fffffff", "0x80000000", "4294967295"),
    "d": (
        "0",
        "8",
        "-1",
        "0x7fffffffffffffff",
        "0x8000000000000000",
        "0x100000000",
        "0x200000010",
        "0x700100000",
    ),
    "f": ("0f00000000", "0f3F800000", "0f7F800000", "0f7FC00000", "0fFF7FFFFF", "0f00000001"),
    "x": (
        "0d0000000000000000",
        "0d3FF0000000000000",
        "0d7FF0000000000000",
        "0dFFF8000000000000",
        "0d0000000000000001",
    ),
}


def chosen(random: Random, template: str) -> str:
    """The template with one word of each choice."""
    while (at := template.find("{")) >= 0:
        end = template.index("}", at)
        words = template[at + 1 : end]
        word = {"open": "\1", "close": "\2"}.get(words) or random.choice(words.split("/"))
        template = template[:at] + word + template[end + 1 :]
    return template.replace("\1", "{").replace("\2", "}")
