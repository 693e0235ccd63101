"""Layout of shared memory: the address of each variable, and the bytes an access may touch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from virtualgpu.program import shared_names
from virtualgpu.ptx import Function, Instruction, Symbol, Variable, Vector
from virtualgpu.wording import many


class SharedLayout:
    """Layout of a launch's shared variables, with a forbidden gap after each.

    Each gap is a multiple of 128 bytes, so that every variable keeps the banks that it has in the
    hardware's packed layout.
    """

    GAP = 1024

    def __init__(self, extents: list[tuple[int, int, str]]):
        self.extents = extents

    def outside(self, address: np.ndarray, low: int, high: int, size: int) -> np.ndarray | None:
        """Return a mask of the accesses of ``size`` bytes that are outside every variable.

        Returns None if every access is inside one.
        """
        for start, end, _ in self.extents:
            if start <= low and high + size <= end:
                return None
        good = np.zeros(address.shape, bool)
        for start, end, _ in self.extents:
            if end - start >= size:
                good |= (address >= np.uint64(start)) & (address <= np.uint64(end - size))
        return None if good.all() else ~good

    def describe(self, address: int, program: Any) -> str:
        """Describe the position of an address outside the shared variables of ``program``."""
        if not self.extents:
            return "but the kernel has no shared memory"
        if address >> 63:
            address -= 1 << 64
        start, end, name = min(
            self.extents,
            key=lambda e: (
                0 if e[0] <= address < e[1] else min(abs(address - e[0]), abs(address - e[1]))
            ),
        )
        what = f"a shared array of {many(end - start, 'byte')}"
        if known := shared_names.find(program, name):
            what = f"{known.name}, {what}"
        if name == "dynamic" and start == end:
            return (
                "past a dynamic shared array of 0 bytes: pass its size to the launch, "
                "kernel[grid, block, stream, bytes]"
            )
        if address >= end:
            return f"{many(address - end, 'byte')} after the end of {what}"
        if address < start:
            return f"{many(start - address, 'byte')} before the start of {what}"
        return f"bytes that run past the end of {what}"


@dataclass(slots=True)
class SharedVariables:
    """Shared variables of a kernel and of all functions that it can call.

    ``addresses`` are bytes from the start of the block's shared memory. ``extents`` are the static
    variables as (start, end, name), and ``packed`` is their size without the gaps, in bytes.
    ``dynamic_start`` is the start of the launch's dynamic shared memory, after all others.
    """

    addresses: dict[str, int] = field(default_factory=dict)
    extents: list[tuple[int, int, str]] = field(default_factory=list)
    packed: int = 0
    dynamic_start: int = 0
    has_dynamic: bool = False


def lay_out(functions: Sequence[Function], module: Mapping[str, Variable]) -> SharedVariables:
    """Lay out the static shared variables of ``functions`` and those they use of their module."""
    variables = {
        v.name: v
        for function in functions
        for v in function.variables.values()
        if v.space == "shared"
    }
    used = {
        symbol.name
        for function in functions
        for instruction in function.body
        for symbol in _symbols(instruction)
    }
    variables |= {name: v for name, v in module.items() if v.space == "shared" and name in used}
    shared = SharedVariables()
    dynamic = [v for v in variables.values() if v.size == 0]
    gap = 0
    for variable in variables.values():
        if variable.size == 0:
            continue
        shared.packed = -(-shared.packed // variable.align) * variable.align
        start = shared.packed + gap
        shared.addresses[variable.name] = start
        shared.extents.append((start, start + variable.size, variable.name))
        shared.packed += variable.size
        gap += SharedLayout.GAP
    align = max((v.align for v in dynamic), default=16)
    shared.has_dynamic = bool(dynamic)
    shared.dynamic_start = -(-shared.packed // align) * align + gap
    shared.addresses |= {v.name: shared.dynamic_start for v in dynamic}
    return shared


def _symbols(instruction: Instruction) -> Iterator[Symbol]:
    for operand in instruction.operands:
        for item in operand.items if isinstance(operand, Vector) else (operand,):
            base = getattr(item, "base", item)
            if isinstance(base, Symbol):
                yield base
