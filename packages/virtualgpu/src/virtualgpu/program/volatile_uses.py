"""Uses of ``volatile``: flags that threads wait for or test, and data.

In PTX, ``ld.volatile`` and ``st.volatile`` are relaxed accesses, so two of them are no data race.
In CUDA C++ they are a data race, because ``volatile`` neither orders accesses nor makes them
atomic. It is meant for flags: one thread stores a value, and others read it until it changes. So a
load reads a *flag* if its value

- ends a loop that stores nothing (a wait), or is loaded at the address of such a load; - only
decides branches, selections and votes, also through shared memory.

A load whose value is stored, added or used as an address reads *data*, which needs synchronisation
like all data. Two stores by different threads *agree* if both store one literal (``found[0] =
1``), or if the program waits at both addresses (a word with which two threads take turns).

The value is followed from register to register, in any order of instructions. Passing it to a
function, or returning it from one, does not count as a use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from virtualgpu.program.liveness import successors
from virtualgpu.program.loops import cycles
from virtualgpu.program.one_value import stores_one_value
from virtualgpu.program.program import BasicBlock, FunctionCode, Program
from virtualgpu.program.steps import Barrier, Call, Data, MemoryAccess, Move, Parameter, Step
from virtualgpu.ptx import Address, Immediate, Instruction, Register, Vector
from virtualgpu.ptx.module import Operand

BOOL = np.dtype("?")
DEEPEST = 100  # steps in one address; a register beyond this depth keeps its own name


@dataclass(slots=True)
class VolatileUses:
    """Volatile accesses of a program, by the ``id`` of the instruction.

    Attributes
    ----------
    data : frozenset
        Loads whose value is data.
    stores : dict
        The stores: their instruction, and whether the program waits at their address.
    """

    program: Program
    data: frozenset[int] = frozenset()
    stores: dict[int, tuple[Instruction, bool]] = field(default_factory=dict)
    _agreeing: dict[tuple[int, int], bool] = field(default_factory=dict)

    def agree(self, one: Instruction, other: Instruction) -> bool:
        """Return True if two volatile stores to one address by two threads lose no value."""
        key = (id(one), id(other))
        if key not in self._agreeing:
            self._agreeing[key] = self._agree(one, other)
        return self._agreeing[key]

    def _agree(self, one: Instruction, other: Instruction) -> bool:
        waits = [self.stores[id(store)][1] for store in (one, other)]
        if all(waits):
            return True
        if one is other:
            return stores_one_value(self.program, one)
        value, wanted = one.operands[1:], other.operands[1:]
        return value == wanted and all(isinstance(part, Immediate) for part in value)

    def may_differ(self, store: Instruction) -> bool:
        """Return True if any volatile store of the program does not agree with ``store``."""
        return not all(self.agree(store, other) for other, _ in self.stores.values())


def volatile_uses(program: Program) -> VolatileUses:
    """Return the volatile accesses of a program, computed once for all its launches.

    A program without volatile stores has no volatile data, because its loads only meet plain
    stores and atomics, which have their own rules.
    """
    known: VolatileUses | None = program.volatile
    if known is None:
        known = program.volatile = _find(program)
    return known


def _find(program: Program) -> VolatileUses:
    uses = VolatileUses(program)
    accesses = [
        (code, block, step)
        for code in program.functions.values()
        for block in code.blocks
        for step in block.steps
        if isinstance(step, MemoryAccess) and "volatile" in step.instruction.modifiers
    ]
    if not any(step.site.kind == "store" for _, _, step in accesses):
        return uses
    flows = {id(code): _ValueFlow(program, code) for code in program.functions.values()}
    loads = [one for one in accesses if one[2].site.kind == "load"]
    waited = {
        flows[id(code)].place(step)
        for code, block, step in loads
        if flows[id(code)].waits(block, step)
    }
    uses.data = frozenset(
        id(step.instruction)
        for code, _, step in loads
        if flows[id(code)].place(step) not in waited and flows[id(code)].is_data(step)
    )
    uses.stores = {
        id(step.instruction): (step.instruction, flows[id(code)].place(step) in waited)
        for code, _, step in accesses
        if step.site.kind == "store"
    }
    return uses


class _ValueFlow:
    """Flow of values of one function from register to register."""

    def __init__(self, program: Program, code: FunctionCode):
        self.program, self.code = program, code
        self.steps = [step for block in code.blocks for step in block.steps]
        self.makers: dict[int, list[Step]] = {}
        for step in self.steps:
            for slot in step.writes:
                self.makers.setdefault(slot, []).append(step)
        self.names: dict[int, Any] = {}
        self.depth = 0
        self.waiting = self._waiting()

    # -- addresses -----------------------------------------------------------------------------

    def place(self, step: MemoryAccess) -> tuple[Any, ...]:
        """Return a key for the address: equal keys are equal addresses in one thread."""
        return (step.site.space, step.site.offset, self._operand(step.sources[0]))

    def _operand(self, operand: Operand) -> Any:
        if isinstance(operand, Register):
            slot = self.code.slots.get(operand.name.removeprefix("!"))
            return operand.name if slot is None else self._register(slot)
        if isinstance(operand, Address):
            return (self._operand(operand.base), operand.offset)
        if isinstance(operand, Vector):
            return tuple(map(self._operand, operand.items))
        return operand

    def _register(self, slot: int) -> Any:
        """Return the computation of a register, or the register if there is no single one."""
        if slot not in self.names:
            own = self.names[slot] = (id(self.code), slot)
            made = self.makers.get(slot, []) if self.depth < DEEPEST else []
            self.depth += 1
            if len(made) == 1 and isinstance(made[0], Parameter):
                at = made[0].targets.index(slot) * made[0].dtype.itemsize
                self.names[slot] = ("parameter", made[0].offset + at)
            elif len(made) == 1 and len(made[0].targets) == 1 and _computes(made[0]):
                name = made[0].instruction.name
                parts = tuple(map(self._operand, made[0].sources))
                self.names[slot] = hash((name, parts)) if own not in parts else own
            self.depth -= 1
        return self.names[slot]

    # -- waits ---------------------------------------------------------------------------------

    def _waiting(self) -> list[set[int]]:
        """Return the loops that write no memory, as indices of blocks."""
        silent = {block.index for block in self.code.blocks if not any(map(_writes, block.steps))}
        return cycles(
            {
                block.index: sorted(silent.intersection(successors(block)))
                for block in self.code.blocks
                if block.index in silent
            }
        )

    def waits(self, block: BasicBlock, load: MemoryAccess) -> bool:
        """Return True if ``load`` ends a loop that writes no memory."""
        loop = next((loop for loop in self.waiting if block.index in loop), None)
        if loop is None:
            return False
        decided = self._reached(load)[0]
        return any(self._guard(one) & decided for one in self.code.blocks if one.index in loop)

    def _guard(self, block: BasicBlock) -> set[int]:
        names = [] if block.guard is None else [block.guard[0]]
        if block.kind == "branch" and block.last is not None and block.last.guard is not None:
            names.append(self.code.slots.get(block.last.guard[0].name, -1))
        return set(names)

    # -- uses ----------------------------------------------------------------------------------

    def is_data(self, load: MemoryAccess) -> bool:
        """Return True if the value of ``load`` is used for more than a decision."""
        decided, stored, handed_on = self._reached(load)
        return stored or (handed_on and not decided)

    def _reached(self, load: MemoryAccess) -> tuple[set[int], bool, bool]:
        """Trace the uses of the value of ``load``.

        Returns the predicates computed from it, whether it is stored or used as an address, and
        whether it is stored in shared memory that the function reads.
        """
        held, decided = set(load.writes), set[int]()
        stored = handed_on = False
        todo = list(held)
        while todo:
            slot = todo.pop()
            for step in self.steps:
                if slot not in step.reads or isinstance(step, Barrier | Call):
                    continue
                if isinstance(step, MemoryAccess):
                    onward = list(self._handed_on(step, slot))
                    handed_on |= bool(onward)
                    stored |= not onward
                else:
                    onward = step.writes
                for one in onward:
                    if self.program.dtypes[one] == BOOL:
                        decided.add(one)
                    elif one not in held:
                        held.add(one)
                        todo.append(one)
        return decided | self._made_of(decided), stored, handed_on

    def _handed_on(self, store: MemoryAccess, slot: int) -> Iterator[int]:
        """Yield the registers that the function loads after ``slot`` is stored in shared memory."""
        base = store.sources[0]
        is_address = isinstance(base, Register) and self.code.slots.get(base.name) == slot
        if store.site.kind != "store" or store.site.space != "shared" or is_address:
            return
        for step in self.steps:
            if (
                isinstance(step, MemoryAccess)
                and step.site.kind == "load"
                and self.place(step) == self.place(store)
            ):
                yield from step.writes

    def _made_of(self, predicates: set[int]) -> set[int]:
        """Return the predicates computed from some others (``and.pred``, votes)."""
        found = set(predicates)
        while True:
            more = {
                slot
                for step in self.steps
                if found & step.reads and not isinstance(step, MemoryAccess)
                for slot in step.writes
                if self.program.dtypes[slot] == BOOL
            }
            if more <= found:
                return found
            found |= more


def _computes(step: Step) -> bool:
    return isinstance(step, Data | Move) or step.instruction.opcode == "cvta"


def _writes(step: Step) -> bool:
    return isinstance(step, MemoryAccess) and step.site.kind == "store"
