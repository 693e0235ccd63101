"""Dispatch of an instruction's lanes by the memory that their generic addresses point to."""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from virtualgpu.memory import windows
from virtualgpu.native.values import bits_of_mask
from virtualgpu.operations.expression import Value


def by_space(
    build: ir.IRBuilder, addresses: Value, mask: ir.Value
) -> Iterator[tuple[str, Value, ir.Value]]:
    """Yield each space (shared, local and global memory) with its lanes.

    Each item has the space's name, all addresses as addresses within it, and the mask of the lanes
    of ``mask`` that access it.
    """
    left = mask
    for space in windows.STARTS:
        inside = build.and_(mask, bits_of_mask(build, windows.reaches(addresses, space).node))
        left = build.and_(left, build.not_(inside))
        yield space, windows.within(addresses, space), inside
    yield "global", addresses, left
