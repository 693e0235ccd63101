"""The lanes of an instruction sorted by the memory that their generic addresses reach."""

from __future__ import annotations

from collections.abc import Iterator

from llvmlite import ir

from virtualgpu.memory import windows
from virtualgpu.native.values import bits_of_mask
from virtualgpu.operations.expression import Value


def by_space(
    build: ir.IRBuilder, addresses: Value, mask: ir.Value
) -> Iterator[tuple[str, Value, ir.Value]]:
    """Yield the lanes of each space: shared, local and global memory.

    Each has its name, all addresses as addresses within it, and the lanes of ``mask`` that reach
    it, a word with a bit for each.
    """
    left = mask
    for space in windows.STARTS:
        inside = build.and_(mask, bits_of_mask(build, windows.reaches(addresses, space).node))
        left = build.and_(left, build.not_(inside))
        yield space, windows.within(addresses, space), inside
    yield "global", addresses, left
