"""Events of a launch over tiles, and the launch and blocks as observers see them.

Operations use only this interface, so that memory and checks do not depend on the interpreter.
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
    """Launch, as seen by watchers: the kernel's readable name, its grid, and its arrays."""

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
        """Return the grid index of a block from its number among the running ones."""

    def count(self, block: WatchedBlock, operation: TileOperation) -> None:
        """Count one more operation. Raises BudgetExceeded."""

    def write(self, text: str) -> None:
        """Buffer a block's printed text until the launch ends."""


class WatchedBlock(Protocol):
    """Running block, as seen by watchers: its grid index, its number, and its values by number."""

    launch: WatchedTileLaunch
    number: int
    index: Index
    values: list[Any]
    watched: bool
    window: Window | None  # of a view, which it is accessing

    def location(self, operation: TileOperation | None) -> Location: ...

    def touched(
        self, kind: str, operation: TileOperation, addresses: np.ndarray, element: Element
    ) -> None:
        """Report a ``load``, ``store`` or ``atomic`` of elements to the watchers."""

    def collided(self, operation: TileOperation, addresses: np.ndarray) -> None:
        """Report to the watchers that one store had several values for these addresses."""


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
        """Handle a store that replaced another of its own values at each of ``addresses``."""

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
        """Handle a store of a tile before it happens; ``valid`` masks its elements (None: all)."""

    def computed(self, block: WatchedBlock, operation: TileOperation) -> None:
        """Handle an operation that has run."""

    def failed(self, launch: WatchedTileLaunch, error: VirtualGPUError) -> None: ...

    def finished(self, launch: WatchedTileLaunch) -> None: ...
