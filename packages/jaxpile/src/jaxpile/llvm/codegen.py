"""Programs as LLVM modules: functions for parts of the program, and one that runs them all.

Every function ``part<k>(table, low, high)`` receives a table of the addresses of all buffers. If
it is one large step, it also receives the part of the outermost range to run. Each step is a
function whose pointers are declared not to overlap, so that LLVM can vectorise it without run-time
checks.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

from llvmlite import ir

from jaxpile.expressions import Expr, dim, ordered, transform
from jaxpile.llvm.functions import announced, called, function_for
from jaxpile.llvm.operations import constant, convert, emit, memory_type, type_of
from jaxpile.llvm.parts import extent_of, parts_of
from jaxpile.mathematics import WRITTEN_OUT
from jaxpile.memos import Memos
from jaxpile.program import (
    Branch,
    Buffer,
    Loop,
    Nest,
    Program,
    Repeat,
    Set,
    Store,
    Until,
    When,
    While,
    reads_of,
    writes_of,
)

I64 = ir.IntType(64)
POINTER = ir.PointerType()
#: Temporary buffers up to this size that only one step uses are on its stack, then in registers.
ON_STACK = 16


def generate(program: Program, places: dict[Buffer, int]) -> str:
    """Return the module text; ``places`` maps each buffer to its index in the address table."""
    module = ir.Module(name=program.name)
    users = [reads_of([step]) | writes_of([step]) for step in program.steps]
    counts = Counter(buffer for used in users for buffer in used)
    calls = called(program.steps)
    written: dict[str, ir.Function] = {}
    run = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER]), "run")
    main = ir.IRBuilder(run.append_basic_block())
    for number, (steps, (low, high), _) in enumerate(parts_of(program)):
        part = ir.Function(
            module, ir.FunctionType(ir.VoidType(), [POINTER, I64, I64]), f"part{number}"
        )
        builder = ir.IRBuilder(part.append_basic_block())
        table, *extent = part.args
        for k in steps:
            used = sorted(users[k], key=places.__getitem__)
            used.sort(key=writes_of([program.steps[k]]).__contains__)
            stack = [b for b in used if b.kind == "temp" and b.size <= ON_STACK and counts[b] == 1]
            passed = [b for b in used if b not in stack]
            body = ir.Function(
                module,
                ir.FunctionType(ir.VoidType(), [POINTER] * len(passed) + [I64, I64]),
                f"body{k}",
            )
            body.linkage = "internal"
            # LLVM takes far longer for one function with all loops than for many functions
            body.attributes.add("noinline")
            for arg in body.args[:-2]:
                arg.add_attribute("noalias")
            StepWriter(body, passed, stack, calls).step(program.steps[k])
            # steps that do the same to other buffers are compiled once
            text = "".join(map(str, body.blocks)) + str(len(passed))
            if written.setdefault(text, body) is not body:
                del module.globals[body.name]
                body = written[text]
            addresses = [
                builder.load(
                    builder.gep(table, [ir.Constant(I64, places[b])], source_etype=POINTER),
                    typ=POINTER,
                )
                for b in passed
            ]
            if len(steps) > 1:
                extent = [ir.Constant(I64, end) for end in extent_of(program.steps[k])]
            builder.call(body, [*addresses, *extent])
        builder.ret_void()
        main.call(part, [run.args[0], ir.Constant(I64, low), ir.Constant(I64, high)])
    main.ret_void()
    return announced(str(module)) if calls else str(module)


class StepWriter(Memos):
    """Writer of one step's body; ``memos`` hold computed values that are still valid."""

    def __init__(
        self, function: ir.Function, passed: list[Buffer], stack: list[Buffer], calls: bool = False
    ):
        super().__init__()
        self.function, self.calls = function, calls
        self.entry = function.append_basic_block("entry")
        self.builder = ir.IRBuilder(self.entry)
        self.pointers = dict(zip(passed, function.args, strict=False))
        self.locals: dict[str, ir.AllocaInstr] = {}
        self.loop_values: dict[Expr, ir.Value] = {}
        self.written: dict[Expr, Expr] = {}
        for buffer in stack:
            self.pointers[buffer] = self.alloca(memory_type(buffer.dtype), max(buffer.size, 1))
        self.range = function.args[-2:]

    def alloca(self, kind: ir.Type, size: int = 1):
        with self.builder.goto_entry_block():
            return self.builder.alloca(kind, ir.Constant(I64, size))

    # --- steps ---

    def step(self, step) -> None:
        """Write the whole function; a nest covers the given part of its first range."""
        if isinstance(step, Nest) and step.ranges:
            self.nest(step, self.range)
        else:
            self.steps([step])
        self.builder.ret_void()

    def steps(self, steps: list) -> None:
        for step in steps:
            match step:
                case Nest():
                    self.nest(step, None)
                case Repeat():
                    with self.counting(step.variable, 0, step.length):
                        self.steps(step.steps)
                case While():
                    self.while_(step)
                case Branch():
                    self.branch(step)

    def nest(self, nest: Nest, part) -> None:
        with self.fresh():
            self.dimension(nest, 0, part)

    def dimension(self, nest: Nest, axis: int, part) -> None:
        if axis == len(nest.ranges):
            self.statements(nest.body)
            return
        low, high = part if axis == 0 and part is not None else nest.ranges[axis]
        with self.counting(dim(axis, *nest.ranges[axis]), low, high):
            self.dimension(nest, axis + 1, part)

    def while_(self, step: While) -> None:
        head = self.function.append_basic_block("while")
        body = self.function.append_basic_block("do")
        end = self.function.append_basic_block("done")
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.steps(step.test)
        going = self.builder.load(self.pointers[step.going], typ=ir.IntType(8))
        self.builder.cbranch(self.builder.trunc(going, ir.IntType(1)), body, end)
        self.builder.position_at_end(body)
        self.steps(step.steps)
        self.builder.branch(head)
        self.builder.position_at_end(end)

    def branch(self, step: Branch) -> None:
        chosen = self.builder.load(
            self.pointers[step.selector], typ=memory_type(step.selector.dtype)
        )
        blocks = [self.function.append_basic_block(f"case{k}") for k in range(len(step.branches))]
        end = self.function.append_basic_block("chosen")
        switch = self.builder.switch(chosen, blocks[-1])
        for k, block in enumerate(blocks[:-1]):
            switch.add_case(ir.Constant(chosen.type, k), block)
        for block, steps in zip(blocks, step.branches, strict=True):
            self.builder.position_at_end(block)
            self.steps(steps)
            self.builder.branch(end)
        self.builder.position_at_end(end)

    # --- loops ---

    @contextmanager
    def counting(self, variable: Expr, low, high):
        """Write a loop of the variable over low <= v < high, which are numbers or LLVM values."""
        low, high = (ir.Constant(I64, end) if isinstance(end, int) else end for end in (low, high))
        builder, before = self.builder, self.builder.block
        head = self.function.append_basic_block("loop")
        end = self.function.append_basic_block("next")
        builder.cbranch(builder.icmp_signed("<", low, high), head, end)
        builder.position_at_end(head)
        count = builder.phi(I64)
        count.add_incoming(low, before)
        with self.fresh():
            if variable.op != "const":
                self.loop_values[variable] = count
            yield
        after = builder.add(count, ir.Constant(I64, 1), flags=("nsw",))
        count.add_incoming(after, builder.block)
        builder.cbranch(builder.icmp_signed("<", after, high), head, end)
        builder.position_at_end(end)

    # --- statements ---

    def statements(self, items: list) -> None:
        for item in items:
            match item:
                case Store():
                    self.store(item)
                case Set():
                    value = self.value(item.value)
                    if item.name not in self.locals:
                        self.locals[item.name] = self.alloca(value.type)
                    self.builder.store(value, self.locals[item.name])
                    self.changed(item.name)
                case Loop():
                    low, high = self.value(item.low), self.value(item.high)
                    self.forget(item.body)
                    with self.counting(item.variable, low, high):
                        self.statements(item.body)
                    self.forget(item.body)
                case Until():
                    self.until(item)
                case When():
                    condition = self.value(item.condition)
                    with self.builder.if_else(condition) as (then, otherwise):
                        for place, body in ((then, item.body), (otherwise, item.otherwise)):
                            with place, self.fresh():
                                self.statements(body)
                    self.forget([item])

    def until(self, item: Until) -> None:
        head = self.function.append_basic_block("until")
        body = self.function.append_basic_block("do")
        end = self.function.append_basic_block("done")
        self.forget(item.body)
        self.builder.branch(head)
        self.builder.position_at_end(head)
        with self.fresh():
            self.builder.cbranch(self.value(item.condition), body, end)
            self.builder.position_at_end(body)
            self.statements(item.body)
            self.builder.branch(head)
        self.builder.position_at_end(end)

    def store(self, item: Store) -> None:
        position, value = self.value(item.position), self.value(item.value)
        if item.buffer.dtype.kind == "b":
            value = self.builder.zext(value, ir.IntType(8))
        self.builder.store(value, self.address(item.buffer, position))
        self.changed(item.buffer)

    def address(self, buffer: Buffer, position):
        return self.builder.gep(
            self.pointers[buffer], [position], inbounds=True, source_etype=memory_type(buffer.dtype)
        )

    # --- expressions ---

    def value(self, expr: Expr):
        """Return the LLVM value of an expression at this point."""
        if not self.calls:
            expr = written_out(expr, self.written)
        memo = {}
        for level in self.memos:
            memo.update(level)
        if expr in memo:
            return memo[expr]
        for node in ordered([expr], memo):
            memo[node] = self.memos[-1][node] = self.node(node, [memo[a] for a in node.args])
        return memo[expr]

    def node(self, node: Expr, args: list):
        builder = self.builder
        match node.op:
            case "const":
                return constant(node)
            case "dim" | "var":
                return self.loop_values[node]
            case "local":
                return builder.load(self.locals[node.attr], typ=type_of(node.dtype))
            case "load":
                value = builder.load(self.address(node.attr, args[0]), typ=memory_type(node.dtype))
                return builder.trunc(value, ir.IntType(1)) if node.dtype.kind == "b" else value
            case "linear":
                return self.sum(node, args)
            case "idiv":
                return builder.udiv(args[0], ir.Constant(I64, node.attr))
            case "imod":
                return builder.urem(args[0], ir.Constant(I64, node.attr))
            case "iclamp":
                low, high = (ir.Constant(I64, end) for end in node.attr)
                above = builder.select(builder.icmp_signed("<", args[0], low), low, args[0])
                return builder.select(builder.icmp_signed(">", above, high), high, above)
            case "piece":
                before = builder.icmp_signed("<", args[0], ir.Constant(I64, node.attr))
                return builder.select(before, args[1], args[2])
            case "cast":
                return convert(builder, args[0], node.args[0].dtype, node.dtype)
            case _ if node.op in WRITTEN_OUT:
                return builder.call(function_for(builder.module, node), args)
            case _:
                return emit(builder, node, args)

    def sum(self, node: Expr, args: list):
        total = ir.Constant(I64, node.attr[-1]) if node.attr[-1] else None
        for value, factor in zip(args, node.attr, strict=False):
            if factor != 1:
                value = self.builder.mul(value, ir.Constant(I64, factor), flags=("nsw",))
            total = value if total is None else self.builder.add(total, value, flags=("nsw",))
        return total


def written_out(expr: Expr, memo: dict[Expr, Expr]) -> Expr:
    """Return the expression with exp, sin and similar functions written as arithmetic."""
    for node in ordered([expr], memo):
        args = tuple(memo[arg] for arg in node.args)
        if node.op in WRITTEN_OUT:
            memo[node] = WRITTEN_OUT[node.op](args[0])
        elif args == node.args:
            memo[node] = node
        else:
            memo[node] = transform(node, dict(zip(node.args, args, strict=True)))
    return memo[expr]
