"""Decoder of kernel bodies: operations, their operands by number, and their lines.

Values are numbered in the order in which they are produced. The values of a region take the
numbers after those before it, and operations after the region reuse these numbers. So a single
list of values is enough to run a block (:mod:`.blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from virtualgpu.errors import UnsupportedInstruction
from virtualgpu.ptx import SourceLine
from virtualgpu.tile import debug, types
from virtualgpu.tile.bytecode import BytecodeSections, Cursor
from virtualgpu.tile.opcodes import ENUMERATIONS, LACKING, OPCODES, TileOpcode

DEEPEST = 64  # deepest nesting of regions
MOST_VALUES = 1 << 20


@dataclass
class TileOperation:
    """One operation of a kernel.

    Attributes
    ----------
    opcode : TileOpcode
    offset : int
        Offset of its first byte in the bytecode.
    results : tuple of types
    at : int
        Number of its first result.
    operands : tuple of int
        Numbers of the values that it reads, in order.
    named : dict
        Name of an operand → its number, or the numbers of a list.
    attributes : dict
    flags : frozenset of str
    regions : list of Region
    source : SourceLine or None
    """

    opcode: TileOpcode
    offset: int
    results: tuple
    at: int
    operands: tuple[int, ...]
    named: dict[str, Any]
    attributes: dict[str, Any]
    flags: frozenset[str]
    source: SourceLine | None
    regions: list[Region] = field(default_factory=list)
    types: tuple = ()  # types of the operands
    run: Callable | None = None  # the function that executes it

    @property
    def name(self) -> str:
        return self.opcode.name

    def __str__(self) -> str:
        return f"operation {self.name} at offset {self.offset:#x}"


@dataclass
class Region:
    """Operations that run in sequence; ``at`` is the number of its first argument's value."""

    arguments: tuple
    at: int
    operations: list[TileOperation]

    def lines(self) -> Iterator[SourceLine | None]:
        """Yield the line of each operation, including those of inner regions."""
        for operation in self.operations:
            yield operation.source
            for region in operation.regions:
                yield from region.lines()


@dataclass
class TileKernel:
    """An entry of a module: its name, the types of its parameters, and its operations.

    If lines are measured, launches add the lines of executed operations to ``ran``.
    """

    name: str
    parameters: tuple[types.TileType, ...]
    body: Region
    values: int  # largest number of live values
    source: SourceLine | None
    ran: set[SourceLine | None] | None = None
    delivered: object = None  # lines that coverage.py already has


def kernels(
    module: BytecodeSections, verify: Callable[[TileOperation], None]
) -> dict[str, TileKernel]:
    """Return the entries of a module by name; ``verify`` is called for each operation.

    Raises BytecodeError, UnsupportedInstruction.
    """
    cursor = module.cursor("functions", "the section of functions")
    lines = debug.DebugLines(module)
    found = {}
    for _ in range(cursor.count(4)):
        start, name = cursor.at, module.string(cursor)
        signature = module.type(cursor)
        if (
            not isinstance(signature, types.Signature)
            or signature.results
            or not all(
                isinstance(one, types.TileType) and not one.shape for one in signature.parameters
            )
        ):
            raise cursor.fail(
                f"kernel {name}: parameters are scalars, and there is no result", start
            )
        flags = cursor.byte()
        if flags not in (2, 6):
            raise cursor.fail(
                f"kernel {name}: flags {flags:#x} of a function; only entries are known",
                cursor.at - 1,
            )
        number = cursor.number()
        if flags & 4:
            _tagged(module, cursor, 0)
        length = cursor.number()
        first = cursor.at
        cursor.take(length)
        reader = _Reader(
            module, Cursor(module.raw, first, cursor.at, f"kernel {name}"), lines.of(number), verify
        )
        body = reader.function(signature.parameters)
        found[name] = TileKernel(name, signature.parameters, body, reader.most, reader.source)
    return found


class _Reader:
    """Reader of one function."""

    def __init__(
        self,
        module: BytecodeSections,
        cursor: Cursor,
        lines: list[SourceLine | None],
        verify: Callable[[TileOperation], None],
    ):
        self.module, self.cursor, self.verify = module, cursor, verify
        self.source = lines[0] if lines else None
        self.lines = iter(lines[1:])
        self.values: list = []  # types, by number
        self.most = 0

    def function(self, parameters: tuple) -> Region:
        self.values = list(parameters)
        operations = []
        while self.cursor.at < self.cursor.end:
            operations.append(self.operation(0))
        self.most = max(self.most, len(self.values))
        self._ended(operations, self.cursor.at, ("return",))
        return Region(parameters, 0, operations)

    def _ended(self, operations: list[TileOperation], at: int, ways: tuple[str, ...]) -> None:
        for one in operations[:-1]:
            if one.name in ("return", "break", "continue", "yield"):
                raise self.cursor.fail(f"operations follow {one.name}", one.offset)
        if not operations or operations[-1].name not in ways:
            raise self.cursor.fail(f"a region does not end with {' or '.join(ways)}", at)

    def operation(self, depth: int) -> TileOperation:
        cursor, module = self.cursor, self.module
        start, cursor.what = cursor.at, "an operation"
        code = cursor.number()
        opcode = OPCODES.get(code)
        if opcode is None:
            if code in LACKING:
                raise UnsupportedInstruction(
                    f"the virtual GPU has no operation {LACKING[code]} of Tile IR (offset "
                    f"{start:#x} of the bytecode)"
                )
            raise cursor.fail(f"opcode {code} is not known", start)
        cursor.what = f"operation {opcode.name}"
        source = next(self.lines, None)
        many = opcode.results
        if opcode.listed:
            listed = cursor.count()
            if many not in (-1, listed):
                raise cursor.fail(f"{listed} results are listed; it has {many}", start)
            many = listed
        results = tuple(module.type(cursor) for _ in range(many))
        flags = self.flags(opcode)
        attributes = {
            one.name: self.attribute(one.kind)
            for one in opcode.attributes
            if one.since <= module.version and (not one.optional or one.name in flags)
        }
        named, operands = self.operands(opcode, flags)
        made = TileOperation(
            opcode, start, results, len(self.values), operands, named, attributes, flags, source
        )
        made.types = tuple(self.values[one] for one in operands)
        if opcode.regions:
            regions = cursor.number()
            if regions != opcode.regions:
                raise cursor.fail(f"{regions} regions; it has {opcode.regions}", start)
            for _ in range(regions):
                made.regions.append(self.region(depth + 1))
                cursor.what = f"operation {opcode.name}"
        self.verify(made)
        self.values.extend(results)
        if len(self.values) > MOST_VALUES:
            raise cursor.fail(f"more than {MOST_VALUES} values", start)
        return made

    def region(self, depth: int) -> Region:
        cursor, before = self.cursor, len(self.values)
        start, blocks = cursor.at, cursor.number()
        if blocks != 1 or depth > DEEPEST:
            raise cursor.fail(
                f"{blocks} basic blocks in a region; one is known"
                if blocks != 1
                else f"more than {DEEPEST} regions inside one another",
                start,
            )
        arguments = tuple(self.module.type(cursor) for _ in range(cursor.count()))
        self.values.extend(arguments)
        operations = [self.operation(depth) for _ in range(cursor.count())]
        self.most = max(self.most, len(self.values))
        del self.values[before:]
        self._ended(operations, start, ("yield", "continue", "break", "return"))
        return Region(arguments, before, operations)

    def flags(self, opcode: TileOpcode) -> frozenset[str]:
        if not opcode.flags or self.module.version < opcode.flags_since:
            return frozenset()
        start, bits = self.cursor.at, self.cursor.number()
        if bits >> len(opcode.flags):
            raise self.cursor.fail(f"flags {bits:#x}; it has {', '.join(opcode.flags)}", start)
        return frozenset(name for bit, name in enumerate(opcode.flags) if bits >> bit & 1)

    def operands(
        self, opcode: TileOpcode, flags: frozenset[str]
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
        cursor, left = self.cursor, 0
        named: dict[str, Any] = {}
        every: list[int] = []
        if opcode.together:
            start, left = cursor.at, cursor.count()
            fixed = sum(not one.is_list for one in opcode.operands)
            if left < fixed:
                raise cursor.fail(f"{left} operands; it has at least {fixed}", start)
            left -= fixed
        for one in opcode.operands:
            if one.is_list:
                count = left if opcode.together else cursor.count()
                named[one.name] = [self.value() for _ in range(count)]
                every += named[one.name]
            elif not one.optional or one.name in flags:
                named[one.name] = self.value()
                every.append(named[one.name])
        return named, tuple(every)

    def value(self) -> int:
        start, number = self.cursor.at, self.cursor.number()
        if number >= len(self.values):
            raise self.cursor.fail(f"operand {number} has not been computed", start)
        return number

    def attribute(self, kind: str) -> Any:
        cursor, module = self.cursor, self.module
        if kind in ENUMERATIONS:
            start, code, names = cursor.at, cursor.byte(), ENUMERATIONS[kind]
            if code >= len(names):
                raise cursor.fail(f"{code} is no {kind}", start)
            return names[code]
        return _ATTRIBUTES[kind](module, cursor)


# -- attributes ----------------------------------------------------------------------------------


def _array(module: BytecodeSections, cursor: Cursor, depth: int = 0) -> list:
    return [_tagged(module, cursor, depth + 1) for _ in range(cursor.count())]


def _dictionary(module: BytecodeSections, cursor: Cursor, depth: int = 0) -> dict[str, Any]:
    return {
        module.string(cursor): _tagged(module, cursor, depth + 1) for _ in range(cursor.count(2))
    }


def _tagged(module: BytecodeSections, cursor: Cursor, depth: int) -> Any:
    """Read a tagged attribute; a number is returned as ``(type, bits)``."""
    start, tag = cursor.at, cursor.byte()
    if depth > DEEPEST:
        raise cursor.fail(f"more than {DEEPEST} attributes inside one another", start)
    if tag == 1:
        return module.type(cursor), cursor.number()
    if tag == 2:
        element = module.type(cursor)
        if not isinstance(element, types.Element):
            raise cursor.fail(f"a number of the type {element}", start)
        return element, cursor.byte() if element.bits <= 8 else cursor.signed()
    if tag == 3:
        return bool(cursor.byte())
    if tag == 4:
        return module.type(cursor)
    if tag == 5:
        return module.string(cursor)
    if tag == 6:
        return _array(module, cursor, depth)
    if tag in (8, 12):  # attributes of ``assume``: divisors, bounds
        first = cursor.number() if tag == 8 else 0
        flags = cursor.byte()
        return first, *(cursor.signed() for bit in (1, 2) if flags & bit)
    if tag in (10, 11):
        return _dictionary(module, cursor, depth)
    raise cursor.fail(f"the tag {tag} of an attribute is not known", start)


_ATTRIBUTES: dict[str, Callable[[BytecodeSections, Cursor], Any]] = {
    "int": lambda module, cursor: cursor.number(),
    "bool": lambda module, cursor: bool(cursor.byte()),
    "string": lambda module, cursor: module.string(cursor),
    "dense": lambda module, cursor: module.constant(cursor),
    "integers": lambda module, cursor: cursor.integers(4),
    "bools": lambda module, cursor: [bool(one) for one in cursor.integers(1)],
    "array": _array,
    "hints": _dictionary,
    "predicate_of": lambda module, cursor: _tagged(module, cursor, 0),
}
