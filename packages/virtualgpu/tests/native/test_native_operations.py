"""Each data instruction on native code and in the interpreter, at edge values and random
ones, with operands that differ by lane and with operands that are one number for a warp."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from native_lab import agree
from ptx_lab import entry
from virtualgpu.native import run

# `@` and `$`: a register to write, one to read, of the class that follows: h b16, r b32, d b64,
# f f32, x f64, p pred.
GROUPS = {
    "integers": """
{add,sub,mul.lo,mul.hi,min,max,div,rem}.{s32,u32} @r, $r, $r
{abs,neg}.s32 @r, $r
{mad.lo,mad.hi}.{s32,u32} @r, $r, $r, $r
{sad}.u32 @r, $r, $r, $r
{add,sub}.sat.s32 @r, $r, $r
{dp4a.u32.u32,dp4a.s32.s32} @r, $r, $r, $r
{popc,clz,brev,not,cnot}.b32 @r, $r
{and,or,xor,shl}.b32 @r, $r, $r
{shr.u32,shr.s32} @r, $r, $r
{shf.l.wrap,shf.r.clamp}.b32 @r, $r, $r, $r
{bfe.u32,bfe.s32,prmt.b32} @r, $r, $r, $r
{bfind.u32,bfind.shiftamt.s32} @r, $r
bfi.b32 @r, $r, $r, $r, $r
lop3.b32 @r, $r, $r, $r, 0x1b""",
    "long integers": """
{add,sub,mul.lo,mul.hi,min,max}.{s64,u64} @d, $d, $d
{mul.wide}.{s32,u32} @d, $r, $r
mad.wide.{s32,u32} @d, $r, $r, $d
{and,or,xor}.b64 @d, $d, $d
{shl.b64,shr.u64,shr.s64} @d, $d, $r
popc.b64 @r, $d
clz.b64 @r, $d
bfe.u64 @d, $d, $r, $r""",
    "known numbers": """
{shl.b32,shr.u32,shr.s32} @r, $r, {0,1,31,32,33,-1}
{shl.b64,shr.u64,shr.s64} @d, $d, {0,1,31,63,64,65,-1}
{shl.b16,shr.u16,shr.s16} @h, $h, {0,1,15,16,40}
mul.wide.{s32,u32} @d, $r, {-3,70000}
mad.wide.{s16,u16} @r, $h, -3, $r
cvt.{s64.s32,u64.u32,s64.s8,u64.u8} @d, {-5,200}
add.s64 @d, $d, 0""",
    # Of which LLVM would leave an operation out, and with it what it does to a NaN.
    "known floats": """
{add,sub,mul,div.rn}.f64 @x, $x, {0d3ff0000000000000,0dbff0000000000000,0d4000000000000000}
{add,sub,mul,div.rn}.f64 @x, $x, {0d0000000000000000,0d8000000000000000,0d7ff0000000000000}
{add,sub,mul,div.rn}.f64 @x, $x, {0d7ff0000000000001,0dfff8000000000005}
{add,sub,mul,div.rn}.f64 @x, {0d3ff0000000000000,0dbff0000000000000,0d8000000000000000}, $x
{add,sub,mul,div.rn}.f64 @x, 0d7ff0000000000000, {0d7ff0000000000000,0d0000000000000000}
fma.rn.f64 @x, $x, {0d3ff0000000000000,0dbff0000000000000}, $x
fma.rn.f64 @x, $x, $x, {0d0000000000000000,0d8000000000000000,0d7ff0000000000001}
fma.rn.f64 @x, {0dbff0000000000000,0dfff8000000000005}, $x, $x
{add,sub,mul,div.rn}.f64 @x, $x, %x0
fma.rn.f64 @x, $x, %x0, $x
fma.rn.f64 @x, $x, %x0, %x0
fma.rn.f64 @x, $x, $x, {%x0,%x1}
{min,max}.f64 @x, $x, {%x0,0dfff0000000000001}""",
    "long division": "{div,rem}.{s64,u64} @d, $d, $d",
    "short integers": """
{add,sub,mul.lo,mul.hi,min,max,div,rem}.{s16,u16} @h, $h, $h
cvt.{s8.s32,u8.u32,s16.s32,u16.u32} @r, $r
cvt.sat.{s8.s32,u8.s32} @r, $r
mov.b64 @d, {$r, $r}
mov.b32 @r, {$h, $h}""",
    "carries": """
add.cc.u32 @r, $r, $r
addc.cc.u32 @r, $r, $r
subc.u32 @r, $r, $r
sub.cc.u32 @r, $r, $r
addc.u32 @r, $r, $r""",
    "floats": """
{add,sub,mul,div.rn,min,max,add.ftz,mul.ftz,add.rz,mul.rp,add.sat,div.approx}.f32 @f, $f, $f
fma.{rn,rz,rm,rp,rn.ftz}.f32 @f, $f, $f, $f
{sqrt.rn,rcp.rn,sqrt.approx,rsqrt.approx,abs,neg,neg.ftz}.f32 @f, $f
copysign.f32 @f, $f, $f
{add,mul}.f16 @h, $h, $h
fma.rn.f16 @h, $h, $h, $h
add.f16x2 @r, $r, $r""",
    "doubles": """
{add,sub,mul,div.rn,min,max,add.rm,copysign}.f64 @x, $x, $x
fma.rn.f64 @x, $x, $x, $x
{sqrt.rn,rcp.rn,abs,neg}.f64 @x, $x
{add,mul,div.rn}.f64 @x, $x, {0dBFF0000000000000,0d8000000000000000}
fma.rn.f64 @x, $x, 0d3FF0000000000000, $x""",
    "approximations": """
{sin,cos,lg2,ex2,tanh}.approx.f32 @f, $f
{sin,cos,lg2,ex2}.approx.ftz.f32 @f, $f
{ex2,tanh}.approx.f16 @h, $h
tanh.approx.bf16x2 @r, $r""",
    "conversions": """
cvt.{rzi.s32.f32,rni.u32.f32,rmi.s32.f32} @r, $f
cvt.{rzi.s64.f64,rzi.u64.f64} @d, $x
cvt.{rn.f32.s32,rz.f32.u32} @f, $r
cvt.rn.f64.s64 @x, $d
cvt.rn.f32.f64 @f, $x
cvt.f64.f32 @x, $f
cvt.rn.f16.f32 @h, $f
cvt.f32.f16 @f, $h
cvt.{u64.u32,s64.s32} @d, $r
cvt.{u32.u64} @r, $d""",
    "comparisons": """
setp.{eq,lt,ge}.s32 @p, $r, $r
setp.{ne,lo}.u32 @p, $r, $r
setp.lt.s64 @p, $d, $d
setp.{eq,ltu,nan,ne,le}.f32 @p, $f, $f
setp.{gt,neu}.f64 @p, $x, $x
setp.lt.and.s32 @p, $r, $r, $p
set.ge.u32.s32 @r, $r, $r
selp.b32 @r, $r, $r, $p
selp.f64 @x, $x, $x, $p
slct.b32.s32 @r, $r, $r, $r
testp.{finite,normal,notanumber}.f32 @p, $f
{and,or,xor}.pred @p, $p, $p
not.pred @p, $p""",
}
TYPES = {"h": ("b16", 2), "r": ("b32", 4), "d": ("b64", 8), "f": ("f32", 4), "x": ("f64", 8)}
SIZE = 16  # bytes for each operand of a thread


def lines(group: str):
    for line in GROUPS[group].strip().splitlines():
        parts = [
            p.split(",") if i % 2 and "$" not in p else [f"{{{p}}}" if i % 2 else p]
            for i, p in enumerate(line.replace("}", "{").split("{"))
        ]
        for choice in itertools.product(*parts):
            yield "".join(choice)


def kernel(group: str, uniform: bool) -> tuple[str, int]:
    """Each instruction of a group, on operands of its own place in the input."""
    body, results, place = [], 0, 0
    if uniform:
        body.append("mov.u64 %rd40, %rd1;")
    else:
        body += ["mul.wide.u32 %rd40, %gid, 64;", "add.u64 %rd40, %rd1, %rd40;"]
    body += ["mul.wide.u32 %rd41, %gid, 16;", "add.u64 %rd41, %rd2, %rd41;"]
    for line in lines(group):
        text, loads, target, at, number = "", [], None, 0, 0
        while at < len(line):
            if line[at] not in "@$":
                text += line[at]
                at += 1
                continue
            sign, letter = line[at], line[at + 1]
            at += 2
            if sign == "@":
                target, name = letter, f"%{letter}z"
            else:
                name = f"%{letter}{number}"
                number, place = number + 1, place + 1
                offset = place % 16 * (16 if uniform else 8)
                if letter == "p":
                    loads += [
                        f"ld.global.u32 %rw, [%rd40+{offset}];",
                        f"setp.gt.s32 {name}, %rw, 3;",
                    ]
                else:
                    loads.append(f"ld.global.{TYPES[letter][0]} {name}, [%rd40+{offset}];")
            text += name
        body += [*loads, text + ";"]
        if target == "p":
            body.append("selp.u32 %rz, 1, 0, %pz;")
            target = "r"
        body.append(f"st.global.{TYPES[target][0]} [%rd41+{results * 64 * SIZE}], %{target}z;")
        results += 1
    registers = "".join(
        f".reg .{TYPES.get(k, ('pred',))[0]} %{k}<6>, %{k}z, %{k}w;"
        for k in ("h", "r", "d", "f", "x", "p")
    )
    return entry("{" + registers + "\n".join(body) + "}", 2), results


def values() -> np.ndarray:
    random = np.random.default_rng(5)
    words = random.integers(0, 1 << 64, 1024, np.uint64)
    edges = np.array(
        [
            0,
            1,
            2,
            31,
            32,
            0x7FFFFFFF,
            0x80000000,
            0xFFFFFFFF,
            1 << 63,
            (1 << 64) - 1,
            0x7FC12345,
            0xFFC00001,
            0x7F812345,
            0x7F800000,
            0xFF800000,
            0x00000001,
            0x807FFFFF,
            0x00800000,
            0x3F800000,
            0xBF800000,
            0x7F7FFFFF,
            0x7FF8000000012345,
            0xFFF0000000000001,
            0x7FF0000000000000,
            0x0000000000000001,
            0x3FF0000000000000,
            0xC3E0000000000000,
            0x41DFFFFFFFC00000,
            0x7EFFFFFF7EFFFFFF,
            0x00007C0000007E01,
        ],
        np.uint64,
    )
    chosen = random.integers(0, 3, len(words))
    words[chosen == 0] = random.choice(edges, int((chosen == 0).sum()))
    small = words & np.uint64(0x0000003F0000003F)
    words[chosen == 1] = small[chosen == 1]
    return words


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("group", GROUPS)
def test_operations(group, uniform, monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)
    text, results = kernel(group, uniform)
    agree(text, values(), np.zeros(results * 64 * SIZE, np.uint8), grid=2, block=32)


def test_what_a_constant_does_to_a_nan_where_it_comes_through_registers(monkeypatch):
    """Moved in another basic block, computed of constants, put together from halves."""
    monkeypatch.setattr(run, "STRICT", True)
    ways = {
        "moved": "mov.f64 %c, 0dbff0000000000000;",
        "computed": "sub.f64 %c, 0d4000000000000000, 0d4008000000000000;",
        "converted": "cvt.rn.f64.s32 %c, -1;",
        "halves": "mov.b32 %lo, 0; mov.b32 %hi, -1074790400; mov.b64 %c, {%lo, %hi};",
        "bits": "mov.b64 %rd7, -4616189618054758400; mov.b64 %c, %rd7;",
        "negated": "mov.f64 %c, 0d3ff0000000000000; neg.f64 %c, %c;",
        "chosen": "selp.f64 %c, 0dbff0000000000000, 0dbff0000000000000, %p1;",
    }
    for made in ways.values():
        for where in ("", "@%p1 bra Far; st.global.u32 [%rd5+2048], %gid; Far:"):
            text = entry(
                f"""{{ .reg .f64 %c, %x<9>; .reg .b32 %lo, %hi;
              mul.wide.u32 %rd3, %gid, 8; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
              setp.gt.u32 %p1, %gid, 20; {made} {where}
              ld.global.f64 %x1, [%rd4]; mul.f64 %x2, %x1, %c; fma.rn.f64 %x3, %x1, %c, %x2;
              div.rn.f64 %x4, %x1, %c; mul.f64 %x5, %c, %c; mul.f64 %x6, %x5, %x1;
              add.f64 %x7, %c, %x5; sub.f64 %x7, %x1, %x7; div.rn.f64 %x8, %c, %x1;
              st.global.f64 [%rd5], %x2; st.global.f64 [%rd5+256], %x3;
              st.global.f64 [%rd5+512], %x4; st.global.f64 [%rd5+768], %x6;
              st.global.f64 [%rd5+1024], %x7; st.global.f64 [%rd5+1280], %x8; }}""",
                2,
            )
            numbers = values()[:32].copy()
            numbers[:6] = [
                0x7FF0000000000001,
                0xFFF0000000000007,
                0x7FF8000000000003,
                0xFFF8000000000009,
                0,
                1 << 63,
            ]
            agree(text, numbers, np.zeros(600, np.uint64), grid=1, block=32)
