"""Native code against the interpreting machine: the same kernels, the same bytes afterwards."""

from __future__ import annotations

import struct
from random import Random

import numpy as np
import pytest

from ptx_lab import entry
from virtualgpu import codegen
from virtualgpu.codegen import run
from virtualgpu.codegen.kernel import NativeKernel
from virtualgpu.errors import BudgetExceeded, VirtualGPUError
from virtualgpu.machine.launch import Budget, Launch
from virtualgpu.machine.linker import LoadedModule
from virtualgpu.machine.memory import GlobalMemory

WORDS = 4096


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "MODE", "always")


def after(text: str, native, arrays, grid=2, block=64, shared=0, seconds=10.0):
    """The arrays after a launch of ``k``, the error's words or None, and the native code."""
    memory = GlobalMemory(1 << 28)
    module = LoadedModule(memory, [text], None)
    program = module.program("k", False)
    places = []
    for array in arrays:
        places.append(memory.allocate(array.nbytes))
        memory.write(places[-1], array)
    launch = Launch(memory, program, (grid, 1, 1), (block, 1, 1),
                    [struct.pack("<Q", place) for place in places], shared, native=native,
                    budget=Budget(seconds=seconds))
    error = None
    try:
        launch.run()
    except VirtualGPUError as problem:
        error = str(problem)
    contents = [memory.read(p, a.nbytes) for p, a in zip(places, arrays, strict=True)]
    return contents, error, getattr(program, "native", None)


def agree(text: str, *arrays: np.ndarray, refused: bool = False, **options) -> None:
    there, wrong, _ = after(text, None, arrays, **options)
    here, error, code = after(text, codegen, arrays, **options)
    assert isinstance(code, str) is refused, code
    assert error == wrong
    if wrong is None:
        for ours, theirs in zip(here, there, strict=True):
            assert (ours == theirs).all()


class Structured:
    """A random kernel of nested branches, loops and early ends over four registers, ``%r10`` to
    ``%r13``; each thread reads and writes words of its own, and some that all share."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.labels = 0
        self.depth = 0

    def text(self) -> str:
        body = ["mul.wide.u32 %rd9, %gid, 16;", "add.u64 %rd10, %rd1, %rd9;",
                "mov.u32 %r10, %gid;", "ld.global.u32 %r11, [%rd10];", "mov.u32 %r12, %laneid;",
                "ld.global.u32 %r13, [%rd1];", *self.statements(5),
                *(f"st.global.u32 [%rd10+{4 * i}], %r{10 + i};" for i in range(4))]
        return entry("\n".join(f"  {line}" for line in body), 2)

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
            return [*place, f"red.global.add.u32 [%rd11], {self.value()};"]
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
    _, error, code = after(text, codegen, [np.zeros(1)], seconds=0.2)
    assert isinstance(code, NativeKernel)
    assert "was stopped" in error and BudgetExceeded


@pytest.mark.parametrize("body", [
    "A: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 5; @%p1 bra A;",
    "A: atom.global.cas.b32 %r1, [%rd1], 5, 1; setp.eq.u32 %p1, %r1, 5; @%p1 bra A;",
    "A: ld.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 5; @%p1 bra A;"])
def test_what_may_wait_for_another_stays_on_the_other_machine(body):
    agree(entry(body, 1), np.zeros(1, np.uint32), refused=True)
