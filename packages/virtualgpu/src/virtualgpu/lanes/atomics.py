"""Atomic read-modify-write operations in lane order (PTX ISA, "atom" and "red").

There is one compiled loop for each operation and type.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
from llvmlite import ir

from virtualgpu.compilers.building import count_to, function, item, variable
from virtualgpu.compilers.llvm import machine_code, pointer
from virtualgpu.operations.expression import (
    Body,
    Value,
    is_float,
    larger,
    llvm_type,
    select,
    smaller,
)
from virtualgpu.operations.formats import DECODE, ENCODE, canonical, flush, on_halves


def run(
    operation: str,
    memory: np.ndarray,
    index: np.ndarray,
    first: np.ndarray,
    second: np.ndarray | None = None,
) -> tuple[np.ndarray, bool]:
    """Apply an operation to ``memory[index]`` in lane order.

    ``memory`` is a typed view whose dtype is the type of the operation. The caller has checked
    ``index`` (int64, shape (n,)). ``first`` is the operand b. For ``cas``, b is the value to
    compare with, and ``second`` is the new value. Returns the old values, shape (n,), and True if
    any element has changed its bits.
    """
    value, compare = (first, first) if second is None else (second, first)
    return _in_turn(operation, memory, index, value, compare)


def _sum(old: Value, value: Value, compare: Value) -> Value:
    total = old + value
    return canonical(total) if is_float(total.kind) else total


def _half_sum(kind: str) -> Body:
    """Add 16-bit floats and round each sum once; f32 is precise enough for the sum."""
    return lambda old, value, compare: ENCODE[kind](DECODE[kind](old) + DECODE[kind](value))


HALF_SUMS = {f"add_{kind}": _half_sum(kind) for kind in DECODE}
HALF_SUMS |= {f"{name}x2": on_halves(body) for name, body in HALF_SUMS.items()}
# The new value in memory, computed from the old value, the operand and, for `cas`, the value to
# compare with. `add_ftz` is a float32 addition that flushes subnormal inputs and results to zero.
ATOMICS: dict[str, Body] = {
    "add": _sum,
    "add_ftz": lambda old, value, compare: canonical(flush(flush(old) + flush(value))),
    "exch": lambda old, value, compare: value,
    "and": lambda old, value, compare: old & value,
    "or": lambda old, value, compare: old | value,
    "xor": lambda old, value, compare: old ^ value,
    "min": lambda old, value, compare: smaller(old, value),
    "max": lambda old, value, compare: larger(old, value),
    "inc": lambda old, value, compare: select(old < value, old + 1, 0),
    "dec": lambda old, value, compare: select((old == 0) | (old > value), value, old - 1),
    "cas": lambda old, value, compare: select(old == compare, value, old),
    **HALF_SUMS,
}


OPERATIONS = ATOMICS.keys() - {"add_ftz"} - HALF_SUMS.keys()


def atomic_kind(operation: str, dtype: np.dtype) -> str:
    """Return the value type of an atomic, such as ``f32`` or ``u64``.

    Only additions treat floats as floats. For any other operation, the type of a float is that of
    its bits, an unsigned integer.
    """
    letter = (
        "f"
        if dtype.kind == "f" and operation in ("add", "add_ftz")
        else ("s" if dtype.kind == "i" else "u")
    )
    return f"{letter}{8 * dtype.itemsize}"


@cache
def _atomic(operation: str, dtype: np.dtype) -> Callable[..., int]:
    """Build ``(memory, index, values, compares, olds, count)``, which returns True for a change."""
    name = f"atomic_{operation}_{dtype.kind}{dtype.itemsize}"
    kind, bits = atomic_kind(operation, dtype), f"u{8 * dtype.itemsize}"
    element, word = llvm_type(kind, None), ir.IntType(64)
    build, (memory, index, values, compares, olds, count) = function(
        name, [ir.PointerType()] * 5 + [word]
    )
    changed = variable(build, word(0))
    with count_to(build, count) as i:
        place = build.gep(memory, [item(build, index, i, word)], source_etype=element)
        old = Value(build, build.load(place, typ=element, align=1), kind)
        new = ATOMICS[operation](
            old,
            *(
                Value(build, item(build, table, i, element, align=1), kind)
                for table in (values, compares)
            ),
        )
        build.store(new.node, place, align=1)
        build.store(old.node, build.gep(olds, [i], source_etype=element), align=1)
        differs = build.zext((new.view(bits) != old.view(bits)).node, word)
        build.store(build.or_(build.load(changed), differs), changed)
    build.ret(build.load(changed))
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)
    return signature(machine_code(str(build.module), name, passes="few"))


def _in_turn(
    operation: str, memory: np.ndarray, index: np.ndarray, value: np.ndarray, compare: np.ndarray
) -> tuple[np.ndarray, bool]:
    index = np.ascontiguousarray(index)
    value = np.ascontiguousarray(value, memory.dtype)
    compare = np.ascontiguousarray(compare, memory.dtype)
    old = np.empty(len(index), memory.dtype)
    changed = _atomic(operation, memory.dtype)(
        pointer(memory), pointer(index), pointer(value), pointer(compare), pointer(old), len(index)
    )
    return old, bool(changed)
