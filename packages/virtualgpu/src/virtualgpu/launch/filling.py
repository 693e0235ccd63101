"""Filling of the pages of huge arrays that a launch is about to touch.

The addresses that a kernel reads are not known before it runs. So the kernel runs once without
observers, the pages that it touched are filled by the array's fill rule, and all its other effects
are undone. This is repeated until a run touches no new page, because the filled values may lead the
kernel to further pages.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace

from virtualgpu.errors import VirtualGPUError
from virtualgpu.lanes.schedule import Lockstep
from virtualgpu.launch.conditions import Conditions
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.memory.snapshot import Snapshot, can_be_taken_back


def fill_what_is_touched(
    memory: GlobalMemory, run: Callable[[Conditions], None], conditions: Conditions
) -> None:
    """Fill the pages that ``run(conditions)`` will touch.

    Raises VirtualGPUError if the effects of these trial runs cannot be undone.
    """
    ruled = [huge for huge in memory.huge.values() if huge.rule is not None]
    if not ruled:
        return
    sample = conditions.sample and replace(conditions.sample, launches=[])
    unwatched = Conditions([], Lockstep(), conditions.budget, None, sample)
    new = True
    while new:
        before, unwritten = Snapshot(memory, written=False), dict(memory.unwritten)
        restored = can_be_taken_back(memory)
        try:
            if restored:
                with redirect_stdout(io.StringIO()):
                    run(unwatched)
        except VirtualGPUError:
            pass  # the launch itself raises it, or reads other values and does not
        finally:
            parts = [huge.touched() for huge in ruled]
            restored = restored and before.restore()
            memory.unwritten = unwritten
        if not restored:
            raise VirtualGPUError(
                "a kernel reads an array made by huge(fill=...). To fill its pages, the kernel "
                "must first run on trial, but the effects of this run could not be undone, "
                "because the kernel calls malloc or because the host, another device or another "
                "thread shares its memory. Use fill=0"
            )
        new = False
        for huge, its in zip(ruled, parts, strict=True):
            for low, high in its:
                new |= huge.fill(low, high)
