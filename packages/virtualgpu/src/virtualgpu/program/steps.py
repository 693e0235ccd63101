"""Decoded instructions: their kind, and the registers that each reads and writes.

A block's :class:`Step`\\ s are used by both back ends and all analyses: the interpreter
(:mod:`virtualgpu.lanes.emit`), native code (:mod:`virtualgpu.native`), liveness, loops, the order
that atomics tell. What a data instruction computes is its operation
(:mod:`virtualgpu.operations`); what a memory instruction reaches is its :class:`.Site`; what the
other families take is their form (:mod:`.forms`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from virtualgpu.operations import Operation
from virtualgpu.program.comparison import Comparison
from virtualgpu.program.fragments import Fragment
from virtualgpu.program.site import Site
from virtualgpu.ptx import Address, Immediate, Instruction, Register, Vector
from virtualgpu.ptx.module import Operand

WIDE = np.dtype("V16")  # 128-bit register, with which no arithmetic is possible


@dataclass(slots=True, kw_only=True)
class Step:
    """One decoded instruction.

    ``targets`` are the registers that it writes (None: the value is not kept), and ``sources`` the
    operands that it reads. ``reads`` are the registers among the sources, and the carry flag.
    """

    instruction: Instruction
    targets: tuple[int | None, ...] = ()
    sources: tuple[Operand, ...] = ()
    reads: frozenset[int] = frozenset()

    @property
    def writes(self) -> list[int]:
        """Return the registers that keep a result, including the carry flag."""
        return [slot for slot in self.targets if slot is not None]


@dataclass(slots=True, kw_only=True)
class Data(Step):
    """Arithmetic, logic, comparison or conversion.

    If the carry flag is written, it is the last of the targets.
    """

    operation: Operation


@dataclass(slots=True, kw_only=True)
class Move(Step):
    """``mov``, or a load or store of a parameter that is kept in a register.

    It copies a value of ``dtype``, or packs or unpacks a vector (several sources or targets).
    """

    dtype: np.dtype


@dataclass(slots=True, kw_only=True)
class Parameter(Step):
    """Load of the kernel's parameters, starting at byte ``offset``.

    It loads one element of ``dtype`` for each target.
    """

    dtype: np.dtype
    offset: int


@dataclass(slots=True, kw_only=True)
class Formed(Step):
    """Instruction of another family, decoded by its form (:mod:`.forms`).

    It has its words (empty if one is missing), the dtypes of its results and sources, and the
    fragments of a matrix instruction.
    """

    words: tuple[str, ...]
    results: tuple[np.dtype, ...]
    kinds: tuple[np.dtype, ...]
    fragments: tuple[Fragment, ...] = ()


@dataclass(slots=True, kw_only=True)
class MemoryAccess(Step):
    """Load, store or atomic.

    The address is the first source, without the constant that the site adds.
    """

    site: Site


@dataclass(slots=True, kw_only=True)
class Barrier(Step):
    """Barrier of the block or of the grid.

    It has the number of the barrier, the number of threads and, for ``bar.red``, the predicate and
    the reduction (``popc``, ``and``, ``or``).
    """

    number: Operand | None = None
    count: Operand | None = None
    predicate: Operand | None = None
    mode: str = ""
    onward: bool = False  # ``arrive``: lanes continue at once
    grid: bool = False

    @property
    def plain(self) -> bool:
        """Return True for barrier 0 of the whole block."""
        return not (self.grid or self.mode or self.onward or self.count) and (
            self.number in (None, Immediate(0))
        )


@dataclass(slots=True, kw_only=True)
class Call(Step):
    """Call of a function that the device provides (:mod:`.intrinsics`)."""

    function: str


@dataclass(slots=True, kw_only=True)
class Exact(Step):
    """Comparison of an index with its exact value, inserted by :mod:`.exact_indices`."""

    comparison: Comparison


def registers_in(operands: Iterable[Operand]) -> Iterator[Register]:
    """Yield the registers among operands, addresses and vectors; ``!%p`` as ``%p``."""
    pending = list(operands)
    while pending:
        operand = pending.pop()
        if isinstance(operand, Vector):
            pending += operand.items
        elif isinstance(operand, Address):
            pending.append(operand.base)
        elif isinstance(operand, Register):
            yield Register(operand.name.removeprefix("!"))
