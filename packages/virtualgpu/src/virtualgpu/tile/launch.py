"""Launch of a kernel over tiles: blocks run one after the other, or in turns if they wait.

The blocks run in the order of their numbers, so results are the same each time. Blocks that read
what others write (a lock, a flag) take turns (see :mod:`.blocks`).
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from virtualgpu.errors import (
    BudgetExceeded,
    Index,
    LaunchError,
    VirtualGPUError,
)
from virtualgpu.launch.limits import MAX_GRID, Budget
from virtualgpu.launch.sampling import Sample
from virtualgpu.logs import logger
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.tile import access, events
from virtualgpu.tile.blocks import TileBlock
from virtualgpu.tile.body import TileOperation
from virtualgpu.tile.module import TileModule
from virtualgpu.wording import many

PRINTED = 1 << 20  # characters printed in a launch
RESIDENT = 4096  # most blocks that wait for one another at once
LOOK = 64  # operations between two checks of the clock
_numbers = itertools.count(1)


class TileLaunch:
    """Run a kernel of a module over a grid of blocks.

    Raises
    ------
    LaunchError
        If no device would accept the grid or the parameters.
    VirtualGPUError
        If the kernel fails while it runs; it has the line and the block.
    """

    def __init__(
        self,
        memory: GlobalMemory,
        module: TileModule,
        name: str,
        grid: Sequence[int],
        parameters: Sequence[bytes],
        watchers: Sequence[events.Watcher] = (),
        budget: Budget | None = None,
        sample: Sample | None = None,
    ):
        self.memory, self.module = memory, module
        self.kernel_code = module.kernel(name)
        self.kernel = name.partition("_K")[0] or name  # cuTile appends the parameter types
        self.grid = (int(grid[0]), int(grid[1]), int(grid[2]))
        self.blocks = self.grid[0] * self.grid[1] * self.grid[2]
        self.watchers: Sequence[events.Watcher] = list(watchers)
        self.budget = budget or Budget()
        self.number = next(_numbers)
        if not all(0 < size <= most for size, most in zip(self.grid, MAX_GRID, strict=True)):
            raise LaunchError(f"a grid of {self.grid}: each dimension must be from 1 to {MAX_GRID}")
        # Grid indices of the blocks that run, if not all run.
        reaches = memory.reaches_huge(parameters)
        self.chosen = sample.choose(self.kernel, self.blocks, reaches) if sample else None
        if self.chosen is not None:
            self.blocks = len(self.chosen)
        wanted = self.kernel_code.parameters
        if len(parameters) != len(wanted):
            raise LaunchError(
                f"kernel {self.kernel} takes {many(len(wanted), 'parameter')}, not "
                f"{len(parameters)}"
            )
        self.arguments: list[Any] = [
            access.argument(raw, one.element) for raw, one in zip(parameters, wanted, strict=True)
        ]
        self.operations = self.ended = 0  # operations on tiles, blocks that ended
        self._deadline = time.thread_time() + self.budget.seconds
        self._printed: list[str] = []
        self._room = PRINTED

    def block_index(self, number: int) -> Index:
        """Return the grid index of a block from its number among the running ones."""
        x, y, _ = self.grid
        if self.chosen is not None:
            number = int(self.chosen[number])
        return Index((number % x, number // x % y, number // (x * y)), self.grid)

    def run(self) -> None:
        for watcher in self.watchers:
            watcher.started(self)
        start = time.perf_counter()
        try:
            with np.errstate(all="ignore"):
                self._run()
        except VirtualGPUError as error:
            for watcher in self.watchers:
                watcher.failed(self, error)
            raise
        finally:
            words = "tile kernel %s%s ran on the interpreter of Tile IR in %.3f s"
            logger.info(words, self.kernel, self.grid, time.perf_counter() - start)
            if self._printed:
                sys.stdout.write("".join(self._printed))
                sys.stdout.flush()
            for watcher in self.watchers:
                watcher.finished(self)
            if not self.watchers:
                self.memory.unwritten.clear()

    def _run(self) -> None:
        waiting: deque[Iterator[None]] = deque()
        for number in range(self.blocks):
            one = TileBlock(self, number).run()
            if self._advance(one):
                waiting.append(one)
            while len(waiting) >= RESIDENT:
                self._turn(waiting)
        while waiting:
            self._turn(waiting)

    def _turn(self, waiting: deque[Iterator[None]]) -> None:
        one = waiting.popleft()
        if self._advance(one):
            waiting.append(one)

    def _advance(self, block: Iterator[None]) -> bool:
        """Run a block until it waits; return True if it does."""
        waits = next(block, block) is not block
        self.ended += not waits
        return waits

    def count(self, block: events.WatchedBlock, operation: TileOperation) -> None:
        """Count one more operation. Raises BudgetExceeded."""
        self.operations += 1
        if (ran := self.kernel_code.ran) is not None:
            ran.add(operation.source)
        if self.operations % LOOK == 0 and (
            self.operations > self.budget.instructions or time.thread_time() > self._deadline
        ):
            raise BudgetExceeded(
                f"kernel {self.kernel} was stopped after {many(self.operations, 'operation')} on "
                f"tiles; {self._progress()}",
                block.location(operation),
            )

    def _progress(self) -> str:
        """Return a phrase with the launch's progress, and advice."""
        more = "set VIRTUALGPU_TIME_LIMIT, in seconds, to allow more"
        if self.ended == 0:
            blocks = "its only block" if self.blocks == 1 else f"none of its {self.blocks:,} blocks"
            has = "has not ended" if self.blocks == 1 else "has ended"
            return (
                f"{blocks} {has}: does a loop never end, or wait for something that no block "
                f"does? ({more})"
            )
        return (
            f"{self.ended:,} of its {many(self.blocks, 'block')} had ended: give the kernel less "
            f"work or larger tiles, or {more}. If a block waits for another one, check that the "
            "other one does what it waits for"
        )

    def write(self, text: str) -> None:
        """Buffer a block's printed text until the launch ends."""
        self._room -= len(text)
        if self._room >= 0:
            self._printed.append(text)
