"""Worker process that runs cases and reports each outcome, so that its death is noticed."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import resource
import sys
import time
import traceback
from dataclasses import dataclass
from random import Random

import numpy as np

from lab.evidence.fuzz import grammar, mutation
from virtualgpu.devices import VirtualDevice
from virtualgpu.errors import VirtualGPUError
from virtualgpu.launch.limits import Budget
from virtualgpu.memory.textures import Sampler, Texels
from virtualgpu.watch import instruments

MEMORY = 6 << 30  # bytes of address space for a worker
SLOW = 10.0  # processor seconds after which a case of a few dozen instructions counts as failed
GREEDY = 1 << 20  # kB by which one case may raise the worker's peak memory
BUDGET = Budget(instructions=3_000, seconds=0.3, nbytes=64 << 20)
BUFFER = 4096  # bytes of each of the two buffers passed to kernels
EDGE = 4096  # bytes on either side of a buffer that must not change


@dataclass(frozen=True)
class Case:
    """Test case that a number determines."""

    kind: str
    text: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    cooperative: bool
    schedule: int | None
    checked: bool


def make(number: int) -> Case:
    """Return the case of a number, always the same for one version of the fuzzer."""
    random = Random(number)
    lot = random.random()
    if lot < 0.45:
        kind, text = "random", grammar.kernel(random)
    elif lot < 0.9:
        kind, text = "mutated", mutation.mutated(random)
    else:
        kind, text = "soup", mutation.soup(random)
    block = random.choice(((1, 1, 1), (32, 1, 1), (33, 1, 1), (64, 1, 1), (8, 4, 3), (256, 1, 1)))
    grid = random.choice(((1, 1, 1), (1, 1, 1), (3, 1, 1), (2, 2, 2), (200, 1, 1)))
    if ".reqnctapercluster" in text and random.random() < 0.9:
        grid = (2, 2, 2)
    if random.random() < 0.01:
        grid = random.choice(((2**31 - 1, 65535, 65535), (1 << 20, 1, 1), (0, 1, 1), (-1, 1, 1)))
    return Case(
        kind,
        text,
        grid,
        block,
        random.choice((0, 0, 64, 48 << 10)),
        random.random() < 0.05,
        random.choice((None, None, None, number)),
        random.random() < 0.2,
    )


class Bench:
    """Small device with two buffers whose surroundings must not change."""

    def __init__(self):
        self.device = VirtualDevice(total_memory=64 << 20, budget=BUDGET)
        self.buffers = [self.device.allocate(BUFFER) for _ in range(2)]
        self.objects = self._objects()
        self.edges = self._edges()

    def _objects(self) -> list[int]:
        """Create textures and a surface on the first buffer."""
        number, single = np.dtype("u4"), np.dtype("f4")
        plane, line = (32, 32), (BUFFER // 4,)
        return [
            self.device.create_texture(
                Texels("array", self.buffers[0], single, 1, plane, 128), Sampler(linear=True)
            ),
            self.device.create_texture(
                Texels("linear", self.buffers[0], number, 1, line, 0), Sampler()
            ),
            self.device.create_surface(
                Texels("array", self.buffers[0], number, 1, plane, 128, writable=True)
            ),
        ]

    def _edges(self) -> bytes:
        raw = self.device.memory.mapping.raw
        parts = []
        for start in self.buffers:
            at = start - (self.device.memory.limit - len(raw))
            parts += [raw[at - EDGE : at], raw[at + BUFFER : at + BUFFER + EDGE]]
        return np.concatenate(parts).tobytes()

    def run(self, case: Case, random: Random) -> None:
        """Run a case. The virtual GPU's errors are passed on."""
        module = self.device.load(case.text)
        try:
            for entry in module.entries()[:4]:
                function = module.function(entry)
                if function.is_declaration:
                    continue
                parameters = []
                for variable in function.parameters:
                    value = random.choice((*3 * self.buffers, *self.objects, 0, 64, 1 << 63))
                    raw = (
                        value.to_bytes(8, "little")
                        if variable.size == 8
                        else (16).to_bytes(8, "little")
                    )
                    parameters.append(raw[: variable.size].ljust(min(variable.size, 4096), b"\1"))
                self.device.launch(
                    module,
                    entry,
                    case.grid,
                    case.block,
                    parameters,
                    case.shared_bytes,
                    case.cooperative,
                )
        finally:
            module.unload()
            for address in list(self.device.memory.heap):  # memory that the kernel has not freed
                self.device.memory.heap_free(address)

    def intact(self) -> bool:
        return self._edges() == self.edges


def outcome(case: Case, bench: Bench, number: int) -> tuple[str, str]:
    """Return a case's outcome: ``ok``, the name of a clean error, or ``FAILED`` and the reason."""
    random = Random(number + 1)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            if case.schedule is not None:
                stack.enter_context(instruments.schedule(case.schedule))
            if case.checked:
                stack.enter_context(instruments.check())
            bench.run(case, random)
        ended = "ok"
    except VirtualGPUError as error:
        ended = type(error).__name__
    except Exception:
        return "FAILED", traceback.format_exc(limit=-4)
    if not bench.intact():
        return "FAILED", "bytes outside every allocation have changed"
    return ended, ""


def serve(first: int, stop: int) -> None:
    """Run cases ``first`` to ``stop``, with a line before each and a line with its outcome."""
    if MEMORY and sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out = os.fdopen(os.dup(1), "w", buffering=1)
    mutation.corpus()
    bench = Bench()
    most = None
    for number in range(first, stop):
        out.write(f"> {number}\n")
        begin = time.process_time()
        case = make(number)
        ended, why = outcome(case, bench, number)
        seconds = time.process_time() - begin
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if ended != "FAILED" and seconds > SLOW:
            ended, why = "FAILED", f"took {seconds:.1f} s"
        if ended != "FAILED" and most is not None and used - most > GREEDY:
            ended, why = "FAILED", f"took {(used - most) >> 10} MB of memory"
        most = used
        out.write(f"< {number} {json.dumps([round(seconds, 4), {ended: 1}, why])}\n")
        if ended == "FAILED":
            del bench
            gc.collect()
            bench = Bench()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
