"""Change from the interpreter to native code, decided by counted work, never by the clock.

The work of a launch is counted by :meth:`~virtualgpu.launch.launch.Launch.spend`; compiling has a
price in the same unit. Native code takes over as soon as the work that is done, and the work that
is seen to come, have reached that price: between two waves of blocks, or in the midst of the first
one, where the launch begins again with memory as it was. The same launches always change over at
the same place.
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

# The price of compiling an instruction of a kernel, in units of work. Compiling took 0.4 to 0.8 ms
# of processor time for each where the interpreter did 0.8 to 5 * 10**9 units in a second, mostly
# 2.3 * 10**9 (lab.benchmarks.first_launches).
WORTH = 1_500_000
# Of work that is watched, which takes 1 to 5 times as long.
WATCHED = 600_000
# The price of native code that an earlier process has left on disk, whatever its length.
LOADING = 50_000_000
# Copying a byte of memory, in units of work, and which part of the price a copy may cost.
COPYING, PART = 0.5, 0.5


def natively(launch: Launch, first: int) -> bool:
    """Run the blocks from ``first`` on in native code, where that pays.

    Returns False where it does not, or cannot.
    """
    asked = os.environ.get("VIRTUALGPU_NATIVE")
    if asked == "0":
        launch.native.refusal = "VIRTUALGPU_NATIVE=0"
        return False
    program = launch.program
    if asked != "always":
        work = _done(launch)
        # The blocks from `first` on will be as much work each as those before, or as much in all as
        # in the same launch the last time.
        ahead = launch.work * (launch.blocks - first) // first if first else program.latest[-1]
        if work + ahead < min(LOADING, _compiling(launch)) or (
            work + (ahead if first or _is_like_the_last(launch) else 0) < _price(launch)
        ):
            launch.native.refusal = "too little work to repay compiling"
            launch.native.threshold = math.inf
            if not first and program.repeats and _may_begin_again(launch):
                before = Snapshot(launch.memory, written=bool(launch.observers))
                launch.native.reconsider = partial(_reconsider, launch, before)
                launch.native.threshold = program.work + min(LOADING, _compiling(launch)) - work
            return False
    from virtualgpu.native import natively as run  # 30 ms that many a process never needs

    return run(launch, first)


def _done(launch: Launch) -> int:
    """Return the work that the kernel's launches of this kind have done."""
    return launch.program.watched if launch.observers else launch.program.work


def _compiling(launch: Launch) -> int:
    """Return the price of compiling the kernel for this launch, in units of work."""
    return (WATCHED if launch.observers else WORTH) * launch.program.length


def _price(launch: Launch) -> int:
    """Return the price of native code for this launch, from disk where it is there."""
    from virtualgpu.native.run import is_on_disk

    return min(LOADING, _compiling(launch)) if is_on_disk(launch) else _compiling(launch)


def _is_like_the_last(launch: Launch) -> bool:
    """Return True if the kernel's last launch was like this one.

    It had the same dimensions and, but for device addresses, the same parameters.
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
    """Return True if the first wave may turn out to be long, and can be taken back then."""
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
    """Return True if no observer depends on what the interpreter has reported."""
    found = [observer.has_found() for observer in observers]
    if None in found:
        return len(found) == 1 and type(observers[0]).counts is not Observer.counts
    return not any(found)


def _reconsider(launch: Launch, before: Snapshot) -> float:
    """Decide within the first wave whether native code pays by now.

    Raises BeginAgain if it does; otherwise returns the work at which to decide again.
    """
    if (left := _price(launch) - _done(launch)) > 0:
        return launch.program.work + left
    if _can_forget(launch.observers) and before.restore():
        raise BeginAgain
    return math.inf
