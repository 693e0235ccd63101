"""Switch from the interpreter to native code, decided by counted work and not by time.

:meth:`~virtualgpu.launch.launch.Launch.spend` counts the work of a launch, and the cost of
compiling is given in the same unit. Native code takes over as soon as the work done, plus the work
that is expected, has reached that cost. This happens between two waves of blocks. It may also
happen within the first wave, and then the launch begins again with the original memory. The same
launches always switch at the same point.
"""

from __future__ import annotations

import math
import os
from functools import partial

import numpy as np

from virtualgpu.lanes.events import Observer
from virtualgpu.lanes.schedule import Lockstep
from virtualgpu.launch.launch import BeginAgain, Launch
from virtualgpu.memory.snapshot import Snapshot, can_be_taken_back

# Cost of compiling one instruction of a kernel, in units of work. Compiling took 0.4 to 0.8 ms of
# processor time for each instruction, while the interpreter did 0.8 to 5 * 10**9 units in a second,
# mostly 2.3 * 10**9 (lab.benchmarks.first_launches).
WORTH = 1_500_000
# The same for observed work, which takes 1 to 5 times as long.
WATCHED = 600_000
# Cost of loading native code that an earlier process has left on disk, whatever its length.
LOADING = 50_000_000
# Cost of copying a byte of memory, in units of work, and the part of the compile cost that a copy
# may reach.
COPYING, PART = 0.5, 0.5


def natively(launch: Launch, first: int) -> bool:
    """Run the blocks from ``first`` on in native code, if that pays.

    Returns False if it does not pay or is not possible.
    """
    asked = os.environ.get("VIRTUALGPU_NATIVE")
    if asked == "0":
        launch.native.refusal = "VIRTUALGPU_NATIVE=0"
        return False
    program = launch.program
    if asked != "always":
        work = _done(launch)
        # The blocks from `first` on are expected to do as much work each as those before. Before
        # the first block, the total of the same launch's last run is expected.
        ahead = launch.work * (launch.blocks - first) // first if first else program.latest[-1]
        if work + ahead < min(LOADING, _compiling(launch)) or (
            work + (ahead if first or _is_like_the_last(launch) else 0) < _price(launch)
        ):
            launch.native.refusal = "too little work for the cost of compiling"
            launch.native.threshold = math.inf
            if not first and program.repeats and _may_begin_again(launch):
                before = Snapshot(launch.memory, written=bool(launch.observers))
                launch.native.reconsider = partial(_reconsider, launch, before)
                launch.native.threshold = program.work + min(LOADING, _compiling(launch)) - work
            return False
    from virtualgpu.native import natively as run  # takes 30 ms, which many processes never need

    return run(launch, first)


def _done(launch: Launch) -> int:
    """Return the work that the kernel's launches with or without observers have done."""
    return launch.program.watched if launch.observers else launch.program.work


def _compiling(launch: Launch) -> int:
    """Return the cost of compiling the kernel for this launch, in units of work."""
    return (WATCHED if launch.observers else WORTH) * launch.program.length


def _price(launch: Launch) -> int:
    """Return the cost of native code for this launch; code on disk is cheaper."""
    from virtualgpu.native.run import is_on_disk

    return min(LOADING, _compiling(launch)) if is_on_disk(launch) else _compiling(launch)


def _is_like_the_last(launch: Launch) -> bool:
    """Return True if the kernel's last launch was like this one.

    The dimensions must be equal, and the parameters too, apart from device addresses.
    """
    grid, block, parameters, _ = launch.program.latest
    if (grid, block, len(parameters)) != (launch.grid, launch.block, len(launch.parameters)):
        return False
    if parameters == launch.parameters:
        return True
    whole = len(parameters) // 8 * 8
    before, now = (
        np.frombuffer(each[:whole], np.uint64) for each in (parameters, launch.parameters)
    )
    low, high = np.uint64(launch.memory.first), np.uint64(launch.memory.limit)
    addresses = (low <= before) & (before < high) & (low <= now) & (now < high)
    return parameters[whole:] == launch.parameters[whole:] and bool(
        np.all(addresses | (before == now))
    )


def _may_begin_again(launch: Launch) -> bool:
    """Return True if the first wave may still switch to native code, with memory restored."""
    program, memory = launch.program, launch.memory
    return (
        not launch.native.began_again
        and not isinstance(program.native, str)
        and _can_forget(launch.observers)
        and isinstance(launch.schedule, Lockstep)
        and math.isinf(launch.budget.instructions)
        and memory.allocated * COPYING <= WORTH * program.length * PART
        and can_be_taken_back(memory)
        and not _is_like_the_last(launch)
    )


def _can_forget(observers: list[Observer]) -> bool:
    """Return True if no observer depends on events that the interpreter has reported."""
    found = [observer.has_found() for observer in observers]
    if None in found:
        return len(found) == 1 and type(observers[0]).counts is not Observer.counts
    return not any(found)


def _reconsider(launch: Launch, before: Snapshot) -> float:
    """Decide within the first wave whether native code has become worthwhile.

    Raises BeginAgain if it has. Otherwise returns the amount of work at which to decide again
    (infinity: never).
    """
    if (left := _price(launch) - _done(launch)) > 0:
        return launch.program.work + left
    if _can_forget(launch.observers) and before.restore():
        raise BeginAgain
    return math.inf
