"""Runs of compiled programs: memory for results, address tables, threads for large loops."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np

from jaxpile.llvm.codegen import generate
from jaxpile.llvm.engine import MachineCode
from jaxpile.llvm.parts import parts_of
from jaxpile.program import Buffer, Program, reads_of, writes_of

ALIGNMENT = 64
#: Bytes of temporary buffers kept for the next call, because each new page costs 0.2 us.
KEPT = 1 << 26
_spare: list[np.ndarray] = []


def cores() -> int:
    """Return the number of cores this process may use; JAXPILE_THREADS overrides it."""
    asked = os.environ.get("JAXPILE_THREADS", "")
    if asked:
        return max(1, int(asked))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="jaxpile")


def address_of(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def aligned(nbytes: int) -> tuple[np.ndarray, int]:
    """Allocate bytes at a multiple of 64, so that JAX needs no copy, and their address."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    address = address_of(raw)
    start = -address % ALIGNMENT
    return raw[start : start + nbytes], address + start


def borrowed(nbytes: int) -> tuple[np.ndarray, int]:
    """Reuse an earlier call's memory for temporary buffers, as its pages exist already."""
    try:
        memory = _spare.pop()
    except IndexError:
        return aligned(nbytes)
    return (memory, address_of(memory)) if memory.nbytes >= nbytes else aligned(nbytes)


def laid_out(program: Program, temps: list[Buffer]) -> tuple[list[int], int]:
    """Return the offset of each temporary buffer, and the bytes that they need in total.

    Two buffers may share memory if no step uses both, and none uses one between the other's steps.
    """
    used: dict[Buffer, list[int]] = {}
    for number, step in enumerate(program.steps):
        for buffer in reads_of([step]) | writes_of([step]):
            used.setdefault(buffer, []).append(number)
    placed: list[tuple[int, int, int, int]] = []  # first and last step, start and end
    where: dict[Buffer, int] = {}
    for b in sorted(temps, key=lambda b: -b.size * b.dtype.itemsize):
        length = -(-max(b.size, 1) * b.dtype.itemsize // ALIGNMENT) * ALIGNMENT
        first, last = used[b][0], used[b][-1]
        start = 0
        for low, high in sorted(
            (low, high) for one, other, low, high in placed if one <= last and first <= other
        ):
            if start + length <= low:
                break
            start = max(start, high)
        placed.append((first, last, start, start + length))
        where[b] = start
    return [where[b] for b in temps], max((end for *_, end in placed), default=0)


class Executable:
    """A program as machine code, called with NumPy arrays of the inputs' shapes and dtypes."""

    def __init__(self, program: Program):
        self.program = program
        temps = [b for b in program.buffers if b.kind == "temp"]
        consts = [b for b in program.buffers if b.kind == "const"]
        order = [*program.inputs, *program.outputs, *temps, *consts]
        self.places: dict[Buffer, int] = {buffer: k for k, buffer in enumerate(order)}
        self.text = generate(program, self.places)
        self.code = MachineCode(self.text)
        self.constants = [b.contents for b in consts]
        self.offsets, self.scratch = laid_out(program, temps)
        self.addresses = [array.ctypes.data for array in self.constants]
        self.table_type = ctypes.c_void_p * max(1, len(order))
        self.results = [
            (b.shape, b.dtype, max(b.size, 1) * b.dtype.itemsize) for b in program.outputs
        ]
        self.shares = [(extent, large) for _, extent, large in parts_of(program)]
        self.large = any(share for _, share in self.shares)

    def __call__(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Return the outputs in new memory; the arrays must be contiguous."""
        outputs = []
        addresses = [address_of(array) for array in arrays]
        for shape, dtype, nbytes in self.results:
            memory, address = aligned(nbytes)
            addresses.append(address)
            outputs.append(np.ndarray(shape, dtype, memory))
        scratch = None  # kept alive until the call ends
        if self.offsets:
            scratch, start = borrowed(self.scratch)
            addresses.extend(start + offset for offset in self.offsets)
        table = self.table_type(*addresses, *self.addresses)
        if self.large and cores() > 1:
            self.share(ctypes.addressof(table), cores())
        else:
            self.code.run(ctypes.addressof(table))
        if scratch is not None and scratch.nbytes <= KEPT:
            _spare[:] = [scratch]
        return outputs

    def share(self, table: int, workers: int) -> None:
        """Run the parts in order, large ones divided over all cores; the calls release the GIL."""
        for k, ((low, high), large) in enumerate(self.shares):
            step = self.code.part(k)
            if not large or high - low < workers:
                step(table, low, high)
                continue
            borders = [low + (high - low) * part // workers for part in range(workers + 1)]
            # this thread runs the last part itself
            waiting = [
                pool(workers - 1).submit(step, table, a, b) for a, b in pairwise(borders[:-1])
            ]
            step(table, borders[-2], borders[-1])
            for part in waiting:
                part.result()
