"""Barriers of a block and of the grid (PTX ISA, "bar, barrier"; cooperative groups).

A barrier releases a block when all its threads have arrived or exited, because on hardware exited
threads do not block it. Observers are told which threads never arrived, because the CUDA
programming rules call that an error.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.errors import DeadlockError, LaunchError, Location
from virtualgpu.lanes.group import ALL, Group
from virtualgpu.lanes.wave import WARP, Wave
from virtualgpu.languages import language_of
from virtualgpu.program.program import BasicBlock
from virtualgpu.wording import many

CLUSTER = "cluster.sync()"
COUNT = 16  # barriers per block: 0 to 15
# The barrier ("grid", or a number in each lane), the number of threads, a predicate to reduce.
Operands = tuple[str | np.ndarray, np.ndarray | None, np.ndarray | None]


class Waiting:
    """Threads that wait at one barrier of the wave's blocks."""

    __slots__ = ("arrived", "came", "expected", "groups", "predicates")

    def __init__(self, wave: Wave):
        self.groups: list[Group] = []
        self.predicates: list[np.ndarray | None] = []
        self.arrived = np.zeros(wave.blocks, np.int64)
        self.expected = np.zeros(wave.blocks, np.int64)  # 0: every thread of the block
        self.came = np.zeros(wave.lanes, bool)

    def filling(self, wave: Wave) -> np.ndarray:
        """Return the number of absent threads that count as arrived, for each block.

        The result is int64, shape (blocks,).

        A barrier for a number of threads counts warps of 32 threads. A warp has arrived when all
        its live threads have arrived: exited threads, and those that a partial last warp lacks,
        are counted too.
        """
        some = np.zeros(wave.warps, bool)
        some[wave.warp_of[self.came]] = True
        ended = wave.has_exited & ~self.came & some[wave.warp_of]
        more: np.ndarray = np.bincount(wave.block_of[ended], minlength=wave.blocks)
        more += some.reshape(wave.blocks, -1)[:, -1] * (-wave.threads % WARP)
        return more


def arrive(wave: Wave, group: Group, operands: Operands) -> list[Group]:
    """Let the group's lanes arrive at a barrier; return the groups that may continue."""
    number, threads, predicate = operands
    block = wave.launch.program.blocks[group.block]
    instruction = block.last
    barrier: int | str
    if isinstance(number, str):
        barrier = number
        if not wave.launch.cooperative:
            raise LaunchError(
                "grid.sync() in a launch that is not cooperative: the blocks are not all "
                "resident at once",
                location(wave, group),
            )
    elif len(number) > 1 and (number != number[0]).any():
        released: list[Group] = []
        for value in np.unique(number):
            chosen = np.flatnonzero(number == value)
            part = group.subset(chosen, group.block)

            def pick(a: np.ndarray | None, chosen: np.ndarray = chosen) -> np.ndarray | None:
                return a if a is None or len(a) == 1 else a[chosen]

            released += arrive(wave, part, (number[chosen[:1]], pick(threads), pick(predicate)))
        return released
    else:
        barrier = int(number[0])
        if not 0 <= barrier < COUNT:
            raise LaunchError(
                f"barrier {barrier}: a block has barriers 0 to {COUNT - 1}", location(wave, group)
            )
    for observer in wave.launch.observers:
        observer.arrived(group, instruction, barrier)
    state = wave.waiting.get(barrier)
    if state is None:
        if (
            group.full
            and threads is None
            and predicate is None
            and ("arrive" not in instruction.modifiers)
        ):
            _announce(wave, barrier, [group], None)
            _onward(group)
            return [group]
        state = wave.waiting[barrier] = Waiting(wave)
    blocks = group.take(wave.block_of)
    state.arrived += np.bincount(blocks, minlength=wave.blocks)
    state.came[group.lanes] = True
    if threads is not None:
        if ((threads % WARP != 0) | (threads == 0)).any():
            raise LaunchError(
                f"a barrier of {many(int(threads.max()), 'thread')}: the number must be a "
                f"multiple of {WARP}",
                location(wave, group),
            )
        state.expected[blocks] = threads
    onward: list[Group] = []
    if "arrive" in instruction.modifiers:
        if (watch := wave.launch.standstill) is not None:
            watch.changed()
        group.block += 1
        onward.append(group)
    else:
        state.groups.append(group)
        state.predicates.append(predicate)
    return onward + release(wave, barrier)


def release(wave: Wave, barrier: int | str) -> list[Group]:
    """Return the groups whose barrier is complete now, placed after it."""
    state: Waiting = wave.waiting[barrier]
    if barrier == "grid":
        complete = np.full(wave.blocks, state.arrived.sum() + wave.finished >= wave.lanes)
    else:
        everyone = state.expected == 0
        ended = (
            wave.exited if everyone.all() else np.where(everyone, wave.exited, state.filling(wave))
        )
        present = state.arrived + ended
        complete = present >= np.where(everyone, wave.threads, state.expected)
    here = state.arrived > 0
    if not (complete & here).any():
        return []
    if complete[here].all():
        del wave.waiting[barrier]
        going, predicates = state.groups, state.predicates
    else:
        going, predicates = [], []
        keep: list[Group] = []
        keep_predicates: list[np.ndarray | None] = []
        for group, predicate in zip(state.groups, state.predicates, strict=True):
            goes = complete[group.take(wave.block_of)]
            for chosen, groups, values in (
                (np.flatnonzero(goes), going, predicates),
                (np.flatnonzero(~goes), keep, keep_predicates),
            ):
                if len(chosen):
                    groups.append(group.subset(chosen, group.block))
                    values.append(
                        predicate if predicate is None or len(predicate) == 1 else predicate[chosen]
                    )
        state.groups, state.predicates = keep, keep_predicates
        state.arrived[complete] = 0
        state.expected[complete] = 0
        state.came[complete[wave.block_of]] = False
    missing = None
    if wave.finished and wave.launch.observers:
        concerned = complete if barrier == "grid" else complete & here
        lanes = wave.has_exited & concerned[wave.block_of]
        missing = np.flatnonzero(lanes) if lanes.any() else None
    if going:
        _announce(wave, barrier, going, missing)
        if any(p is not None for p in predicates):
            _reduce(wave, going, predicates)
    for group in going:
        _onward(group)
    return going


def _onward(group: Group) -> None:
    """Move a group past a barrier at which all its lanes have arrived."""
    group.block += 1
    if group.waited:
        group.waited = ALL


def _announce(
    wave: Wave, barrier: int | str, groups: list[Group], missing: np.ndarray | None
) -> None:
    if wave.launch.observers:
        lanes = groups[0].lanes
        if len(groups) > 1:
            lanes = np.sort(np.concatenate([g.lanes for g in groups]))
        for observer in wave.launch.observers:
            observer.released(barrier, lanes, groups, missing)


def _reduce(wave: Wave, groups: list[Group], predicates: list[np.ndarray | None]) -> None:
    """Compute ``bar.red``: popc, and, or of the predicate over each block's arrived threads."""
    program = wave.launch.program
    ones = np.zeros(wave.blocks, np.int64)
    total = np.zeros(wave.blocks, np.int64)
    for group, predicate in zip(groups, predicates, strict=True):
        blocks = group.take(wave.block_of)
        if predicate is not None:
            ones += np.bincount(blocks[group.spread(predicate)], minlength=wave.blocks)
        total += np.bincount(blocks, minlength=wave.blocks)
    for group in groups:
        block = program.blocks[group.block]
        if not block.receives:
            continue
        modifiers = block.last.modifiers
        value: np.ndarray
        if "popc" in modifiers:
            value = ones.astype(np.uint32)
        elif "and" in modifiers:
            value = ones == total
        else:
            value = ones > 0
        value = value[group.take(wave.block_of)]
        group.registers = group.registers.updated({block.receives[0]: value})


def location(wave: Wave, group: Group) -> Location:
    source = wave.launch.program.blocks[group.block].source
    return Location.of(wave.launch.kernel, source, *wave.where(int(group.lanes[0])))


def _barrier_of(block: BasicBlock) -> str:
    return language_of(block.source).barrier.removeprefix("cuda.")


def held_up(wave: Wave) -> list[tuple[Group, str]]:
    """Return the groups that wait at barriers or for their warp, with the name of each place."""
    program = wave.launch.program
    waits = [
        (group, f"barrier {number}" if number else _barrier_of(program.blocks[group.block]))
        for number, state in wave.waiting.items()
        for group in state.groups
    ]
    waits += [
        (group, program.blocks[group.block].instructions[0].name)
        for groups in wave.parked.values()
        for group in groups
    ]
    if wave.cluster_barrier is not None:
        waits += [(group, CLUSTER) for group in wave.cluster_barrier.waiting]
    return waits


def deadlock(wave: Wave) -> DeadlockError:
    """Build the deadlock error: it says which threads wait at which barrier."""
    program = wave.launch.program
    waits = held_up(wave)
    first = int(wave.block_of[waits[0][0].lanes[0]])
    # A thread that waits for its cluster may wait for threads of other blocks.
    many = wave.launch.cluster_size if any(what is CLUSTER for _, what in waits) else 1
    first -= first % many
    parts = []
    for group, what in waits:
        lanes = group.lanes[group.take(wave.block_of) // many == first // many]
        if not len(lanes):
            continue
        source = program.blocks[group.block].source
        line = source.line if source else "unknown"
        block, thread = wave.where(int(lanes[0]))
        who = f"{thread} of block {block}" if many > 1 else thread
        parts.append(f"{len(lanes)} of its threads (the first is {who}) at line {line} for {what}")
    exited = int(wave.exited[first : first + many].sum())
    if exited:
        parts.append("1 has ended" if exited == 1 else f"{exited} have ended")
    block = wave.where(first * wave.threads)[0]
    whom = f"the cluster of block {block}" if many > 1 else f"block {block}"
    return DeadlockError(
        f"deadlock: {whom} waits for ever: " + "; ".join(parts) + ". Every thread of a "
        f"{'cluster' if many > 1 else 'block'} must reach the same barrier: move it out of the "
        "branch",
        location(wave, waits[0][0]),
    )
