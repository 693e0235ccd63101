"""Events of a launch over tiles, and the launch and blocks as observers see them.

Operations may know the same: so memory and checks need not know who runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from virtualgpu.errors import Index, Location, VirtualGPUError
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.tile.body import TileKernel, TileOperation
from virtualgpu.tile.types import Element
from virtualgpu.tile.views import Window


class WatchedTileLaunch(Protocol):
    """A launch: the kernel's name as its author knows it, its grid, and where its arrays lie."""

    kernel: str
    kernel_code: TileKernel
    grid: tuple[int, int, int]
    blocks: int
    chosen: np.ndarray | None
    memory: GlobalMemory
    module: Any
    arguments: list[Any]
    watchers: Sequence[Watcher]

    def block_index(self, number: int) -> Index:
        """Return the place in the grid of a block by its number among those that run."""

    def count(self, block: WatchedBlock, operation: TileOperation) -> None:
        """Count one more operation. Raises BudgetExceeded."""

    def write(self, text: str) -> None:
        """Buffer a block's printed text until the launch ends."""


class WatchedBlock(Protocol):
    """A block that runs: its place in the grid, its number, its values by number."""

    launch: WatchedTileLaunch
    number: int
    index: Index
    values: list[Any]
    watched: bool
    window: Window | None  # through which it reaches memory

    def location(self, operation: TileOperation | None) -> Location: ...

    def touched(
        self, kind: str, operation: TileOperation, addresses: np.ndarray, element: Element
    ) -> None:
        """Report to watchers a ``load``, ``store`` or ``atomic`` of elements."""

    def collided(self, operation: TileOperation, addresses: np.ndarray) -> None:
        """Report to watchers that one store had several values for these addresses."""


class Watcher(Protocol):
    """Observer of a launch over tiles (:mod:`.check`, :mod:`.counts`)."""

    def started(self, launch: WatchedTileLaunch) -> None: ...

    def accessed(
        self,
        block: WatchedBlock,
        kind: str,
        operation: TileOperation,
        addresses: np.ndarray,
        size: int,
        order: str,
    ) -> None:
        """Handle an access to elements of ``size`` bytes at ``addresses`` (int64, shape (n,)).

        It is called before the access, also for elements outside memory.
        """

    def collided(
        self, block: WatchedBlock, operation: TileOperation, addresses: np.ndarray
    ) -> None:
        """Handle a store that had another value, now lost, for each of ``addresses``."""

    def windowed(self, block: WatchedBlock, operation: TileOperation, window: Window) -> None:
        """Handle an access to a tile through a view, before it happens."""

    def loaded(
        self,
        block: WatchedBlock,
        operation: TileOperation,
        tile: np.ndarray,
        valid: np.ndarray,
        window: Window | None,
    ) -> None:
        """Handle a loaded tile; its elements that are not ``valid`` are unspecified."""

    def storing(
        self,
        block: WatchedBlock,
        operation: TileOperation,
        tile: np.ndarray,
        valid: np.ndarray | None,
    ) -> None:
        """Handle a store of a tile, where ``valid`` (None: everywhere), before it happens."""

    def computed(self, block: WatchedBlock, operation: TileOperation) -> None:
        """Handle an operation that has run."""

    def failed(self, launch: WatchedTileLaunch, error: VirtualGPUError) -> None: ...

    def finished(self, launch: WatchedTileLaunch) -> None: ...
