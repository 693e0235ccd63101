"""Loaded native code of a kernel in this process."""

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

# The instructions, registers and lines behind the numbers are computed only when a fault or an
# observer needs them, because the modules that do it take 20 ms to import, longer than a launch.


class NativeKernel:
    """Native code that ``record`` describes, loaded into this process.

    Attributes
    ----------
    run : callable
        ``run(context, first, count)`` runs blocks and returns ENDED, or STOPPED if a block stopped.
        For resident blocks it may also return WAITING or DEADLOCK.
    warp : int
        Address of the function for one warp, which :mod:`.block_loop` calls.
    loop_heads : dict
        Loops whose deciding registers it shows, by place.
    checked : Checked or None
        Data of the variant under ``check()``.
    idle : list
        Contexts of earlier launches, for reuse.
    crowded : bool
        True if cores that share its blocks slow each other down.
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
        """Return the memory instructions, by number."""
        from virtualgpu.native.flow.decode import decode

        steps: dict[int, list[Any]] = {
            number: decode(self.program, self.places[number])
            for number in {place for place, _ in self.record.sites}
        }
        return [(steps[place][step], self.places[place]) for place, step in self.record.sites]

    @cached_property
    def layout(self) -> StateLayout | None:
        """Return the layout of waiting warps' state, for kernels with resident blocks."""
        from virtualgpu.native.state_layout import state_layout

        parked = self.record.parked
        return None if parked is None else state_layout(self.program, self.places, parked)
