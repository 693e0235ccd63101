"""Which blocks may wait while another runs.

The lanes of a warp that stand at the lowest block run first, and lanes that meet at a block run
on together: that is the order of :class:`~virtualgpu.machine.schedule.Lockstep`, and native code
keeps it, so stores of lanes that went different ways come in the same order. What can be known
before a kernel runs is which lanes can wait where meanwhile; a block while which nobody can wait
runs with all the warp's lanes that are left, and needs no mask of its own.

Sets of blocks are Python integers: bit ``i`` stands for block ``i``.
"""

from __future__ import annotations

from collections.abc import Iterable

from virtualgpu.machine.liveness import successors
from virtualgpu.machine.program import Block, Program


def reachable(program: Program) -> list[Block]:
    """The blocks that the kernel can come to, by index."""
    seen, todo = set(), [program.entry_code.entry]
    while todo:
        index = todo.pop()
        if index not in seen:
            seen.add(index)
            todo += successors(program.blocks[index])
    return [program.blocks[index] for index in sorted(seen)]


def members(blocks: int) -> Iterable[int]:
    """The numbers in a set, lowest first."""
    while blocks:
        lowest = blocks & -blocks
        yield lowest.bit_length() - 1
        blocks ^= lowest


def above(index: int) -> int:
    """All blocks after ``index``."""
    return -1 << (index + 1)


def endings(blocks: list[Block]) -> set[int]:
    """Blocks that only end the thread, or jump to such a one: nothing can tell when a lane comes
    there."""
    gone: set[int] = set()
    while True:
        more = {block.index for block in blocks if _only_ends(block, gone)}
        if more == gone:
            return gone
        gone = more


def _only_ends(block: Block, gone: set[int]) -> bool:
    if block.guard is not None or any(
            i.opcode not in ("ret", "exit", "bra") for i in block.instructions):
        return False
    return block.kind == "exit" or (block.kind == "goto" and block.target in gone)


def waiting(blocks: list[Block], parting: set[int], guarded: set[int]) -> dict[int, int]:
    """For each block: where other lanes of the warp may wait while it runs.

    Parameters
    ----------
    blocks : list of Block
        All that can be reached.
    parting : set of int
        Blocks whose branch may send the lanes of a warp different ways.
    guarded : set of int
        Blocks under a predicate on which lanes may differ: the others wait behind.

    Lanes on the way to an ending block are gone: they wait nowhere.
    """
    gone = endings(blocks)
    found = {block.index: 0 for block in blocks}
    onward = {block.index: set(successors(block)) - gone for block in blocks}
    todo = set(found)
    while todo:
        index = todo.pop()
        grown: dict[int, int] = {}
        here = found[index]
        # Of lanes that wait at two places, those at the higher go on waiting.
        for place in members(here):
            grown[place] = here & above(place)
        if index in guarded:
            behind = 0 if index + 1 in gone else 1 << (index + 1)
            grown[index] = grown.get(index, 0) | behind
            here |= behind
        targets = sorted(onward[index])
        for target in targets:
            others = here
            if index in parting:
                for other in targets:
                    others |= 1 << other
            grown[target] = grown.get(target, 0) | (others & above(target))
            # Lanes that come to `target` wait there for those that wait lower down.
            for place in members(others & ~above(target) & ~(1 << target)):
                grown[place] = grown.get(place, 0) | 1 << target
        for place, more in grown.items():
            if more & ~found[place]:
                found[place] |= more
                todo.add(place)
    return found


def loops(blocks: list[Block]) -> list[set[int]]:
    """The strongly connected parts that hold a cycle (Tarjan 1972), without recursion."""
    onward = {block.index: successors(block) for block in blocks}
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    result = []
    for root in onward:
        if root in order:
            continue
        work = [(root, iter(onward[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for after in rest:
                if after not in order:
                    order[after] = low[after] = len(order)
                    stack.append(after)
                    on_stack.add(after)
                    work.append((after, iter(onward[after])))
                    break
                if after in on_stack:
                    low[node] = min(low[node], order[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    part = set()
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        part.add(member)
                        if member == node:
                            break
                    if len(part) > 1 or node in onward[node]:
                        result.append(part)
    return result
