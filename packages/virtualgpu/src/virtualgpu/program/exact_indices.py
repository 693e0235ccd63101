"""Kernels that compute their indices twice: as written, and exactly in 64 bits.

For each 32-bit instruction of a chain (:mod:`.index_arithmetic`), the kernel gets a 64-bit
instruction whose registers hold the number without wrapping. At the end of the chain, ``%exact``,
an instruction of the virtual GPU, compares the two results: an address with the exact address, or
a branch's predicate with the predicate of the exact numbers. So a wrap that is undone (``a - b +
c``) is not reported, and neither is one that decides nothing.

32-bit numbers count as signed unless their use shows otherwise. If a number is zero-extended or
compared as unsigned, a negative value is left as it is, because compilers write ``1 <= i && i <
n`` as one such comparison of ``i - 1``.
"""

from __future__ import annotations

from dataclasses import replace

from virtualgpu.program.comparison import OPCODE, Comparison, Suspect
from virtualgpu.program.index_arithmetic import INT32, INT64, IndexArithmetic, is_cut, signed
from virtualgpu.program.speculation import writes
from virtualgpu.ptx import Function, Immediate, Instruction, Register, SourceLine
from virtualgpu.ptx.module import Operand

Guard = tuple[Register, bool] | None

MOST = 8  # number of candidates whose numbers are kept for a message
_ORDER = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


class Follower:
    """Generator of the function body that follows the candidates of a mark exactly."""

    def __init__(self, function: Function, arithmetic: IndexArithmetic, bits: int):
        self.function, self.arithmetic, self.bits = function, arithmetic, bits
        self.registers = dict(function.registers)
        self.chain = {
            name
            for name in arithmetic.registers
            if arithmetic.marks.get(name, 0) & bits and name in function.registers
        }
        self.leaves: set[str] = set()  # 32-bit registers outside the chain whose numbers are needed
        for name in self.chain:
            for one in arithmetic.makers.get(name, []):
                for operand in arithmetic.through(one) or ():
                    if isinstance(operand, Register) and self._is_narrow(operand):
                        self.leaves.add(operand.name)
        self.leaves -= self.chain
        self.comparisons: dict[int, Comparison] = {}
        self.before: list[Instruction] = []
        self.source: SourceLine | None = None

    def function_and_comparisons(self) -> tuple[Function, dict[int, Comparison]]:
        """Return the function, and its comparisons by the ``id`` of their instruction."""
        sinks: dict[int, list[Register]] = {}
        for one, register in self.arithmetic.sinks:
            if register.name in self.chain:
                sinks.setdefault(id(one), []).append(register)
        body: list[Instruction] = []
        starts = []
        for one in self.function.body:
            starts.append(len(body))
            self.before, self.source = [], one.source
            for register in sinks.get(id(one), []):
                self._compare(one, register)
            after = self._follow(one)
            body += [*self.before, one, *after]
        starts.append(len(body))
        labels = {name: starts[at] for name, at in self.function.labels.items()}
        marks = [(starts[at], line) for at, line in self.function.marks]
        registers = self.registers
        made = replace(self.function, registers=registers, body=body, labels=labels, marks=marks)
        return made, self.comparisons

    # -- registers and instructions ------------------------------------------------------------

    def _is_narrow(self, register: Register) -> bool:
        return self.function.registers.get(register.name) in INT32

    def _exact(self, name: str) -> Register:
        """Return the register that holds the exact value of another register."""
        name = name.removeprefix("!")
        made = f"{name}/exact"
        declared = self.function.registers[name]
        self.registers[made] = "pred" if declared == "pred" else "b64"
        return Register(made)

    def _new(self, type_: str) -> Register:
        made = f"%exact/{len(self.registers)}"
        self.registers[made] = type_
        return Register(made)

    def _make(
        self, opcode: str, modifiers: str, *operands: Operand, guard: Guard = None
    ) -> Instruction:
        text = f"{opcode}.{modifiers}"
        return Instruction(
            opcode, tuple(modifiers.split(".")), operands, guard, source=self.source, text=text
        )

    def _add(self, opcode: str, modifiers: str, *operands: Operand, guard: Guard = None) -> None:
        self.before.append(self._make(opcode, modifiers, *operands, guard=guard))

    def _follow(self, one: Instruction) -> list[Instruction]:
        """Add the exact instruction before ``one``; return the instructions to follow it."""
        after = []
        for name in writes(one):
            if name in self.leaves:
                after.append(self._make("cvt", "s64.s32", self._exact(name), Register(name)))
            elif name in self.chain and self.arithmetic.through(one) is None:
                declared = self.function.registers[name]
                how = {"pred": ("mov", "pred")}.get(
                    declared, ("cvt", "s64.s32") if declared in INT32 else ("mov", "b64")
                )
                exact = self._exact(name)
                after.append(self._make(*how, exact, Register(name), guard=one.guard))
            elif name in self.chain:
                self._twice(one, name)
        return after

    def _twice(self, one: Instruction, name: str) -> None:
        """Add the instruction that computes exactly what ``one`` computes."""
        given = self.arithmetic.through(one)
        assert given is not None
        target, guard, opcode = self._exact(name), one.guard, one.opcode
        words, kind = ".".join(one.modifiers), one.modifiers[-1]
        if kind == "pred":
            self._add(opcode, "pred", target, *map(self._predicate, given), guard=guard)
        elif opcode == "ld":
            self._add("ld", "param.u64", target, *one.operands[1:])
        elif opcode == "setp":
            self._compared(one, target)
        elif opcode == "cvta":
            self._add(opcode, words, target, *map(self.number, given), guard=guard)
        elif opcode == "shr":
            count = one.operands[2]
            assert isinstance(count, Immediate)
            back = Immediate(32 - count.value)
            self._add("shl", "b64", target, self.number(given[0]), back, guard=guard)
        elif opcode == "cvt" and not is_cut(one, self.function.registers) and kind == "u32":
            value = self._extended(given[0]) if one.modifiers[0] in INT64 else self.number(given[0])
            self._add("mov", "b64", target, value, guard=guard)
        elif opcode in ("cvt", "mov"):
            self._add("mov", "b64", target, self.number(given[0]), guard=guard)
        elif "wide" in one.modifiers:
            extend = self._extended if kind[0] == "u" else self.number
            values = [*map(extend, given[:2]), *map(self.wide, given[2:])]
            self._add(opcode, "lo.s64", target, *values, guard=guard)
        else:
            number = self.number if kind in INT32 else self.wide
            values = [number(operand) for operand in given]
            more = one.operands[1 + len(given) :]  # the predicate of selp, the count of shl
            form = "lo.s64" if opcode in ("mul", "mad") else "s64"
            if opcode in ("selp", "shl", "and", "or", "not"):
                form = "b64"
            self._add(opcode, form, target, *values, *more, guard=guard)

    def _compared(self, one: Instruction, target: Register) -> None:
        how, kind = one.modifiers
        if kind in INT64:
            values = [*map(self.wide, one.operands[1:])]
            form = f"{how}.{kind}"
        elif kind == "s32" and how not in ("eq", "ne"):
            values = [*map(self.number, one.operands[1:])]
            form = f"{how}.s64"
        else:
            values = [*map(self._extended, one.operands[1:])]
            form = f"{_ORDER.get(how, how)}.s64"
        self._add("setp", form, target, *values, guard=one.guard)

    def _predicate(self, operand: Operand) -> Operand:
        if isinstance(operand, Register) and operand.name.removeprefix("!") in self.chain:
            exact = self._exact(operand.name)
            return Register(f"!{exact.name}") if operand.name.startswith("!") else exact
        return operand

    def number(self, operand: Operand) -> Operand:
        """Return the exact number of an operand; 32-bit operands count as signed."""
        if isinstance(operand, Immediate):
            return Immediate(signed(operand))
        assert isinstance(operand, Register)
        if operand.name in self.chain or operand.name in self.leaves:
            return self._exact(operand.name)
        return operand

    def wide(self, operand: Operand) -> Operand:
        """Return the exact number of a 64-bit operand."""
        return operand if isinstance(operand, Immediate) else self.number(operand)

    def _extended(self, operand: Operand) -> Operand:
        """Return the number of a 32-bit operand that counts as unsigned."""
        if isinstance(operand, Immediate):
            return Immediate(operand.value & 0xFFFF_FFFF)
        assert isinstance(operand, Register)
        low = self._new("b64")
        self._add("cvt", "u64.u32", low, operand)
        if operand.name not in self.chain:
            return low
        exact, below, value = self._exact(operand.name), self._new("pred"), self._new("b64")
        self._add("setp", "lt.s64", below, exact, Immediate(0))
        self._add("selp", "b64", value, low, exact, below)
        return value

    # -- where chains end ----------------------------------------------------------------------

    def _compare(self, one: Instruction, register: Register) -> None:
        values: list[Register] = []
        suspects = []

        def place(operand: Operand) -> int:
            exact = self.number(operand)
            assert isinstance(exact, Register)
            if exact not in values:
                values.append(exact)
            return values.index(exact)

        def kept(operand: Operand, narrow: bool) -> int | Immediate:
            if isinstance(operand, Immediate):
                return Immediate(signed(operand, 32 if narrow else 64))
            return place(operand)

        for suspect in self.arithmetic.of(self.arithmetic.marks[register.name] & self.bits)[:MOST]:
            given = self.arithmetic.through(suspect)
            assert given is not None
            narrow = suspect.opcode not in ("cvt", "shr")
            if suspect.opcode == "shl":
                given = suspect.operands[1:]
            operands = tuple(kept(operand, narrow) for operand in given)
            suspects.append(Suspect(suspect, operands, place(suspect.operands[0])))
        exact = self._exact(register.name)
        is_address = one.guard is None or one.guard[0] != register
        where = one.guard if is_address else None
        made = self._make(OPCODE, "s64", register, exact, *values)
        if where is not None:
            made = replace(made, operands=(*made.operands, where[0]))
        self.before.append(made)
        self.comparisons[id(made)] = Comparison(
            one, is_address, register, exact, where, tuple(values), tuple(suspects)
        )
