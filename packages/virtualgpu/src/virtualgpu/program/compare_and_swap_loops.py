"""Plain loads whose value is only used to try a compare-and-swap of the same word.

``old = *p; do { assumed = old; old = atomicCAS(p, assumed, f(assumed)); } while (assumed !=
old);`` is how the CUDA C++ Programming Guide builds an atomic operation ("Atomic Functions"). The
plain load may return any value that other threads' atomics have stored in the word. An old value
costs another iteration and changes nothing.

The value is followed from register to register, in any order of instructions. It may go into
arithmetic, into both values of a compare-and-swap at the same address, and into a comparison with
the result of the compare-and-swap, but nowhere else. If one line of Python contains both the load
and the compare-and-swap, they are numba-cuda-mlir's code for one ``cuda.atomic.max``. Then the
program has no plain load there, and the loaded value may also end the loop (because the word is
large enough already).
"""

from __future__ import annotations

import numpy as np

from virtualgpu.languages import NUMBA, language_of
from virtualgpu.program.program import Program
from virtualgpu.program.steps import Data, MemoryAccess, Move, Step

BOOL = np.dtype("?")


def retried_loads(program: Program) -> frozenset[int]:
    """Return the ``id`` of the instruction of each such load."""
    if program.retries is None:
        program.retries = frozenset[int]().union(
            *(
                _of_function(program, [step for block in code.blocks for step in block.steps])
                for code in program.functions.values()
            )
        )
    return program.retries


def _of_function(program: Program, steps: list[Step]) -> frozenset[int]:
    swaps = [
        step for step in steps if isinstance(step, MemoryAccess) and step.site.operation == "cas"
    ]
    if not swaps:
        return frozenset()
    return frozenset(
        id(step.instruction)
        for step in steps
        if isinstance(step, MemoryAccess)
        and step.site.kind == "load"
        and not step.site.strong
        and any(_same_word(step, swap) for swap in swaps)
        and (_only_tries(program, steps, step) or any(_of_one_line(step, swap) for swap in swaps))
    )


def _same_word(load: MemoryAccess, swap: MemoryAccess) -> bool:
    return (
        load.sources[0] == swap.sources[0]
        and load.site.offset == swap.site.offset
        and load.site.size == swap.site.size
    )


def _of_one_line(load: MemoryAccess, swap: MemoryAccess) -> bool:
    source = load.instruction.source
    return (
        source is not None
        and source == swap.instruction.source
        and _same_word(load, swap)
        and language_of(source) is NUMBA
    )


def _only_tries(program: Program, steps: list[Step], load: MemoryAccess) -> bool:
    returned = {
        slot
        for step in steps
        if isinstance(step, MemoryAccess)
        and _same_word(load, step)
        and step.site.operation == "cas"
        for slot in step.writes
    }
    held, before = set(load.writes), -1
    while len(held) != before:
        before = len(held)
        for step in steps:
            if not held & step.reads:
                continue
            if (
                isinstance(step, MemoryAccess)
                and step.site.operation == "cas"
                and (_same_word(load, step))
            ):
                continue
            if not isinstance(step, Data | Move):
                return False
            if any(program.dtypes[slot] == BOOL for slot in step.writes):
                if not returned & step.reads:
                    return False
                continue
            if isinstance(step, Move) and set(step.writes) <= returned:
                continue
            held.update(step.writes)
        held -= returned
    address = {slot for step in steps if step is load for slot in load.reads}
    return not held & address
