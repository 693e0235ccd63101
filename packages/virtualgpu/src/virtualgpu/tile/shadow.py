"""Shadow memory of tile kernels: last access to each element, and the order between blocks.

Blocks run one after the other here, but in any order on a GPU. So blocks are ordered only if the
kernel orders them by a release that another block acquires (Tile IR specification, "Memory Model";
vector clocks as in FastTrack, Flanagan and Freund 2009).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from virtualgpu.memory.sparse import repeated, zeros
from virtualgpu.tile.body import TileOperation


class Clocks:
    """Vector clocks: the latest progress of other blocks that each block knows of."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, int]] = {}  # block → block → known releases
        self._left: dict[int, dict[int, int]] = {}  # address → clock that a release left there

    def now(self, block: int) -> int:
        return self._known.setdefault(block, {block: 1})[block]

    def follows(self, block: int, other: int, count: int) -> bool:
        """Return True if ``block`` is ordered after the access of ``other`` at its ``count``."""
        return self._known.setdefault(block, {block: 1}).get(other, 0) >= count

    def met(self, block: int, addresses: np.ndarray, order: str) -> None:
        """Handle an ordered access: acquire what others released at the addresses, or release."""
        mine = self._known.setdefault(block, {block: 1})
        for address in map(int, addresses):
            if order in ("acquire", "acq_rel"):
                _join(mine, self._left.get(address, {}))
            if order in ("release", "acq_rel"):
                _join(self._left.setdefault(address, {}), mine)
        if order in ("release", "acq_rel"):
            mine[block] += 1


def _join(into: dict[int, int], other: dict[int, int]) -> None:
    for block, count in other.items():
        into[block] = max(into.get(block, 0), count)


class Touches:
    """Last access of a kind to each granule.

    It has block + 1, operation, count of releases, and whether the access was an atomic or ordered.
    """

    def __init__(self, size: int):
        self.block = zeros(size, np.int32)
        self.operation = zeros(size, np.int32)
        self.count = zeros(size, np.int32)
        self.strong = zeros(size, np.bool_)

    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.block, self.operation, self.count, self.strong

    def set(self, places: np.ndarray, block: int, operation: int, count: int, strong: bool) -> None:
        for array, value in zip(self.arrays(), (block + 1, operation, count, strong), strict=True):
            array[places] = value

    def finer(self, times: int) -> None:
        self.block, self.operation, self.count, self.strong = (
            repeated(array, times) for array in self.arrays()
        )


class TileShadow:
    """Access records of one allocation.

    For each granule, they hold the last block that stored to it and up to two blocks that loaded
    it.
    """

    def __init__(self, nbytes: int, granule: int):
        self.granule, self.nbytes = granule, nbytes
        size = -(-nbytes // granule)
        self.stored, self.loaded, self.again = Touches(size), Touches(size), Touches(size)

    def places(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """Return the granules of elements of ``size`` bytes, refining granules where needed."""
        if self.granule > size or (offsets % self.granule).any():
            for one in (self.stored, self.loaded, self.again):
                one.finer(self.granule)
            self.granule = 1
        many = size // self.granule
        first = offsets // self.granule
        return first if many == 1 else (first[:, None] + np.arange(many)).reshape(-1)


class TileRaces:
    """Detector of unordered accesses of different blocks to one element."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.operations: list[TileOperation] = []
        self._numbers: dict[int, int] = {}  # operations, by their offset
        self._shadows: dict[int, TileShadow] = {}

    def number(self, operation: TileOperation) -> int:
        found = self._numbers.get(operation.offset)
        if found is None:
            found = self._numbers[operation.offset] = len(self.operations)
            self.operations.append(operation)
        return found

    def access(
        self,
        block: int,
        kind: str,
        operation: TileOperation,
        extent: tuple[int, int],
        addresses: np.ndarray,
        size: int,
        order: str,
    ) -> list[tuple[int, str, int, Any]]:
        """Record an access and return its conflicts.

        Each conflict has the address, the kind of the other access, its block and its operation.
        There is one for each kind and operation of the others.
        """
        start, end = extent
        strong = kind == "atomic" or order != "weak"
        if strong and kind != "store":
            self.clocks.met(block, addresses, order)
        shadow = self._shadows.get(start)
        if shadow is None or shadow.nbytes != end - start:
            shadow = self._shadows[start] = TileShadow(end - start, size)
        places = shadow.places(addresses - start, size)
        found = self._conflicts(block, strong, shadow.stored, "stores", places, shadow, start)
        count, number = self.clocks.now(block), self.number(operation)
        if kind != "load":
            for reads in (shadow.loaded, shadow.again):
                found += self._conflicts(block, strong, reads, "loads", places, shadow, start)
            shadow.stored.set(places, block, number, count, strong)
        else:
            first = shadow.loaded.block[places]
            mine = (first == 0) | (first == block + 1)
            shadow.loaded.set(places[mine], block, number, count, strong)
            if not mine.all():
                shadow.again.set(places[~mine], block, number, count, strong)
        if strong and kind == "store":
            self.clocks.met(block, addresses, order)
        return found

    def _conflicts(
        self,
        block: int,
        strong: bool,
        others: Touches,
        what: str,
        places: np.ndarray,
        shadow: TileShadow,
        start: int,
    ) -> list[tuple[int, str, int, Any]]:
        who = others.block[places]
        bad = (who != 0) & (who != block + 1)
        if strong:
            bad &= ~others.strong[places]
        if not bad.any():
            return []
        found, told = [], set()
        at = places[bad]
        keys = np.stack([others.block[at] - 1, others.count[at], others.operation[at]], axis=1)
        for key, first in zip(*np.unique(keys, axis=0, return_index=True), strict=True):
            other, count, number = map(int, key)
            if number in told or self.clocks.follows(block, other, count):
                continue
            told.add(number)
            found.append(
                (start + int(at[first]) * shadow.granule, what, other, self.operations[number])
            )
        return found
