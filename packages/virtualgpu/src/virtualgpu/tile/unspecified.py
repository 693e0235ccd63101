"""Elements outside an array, and the values of a block that depend on them.

A load that extends past the edge of an array without padding gives tiles whose outer elements are
unspecified. This alone is not a fault, because a store omits the elements outside. It is a fault
to store an unspecified value inside an array, for example a sum over such elements. So each tile
with unspecified elements is accompanied by a mask.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from virtualgpu.tile.arithmetic import ELEMENTWISE
from virtualgpu.tile.body import TileOperation
from virtualgpu.tile.events import WatchedBlock
from virtualgpu.tile.shapes import SHAPES


@dataclass(frozen=True)
class Origin:
    """Origin of unspecified elements: an operation, and a phrase for the elements outside."""

    operation: TileOperation
    words: str


class Unspecified:
    """Tiles of a launch and their masks (bool, of the tile's shape)."""

    def __init__(self) -> None:
        self._masks: dict[int, tuple[weakref.ref, np.ndarray, Origin]] = {}

    def add(self, tile: np.ndarray, mask: np.ndarray, origin: Origin) -> None:
        if mask.any():
            key, masks = id(tile), self._masks
            masks[key] = weakref.ref(tile, lambda _: masks.pop(key, None)), mask, origin

    def of(self, tile) -> tuple[np.ndarray, Origin] | None:
        found = self._masks.get(id(tile))
        return found[1:] if found else None

    def computed(self, block: WatchedBlock, operation: TileOperation) -> None:
        """Record which of an operation's results depend on unspecified operands."""
        if not self._masks:
            return
        given = [block.values[one] for one in operation.operands]
        known = [self.of(one) for one in given]
        origin = next((one[1] for one in known if one), None)
        if origin is None:
            return
        masks = [
            one[0] if one else np.zeros(np.shape(tile), bool)
            for one, tile in zip(known, given, strict=True)
        ]
        made = _masks(operation, given, masks)
        if made is None:
            return
        for place in range(operation.at, operation.at + len(operation.results)):
            # This is a new array; an operation that returns its operand keeps the operand's mask.
            block.values[place] = np.array(block.values[place])
            self.add(block.values[place], made, origin)


def _masks(operation: TileOperation, given: list, masks: list[np.ndarray]) -> np.ndarray | None:
    """Return masks of the result elements that depend on unspecified ones.

    The mask is None for results that are not tiles.
    """
    name = operation.name
    if name == "select":
        return masks[0] | np.where(given[0], masks[1], masks[2])
    if name == "mmaf" or name == "mmai":
        left, right, sums = masks
        rows, columns = np.asarray(left.any(-1)), np.asarray(right.any(-2))
        return rows[..., :, None] | columns[..., None, :] | sums
    if name in ("pack", "unpack"):
        return np.full(operation.results[0].shape, masks[0].any())
    if name in ELEMENTWISE:
        return np.logical_or.reduce(np.broadcast_arrays(*masks))
    if name in ("extract", "insert"):
        many = 1 if name == "extract" else 2
        return np.array(SHAPES[name](operation, *masks[:many], *given[many:]))
    if name in SHAPES:
        return np.array(SHAPES[name](operation, *masks))
    if name == "reduce":
        return np.asarray(np.logical_or.reduce(masks)).any(operation.attributes["dim"])
    if name == "scan":
        axis, both = operation.attributes["dim"], np.logical_or.reduce(masks)
        if operation.attributes["reverse"]:
            return np.flip(np.logical_or.accumulate(np.flip(both, axis), axis), axis)
        return np.logical_or.accumulate(both, axis)
    return None
