"""Functions, traps and what the lanes of a warp tell each other: native code against the
interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from native_lab import after, agree
from ptx_lab import entry
from virtualgpu.native import natively, run

OUT = "mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r0;"
FUNCTIONS = """
    .func (.param .b32 r) mix(.param .b32 x, .param .b32 y)
    { .reg .b32 %a<9>; .reg .pred %q<3>; .local .align 4 .b8 own[8]; .reg .b64 %l;
      ld.param.u32 %a1, [x]; ld.param.u32 %a2, [y];
      st.local.u32 [own+4], %a1; setp.lt.u32 %q1, %a1, %a2; @%q1 bra Less;
      mul.lo.u32 %a3, %a1, 3; st.param.b32 [r], %a3; ret;
      Less: setp.gt.u32 %q2, %a2, 40; @%q2 bra Last;
      add.u32 %a4, %a4, %a2; st.param.b32 [r], %a4; ret;
      Last: ld.local.u32 %a5, [own+4]; sub.u32 %a5, %a5, %a2; st.param.b32 [r], %a5; }
    .func (.param .b32 r) twice(.param .b32 x)
    { .reg .b32 %a<9>; .local .align 4 .b8 own[16]; ld.param.u32 %a1, [x];
      st.local.u32 [own], %a1;
      { .param .b32 p; .param .b32 q; .param .b32 v; st.param.b32 [p], %a1; st.param.b32 [q], 30;
        call (v), mix, (p, q); ld.param.b32 %a2, [v]; }
      { .param .b32 p; .param .b32 q; .param .b32 v; st.param.b32 [p], %a2; st.param.b32 [q], 50;
        call (v), mix, (p, q); ld.param.b32 %a3, [v]; }
      ld.local.u32 %a4, [own]; mad.lo.u32 %a3, %a4, 1000, %a3; st.param.b32 [r], %a3; ret; }
    .func swap(.param .b64 mine, .param .b64 other)
    { .reg .b64 %x<3>; .reg .b32 %y; ld.param.u64 %x1, [mine]; ld.param.u64 %x2, [other];
      bar.sync 0; ld.shared.u32 %y, [%x2]; bar.sync 0; st.shared.u32 [%x1], %y; ret; }
    .func (.param .align 8 .b8 r[16]) pair(.param .align 4 .b8 x[12])
    { .reg .b32 %a<9>; ld.param.u32 %a1, [x+8]; ld.param.u32 %a2, [x]; ld.param.u32 %a3, [x+4];
      setp.gt.u32 %q, %a1, 40; .reg .pred %q; add.u32 %a4, %a2, %a3; @%q bra Other;
      st.param.v2.b32 [r+8], {%a4, %a1}; ret; Other: st.param.v2.b32 [r+8], {%a1, %a4}; }
    .func (.reg .u32 most, .reg .u32 sum) both(.reg .u32 a, .reg .u32 b)
    { .reg .pred p; setp.gt.u32 p, a, b; selp.u32 most, a, b, p; add.u32 a, a, b;
      @p ret; mov.u32 sum, a; ret; }
    .func (.param .b32 r) narrow(.param .b32 x)
    { .reg .b32 %a<3>; ld.param.s8 %a1, [x]; st.param.b32 [r], %a1; ret; }
"""


def call(function: str, target: str, *arguments: str) -> str:
    names = [f"param{i}" for i in range(len(arguments))]
    passed = "".join(
        f".param .b32 {n}; st.param.b32 [{n}], {a}; " for n, a in zip(names, arguments, strict=True)
    )
    return (
        f"{{ .param .b32 result; {passed} call (result), {function}, ({', '.join(names)}); "
        f"ld.param.b32 {target}, [result]; }}"
    )


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


@pytest.mark.parametrize(
    "body",
    [
        call("mix", "%r0", "%tid", "%laneid"),
        call("mix", "%r0", "%tid", "30"),
        call("mix", "%r0", "%ctaid.x", "1"),  # one value for the warp
        call("twice", "%r0", "%tid"),
        "mov.u32 %r1, 20; call (%r2, %r3), both, (%tid, %r1); mad.lo.u32 %r0, %r2, 99, %r3;"
        "add.u32 %r0, %r0, %r1;",
        call("narrow", "%r0", "%tid").replace("%tid", "300"),
        "setp.gt.u32 %p1, %tid, 20; mov.u32 %r0, 5; @%p1 bra Out;"
        + call("twice", "%r1", "%tid")
        + call("mix", "%r0", "%r1", "%tid")
        + "Out:",
        "setp.gt.u32 %p1, %tid, 20; @%p1 bra Other;"
        + call("mix", "%r0", "%tid", "9")
        + "bra Out; Other:"
        + call("mix", "%r0", "%tid", "60")
        + "Out:",
        "mov.u32 %r2, 0; mov.u32 %r0, 0; Next:"
        + call("mix", "%r1", "%r2", "%tid")
        + "add.u32 %r0, %r0, %r1; add.u32 %r2, %r2, 7; setp.lt.u32 %p1, %r2, %tid; @%p1 bra Next;",
        "and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 0; .param .b32 result; .param .b32 a;"
        "st.param.b32 [a], %tid; @%p1 call (result), twice, (a); ld.param.b32 %r0, [result];",
        """{ .param .align 4 .b8 s[12]; .param .align 8 .b8 v[16]; st.param.b32 [s], %tid;
      st.param.b32 [s+4], %laneid; st.param.b32 [s+8], %gid; call (v), pair, (s);
      ld.param.b32 %r1, [v+8]; ld.param.b32 %r2, [v+12]; mad.lo.u32 %r0, %r1, 1000, %r2; }""",
    ],
    ids=[
        "lanes part inside",
        "one argument",
        "one value",
        "a call in a call",
        "registers",
        "narrow",
        "in a branch",
        "at two places",
        "in a loop",
        "under a predicate",
        "structures",
    ],
)
def test_calls(body):
    agree(entry(body + OUT, 1, before=FUNCTIONS), np.zeros(4096, np.uint32), grid=3, block=80)


def test_a_barrier_inside_a_function():
    body = """
        mov.u64 %rd8, tile; mad.wide.u32 %rd5, %tid, 4, %rd8; xor.b32 %r1, %tid, 35;
        mad.wide.u32 %rd6, %r1, 4, %rd8; st.shared.u32 [%rd5], %gid; mul.lo.u32 %r3, %gid, 5;
        { .param .b64 a; .param .b64 b; st.param.b64 [a], %rd5; st.param.b64 [b], %rd6;
          call swap, (a, b); }
        ld.shared.u32 %r0, [%rd5]; add.u32 %r0, %r0, %r3;"""
    agree(
        entry(body + OUT, 1, before=FUNCTIONS, variables=".shared .align 4 .b8 tile[1024];"),
        np.zeros(4096, np.uint32),
        grid=3,
        block=64,
    )


def test_a_function_that_calls_itself_stays_on_the_other_machine():
    before = """.func f() { .reg .b32 %a; .reg .pred %q; mov.u32 %a, %laneid;
        setp.gt.u32 %q, %a, 99; @%q call f; ret; }"""
    agree(
        entry(f"call f; mov.u32 %r0, 3; {OUT}", 1, before=before),
        np.zeros(128, np.uint32),
        refused=True,
    )


# The second of two functions and a place between functions, by a number in %r1.
POINTER = """
    proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
    mov.u64 %rd5, mix; mov.u64 %rd6, less; setp.eq.u32 %p1, %r1, 1; selp.b64 %rd7, %rd6, %rd5, %p1;
    setp.eq.u32 %p1, %r1, 9; @%p1 add.u64 %rd7, %rd7, 4;
    { .param .b32 a; .param .b32 b; .param .b32 v; st.param.b32 [a], %tid; st.param.b32 [b], 20;
      call (v), %rd7, (a, b), proto; ld.param.b32 %r0, [v]; }"""
LESS = """.func (.param .b32 r) less(.param .b32 x, .param .b32 y)
    { .reg .b32 %a<9>; ld.param.u32 %a1, [x]; ld.param.u32 %a2, [y]; sub.u32 %a1, %a1, %a2;
      st.param.b32 [r], %a1; ret; }"""


@pytest.mark.parametrize(
    "which",
    [
        "mov.u32 %r1, 1;",
        "mov.u32 %r1, %ctaid.x;",
        "and.b32 %r1, %tid, 1;",
        "shr.u32 %r1, %tid, 3;",
        "mov.u32 %r1, 9;",
    ],
)
def test_calls_of_addresses(which):
    agree(
        entry(which + POINTER + OUT, 1, before=FUNCTIONS + LESS), np.zeros(256, np.uint32), block=72
    )


@pytest.mark.parametrize(
    "address", ["mov.u64 %rd7, mix;", "mov.u64 %rd7, 64;", "mul.wide.u32 %rd7, %tid, 8;"]
)
@pytest.mark.parametrize("reached", [True, False])
def test_a_call_of_an_address_that_no_function_fits(address, reached):
    """The prototype has three arguments, the function whose address is taken two: native code has
    no way to go from there, which only concerns lanes that come there."""
    text = entry(
        f"""
        proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _, .param .b32 _);
        mov.u64 %rd8, mix; {address} mov.u32 %r0, 4; setp.ge.u32 %p1, %tid, {40 * (not reached)};
        setp.lt.u32 %p2, %tid, 20; and.pred %p1, %p1, %p2; @!%p1 bra On;
        {{ .param .b32 a; .param .b32 b; .param .b32 c; .param .b32 v; st.param.b32 [a], 1;
          st.param.b32 [b], 2; st.param.b32 [c], 3;
          call (v), %rd7, (a, b, c), proto; ld.param.b32 %r0, [v]; }}
        On: {OUT}""",
        1,
        before=FUNCTIONS,
    )
    agree(text, np.zeros(256, np.uint32), block=72)


JUMPS = """
    Again: brx.idx %r1, table;
    table: .branchtargets Out, Two, One, Two;
    One: add.u32 %r0, %r0, 10; sub.u32 %r1, %r1, 1; bra Again;
    Two: add.u32 %r0, %r0, 100; setp.eq.u32 %p1, %r1, 1; selp.u32 %r1, 0, 2, %p1; bra Again;
    Out: activemask.b32 %r2; add.u32 %r0, %r0, %r2;"""


@pytest.mark.parametrize("index", ["1", "%ctaid.x", "%tid", "4", "%laneid"])
def test_jumps_by_a_table(index):
    which = f"mov.u32 %r1, {index}; mov.u32 %r0, 0;"
    if index == "%tid":
        which += "and.b32 %r1, %r1, 3;"
    agree(entry(which + JUMPS + OUT, 1), np.zeros(256, np.uint32), grid=3, block=40)


@pytest.mark.parametrize(
    "body",
    [
        "setp.eq.u32 %p1, %gid, 70; @%p1 trap;",
        "setp.gt.u32 %p1, %gid, 9; @%p1 call f;",
        "setp.ne.u32 %p1, %gid, 70; @%p1 bra On; trap; On:",
    ],
)
def test_a_trap_names_the_same_thread(body):
    agree(
        entry(body + "mov.u32 %r0, 1;" + OUT, 1, before=".func f() { trap; }"),
        np.zeros(256, np.uint32),
    )


ASSERTING = """
    .global .align 1 .b8 words[6] = {105, 32, 60, 32, 110, 0};
    .global .align 1 .b8 file[5] = {107, 46, 99, 117, 0};
    .extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d,
                               .param .b64 e);"""


def test_a_failed_assertion_has_the_same_words():
    body = """setp.gt.u32 %p1, %gid, 70; @!%p1 bra On;
        mov.u64 %rd5, words; cvta.global.u64 %rd5, %rd5; mov.u64 %rd6, file;
        cvta.global.u64 %rd6, %rd6;
        { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
          st.param.b64 [a], %rd5; st.param.b64 [b], %rd6; st.param.b32 [c], 12;
          st.param.b64 [d], %rd5; st.param.b64 [e], 1;
          call __assertfail, (a, b, c, d, e); }
        On: mov.u32 %r0, 1;"""
    text = entry(body + OUT, 1, before=ASSERTING)
    agree(text, np.zeros(256, np.uint32))
    assert "assertion `i < n` failed" in (after(text, natively, [np.zeros(256)])[1] or "")


@pytest.mark.parametrize("block", [64, 45])
@pytest.mark.parametrize(
    "instruction",
    [
        *(
            f"redux.sync.{mode} %r0, %r1, -1;"
            for mode in (
                "add.s32",
                "add.u32",
                "min.s32",
                "min.u32",
                "max.s32",
                "max.u32",
                "and.b32",
                "or.b32",
                "xor.b32",
            )
        ),
        "elect.sync %r0|%p1, -1; @%p1 add.u32 %r0, %r0, 100;",
        "and.b32 %r2, %r1, 3; match.any.sync.b32 %r0, %r2, -1;",
        "cvt.u64.u32 %rd5, %r1; and.b64 %rd5, %rd5, 5; match.any.sync.b64 %r0, %rd5, -1;",
        "match.all.sync.b32 %r0|%p1, %r1, -1; @%p1 add.u32 %r0, %r0, 7;",
        "match.all.sync.b32 %r0|%p1, %ctaid.x, -1; @%p1 add.u32 %r0, %r0, 7;",
    ],
)
def test_lanes_of_a_warp_together(instruction, block):
    body = "mul.lo.u32 %r1, %gid, 0x9e3779b1; xor.b32 %r1, %r1, 0x80000000;"
    agree(entry(f"{body} {instruction} {OUT}", 1), np.zeros(256, np.uint32), block=block)
