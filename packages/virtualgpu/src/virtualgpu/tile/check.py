"""Checker for launches over tiles under ``check()``.

- ``race``: two blocks store to one element, or one loads an element that another stores, and
  nothing orders them; or one store of a tile has two values for one element.
- ``memory``: a tile is completely outside its array, a result depends on elements outside although
  no padding was requested, or an error stops the launch.
- ``uninitialised``: a load of elements that were never written.

Each finding names line, block and index. The order of a block's own accesses (tokens) and streams
are not checked.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from virtualgpu.errors import Location, VirtualGPUError
from virtualgpu.findings import Finding
from virtualgpu.lanes.events import Observer
from virtualgpu.tile.body import TileOperation
from virtualgpu.tile.events import WatchedBlock, WatchedTileLaunch
from virtualgpu.tile.shadow import TileRaces
from virtualgpu.tile.unspecified import Origin, Unspecified
from virtualgpu.tile.views import Window, shown
from virtualgpu.watch.checking import Recorder


def watchers(observers: list[Observer]) -> list[TileCheck]:
    """Return a watcher for each report that observers fill."""
    return [TileCheck(one) for one in observers if isinstance(one, Recorder)]


class TileCheck:
    """Checker that adds findings to a recorder's report, one for each kind and pair of lines."""

    def __init__(self, recorder: Recorder):
        self.recorder, self.report = recorder, recorder.report

    def started(self, launch: WatchedTileLaunch) -> None:
        self.recorder.launch_started(launch)
        self.launch, self.memory = launch, launch.memory
        self.races, self.unspecified = TileRaces(), Unspecified()
        self.found: dict[tuple, list] = {}

    def failed(self, launch: WatchedTileLaunch, error: VirtualGPUError) -> None:
        self.recorder.failed(launch, error)

    def finished(self, launch: WatchedTileLaunch) -> None:
        self.report.findings += [replace(one, count=count) for one, count in self.found.values()]
        self.found = {}

    def add(
        self,
        kind: str,
        block: WatchedBlock,
        operation: TileOperation,
        message: str,
        other: Location | None = None,
        key: object = None,
    ) -> None:
        """Add a finding, or count it if one with its lines exists."""
        key = (kind, operation.offset, key)
        if key in self.found:
            self.found[key][1] += 1
            return
        at = block.location(operation)
        self.found[key] = [
            Finding(
                kind,
                f"{kind}: {message}",
                at.kernel,
                at.filename,
                at.line,
                at.block,
                None,
                other,
                launch=self.report.launches,
            ),
            1,
        ]

    # -- events ----------------------------------------------------------------------------------

    def accessed(
        self,
        block: WatchedBlock,
        kind: str,
        operation: TileOperation,
        addresses: np.ndarray,
        size: int,
        order: str,
    ) -> None:
        """Check an access to elements of ``size`` bytes.

        Elements outside every array end the launch without this check.
        """
        left = addresses
        while len(left):
            extent = self.memory.extent(int(left[0]))
            if extent is None:
                return
            here = (left >= extent[0]) & (left + size <= extent[1])
            if not here[0]:
                return
            self._in_array(block, kind, operation, extent, left[here], size, order)
            left = left[~here]

    def _in_array(
        self,
        block: WatchedBlock,
        kind: str,
        operation: TileOperation,
        extent: tuple[int, int],
        addresses: np.ndarray,
        size: int,
        order: str,
    ) -> None:
        known = self.memory.unwritten.get(extent[0])
        if known is not None:
            offsets = addresses - extent[0]
            written = known.map()
            every = (offsets[:, None] + np.arange(size)).reshape(-1)
            if kind != "store" and (fresh := written[every] == 0).any():
                self._unwritten(block, operation, int(addresses[np.argmax(fresh) // size]), extent)
            if kind != "load":
                known.left -= int(np.count_nonzero(written[np.unique(every)] == 0))
                written[every] = 1
                if not known.left:
                    self.memory.unwritten.pop(extent[0], None)
        for address, what, number, other in self.races.access(
            block.number, kind, operation, extent, addresses, size, order
        ):
            self._race(block, kind, operation, address, size, extent, what, number, other)

    def _race(
        self,
        block: WatchedBlock,
        kind: str,
        operation: TileOperation,
        address: int,
        size: int,
        extent: tuple[int, int],
        what: str,
        number: int,
        other: TileOperation,
    ) -> None:
        does = {"load": "loads", "store": "stores to", "atomic": "updates by an atomic"}[kind]
        did = {"stores": "stores to", "loads": "loads"}[what]
        there = self.launch.block_index(number)
        where = Location(
            self.launch.kernel,
            other.source and other.source.filename,
            other.source.line if other.source else None,
            there,
        )
        self.add(
            "race",
            block,
            operation,
            f"block {block.index} {does} {self._element(block, address, size, extent)}, which "
            f"block {there} {did} too{_at(where)}, and nothing orders the two: give each element "
            "to one block, or combine the values with atomics (ct.atomic_add)",
            where,
            (what, other.offset),
        )

    def collided(
        self, block: WatchedBlock, operation: TileOperation, addresses: np.ndarray
    ) -> None:
        """Report an element for which one store has several values."""
        address, size = int(addresses[0]), operation.types[1].element.size
        extent = self.memory.extent(address)
        if extent is None:
            return
        self.add(
            "race",
            block,
            operation,
            f"block {block.index} stores several values of one tile to "
            f"{self._element(block, address, size, extent)}, and any of them may stay: store "
            "each element once, or combine the values with atomics (ct.atomic_add)",
        )

    def _unwritten(
        self, block: WatchedBlock, operation: TileOperation, address: int, extent: tuple[int, int]
    ) -> None:
        size = operation.results[0].element.size
        self.add(
            "uninitialised",
            block,
            operation,
            f"block {block.index} loads {self._element(block, address, size, extent)}, which "
            "was never written. cupy.empty does not set its memory: fill it before the "
            "launch (cupy.zeros, a copy from the host), or store before the load",
        )

    def _element(
        self, block: WatchedBlock, address: int, size: int, extent: tuple[int, int]
    ) -> str:
        """Return ``element (3, 7) of an array of shape (4, 8)``; without a view, its number."""
        window: Window | None = block.window
        if window is not None and (at := window.index(address)) is not None:
            return f"element {shown(at)} of an array of shape {tuple(window.tiled.array.shape)}"
        offset = address - extent[0]
        return f"element {offset // size} of an array of {(extent[1] - extent[0]) // size}"

    def windowed(self, block: WatchedBlock, operation: TileOperation, window: Window) -> None:
        """Check an access to a tile through a view."""
        array = window.tiled.array
        for place, count in enumerate(window.tiled.counts()):
            if place == window.tiled.type.sparse:
                continue
            first = int(window.places[place][0])
            step = window.tiled.type.steps[place]
            what = "tile" if window.tiled.type.sparse is None else "element"
            if not 0 <= first < array.shape[window.tiled.type.dims[place]]:
                self.add(
                    "memory",
                    block,
                    operation,
                    f"block {block.index} reaches {what} {first // step} along dimension {place}, "
                    f"of {count}: the tile lies completely outside the array of shape "
                    f"{tuple(array.shape)}, which is undefined. Launch fewer blocks, or keep the "
                    "index below ct.num_tiles",
                )

    def loaded(
        self,
        block: WatchedBlock,
        operation: TileOperation,
        tile: np.ndarray,
        valid: np.ndarray,
        window: Window | None,
    ) -> None:
        """Record that elements of ``tile`` which are not ``valid`` are unspecified."""
        if window is None:
            words = "elements that the mask leaves out"
        else:
            words = (
                f"element {shown(window.outside())}, outside of the array of shape "
                f"{tuple(window.tiled.array.shape)},"
            )
        self.unspecified.add(tile, ~valid, Origin(operation, words))

    def computed(self, block: WatchedBlock, operation: TileOperation) -> None:
        self.unspecified.computed(block, operation)

    def storing(
        self,
        block: WatchedBlock,
        operation: TileOperation,
        tile: np.ndarray,
        valid: np.ndarray | None,
    ) -> None:
        """Check a store of a tile; ``valid`` masks the elements inside the array (None: all)."""
        found = self.unspecified.of(tile)
        if found is None:
            return
        mask, origin = found
        kept = mask if valid is None else mask & valid
        if kept.any():
            loads = origin.operation
            self.add(
                "memory",
                block,
                loads,
                f"block {block.index} loads {origin.words} where no padding was asked for, and "
                f"what it stores{_at(block.location(operation))} depends on it, so it is "
                "undetermined. Give ct.load a padding_mode (ct.PaddingMode.ZERO), or use ct.where",
                block.location(operation),
                operation.offset,
            )


def _at(where: Location) -> str:
    return f" at line {where.line}" if where.line else ""
