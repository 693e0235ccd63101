"""Recordings of a race: the steps of two threads at one address, in an order that ran.

Hardware may choose every order that ``virtualgpu.schedule`` produces, and a seed always produces
the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpucourse.views.launch.runs import ArrayArgument, Launch, Observed, traced
from virtualgpu import sources
from virtualgpu.api import POISON, ThreadStep
from virtualgpu.errors import BudgetExceeded
from virtualgpu.findings import Finding

#: Orders that are tried, and the largest launch for which this is fast.
SEEDS = range(1, 25)
MOST_THREADS = 2048
#: Steps of a replay that are kept.
MOST_STEPS = 24


@dataclass(frozen=True, slots=True)
class RaceEvent:
    """A step of one thread (0 or 1), or of both at once (2), at their shared address."""

    who: int
    kind: str
    line: int | None
    code: str
    value: object  # the value at the address afterwards
    phase: int = 0  # barriers of the block that the thread has passed


@dataclass(frozen=True, slots=True)
class Replay:
    """Events in the order of one recording; ``seed`` is None for the default order."""

    events: tuple[RaceEvent, ...]
    seed: int | None
    cell: str

    def lost(self) -> tuple[int, int] | None:
        """Return the event that overwrites and the event that is lost, or None.

        The overwriting thread writes a value computed from one that the other thread has since
        replaced.
        """
        read = {}
        for at, event in enumerate(self.events):
            if event.kind == "load":
                for who in (0, 1) if event.who == 2 else (event.who,):
                    read[who] = at
            elif event.kind == "store" and event.who == 2:
                return at, at
            elif event.kind == "store" and event.who in read:
                for other in range(read[event.who] + 1, at):
                    if self.events[other].kind == "store" and self.events[other].who != event.who:
                        return at, other
        return None

    def order(self) -> tuple:
        """Return a key of the order: the thread and the kind of each step.

        Reads without a write between them count as equal in either order.
        """
        told: list[tuple] = []
        for event in self.events:
            who = {0, 1} if event.who == 2 else {event.who}
            if event.kind == "load" and told and told[-1][1] == "load":
                told[-1] = (told[-1][0] | who, "load")
            else:
                told.append((frozenset(who), event.kind))
        return tuple(told)


def record(launch: Launch, observed: Observed, found: Finding) -> list[Replay]:
    """Return one recording in which an update is lost, or up to two in different orders.

    The list is empty if the launch reached its limits or no recording shows both threads at one
    address.
    """
    pair = np.array(
        [
            _number(observed, found.block, found.thread),
            _number(observed, found.other.block, found.other.thread),
        ]
    )
    if isinstance(observed.error, BudgetExceeded):
        return []  # the launch probably never ends, under any seed
    threads = launch.blocks * launch.threads
    seeds = [*SEEDS, None] if threads <= MOST_THREADS else [None]
    at_once: list[Replay] = []
    best: list[Replay] = []
    for seed in seeds:
        run = traced(launch, seed=seed, threads=np.unique(pair), values=True)
        replay = _replay(run, pair, found, seed)
        if replay is None:
            continue
        if lost := replay.lost():
            if lost[0] != lost[1]:
                return [replay]
            at_once = at_once or [replay]
        elif not best or (len(best) == 1 and replay.order() != best[0].order()):
            best.append(replay)
    return at_once or best


def _number(observed: Observed, block: tuple, thread: tuple) -> int:
    """Return a thread's index in the grid."""
    (gx, gy, _), (bx, by, bz) = observed.grid, observed.block
    in_grid = block[0] + gx * (block[1] + gy * block[2])
    return in_grid * bx * by * bz + thread[0] + bx * (thread[1] + by * thread[2])


def _replay(run: Observed, pair: np.ndarray, found: Finding, seed: int | None) -> Replay | None:
    """Return the steps of both threads at the first address that both access and one writes.

    Only accesses at the lines of the finding count.
    """
    lines = {found.line, found.other.line}
    accesses = [step for step in run.trace.steps if step.space in ("global", "shared")]
    touched: dict[tuple, dict[int, set]] = {}
    for step in accesses:
        if step.line not in lines:
            continue
        for thread, address in zip(step.threads.tolist(), step.addresses.tolist(), strict=True):
            touched.setdefault((step.space, address), {}).setdefault(thread, set()).add(step.kind)
    shared = [
        place
        for place, who in touched.items()
        if len(who) == 2 and any(kinds - {"load"} for kinds in who.values())
    ]
    if not shared:
        return None
    # The address of the finding, which its first thread writes.
    shared.sort(key=lambda p: ("load" in touched[p][int(pair[0])], p))
    space, address = shared[0]
    place = next(
        (p for p in run.places if space == "global" and p.address <= address < p.end), None
    )
    steps = [step for step in accesses if step.space == space and (step.addresses == address).any()]
    dtype = run.dtype(place, steps[0].size)
    there = {id(step) for step in steps}
    passed = dict.fromkeys(pair.tolist(), 0)
    events = []
    for step in run.trace.steps:
        if step.kind == "released":
            for thread in passed.keys() & set(step.threads.tolist()):
                passed[thread] += 1
        elif id(step) in there:
            events.append(_event(step, address, pair, dtype, passed))
    cell = _cell(run, place, space, address, steps[0].size)
    return Replay(tuple(events[:MOST_STEPS]), seed, cell)


def _event(
    step: ThreadStep,
    address: int,
    pair: np.ndarray,
    dtype: np.dtype | None,
    passed: dict[int, int],
) -> RaceEvent:
    mine = step.addresses == address
    threads = step.threads[mine]
    who = 2 if len(threads) > 1 else int(threads[0] == pair[1])
    value = None
    if step.values is not None and (step.values[mine][-1] == POISON).all():
        value = "unwritten"
    elif dtype is not None and step.values is not None and dtype.itemsize == step.size:
        value = np.ascontiguousarray(step.values[mine][-1]).view(dtype)[0].item()
    code = sources.text(step.filename, step.line)
    return RaceEvent(who, step.kind, step.line, code, value, passed[int(threads[0])])


def _cell(run: Observed, place: ArrayArgument | None, space: str, address: int, size: int) -> str:
    """Return the name of a memory cell: ``total[0]`` or ``shared[3]``."""
    if place is not None:
        element = (address - place.address) // place.dtype.itemsize
        return f"{place.name}[{element}]"
    # Shared arrays have no names in the compiled kernel.
    start = next((s for s, e, _ in run.trace.shared if s <= address < e), 0)
    return f"shared[{(address - start) // size}]"
