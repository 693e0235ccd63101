"""Threads that write each element in a puzzle's picture, found by running the solution."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from gpucourse.puzzles.inputs import Case
from gpucourse.puzzles.judge import compiled
from virtualgpu.api import trace

Element = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Threads:
    """The threads of a launch, numbered through the grid.

    ``per_block`` is the number of threads in a block, ``count`` in the launch. ``of`` maps an
    element to the threads that write it, and ``busy`` contains all threads that write.
    """

    count: int = 0
    per_block: int = 1
    of: dict[Element, list[int]] = field(default_factory=dict)
    busy: frozenset[int] = frozenset()


def writers(case: Case) -> Threads:
    """Launch the solution on the picture's case and return each element's writers.

    Without a solution, no thread writes.
    """
    from numba import cuda

    if not case.puzzle.solved:
        return Threads()
    with trace() as written:  # on the virtual GPU, even if there is a real one
        there = [
            cuda.to_device(value) if isinstance(value, np.ndarray) else value
            for value in case.arguments()
        ]
        text = case.puzzle.solution
        if case.puzzle.picture_launch:
            text = re.sub(r"\bTILE\b", str(case.block[0]), text)
        _kernel(text, case.puzzle.name)[case.grid, case.block](*there)
    of: dict[Element, list[int]] = {}
    busy: set[int] = set()
    for name, array in zip(case.puzzle.parameters, there, strict=True):
        if name not in case.expected:
            continue
        start = array.device_ctypes_pointer.value
        for step in written.launches[-1].accesses("global"):
            if step.kind == "load" or step.addresses is None:
                continue
            for thread, address in zip(step.threads.tolist(), step.addresses.tolist(), strict=True):
                for byte in range(0, step.size, array.dtype.itemsize):
                    at = (address + byte - start) // array.dtype.itemsize
                    if 0 <= at < array.size:
                        place = tuple(map(int, np.unravel_index(at, array.shape)))
                        known = of.setdefault((name, place), [])
                        if thread not in known:
                            known.append(thread)
                        busy.add(thread)
    per_block = math.prod(case.block)
    return Threads(math.prod(case.grid) * per_block, per_block, of, frozenset(busy))


@cache
def _kernel(text: str, name: str) -> Any:
    return compiled(text, name)
