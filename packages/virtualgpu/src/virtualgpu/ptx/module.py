"""Data classes of a parsed PTX module.

Names follow the PTX ISA, "State Spaces, Types, and Variables" and "Instruction Operands".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from virtualgpu.sources import SourceLine


class Register(NamedTuple):
    """Virtual register with a name unique in its function, because scopes may reuse names."""

    name: str


class Immediate(NamedTuple):
    """Literal: an int, or the bits of a float with their type ``f32`` or ``f64``."""

    value: int
    type: str | None = None


class Symbol(NamedTuple):
    """Address of a variable or function, plus a byte offset.

    In an initial value, ``mask`` selects bits of the address, and the lowest selected bit becomes
    bit 0 (PTX ISA, "Initializers"). A mask of 0 means the whole address.
    """

    name: str
    offset: int = 0
    mask: int = 0


class Label(NamedTuple):
    """Branch target, or the name of a ``.branchtargets`` or ``.callprototype`` list."""

    name: str


class Address(NamedTuple):
    """``[base + offset]``, where the base is a register, a symbol or an absolute immediate."""

    base: Register | Symbol | Immediate
    offset: int = 0


class Vector(NamedTuple):
    """``{a, b, ...}``: the operands of a vector load, store, pack or call list."""

    items: tuple[Operand, ...]


Operand = Register | Immediate | Symbol | Label | Address | Vector
InitialValue = int | Immediate | Symbol


@dataclass(slots=True)
class Instruction:
    """One PTX instruction.

    ``opcode`` is the first word (``add``) and ``modifiers`` are the others (``("rn", "f32")``).
    ``operands`` are in PTX order, destination first. ``second`` is the destination ``q`` of ``setp
    p|q`` and ``shfl d|p``. ``guard`` is ``(predicate register, negated)``. ``used_bytes`` has one
    bit for each byte of a load. A bit is 0 if the compiler says that the program does not use the
    byte (PTX ISA, ".pragma", "used_bytes_mask"). It is None if the compiler says nothing.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[Register, bool] | None = None
    second: Register | None = None
    source: SourceLine | None = None
    text: str = ""
    used_bytes: int | None = None

    @property
    def name(self) -> str:
        return ".".join((self.opcode, *self.modifiers))


@dataclass(slots=True)
class Variable:
    """Variable of a state space.

    ``element`` is the PTX type without the dot. ``count`` is the number of elements, or 0 for an
    array of unknown size (dynamic shared memory). ``values`` are the initial values: ints, float
    literals as ``Immediate``, and addresses as ``Symbol``.
    """

    name: str
    space: str
    element: str
    count: int
    align: int
    size: int
    linkage: str = ""
    values: tuple[InitialValue, ...] | None = None
    is_array: bool = False


# Pragma of a compiler for a kernel: threads that store to the same place in shared memory by one
# instruction store the same value. PTX ignores unknown strings (PTX ISA, ".pragma").
ONE_STORE = "virtualgpu one store"
# Pragma for the start of a source line, with its number and its URL-quoted file name.
MARK = "virtualgpu line"


@dataclass(slots=True)
class Function:
    """A ``.entry`` or ``.func``: parameters, registers and a body of instructions and labels.

    ``marks`` has the source lines that begin in the body (:data:`MARK`), each with the index of an
    instruction that runs if and only if the line does.
    """

    name: str
    is_entry: bool
    linkage: str = ""
    parameters: tuple[Variable, ...] = ()
    returns: tuple[Variable, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    required_block: tuple[int, ...] | None = None
    maximum_threads: int | None = None
    required_cluster: tuple[int, int, int] | None = None
    explicit_cluster: bool = False
    maximum_cluster: int | None = None
    pragmas: list[str] = field(default_factory=list)
    marks: list[tuple[int, SourceLine]] = field(default_factory=list)
    source: SourceLine | None = None
    is_declaration: bool = False


@dataclass(slots=True)
class PTXModule:
    """PTX translation unit; ``debug`` is true if it was compiled unoptimised for a debugger."""

    version: str = ""
    target: str = ""
    debug: bool = False
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
