"""Lanes part, loop, meet again, call and return: every lane gets its own right answer.

Above 500 lines: the shapes of control flow, each as PTX of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import nullcontext

import numpy as np
import pytest

import virtualgpu
from ptx_lab import HEADER, entry, launch, per_thread
from virtualgpu import devices
from virtualgpu.errors import (
    BudgetExceeded,
    EndlessError,
    LaunchError,
    LinkError,
    MemoryAccessError,
    PTXSyntaxError,
    TrapError,
    UnsupportedInstruction,
    VirtualGPUError,
)
from virtualgpu.launch.limits import Budget
from virtualgpu_fixtures import SUPPORT

T = np.arange(64)
SEEDS = [None, 5]


def run(seed, *args, **options):
    with nullcontext() if seed is None else virtualgpu.schedule(seed):
        return per_thread(*args, **options)


# -- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1,), (1,)),
        ((1,), (33,)),
        ((7,), (5,)),
        ((3, 2), (4, 3)),
        ((2, 3, 2), (3, 5, 7)),
        ((1, 1, 5), (1, 1, 33)),
        ((70,), (1000,)),
        ((40_000,), (1,)),
        ((2, 300), (16, 8)),
    ],
)
def test_every_thread_knows_its_place(grid, block):
    """Also over several waves of 32,768 lanes, and in blocks that end in a partial warp."""
    parts = []
    for axis in "xyz":
        parts.append(
            per_thread(
                f"mov.u32 %r1, %tid.{axis}; mov.u32 %r2, %ctaid.{axis};"
                "mad.lo.u32 %r0, %r2, 65536, %r1;",
                grid=grid,
                block=block,
            )
        )
    (gx, gy, gz), (bx, by, bz) = ((*grid, 1, 1)[:3]), ((*block, 1, 1)[:3])
    cz, cy, cx, tz, ty, tx = np.indices((gz, gy, gx, bz, by, bx)).reshape(6, -1)
    for part, (c, t) in zip(parts, ((cx, tx), (cy, ty), (cz, tz)), strict=True):
        np.testing.assert_array_equal(part, c * 65536 + t)
    sizes = per_thread(
        """
        mov.u32 %r1, %ntid.x; mov.u32 %r2, %ntid.z; mov.u32 %r3, %nctaid.y; mov.u32 %r4, %nctaid.z;
        mad.lo.u32 %r0, %r1, 1000, %r2; mad.lo.u32 %r3, %r3, 1000, %r4; xor.b32 %r0, %r0, %r3;""",
        grid=grid,
        block=block,
    )
    assert (sizes == (bx * 1000 + bz ^ gy * 1000 + gz)).all()


# -- branches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_nested_branches(seed):
    out = run(
        seed,
        """
        and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 1; setp.gt.u32 %p2, %tid, 20;
        mov.u32 %r0, 0;
        @%p1 bra Odd;
          add.u32 %r0, %r0, 1; @!%p2 bra Join; add.u32 %r0, %r0, 10; bra Join;
        Odd:
          add.u32 %r0, %r0, 100; @%p2 bra Far; add.u32 %r0, %r0, 1000; bra Join;
          Far: add.u32 %r0, %r0, 10000;
        Join: add.u32 %r0, %r0, 5;""",
        block=64,
    )
    wanted = np.where(T % 2, np.where(T > 20, 10100, 1100), np.where(T > 20, 11, 1)) + 5
    np.testing.assert_array_equal(out, wanted)


def test_lanes_meet_again_after_a_branch():
    """Reconvergence at the join, under the default schedule."""
    out = per_thread(
        """
        setp.lt.u32 %p1, %tid, 7; @%p1 bra A; mov.u32 %r1, 1; bra B; A: mov.u32 %r1, 2;
        B: activemask.b32 %r0;""",
        block=32,
    )
    assert (out == 0xFFFFFFFF).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_loops_of_different_length(seed):
    out = run(
        seed,
        """
        mov.u32 %r0, 0; mov.u32 %r1, 0;
        Loop: setp.ge.u32 %p1, %r1, %tid; @%p1 bra Out;
          and.b32 %r2, %r1, 3; setp.eq.u32 %p2, %r2, 2; add.u32 %r1, %r1, 1; @%p2 bra Loop;
          add.u32 %r0, %r0, %r1; setp.gt.u32 %p3, %r0, 500; @%p3 bra Out;
          bra.uni Loop;
        Out:""",
        block=64,
    )

    def reference(t):
        total = i = 0
        while i < t:
            skip = i % 4 == 2
            i += 1
            if skip:
                continue
            total += i
            if total > 500:
                break
        return total

    assert out.tolist() == [reference(t) for t in range(64)]


@pytest.mark.parametrize("seed", SEEDS)
def test_loops_in_loops(seed):
    out = run(
        seed,
        """
        mov.u32 %r0, 0; and.b32 %r9, %tid, 7; mov.u32 %r1, 0;
        Outer: setp.gt.u32 %p1, %r1, %r9; @%p1 bra Out; mov.u32 %r2, 0;
          Inner: mad.lo.u32 %r0, %r1, 3, %r0; add.u32 %r0, %r0, %r2; add.u32 %r2, %r2, 1;
          setp.le.u32 %p2, %r2, %r1; @%p2 bra Inner;
        add.u32 %r1, %r1, 1; bra Outer;
        Out:""",
        block=64,
    )
    wanted = [sum(3 * i + j for i in range(t % 8 + 1) for j in range(i + 1)) for t in range(64)]
    assert out.tolist() == wanted


def test_a_loop_entered_in_the_middle():
    """Control flow that no compiler of structured code writes."""
    out = per_thread(
        """
        mov.u32 %r0, 0; mov.u32 %r1, %tid; and.b32 %r2, %tid, 1; setp.eq.u32 %p1, %r2, 0;
        @%p1 bra Middle;
        Top: add.u32 %r0, %r0, 100;
        Middle: add.u32 %r0, %r0, 1; setp.eq.u32 %p2, %r1, 0; @%p2 bra Out;
        sub.u32 %r1, %r1, 1; bra Top;
        Out:""",
        block=64,
    )
    assert out.tolist() == [101 * t + 1 + 100 * (t % 2) for t in range(64)]


def test_a_branch_to_itself_and_to_the_next_instruction():
    out = per_thread("""
        mov.u32 %r0, 3; setp.eq.u32 %p1, %tid, 4; @%p1 bra Next; Next:
        @!%p1 bra Last; mov.u32 %r0, 4; Last:""")
    assert out.tolist() == [4 if t == 4 else 3 for t in range(32)]
    with (
        devices.use(virtualgpu.VirtualDevice(1 << 20, Budget(instructions=1e6))),
        pytest.raises(BudgetExceeded),
    ):
        per_thread("Self: bra Self;")


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_of_branches(seed):
    """Each lane its own target, one target twice, the lanes together at the end."""
    out = run(
        seed,
        """
        and.b32 %r1, %tid, 3; mov.u32 %r0, 0;
        ts: .branchtargets A, B, A, C;
        brx.idx %r1, ts;
        A: add.u32 %r0, %r0, 1; bra Out;
        B: add.u32 %r0, %r0, 10;
        C: add.u32 %r0, %r0, 100;
        Out: mov.u32 %r2, 2; brx.idx.uni %r2, ts2; ts2: .branchtargets D, D, E;
        D: mov.u32 %r0, 0; E:""",
        block=64,
    )
    assert out.tolist() == [[1, 110, 1, 100][t % 4] for t in range(64)]


def test_an_index_beyond_the_table_is_named():
    with pytest.raises(VirtualGPUError, match="index 31 in a table of 1 label"):
        per_thread("ts: .branchtargets A; A: brx.idx %tid, ts;")


# -- predication ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("add.u32 %r0, %r0, 5;", lambda t: 15, lambda t: 10),
        ("mov.u32 %r0, %tid;", lambda t: t, lambda t: 10),
        ("ld.global.u32 %r0, [%rd2];", lambda t: 77, lambda t: 10),
        ("ld.global.u32 %r0, [0];", None, None),
        ("selp.b32 %r0, 1, 2, %p2;", lambda t: 1 + (t % 2), lambda t: 10),
        ("setp.eq.u32 %p2, 0, 0; @%p2 mov.u32 %r0, 3;", lambda t: 3, lambda t: 10 if t % 2 else 3),
        ("bra Skip; mov.u32 %r0, 4; Skip:", lambda t: 10, lambda t: 4),
        ("exit;", lambda t: 0xABABABAB, lambda t: 10),
        ("ret;", lambda t: 0xABABABAB, lambda t: 10),
        ("call (value), seven;", lambda t: 7, lambda t: 10),
        ("{ .reg .b32 %r0; mov.u32 %r0, 1; }", lambda t: 10, lambda t: 10),
        ("cvt.u64.u32 %rd9, %r0; cvt.u32.u64 %r0, %rd9;", lambda t: 10, lambda t: 0),
    ],
)
def test_an_instruction_under_a_predicate(text, yes, no, seed):
    """``yes`` is what lanes 0-19 of 64 hold after it, ``no`` what the others do."""
    value = ".param .b32 value;"
    after = "ld.param.b32 %r0, [value];" if "value" in text else ""
    prepare = "st.param.b32 [value], 10;" if after else ""
    guard = "" if text.startswith("{") else "@%p1 "
    body = f"""
        {value} mov.u32 %r0, 10; mov.u64 %rd9, 0; setp.lt.u32 %p1, %tid, 20;
        and.b32 %r5, %tid, 1; setp.eq.u32 %p2, %r5, 0; {prepare}
        {guard}{text}
        {after}"""
    before = ".func (.param .b32 r) seven() { st.param.b32 [r], 7; ret; }"
    if yes is None:
        with pytest.raises(MemoryAccessError) as error:
            run(seed, body, np.uint32([77]), block=64, before=before)
        assert error.value.location.thread[0] < 20
        return
    out = run(seed, body, np.uint32([77]), block=64, before=before)
    assert out.tolist() == [yes(t) if t < 20 else no(t) for t in range(64)]


def test_predicates_that_hold_for_all_or_for_none():
    out = per_thread("""
        mov.u32 %r0, 0; setp.eq.u32 %p1, 0, 0;
        @%p1 add.u32 %r0, %r0, 1; @!%p1 add.u32 %r0, %r0, 10;
        @!%p1 ld.global.u32 %r0, [0]; @!%p1 trap; @!%p1 exit;
        setp.lt.u32 %p2, %tid, 1000; @%p2 add.u32 %r0, %r0, 100; @!%p2 st.global.u32 [0], 1;""")
    assert (out == 101).all()


def test_registers_written_on_one_path_only():
    """What the other path never wrote reads as zero there and does not disturb the merge."""
    out = per_thread("""
        setp.lt.u32 %p1, %tid, 9; @!%p1 bra Join;
        mov.u32 %r1, 5; cvt.rn.f32.u32 %f1, %tid; mov.u64 %rd5, -1; setp.eq.u32 %p2, %tid, %tid;
        Join: add.u32 %r0, %r1, 1; cvt.rzi.u32.f32 %r2, %f1; add.u32 %r0, %r0, %r2;
        cvt.u32.u64 %r3, %rd5; add.u32 %r0, %r0, %r3; @%p2 add.u32 %r0, %r0, 1000;""")
    assert out.tolist() == [t + 1005 if t < 9 else 1 for t in range(32)]


# -- calls ----------------------------------------------------------------------------------------

FUNCTIONS = """
    .func (.param .b32 r) twice(.param .b32 x)
    { .reg .b32 %r<3>; ld.param.u32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
    .func (.param .b32 r) square(.param .b32 x)
    { .reg .b32 %r<3>; ld.param.u32 %r1, [x]; mul.lo.u32 %r2, %r1, %r1; st.param.b32 [r], %r2;
      ret; }
    .func (.param .b32 r) sign(.param .b32 x)
    { .reg .b32 %r<3>; .reg .pred %p<3>; ld.param.u32 %r1, [x]; setp.lt.u32 %p1, %r1, 5;
      @%p1 bra Small; setp.gt.u32 %p2, %r1, 50; @%p2 bra Large;
      st.param.b32 [r], 2; ret;
      Small: st.param.b32 [r], 1; ret;
      Large: st.param.b32 [r], 3; }
    .func (.param .b32 r) fibonacci(.param .b32 n)
    { .reg .b32 %r<9>; .reg .pred %p1; ld.param.u32 %r1, [n]; setp.ge.u32 %p1, %r1, 2;
      @%p1 bra Deep; st.param.b32 [r], %r1; ret;
      Deep: sub.u32 %r2, %r1, 1;
      { .param .b32 param0; .param .b32 retval0; st.param.b32 [param0], %r2;
        call.uni (retval0), fibonacci, (param0); ld.param.b32 %r3, [retval0]; }
      sub.u32 %r2, %r1, 2;
      { .param .b32 param0; .param .b32 retval0; st.param.b32 [param0], %r2;
        call.uni (retval0), fibonacci, (param0); ld.param.b32 %r4, [retval0]; }
      add.u32 %r5, %r3, %r4; st.param.b32 [r], %r5; ret; }
    .func (.param .b32 r) even(.param .b32 n);
    .func (.param .b32 r) odd(.param .b32 n)
    { .reg .b32 %r<4>; .reg .pred %p1; ld.param.u32 %r1, [n]; mov.u32 %r2, 0;
      setp.eq.u32 %p1, %r1, 0; @%p1 bra Out; sub.u32 %r1, %r1, 1;
      { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), even, (a);
        ld.param.b32 %r2, [b]; }
      Out: st.param.b32 [r], %r2; ret; }
    .func (.param .b32 r) even(.param .b32 n)
    { .reg .b32 %r<4>; .reg .pred %p1; ld.param.u32 %r1, [n]; mov.u32 %r2, 1;
      setp.eq.u32 %p1, %r1, 0; @%p1 bra Out; sub.u32 %r1, %r1, 1;
      { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), odd, (a);
        ld.param.b32 %r2, [b]; }
      Out: st.param.b32 [r], %r2; ret; }
    .func nothing() { }
    .global .align 8 .u64 table[3] = {twice, square, sign};
"""
CALL = """{{ .param .b32 param0; .param .b32 retval0; st.param.b32 [param0], {x};
    call (retval0), {f}, (param0); ld.param.b32 {r}, [retval0]; }}"""


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_calls_in_some_lanes_and_returns_from_several_places(seed):
    out = run(
        seed,
        f"""
        mov.u32 %r0, 7; setp.gt.u32 %p1, %tid, 10; @!%p1 bra Out;
        {CALL.format(x="%tid", f="twice", r="%r1")}
        {CALL.format(x="%tid", f="sign", r="%r2")}
        call nothing; call.uni nothing, ();
        mad.lo.u32 %r0, %r2, 1000, %r1;
        Out: add.u32 %r0, %r0, %tid;""",
        before=FUNCTIONS,
        block=64,
    )
    sign = np.where(T < 5, 1, np.where(T > 50, 3, 2))
    np.testing.assert_array_equal(out, np.where(T > 10, sign * 1000 + 2 * T, 7) + T)


@pytest.mark.parametrize("seed", SEEDS)
def test_recursion(seed):
    """Each depth has registers of its own; lanes are at different depths."""
    out = run(
        seed,
        f"""
        rem.u32 %r1, %tid, 9; mov.u32 %r5, 12345;
        {CALL.format(x="%r1", f="fibonacci", r="%r2")}
        {CALL.format(x="%tid", f="even", r="%r3")}
        mad.lo.u32 %r0, %r3, 1000, %r2; sub.u32 %r5, %r5, 12345; add.u32 %r0, %r0, %r5;""",
        before=FUNCTIONS,
        block=40,
    )
    assert out.tolist() == [fibonacci(t % 9) + 1000 * (t % 2 == 0) for t in range(40)]


@pytest.mark.parametrize("seed", SEEDS)
def test_calls_through_pointers(seed):
    """A table of functions, each lane its own; and one address for all."""
    indirect = """{{ .param .b32 param0; .param .b32 retval0; st.param.b32 [param0], %tid;
        call (retval0), {f}, (param0), prototype; ld.param.b32 {r}, [retval0]; }}"""
    out = run(
        seed,
        f"""
        prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
        rem.u32 %r1, %tid, 3; mad.wide.u32 %rd5, %r1, 8, 0; mov.u64 %rd6, table;
        add.u64 %rd5, %rd5, %rd6; ld.global.u64 %rd7, [%rd5];
        {indirect.format(f="%rd7", r="%r2")}
        mov.u64 %rd8, square;
        {indirect.format(f="%rd8", r="%r3")}
        mad.lo.u32 %r0, %r3, 10000, %r2;""",
        before=FUNCTIONS,
        block=64,
    )
    sign = np.where(T < 5, 1, np.where(T > 50, 3, 2))
    first = np.select([T % 3 == 0, T % 3 == 1], [2 * T, T * T], sign)
    np.testing.assert_array_equal(out, T * T * 10000 + first)


@pytest.mark.parametrize("address", ["0", "1", "0x300000008", "0x300001000", "-1", "%rd1"])
def test_a_call_of_what_is_no_function(address):
    with pytest.raises(MemoryAccessError, match="call of an address that is not a function"):
        per_thread(
            f"""
            mov.u64 %rd5, {address};
            p: .callprototype _ (); call %rd5, (), p;""",
            before=FUNCTIONS,
        )


def test_a_call_with_the_wrong_parameters():
    with pytest.raises(VirtualGPUError, match="takes 1"):
        per_thread(
            "mov.u64 %rd5, twice; p: .callprototype _ (); call %rd5, (), p;", before=FUNCTIONS
        )


REGISTER_PARAMETERS = """
    .func (.reg .u32 most, .reg .f64 half) both (.reg .u32 a, .reg .u32 b)
    {
        .reg .pred p;
        setp.gt.u32 p, a, b; selp.u32 most, a, b, p;
        add.u32 a, a, b; cvt.rn.f64.u32 half, a; mul.f64 half, half, 0d3FE0000000000000;
        ret;
    }
"""


def test_parameters_in_registers():
    """PTX ISA, ".func": ``.reg`` parameters and results are the body's own registers, and the
    caller's keep what they held."""
    body = """xor.b32 %r1, %gid, 5; mul.lo.u32 %r2, %gid, 3; and.b32 %r5, %gid, 3;
        setp.eq.u32 %p1, %r5, 2; mov.u32 %r3, 0; mov.f64 %fd1, 0d0000000000000000;
        @%p1 bra Out; call (%r3, %fd1), both, (%r1, %r2); Out:
        cvt.rzi.u32.f64 %r4, %fd1; mad.lo.u32 %r0, %r3, 1000, %r4; add.u32 %r0, %r0, %r1;"""
    out = per_thread(body, grid=2, block=48, before=REGISTER_PARAMETERS)
    g = np.arange(96)
    a, b = g ^ 5, g * 3
    called = np.where(g & 3 == 2, 0, np.maximum(a, b) * 1000 + (a + b) // 2)
    np.testing.assert_array_equal(out, called + a)
    with pytest.raises(PTXSyntaxError, match=r"must be in \.param"):
        virtualgpu.Module.from_ptx(HEADER + ".visible .entry k(.reg .u32 n) { ret; }")
    with pytest.raises(PTXSyntaxError, match=r"unknown register type \.u3"):
        per_thread("mov.u32 %r0, 0;", before=".func f(.reg .u3 n) { ret; }")
    with pytest.raises(VirtualGPUError, match="1 argument; it takes 2"):
        per_thread("call (%r3, %fd1), both, (%r1); mov.u32 %r0, 0;", before=REGISTER_PARAMETERS)


def test_recursion_that_never_ends():
    with pytest.raises(VirtualGPUError, match="stack overflow"):
        per_thread("call f;", before=".func f() { call f; ret; }")


def test_a_function_that_nothing_defines():
    with pytest.raises(LinkError, match="missing"):
        per_thread("call missing;", before=".extern .func missing();")
    with pytest.raises(LinkError, match="missing"):
        per_thread("call missing;")


def test_a_function_from_another_text():
    library = (
        HEADER
        + """.visible .func (.param .b32 r) nine() { st.param.b32 [r], 9; ret; }
        .visible .global .u32 shared_word = 33;"""
    )
    user = entry(
        """
        { .param .b32 v; call (v), nine; ld.param.b32 %r1, [v]; }
        ld.global.u32 %r2, [shared_word]; add.u32 %r1, %r1, %r2; st.global.u32 [%rd1], %r1;""",
        1,
        before=".extern .func (.param .b32 r) nine(); .extern .global .u32 shared_word;",
    )
    out = np.zeros(1, np.uint32)
    virtualgpu.Module.from_ptx(user, library).launch("k", 1, 1, [out])
    assert out[0] == 42
    with pytest.raises(LinkError, match="two PTX modules"):
        virtualgpu.Module.from_ptx(library, library)


def test_a_weak_function_gives_way():
    weak = HEADER + ".weak .func (.param .b32 r) f() { st.param.b32 [r], 1; ret; }"
    strong = HEADER + ".visible .func (.param .b32 r) f() { st.param.b32 [r], 2; ret; }"
    user = entry(
        "{ .param .b32 v; call (v), f; ld.param.b32 %r1, [v]; }st.global.u32 [%rd1], %r1;",
        1,
        before=".extern .func (.param .b32 r) f();",
    )
    for texts in ([user, weak, strong], [user, strong, weak], [strong, weak, user]):
        out = np.zeros(1, np.uint32)
        virtualgpu.Module.from_ptx(*texts).launch("k", 1, 1, [out])
        assert out[0] == 2


# -- ends -----------------------------------------------------------------------------------------


def test_falling_off_the_end_returns():
    text = (
        f"{HEADER}.visible .entry k(.param .u64 p) {{ .reg .b64 %rd1; ld.param.u64 %rd1, [p];"
        "st.global.u32 [%rd1], 1; }"
    )
    out = np.zeros(1, np.uint32)
    launch(text, 2, 3, [out])
    assert out[0] == 1
    launch(HEADER + ".visible .entry k() { }", 5, 5)


def test_a_trap_names_the_thread():
    with pytest.raises(TrapError, match="thread 3 of block 1"):
        per_thread("setp.eq.u32 %p1, %gid, 35; @%p1 trap;", grid=2)
    assert (per_thread("brkpt; mov.u32 %r0, 1;") == 1).all()


def test_what_the_machine_lacks_is_named_with_its_line():
    with pytest.raises(UnsupportedInstruction, match=r"tex\.base.*tex\.base\.1d\.v4.* \{%f1"):
        per_thread("tex.base.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];")
    with pytest.raises(UnsupportedInstruction, match="%pm0"):
        per_thread("mov.u32 %r0, %pm0;")


@pytest.mark.parametrize(
    "text",
    [
        "add.u32 %r0, %r1;",
        "add.u32 %r0, %r1, %r2, %r3;",
        "mov.u32 %r0;",
        "ld.global.u32 %r0, %r1;",
        "st.global.u32 [%rd1];",
        "setp.eq.f32 %p1, %f1, 7;",
        "bar.sync;;bar.sync 0, 1, 2, 3;st.global.u32 %r0, %r1;",
        "call;",
        "call 5;",
        "brx.idx %r1, 7;",
        "mov.u32 5, %r1;",
        "st.global.v2.u32 [%rd1], {%r1, %r2, %r3};",
        "st.global.v4.u32 [%rd1], %r1;",
        "ld.global.v2.u32 {%r1}, [%rd1];",
        "st.global.u32 [%rd1], {%r1, %r2};",
        "ld.global.v2.u32 {%r1 %r2}, [%rd1];",
        "atom.global.cas.b32 %r0, [%rd1], %r1;",
        "atom.global.add.u32 %r0, [%rd1], %r1, %r2;",
        "shfl.sync.up.b32 %r0, %r1;",
        "mov.b64 {%r1, %r2, %r3}, %rd1;",
        "atom.global.add.u32 %r0;",
    ],
)
def test_instructions_with_wrong_operands(text):
    with pytest.raises((PTXSyntaxError, UnsupportedInstruction, LinkError)):
        per_thread(text)


# -- launches and budgets -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "block", "words"),
    [
        (0, 32, "at least 1"),
        (1, 0, "at least 1"),
        (-1, 32, "at least 1"),
        (1, 1025, "at most 1024"),
        (1, (32, 33), "at most 1024"),
        (1, (1, 1, 65), "x, y and z a block has at most"),
        (2**31, 1, "larger than"),
        ((1, 65536), 1, "larger than"),
        ((1, 1, 65536), 1, "larger than"),
    ],
)
def test_launches_that_no_device_takes(grid, block, words):
    with pytest.raises(LaunchError, match=words):
        launch(entry(""), grid, block)


def test_what_a_kernel_demands_of_its_launch():
    launch(HEADER + ".visible .entry k() .reqntid 8, 2 { }", 1, (8, 2))
    with pytest.raises(LaunchError, match=r"\(8, 2, 1\)"):
        launch(HEADER + ".visible .entry k() .reqntid 8, 2 { }", 1, 16)
    with pytest.raises(LaunchError, match="at most 64"):
        launch(HEADER + ".visible .entry k() .maxntid 64 { }", 1, 65)
    with pytest.raises(LaunchError, match="takes 1 "):
        launch(entry("", 1), 1, 1, [])
    with pytest.raises(LaunchError, match="no kernel missing"):
        virtualgpu.Module.from_ptx(entry("")).launch("missing", 1, 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("grid", [(2**31 - 1, 65535, 65535), (2**31 - 1,)])
def test_an_absurd_grid_ends_by_the_budget(grid, seed):
    """Ten to the nineteen threads are neither listed nor shuffled."""
    with (
        devices.use(virtualgpu.VirtualDevice(1 << 20, Budget(instructions=1e6))),
        nullcontext() if seed is None else virtualgpu.schedule(seed),
        pytest.raises(BudgetExceeded, match="1,000,000"),
    ):
        launch(entry(""), grid, 256)


@pytest.mark.parametrize(
    "body",
    [
        "Again: bra Again;",
        "Again: add.u32 %r1, %r1, 1; bra Again;",
        "Again: @%p1 exit; bra Again;",
        "setp.eq.u32 %p1, %tid, 3; Again: @%p1 bra Again; bar.sync 0;",
        "Again: bar.sync 0; bra Again;",
        "Again: atom.global.add.u32 %r1, [%rd1], 0; bra Again;",
        "Again: nanosleep.u32 1000000000; bra Again;",
        "Again: vote.sync.any.pred %p1, 0, -1; bra Again;",
        "Again: call f; bra Again;",
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_kernel_that_never_ends_is_named(body, seed):
    begin = time.thread_time()
    with (
        devices.use(virtualgpu.VirtualDevice(1 << 20, Budget(seconds=20))),
        pytest.raises(EndlessError),
    ):
        run(seed, body, before=".func f() { ret; }")
    assert time.thread_time() - begin < 5


# Its counter comes to 0 after 2**64 rounds.
LONG = "Again: add.u64 %rd9, %rd9, 1; setp.ne.u64 %p1, %rd9, 0; @%p1 bra Again;"


@pytest.mark.parametrize(
    "body",
    [
        LONG,
        "Again: ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; "
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra Again;",
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_kernel_that_may_end_has_its_time(body, seed):
    with (
        devices.use(virtualgpu.VirtualDevice(1 << 20, Budget(seconds=0.25))),
        pytest.raises(BudgetExceeded, match="only block had not ended: does") as stopped,
    ):
        run(seed, body)
    assert not isinstance(stopped.value, EndlessError)


def test_the_limit_of_time_may_be_set_while_programs_run(monkeypatch):
    with devices.use(virtualgpu.VirtualDevice(1 << 20)):
        monkeypatch.setenv("VIRTUALGPU_TIME_LIMIT", "0.2")
        with pytest.raises(BudgetExceeded, match=r"ran for 0\.2 s"):
            run(None, LONG)


def test_a_kernel_is_not_charged_for_the_time_that_others_have_the_processor(monkeypatch):
    clock = iter(range(0, 10**9, 1000))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with devices.use(virtualgpu.VirtualDevice(1 << 20, Budget(seconds=30))):
        run(
            None,
            "mov.u32 %r1, 0; Again: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 500; "
            "@%p1 bra Again;",
        )


def test_the_budget_names_the_line():
    text = (
        entry("""
        .loc 1 41 1
        mov.u32 %r1, 0;
        Again:
        .loc 1 42 1
        add.u32 %r1, %r1, 1; bra Again;""")
        + '\n.file 1 "kernel.cu"\n'
    )
    with (
        devices.use(virtualgpu.VirtualDevice(1 << 20, Budget(instructions=1e5))),
        pytest.raises(BudgetExceeded, match=r"kernel\.cu line 42"),
    ):
        launch(text)


def test_instructions_are_counted_for_every_lane():
    body = "add.u32 %r0, %r0, 1;" * 100
    with devices.use(virtualgpu.VirtualDevice(1 << 20, Budget(instructions=320_000))):
        launch(entry(body), 50, 32)  # 1600 lanes, 100 and some instructions each
        with pytest.raises(BudgetExceeded):
            launch(entry(body * 2), 50, 32)


def test_control_c_stops_a_kernel():
    """And the device works afterwards."""
    program = f"""
import signal, sys, threading, time
sys.path.insert(0, {str(SUPPORT)!r})
from ptx_lab import entry, launch, per_thread
# A shell that starts jobs in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
per_thread("mov.u32 %r0, 1;")
threading.Thread(target=lambda: (time.sleep(0.3), signal.raise_signal(signal.SIGINT))).start()
try:
    launch(entry({LONG!r}), 10, 100)
except KeyboardInterrupt:
    print("interrupted", per_thread("mov.u32 %r0, 7;").tolist() == [7] * 32)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "interrupted True\n", done.stderr


@pytest.mark.parametrize(
    "body",
    [
        "bar.warp.sync %rd1;",
        "shfl.sync.down.b32 %r1|%p1, %r1, 1, 31, %rd1;",
        "vote.sync.ballot.b32 %r1, %p1, %rd1;",
        "match.any.sync.b32 %r1, %r1, %rd1;",
    ],
)
def test_a_member_mask_of_64_bits(body):
    with pytest.raises(PTXSyntaxError, match=r"%rd1 is \.b64 where it takes \.u32"):
        per_thread(body)


@pytest.mark.parametrize(
    "text",
    [
        "cvta.to.global.u64 %rd3, !%rd1;",
        "cvta.to.global.u64 %rd3, !%p1;",
        "mov.pred %p1, !%r1;",
        "add.u32 %r1, %r1, !%p1;",
        "st.global.u32 [%rd1], !%r1;",
        "selp.b32 %r1, 1, 2, !%rd1;",
    ],
)
def test_only_predicates_are_negated(text):
    with pytest.raises(PTXSyntaxError, match="only predicates can be negated with !"):
        per_thread(text)


def test_a_kernel_after_one_that_failed():
    """What a failed launch held is given back."""
    gpu = virtualgpu.VirtualDevice(1 << 20)
    with devices.use(gpu):
        for _ in range(3):
            with pytest.raises(TrapError):
                per_thread("trap;")
        assert (per_thread("mov.u32 %r0, 2;") == 2).all()
    assert gpu.memory.allocated == 0


def test_clocks_grow_and_timers_are_times():
    out = per_thread(
        """
        mov.u64 %rd5, %clock64; mov.u32 %r1, 0;
        Again: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5; @%p1 bra Again;
        mov.u64 %rd6, %clock64; sub.u64 %rd7, %rd6, %rd5;""",
        dtype=np.int64,
        result="%rd7",
    )
    assert (out > 0).all()
    now = time.time_ns()
    out = per_thread("mov.u64 %rd7, %globaltimer;", dtype=np.int64, result="%rd7")
    assert now <= out[0] < now + 60e9
