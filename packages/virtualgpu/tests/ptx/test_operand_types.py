"""Operands of the wrong type or number, as inline assembly has them, and those that look wrong.

ptxas 13.0 refuses each line of REFUSED and takes each of TAKEN.
"""

from __future__ import annotations

import numpy as np
import pytest

from virtualgpu.cuda.module import Module
from virtualgpu.errors import PTXSyntaxError

TEXT = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{{
    .reg .pred %p<4>;
    .reg .b16 %h<4>;
    .reg .f16 %hf<4>;
    .reg .b32 %b<4>;
    .reg .u32 %u<4>;
    .reg .f32 %f<4>;
    .reg .b64 %d<4>;
    .reg .s64 %l<4>;
    .reg .f64 %x<4>;
    .shared .align 8 .b8 shared[64];
    ld.param.u64 %d0, [p];
    mov.u64 %d1, shared;
    mov.u64 %d2, %d0;
    mov.b32 %b1, 1;
    .loc 1 7 0
    {line}
Next:
    ret;
}}
.file 1 "kernel.cu"
"""

REFUSED = {
    "add.s32 %u1, %l1, %u2;": r"%l1 is \.s64 where it takes \.s32",
    "add.s32 %l1, %u1, %u2;": r"%l1 is \.s64 where it takes \.s32",
    "add.f32 %f1, %f2, %u1;": r"%u1 is \.u32 where it takes \.f32",
    "add.u32 %u1, %u2, %f1;": r"%f1 is \.f32 where it takes \.u32",
    "add.u32 %u1, %u2, 0f3F800000;": "a float literal where it takes",
    "add.u32 %u1, %u2, [%d0];": "an address where it takes",
    "add.u64 %l1, shared, 4;": "shared is no register",
    "add.bf16 %hf1, %h1, %h2;": r"%hf1 is \.f16 where it takes \.bf16",
    "mul.wide.s32 %u1, %u1, 4;": r"%u1 is \.u32 where it takes \.s64",
    "shl.b64 %d0, %d0, %d1;": r"%d1 is \.b64 where it takes \.u32",
    "setp.eq.u32 %b1, %u1, %u2;": r"%b1 is \.b32 where it takes \.pred",
    "setp.eq.u32 %p1|%b1, %u1, %u2;": r"%b1 is \.b32 where it takes \.pred",
    "selp.b32 %b1, %b1, %b1, %b2;": r"%b2 is \.b32 where it takes \.pred",
    "selp.f32 %f1, %f1, %u1, %p1;": r"%u1 is \.u32 where it takes \.f32",
    "and.pred %p1, %p2, %b1;": r"%b1 is \.b32 where it takes \.pred",
    "@%b1 add.u32 %u1, %u1, 1;": r"%b1 is \.b32 where it takes \.pred",
    "@%u1 bra Next;": r"%u1 is \.u32 where it takes \.pred",
    "cvt.u64.u32 %l1, %p1;": r"%p1 is \.pred where it takes \.u32",
    "cvt.rn.f32.s32 %u1, %u2;": r"%u1 is \.u32 where it takes \.f32",
    "mov.f32 %f1, %u1;": r"%u1 is \.u32 where it takes \.f32",
    "mov.u32 %l1, %u1;": r"%l1 is \.s64 where it takes \.u32",
    "mov.pred %p1, %b1;": r"%b1 is \.b32 where it takes \.pred",
    "mov.b64 {%b1, %h1}, %d0;": r"%h1 is \.b16 where it takes \.b32",
    "ld.global.f32 %u1, [%d0];": r"%u1 is \.u32 where it takes \.f32",
    "ld.global.u64 %u1, [%d0];": r"%u1 is \.u32 where it takes \.u64",
    "ld.global.u32 %b1, [%x1];": r"%x1 is \.f64 where it takes \.u64",
    "st.global.u32 [%d0], %f1;": r"%f1 is \.f32 where it takes \.u32",
    "st.global.u8 [%d0], %p1;": r"%p1 is \.pred where it takes \.u8",
    "atom.global.add.u32 %b1, [%d0], %f1;": r"%f1 is \.f32 where it takes \.u32",
    "red.global.add.u32 [%d0], %d1;": r"%d1 is \.b64 where it takes \.u32",
    "bar.sync;": "it has 0 operands",
    "bar.sync %d0;": r"%d0 is \.b64 where it takes \.u32",
    "bar.arrive 1;": "it has 1 operand",
    "bar.red.popc.u32 %b1, 0, %b2;": r"%b2 is \.b32 where it takes \.pred",
    "vote.sync.all.pred %p1, %b1, -1;": r"%b1 is \.b32 where it takes \.pred",
    "shfl.sync.up.b32 %b1, %d1, 1, 0, -1;": r"%d1 is \.b64 where it takes \.b32",
    "shfl.sync.up.b32 %b1, %b1, 1, -1;": "it has 4 operands",
    "redux.sync.add.s32 %b1, %f1, -1;": r"%f1 is \.f32 where it takes \.s32",
    "cvta.to.global.u64 %d1, %b1;": r"%b1 is \.b32 where it takes \.u64",
    "isspacep.shared %p1, %x1;": r"%x1 is \.f64 where it takes \.u64 or \.u32",
    "mapa.u64 %d1, %d1, %f1;": r"%f1 is \.f32 where it takes \.u32",
    "nanosleep.u32 %d1;": r"%d1 is \.b64 where it takes \.u32",
    "mbarrier.init.shared.b64 [shared], %d1;": r"%d1 is \.b64 where it takes \.u32",
    "mbarrier.arrive.shared.b64 %x1, [shared];": r"%x1 is \.f64 where it takes \.u64",
    "mbarrier.init.shared.b64 %d1, 1;": "%d1 where it takes an address",
    "cp.async.ca.shared.global [shared], [%d0], 4, %f1;": r"where it takes \.u32 or \.pred",
    "cp.async.ca.shared.global [shared], [%d0], 5;": "must be a literal number.*4, 8, 16",
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%b1, %d1}, [shared];": r"%d1 is \.b64",
    "activemask.b32 %d1;": r"%d1 is \.b64 where it takes \.b32",
}

TAKEN = """
add.s32 %u1, %u2, %b1;
add.u64 %l1, %d0, 8;
add.f32 %f1, %f2, %b1;
add.f32 %f1, %f2, 0d3FF0000000000000;
and.b32 %b1, %f1, 0f3F800000;
add.bf16 %h1, %h1, %h2;
setp.eq.b32 %p1, %f1, %u1;
selp.b32 %b1, %f1, %u1, !%p1;
selp.b32 %b1, 1, %b1, 1;
shl.b32 %b1, %f1, %b1;
cvt.u32.u16 %l1, %u1;
cvt.u32.u64 %b1, %l1;
cvt.f32.f16 %f1, %hf1;
mov.b32 %f1, %u1;
mov.b64 %x1, {%b1, %f1};
mov.b64 {%f1, %b1}, %l1;
mov.u64 %l1, shared;
mov.b32 %u1, 0f3F800000;
ld.global.f32 %b1, [%d0];
ld.global.b32 %f1, [%d0];
ld.global.b32 %x1, [%d0];
ld.global.u8 %h1, [%d0];
ld.global.s8 %l1, [%d0];
ld.global.v2.f32 {%b1, %u1}, [%d0];
st.global.u8 [%d0], %l1;
st.global.b8 [%d0], %f1;
st.global.b32 [%d0], %x1;
atom.global.add.f32 %b1, [%d0], %f1;
atom.global.exch.b32 %f1, [%d0], %u1;
bar.sync %b0, 32;
vote.sync.ballot.b32 %f1, %p1, -1;
shfl.sync.bfly.b32 %f1|%p1, %f1, 1, 31, -1;
activemask.b32 %f1;
isspacep.shared %p1, %b1;
""".strip().splitlines()


def launch(line: str) -> None:
    Module.from_ptx(TEXT.format(line=line)).launch("k", 1, 32, [np.zeros(4, np.int64)])


@pytest.mark.parametrize("line", REFUSED)
def test_an_operand_that_does_not_fit_is_named_with_its_line(line):
    with pytest.raises(PTXSyntaxError, match=REFUSED[line]) as raised:
        launch(line)
    assert raised.value.location.line == 7


@pytest.mark.parametrize("line", TAKEN)
def test_a_lenient_operand_runs(line):
    launch(line)
