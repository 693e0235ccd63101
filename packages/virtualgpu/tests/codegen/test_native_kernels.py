"""Native code against the interpreting machine: the same kernels, the same bytes afterwards."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from native_lab import after, agree
from ptx_lab import REGISTERS, entry
from virtualgpu import codegen
from virtualgpu.codegen import run
from virtualgpu.codegen.kernel import NativeKernel

WORDS = 4096


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


class Structured:
    """A random kernel of nested branches, loops, calls and early ends over four registers,
    ``%r10`` to ``%r13``; each thread reads and writes words of its own, and some that all share."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.labels = 0
        self.depth = 0
        self.functions: list[str] = []

    def function(self, name: str) -> str:
        """Of two numbers and three pointers; it may call the functions made before it."""
        taken = ["%r10", "%r11", "%rd1", "%rd2", "%rd10"]
        parameters = ", ".join(f".param .b{64 if 'd' in r else 32} a{i}"
                               for i, r in enumerate(taken))
        loads = "".join(f"ld.param.b{64 if 'd' in r else 32} {r}, [a{i}]; "
                        for i, r in enumerate(taken))
        lines = "\n".join(f"  {line}" for line in self.statements(4))
        return (f".func (.param .b32 r) {name}({parameters})\n{{{REGISTERS} .reg .b32 %gid;"
                f" mov.u32 %gid, %tid.x; {loads}\n{lines}\n  st.param.b32 [r], %r12; ret;\n}}\n")

    def call(self) -> list[str]:
        given = [self.register(), self.value(), "%rd1", "%rd2", "%rd10"]
        kinds = [64 if "%rd" in g else 32 for g in given]
        names = ", ".join(f"g{i}" for i in range(5))
        return ["{ .param .b32 v; " + "".join(
            f".param .b{k} g{i}; st.param.b{k} [g{i}], {g}; "
            for i, (k, g) in enumerate(zip(kinds, given, strict=True))),
            f"call (v), f{self.random.randrange(len(self.functions))}, ({names});",
            f"ld.param.b32 {self.register()}, [v]; }}"]

    def text(self) -> str:
        for number in range(self.random.randrange(3)):
            made = self.function(f"f{number}")
            self.functions.append(made)
        body = ["mul.wide.u32 %rd9, %gid, 16;", "add.u64 %rd10, %rd1, %rd9;",
                "mov.u32 %r10, %gid;", "ld.global.u32 %r11, [%rd10];", "mov.u32 %r12, %laneid;",
                "ld.global.u32 %r13, [%rd1];", *self.statements(5),
                *(f"st.global.u32 [%rd10+{4 * i}], %r{10 + i};" for i in range(4))]
        return entry("\n".join(f"  {line}" for line in body), 2, before="".join(self.functions))

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def register(self) -> str:
        return f"%r{self.random.randrange(10, 14)}"

    def value(self) -> str:
        return self.random.choice((self.register(), self.register(),
                                   str(self.random.randrange(-3, 40)), "%laneid", "%ctaid.x"))

    def condition(self, name: str) -> list[str]:
        compare = self.random.choice(("eq", "ne", "lt", "gt", "le"))
        narrow = self.random.choice((1, 3, 7, 31))
        return [f"and.b32 %r20, {self.register()}, {narrow};",
                f"setp.{compare}.s32 {name}, %r20, {self.random.randrange(narrow + 1)};"]

    def statements(self, most: int) -> list[str]:
        lines = []
        for _ in range(self.random.randrange(1, most + 1)):
            lines += self.statement()
        return lines

    def statement(self) -> list[str]:
        deep = self.depth >= 3
        kind = self.random.random() * (0.5 if deep else 1)
        self.depth += 1
        try:
            if kind < 0.3:
                opcode = self.random.choice((
                    "add.s32", "sub.s32", "mul.lo.u32", "xor.b32", "min.s32", "max.u32",
                    "shl.b32", "div.s32", "rem.u32"))
                return [f"{opcode} {self.register()}, {self.value()}, {self.value()};"]
            if kind < 0.5:
                return self.access()
            if kind < 0.58 and self.functions:
                return self.call()
            if kind < 0.75:
                return self.branch()
            return self.loop()
        finally:
            self.depth -= 1

    def access(self) -> list[str]:
        lot = self.random.random()
        place = [f"and.b32 %r21, {self.value()}, {self.random.choice((3, 31, 255))};",
                 "mul.wide.u32 %rd11, %r21, 4;", "add.u64 %rd11, %rd2, %rd11;"]
        if self.random.random() < 0.3:
            place[0] = "mov.u32 %r21, %gid;"
        if lot < 0.4:
            return [*place, f"ld.global.u32 {self.register()}, [%rd11];"]
        if lot < 0.75:
            return [*place, f"st.global.u32 [%rd11], {self.value()};"]
        if lot < 0.9:
            # More than nothing: a round that changes nothing is taken for waiting, and yields.
            return [*place, f"red.global.add.u32 [%rd11], {self.random.randrange(1, 40)};"]
        return [f"st.global.u32 [%rd10+4], {self.value()};"]

    def branch(self) -> list[str]:
        predicate = f"%p{self.depth}"
        lot = self.random.random()
        lines = self.condition(predicate)
        end = self.label()
        if lot < 0.15:
            return [*lines, f"@{predicate} add.u32 {self.register()}, {self.value()}, 7;"]
        if lot < 0.25:
            return [*lines, f"@{predicate} ret;"]
        if lot < 0.6:
            return [*lines, f"@!{predicate} bra {end};", *self.statements(3), f"{end}:"]
        other = self.label()
        return [*lines, f"@{predicate} bra {other};", *self.statements(3), f"bra.uni {end};",
                f"{other}:", *self.statements(3), f"{end}:"]

    def loop(self) -> list[str]:
        counter, predicate = f"%r{30 + self.depth}", f"%p{8 + self.depth}"
        top, out = self.label(), self.label()
        bound = self.random.choice(("3", "%r22", "%r22"))
        lines = [f"mov.u32 {counter}, 0;", f"{top}:"]
        if self.random.random() < 0.4:
            lines += [*self.condition(f"%p{4 + self.depth}"), f"@%p{4 + self.depth} bra {out};"]
        return [*lines, *self.statements(3), f"add.u32 {counter}, {counter}, 1;",
                f"and.b32 %r22, {self.register()}, 7;",
                f"setp.lt.u32 {predicate}, {counter}, {bound};", f"@{predicate} bra {top};",
                f"{out}:"]


@pytest.mark.parametrize("seed", range(60))
def test_structured_kernels(seed):
    random = np.random.default_rng(seed)
    arrays = random.integers(0, 1 << 32, (2, WORDS), dtype=np.uint32)
    # One warp, so that not even the order of warps is left open.
    agree(Structured(seed).text(), *arrays, grid=1, block=[32, 32, 20][seed % 3])


def test_lanes_of_a_warp_lose_updates_together():
    text = entry("ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;", 1)
    agree(text, np.zeros(4, np.uint32), grid=1, block=32)


def test_a_block_whose_threads_are_no_whole_warps():
    text = entry("mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3;"
                 "mov.u32 %r1, %ntid.x; st.global.u32 [%rd3], %r1;", 1)
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


@pytest.mark.parametrize("access", [
    "st.global.u32 [%rd4+4096], %r1;", "ld.global.u32 %r2, [%rd4+4094];",
    "st.global.u32 [%rd4+2], %r1;", "ld.global.v2.u32 {%r3, %r4}, [%rd4+4];",
    "red.global.add.u32 [%rd4+-8], 1;", "ld.global.u32 %r2, [0];", "st.global.u32 [%rd1+1], 0;",
    "ld.u32 %r2, [%rd4+-4];", "ld.shared.u32 %r2, [tile+128];",
    "cvta.shared.u64 %rd5, %rd4; ld.u32 %r2, [%rd5];"])
def test_faults_say_the_same(access):
    variables = ".shared .align 4 .b8 tile[128];"
    body = (f"mul.wide.u32 %rd3, %gid, 4; add.u64 %rd4, %rd1, %rd3; {access}")
    agree(entry(body, 1, variables=variables), np.zeros(64, np.uint32), grid=3)


def test_an_endless_loop_is_stopped_and_its_line_named():
    text = entry("A: add.u32 %r1, %r1, 1; bra A;", 1)
    _, error, code = after(text, codegen.natively, [np.zeros(1)], seconds=0.2)
    assert isinstance(code, NativeKernel)
    assert "was stopped" in error


def test_predicates_and_every_width_live_across_a_barrier():
    text = entry("""
      mul.wide.u32 %rd3, %gid, 8;  add.u64 %rd4, %rd1, %rd3;
      setp.gt.u32 %p1, %tid, 11;  setp.eq.u32 %p2, %ctaid.x, 1;
      cvt.u16.u32 %h1, %gid;  cvt.rn.f64.u32 %fd1, %gid;  mov.u32 %r1, %ctaid.x;
      bar.sync 0;
      selp.u32 %r2, 5, 7, %p1;  selp.u32 %r3, 100, 200, %p2;  cvt.u32.u16 %r4, %h1;
      cvt.rzi.u32.f64 %r5, %fd1;  add.u32 %r2, %r2, %r3;  add.u32 %r2, %r2, %r4;
      add.u32 %r2, %r2, %r5;  st.global.v2.u32 [%rd4], {%r2, %r1};""", 1)
    agree(text, np.zeros(WORDS, np.uint32), grid=3, block=96)


def test_a_narrow_signed_parameter_keeps_its_sign():
    text = entry("ld.param.s8 %r1, [p1+1]; ld.param.s16 %r2, [p1]; mul.wide.u32 %rd3, %gid, 8;"
                 "add.u64 %rd4, %rd1, %rd3; st.global.v2.u32 [%rd4], {%r1, %r2};", 1)
    agree(text, np.zeros(WORDS, np.uint32))


@pytest.mark.parametrize("mode", ["up.b32 %r2|%p1, %r1, 3, 0", "down.b32 %r2|%p1, %r1, %r3, 31",
                                  "bfly.b32 %r2|%p1, %r1, 5, 31",
                                  "idx.b32 %r2|%p1, %r1, %r3, 6175"])
@pytest.mark.parametrize("block", [64, 44])
def test_shuffles_and_votes(mode, block):
    text = entry(f"""
      mul.lo.u32 %r1, %gid, 77;  rem.u32 %r3, %r1, 37;
      shfl.sync.{mode}, -1;  selp.u32 %r4, 1, 0, %p1;
      setp.gt.u32 %p2, %r3, 9;  vote.sync.ballot.b32 %r5, %p2, -1;
      vote.sync.any.pred %p3, %p2, -1;  vote.sync.all.pred %p4, %p2, -1;
      vote.sync.uni.pred %p5, %p2, -1;  selp.u32 %r6, 2, 0, %p3;  add.u32 %r4, %r4, %r6;
      selp.u32 %r6, 4, 0, %p4;  add.u32 %r4, %r4, %r6;  selp.u32 %r6, 8, 0, %p5;
      add.u32 %r4, %r4, %r6;  activemask.b32 %r6;
      mul.wide.u32 %rd3, %gid, 16;  add.u64 %rd4, %rd1, %rd3;
      st.global.v4.u32 [%rd4], {{%r2, %r4, %r5, %r6}};""", 1)
    agree(text, np.zeros(WORDS, np.uint32), block=block)


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("atomic", [
    "add.u32 %r5", "add.f32 %f5", "add.f64 %fd5", "min.s32 %r5", "max.u64 %rd5", "exch.b32 %r5",
    "inc.u32 %r5", "dec.u32 %r5", "xor.b32 %r5", "cas.b32 %r5"])
def test_atomics(atomic, space):
    name = atomic.split()[1]
    letter = name[1:-1]
    type_ = {"r": "u32", "f": "f32", "fd": "f64", "rd": "u64"}[letter]
    value = f"%{letter}6" + (", %r6" if "cas" in atomic else "")
    place = "%rd6" if space == "global" else "%r8"
    text = entry(f"""
      and.b32 %r7, %tid, 3;  mul.wide.u32 %rd5, %r7, 8;  add.u64 %rd6, %rd2, %rd5;
      shl.b32 %r8, %r7, 3;  mov.u32 %r9, tile;  add.u32 %r8, %r8, %r9;
      mul.wide.u32 %rd3, %gid, 8;  add.u64 %rd4, %rd1, %rd3;
      ld.global.{type_} %{letter}6, [%rd4];  st.shared.u64 [%r8], 0;
      atom.{space}.{atomic}, [{place}], {value};
      st.global.{type_} [%rd4], %{letter}5;
      ld.{space}.{type_} %{letter}7, [{place}];  st.global.{type_} [%rd2+64], %{letter}7;""", 2,
      variables=".shared .align 8 .b8 tile[64];")
    random = np.random.default_rng(2)
    agree(text, random.integers(0, 1 << 31, WORDS, dtype=np.uint32),
          random.integers(0, 1 << 30, 64, dtype=np.uint32), grid=1, block=27)
