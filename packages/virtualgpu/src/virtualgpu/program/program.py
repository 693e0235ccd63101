"""Linked kernel as basic blocks, which the SIMT loop runs.

A kernel and the functions that it can call become one list of blocks in text order. A block ends
wherever control may leave it (at a branch, call, return or barrier) and before an instruction that
makes the lanes of a warp meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from virtualgpu.errors import LinkError, Location, PTXSyntaxError
from virtualgpu.operations.types import REGISTER_DTYPES
from virtualgpu.program import shared_layout, speculation
from virtualgpu.program.comparison import Comparison
from virtualgpu.program.intrinsics import GRID_BARRIER, PROVIDED
from virtualgpu.program.linked_module import LinkedModule
from virtualgpu.program.shared_accesses import shared_accesses
from virtualgpu.program.steps import Step
from virtualgpu.ptx import (
    Function,
    Instruction,
    Label,
    Register,
    SourceLine,
    Symbol,
    Vector,
)
from virtualgpu.ptx.opcodes import BARRIERS, traits, waits_for_warp

CODE_BASE = 0x3_0000_0000  # addresses of functions; code cannot be read or written
FRAME_ALIGN = 16

Follow = Callable[[Function], tuple[Function, dict[int, Comparison]]]
# Marks of a block in `Program.ran`, uint8. BEGAN: the interpreter began to run the block. RAN: the
# block ran to its end. TAKEN: lanes took its branch. FELL: lanes continued after its branch.
BEGAN, RAN, TAKEN, FELL = range(4)
BLOCK_MARKS = 4

LONGEST_BLOCK = 1000  # instructions; budgets and Ctrl-C are checked between blocks


@dataclass(slots=True, eq=False)
class CallSite:
    """Call: its target (None: the block's run returns addresses) and its parameters' names."""

    target: str | None
    arguments: tuple[str, ...]
    returns: tuple[str, ...]


@dataclass(slots=True, eq=False)
class BasicBlock:
    """Instructions that run without a branch, and what comes after them.

    ``kind`` is one of next, branch, indexed, exit, return, call, barrier, trap. ``run(group)``
    executes the body, sets the group's registers to those that are live afterwards, and returns
    what the end of the block needs: a predicate, an index, or a barrier's operands.
    """

    index: int
    function: FunctionCode
    instructions: list[Instruction]
    kind: str = "next"
    last: Instruction | None = None
    target: int = -1
    targets: tuple[int, ...] = ()
    negated: bool = False
    marks: tuple[SourceLine, ...] = ()  # lines that begin in it, if the PTX says so
    guard: tuple[int, bool] | None = None
    warp_mask: int | np.ndarray | None = None  # a register slot, or the mask itself
    call: CallSite | None = None
    passes: tuple[int, ...] = ()  # registers that a call passes
    receives: tuple[int, ...] = ()  # registers that a call or barrier returns
    steps: list[Step] = field(default_factory=list)  # the decoded instructions
    reads: set[int] = field(default_factory=set)  # registers that earlier blocks set
    writes: set[int] = field(default_factory=set)
    live_in: frozenset[int] = frozenset()
    live_out: frozenset[int] = frozenset()
    run: Any = None  # an Emitter, until all blocks are prepared

    @property
    def source(self) -> SourceLine | None:
        for instruction in (self.last, *reversed(self.instructions)):
            if instruction is not None and instruction.source:
                return instruction.source
        return self.function.function.source


@dataclass(slots=True, eq=False)
class FunctionCode:
    """One function: its register slots, its frame in local memory, its blocks."""

    function: Function
    slots: dict[str, int] = field(default_factory=dict)
    frame: dict[str, int] = field(default_factory=dict)  # variable → byte offset
    frame_size: int = 0
    blocks: list[BasicBlock] = field(default_factory=list)

    @property
    def entry(self) -> int:
        return self.blocks[0].index


class Program:
    """Kernel with all functions that it can call, as blocks for :mod:`virtualgpu.lanes.compile`.

    Parameters
    ----------
    module : LoadedModule
        Provides functions by name and addresses of module variables.
    entry : str
        Name of the kernel.
    fine : bool
        End a basic block at each access to memory, so that a schedule can run other lanes
        between any two of them.
    follow : callable, optional
        ``follow(function)`` returns the entry function to run instead, which also computes indices
        exactly, and its comparisons (:mod:`virtualgpu.program.exact_indices`).

    Raises
    ------
    LinkError
        A function is not defined anywhere.
    PTXSyntaxError
        The PTX is invalid.
    """

    def __init__(
        self, module: LinkedModule, entry: str, fine: bool = False, follow: Follow | None = None
    ):
        self.module = module
        self.fine = fine
        self.name = entry
        self.follow = follow
        self.followed = 0  # the candidates that `follow` follows, one bit each
        self.comparisons: dict[int, Comparison] = {}  # of exact indices, by instruction `id`
        self.indices: Any = None  # see `program.index_ranges`
        self.display = module.display_name(entry)
        self.dtypes: list[np.dtype] = []
        self.functions: dict[str, FunctionCode] = {}
        self.blocks: list[BasicBlock] = []
        self.work = 0  # the interpreter's work for it so far (Launch.spend)
        # Grid, block, parameters and work of the last launch on the interpreter.
        self.latest: tuple[object, object, bytes, int] = None, None, b"", 0
        # Its native code, the counting variant, or the reason why there is none
        # (virtualgpu.native).
        self.native: object = None
        self.counting: object = None
        self.watching: object = None  # the checked variant
        self.on_disk: dict[str, bool] = {}  # variants that an earlier process has stored
        self.watched = 0  # the part of `work` with an observer
        # If lines are measured: BEGAN to FELL for each block. See `kernel_lines`.
        self.ran: np.ndarray | None = None
        self.delivered: object = None  # the part that coverage.py has received
        self.loops: Any = None  # see `program.loops`
        # Results that observers compute once from its instructions (`watch.orderless`,
        # `.racecheck`, `.profiling`).
        self.orderless: bool | None = None
        self.ordering: tuple[bool, bool] | None = None
        self.retries: frozenset[int] | None = None  # see `program.compare_and_swap_loops`
        self.mixes: bool | None = None  # see `program.mixed_atomics`
        self.scalars: Any = None  # see `program.scalar_loads`
        self.travels: Any = None  # see `program.copied_loads`
        self.volatile: Any = None  # see `program.volatile_uses`
        self.kinds: dict[int, Any] = {}
        # Conditions under which the value of a load is used, by the instruction's `id`.
        self.wanted: dict[int, speculation.Condition] = {}
        self.parameter_offsets: dict[str, int] = {}
        self._collect(entry)
        self.entry_code = self.functions[entry]
        self._lay_out_parameters()
        # Register in which callers save the size of their stack (lanes.stack).
        self.stack_slot: int | None = None
        if any(
            instruction.opcode == "alloca"
            for code in self.functions.values()
            for instruction in code.function.body
        ):
            self.stack_slot = self.slot(self.entry_code, "%stack", np.dtype("i8"))
        self.shared = shared_layout.lay_out(
            [code.function for code in self.functions.values()], module.variables
        )
        for code in self.functions.values():
            self._split(code)
        self.first_block = self.entry_code.entry
        self.length = sum(len(code.function.body) for code in self.functions.values())
        # True if a block may run again, because a jump goes back.
        self.repeats = any(
            target <= block.index
            for block in self.blocks
            for target in (block.targets or (block.target,))
            if block.kind in ("goto", "branch", "indexed")
        )
        # Blocks at which lanes are just after an atomic.
        self.after_atomics = {
            block.index + 1
            for block in self.blocks
            if block.instructions and block.instructions[-1].opcode in ("atom", "red", "mbarrier")
        }

    def mark_blocks(self) -> None:
        """Make launches mark in :attr:`ran` what runs, and discard native code without marks."""
        self.ran = np.zeros(BLOCK_MARKS * len(self.blocks), np.uint8)
        self.native = self.counting = self.watching = None
        self.on_disk.clear()

    # -- layout --------------------------------------------------------------------------------

    def slot(self, code: FunctionCode, name: str, dtype: np.dtype) -> int:
        slot = code.slots.get(name)
        if slot is None:
            slot = code.slots[name] = len(self.dtypes)
            self.dtypes.append(dtype)
        return slot

    def _collect(self, entry: str) -> None:
        """Collect the functions that ``entry`` calls or whose address it can take."""
        todo = [entry]
        while todo:
            name = todo.pop()
            if name in self.functions:
                continue
            function = self.module.function(name)
            if function is None or function.is_declaration:
                if name in PROVIDED:
                    continue
                raise LinkError(
                    f"function {name} is declared but not defined; link the source that defines "
                    "it (cuda.jit(link=...)) or call another function"
                )
            if self.follow is not None and name == entry:
                function, self.comparisons = self.follow(function)
            code = self.functions[name] = FunctionCode(function)
            self._lay_out_frame(code)
            found = []
            for instruction in function.body:
                for operand in instruction.operands:
                    for item in operand.items if isinstance(operand, Vector) else (operand,):
                        if isinstance(item, Symbol) and self.module.function(item.name):
                            found.append(item.name)
            found += self.module.functions_in_tables()
            todo += reversed(found)

    def _lay_out_frame(self, code: FunctionCode) -> None:
        function, offset = code.function, 0
        for variable in function.variables.values():
            if variable.space == "param" and (
                function.is_entry and variable in function.parameters
            ):
                continue
            if variable.space == "reg" or (variable.space == "param" and not variable.is_array):
                self.slot(code, variable.name, REGISTER_DTYPES[variable.element])
            elif variable.space in ("local", "param"):
                offset = -(-offset // variable.align) * variable.align
                code.frame[variable.name] = offset
                offset += variable.size
        code.frame_size = -(-offset // FRAME_ALIGN) * FRAME_ALIGN

    def _lay_out_parameters(self) -> None:
        offset = 0
        for variable in self.entry_code.function.parameters:
            offset = -(-offset // variable.align) * variable.align
            self.parameter_offsets[variable.name] = offset
            offset += variable.size
        self.parameter_bytes = offset

    def packed(self, parameters: Sequence[bytes]) -> bytes | None:
        """Return the parameters as one byte string, or None if one has the wrong size."""
        variables = self.entry_code.function.parameters
        if [len(each) for each in parameters] != [variable.size for variable in variables]:
            return None
        raw = bytearray(self.parameter_bytes)
        for variable, value in zip(variables, parameters, strict=True):
            at = self.parameter_offsets[variable.name]
            raw[at : at + variable.size] = value
        return bytes(raw)

    def frame_limit(self, block: int) -> int:
        """Return the size of the frame that a block's function may use in local memory."""
        return self.blocks[block].function.frame_size

    # -- blocks --------------------------------------------------------------------------------

    def _split(self, code: FunctionCode) -> None:
        function = code.function
        body = function.body
        leaders = {0, *function.labels.values(), *range(LONGEST_BLOCK, len(body), LONGEST_BLOCK)}
        for at, instruction in enumerate(body):
            if traits(instruction).ends:
                leaders.add(at + 1)
            if waits_for_warp(instruction):
                leaders.add(at)
            if instruction.guard is not None and instruction.opcode != "bra":
                leaders |= {at, at + 1}
        if body:
            leaders.discard(len(body))
        body, wanted = speculation.arrange(body, sorted(leaders))
        self.wanted |= wanted
        if self.fine and body:
            leaders |= {at + 1 for at in shared_accesses(body)}
            leaders.discard(len(body))
        starts = sorted(leaders)
        first = len(self.blocks)
        number = {start: first + i for i, start in enumerate(starts)}
        # The end of the body returns, as `ret` does.
        number[len(body)] = first + len(starts)
        for start, end in zip(starts, [*starts[1:], len(body)], strict=True):
            instructions = body[start:end]
            block = BasicBlock(len(self.blocks), code, instructions)
            block.marks = tuple(line for at, line in function.marks if start <= at < end)
            self._ending(code, block, number)
            self.blocks.append(block)
            code.blocks.append(block)
        tail = BasicBlock(len(self.blocks), code, [], "exit" if function.is_entry else "return")
        self.blocks.append(tail)
        code.blocks.append(tail)

    def _ending(self, code: FunctionCode, block: BasicBlock, number: dict[int, int]) -> None:
        function = code.function

        def place(name: str) -> int:
            if name not in function.labels:
                raise PTXSyntaxError(f"branch to an unknown label {name} in {function.name}")
            return number[function.labels[name]]

        if not block.instructions:
            return
        last = block.instructions[-1]
        if last.guard is not None and last.opcode != "bra":
            register, negated = last.guard
            block.guard = (self.register(code, register), negated)
        opcode = last.opcode
        if opcode == "bra":
            assert isinstance(last.operands[0], Label)  # the parser ensures it
            block.target = place(last.operands[0].name)
            block.kind = "goto" if last.guard is None else "branch"
            block.negated = last.guard is not None and last.guard[1]
        elif opcode == "brx":
            if len(last.operands) != 2 or not isinstance(last.operands[1], Label):
                raise PTXSyntaxError(f"brx.idx takes an index and a table: {last.text}")
            names = function.branch_targets[last.operands[1].name]
            block.targets = tuple(place(name) for name in names)
            block.kind = "indexed"
        elif opcode == "exit" or (opcode == "ret" and function.is_entry):
            block.kind = "exit"
        elif opcode == "ret":
            block.kind = "return"
        elif opcode == "trap":
            block.kind = "trap"
        elif opcode in BARRIERS and "warp" not in last.modifiers:
            block.kind = "barrier"
        elif opcode == "call" and (call := self._call_site(code, last)) is not None:
            block.kind, block.call = "call", call
            if call.target == GRID_BARRIER:
                block.kind = "barrier"
        else:
            return
        block.last = last

    def _call_site(self, code: FunctionCode, instruction: Instruction) -> CallSite | None:
        """Return a call's site, or None for an intrinsic, which the block's body runs."""
        operands: list[Any] = list(instruction.operands)
        returns = operands.pop(0).items if operands and isinstance(operands[0], Vector) else ()
        if not operands:
            raise PTXSyntaxError(f"call without a function: {instruction.text}")
        target = operands.pop(0)
        if not isinstance(target, Symbol | Register):
            raise PTXSyntaxError(f"call of something that is not a function: {instruction.text}")
        arguments: tuple[Any, ...] = ()
        if operands and isinstance(operands[0], Vector):
            arguments = operands.pop(0).items
        for item in (*returns, *arguments):
            if not isinstance(item, Symbol | Register):
                raise PTXSyntaxError(f"call with a literal parameter: {instruction.text}")
        name = target.name if isinstance(target, Symbol) else None
        if name is not None and name not in self.functions:
            if name != GRID_BARRIER and name in PROVIDED:
                return None
            if name not in PROVIDED:
                raise LinkError(f"call of {name}, which is not defined")
        return CallSite(name, tuple(i.name for i in arguments), tuple(i.name for i in returns))

    def location(self, source: SourceLine | None) -> Location:
        return Location.of(self.display, source)

    def register(self, code: FunctionCode, register: Register) -> int:
        declared = code.function.registers.get(register.name)
        if declared is None:
            raise PTXSyntaxError(f"register {register.name} is not declared")
        return self.slot(code, register.name, REGISTER_DTYPES[declared])
