"""Loops over byte maps, which mark written bytes and find reads of unwritten ones.

A byte map has a 1 for each written byte; accesses of 4 bytes and more use it in words. ``part_of``
and ``stride`` select each lane's section of the map: the shared memory of its block or its own
local memory. The stride is 0 for global memory.
"""

from __future__ import annotations

from virtualgpu.compilers.loops import I64, U8, U32, U64, compiled

FULL = 0x01010101  # a word of four written bytes


@compiled
def mark_bytes(
    addresses: U64,
    lanes: I64,
    part_of: I64,
    count: int,
    base: int,
    span: int,
    stride: int,
    size: int,
    written: U8,
    result: I64,
) -> int:
    """Mark ``size`` bytes of each lane as written.

    The number of bytes that were not written before is added to ``result[0]``. Returns the
    position of the first lane outside the span, or ``count``.
    """
    for i in range(count):
        at = addresses[i] - base
        if at < 0 or at >= span:
            return i
        if stride:
            at += part_of[lanes[i]] * stride
        for byte in range(at, at + size):
            if not written[byte]:
                written[byte] = 1
                result[0] += 1
    return count


@compiled
def mark_words(
    addresses: U64,
    lanes: I64,
    part_of: I64,
    count: int,
    base: int,
    span: int,
    stride: int,
    size: int,
    written: U32,
    result: I64,
) -> int:
    """Mark as :func:`mark_bytes` does, if the size is a multiple of four."""
    for i in range(count):
        at = addresses[i] - base
        if at < 0 or at >= span:
            return i
        if stride:
            at += part_of[lanes[i]] * stride
        for word in range(at >> 2, (at + size) >> 2):
            old = written[word]
            if old != FULL:
                written[word] = FULL
                result[0] += 4 - (((old * FULL) >> 24) & 7)
    return count


@compiled
def find_bytes(
    addresses: U64,
    lanes: I64,
    part_of: I64,
    count: int,
    base: int,
    span: int,
    stride: int,
    size: int,
    written: U8,
    result: I64,
) -> int:
    """Count lanes that read an unwritten byte.

    The count is stored in ``result[0]``, the position of the first such lane in ``result[1]``.
    Returns the same as :func:`mark_bytes`.
    """
    for i in range(count):
        at = addresses[i] - base
        if at < 0 or at >= span:
            return i
        if stride:
            at += part_of[lanes[i]] * stride
        for byte in range(at, at + size):
            if not written[byte]:
                if result[0] == 0:
                    result[1] = i
                result[0] += 1
                break
    return count


@compiled
def find_words(
    addresses: U64,
    lanes: I64,
    part_of: I64,
    count: int,
    base: int,
    span: int,
    stride: int,
    size: int,
    written: U32,
    result: I64,
) -> int:
    """Find as :func:`find_bytes` does, if the size is a multiple of four."""
    for i in range(count):
        at = addresses[i] - base
        if at < 0 or at >= span:
            return i
        if stride:
            at += part_of[lanes[i]] * stride
        for word in range(at >> 2, (at + size) >> 2):
            if written[word] != FULL:
                if result[0] == 0:
                    result[1] = i
                result[0] += 1
                break
    return count
