"""Liveness of registers: those that a block needs from earlier blocks and passes to later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtualgpu.program.program import BasicBlock, FunctionCode, Program


def solve(program: Program) -> None:
    """Set ``live_in`` and ``live_out`` of every block of ``program``."""
    for code in program.functions.values():
        _solve(code)


def successors(block: BasicBlock) -> tuple[int, ...]:
    """Return the blocks that may come next."""
    after: tuple[int, ...] = (block.index + 1,)
    onward: tuple[int, ...]
    if block.kind == "goto":
        onward = (block.target,)
    elif block.kind == "branch":
        onward = (block.target, *after)
    elif block.kind == "indexed":
        onward = block.targets
    elif block.kind in ("exit", "return", "trap"):
        onward = ()
    else:
        onward = after
    return onward if block.guard is None else (*onward, *after)


def _solve(code: FunctionCode) -> None:
    """Iterate to the fixed point, starting from the last block."""
    returned = frozenset(code.slots[v.name] for v in code.function.returns if v.name in code.slots)
    live_in: dict[int, frozenset[int]] = {b.index: frozenset() for b in code.blocks}
    again = True
    while again:
        again = False
        for block in reversed(code.blocks):
            out: frozenset[int] = frozenset().union(*(live_in[s] for s in successors(block)))
            if block.kind == "return":
                out |= returned
            block.live_out = out
            kept = (out - set(block.receives)) | set(block.passes)
            needed = frozenset(block.reads | (kept - block.writes))
            if block.guard is not None:
                needed |= out | {block.guard[0]}
            if needed != live_in[block.index]:
                live_in[block.index] = needed
                again = True
    for block in code.blocks:
        block.live_in = live_in[block.index]
