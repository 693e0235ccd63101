"""Records of a parsed PTX module, without behaviour.

Names follow the PTX ISA, "State Spaces, Types, and Variables" and "Instruction Operands".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from virtualgpu.sources import SourceLine


class Register(NamedTuple):
    """A virtual register, made unique within its function (inner scopes may hide outer names)."""

    name: str


class Immediate(NamedTuple):
    """A literal: an int, or the bits of a float with their type ``f32`` or ``f64``."""

    value: int
    type: str | None = None


class Symbol(NamedTuple):
    """The address of a variable or function, plus a byte offset.

    In an initial value, ``mask`` selects bits of the address, shifted down to the lowest of them
    (PTX ISA, "Initializers"); 0 where the whole address is meant.
    """

    name: str
    offset: int = 0
    mask: int = 0


class Label(NamedTuple):
    """A branch target or the name of a ``.branchtargets`` or ``.callprototype`` list."""

    name: str


class Address(NamedTuple):
    """``[base + offset]``; base is a register, a symbol or an absolute immediate."""

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

    ``opcode`` is its first word (``add``), ``modifiers`` the rest (``("rn", "f32")``).
    ``operands`` come in PTX's order, destination first; ``second`` is the destination ``q`` of
    ``setp p|q`` and ``shfl d|p``. ``guard`` is ``(predicate register, negated)``. ``used_bytes``
    has a bit for each byte of a load, 0 where the compiler says that the program does not use it
    (PTX ISA, ".pragma", "used_bytes_mask"); None: nothing is said.
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
    """A variable of a state space.

    ``element`` is its PTX type without the dot, ``count`` the number of elements (0 for an
    array of unknown size: dynamic shared memory), ``values`` initialisers: ints, float
    literals as ``Immediate``, addresses as ``Symbol``.
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


# A compiler says of a kernel: threads that store to one place in shared memory by one instruction
# store one value. PTX ISA, ".pragma": a string that is not known is ignored.
ONE_STORE = "virtualgpu one store"
# Another says that a source line begins here: its number, and its file, quoted as in a URL.
MARK = "virtualgpu line"


@dataclass(slots=True)
class Function:
    """A ``.entry`` or ``.func``: parameters, registers and a body of instructions and labels.

    ``marks`` has the lines that begin in the body (:data:`MARK`), each with the index of an
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
    """A PTX translation unit. `debug` tells that it was compiled for a debugger, unoptimised."""

    version: str = ""
    target: str = ""
    debug: bool = False
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
