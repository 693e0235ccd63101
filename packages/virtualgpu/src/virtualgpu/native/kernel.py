"""Compilation of a program to a native function that runs blocks of threads.

:mod:`.block_loop` calls the warp's function (:mod:`.lowering`) for each warp of each block.
Kernels with resident blocks have a generated function for this (:mod:`.block_scheduler`).
"""

from __future__ import annotations

from dataclasses import astuple

from virtualgpu.compilers import llvm
from virtualgpu.native import privatisation
from virtualgpu.native.blocks import block_loop
from virtualgpu.native.blocks.block_scheduler import BlockScheduler
from virtualgpu.native.divergence import barrier_of
from virtualgpu.native.flow import block_order
from virtualgpu.native.lowering import Lowering
from virtualgpu.native.record import Record
from virtualgpu.native.state_layout import parked
from virtualgpu.program.program import Program


def build(program: Program, name: str) -> Record:
    """Compile a kernel and return its record.

    The variants are ``native``, ``counting`` and ``watching`` (under ``check()``). Raises Refused
    if native code cannot give the interpreter's results.
    """
    counts, watches = name == "counting", name == "watching"
    lowering = Lowering(program, name, counts, watches)
    warp, lanes = lowering.warp, lowering.parked
    places, steps, registers = warp.places, warp.steps, warp.registers
    if lanes is not None:
        BlockScheduler(name, warp.function, lanes, len(lowering.accesses.sites))
        code = llvm.linkable(str(warp.module), name, "few")
        functions = llvm.needed(code)
    else:
        warp.function.linkage = ""
        code = llvm.linkable(str(warp.module), warp.function.name, "few")
        functions = [block_loop.run_blocks.symbol, *llvm.needed(code)]
    numbers = {id(step): number for some in steps for number, step in enumerate(some)}
    sites, used = lowering.accesses.sites, lowering.accesses.used
    return Record(
        code=functions,
        variables=registers.variables,
        sites=[(place.index, numbers[id(step)]) for step, place in sites],
        limits=[place.frame + place.block.function.frame_size for _, place in sites],
        adds=[privatisation.width(step, used) for step, _ in sites],
        state_size=lowering.state.size,
        local_size=max(place.frame + place.block.function.frame_size for place in places),
        # Blocks that wait for each other share a core's time; one core alone adds to tables of
        # counts.
        ordered=(counts or watches or lanes is not None or block_order.is_ordered(places, steps)),
        atomics=any(
            step.site.kind == "atomic" and step.site.space != "shared" for step, _ in sites
        ),
        grid_barrier=any(barrier_of(steps[p.index]).grid for p in warp.barriers),
        given=sorted(registers.given),
        row_length=lowering.row_length,
        loop_state_bytes=lowering.branches.loop_state_bytes,
        loop_heads=[
            (
                place,
                head.sees,
                sorted(head.slots),
                [(offset, dtype.str, own) for offset, dtype, own in head.registers],
            )
            for place, head in lowering.branches.loop_heads.items()
        ],
        parked=None if lanes is None else parked(lanes),
        grain=None if lowering.watching is None else list(astuple(lowering.watching.grain)),
    )
