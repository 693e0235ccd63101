"""alloca, stacksave and stackrestore against lists in Python."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import virtualgpu
from native_lab import agree
from ptx_lab import HEADER, entry, per_thread
from virtualgpu.errors import (
    MemoryAccessError,
    PTXSyntaxError,
    UnsupportedInstruction,
    VirtualGPUError,
)

THREADS = 40
# Fills %r2 words from %rd8 on with %r3, %r3 + 1, ... and afterwards adds them into %r0.
FILL = """mov.u32 %r4, 0;
    Fill: setp.ge.u32 %p1, %r4, %r2; @%p1 bra Filled;
    mad.wide.u32 %rd9, %r4, 4, %rd8; add.u32 %r5, %r3, %r4; st.local.u32 [%rd9], %r5;
    add.u32 %r4, %r4, 1; bra Fill; Filled:"""
SUM = """mov.u32 %r4, 0;
    Sum: setp.ge.u32 %p1, %r4, %r2; @%p1 bra Summed;
    mad.wide.u32 %rd9, %r4, 4, %rd8; ld.local.u32 %r5, [%rd9]; mad.lo.u32 %r0, %r0, 31, %r5;
    add.u32 %r4, %r4, 1; bra Sum; Summed:"""


def scoped(text: str) -> str:
    """Labels of its own for each use."""
    return f"{{ {text} }}"


def mixed(total: int, values) -> int:
    for value in values:
        total = (total * 31 + int(value)) % (1 << 32)
    return total


@pytest.mark.parametrize("seed", range(8))
def test_arrays_of_each_thread_keep_what_was_stored(seed):
    """Random sizes, alignments, places to go back to; the model is a list of lists."""
    chance = random.Random(seed)
    body, live, saves = ["mov.u32 %r0, 0;"], [], []
    totals = [0] * THREADS
    registers = iter(range(20, 60))
    for number in range(12):
        kind = chance.choice(("new", "new", "new", "save", "restore", "look"))
        if kind == "new":
            plus, times, align = (
                chance.randrange(9),
                chance.randrange(3),
                chance.choice((None, 1, 8, 16, 64)),
            )
            at = next(registers)
            third = "" if align is None else f", {align}"
            body.append(
                f"mad.lo.u32 %r2, %tid, {times}, {plus}; mul.wide.u32 %rd7, %r2, 4;"
                f"alloca.u64 %rd{at}, %rd7{third}; mov.u64 %rd8, %rd{at};"
                f"mad.lo.u32 %r3, %tid, 100, {number}; {scoped(FILL)}"
                f"and.b64 %rd9, %rd8, {max(align or 8, 8) - 1}; cvt.u32.u64 %r5, %rd9;"
                "add.u32 %r0, %r0, %r5;"
            )
            live.append((at, times, plus, number))
        elif kind == "save":
            at = next(registers)
            body.append(f"stacksave.u64 %rd{at};")
            saves.append((at, len(live)))
        elif kind == "restore" and saves:
            at, depth = saves.pop(chance.randrange(len(saves)))
            saves = [save for save in saves if save[1] <= depth]
            body.append(f"stackrestore.u64 %rd{at};")
            del live[depth:]
        elif live:
            for at, times, plus, first in live:
                body.append(
                    f"mad.lo.u32 %r2, %tid, {times}, {plus}; mov.u64 %rd8, %rd{at};" + scoped(SUM)
                )
                for t in range(THREADS):
                    totals[t] = mixed(totals[t], np.arange(t * times + plus) + 100 * t + first)
    out = per_thread("\n".join(body), block=THREADS)
    assert out.tolist() == totals


RECURSION = f"""{HEADER}
.func (.param .b32 result) down(.param .b32 n, .param .b32 depth)
{{ .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
   .local .align 4 .b32 here;
   ld.param.u32 %r2, [n]; ld.param.u32 %r6, [depth]; mul.wide.u32 %rd7, %r2, 4;
   st.local.u32 [here], %r6;
   alloca.u64 %rd8, %rd7, 16; mul.lo.u32 %r3, %r6, 1000;
   {scoped(FILL)}
   mov.u32 %r0, 0; setp.eq.u32 %p2, %r6, 0; @%p2 bra Last;
   {{ .param .b32 a; .param .b32 b; .param .b32 c; sub.u32 %r7, %r6, 1; add.u32 %r8, %r2, 3;
      st.param.b32 [a], %r8; st.param.b32 [b], %r7;
      call.uni (c), down, (a, b); ld.param.b32 %r0, [c]; }}
   Last: {scoped(SUM)}
   ld.local.u32 %r5, [here]; add.u32 %r0, %r0, %r5;
   st.param.b32 [result], %r0; ret; }}
"""


def down(n: int, depth: int) -> int:
    before = down(n + 3, depth - 1) if depth else 0
    return (mixed(before, range(1000 * depth, 1000 * depth + n)) + depth) % (1 << 32)


def test_each_call_has_its_own_and_gives_it_back():
    body = """rem.u32 %r10, %tid, 7; and.b32 %r11, %tid, 3;
        stacksave.u64 %rd10;
        { .param .b32 a; .param .b32 b; .param .b32 c;
          st.param.b32 [a], %r10; st.param.b32 [b], %r11;
          call.uni (c), down, (a, b); ld.param.b32 %r0, [c]; }
        stacksave.u64 %rd11; sub.u64 %rd11, %rd11, %rd10; cvt.u32.u64 %r12, %rd11;
        add.u32 %r0, %r0, %r12;"""
    out = per_thread(body, block=64, before=RECURSION.replace(HEADER, ""))
    assert out.tolist() == [down(t % 7, t & 3) for t in range(64)]


def test_generic_addresses_and_32_bits():
    body = """mov.u32 %r2, 12; alloca.u32 %r3, %r2; cvt.u64.u32 %rd8, %r3;
        st.local.v2.u32 [%rd8], {%tid, 5}; cvta.local.u64 %rd9, %rd8; isspacep.local %p1, %rd9;
        selp.u32 %r0, 1000, 0, %p1; ld.u32 %r4, [%rd9]; ld.u32 %r5, [%rd9+4];
        add.u32 %r0, %r0, %r4; add.u32 %r0, %r0, %r5;
        stacksave.u32 %r6; sub.u32 %r6, %r6, %r3; add.u32 %r0, %r0, %r6;"""
    assert per_thread(body).tolist() == [1005 + t for t in range(32)]


def test_native_code_leaves_it_to_the_interpreter():
    body = f"""add.u32 %r2, %tid, 1; mul.wide.u32 %rd7, %r2, 4; alloca.u64 %rd8, %rd7;
        mov.u32 %r0, 0; mov.u32 %r3, %gid; {scoped(FILL)} {scoped(SUM)}
        mad.wide.u32 %at, %gid, 4, %rd1; st.global.u32 [%at], %r0;"""
    agree(entry(body, 1), np.zeros(128, np.uint32), refused=True)


def error(kind: type[VirtualGPUError], body: str, **options) -> str:
    with pytest.raises(kind) as caught:
        per_thread(f"mov.u32 %r0, 0; {body}", **options)
    return str(caught.value)


def test_a_stack_that_overflows_names_the_thread():
    body = (
        "setp.eq.u32 %p1, %gid, 37; mov.u64 %rd7, 64; @%p1 mov.u64 %rd7, 600000;"
        "alloca.u64 %rd8, %rd7;"
    )
    words = error(VirtualGPUError, body, grid=2)
    assert "stack overflow: alloca of 600,000 bytes" in words and "524,288" in words
    assert "block 1" in words.replace("(", "").replace(", 0, 0)", "") and "5" in words


@pytest.mark.parametrize("size", [-1, -8, 1 << 63, (1 << 19) + 1, (1 << 64) - (1 << 22)])
def test_sizes_that_would_wrap_overflow_too(size):
    assert "stack overflow" in error(
        VirtualGPUError, f"mov.u64 %rd7, {size}; alloca.u64 %rd8, %rd7;"
    )


def test_a_loop_that_never_gives_back_overflows():
    words = error(VirtualGPUError, "mov.u64 %rd7, 4096; Again: alloca.u64 %rd8, %rd7; bra Again;")
    assert "stack overflow: alloca of 4,096 bytes" in words and "free it in each iteration" in words


def test_recursion_overflows_by_what_it_allocates():
    words = error(
        VirtualGPUError,
        """mov.u32 %r10, 30000; mov.u32 %r11, 100;
        { .param .b32 a; .param .b32 b; .param .b32 c;
          st.param.b32 [a], %r10; st.param.b32 [b], %r11;
          call.uni (c), down, (a, b); ld.param.b32 %r0, [c]; }""",
        before=RECURSION.replace(HEADER, "").replace(scoped(FILL), ""),
        block=2,
    )
    assert "stack overflow" in words and "alloca" in words


@pytest.mark.parametrize(
    "access",
    [
        "ld.local.u32 %r0, [%rd8-4];",
        "ld.local.u32 %r0, [%rd8+16];",
        "st.local.u32 [%rd8+16], %r0;",
        "stacksave.u64 %rd9; ld.local.u32 %r0, [%rd9-8];",
        "cvta.local.u64 %rd9, %rd8; ld.u32 %r0, [%rd9+16];",
    ],
)
def test_beyond_the_stack(access):
    words = error(MemoryAccessError, f"mov.u64 %rd7, 16; alloca.u64 %rd8, %rd7; {access}")
    assert "outside the thread's memory from alloca" in words and "block" in words


def test_what_was_given_back_is_gone():
    words = error(
        MemoryAccessError,
        """stacksave.u64 %rd9; mov.u64 %rd7, 16;
        alloca.u64 %rd8, %rd7; st.local.u32 [%rd8], %r0; stackrestore.u64 %rd9;
        ld.local.u32 %r0, [%rd8];""",
    )
    assert "already freed by stackrestore" in words


@pytest.mark.parametrize(
    "saved", ["mov.u64 %rd9, 0;", "add.u64 %rd9, %rd9, 8;", "sub.u64 %rd9, %rd9, 8;"]
)
def test_only_what_stacksave_gave_is_restored(saved):
    words = error(MemoryAccessError, f"stacksave.u64 %rd9; {saved} stackrestore.u64 %rd9;")
    assert "not in this function's used stack" in words and "thread" in words


@pytest.mark.parametrize(
    "text",
    [
        "alloca.u64 %rd8, %rd7, 3;",
        "alloca.u64 %rd8, %rd7, 0;",
        "alloca.u64 %rd8, %rd7, %r1;",
        "alloca.u64 %rd8, %rd7, 16777216;",
        "alloca.u64 %rd8;",
        "alloca.u64 %r1, %rd7;",
        "alloca.b64 %rd8, %rd7;",
        "alloca %rd8, %rd7;",
        "alloca.u32 %r1, %rd7;",
        "stacksave.u64 %r1;",
        "stacksave.f64 %fd1;",
        "stackrestore.u64 %rd7, %rd8;",
        "stackrestore.u32 %rd7;",
    ],
)
def test_forms_that_are_none(text):
    with pytest.raises((PTXSyntaxError, UnsupportedInstruction)):
        per_thread(f"mov.u32 %r0, 0; mov.u64 %rd7, 16; {text}")


def checked(body: str, **options) -> list:
    with warnings.catch_warnings(), virtualgpu.check() as report:
        warnings.simplefilter("ignore")
        per_thread(f"mov.u32 %r0, 0; {body}", **options)
    return report.findings


def test_check_knows_fresh_memory():
    """Written, given back and allocated anew: it is unwritten again, and so says the poison."""
    again = """stacksave.u64 %rd9; mov.u64 %rd7, 16; alloca.u64 %rd8, %rd7;
        st.local.u32 [%rd8], %tid; ld.local.u32 %r0, [%rd8]; stackrestore.u64 %rd9;
        alloca.u64 %rd8, %rd7; """
    assert checked(again) == []
    (finding,) = checked(f"{again} ld.local.u32 %r0, [%rd8];")
    assert (finding.kind, finding.count) == ("uninitialised", 32)
    assert "local" in finding.message
    fresh = per_thread(f"{again} ld.local.u32 %r0, [%rd8];")
    assert (fresh == 0xFEFEFEFE).all()


def test_check_knows_what_was_written_before_the_memory_grew():
    """Frames and stacks of many sizes: local memory grows between the stores and the loads."""
    body = """mov.u32 %r10, %tid; mov.u32 %r11, 6;
        mov.u64 %rd7, 40; alloca.u64 %rd10, %rd7; st.local.u32 [%rd10+36], %tid;
        { .param .b32 a; .param .b32 b; .param .b32 c;
          st.param.b32 [a], %r10; st.param.b32 [b], %r11;
          call.uni (c), down, (a, b); ld.param.b32 %r0, [c]; }
        mov.u64 %rd7, 20000; alloca.u64 %rd11, %rd7; st.local.u32 [%rd11], %tid;
        ld.local.u32 %r0, [%rd10+36]; ld.local.u32 %r1, [%rd11]; """
    before = RECURSION.replace(HEADER, "")
    assert checked(body, before=before) == []
    (finding,) = checked(body + "ld.local.u32 %r1, [%rd10+32];", before=before)
    assert finding.kind == "uninitialised"
