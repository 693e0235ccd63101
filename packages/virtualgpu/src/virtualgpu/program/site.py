"""A memory instruction, decoded: what access, checkers and words for errors ask of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from virtualgpu.errors import Location
from virtualgpu.ptx import Instruction


class Standing(Protocol):
    """Lanes that run an instruction: their wave says which block and thread a lane is."""

    wave: Any


@dataclass(slots=True, eq=False)
class Site:
    """One load, store or atomic instruction, decoded.

    ``dtype`` is that of one element, ``width`` the number of vector elements.
    """

    instruction: Instruction
    kernel: str
    kind: str
    space: str
    dtype: np.dtype
    width: int = 1
    offset: int = 0
    strong: bool = False
    order: str = ""
    scope: str = ""
    quiet: bool = False  # named .const or .param: no event where that is what it reads
    operation: str = ""  # of an atomic
    whole: bool = False  # .b128: both elements are one value, also to an atomic
    cluster: bool = False  # may reach the shared memory of other blocks of its cluster
    shift: np.uint64 = field(init=False)
    size: int = field(init=False)
    # The allocation that the last access fell in: most accesses of one site fall in one.
    low: int = field(init=False, default=1)
    high: int = field(init=False, default=0)
    version: int = field(init=False, default=-1)

    def __post_init__(self) -> None:
        self.shift = np.uint64(self.dtype.itemsize.bit_length() - 1)
        self.size = self.dtype.itemsize * self.width

    def location(self, group: Standing, lane: int | None = None) -> Location:
        source = self.instruction.source
        block, thread = (None, None) if lane is None else group.wave.where(lane)
        return Location(
            self.kernel, source.filename if source else None, source.line if source else None,
            block, thread,
        )
