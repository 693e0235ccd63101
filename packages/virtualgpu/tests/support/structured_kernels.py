"""Random kernels with structure: what native code and the interpreter are compared on."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from ptx_instructions import DATA, LITERALS, chosen
from ptx_lab import REGISTERS, entry
from structured_words import AREA, BEGIN, END, SET_UP, SLOT, VARIABLES

STATEMENTS = 6  # of a kernel, beside those of its functions: compiling takes 0.3 s

# Registers that instructions may choose; ``r`` first, as functions have no others that are set.
CHOICE = {
    "r": "%r10 %r11 %r12 %r13",
    "d": "%rd30 %rd31 %rd32",
    "f": "%f1 %f2 %f3",
    "x": "%fd1 %fd2 %fd3",
    "h": "%h1 %h2 %h3",
    "p": "%p0 %p13",
}
PLAIN = (
    "add.s32",
    "sub.s32",
    "mul.lo.u32",
    "xor.b32",
    "min.s32",
    "max.u32",
    "shl.b32",
    "div.s32",
    "rem.u32",
)
ARITHMETIC = [one for one in DATA if "b128" not in one]
# Of which class, what loads and stores call it, and its bytes.
TYPES = [
    ("r", "u32", 4),
    ("r", "u32", 4),
    ("r", "s32", 4),
    ("r", "u8", 1),
    ("r", "s8", 1),
    ("r", "u16", 2),
    ("h", "s16", 2),
    ("h", "u8", 1),
    ("f", "f32", 4),
    ("x", "f64", 8),
    ("d", "u64", 8),
    ("d", "s32", 4),
]
VECTORS = [
    ("rr", "v2.u32"),
    ("ffff", "v4.f32"),
    ("dd", "v2.u64"),
    ("xx", "v2.f64"),
    ("rrrr", "v4.u8"),
    ("hr", "v2.s16"),
]
ATOMICS = [
    ("r", "add.u32"),
    ("r", "exch.b32"),
    ("r", "max.s32"),
    ("r", "inc.u32"),
    ("rr", "cas.b32"),
    ("r", "xor.b32"),
    ("f", "add.f32"),
    ("d", "add.u64"),
    ("x", "add.f64"),
]
TOTALS = ("add.u32", "max.u32", "min.s32", "or.b32", "xor.b32", "and.b32", "add.s32")
# Where nobody may go: outside, across the end of all addresses, between two elements.
WILD = ["0", "4", "-4", "0x7fffffffffffffff", "0x8000000000000000", "0x3fffffffffff"]
FLOATS = ("eq", "ne", "lt", "ge", "equ", "neu", "ltu", "geu", "num", "nan")


class Structured:
    """A random kernel of nested branches, jump tables, loops (some of which may be entered in the
    middle), calls, meetings of the lanes that are there and early ends, over a few registers of
    each type, some of which nothing has written. Its parameters are what ``structured_words``
    gives: three pointers in ``%rd1`` to ``%rd3``, and in ``%rd4`` the launch's first block. Each
    thread reads and writes elements of its own, and mostly some that its warp shares; warps of a
    block meet at barriers. Without ``meetings`` no lane of a warp has to wait for another."""

    def __init__(self, seed: int, meetings: bool = False, statements: int = STATEMENTS):
        self.random, self.meetings, self.most = Random(seed), meetings, statements
        self.labels = 0
        self.depth = 0
        self.left = 0
        self.alone = self.random.random() < 0.3  # no thread reads or writes what another does
        self.functions: list[str] = []
        few = self.random.sample("fxdh", self.random.randrange(3))
        self.letters = {"r", "p", *few}  # of its instructions' registers
        self.inside = False  # the kernel, and not a function that might call its own address

    def function(self, name: str) -> str:
        """Of two numbers and three pointers; it may call the functions made before it."""
        taken = ["%r10", "%r11", "%rd1", "%rd2", "%rd10"]
        parameters = ", ".join(
            f".param .b{64 if 'd' in r else 32} a{i}" for i, r in enumerate(taken)
        )
        loads = "".join(
            f"ld.param.b{64 if 'd' in r else 32} {r}, [a{i}]; " for i, r in enumerate(taken)
        )
        self.left = 3
        lines = "\n".join(f"  {line}" for line in self.statements(3))
        return (
            f".func (.param .b32 r) {name}({parameters})\n{{{REGISTERS}"
            f" {loads}\n{lines}\n  st.param.b32 [r], %r12; ret;\n}}\n"
        )

    def call(self) -> list[str]:
        """Of a function, or of the address of one of two."""
        given = [self.register(), self.value(), "%rd1", "%rd2", "%rd10"]
        kinds = [64 if "%rd" in g else 32 for g in given]
        names = ", ".join(f"g{i}" for i in range(5))
        one, other = (f"f{self.random.randrange(len(self.functions))}" for _ in range(2))
        address: list[str] = []
        if self.inside and self.random.random() < 0.4:
            address = [
                *self.condition("%p15"),
                f"mov.u64 %rd20, {one};",
                f"mov.u64 %rd21, {other};",
                "selp.b64 %rd20, %rd20, %rd21, %p15;",
            ]
            one = "%rd20"
        end = ", proto" if address else ""
        return [
            *address,
            "{ .param .b32 v; "
            + "".join(
                f".param .b{k} g{i}; st.param.b{k} [g{i}], {g}; "
                for i, (k, g) in enumerate(zip(kinds, given, strict=True))
            ),
            f"call (v), {one}, ({names}){end};",
            f"ld.param.b32 {self.register()}, [v]; }}",
        ]

    def text(self) -> str:
        for number in range(max(0, self.random.randrange(-2, 3))):
            made = self.function(f"f{number}")
            self.functions.append(made)
        self.inside, self.left = True, self.most
        prototype = ", ".join(f".param .b{k} _" for k in (32, 32, 64, 64, 64))
        unwritten = self.random.choice((0, 0.3))
        letters = [letter for letter in BEGIN if letter in self.letters]
        begin = [
            f"{one};"
            for letter in letters
            for one in BEGIN[letter].split(";")[:-1]
            if self.random.random() >= unwritten
        ]
        begin.append("mad.lo.u32 %r27, %laneid, 16, %r26; st.shared.v2.u64 [%r27], {%rd9, %rd10};")
        body = [
            f"proto: .callprototype (.param .b32 _) _ ({prototype});",
            *SET_UP,
            f"setp.lt.u32 %wild, %r8, {self.random.choice((1, 4, 32))};",
            *begin,
            *self.statements(5),
            *(END[letter] for letter in letters),
        ]
        return entry(
            "\n".join(f"  {line}" for line in body),
            4,
            before="".join(self.functions),
            variables=VARIABLES,
        )

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def register(self, letter: str = "r") -> str:
        return self.random.choice(CHOICE[letter].split())

    def some(self, choices: list) -> Any:
        """One of those that need only the kernel's classes of registers, which they begin with."""
        return self.random.choice([one for one in choices if self.letters.issuperset(one[0])])

    def value(self, letter: str = "r") -> str:
        if letter != "r":
            few = self.random.random() < 0.15 and letter != "p"
            return self.random.choice(LITERALS[letter]) if few else self.register(letter)
        special = ("%block", "%tid") if self.inside else ("%ntid.x",)
        return self.random.choice(
            (
                self.register(),
                self.register(),
                self.register(),
                str(self.random.randrange(-3, 40)),
                "%laneid",
                *special,
            )
        )

    def condition(self, name: str) -> list[str]:
        letter = self.random.choice("rrfx")
        if letter in self.letters - {"r"}:
            type_ = {"f": "f32", "x": "f64"}[letter]
            compare = self.random.choice(FLOATS)
            return [
                f"setp.{compare}.{type_} {name}, {self.register(letter)}, {self.value(letter)};"
            ]
        compare = self.random.choice(("eq", "ne", "lt", "gt", "le"))
        narrow = self.random.choice((1, 3, 7, 31))
        return [
            f"and.b32 %r20, {self.value()}, {narrow};",
            f"setp.{compare}.s32 {name}, %r20, {self.random.randrange(narrow + 1)};",
        ]

    def statements(self, most: int) -> list[str]:
        lines = []
        for _ in range(self.random.randrange(1, most + 1)):
            lines += self.statement()
        return lines

    def statement(self) -> list[str]:
        deep = self.depth >= 3 or self.left <= 0
        kind = self.random.random() * (0.5 if deep else 1)
        self.depth += 1
        self.left -= 1
        try:
            if kind < 0.3:
                return self.guarded(
                    [self.arithmetic() for _ in range(self.random.choice((1, 1, 2, 3)))]
                )
            if kind < 0.5:
                return self.guarded(self.access())
            if kind < 0.58 and self.functions:
                return self.call()
            if kind < 0.61 and self.inside:
                return self.wild()
            if kind < 0.66 and self.inside and self.depth == 1:
                return self.exchange()
            if kind < 0.76:
                return self.branch()
            if kind < 0.82:
                return self.table()
            if self.meetings and kind < 0.88:
                return self.meeting()
            return self.entered() if kind < 0.91 else self.loop()
        finally:
            self.depth -= 1

    def arithmetic(self) -> str:
        if self.random.random() < 0.4:
            return f"{self.random.choice(PLAIN)} {self.register()}, {self.value()}, {self.value()};"
        text = self.random.choice(
            [one for one in ARITHMETIC if self.letters.issuperset(re.findall("[@$](.)", one))]
        )
        text = chosen(self.random, text)
        for letter in CHOICE:
            while f"@{letter}" in text:
                text = text.replace(f"@{letter}", self.register(letter), 1)
            while f"${letter}" in text:
                text = text.replace(f"${letter}", self.value(letter), 1)
        return f"{text};"

    def guarded(self, lines: list[str]) -> list[str]:
        """Now and then, only where a predicate says so."""
        if self.random.random() < 0.85:
            return lines
        guard = f"@{self.random.choice(('', '!'))}{self.register('p')} "
        return [*lines[:-1], guard + lines[-1]]

    def access(self) -> list[str]:
        lot = self.random.random()
        letter, type_, size = self.some(TYPES)
        plane = "%rd" + str(16 + {1: 0, 2: 1, 4: 2, 8: 3}[size])
        if lot < 0.2 and self.inside:
            return self.either(self.random.choice(("", ".global")), type_, letter, plane)
        if lot < 0.25 and self.inside and not self.alone:
            return [
                "and.b32 %r21, %r12, 6;",
                "cvt.u64.u32 %rd11, %r21;",
                "mov.u64 %rd12, own;",
                "mad.wide.u32 %rd11, %r21, 8, %rd12;",
                *self.either(".local", type_, letter, "%rd11"),
            ]
        if lot < 0.32:
            letters, type_ = self.some(VECTORS)
            place = self.place(16, ".global")
            return [*place, *self.either(".global", type_, letters, "%rd11")]
        space = ".global"
        if self.inside:
            space = self.random.choice((".global", ".global", ".shared", ""))
        if lot < 0.45:
            letters, operation = self.some(ATOMICS)
            size = 8 if letters in "dx" else 4
            values = ", ".join(map(self.value, letters))
            if self.random.random() < 0.3 and operation.split(".")[0] not in ("exch", "cas"):
                # More than nothing: a round that changes nothing is taken for waiting, and yields.
                return [
                    *self.place(size, space),
                    f"red{space}.add.u32 [%rd11], {self.random.randrange(1, 40)};",
                ]
            return [
                *self.place(size, space),
                f"atom{space}.{operation} {self.register(letters[0])}, [%rd11], {values};",
            ]
        if lot < 0.5 and self.inside:
            number = self.random.randrange(len(TOTALS))
            return [f"red.global.{TOTALS[number]} [%rd15+{3 * AREA + 4 * number}], {self.value()};"]
        return [*self.place(size, space), *self.either(space, type_, letter, "%rd11")]

    def place(self, size: int, space: str) -> list[str]:
        """An element of the warp's own area: neighbours in a row, or anywhere."""
        if self.alone and space == ".shared":
            return ["cvt.u64.u32 %rd11, %r27;"]
        if self.alone:
            plane = 16 + (1, 2, 4, 8).index(size) if size < 16 and self.inside else 10
            return [f"mov.u64 %rd11, %rd{plane};"]
        elements = AREA // size
        lines = [
            f"and.b32 %r21, {self.value()},"
            f" {self.random.choice((3, 31, elements - 1)) & (elements - 1)};"
        ]
        lot = self.random.random()
        if lot < 0.35:
            lines = [f"add.u32 %r21, %laneid, {self.random.randrange(elements - 31)};"]
        elif lot < 0.45:
            lines = [f"xor.b32 %r21, %laneid, {self.random.randrange(elements)};"]
        elif lot < 0.55:
            lines.append(
                "and.b32 %r22, %laneid, 7; shr.u32 %r23, %r21, 3; shl.b32 %r23, %r23, 3;"
                "or.b32 %r21, %r22, %r23;"
            )
        lines.append(f"mul.wide.u32 %rd11, %r21, {size};")
        if space == ".global" or not self.inside:
            return [*lines, "add.u64 %rd11, %rd2, %rd11;"]
        lines += ["cvt.u64.u32 %rd12, %r26;", "add.u64 %rd11, %rd12, %rd11;"]
        if space == ".shared":
            return lines
        if self.random.random() < 0.5:
            return [*lines, "cvta.shared.u64 %rd11, %rd11;"]
        return [*lines[:-2], "add.u64 %rd11, %rd2, %rd11;"]

    def either(self, space: str, type_: str, letters: str, place: str) -> list[str]:
        """A load or a store."""
        if self.random.random() < 0.5:
            values = ", ".join(map(self.register, letters))
            text = f"ld{space}.{type_} {{}}, [{place}];"
        else:
            values = ", ".join(map(self.register, letters))
            text = f"st{space}.{type_} [{place}], {{}};"
        return [text.format(f"{{{values}}}" if len(letters) > 1 else values)]

    def wild(self) -> list[str]:
        """Some lanes of a few blocks go wrong here."""
        outside = self.random.choice([*WILD, "%rd11"])
        letter, type_, _ = self.some(TYPES)
        return self.random.choice(
            (
                ["mov.u32 %r21, 77;", "selp.b32 %r20, %r21, 0, %wild;", *self.jump(1, set_=False)],
                [
                    f"selp.b64 %rd11, {outside}, %rd19, %wild;",
                    *self.either("", type_, letter, "%rd11"),
                ],
                ["add.u64 %rd11, %rd10, 5;", "@%wild st.global.u32 [%rd11], %r10;"],
                [
                    f"mov.u64 %rd11, {outside};",
                    "add.u64 %rd11, %rd10, %rd11;",
                    f"@%wild ld.global.u32 {self.register()}, [%rd11];",
                ],
                [
                    "selp.b32 %r21, 0x7ffffff0, 8, %wild;",
                    "mad.lo.u32 %r21, %r21, 4, %r26;",
                    f"ld.shared.u32 {self.register()}, [%r21];",
                ],
                [
                    "selp.b64 %rd11, 0, %rd18, %wild;",
                    f"atom.global.add.u32 {self.register()}, [%rd11], 1;",
                ],
                [
                    f"@%wild add.u32 %r21, %r26, {SLOT};",
                    "@!%wild mov.u32 %r21, %r26;",
                    "st.shared.u32 [%r21], %r10;",
                ],
            )
        )

    def exchange(self) -> list[str]:
        """Through the block's shared memory, between barriers."""
        a, by = self.register(), self.random.choice((1, 7, 32, 33))
        return [
            "bar.sync 0;",
            f"mov.u32 %r21, tile+{3 * AREA};",
            "mad.lo.u32 %r22, %tid, 4, %r21;",
            f"st.shared.u32 [%r22], {a};",
            "bar.sync 0;",
            f"add.u32 %r22, %tid, {by};",
            "rem.u32 %r22, %r22, %r9;",
            "mad.lo.u32 %r22, %r22, 4, %r21;",
            f"ld.shared.u32 {self.register()}, [%r22];",
            "bar.sync 0;",
        ]

    def branch(self) -> list[str]:
        predicate = f"%p{self.depth}"
        lot = self.random.random()
        lines = self.condition(predicate)
        end = self.label()
        if lot < 0.15:
            return [*lines, f"@{predicate} add.u32 {self.register()}, {self.value()}, 7;"]
        if lot < 0.22:
            return [*lines, f"@{predicate} ret;"]
        if lot < 0.6:
            return [*lines, f"@!{predicate} bra {end};", *self.statements(3), f"{end}:"]
        other = self.label()
        return [
            *lines,
            f"@{predicate} bra {other};",
            *self.statements(3),
            f"bra.uni {end};",
            f"{other}:",
            *self.statements(3),
            f"{end}:",
        ]

    def table(self) -> list[str]:
        """A jump to one of two to four places."""
        return self.jump(self.random.randrange(2, 5))

    def jump(self, count: int, set_: bool = True) -> list[str]:
        ways = [self.label() for _ in range(count)]
        name, end = self.label(), self.label()
        most = 3 if count == 4 else 1
        lines = [f"and.b32 %r20, {self.register()}, {most};"] if set_ else []
        lines += [f"brx.idx %r20, {name};", f"{name}: .branchtargets {', '.join(ways)};"]
        for way in self.random.sample(ways, len(ways)):
            lines += [f"{way}:", *self.statements(2)]
            if self.random.random() < 0.6:
                lines.append(f"bra {end};")
        return [*lines, f"{end}:"]

    def meeting(self) -> list[str]:
        """Of the lanes that are there, or of all that have not ended."""
        here = ["activemask.b32 %r23;"]
        a, b = self.register(), self.register()
        return self.random.choice(
            (
                [*here, f"shfl.sync.bfly.b32 {a}, {b}, {self.random.randrange(32)}, 31, %r23;"],
                [*here, *self.condition("%p14"), f"vote.sync.ballot.b32 {a}, %p14, %r23;"],
                [*here, f"redux.sync.max.s32 {a}, {b}, %r23;"],
                [*here, f"and.b32 %r24, {b}, 3; match.any.sync.b32 {a}, %r24, %r23;"],
                [f"bar.sync {self.random.randrange(4)};"],
                ["bar.sync 0, 32;"],
                ["bar.arrive 1, 64;"],
                [*self.condition("%p14"), f"bar.red.popc.u32 {a}, 2, %p14;"],
                [f"shfl.sync.idx.b32 {a}, {b}, {self.random.randrange(32)}, 31, -1;"],
                ["bar.warp.sync -1;"],
            )
        )

    def loop(self) -> list[str]:
        counter, predicate = f"%r{30 + self.depth}", f"%p{8 + self.depth}"
        top, out = self.label(), self.label()
        bound = self.random.choice(("3", "%r22", "%r22"))
        lines = [f"mov.u32 {counter}, 0;", f"{top}:"]
        if self.random.random() < 0.4:
            lines += [*self.condition(f"%p{4 + self.depth}"), f"@%p{4 + self.depth} bra {out};"]
        return [
            *lines,
            *self.statements(3),
            f"add.u32 {counter}, {counter}, 1;",
            f"and.b32 %r22, {self.register()}, 7;",
            f"setp.lt.u32 {predicate}, {counter}, {bound};",
            f"@{predicate} bra {top};",
            f"{out}:",
        ]

    def entered(self) -> list[str]:
        """A loop into whose middle some lanes jump: no block of it is before all others."""
        counter, predicate = f"%r{30 + self.depth}", f"%p{8 + self.depth}"
        top, middle = self.label(), self.label()
        return [
            f"mov.u32 {counter}, 0;",
            *self.condition(f"%p{4 + self.depth}"),
            f"@%p{4 + self.depth} bra {middle};",
            f"{top}:",
            *self.statements(2),
            f"{middle}:",
            *self.statements(2),
            f"add.u32 {counter}, {counter}, 1;",
            f"setp.lt.u32 {predicate}, {counter}, {self.random.choice((2, 5))};",
            f"@{predicate} bra {top};",
        ]
