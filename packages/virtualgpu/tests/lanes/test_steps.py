"""Steps say what the interpreter and native code read and write: decoded once for both."""

from __future__ import annotations

import pytest

from virtualgpu.devices import VirtualDevice
from virtualgpu.program.steps import Data, MemoryAccess
from virtualgpu.ptx.opcodes import OPCODES

SOURCE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a)
{{
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [a];
  {0}
  ret;
}}
"""


def steps_of(body: str):
    program = VirtualDevice().load([SOURCE.format(body)], {}).program("k")
    return program, [step for block in program.blocks for step in block.steps]


@pytest.mark.parametrize(
    ("body", "writes", "reads"),
    [
        ("add.u32 %r1, %r2, %r3;", {"%r1"}, {"%r2", "%r3"}),
        ("setp.lt.u32 %p1|%p2, %r1, %r2;", {"%p1", "%p2"}, {"%r1", "%r2"}),
        ("selp.b32 %r1, %r2, %r3, %p1;", {"%r1"}, {"%r2", "%r3", "%p1"}),
        ("ld.global.v2.u32 {%r1, %r2}, [%rd2+8];", {"%r1", "%r2"}, {"%rd2"}),
        ("st.global.u32 [%rd2], %r1;", set(), {"%rd2", "%r1"}),
        ("atom.global.add.u32 %r1, [%rd2], %r3;", {"%r1"}, {"%rd2", "%r3"}),
        ("red.global.add.u32 [%rd2], %r3;", set(), {"%rd2", "%r3"}),
        ("mov.b64 {%r1, %r2}, %rd2;", {"%r1", "%r2"}, {"%rd2"}),
        ("shfl.sync.down.b32 %r1|%p1, %r2, 1, 31, %r3;", {"%r1", "%p1"}, {"%r2", "%r3"}),
        ("bar.red.popc.u32 %r1, 0, !%p1;", {"%r1"}, {"%p1"}),
        ("bar.sync %r1, %r2;", set(), {"%r1", "%r2"}),
        ("nanosleep.u32 %r1;", set(), {"%r1"}),
        ("prefetch.global.L1 [%rd2];", set(), {"%rd2"}),
        ("add.cc.u32 %r1, %r2, %r3;", {"%r1", "%cc"}, {"%r2", "%r3"}),
        ("addc.u32 %r1, %r2, %r3;", {"%r1"}, {"%r2", "%r3", "%cc"}),
    ],
)
def test_what_a_step_reads_and_writes(body: str, writes: set[str], reads: set[str]) -> None:
    program, steps = steps_of(body)
    name = {slot: name for name, slot in program.entry_code.slots.items()}
    step = steps[1]
    assert {name[slot] for slot in step.writes} == writes
    assert {name[slot] for slot in step.reads} == reads


def test_both_back_ends_take_the_same_steps() -> None:
    """A load's site, an operation: objects that the interpreter calls and native code copies."""
    program, steps = steps_of("ld.global.u32 %r1, [%rd1]; add.u32 %r2, %r1, 1;")
    assert [type(step) for step in steps[1:3]] == [MemoryAccess, Data]
    assert steps[1].site.space == "global"
    assert OPCODES["add"].family == "data"
    assert program.blocks[0].steps == steps[: len(program.blocks[0].steps)]
