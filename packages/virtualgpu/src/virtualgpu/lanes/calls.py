"""Calls of device functions and returns from them (PTX ISA, "call", "ret").

A lane's stack frames are consecutive in its local memory. The callers' registers are saved on the
group's stack. Scalar parameters are passed from register to register, others as bytes of local
memory.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.errors import MemoryAccessError, VirtualGPUError
from virtualgpu.lanes import barriers, stack
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.registers import Registers
from virtualgpu.lanes.wave import MAX_LOCAL, Wave
from virtualgpu.program.program import CODE_BASE, BasicBlock
from virtualgpu.wording import many


def call(wave: Wave, group: Group, block: BasicBlock, address: np.ndarray) -> list[Group]:
    """Enter a function: the lanes' registers and frame are saved on their stack."""
    program, site = wave.launch.program, block.call
    assert site is not None
    if site.target is None:
        if len(address) > 1 and (address != address[0]).any():
            parts: list[Group] = []
            for value in np.unique(address):
                part = group.subset(np.flatnonzero(address == value), group.block)
                parts += call(wave, part, block, np.array([value], np.uint64))
            return parts
        name = program.module.function_at(int(address[0]) - CODE_BASE)
        if name not in program.functions:
            raise MemoryAccessError(
                "call of an address that is not a function",
                barriers.location(wave, group),
                address=int(address[0]),
            )
    else:
        name = site.target
    callee, caller = program.functions[name], block.function
    formal = [v.name for v in callee.function.parameters]
    # A result that only one side declares is lost or undefined, as on hardware.
    if len(formal) != len(site.arguments):
        raise VirtualGPUError(
            f"call of {name} with {many(len(site.arguments), 'argument')}; it takes {len(formal)}",
            barriers.location(wave, group),
        )
    if len(group.stack) >= wave.launch.call_depth:
        raise VirtualGPUError(
            f"stack overflow: calls nested {len(group.stack)} deep; recursion must end earlier",
            barriers.location(wave, group),
        )
    frame = group.frame + caller.frame_size
    registers, copies = {}, []
    for given, wanted in zip(site.arguments, formal, strict=True):
        if wanted in callee.slots and given in caller.slots:
            slot = callee.slots[wanted]
            value = group.registers.get(caller.slots[given], np.zeros(1, program.dtypes[slot]))
            registers[slot] = _as(value, program.dtypes[slot])
        elif wanted in callee.frame and given in caller.frame:
            size = callee.function.variables[wanted].size
            copies.append((group.frame + caller.frame[given], frame + callee.frame[wanted], size))
        else:
            raise VirtualGPUError(
                f"call of {name}: parameter {wanted} does not fit", barriers.location(wave, group)
            )
    if program.stack_slot is not None and (
        frame + callee.frame_size + wave.stack_used[group.lanes].max() > MAX_LOCAL
    ):
        raise VirtualGPUError(
            f"stack overflow: the frame of {name} does not fit beside the memory that its callers "
            "have from alloca. Allocate less, or end the recursion earlier",
            barriers.location(wave, group),
        )
    wave.grow_local(frame + callee.frame_size)
    _copy_local(wave, group, copies)
    stack.entering(group)
    group.stack = (*group.stack, (block.index, group.frame, group.registers))
    group.registers = Registers.of(registers, group.lanes, wave.lanes)
    group.frame, group.block = frame, callee.entry
    return [group]


def leave(wave: Wave, group: Group, block: BasicBlock, result: object) -> list[Group]:
    program = wave.launch.program
    index, frame, saved = group.stack[-1]
    site = program.blocks[index]
    callee, caller = block.function, site.function
    assert site.call is not None
    registers, copies = {}, []
    for given, wanted in zip(callee.function.returns, site.call.returns, strict=False):
        if wanted in caller.slots and given.name in callee.slots:
            slot = caller.slots[wanted]
            value = group.registers.get(callee.slots[given.name], np.zeros(1, program.dtypes[slot]))
            registers[slot] = _as(value, program.dtypes[slot])
        elif wanted in caller.frame and given.name in callee.frame:
            copies.append(
                (group.frame + callee.frame[given.name], frame + caller.frame[wanted], given.size)
            )
    _copy_local(wave, group, copies)
    stack.leaving(group)
    group.stack, group.frame = group.stack[:-1], frame
    group.registers = saved.updated(registers)
    group.block = index + 1
    return [group]


def _as(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if value.dtype.itemsize == dtype.itemsize:
        return value.view(dtype)
    unsigned = value.view(f"u{value.dtype.itemsize}").astype(f"u{dtype.itemsize}")
    return unsigned.view(dtype)


def _copy_local(wave: Wave, group: Group, copies: list[tuple[int, int, int]]) -> None:
    if not copies:
        return
    table = wave.local.reshape(wave.lanes, wave.local_stride)
    for origin, target, size in copies:
        table[group.lanes, target : target + size] = table[group.lanes, origin : origin + size]
