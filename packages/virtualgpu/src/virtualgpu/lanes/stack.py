"""Stack of a thread: ``alloca``, ``stacksave``, ``stackrestore``.

PTX ISA, "Stack Manipulation Instructions".

In the thread's local memory, the stack grows down from :data:`~virtualgpu.lanes.wave.STACK_TOP`,
and the frames of functions grow up from 0. A thread has MAX_LOCAL bytes for both. Memory from
``alloca`` is uninitialised. It is freed by ``stackrestore`` and when its function returns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NoReturn

import numpy as np

from virtualgpu.errors import Location, MemoryAccessError, VirtualGPUError
from virtualgpu.lanes.emitter import Emitter
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.wave import MAX_LOCAL, STACK_TOP
from virtualgpu.program.steps import Formed
from virtualgpu.ptx import Immediate
from virtualgpu.wording import many

LEAST_ALIGN = 8  # bytes; PTX ISA, "alloca": the guaranteed alignment without a third operand
U64 = np.dtype("u8")


def _fail(
    kind: type[VirtualGPUError], message: str, at: Location, group: Group, bad: np.ndarray
) -> NoReturn:
    block, thread = group.wave.where(int(group.lanes[np.flatnonzero(bad)[0]]))
    raise kind(message, replace(at, block=block, thread=thread))


def allocate(at: Location, align: int, group: Group, size: np.ndarray) -> np.ndarray:
    """Execute ``alloca``: return the lowest address of each lane's new bytes, uint64.

    ``size`` is uint64, shape (n,) or (1,). It is an error if a thread's frames and stack exceed
    MAX_LOCAL bytes.
    """
    wave, lanes = group.wave, group.lanes
    used = wave.stack_used
    frames = group.frame + wave.launch.program.frame_limit(group.block)
    size = group.spread(size)
    # Limit the size, because a very large one could wrap.
    wanted = np.minimum(size, np.uint64(2 * MAX_LOCAL)).astype(np.int64)
    start = (STACK_TOP - used[lanes] - wanted) & -align
    bad = STACK_TOP - start + frames > MAX_LOCAL
    if bad.any():
        first = np.flatnonzero(bad)[0]
        _fail(
            VirtualGPUError,
            f"stack overflow: alloca of {many(int(size[first]), 'byte')}, where the thread's "
            f"arrays and calls take {int(used[lanes[first]]) + frames:,} of its {MAX_LOCAL:,} "
            "bytes of local memory. Allocate less, free it in each iteration of a loop, or "
            "use an array in global memory",
            at,
            group,
            bad,
        )
    used[lanes] = STACK_TOP - start
    wave.grow_local(frames, int(used[lanes].max()))
    wave.freshen(lanes, start, wanted)
    lowest: np.ndarray = start.astype(np.uint64)
    offsets = wave.local_offset(lowest)
    for observer in wave.launch.observers:
        observer.stack_grew(group, offsets, wanted)
    return lowest


def pointer(group: Group) -> np.ndarray:
    """Execute ``stacksave``: return the lowest local address in use, uint64, shape (n,)."""
    lowest: np.ndarray = STACK_TOP - group.wave.stack_used[group.lanes]
    return lowest.astype(np.uint64)


def restore(at: Location, group: Group, saved: np.ndarray) -> None:
    """Execute ``stackrestore``: free allocations since ``stacksave`` returned ``saved``."""
    used = group.wave.stack_used
    saved = group.spread(saved)
    now, entered = used[group.lanes], at_entry(group)
    top = np.uint64(STACK_TOP)
    bad = (saved > top - entered.astype(np.uint64)) | (saved < top - now.astype(np.uint64))
    if bad.any():
        wrong = int(saved[np.flatnonzero(bad)[0]])
        _fail(
            MemoryAccessError,
            f"stackrestore of {wrong:#x}, which is not in this function's used stack. Restore "
            "a value that stacksave returned in the same call and that was not freed",
            at,
            group,
            bad,
        )
    used[group.lanes] = STACK_TOP - saved.astype(np.int64)


def at_entry(group: Group) -> np.ndarray:
    """Return the stack bytes in use when the running function began: int64, shape (n,)."""
    program = group.wave.launch.program
    none = np.zeros(1, np.int64)
    value = group.stack[-1][2].get(program.stack_slot, none) if group.stack else none
    return group.spread(value)


def entering(group: Group) -> None:
    """Store the size of the caller's stack with its registers, before a call."""
    slot = group.wave.launch.program.stack_slot
    if slot is not None:
        group.registers = group.registers.updated({slot: group.wave.stack_used[group.lanes]})


def leaving(group: Group) -> None:
    """Free the stack that the function allocated, before a return."""
    if group.wave.launch.program.stack_slot is not None:
        group.wave.stack_used[group.lanes] = at_entry(group)


def emit(emitter: Emitter, step: Formed) -> None:
    """Add the lines of one of the three instructions to the block of ``emitter``."""
    at = emitter.program.location(step.instruction.source)
    values = [
        emitter.cast(emitter.get(one, dtype), dtype, U64)
        for one, dtype in zip(step.sources[:1], step.kinds, strict=False)
    ]
    align = step.sources[1] if len(step.sources) > 1 else Immediate(LEAST_ALIGN)
    function = {
        "alloca": partial(allocate, at, max(getattr(align, "value", 0), LEAST_ALIGN)),
        "stacksave": pointer,
        "stackrestore": partial(restore, at),
    }[step.instruction.opcode]
    call = f"{emitter.put(function, 'f')}({', '.join(['group', *values])})"
    if step.targets:
        emitter.give(step.targets[0], emitter.cast(call, U64, step.results[0]), step.results[0])
    else:
        emitter.lines.append(f" {call}")
