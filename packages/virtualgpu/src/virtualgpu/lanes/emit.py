"""One basic block of PTX as one Python function over NumPy arrays.

The function reads the registers that the block needs, calls one operation per instruction
(:mod:`virtualgpu.operations` for data, :mod:`virtualgpu.lanes.access` for memory) and
leaves the registers that live on. Types are settled here, once: a register's bits are viewed
as the type that an instruction needs, so nothing is looked up while lanes run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction
from virtualgpu.lanes import control, memory_access
from virtualgpu.lanes.b128 import halves, join
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.special import SPECIAL
from virtualgpu.lanes.wave import WARP
from virtualgpu.operations.compiler import Deferred
from virtualgpu.operations.types import UNSIGNED
from virtualgpu.program.decode import decoding
from virtualgpu.program.literals import literal
from virtualgpu.program.program import Block, Program
from virtualgpu.program.steps import WIDE, Barrier, Call, Data, MemoryAccess, Move, Parameter, Step
from virtualgpu.ptx import Immediate, Register, Symbol
from virtualgpu.ptx.module import Operand
from virtualgpu.wording import a_or_an

# A block's function gives what the block's ending needs (program.program.Block).
Run = Callable[[Group], Any]
# Operands are taken for what their place wants (hence the Any's in this module): one of another
# kind fails on the way, and `prepare` says that the instruction cannot be decoded.

U64 = np.dtype("u8")


def prepare(program: Program, block: Block) -> None:
    """Write the block's body as Python."""
    emitter = Emitter(program, block)
    for step in block.steps:
        with decoding(program, step.instruction):
            emitter.emit(step)
    # Liveness goes by the steps: a register that is read beside them would have been dropped.
    assert emitter.reads <= block.reads, [step.instruction.text for step in block.steps]
    block.run = emitter


def _address(address: int) -> np.ndarray:
    return np.array([address & (1 << 64) - 1], U64)


def compile_block(block: Block) -> Run:
    """Return the block's function, once the registers that live on are known.

    Python compiles it when it first runs: 0.3 ms a block, and many never do.
    """
    emitter: Emitter = block.run
    text = emitter.text((block.live_out - set(block.receives)) | set(block.passes))

    def first_run(group: Group) -> Any:
        made = emitter.function(text)
        if block.run is first_run:
            block.run = made
        return made(group)

    return first_run


@lru_cache(maxsize=1024)
def _code(text: str, name: str) -> CodeType:
    """Compile equal text once: a kernel is often loaded on two devices, or for two schedules."""
    return compile(text, name, "exec")


class Emitter:
    """Collects the lines of one block's function."""

    def __init__(self, program: Program, block: Block):
        self.program, self.block, self.code = program, block, block.function
        self.names: dict[str, Any] = {"np": np}
        self.dtype_names: dict[np.dtype, str] = {}
        self.current: dict[int, tuple[str, np.dtype]] = {}  # slot → (variable, its type now)
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
            if isinstance(value, Deferred):  # its ufunc, which no call has to go through then
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

        They are truncated or zero-extended where sizes differ.
        """
        if have == want:
            return name
        if "V" in (have.kind, want.kind):
            raise PTXSyntaxError(
                "registers of 128 bits are for ld, st, atom.exch, atom.cas and "
                "mov of .b128, which take no others"
            )
        if have.itemsize != want.itemsize:
            middle = UNSIGNED[want.itemsize]
            if have == np.float16:  # of a register of 16 bits: none is declared as a float of them
                bits = UNSIGNED[2]
                return self.cast(f"{name}.view({self.dtype(bits)})", bits, want)
            if have.kind not in "uib":
                raise PTXSyntaxError(f"{a_or_an(have)} value where {want} is wanted")
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
        """Return the address of a variable in its own space, or of a function: u64, shape (1,)."""
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
                raise PTXSyntaxError(f"{name}: only predicates are negated by !")
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
        """Give a register a new value; narrower values are extended by their own sign."""
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
        # The name is new at every write: earlier values may still be held by other registers.
        variable = f"r{slot}"
        self.lines.append(f" {variable} = {expression}")
        self.current[slot] = (variable, have)
        self.written.add(slot)

    def give(self, slot: int | None, expression: str, have: np.dtype) -> None:
        """Give a register a new value; None: nothing keeps it."""
        if slot is None:
            self.lines.append(f" {expression}")
        else:
            self.write_slot(slot, expression, have)

    def give_each(self, slots: Sequence[int | None], call: str, have: np.dtype) -> None:
        """Give one register, or each of several, what a call returns."""
        if len(slots) == 1:
            self.give(slots[0], call, have)
            return
        self.lines.append(f" values = {call}")
        for number, slot in enumerate(slots):
            if slot is not None:
                self.write_slot(slot, f"values[{number}]", have)

    def set(self, register: Register, expression: str, have: np.dtype) -> None:
        self.give(
            None if register.name == "_" else self.program.register(self.code, register),
            expression,
            have,
        )

    # -- steps ---------------------------------------------------------------------------------

    def emit(self, step: Step) -> None:
        if isinstance(step, Data):
            self.data(step)
        elif isinstance(step, Move):
            self.move(step)
        elif isinstance(step, Parameter):
            self.parameter(step)
        elif isinstance(step, MemoryAccess):
            memory_access.emit(self, step)
        elif isinstance(step, Barrier):
            control.barrier(self, step)
        elif isinstance(step, Call):
            control.provided(self, step)
        else:
            control.emit(self, step)

    def data(self, step: Data) -> None:
        """Arithmetic, logic, comparison, conversion: what the table of operations has."""
        operation = step.operation
        arguments = [self.get(s, d) for s, d in zip(step.sources, operation.sources, strict=True)]
        if operation.carry_in:
            arguments.append(self.read(self.code.slots["%cc"])[0])
        call = f"{self.put(operation.function, 'f')}({', '.join(arguments)})"
        if len(step.targets) == 1:
            self.give(step.targets[0], call, operation.destinations[0])
            return
        names = [f"o{i}" for i in range(len(operation.destinations) + operation.carry_out)]
        self.lines.append(f" {', '.join(names)} = {call}")
        kinds = [*operation.destinations, *([np.dtype("?")] if operation.carry_out else [])]
        for slot, name, dtype in zip(step.targets, names, kinds, strict=False):
            if slot is not None:
                self.write_slot(slot, name, dtype)

    def parameter(self, step: Parameter) -> None:
        """Emit a load of the kernel's own parameters."""
        for number, slot in enumerate(step.targets):
            at = step.offset + number * step.dtype.itemsize
            if step.dtype == WIDE:
                parts = ", ".join(
                    f"group.wave.launch.parameter({at + half}, {self.dtype(U64)})"
                    for half in (0, 8)
                )
                value = f"{self.put(join, 'f')}({parts})"
            else:
                value = f"group.wave.launch.parameter({at}, {self.dtype(step.dtype)})"
            self.give(slot, value, step.dtype)

    def move(self, step: Move) -> None:
        """Emit a copy, or packing and unpacking of a vector (PTX ISA, "mov")."""
        want, sources, targets = step.dtype, step.sources, step.targets
        if want == WIDE and len(sources) > 1:
            parts = ", ".join(self.get(item, U64) for item in sources)
            self.give(targets[0], f"{self.put(join, 'f')}({parts})", WIDE)
        elif want == WIDE and len(targets) > 1:
            call = f"{self.put(halves, 'f')}({self.get(sources[0], WIDE)})"
            self.give_each(targets, call, U64)
        elif len(sources) > 1:
            part = UNSIGNED[want.itemsize // len(sources)]
            whole = UNSIGNED[want.itemsize]
            terms = [
                f"({self.get(item, part)}.astype({self.dtype(whole)})"
                f" << {self.constant(np.array([8 * part.itemsize * i], whole))})"
                for i, item in enumerate(sources)
            ]
            self.give(targets[0], " | ".join(terms), whole)
        elif len(targets) > 1:
            part = UNSIGNED[want.itemsize // len(targets)]
            whole = UNSIGNED[want.itemsize]
            self.lines.append(f" whole = {self.get(sources[0], whole)}")
            for i, slot in enumerate(targets):
                shift = self.constant(np.array([8 * part.itemsize * i], whole))
                if slot is not None:
                    self.write_slot(slot, f"(whole >> {shift}).astype({self.dtype(part)})", part)
        else:
            self.give(targets[0], self.get(sources[0], want), want)
