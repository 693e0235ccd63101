"""Loop over blocks: it runs all warps of each block, from barrier to barrier.

In a kernel with barriers, each warp of a block runs until it waits; then the loop continues with
the first warp, as PoCL does with work groups (Jääskeläinen et al., "pocl: A Performance-Portable
OpenCL Implementation", 2015). The loop is compiled once for all kernels and calls their warp
functions by address.
"""

from __future__ import annotations

from virtualgpu.compilers.loops import I32, I64, call, compiled, fill
from virtualgpu.native.context import AT_BARRIER, DONE, ENDED, STOPPED, ContextWords
from virtualgpu.native.privatisation import merge
from virtualgpu.native.watched.clock import block_passes, block_starts

UNUSED = 0xFE  # initial bytes of shared and local memory
RESULT = 0xFFFF_FFFF  # a warp's function returns 32 bits


@compiled(passes="few")
def run_blocks(context: ContextWords, first: int, count: int) -> int:
    """Run blocks ``first`` to ``first + count``; return ENDED, or STOPPED if one stopped."""
    result = ENDED
    for block in range(first, first + count):
        place = block + context.ahead
        row = place // context.nctaid_x
        context.ctaid_x = place % context.nctaid_x
        context.ctaid_y = row % context.nctaid_y
        context.ctaid_z = row // context.nctaid_y
        context.block = block
        context.clock = 0
        fill(context.shared, UNUSED, context.shared_bytes)
        fill(context.local, UNUSED, context.local_bytes)
        if context.watch:
            block_starts(context)
        if _run_block(context) == STOPPED:
            result = STOPPED
            break
        if context.passes:
            _end_stretch(context, True)
    merge(context)
    return result


@compiled
def _run_block(context: ContextWords) -> int:
    """Run all warps up to their barriers until all have ended; return DONE or STOPPED.

    A warp's state begins with the number of the barrier at which it waits: 0 at its start, and -1
    after it has ended.
    """
    for warp in range(context.warps):
        state: I32 = context.states + warp * context.state_size
        state[0] = 0
    while True:
        lowest = -1  # a bit for each barrier at which a warp waits
        for warp in range(context.warps):
            state = context.states + warp * context.state_size
            if state[0] < 0:
                continue
            context.warp = warp
            lanes = lanes_of(context.threads, warp)
            result = call(context.warp_function, context, state, lanes) & RESULT
            if result == STOPPED:
                return STOPPED
            if result != AT_BARRIER:
                state[0] = -1
            elif lowest < 0 or state[0] < lowest:
                lowest = state[0]
        if lowest < 0:
            return DONE
        if context.passes:
            passes: I64 = context.passes
            passes[lowest] += 1
            _end_stretch(context, False)
        if context.watch:
            if not _all_stand_at(context, lowest):
                return STOPPED
            block_passes(context)


@compiled
def lanes_of(threads: int, warp: int) -> int:
    """Return the mask of a warp's lanes that are threads of the block."""
    left = threads - (warp << 5)
    if left >= 32:
        return RESULT
    return (1 << left) - 1


@compiled(inline=False)
def _all_stand_at(context: ContextWords, barrier: int) -> int:
    """Return True if all threads of all warps wait at the same barrier."""
    for warp in range(context.warps):
        state: I32 = context.states + warp * context.state_size
        if state[0] != barrier or (state[1] & RESULT) != lanes_of(context.threads, warp):
            return False
    return True


@compiled(inline=False)
def _end_stretch(context: ContextWords, ended: int) -> None:
    """Call the observer's function after warps reach a barrier, or after the block has ended."""
    call(
        context.end_stretch,
        context.warp_instructions,
        context.warp_accesses,
        context.span,
        context.warps,
        ended,
    )
