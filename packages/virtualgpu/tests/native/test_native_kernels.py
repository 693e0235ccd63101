"""Native code against the interpreter: the same kernels, the same bytes afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from native_lab import after, agree
from ptx_lab import entry
from structured_kernels import Structured
from structured_words import inputs
from virtualgpu import native
from virtualgpu.native import run
from virtualgpu.native.compiled import NativeKernel

WORDS = 4096


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


@pytest.mark.parametrize(
    "seed",
    [*range(8), *(pytest.param(seed, marks=pytest.mark.rehearsal) for seed in range(8, 40))],
)
@pytest.mark.parametrize("meetings", [False, True])
def test_structured_kernels(seed, meetings):
    """Twenty blocks, each on words of its own; ``python -m lab.evidence.native`` has more."""
    block = [32, 64, 20, 77][seed % 4]
    agree(
        Structured(seed, meetings).text(),
        *inputs(seed, 20, block),
        grid=20,
        block=block,
        numbers=[0],
    )


def test_lanes_that_a_partner_s_barrier_lets_go():
    """They go on behind their own barrier of the warp, where no other lane ever waits."""
    random = np.random.default_rng(3026)
    arrays = random.integers(0, 1 << 32, (2, WORDS), dtype=np.uint32)
    agree((Path(__file__).parent / "lanes_let_go.ptx").read_text(), *arrays, grid=1, block=20)


def test_a_loop_of_reductions_that_change_nothing_waits_for_nobody():
    """Four lanes go round eight times; the others wait for them, and all take tickets together."""
    text = entry(
        """
      mov.u32 %r1, 0;  setp.gt.u32 %p1, %tid, 3;  @%p1 bra B;
      A: red.global.min.u32 [%rd1+128], -1;
      add.u32 %r1, %r1, 1;  setp.lt.u32 %p2, %r1, 8;  @%p2 bra A;
      B: atom.global.add.u32 %r2, [%rd1+132], 1;
      mul.wide.u32 %rd3, %tid, 4;  add.u64 %rd3, %rd1, %rd3;  st.global.u32 [%rd3], %r2;
    """,
        1,
    )
    agree(text, np.zeros(WORDS, np.uint32), grid=1, block=32)


def test_lanes_of_a_warp_lose_updates_together():
    text = entry("ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;", 1)
    agree(text, np.zeros(4, np.uint32), grid=1, block=32)


def test_a_block_whose_threads_are_no_whole_warps():
    text = entry(
        "mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3;"
        "mov.u32 %r1, %ntid.x; st.global.u32 [%rd3], %r1;",
        1,
    )
    agree(text, np.zeros(WORDS, np.uint32), grid=7, block=45)


BARRIERS = """
  shl.b32 %r1, %tid, 2;  mov.u32 %r2, tile;  add.u32 %r2, %r2, %r1;
  mul.wide.u32 %rd3, %gid, 4;  add.u64 %rd4, %rd1, %rd3;
  ld.global.f32 %f1, [%rd4];  st.shared.f32 [%r2], %f1;
  mov.u32 %r3, 64;
  bar.sync 0;
A:
  setp.ge.u32 %p1, %tid, %r3;
  @%p1 bra B;
  shl.b32 %r4, %r3, 2;  add.u32 %r5, %r2, %r4;
  ld.shared.f32 %f2, [%r5];  ld.shared.f32 %f3, [%r2];
  add.f32 %f2, %f2, %f3;  st.shared.f32 [%r2], %f2;
B:
  bar.sync 0;
  shr.u32 %r3, %r3, 1;
  setp.ne.u32 %p2, %r3, 0;
  @%p2 bra A;
  setp.ne.u32 %p1, %tid, 0;
  @%p1 ret;
  red.global.add.f32 [%rd2], %f2;
"""


def test_barriers():
    text = entry(BARRIERS, 2, variables=".shared .align 4 .b8 tile[512];")
    values = np.random.default_rng(1).random(1280, dtype=np.float32)
    agree(text, values, np.zeros(1, np.float32), grid=10, block=128)


@pytest.mark.parametrize(
    "access",
    [
        "st.global.u32 [%rd4+4096], %r1;",
        "ld.global.u32 %r2, [%rd4+4094];",
        "st.global.u32 [%rd4+2], %r1;",
        "ld.global.v2.u32 {%r3, %r4}, [%rd4+4];",
        "red.global.add.u32 [%rd4+-8], 1;",
        "ld.global.u32 %r2, [0];",
        "st.global.u32 [%rd1+1], 0;",
        "ld.u32 %r2, [%rd4+-4];",
        "ld.shared.u32 %r2, [tile+128];",
        "cvta.shared.u64 %rd5, %rd4; ld.u32 %r2, [%rd5];",
    ],
)
def test_faults_say_the_same(access):
    variables = ".shared .align 4 .b8 tile[128];"
    body = f"mul.wide.u32 %rd3, %gid, 4; add.u64 %rd4, %rd1, %rd3; {access}"
    agree(entry(body, 1, variables=variables), np.zeros(64, np.uint32), grid=3)


def test_an_endless_loop_is_stopped_and_its_line_named():
    text = entry("A: add.u64 %rd9, %rd9, 1; setp.ne.u64 %p1, %rd9, 0; @%p1 bra A;", 1)
    _, error, code = after(text, native.natively, [np.zeros(1)], seconds=0.2)
    assert isinstance(code, NativeKernel)
    assert "was stopped" in error


def test_predicates_and_every_width_live_across_a_barrier():
    text = entry(
        """
      mul.wide.u32 %rd3, %gid, 8;  add.u64 %rd4, %rd1, %rd3;
      setp.gt.u32 %p1, %tid, 11;  setp.eq.u32 %p2, %ctaid.x, 1;
      cvt.u16.u32 %h1, %gid;  cvt.rn.f64.u32 %fd1, %gid;  mov.u32 %r1, %ctaid.x;
      bar.sync 0;
      selp.u32 %r2, 5, 7, %p1;  selp.u32 %r3, 100, 200, %p2;  cvt.u32.u16 %r4, %h1;
      cvt.rzi.u32.f64 %r5, %fd1;  add.u32 %r2, %r2, %r3;  add.u32 %r2, %r2, %r4;
      add.u32 %r2, %r2, %r5;  st.global.v2.u32 [%rd4], {%r2, %r1};""",
        1,
    )
    agree(text, np.zeros(WORDS, np.uint32), grid=3, block=96)


def test_the_lower_byte_of_a_half_is_stored():
    """Of a register of 16 bits, whatever they mean (PTX ISA 9.4.1)."""
    text = entry(
        "cvt.rn.f16.u32 %h1, %gid; cvt.u64.u32 %rd3, %gid; add.u64 %rd3, %rd1, %rd3;"
        "st.global.u8 [%rd3], %h1;",
        1,
    )
    agree(text, np.zeros(WORDS, np.uint32))


def test_registers_that_live_across_a_barrier_are_zero_at_each_block_s_start():
    text = entry(
        """
      bar.sync 0; add.u32 %r5, %r5, %tid; selp.u32 %r6, 4, 0, %p3; setp.gt.u32 %p3, %tid, 40;
      bar.sync 0; mul.wide.u32 %rd3, %gid, 4; add.u64 %rd4, %rd1, %rd3; selp.u32 %r7, 8, 0, %p3;
      add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r7; st.global.u32 [%rd4], %r5;""",
        1,
    )
    agree(text, np.zeros(WORDS, np.uint32), grid=5, block=96)


@pytest.mark.parametrize(("type_", "bits"), [("f32", 32), ("f64", 64)])
def test_a_nan_in_a_chain_of_sums_ends_as_the_one_of_its_format(type_, bits):
    f, size = "f" if bits == 32 else "fd", bits // 8
    text = entry(
        f"""
      mul.wide.u32 %rd3, %gid, {size}; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
      ld.global.{type_} %{f}1, [%rd4]; ld.global.{type_} %{f}2, [%rd4+{size * 128}];
      mul.rn.{type_} %{f}3, %{f}1, %{f}2; fma.rn.{type_} %{f}4, %{f}3, %{f}1, %{f}2;
      sub.rn.{type_} %{f}5, %{f}4, %{f}3; div.rn.{type_} %{f}6, %{f}5, %{f}4;
      st.global.{type_} [%rd5], %{f}6; st.global.{type_} [%rd5+{size * 128}], %{f}4;
      neg.{type_} %{f}7, %{f}3; st.global.{type_} [%rd5+{size * 256}], %{f}7;
      mov.b{bits} {"%r3" if bits == 32 else "%rd6"}, %{f}5;
      st.global.b{bits} [%rd5+{size * 384}], {"%r3" if bits == 32 else "%rd6"};""",
        2,
    )
    unsigned = np.dtype(f"u{size}")
    values = np.random.default_rng(4).integers(0, 1 << 31, 256).astype(unsigned)
    values |= {32: 0x7F80_0000, 64: 0x7FF0 << 48}[bits] * (np.arange(256) % 3 != 0).astype(unsigned)
    values[::5] ^= unsigned.type(1 << bits - 1)
    agree(text, values, np.zeros(512, unsigned))


@pytest.mark.parametrize("width", [8, 16, 4, 32])
@pytest.mark.parametrize("type_", ["u8", "u16", "u32", "u64"])
def test_rows_of_blocks_that_are_narrower_than_a_warp(type_, width):
    """Each eight lanes reach neighbours, or one element; some rows lie outside, some are odd."""
    size = int(type_[1:]) // 8
    text = entry(
        f"""
      and.b32 %r1, %tid, {width - 1}; sub.u32 %r2, %tid, %r1; mul.lo.u32 %r3, %r2, {3 * size};
      mov.u32 %r4, box; mul.lo.u32 %r5, %r1, {size}; add.u32 %r5, %r5, %r3; add.u32 %r5, %r5, %r4;
      add.u32 %r3, %r3, %r4; mul.wide.u32 %rd3, %gid, 8; add.u64 %rd4, %rd1, %rd3;
      cvt.u64.u32 %rd5, %gid; st.shared.{type_} [%r5], %rd5; bar.sync 0;
      ld.shared.{type_} %rd6, [%r5]; ld.shared.{type_} %rd7, [%r3+{size}];
      ld.shared.{type_} %rd8, [%r3+{2 * size}]; shl.b64 %rd8, %rd8, 9; add.u64 %rd6, %rd6, %rd8;
      st.shared.{type_} [%r5+{64 * size}], %rd7; ld.shared.{type_} %rd9, [%r5+{64 * size}];
      add.u64 %rd6, %rd6, %rd9; ld.shared.{type_} %rd9, [%r3+{64 * size}];
      xor.b64 %rd6, %rd6, %rd9; st.global.u64 [%rd4], %rd6;""",
        1,
        variables=f".shared .align 8 .b8 box[{size * 300}];",
    )
    agree(text, np.zeros(2 * WORDS, np.uint32), grid=2, block=64)


@pytest.mark.parametrize("far", [0, 4, 64, 1 << 20, -4])
def test_of_loads_that_share_an_address_the_one_outside_is_named(far):
    text = entry(
        f"""
      and.b32 %r1, %tid, 15; mad.lo.u32 %r1, %ctaid.x, 16, %r1; mul.wide.u32 %rd3, %r1, 4;
      add.u64 %rd4, %rd1, %rd3;
      ld.global.u32 %r2, [%rd4]; ld.global.u32 %r3, [%rd4+{64 + far}];
      ld.global.u32 %r4, [%rd4+8]; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;
      mul.wide.u32 %rd5, %gid, 4; add.u64 %rd5, %rd2, %rd5; st.global.u32 [%rd5], %r2;""",
        2,
    )
    values = np.arange(64, dtype=np.uint32)  # the fourth block's loads reach its end
    agree(text, values, np.zeros(512, np.uint32), grid=4, block=64)


@pytest.mark.parametrize(
    "loads",
    [
        "ld.global.u32 %r1, [%rd3]; ld.global.v2.u16 {%h1, %h2}, [%rd3+4];",
        "ld.global.v2.u16 {%h1, %h2}, [%rd3+4]; ld.global.u32 %r1, [%rd3];",
    ],
    ids=["one first", "two first"],
)
@pytest.mark.parametrize("block", [(64, 1, 1), (8, 8, 1)], ids=str)
def test_loads_of_one_size_and_different_widths_share_an_address(loads, block):
    text = entry(
        f"""shr.u32 %r3, %gid, 1; mul.wide.u32 %rd3, %r3, 8; add.u64 %rd3, %rd1, %rd3;
        mul.wide.u32 %rd4, %gid, 4; add.u64 %rd4, %rd2, %rd4;
        {loads} cvt.u32.u16 %r2, %h2; xor.b32 %r1, %r1, %r2; cvt.u32.u16 %r2, %h1;
        add.u32 %r1, %r1, %r2; st.global.u32 [%rd4], %r1;""",
        2,
    )
    agree(
        text,
        np.arange(WORDS, dtype=np.uint32) << 9,
        np.zeros(WORDS, np.uint32),
        grid=1,
        block=block,
    )


def test_a_narrow_signed_parameter_keeps_its_sign():
    text = entry(
        "ld.param.s8 %r1, [p1+1]; ld.param.s16 %r2, [p1]; mul.wide.u32 %rd3, %gid, 8;"
        "add.u64 %rd4, %rd1, %rd3; st.global.v2.u32 [%rd4], {%r1, %r2};",
        1,
    )
    agree(text, np.zeros(WORDS, np.uint32))


@pytest.mark.parametrize(
    "mode",
    [
        "up.b32 %r2|%p1, %r1, 3, 0",
        "down.b32 %r2|%p1, %r1, %r3, 31",
        "bfly.b32 %r2|%p1, %r1, 5, 31",
        "idx.b32 %r2|%p1, %r1, %r3, 6175",
    ],
)
@pytest.mark.parametrize("block", [64, 44])
def test_shuffles_and_votes(mode, block):
    text = entry(
        f"""
      mul.lo.u32 %r1, %gid, 77;  rem.u32 %r3, %r1, 37;
      shfl.sync.{mode}, -1;  selp.u32 %r4, 1, 0, %p1;
      setp.gt.u32 %p2, %r3, 9;  vote.sync.ballot.b32 %r5, %p2, -1;
      vote.sync.any.pred %p3, %p2, -1;  vote.sync.all.pred %p4, %p2, -1;
      vote.sync.uni.pred %p5, %p2, -1;  selp.u32 %r6, 2, 0, %p3;  add.u32 %r4, %r4, %r6;
      selp.u32 %r6, 4, 0, %p4;  add.u32 %r4, %r4, %r6;  selp.u32 %r6, 8, 0, %p5;
      add.u32 %r4, %r4, %r6;  activemask.b32 %r6;
      mul.wide.u32 %rd3, %gid, 16;  add.u64 %rd4, %rd1, %rd3;
      st.global.v4.u32 [%rd4], {{%r2, %r4, %r5, %r6}};""",
        1,
    )
    agree(text, np.zeros(WORDS, np.uint32), block=block)


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(
    "atomic",
    [
        "add.u32 %r5",
        "add.f32 %f5",
        "add.f64 %fd5",
        "min.s32 %r5",
        "max.u64 %rd5",
        "exch.b32 %r5",
        "inc.u32 %r5",
        "dec.u32 %r5",
        "xor.b32 %r5",
        "cas.b32 %r5",
    ],
)
def test_atomics(atomic, space):
    name = atomic.split()[1]
    letter = name[1:-1]
    type_ = {"r": "u32", "f": "f32", "fd": "f64", "rd": "u64"}[letter]
    value = f"%{letter}6" + (", %r6" if "cas" in atomic else "")
    place = "%rd6" if space == "global" else "%r8"
    text = entry(
        f"""
      and.b32 %r7, %tid, 3;  mul.wide.u32 %rd5, %r7, 8;  add.u64 %rd6, %rd2, %rd5;
      shl.b32 %r8, %r7, 3;  mov.u32 %r9, tile;  add.u32 %r8, %r8, %r9;
      mul.wide.u32 %rd3, %gid, 8;  add.u64 %rd4, %rd1, %rd3;
      ld.global.{type_} %{letter}6, [%rd4];  st.shared.u64 [%r8], 0;
      atom.{space}.{atomic}, [{place}], {value};
      st.global.{type_} [%rd4], %{letter}5;
      ld.{space}.{type_} %{letter}7, [{place}];  st.global.{type_} [%rd2+64], %{letter}7;""",
        2,
        variables=".shared .align 8 .b8 tile[64];",
    )
    random = np.random.default_rng(2)
    agree(
        text,
        random.integers(0, 1 << 31, WORDS, dtype=np.uint32),
        random.integers(0, 1 << 30, 64, dtype=np.uint32),
        grid=1,
        block=27,
    )
