"""The table itself: what it refuses and how it says so, and that every operation treats lanes,
shapes and its operands as it promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtualgpu.errors import UnsupportedInstruction
from virtualgpu.operations import lookup, opcodes


@pytest.mark.parametrize(
    ("name", "sources", "says"),
    [
        ("frobnicate.s32", 2, "no opcode 'frobnicate'"),
        ("mul.up.s32", 2, "'.up'"),
        ("mul.s32", 2, ".hi, .lo or .wide"),
        ("mul.lo.s32.fast", 2, "'.fast' has no meaning here"),
        ("add.rn.s32", 2, "'.rn'"),
        ("add.f32.rn", 2, "'.rn' has no meaning here"),
        ("add.ftz.rn.f32", 2, "'.rn'"),
        ("add.sat.f64", 2, "'.f64'"),
        ("add.f16.bf16", 2, "'.bf16' has no meaning here"),
        ("add.s32", 3, "takes 1 destination and 2 source operands, not 1 and 3"),
        ("add", 2, "supported for the types"),
        ("fma.f32", 3, ".rn, .rz, .rm or .rp"),
        ("setp.lt.b32", 2, ".eq or .ne"),
        ("setp.lo.s32", 2, "'.lo'"),
        ("setp.lt.s32.wat", 2, "'.wat'"),
        ("setp.lt.f16x2", 2, "2 destination"),
        ("cvt.f32.f64", 1, ".rn, .rz, .rm, .rp"),
        ("cvt.rn.f64.f32", 1, "no rounding modifier"),
        ("cvt.rn.s32.f32", 1, ".rni, .rzi, .rmi, .rpi"),
        ("cvt.rni.f32.f64", 1, ".rn, .rz, .rm, .rp"),
        ("cvt.ftz.s32.s16", 1, "'.ftz'"),
        ("cvt.rn.f32", 1, "nothing"),
        ("sin.f32", 1, ".approx"),
        ("prmt.b32.xyz", 3, "'.xyz'"),
        ("min.relu.u32", 2, "'.u32'"),
        ("ex2.approx.bf16", 1, "'.bf16'"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_reason(name, sources, says):
    opcode, *modifiers = name.split(".")
    with pytest.raises(UnsupportedInstruction) as caught:
        lookup(opcode, tuple(modifiers), sources, 1)
    message = caught.value.args[0]
    assert name in message
    assert says in message


def test_the_same_instruction_is_the_same_operation():
    assert lookup("mad", ("lo", "s32"), 3, 1) is lookup("mad", ("lo", "s32"), 3, 1)
    assert lookup("mad", ("lo", "s32"), 3, 1).section == "9.7.1.4"
    assert lookup("add", ("cc", "s32"), 2, 1).section == "9.7.2.1"
    assert lookup("add", ("rn", "bf16x2"), 2, 1).section == "9.7.4.1"


POOL = [
    "s8",
    "u8",
    "s16",
    "u16",
    "s32",
    "u32",
    "s64",
    "u64",
    "b16",
    "b32",
    "b64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "f16x2",
    "bf16x2",
    "s16x2",
    "u16x2",
    "pred",
    "e4m3x2",
    "tf32",
    "lo",
    "hi",
    "wide",
    "cc",
    "sat",
    "ftz",
    "rn",
    "rz",
    "rni",
    "rzi",
    "approx",
    "full",
    "NaN",
    "xorsign",
    "abs",
    "relu",
    "satfinite",
    "lt",
    "eq",
    "ltu",
    "and",
    "or",
    "l",
    "r",
    "clamp",
    "wrap",
    "shiftamt",
    "pack",
    "f4e",
    "add",
    "",
    "🙂",
]


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(sorted(opcodes())),
    st.lists(st.sampled_from(POOL), max_size=5),
    st.integers(0, 6),
    st.integers(0, 3),
)
def test_any_name_is_an_operation_or_a_clear_refusal(opcode, modifiers, sources, destinations):
    try:
        operation = lookup(opcode, tuple(modifiers), sources, destinations)
    except UnsupportedInstruction:
        return
    assert (len(operation.sources), len(operation.destinations)) == (sources, destinations)


# One form or more of every opcode, with the number of sources and destinations.
FORMS = """
add.s32/2 add.u64/2 add.sat.s32/2 add.s16x2/2 sub.s16/2 mul.lo.s32/2 mul.hi.u64/2 mul.wide.s16/2
mul.wide.u32/2 mad.lo.s32/3 mad.wide.u32/3 mul24.hi.s32/2 mad24.lo.u32/3 sad.s32/3 div.s32/2
div.u64/2 rem.s16/2 rem.s64/2 abs.s32/1 neg.s64/1 min.s32.relu/2 max.u16/2 add.cc.u32/2
addc.cc.u64/2 addc.s32/2 sub.cc.u32/2 subc.u32/2 mad.lo.cc.u32/3 madc.hi.u64/3 add.f32/2
add.rz.ftz.f32/2 sub.f64/2 mul.sat.f32/2 fma.rn.f32/3 fma.rp.f64/3 mad.rn.f32/3 div.rn.f32/2
div.approx.f32/2 rcp.approx.ftz.f64/1 rcp.rn.f64/1 sqrt.rn.f32/1 rsqrt.approx.f64/1 abs.f32/1
neg.f64/1 copysign.f64/2 min.f32/2 max.NaN.f32/2 add.f16/2 mul.bf16x2/2 sub.f16x2/2 fma.rn.f16/3
fma.rn.relu.bf16x2/3 neg.f16x2/1 abs.bf16/1 min.NaN.f16x2/2 max.bf16/2 sin.approx.f32/1
cos.approx.ftz.f32/1 lg2.approx.f32/1 ex2.approx.f16/1 tanh.approx.bf16x2/1 setp.lt.s32/2
setp.geu.f32/2 setp.ne.and.f64/3 setp.lt.u16/2/2 setp.gt.f16x2/2/2 set.eq.u32.f16x2/2
set.lt.f32.f32/2 selp.b32/3 selp.f64/3 slct.s64.f32/3 testp.normal.f32/1 and.b32/2 or.pred/2
xor.b64/2 not.pred/1 not.b16/1 cnot.b32/1 lop3.b32/4 lop3.or.b32/5/2 shl.b64/2 shr.s32/2
shr.u16/2 shf.l.wrap.b32/3 popc.b64/1 clz.b32/1 brev.b64/1 bfind.s64/1 fns.b32/3 bfe.s32/3
bfi.b64/4 szext.clamp.s32/2 bmsk.wrap.b32/2 prmt.b32/3 prmt.b32.ecl/3 dp4a.s32.u32/3
dp2a.hi.u32.s32/3 vadd.s32.u32.s32.sat/2 vsub.u32.u32.u32/2 vabsdiff.s32.s32.s32.add/3
vmin.u32.s32.s32.sat/2 vmax.s32.s32.s32.min/3 vset.u32.s32.lt/2 vset2.s32.s32.ge.add/3
vset4.u32.u32.ne/3 vadd4.s32.s32.s32.sat/3 vsub2.u32.u32.u32/3 vabsdiff4.u32.u32.u32.add/3
vmin2.s32.s32.s32/3 vmax4.u32.u32.u32/3 vadd2.u32.u32.u32/3 vsub4.s32.s32.s32/3
vabsdiff2.u32.u32.u32/3 vmin4.u32.u32.u32/3 vmax2.s32.s32.s32/3 cvt.s64.s32/1 cvt.u8.u32/1
cvt.rn.f32.s64/1 cvt.rzi.s32.f32/1 cvt.rn.f16.f64/1 cvt.f32.bf16/1 cvt.rn.f16x2.f32/2
cvt.rn.satfinite.e4m3x2.f32/2 cvt.rn.f16x2.e5m2x2/1 cvt.rna.tf32.f32/1 cvt.pack.sat.u8.s32.b32/3
""".split()


def form(text):
    name, *counts = text.split("/")
    opcode, *modifiers = name.split(".")
    sources, destinations = (int(counts[0]), int(counts[1]) if len(counts) > 1 else 1)
    return lookup(opcode, tuple(modifiers), sources, destinations)


def test_every_opcode_has_a_form_here():
    assert {text.split(".")[0] for text in FORMS} == opcodes()


def outputs(operation, arrays):
    with np.errstate(all="ignore"):
        result = operation.function(*arrays)
    return result if isinstance(result, tuple) else (result,)


def operands(operation, count, seed):
    generator = np.random.default_rng(seed)
    dtypes = (*operation.sources, *[np.dtype(bool)] * operation.carry_in)
    return [
        generator.integers(0, 2, count).astype(bool)
        if dtype.kind == "b"
        else np.frombuffer(generator.bytes(count * dtype.itemsize), dtype).copy()
        for dtype in dtypes
    ]


@pytest.mark.parametrize("text", FORMS)
def test_lanes_are_independent_and_shapes_broadcast(text):
    """Whatever the number of lanes, and whichever operands are uniform, each lane gets what it
    would get alone; operands are left as they were."""
    operation = form(text)
    full = operands(operation, 41, 1)
    alone = [
        np.concatenate(column)
        for column in zip(
            *[outputs(operation, [a[i : i + 1] for a in full]) for i in range(41)], strict=True
        )
    ]
    wanted = [*operation.destinations, *[np.dtype(bool)] * operation.carry_out]
    for count in (0, 1, 2, 15, 16, 17, 33, 41):
        before = [a.copy() for a in full]
        got = outputs(operation, [a[:count] for a in full])
        assert [g.dtype for g in got] == wanted
        for g, one in zip(got, alone, strict=True):
            assert g.tobytes() == one[:count].tobytes(), count
        assert [a.tobytes() for a in full] == [a.tobytes() for a in before]
    for uniform in range(len(full)) if len(full) > 1 else ():
        mixed = [a[:1] if i == uniform else a for i, a in enumerate(full)]
        spread = [np.repeat(a[:1], 41) if i == uniform else a for i, a in enumerate(full)]
        for g, one in zip(outputs(operation, mixed), outputs(operation, spread), strict=True):
            assert g.tobytes() == one.tobytes(), uniform


def test_nothing_warns_under_the_promised_errstate():
    """NaN, infinities, zero divisors and overflows are ordinary operands on a GPU."""
    for text in FORMS:
        operation = form(text)
        for pattern in (0x00, 0xFF, 0x7F, 0x80):
            arrays = [
                np.full(40 * d.itemsize, pattern & 1 if d.kind == "b" else pattern, np.uint8).view(
                    d
                )
                for d in operation.sources
            ]
            outputs(operation, arrays + [np.ones(40, bool)] * operation.carry_in)
