"""A kernel's native code in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from virtualgpu.compilers import llvm
from virtualgpu.native.flow.livelock import Head
from virtualgpu.native.record import Record
from virtualgpu.program.program import Program

if TYPE_CHECKING:
    from virtualgpu.native.flow.control_flow import Place
    from virtualgpu.native.state_layout import StateLayout
    from virtualgpu.native.watched.rules import Checked
    from virtualgpu.program.steps import MemoryAccess

# What names instructions, registers and lines is found out when a launch needs it, for a fault or
# for those who watch, by modules that take longer to import than a launch takes: 20 ms.


class NativeKernel:
    """The code that ``record`` tells of, loaded.

    Attributes
    ----------
    run : callable
        ``run(context, first, count)`` runs blocks; ENDED when all have, STOPPED where one stopped;
        of blocks that run side by side also WAITING or DEADLOCK.
    warp : int
        Where the code for a warp is, which :mod:`.block_loop` calls.
    loop_heads : dict
        Loops whose deciding registers it shows, by place.
    checked : Checked or None
        Of the variant that is checked.
    idle : list
        Contexts of launches that are over.
    crowded : bool
        Whether cores that share its blocks are in each other's way.
    """

    def __init__(self, program: Program, record: Record):
        self.program, self.record = program, record
        self.run: Callable[[int, int, int], int] = ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
        )(llvm.address(record.code[-1 if record.parked else 0]))
        self.warp = llvm.address(record.code[-1])
        self.loop_heads = {
            place: Head(
                sees,
                frozenset(slots),
                [(offset, np.dtype(dtype), own) for offset, dtype, own in registers],
            )
            for place, sees, slots, registers in record.loop_heads
        }
        self.checked: Checked | None = None
        if record.grain is not None:
            from virtualgpu.native.watched.rules import Checked, Grain

            self.checked = Checked(Grain(*record.grain))
        self.idle: list[object] = []
        self.crowded = False

    @cached_property
    def places(self) -> list[Place]:
        """Return the places where the kernel may stop, by number."""
        from virtualgpu.native.flow import control_flow

        return control_flow.places(self.program)

    @cached_property
    def sites(self) -> list[tuple[MemoryAccess, Place]]:
        """Its memory instructions, by number."""
        from virtualgpu.native.flow.decode import decode

        steps: dict[int, list[Any]] = {
            number: decode(self.program, self.places[number])
            for number in {place for place, _ in self.record.sites}
        }
        return [(steps[place][step], self.places[place]) for place, step in self.record.sites]

    @cached_property
    def layout(self) -> StateLayout | None:
        """Return the layout of what waiting warps keep, where blocks run side by side."""
        from virtualgpu.native.state_layout import state_layout

        parked = self.record.parked
        return None if parked is None else state_layout(self.program, self.places, parked)
