"""Registers, operands and constants of a block's function during code generation.

Types are determined here, once: a register's bits are viewed as the type that an instruction
needs, so nothing is looked up while the kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.special import SPECIAL
from virtualgpu.lanes.wave import WARP
from virtualgpu.operations.compiler import LazyUfunc
from virtualgpu.operations.types import UNSIGNED
from virtualgpu.program.literals import literal
from virtualgpu.program.program import BasicBlock, Program
from virtualgpu.ptx import Immediate, Register, Symbol
from virtualgpu.ptx.module import Operand
from virtualgpu.wording import a_or_an

# A block's function returns what the end of the block needs (program.program.BasicBlock).
Run = Callable[[Group], Any]

U64 = np.dtype("u8")


def _address(address: int) -> np.ndarray:
    return np.array([address & (1 << 64) - 1], U64)


@lru_cache(maxsize=1024)
def _code(text: str, name: str) -> CodeType:
    """Compile equal text once, because kernels are often loaded for two devices or schedules."""
    return compile(text, name, "exec")


class Emitter:
    """Collector of the lines of one block's function."""

    def __init__(self, program: Program, block: BasicBlock):
        self.program, self.block, self.code = program, block, block.function
        self.names: dict[str, Any] = {"np": np}
        self.dtype_names: dict[np.dtype, str] = {}
        self.current: dict[int, tuple[str, np.dtype]] = {}  # slot → (variable, its present type)
        self.reads: set[int] = set()
        self.written: set[int] = set()
        self.lines: list[str] = []
        self.result = "None"
        self.constants: dict[tuple[np.dtype, bytes], str] = {}

    def text(self, live_out: Set[int]) -> str:
        """Return the block's function as Python text.

        The slots ``live_out`` are needed after it.
        """
        loads = [f" r{s} = get({s}, z{s})" for s in sorted(self.reads)]
        for slot in self.reads:
            self.names[f"z{slot}"] = np.zeros(1, self.program.dtypes[slot])
        kept = [s for s in sorted(live_out) if s not in self.written]
        made = [
            f"{s}: {self.cast(*self.current[s], self.program.dtypes[s])}"
            for s in sorted(live_out)
            if s in self.written
        ]
        return "\n".join(
            [
                "def run(group):",
                " old = group.registers",
                " get = old.reader",
                *loads,
                *self.lines,
                f" group.registers = old.carry({tuple(kept)!r}, {{{', '.join(made)}}})",
                f" return {self.result}",
            ]
        )

    def function(self, text: str) -> Run:
        for name, value in self.names.items():
            if isinstance(value, LazyUfunc):  # use its ufunc directly in calls
                self.names[name] = value.compile()
        exec(_code(text, f"<PTX block {self.block.index}>"), self.names)
        run: Run = self.names["run"]
        return run

    # -- values --------------------------------------------------------------------------------

    def put(self, value: object, prefix: str) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def dtype(self, dtype: np.dtype) -> str:
        if dtype not in self.dtype_names:
            self.dtype_names[dtype] = self.put(dtype, "T")
        return self.dtype_names[dtype]

    def cast(self, name: str, have: np.dtype, want: np.dtype) -> str:
        """Return the bits of ``name`` as ``want``.

        They are truncated or zero-extended if the sizes differ.
        """
        if have == want:
            return name
        if "V" in (have.kind, want.kind):
            raise PTXSyntaxError(
                "registers of 128 bits can only be used in ld, st, atom.exch, atom.cas and mov of "
                "type .b128, and these instructions accept no other registers"
            )
        if have.itemsize != want.itemsize:
            middle = UNSIGNED[want.itemsize]
            if have.kind == "f":
                bits = UNSIGNED[have.itemsize]
                return self.cast(f"{name}.view({self.dtype(bits)})", bits, want)
            return self.cast(f"{name}.astype({self.dtype(middle)})", middle, want)
        if want.kind == "b":
            return f"({name} != 0)"
        return f"{name}.view({self.dtype(want)})"

    def constant(self, array: np.ndarray) -> str:
        key = (array.dtype, array.tobytes())
        if key not in self.constants:
            self.constants[key] = self.put(array, "c")
        return self.constants[key]

    def symbol_address(self, symbol: Symbol) -> str:
        """Return the address of a variable in its space, or of a function: u64, shape (1,)."""
        name = symbol.name
        program = self.program
        if name == "WARP_SZ":  # PTX ISA, "Predefined Constants"
            return self.constant(np.array([WARP + symbol.offset], U64))
        if name in program.shared.addresses:
            return self.constant(_address(program.shared.addresses[name] + symbol.offset))
        if name in self.code.frame:
            offset = self.code.frame[name] + symbol.offset
            return f"{self.put(_address, 'f')}(group.frame + {offset})"
        if name in program.parameter_offsets and self.code is program.entry_code:
            offset = program.parameter_offsets[name] + symbol.offset
            return f"group.wave.launch.parameter_address({offset})"
        address = program.module.address(name)
        return self.constant(np.array([address + symbol.offset & (1 << 64) - 1], U64))

    def get(self, operand: Operand, want: np.dtype) -> str:
        """Return an expression for an operand's value as ``want``."""
        if isinstance(operand, Immediate):
            return self.constant(literal(operand, want))
        if isinstance(operand, Symbol):
            return self.cast(self.symbol_address(operand), U64, want)
        if not isinstance(operand, Register):
            raise PTXSyntaxError(f"unexpected operand {operand}")
        name = operand.name
        if name.startswith("!"):
            if want.kind != "b" or self.code.function.registers[name[1:]] != "pred":
                raise PTXSyntaxError(f"{name}: only predicates can be negated with !")
            return f"(~{self.get(Register(name[1:]), want)})"
        if name in self.code.function.registers:
            slot = self.program.register(self.code, operand)
            return self.cast(*self.read(slot), want)
        if name in self.code.slots:  # a parameter
            return self.cast(*self.read(self.code.slots[name]), want)
        if name in SPECIAL:
            special = SPECIAL[name]
            variable = f"s{len(self.lines)}_{len(self.names)}"
            self.lines.append(f" {variable} = {self.put(special, 'f')}(group)")
            have: np.dtype
            if name.startswith(("%grid", "%clock64")) or name == "%globaltimer":
                have = U64
            elif name == "%is_explicit_cluster":
                have = np.dtype("?")
            else:
                have = np.dtype("u4")
            return self.cast(variable, have, want)
        raise UnsupportedInstruction(f"special register {name}")

    def read(self, slot: int) -> tuple[str, np.dtype]:
        if slot not in self.current:
            self.reads.add(slot)
            self.current[slot] = (f"r{slot}", self.program.dtypes[slot])
        return self.current[slot]

    def write_slot(self, slot: int, expression: str, have: np.dtype) -> None:
        """Assign a new value to a register; narrower values are sign- or zero-extended by type."""
        declared = self.program.dtypes[slot]
        if declared.kind == "V" != have.kind:
            raise PTXSyntaxError(f"a result of {8 * have.itemsize} bits for a register of 128")
        if have.itemsize < declared.itemsize:
            if have.kind == "f":
                have, expression = (
                    UNSIGNED[have.itemsize],
                    (f"({expression}).view({self.dtype(UNSIGNED[have.itemsize])})"),
                )
            wide = np.dtype(f"{'i' if have.kind == 'i' else 'u'}{declared.itemsize}")
            expression, have = f"({expression}).astype({self.dtype(wide)})", wide
        elif have.itemsize > declared.itemsize:
            raise PTXSyntaxError(f"{a_or_an(have)} result for a register of {declared}")
        # Every write uses a new value, because other registers may still hold the earlier one.
        variable = f"r{slot}"
        self.lines.append(f" {variable} = {expression}")
        self.current[slot] = (variable, have)
        self.written.add(slot)

    def give(self, slot: int | None, expression: str, have: np.dtype) -> None:
        """Assign a value to a register; with None, only evaluate it."""
        if slot is None:
            self.lines.append(f" {expression}")
        else:
            self.write_slot(slot, expression, have)

    def give_each(self, slots: Sequence[int | None], call: str, have: np.dtype) -> None:
        """Assign a call's results to one register or to several."""
        if len(slots) == 1:
            self.give(slots[0], call, have)
            return
        self.lines.append(f" values = {call}")
        for number, slot in enumerate(slots):
            if slot is not None:
                self.write_slot(slot, f"values[{number}]", have)

    def set(self, register: Operand, expression: str, have: np.dtype) -> None:
        if not isinstance(register, Register):
            raise PTXSyntaxError(f"a result that is {register}")
        self.give(
            None if register.name == "_" else self.program.register(self.code, register),
            expression,
            have,
        )
