"""Random kernels with structure: what native code and the interpreting machine are compared on."""

from __future__ import annotations

from random import Random

from ptx_lab import REGISTERS, entry

WORDS = 4096


class Structured:
    """A random kernel of nested branches, jump tables, loops, calls, meetings of the lanes that are
    there and early ends over four registers, ``%r10`` to ``%r13``; each thread reads and writes
    words of its own, and some that all share. Without ``meetings`` no lane has to wait."""

    def __init__(self, seed: int, meetings: bool = False):
        self.random, self.meetings = Random(seed), meetings
        self.labels = 0
        self.depth = 0
        self.functions: list[str] = []
        self.inside = False  # the kernel, and not a function that might call its own address

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
        """Of a function, or of the address of one of two."""
        given = [self.register(), self.value(), "%rd1", "%rd2", "%rd10"]
        kinds = [64 if "%rd" in g else 32 for g in given]
        names = ", ".join(f"g{i}" for i in range(5))
        one, other = (f"f{self.random.randrange(len(self.functions))}" for _ in range(2))
        address: list[str] = []
        if self.inside and self.random.random() < 0.4:
            address = [*self.condition("%p15"), f"mov.u64 %rd20, {one};",
                       f"mov.u64 %rd21, {other};", "selp.b64 %rd20, %rd20, %rd21, %p15;"]
            one = "%rd20"
        end = ", proto" if address else ""
        return [*address, "{ .param .b32 v; " + "".join(
            f".param .b{k} g{i}; st.param.b{k} [g{i}], {g}; "
            for i, (k, g) in enumerate(zip(kinds, given, strict=True))),
            f"call (v), {one}, ({names}){end};",
            f"ld.param.b32 {self.register()}, [v]; }}"]

    def text(self) -> str:
        for number in range(self.random.randrange(3)):
            made = self.function(f"f{number}")
            self.functions.append(made)
        self.inside = True
        prototype = ", ".join(f".param .b{k} _" for k in (32, 32, 64, 64, 64))
        body = [f"proto: .callprototype (.param .b32 _) _ ({prototype});",
                "mul.wide.u32 %rd9, %gid, 16;", "add.u64 %rd10, %rd1, %rd9;",
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
            if kind < 0.83:
                return self.table()
            if self.meetings and kind < 0.88:
                return self.meeting()
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

    def table(self) -> list[str]:
        """A jump to one of two to four places, whose number may be too large."""
        ways = [self.label() for _ in range(self.random.randrange(2, 5))]
        name, end = self.label(), self.label()
        most = 3 if len(ways) == 4 else 1
        if self.random.random() < 0.02:
            most = 7
        lines = [f"and.b32 %r20, {self.register()}, {most};", f"brx.idx %r20, {name};",
                 f"{name}: .branchtargets {', '.join(ways)};"]
        for way in self.random.sample(ways, len(ways)):
            lines += [f"{way}:", *self.statements(2)]
            if self.random.random() < 0.6:
                lines.append(f"bra {end};")
        return [*lines, f"{end}:"]

    def meeting(self) -> list[str]:
        """Of the lanes that are there, or of all that have not ended."""
        here = ["activemask.b32 %r23;"]
        a, b = self.register(), self.register()
        return self.random.choice((
            [*here, f"shfl.sync.bfly.b32 {a}, {b}, {self.random.randrange(32)}, 31, %r23;"],
            [*here, *self.condition("%p14"), f"vote.sync.ballot.b32 {a}, %p14, %r23;"],
            [*here, f"redux.sync.max.s32 {a}, {b}, %r23;"],
            [*here, f"and.b32 %r24, {b}, 3; match.any.sync.b32 {a}, %r24, %r23;"],
            [f"bar.sync {self.random.randrange(4)};"], ["bar.sync 0, 32;"],
            ["bar.arrive 1, 64;"],
            [*self.condition("%p14"), f"bar.red.popc.u32 {a}, 2, %p14;"],
            [f"shfl.sync.idx.b32 {a}, {b}, {self.random.randrange(32)}, 31, -1;"],
            ["bar.warp.sync -1;"]))

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
