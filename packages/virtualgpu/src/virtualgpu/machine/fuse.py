"""The fast path: a hot block's data instructions, compiled together.

A block runs one NumPy call per instruction until it has run often enough to repay 5 to 50 ms
of compiling. Then every stretch of data instructions between two memory accesses becomes one
compiled loop, built from the very expressions that define the operations one by one
(:mod:`virtualgpu.operations.expression`), so results are equal to the bit; the tests
run both. Measured: a vector add of 1,000,000 threads takes half the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from virtualgpu import operations
from virtualgpu.machine.emit import U64, Emitter, Run, literal
from virtualgpu.machine.program import Block, Program
from virtualgpu.machine.special import SPECIAL
from virtualgpu.machine.uniform import UNIFORM_SPECIALS, uniform_slots
from virtualgpu.operations import compiler
from virtualgpu.operations.expression import Body, Results, Value, select
from virtualgpu.operations.types import REGISTER_DTYPES, UNSIGNED
from virtualgpu.ptx import Address, Immediate, Instruction, Register, Symbol, Vector
from virtualgpu.ptx.module import Operand

HOT = 3_000_000  # lanes that a block has run, plus PER_CALL for every time
PER_CALL = 3_000
LONGEST = 40  # instructions in one compiled loop: more would spill registers
MOST_ARGUMENTS = 30  # of a NumPy ufunc, inputs and outputs together

# NumPy's ufuncs that stand in the table for an operation, as expressions.
UFUNCS: dict[Callable[..., Any], Body] = {
    np.add: lambda a, b: a + b,
    np.subtract: lambda a, b: a - b,
    np.multiply: lambda a, b: a * b,
    np.negative: lambda a: -a,
    np.absolute: lambda a: select(a < 0, -a, a),
    np.bitwise_and: lambda a, b: a & b,
    np.bitwise_or: lambda a, b: a | b,
    np.bitwise_xor: lambda a, b: a ^ b,
    np.invert: lambda a: ~a,
    np.equal: lambda a, b: a == b,
    np.not_equal: lambda a, b: a != b,
    np.less: lambda a, b: a < b,
    np.less_equal: lambda a, b: a <= b,
    np.greater: lambda a, b: a > b,
    np.greater_equal: lambda a, b: a >= b,
}


@dataclass(frozen=True, slots=True)
class Result:
    """The value that a node of the current stretch computes."""

    number: int


@dataclass(frozen=True, slots=True)
class Outside:
    """A value that exists before the stretch: the name of a variable."""

    name: str
    uniform: bool


@dataclass(slots=True, eq=False)
class Node:
    """One instruction of a stretch: arguments as (value, its dtype, the dtype wanted)."""

    body: Results
    arguments: list[tuple[object, np.dtype, np.dtype]]
    results: list[Result]
    dtypes: list[np.dtype]
    uniform: bool


def fuse(program: Program, block: Block) -> Run:
    """The block's function with its data instructions compiled together."""
    emitter = FusingEmitter(program, block)
    for position, instruction in enumerate(block.instructions):
        emitter.position = position
        emitter.emit(instruction)
    emitter.position = len(block.instructions)
    emitter.flush()
    return emitter.finish(emitter.live)


class FusingEmitter(Emitter):
    """As :class:`~virtualgpu.machine.emit.Emitter`, but data instructions wait in a stretch
    until something else needs what they compute."""

    def __init__(self, program: Program, block: Block):
        super().__init__(program, block)
        self.live = (block.live_out - set(block.receives)) | set(block.passes)
        self.uniform = uniform_slots(program)
        self.position = 0
        self.nodes: list[Node] = []
        self.made = 0
        self.types: dict[int, np.dtype] = {}
        self.needed_after: list[set[str]] = [set()]
        for instruction in reversed(block.instructions):
            self.needed_after.append(self.needed_after[-1] | set(_names(instruction)))
        self.needed_after.reverse()

    def emit(self, instruction: Instruction) -> None:
        if not self.fused(instruction):
            self.flush()
            super().emit(instruction)

    # -- collecting ----------------------------------------------------------------------------

    def fused(self, instruction: Instruction) -> bool:
        """Add an instruction to the stretch; False where it is not of the kind."""
        opcode, operands = instruction.opcode, instruction.operands
        if instruction.guard is not None and opcode == "bra":
            return False
        if opcode == "mov":
            want = REGISTER_DTYPES.get(instruction.modifiers[-1])
            if want is None or any(isinstance(o, Vector) for o in operands):
                return False
            return self.node(lambda a: a, [operands[1]], [want], [operands[0]], [want])
        if opcode not in operations.opcodes():
            return False
        targets = [operands[0]] + ([instruction.second] if instruction.second else [])
        sources = operands[1:]
        operation = operations.lookup(opcode, instruction.modifiers, len(sources), len(targets))
        body = operation.body or UFUNCS.get(operation.function)
        if body is None or operation.carry_in or operation.carry_out:
            return False
        if len(targets) != len(operation.destinations):
            return False
        return self.node(body, sources, operation.sources, targets, operation.destinations)

    def node(self, body: Results, sources: Sequence[Operand], wanted: Sequence[np.dtype],
             targets: Sequence[Any], dtypes: Sequence[np.dtype]) -> bool:
        arguments: list[tuple[object, np.dtype, np.dtype]] = []
        for operand, want in zip(sources, wanted, strict=True):
            argument = self.argument(operand, want)
            if argument is None:
                return False
            arguments.append((*argument, want))
        uniform = all(
            isinstance(value, np.ndarray) or (isinstance(value, Outside) and value.uniform)
            or (isinstance(value, Result) and self.node_of(value).uniform)
            for value, _, _ in arguments
        )
        results = [Result(self.made + i) for i in range(len(dtypes))]
        self.made += len(dtypes)
        if len(self.nodes) >= LONGEST:
            self.flush()
            return self.node(body, sources, wanted, targets, dtypes)
        self.nodes.append(Node(body, arguments, results, list(dtypes), uniform))
        for target, result, dtype in zip(targets, results, dtypes, strict=True):
            if target.name == "_":
                continue
            slot = self.program.register(self.code, target)
            declared = self.program.dtypes[slot]
            if dtype.itemsize < declared.itemsize:  # extended by its own sign, as write_slot does
                plain = UNSIGNED[dtype.itemsize] if dtype.kind in "fb" else dtype
                wide = np.dtype(f"{'i' if dtype.kind == 'i' else 'u'}{declared.itemsize}")
                extended = Result(self.made)
                self.made += 1
                self.nodes.append(Node(
                    lambda a, wide=wide: a.to(kind(wide)), [(result, dtype, plain)], [extended],
                    [wide], uniform))
                result, dtype = extended, wide
            self.current[slot] = (result, dtype)
            self.written.add(slot)
        return True

    def node_of(self, result: Result) -> Node:
        return next(n for n in reversed(self.nodes) if result in n.results)

    def argument(self, operand: Operand, want: np.dtype) -> tuple[object, np.dtype] | None:
        """``(value, dtype)`` of an operand; None where the stretch cannot hold it."""
        if isinstance(operand, Immediate):
            return literal(operand, want), want
        if isinstance(operand, Symbol):
            text = self.symbol_address(operand)
            if text in self.names:
                return self.names[text], U64
            return Outside(self.variable(text), False), U64
        if not isinstance(operand, Register):
            return None
        name = operand.name
        if name in self.code.function.registers:
            slot = self.program.register(self.code, operand)
            value, have = self.read(slot)
            if isinstance(value, Result):
                return value, have
            return Outside(value, slot in self.uniform), have
        if name in SPECIAL:
            text = super().get(operand, want)
            return Outside(self.variable(text), name in UNIFORM_SPECIALS), want
        return None

    def variable(self, expression: str) -> str:
        name = f"v{len(self.lines)}_{len(self.names)}"
        self.lines.append(f" {name} = {expression}")
        return name

    # -- compiling -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Compile what waits, and give names to the values that are needed from here on."""
        if not self.nodes:
            return
        later = self.needed_after[self.position]
        names = {slot: name for name, slot in self.code.slots.items()}
        kept: dict[Result, list[int]] = {}
        for slot, (value, _) in list(self.current.items()):
            if not isinstance(value, Result):
                continue
            if slot in self.live or names.get(slot) in later:
                kept.setdefault(value, []).append(slot)
            else:
                del self.current[slot]
        nodes, self.nodes = _used(self.nodes, set(kept)), []
        variables: dict[Result, str] = {}
        for part in _parts(nodes):
            self.compile(part, nodes, kept, variables)
        for value, slots in kept.items():
            for slot in slots:
                self.current[slot] = (variables[value], self.current[slot][1])

    def compile(self, part: list[Node], nodes: list[Node], kept: dict[Result, list[int]],
                variables: dict[Result, str]) -> None:
        inside = {r for n in part for r in n.results}
        others = {v for n in nodes if n not in part for v, _, _ in n.arguments
                  if isinstance(v, Result)}
        outputs = [(r, d) for n in part for r, d in zip(n.results, n.dtypes, strict=True)
                   if r in kept or r in others]
        inputs: dict[object, tuple[str, np.dtype]] = {}
        for node in part:
            for value, have, _ in node.arguments:
                if isinstance(value, Outside):
                    inputs[value] = (value.name, have)
                elif isinstance(value, Result) and value not in inside:
                    inputs[value] = (variables[value], have)
        if len(inputs) + len(outputs) >= MOST_ARGUMENTS and len(part) > 1:
            half = len(part) // 2
            self.compile(part[:half], nodes, kept, variables)
            self.compile(part[half:], nodes, kept, variables)
            return
        if not inputs:  # only literals: any array serves to say what a lane is
            inputs[None] = (self.constant(np.zeros(1, np.uint8)), np.dtype("u1"))
        order = list(inputs)
        dtypes = [inputs[key][1] for key in order] + [d for _, d in outputs]

        def body(*values: Value) -> Value | tuple[Value, ...]:
            known: dict[object, Value] = dict(zip(order, values, strict=True))
            for node in part:
                arguments = [
                    adapt(_literal(v, values[0]) if isinstance(v, np.ndarray) else known[v],
                          have, want)
                    for v, have, want in node.arguments
                ]
                results = node.body(*arguments)
                results = results if isinstance(results, tuple) else (results,)
                known.update(zip(node.results, results, strict=True))
            results = tuple(known[r] for r, _ in outputs)
            return results if len(results) > 1 else results[0]

        function = compiler.ufunc(
            f"block {self.block.index}", body, [kind(d) for d in dtypes[: len(order)]],
            [kind(d) for d in dtypes[len(order) :]], dtypes)
        made = [f"n{r.number}" for r, _ in outputs]
        arguments = ", ".join(inputs[key][0] for key in order)
        self.lines.append(f" {', '.join(made)} = {self.put(function, 'f')}({arguments})")
        variables.update(zip((r for r, _ in outputs), made, strict=True))


def kind(dtype: np.dtype) -> str:
    """The expression kind of an array's elements; half precision as its bits."""
    if dtype.kind == "b":
        return "pred"
    if dtype == np.float16:
        return "u16"
    return {"u": "u", "i": "s", "f": "f"}[dtype.kind] + str(8 * dtype.itemsize)


def adapt(value: Value, have: np.dtype, want: np.dtype) -> Value:
    """The bits of ``value`` as ``want``: what :meth:`Emitter.cast` does to arrays."""
    if have == want:
        return value
    if have.kind == "b":
        return value.to(f"u{8 * want.itemsize}").view(kind(want))
    bits = value.view(f"u{8 * have.itemsize}").to(f"u{8 * want.itemsize}")
    return bits != 0 if want.kind == "b" else bits.view(kind(want))


def _literal(array: np.ndarray, like: Value) -> Value:
    if array.dtype.kind == "b":
        return like.number(bool(array[0]), "pred")
    unsigned = UNSIGNED[array.itemsize]
    return like.number(int(array.view(unsigned)[0]), kind(unsigned)).view(kind(array.dtype))


def _used(nodes: list[Node], wanted: set[Result]) -> list[Node]:
    """The nodes whose results are needed."""
    used = []
    for node in reversed(nodes):
        if any(r in wanted for r in node.results):
            used.append(node)
            wanted |= {v for v, _, _ in node.arguments if isinstance(v, Result)}
    return used[::-1]


def _parts(nodes: list[Node]) -> list[list[Node]]:
    """Nodes that are the same in all lanes first; the rest by what depends on what.

    Kept apart, values that happen to be uniform (a loop's counter) stay one number instead of
    one per lane.
    """
    uniform = [n for n in nodes if n.uniform]
    varying = [n for n in nodes if not n.uniform]
    owner = {r: n for n in varying for r in n.results}
    leader = {id(n): n for n in varying}

    def find(node: Node) -> Node:
        while leader[id(node)] is not node:
            node = leader[id(node)]
        return node

    for node in varying:
        for value, _, _ in node.arguments:
            if isinstance(value, Result) and value in owner:
                leader[id(find(owner[value]))] = find(node)
    parts: dict[int, list[Node]] = {}
    for node in varying:
        parts.setdefault(id(find(node)), []).append(node)
    return ([uniform] if uniform else []) + list(parts.values())


def _names(instruction: Instruction) -> Iterator[str]:
    """The registers that an instruction mentions."""
    if instruction.guard is not None:
        yield instruction.guard[0].name
    if instruction.second is not None:
        yield instruction.second.name
    for operand in instruction.operands:
        for item in operand.items if isinstance(operand, Vector) else (operand,):
            if isinstance(item, Address):
                item = item.base
            if isinstance(item, Register | Symbol):
                yield item.name.lstrip("!")
