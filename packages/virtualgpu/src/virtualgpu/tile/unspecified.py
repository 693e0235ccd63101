"""Elements outside an array, and the values of a block that depend on them.

A load that reaches over the edge of an array, with no padding asked for, gives tiles whose outer
elements are unspecified. To have them is no fault: a store leaves out what lies outside. To store
one inside of an array is: a sum over them, say. So each tile that has some goes with a mask.
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
    """Origin of unspecified elements: an operation, and what lies outside, in words."""

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
        """Record that an operation's results depend on what its operands depend on."""
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
            # A new array: what an operation hands on as it is keeps the mask that it has.
            block.values[place] = np.array(block.values[place])
            self.add(block.values[place], made, origin)


def _masks(operation: TileOperation, given: list, masks: list[np.ndarray]) -> np.ndarray | None:
    """Return masks of the result elements that depend on unspecified ones.

    None for results that are no tile.
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
