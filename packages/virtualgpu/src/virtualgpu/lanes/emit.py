"""Code generation: one basic block of PTX as one Python function over NumPy arrays.

The function reads the registers that the block needs, calls one operation per instruction
(:mod:`virtualgpu.operations` for data, :mod:`virtualgpu.lanes.access` for memory) and returns the
registers that are live afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from virtualgpu.lanes import control, emit_access
from virtualgpu.lanes.b128 import halves, join
from virtualgpu.lanes.emitter import Emitter, Run
from virtualgpu.lanes.group import Group
from virtualgpu.operations.types import UNSIGNED
from virtualgpu.program.decode import decoding
from virtualgpu.program.program import BasicBlock, Program
from virtualgpu.program.steps import (
    WIDE,
    Barrier,
    Call,
    Data,
    Exact,
    MemoryAccess,
    Move,
    Parameter,
    Step,
)

U64 = np.dtype("u8")


def prepare(program: Program, block: BasicBlock) -> None:
    """Generate the block's body as Python code."""
    emitter = Emitter(program, block)
    for step in block.steps:
        with decoding(program, step.instruction):
            emit(emitter, step)
    # Liveness is computed from the steps, so a register that is read elsewhere might be dropped.
    assert emitter.reads <= block.reads, [step.instruction.text for step in block.steps]
    block.run = emitter


def compile_block(block: BasicBlock) -> Run:
    """Return the block's function, once its live registers are known.

    Python compiles it when it first runs, because that takes 0.3 ms per block and many blocks
    never run.
    """
    emitter: Emitter = block.run
    text = emitter.text((block.live_out - set(block.receives)) | set(block.passes))

    def first_run(group: Group) -> Any:
        made = emitter.function(text)
        if block.run is first_run:
            block.run = made
        return made(group)

    return first_run


def emit(emitter: Emitter, step: Step) -> None:
    if isinstance(step, Data):
        _data(emitter, step)
    elif isinstance(step, Move):
        _move(emitter, step)
    elif isinstance(step, Parameter):
        _parameter(emitter, step)
    elif isinstance(step, MemoryAccess):
        emit_access.emit(emitter, step)
    elif isinstance(step, Barrier):
        control.barrier(emitter, step)
    elif isinstance(step, Call):
        control.provided(emitter, step)
    elif isinstance(step, Exact):
        control.exact(emitter, step)
    else:
        control.emit(emitter, step)


def _data(emitter: Emitter, step: Data) -> None:
    """Emit arithmetic, logic, comparison or conversion, from the table of operations."""
    operation = step.operation
    arguments = [emitter.get(s, d) for s, d in zip(step.sources, operation.sources, strict=True)]
    if operation.carry_in:
        arguments.append(emitter.read(emitter.code.slots["%cc"])[0])
    call = f"{emitter.put(operation.function, 'f')}({', '.join(arguments)})"
    if len(step.targets) == 1:
        emitter.give(step.targets[0], call, operation.destinations[0])
        return
    names = [f"o{i}" for i in range(len(operation.destinations) + operation.carry_out)]
    emitter.lines.append(f" {', '.join(names)} = {call}")
    kinds = [*operation.destinations, *([np.dtype("?")] if operation.carry_out else [])]
    for slot, name, dtype in zip(step.targets, names, kinds, strict=False):
        if slot is not None:
            emitter.write_slot(slot, name, dtype)


def _parameter(emitter: Emitter, step: Parameter) -> None:
    """Emit a load of the kernel's parameters."""
    for number, slot in enumerate(step.targets):
        at = step.offset + number * step.dtype.itemsize
        if step.dtype == WIDE:
            parts = ", ".join(
                f"group.wave.launch.parameter({at + half}, {emitter.dtype(U64)})" for half in (0, 8)
            )
            value = f"{emitter.put(join, 'f')}({parts})"
        else:
            value = f"group.wave.launch.parameter({at}, {emitter.dtype(step.dtype)})"
        emitter.give(slot, value, step.dtype)


def _move(emitter: Emitter, step: Move) -> None:
    """Emit a copy, or the packing or unpacking of a vector (PTX ISA, "mov")."""
    want, sources, targets = step.dtype, step.sources, step.targets
    if want == WIDE and len(sources) > 1:
        parts = ", ".join(emitter.get(item, U64) for item in sources)
        emitter.give(targets[0], f"{emitter.put(join, 'f')}({parts})", WIDE)
    elif want == WIDE and len(targets) > 1:
        call = f"{emitter.put(halves, 'f')}({emitter.get(sources[0], WIDE)})"
        emitter.give_each(targets, call, U64)
    elif len(sources) > 1:
        part = UNSIGNED[want.itemsize // len(sources)]
        whole = UNSIGNED[want.itemsize]
        terms = [
            f"({emitter.get(item, part)}.astype({emitter.dtype(whole)})"
            f" << {emitter.constant(np.array([8 * part.itemsize * i], whole))})"
            for i, item in enumerate(sources)
        ]
        emitter.give(targets[0], " | ".join(terms), whole)
    elif len(targets) > 1:
        part = UNSIGNED[want.itemsize // len(targets)]
        whole = UNSIGNED[want.itemsize]
        emitter.lines.append(f" whole = {emitter.get(sources[0], whole)}")
        for i, slot in enumerate(targets):
            shift = emitter.constant(np.array([8 * part.itemsize * i], whole))
            if slot is not None:
                emitter.write_slot(slot, f"(whole >> {shift}).astype({emitter.dtype(part)})", part)
    else:
        emitter.give(targets[0], emitter.get(sources[0], want), want)
