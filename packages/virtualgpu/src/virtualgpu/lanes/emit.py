"""One basic block of PTX as one Python function over NumPy arrays.

The function reads the registers that the block needs, calls one operation per instruction
(:mod:`virtualgpu.operations` for data, :mod:`virtualgpu.lanes.access` for memory) and
leaves the registers that live on. Types are settled here, once: a register's bits are viewed
as the type that an instruction needs, so nothing is looked up while lanes run.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from virtualgpu import operations
from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction, VirtualGPUError
from virtualgpu.lanes import control, memory_access, wide_decode
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.special import SPECIAL
from virtualgpu.lanes.wave import WARP
from virtualgpu.operations.types import REGISTER_DTYPES, UNSIGNED
from virtualgpu.program.program import Block, Program
from virtualgpu.ptx import Immediate, Instruction, Register, Symbol, Vector
from virtualgpu.ptx.module import Operand
from virtualgpu.ptx.opcodes import of_family

# A block's function gives what the block's ending needs (program.program.Block).
Run = Callable[[Group], Any]
# Operands are taken for what their place wants (hence the Any's in this module): one of another
# kind fails on the way, and `prepare` says that the instruction cannot be decoded.

U64 = np.dtype("u8")
MEMORY = of_family("memory", "hint")


def prepare(program: Program, block: Block) -> None:
    """Write the block's body as Python and find which registers it reads and writes."""
    emitter = Emitter(program, block)
    for instruction in block.instructions:
        try:
            emitter.emit(instruction)
        except UnsupportedInstruction as error:
            raise UnsupportedInstruction(f"{error.message}, in `{instruction.text}`",
                                         program.location(instruction.source)) from None
        except PTXSyntaxError as error:
            raise PTXSyntaxError(
                error.message, error.location or program.location(instruction.source)) from None
        except VirtualGPUError:
            raise
        except Exception as error:
            raise PTXSyntaxError(f"cannot decode `{instruction.text[:200]}`: {error!r}") from None
    block.run = emitter
    block.reads, block.writes = emitter.reads, emitter.written


def literal(value: Immediate, want: np.dtype) -> np.ndarray:
    """A literal as ``want``: shape (1,)."""
    if value.type is None:
        if want.kind == "f":
            raise PTXSyntaxError(f"integer {value.value} where a float is wanted")
        if want.kind == "b":
            return np.array([bool(value.value)])
        if not -(1 << 63) <= value.value < 1 << 64:
            raise PTXSyntaxError(f"{value.value} does not fit 64 bits")
        bits = value.value & ((1 << 8 * want.itemsize) - 1)
        return np.array([bits], UNSIGNED[want.itemsize]).view(want)
    have = np.dtype("f4" if value.type == "f32" else "f8")
    array = np.array([value.value], UNSIGNED[have.itemsize]).view(have)
    if want.kind == "f" and want != have:
        with np.errstate(all="ignore"):
            array = array.astype(want)
    elif want.itemsize != have.itemsize:
        raise PTXSyntaxError(f"a {value.type} literal where {want} is wanted")
    return array.view(want)


def _address(address: int) -> np.ndarray:
    return np.array([address & (1 << 64) - 1], U64)


def compile_block(block: Block) -> Run:
    """The block's function, once it is known which registers live on.

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
    """The same text once: a kernel is often loaded on two devices, or for two schedules."""
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
        """The block's function as Python, where the slots ``live_out`` are needed after it."""
        loads = [f" r{s} = get({s}, z{s})" for s in sorted(self.reads)]
        for slot in self.reads:
            self.names[f"z{slot}"] = np.zeros(1, self.program.dtypes[slot])
        kept = [s for s in sorted(live_out) if s not in self.written]
        made = [
            f"{s}: {self.cast(*self.current[s], self.program.dtypes[s])}"
            for s in sorted(live_out) if s in self.written
        ]
        return "\n".join(
            ["def run(group):", " old = group.registers", " get = old.reader", *loads, *self.lines,
             f" group.registers = old.carry({tuple(kept)!r}, {{{', '.join(made)}}})",
             f" return {self.result}"]
        )

    def function(self, text: str) -> Run:
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
        """The bits of ``name`` as ``want``: truncated or zero-extended where sizes differ."""
        if have == want:
            return name
        if "V" in (have.kind, want.kind):
            raise PTXSyntaxError("registers of 128 bits are for ld, st, atom.exch, atom.cas and "
                                 "mov of .b128, which take no others")
        if have.itemsize != want.itemsize:
            middle = UNSIGNED[want.itemsize]
            if have == np.float16:  # of a register of 16 bits: none is declared as a float of them
                bits = UNSIGNED[2]
                return self.cast(f"{name}.view({self.dtype(bits)})", bits, want)
            if have.kind not in "uib":
                raise PTXSyntaxError(f"a {have} value where {want} is wanted")
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
        """The address of a variable within its own space, or of a function: u64, shape (1,)."""
        name = symbol.name
        program = self.program
        if name == "WARP_SZ":  # PTX ISA, "Predefined Constants"
            return self.constant(np.array([WARP + symbol.offset], U64))
        if name in program.shared.addresses:
            return self.constant(
                _address(program.shared.addresses[name] + symbol.offset))
        if name in self.code.frame:
            offset = self.code.frame[name] + symbol.offset
            return f"{self.put(_address, 'f')}(group.frame + {offset})"
        if name in program.parameter_offsets and self.code is program.entry_code:
            offset = program.parameter_offsets[name] + symbol.offset
            return f"group.wave.launch.parameter_address({offset})"
        address = program.module.address(name)
        return self.constant(np.array([address + symbol.offset & (1 << 64) - 1], U64))

    def get(self, operand: Operand, want: np.dtype) -> str:
        """An expression for an operand's value as ``want``."""
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
                have, expression = UNSIGNED[have.itemsize], (
                    f"({expression}).view({self.dtype(UNSIGNED[have.itemsize])})")
            wide = np.dtype(f"{'i' if have.kind == 'i' else 'u'}{declared.itemsize}")
            expression, have = f"({expression}).astype({self.dtype(wide)})", wide
        elif have.itemsize > declared.itemsize:
            raise PTXSyntaxError(f"a {have} result for a register of {declared}")
        # The name is new at every write: earlier values may still be held by other registers.
        variable = f"r{slot}"
        self.lines.append(f" {variable} = {expression}")
        self.current[slot] = (variable, have)
        self.written.add(slot)

    def set(self, register: Register, expression: str, have: np.dtype) -> None:
        if register.name == "_":
            self.lines.append(f" {expression}")
            return
        self.write_slot(self.program.register(self.code, register), expression, have)

    # -- instructions --------------------------------------------------------------------------

    def emit(self, instruction: Instruction) -> None:
        opcode = instruction.opcode
        if opcode in MEMORY:
            decode = wide_decode if instruction.modifiers[-1:] == ("b128",) else memory_access
            decode.emit(self, instruction)
        elif opcode == "mov":
            self.move(instruction)
        elif control.emit(self, instruction):
            pass
        else:
            self.data(instruction)

    def data(self, instruction: Instruction) -> None:
        """Arithmetic, logic, comparison, conversion: what the table of operations has."""
        targets: list[Any] = list(instruction.operands[:1])
        if instruction.second is not None:
            targets.append(instruction.second)
        sources = instruction.operands[1:]
        operation = operations.lookup(
            instruction.opcode, instruction.modifiers, len(sources), len(targets))
        if len(sources) != len(operation.sources):
            raise PTXSyntaxError(f"{instruction.name} takes {len(operation.sources)} operands")
        arguments = [
            self.get(s, d) for s, d in zip(sources, operation.sources, strict=True)
        ]
        carry = self.program.slot(self.code, "%cc", np.dtype("?"))
        if operation.carry_in:
            arguments.append(self.read(carry)[0])
        call = f"{self.put(operation.function, 'f')}({', '.join(arguments)})"
        if len(targets) == 1 and not operation.carry_out:
            self.set(targets[0], call, operation.destinations[0])
            return
        names = [f"o{i}" for i in range(len(operation.destinations) + operation.carry_out)]
        self.lines.append(f" {', '.join(names)} = {call}")
        for target, name, dtype in zip(targets, names, operation.destinations, strict=False):
            if target.name != "_":
                self.set(target, name, dtype)
        if operation.carry_out:
            self.write_slot(carry, names[-1], np.dtype("?"))

    def move(self, instruction: Instruction) -> None:
        """``mov``: a copy, or packing and unpacking of a vector (PTX ISA, "mov")."""
        operands: tuple[Any, ...] = instruction.operands
        target, source = operands
        if instruction.modifiers == ("b128",):
            wide_decode.move(self, target, source)
            return
        want = REGISTER_DTYPES.get(instruction.modifiers[-1])
        if want is None:
            raise UnsupportedInstruction(instruction.name)
        if instruction.modifiers[-1] in ("f32", "f64"):
            want = np.dtype("f4" if want.itemsize == 4 else "f8")
        for operand in (source, target):
            if isinstance(operand, Vector) and len(operand.items) not in (2, 4):
                raise PTXSyntaxError(f"mov of {len(operand.items)} parts: {instruction.text[:80]}")
        if isinstance(source, Vector):
            part = UNSIGNED[want.itemsize // len(source.items)]
            whole = UNSIGNED[want.itemsize]
            terms = [
                f"({self.get(item, part)}.astype({self.dtype(whole)})"
                f" << {self.constant(np.array([8 * part.itemsize * i], whole))})"
                for i, item in enumerate(source.items)
            ]
            self.set(target, " | ".join(terms), whole)
        elif isinstance(target, Vector):
            part = UNSIGNED[want.itemsize // len(target.items)]
            whole = UNSIGNED[want.itemsize]
            self.lines.append(f" whole = {self.get(source, whole)}")
            parts: tuple[Any, ...] = target.items
            for i, item in enumerate(parts):
                shift = self.constant(np.array([8 * part.itemsize * i], whole))
                if item.name != "_":
                    self.set(item, f"(whole >> {shift}).astype({self.dtype(part)})", part)
        else:
            self.set(target, self.get(source, want), want)
