"""Counts of ``profile()`` for a launch over tiles: bytes and sectors, block by block.

A *request* is one load, store or atomic of one block. It touches *sectors*, aligned pieces of 32
bytes. *Ideal* sectors are those that its bytes would fill if they were adjacent. The compiler
decides how a request becomes instructions of warps or a copy by the TMA, so this is not modelled,
nor are caches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from virtualgpu.errors import VirtualGPUError
from virtualgpu.lanes.events import Observer
from virtualgpu.tile.access import verb
from virtualgpu.tile.body import TileOperation
from virtualgpu.tile.events import WatchedBlock, WatchedTileLaunch
from virtualgpu.tile.views import Window
from virtualgpu.watch.counters import Counters, add_access
from virtualgpu.watch.profiling import LaunchProfile, Profile, Profiler
from virtualgpu.wording import many

SECTOR = 32
MOST_TILES = 4096  # tiles listed in a profile, each with its block


@dataclass(frozen=True, slots=True)
class TileAccess:
    """A tile that a block loads, stores or updates atomically (``kind``) on a line of the kernel.

    ``first`` is the index of its first element in the array, and ``shape`` its extent along the
    array's dimensions, which may exceed the array's own ``sizes``. ``base`` is the array's
    address.
    """

    kind: str
    line: int | None
    base: int
    sizes: tuple[int, ...]
    block: int
    first: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(eq=False)
class TileProfile(LaunchProfile):
    """Counts of one launch over tiles; ``block`` is (1, 1, 1), as in the launch.

    Attributes
    ----------
    bytes_by_block, sectors_by_block : ndarray, int64, shape (blocks, 2)
        Bytes and sectors that each block loaded and stored, in the grid's order.
    distinct_loaded, distinct_stored : int
        Number of different bytes that the launch loaded, and stored.
    tiles : list of TileAccess
        Accessed tiles, each once. Accesses by ``ct.gather`` and ``ct.scatter`` are not included.
    tiles_left_out : int
        Number of accesses to tiles beyond the first 4,096.
    products : dict of str to int
        Number of matrix products (``ct.mma``) by the Tile IR type of the factors, such as ``f16``.
    """

    bytes_by_block: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    sectors_by_block: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    distinct_loaded: int = 0
    distinct_stored: int = 0
    tiles: list[TileAccess] = field(default_factory=list)
    tiles_left_out: int = 0
    products: dict[str, int] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Return True if all counts are equal; the addresses of the arrays do not matter."""
        return (
            isinstance(other, TileProfile)
            and super().__eq__(other)
            and np.array_equal(self.bytes_by_block, other.bytes_by_block)
            and np.array_equal(self.sectors_by_block, other.sectors_by_block)
            and self.distinct_loaded == other.distinct_loaded
            and self.distinct_stored == other.distinct_stored
            and self.products == other.products
        )

    @property
    def redundancy(self) -> float:
        """Return how often a loaded byte is loaded on average; nan without loads."""
        loaded = int(self.bytes_by_block[:, 0].sum())
        return loaded / self.distinct_loaded if self.distinct_loaded else float("nan")

    def __str__(self) -> str:
        counts, blocks = self.counters, len(self.bytes_by_block)
        loaded, stored = self.bytes_by_block.sum(axis=0)
        most = self.bytes_by_block.max(axis=0, initial=0)
        title = f"{self.kernel}[{self.grid}]" + (" (failed)" if self.failed else "")
        return "\n".join(
            [
                title,
                f"loads         {many(loaded, 'byte')} by {many(blocks, 'block')}, at most "
                f"{most[0]:,} by one; "
                f"{many(counts.global_load_sectors, 'sector')}, ideal "
                f"{counts.global_load_ideal_sectors:,}; "
                f"each byte {self.redundancy:.2f} times",
                f"stores        {many(stored, 'byte')}, at most {most[1]:,} by one; "
                f"{many(counts.global_store_sectors, 'sector')}, ideal "
                f"{counts.global_store_ideal_sectors:,}",
                *(
                    [f"atomics       {many(counts.global_atomics, 'element')}"]
                    if counts.global_atomics
                    else []
                ),
                *(
                    f"products      {many(count, 'product')} of tiles of {name}"
                    for name, count in self.products.items()
                ),
            ]
        )


def watchers(observers: list[Observer]) -> list[TileCounts]:
    """Return a watcher for each profile that observers fill."""
    return [TileCounts(one.profile) for one in observers if isinstance(one, Profiler)]


class TileCounts:
    """Watcher that adds each launch over tiles to a profile."""

    def __init__(self, profile: Profile):
        self.profile = profile

    def started(self, launch: WatchedTileLaunch) -> None:
        self.lines: dict[tuple, Counters] = {}
        self.bytes = np.zeros((launch.blocks, 2), np.int64)
        self.sectors = np.zeros((launch.blocks, 2), np.int64)
        self.seen: tuple[dict, dict] = ({}, {})  # allocation → its bytes that were loaded, stored
        self.hot: dict[int, int] = {}
        self.tiles: dict[TileAccess, None] = {}
        self.left_out = 0
        self.products: dict[str, int] = {}
        self.memory, self.failure = launch.memory, False

    def accessed(
        self,
        block: WatchedBlock,
        kind: str,
        operation: TileOperation,
        addresses: np.ndarray,
        size: int,
        order: str,
    ) -> None:
        elements = len(addresses)
        if not elements:
            return
        source = operation.source
        line = (source.filename, source.line) if source else (None, None)
        counters = self.lines.setdefault(line, Counters())
        if kind == "atomic":
            each, times = np.unique(addresses, return_counts=True)
            for address, count in zip(each.tolist(), times.tolist(), strict=True):
                self.hot[address] = self.hot.get(address, 0) + count
            add_access(
                counters,
                "global",
                kind,
                size,
                elements,
                1,
                int(times.max()),
                int(times.max()),
                max(self.hot[address] for address in each.tolist()),
            )
        else:
            sectors = _distinct(addresses // SECTOR)  # an aligned element is within one sector
            ideal = -(-_distinct(addresses) * size // SECTOR)
            add_access(counters, "global", kind, size, elements, 1, sectors, ideal, 0)
            self.sectors[block.number, int(kind == "store")] += sectors
        for which in {"load": (0,), "store": (1,), "atomic": (0, 1)}[kind]:
            self.bytes[block.number, which] += elements * size
            self._see(self.seen[which], addresses, size)

    def _see(self, seen: dict, addresses: np.ndarray, size: int) -> None:
        left = addresses
        while len(left):
            extent = self.memory.extent(int(left[0]))
            if extent is None:
                return
            here = (left >= extent[0]) & (left + size <= extent[1])
            if not here[0]:
                return
            if extent[0] not in seen:
                seen[extent[0]] = np.zeros(extent[1] - extent[0], bool)
            offsets = left[here] - extent[0]
            for byte in range(size):
                seen[extent[0]][offsets + byte] = True
            left = left[~here]

    def windowed(self, block: WatchedBlock, operation: TileOperation, window: Window) -> None:
        array, dims = window.tiled.array, window.tiled.type.dims
        if not window.dense:
            return
        first, shape = [0] * len(array.shape), [1] * len(array.shape)
        for dim, places in zip(dims, window.places, strict=True):
            first[dim], shape[dim] = int(places[0]), len(places)
        access = TileAccess(
            verb(operation),
            operation.source.line if operation.source else None,
            array.base,
            array.shape,
            block.number,
            tuple(first),
            tuple(shape),
        )
        if len(self.tiles) < MOST_TILES or access in self.tiles:
            self.tiles[access] = None
        else:
            self.left_out += 1

    def collided(self, *_: object) -> None:
        pass

    def loaded(self, *_: object) -> None:
        pass

    def storing(self, *_: object) -> None:
        pass

    def computed(self, block: WatchedBlock, operation: TileOperation) -> None:
        if operation.opcode.types == ":mma":
            name = operation.types[0].element.name
            self.products[name] = self.products.get(name, 0) + 1

    def failed(self, launch: WatchedTileLaunch, error: VirtualGPUError) -> None:
        self.failure = True

    def finished(self, launch: WatchedTileLaunch) -> None:
        total = Counters()
        for counters in self.lines.values():
            total.add(counters)
        total.by_line = self.lines
        loaded, stored = (sum(int(one.sum()) for one in seen.values()) for seen in self.seen)
        self.profile.launches.append(
            TileProfile(
                launch.kernel,
                launch.grid,
                (1, 1, 1),
                total,
                self.failure,
                self.bytes,
                self.sectors,
                loaded,
                stored,
                list(self.tiles),
                self.left_out,
                self.products,
            )
        )


def _distinct(values: np.ndarray) -> int:
    """Count the distinct values; a tile's values ascend row by row, and need no sorting."""
    steps = np.diff(values)
    if steps.min(initial=0) < 0:
        return len(np.unique(values))
    return 1 + int(np.count_nonzero(steps))
