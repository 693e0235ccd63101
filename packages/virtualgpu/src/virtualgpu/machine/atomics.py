"""Atomic read-modify-write, lane after lane (PTX ISA, "atom" and "red").

Integers, float32 and float64 run in a compiled loop. Half-precision sums go in rounds of
distinct addresses: rare, and NumPy has the arithmetic.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.machine import compiled
from virtualgpu.operations.formats import NAN_16

OPERATIONS = {"add", "exch", "and", "or", "xor", "min", "max", "inc", "dec", "cas"}


def run(operation: str, memory: np.ndarray, index: np.ndarray, first: np.ndarray,
        second: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
    """Apply an operation to ``memory[index]``, lanes in order.

    ``first`` is the operand b; for ``cas``, b is the value compared with and ``second`` the new
    one. Returns the old values, shape (n,), and whether any element changed.
    """
    value, compare = (first, first) if second is None else (second, first)
    if operation in HALF_SUMS and (memory.dtype == np.float16 or operation != "add"):
        return _rounds(operation, memory, index, value)
    return compiled.atomic(operation, memory, index, value, compare)


def _rounds(operation: str, memory: np.ndarray, index: np.ndarray, value: np.ndarray
            ) -> tuple[np.ndarray, bool]:
    """Half-precision sums: in each round, the first lane left at every address."""
    old = np.empty(len(index), memory.dtype)
    changed = False
    left = np.arange(len(index))
    while len(left):
        _, first = np.unique(index[left], return_index=True)
        lanes = left[first]
        before = memory[index[lanes]]
        after = HALF_SUMS[operation](before, value[lanes])
        memory[index[lanes]] = after
        old[lanes] = before
        bits = f"u{after.itemsize}"
        changed |= bool((after.view(bits) != before.view(bits)).any())
        left = np.delete(left, first)
    return old, changed


def _f16(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = a + b
    return np.where(np.isnan(total), np.uint16(NAN_16), total.view(np.uint16)).view(np.float16)


def _packed_f16(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return _f16(a.view(np.float16), b.view(np.float16)).view(np.uint32)


def _bf16(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total = _widen(a) + _widen(b)
    bits = total.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to nearest, ties to even
    return np.where(np.isnan(total), NAN_16, rounded).astype(np.uint16)


def _widen(bf16: np.ndarray) -> np.ndarray:
    return (bf16.astype(np.uint32) << 16).view(np.float32)


def _packed_bf16(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return _bf16(a.view(np.uint16), b.view(np.uint16)).view(np.uint32)


HALF_SUMS = {
    "add": _f16,
    "packed_f16": _packed_f16,
    "packed_one_bf16": _bf16,
    "packed_bf16": _packed_bf16,
}
