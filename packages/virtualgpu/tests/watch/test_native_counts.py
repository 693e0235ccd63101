"""What ``profile()`` counts is the same in native code as in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from native_lab import after, counted
from ptx_lab import entry
from virtualgpu import native
from virtualgpu.lanes.events import Observer
from virtualgpu.launch import launch
from virtualgpu.native import run
from virtualgpu.native.compiled import NativeKernel

TILE = ".shared .align 8 .b8 tile[8192]; .local .align 8 .b8 own[64];"
PLACE = """mul.wide.u32 %rd3, %gid, 8; add.u64 %rd4, %rd1, %rd3; shl.b32 %r1, %tid, 3;
    mov.u32 %r2, tile; add.u32 %r3, %r2, %r1; mov.u32 %r0, 0;"""
LINES = '.file 1 "k.py"\n'


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


def strided(step: int, kind: str, space: str) -> str:
    """Each lane reads its place and writes ``step`` elements further."""
    size, letter = int(kind[1:]) // 8, {"32": "r", "64": "rd", "16": "h", "_8": "r"}[kind[-2:]]
    base = "%rd1" if space == "global" else "%rd6"
    return f"""mul.lo.u32 %r4, %tid, {step * size}; and.b32 %r4, %r4, {4095 & -size};
        mov.u64 %rd6, tile; cvt.u64.u32 %rd7, %r4; add.u64 %rd8, {base}, %rd7;
        ld.{space}.{kind} %{letter}5, [%rd8]; st.{space}.{kind} [%rd8+{size}], %{letter}5;"""


BODIES = {
    **{
        f"{space} {kind}, every {step}": strided(step, kind, space)
        for space in ("global", "shared")
        for kind in ("b32", "b64", "b16")
        for step in (1, 2, 33)
        if kind == "b32" or step != 33
    },
    "one address": """ld.global.u32 %r4, [%rd1]; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+16];
        ld.shared.u64 %rd5, [tile+8]; st.shared.u32 [tile], %r4;""",
    "vectors": """mul.wide.u32 %rd5, %gid, 16; add.u64 %rd5, %rd1, %rd5;
        ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd5]; st.global.v2.u32 [%rd5+8], {%r5, %r6};""",
    "generic": """cvta.shared.u64 %rd5, 0; mov.u64 %rd6, tile; add.u64 %rd5, %rd5, %rd6;
        mul.wide.u32 %rd6, %tid, 4; add.u64 %rd5, %rd5, %rd6; and.b32 %r4, %tid, 1;
        setp.eq.u32 %p1, %r4, 0; selp.b64 %rd7, %rd5, %rd4, %p1; mov.u64 %rd8, own;
        cvta.local.u64 %rd8, %rd8; ld.u32 %r5, [%rd5]; ld.u32 %r5, [%rd7]; st.u32 [%rd4], %r5;
        st.u32 [%rd8], %r5; setp.eq.u32 %p2, %r4, 1; selp.b64 %rd7, %rd8, %rd7, %p2;
        ld.u32 %r6, [%rd7]; atom.add.u32 %r7, [%rd5], 1; ld.local.u32 %r8, [own+4];""",
    "atomics": """and.b32 %r4, %tid, 5; mul.wide.u32 %rd5, %r4, 4; add.u64 %rd5, %rd1, %rd5;
        red.global.add.u32 [%rd5], 1; st.shared.u32 [%r3], 0; shl.b32 %r4, %r4, 2;
        add.u32 %r4, %r4, %r2; bar.sync 0; atom.shared.add.u32 %r6, [%r4], 2;
        red.global.max.u32 [%rd2+8], %r6; red.shared.add.u64 [tile+64], 1;""",
    "branches": """and.b32 %r4, %tid, 3; setp.eq.u32 %p1, %r4, 1; @%p1 bra Other;
        add.u32 %r0, %r0, 1; setp.gt.u32 %p2, %tid, 31; @%p2 bra On; add.u32 %r0, %r0, 1;
        bra On; Other: mul.lo.u32 %r0, %r0, 3; On: @%p1 st.global.u32 [%rd4], %r0;
        @!%p1 add.u32 %r0, %r0, 1; setp.eq.u32 %p3, %gid, 12; @%p3 exit; membar.gl;""",
    "rounds": """and.b32 %r4, %tid, 7; Next: add.u32 %r0, %r0, 1; fma.rn.f32 %f1, %f1, %f1, %f1;
        mul.f64 %fd1, %fd1, %fd1; setp.lt.u32 %p1, %r0, %r4; @%p1 bra Next;""",
    "barriers": """setp.gt.u32 %p1, %tid, 40; @%p1 ret; bar.sync 0; st.shared.u32 [%r3], %tid;
        mov.u32 %r4, 0; Next: bar.sync 0; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 3;
        @%p2 bra Next; bar.warp.sync -1; vote.sync.ballot.b32 %r5, %p2, -1;""",
    "some leave before a barrier": """setp.gt.u32 %p1, %tid, 40; @%p1 bra End; bar.sync 0;
        st.shared.u32 [%r3], %tid; bar.warp.sync -1;
        shfl.sync.bfly.b32 %r5, %r0, 1, 31, -1; End:""",
    "calls": """{ .param .b32 a; .param .b32 v; st.param.b32 [a], %tid; call (v), half, (a);
        ld.param.b32 %r0, [v]; } setp.gt.u32 %p1, %tid, 20; @%p1 bra On;
        { .param .b32 a; .param .b32 v; st.param.b32 [a], 9; call (v), half, (a);
        ld.param.b32 %r0, [v]; } On: st.global.u32 [%rd4], %r0;""",
}
HALF = """.func (.param .b32 r) half(.param .b32 x)
    { .reg .b32 %a<3>; .reg .pred %q; ld.param.u32 %a1, [x]; setp.gt.u32 %q, %a1, 10; @%q bra Big;
      add.u32 %a1, %a1, %a1; Big: shr.u32 %a1, %a1, 1; st.param.b32 [r], %a1; ret; }"""


def with_lines(body: str) -> str:
    """Each instruction on a line of its own."""
    parts = body.split(";")
    return ";".join(
        f"\n.loc 1 {number} 1\n{part}" if part.strip() else part
        for number, part in enumerate(parts, 1)
    )


@pytest.mark.parametrize("block", [64, 41])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_counts(body, block):
    inside = with_lines(PLACE + body) if "{" not in body else PLACE + body
    text = entry(inside, 2, before=HALF, variables=TILE) + LINES
    arrays = [np.zeros(4096, np.uint64), np.zeros(64, np.uint32)]
    there, wrong, _ = counted(text, None, arrays, grid=3, block=block)
    here, error, code = counted(text, native.natively, arrays, grid=3, block=block)
    assert isinstance(code, NativeKernel), code
    assert error == wrong is None
    assert there.counters.warp_instructions > 100
    assert here.counters == there.counters


@pytest.fixture
def later(monkeypatch):
    """Native code from the second wave of 128 threads on."""
    monkeypatch.setattr(launch, "WAVE_LANES", 128)
    return lambda run, first: first > 0 and native.natively(run, first)


def test_a_launch_that_changes_over_between_two_waves(later):
    """Waves that were interpreted and blocks that were not count together."""
    text = entry(PLACE + BODIES["atomics"], 2, variables=TILE)
    arrays = [np.zeros(4096, np.uint64), np.zeros(64, np.uint32)]
    there, _, _ = counted(text, None, arrays, grid=11)
    here, _, code = counted(text, later, arrays, grid=11)
    assert isinstance(code, NativeKernel)
    assert here.counters == there.counters


def test_a_launch_that_fails_counts_up_to_there(later):
    text = entry(
        PLACE + "setp.eq.u32 %p1, %gid, 500; @%p1 add.u64 %rd4, %rd4, 1;ld.global.u32 %r0, [%rd4];",
        2,
        variables=TILE,
    )
    arrays = [np.zeros(4096, np.uint64), np.zeros(64, np.uint32)]
    there, wrong, _ = counted(text, None, arrays, grid=8)
    here, error, code = counted(text, later, arrays, grid=8)
    assert isinstance(code, NativeKernel)
    assert error == wrong and error
    assert (here.counters, here.failed) == (there.counters, True)


def test_who_hears_events_has_the_launch_interpreted():
    text = entry(PLACE, 2, variables=TILE)
    arrays = [np.zeros(4096, np.uint64), np.zeros(64, np.uint32)]
    _, _, code = after(text, native.natively, arrays, observers=[Observer()])
    assert code is None


def test_a_read_of_ordinary_memory_as_constant_is_counted():
    """`.const` is no cloak: the address decides, and native code does not look."""
    text = entry(PLACE + "ld.const.u32 %r4, [%rd4]; st.global.u32 [%rd4], %r4;", 2, variables=TILE)
    arrays = np.zeros(256, np.uint64), np.zeros(1, np.uint32)
    launch, error, code = counted(text, native.natively, arrays)
    assert error is None and code == "ld.const, under profile()"
    assert (launch.counters.global_loads, launch.counters.global_stores) == (128, 128)
