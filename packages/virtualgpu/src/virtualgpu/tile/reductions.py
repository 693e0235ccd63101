"""Reductions and scans, which apply a region's operations to halves of the tiles.

Elements are combined in the order of a tree, which is always the same. A GPU's own order gives
other last bits in sums of floats (specification, ``reduce``: "no guarantees on the order").
"""

from __future__ import annotations

import numpy as np

from virtualgpu.tile import arithmetic
from virtualgpu.tile.body import Region, TileOperation
from virtualgpu.tile.events import WatchedBlock


def _combined(
    block: WatchedBlock, region: Region, current: list[np.ndarray], before: list[np.ndarray]
) -> list[np.ndarray]:
    """Return the region's values for arrays of arguments.

    The region contains only operations on elements, and uses numbers defined outside it.
    """
    values: dict[int, np.ndarray] = {}

    def value(one: int) -> np.ndarray:
        return values[one] if one in values else block.values[one]

    for place, pair in enumerate(zip(current, before, strict=True)):
        values[region.at + 2 * place], values[region.at + 2 * place + 1] = pair
    for operation in region.operations[:-1]:
        if operation.name == "constant":
            found = arithmetic.constant(operation.attributes["value"], operation.results[0])
        else:
            found = arithmetic.ELEMENTWISE[operation.name](
                operation, *map(value, operation.operands)
            )
        values[operation.at] = found
    shape = np.shape(current[0])
    return [np.broadcast_to(value(one), shape) for one in region.operations[-1].operands]


def reduced(
    block: WatchedBlock, operation: TileOperation, tiles: list[np.ndarray]
) -> list[np.ndarray]:
    axis, region = operation.attributes["dim"], operation.regions[0]
    left = [np.moveaxis(tile, axis, 0) for tile in tiles]
    while (many := len(left[0])) > 1:
        half = many // 2
        made = _combined(
            block, region, [one[half : 2 * half] for one in left], [one[:half] for one in left]
        )
        left = [
            np.concatenate([new, one[2 * half :]]) if many % 2 else new
            for new, one in zip(made, left, strict=True)
        ]
    return [one[0] for one in left]


def scanned(
    block: WatchedBlock, operation: TileOperation, tiles: list[np.ndarray]
) -> list[np.ndarray]:
    """Combine each element with those before it in ``log2`` steps (Hillis and Steele 1986)."""
    axis, region = operation.attributes["dim"], operation.regions[0]
    back = -1 if operation.attributes["reverse"] else 1
    now = [np.moveaxis(tile, axis, 0)[::back] for tile in tiles]
    distance = 1
    while distance < len(now[0]):
        made = _combined(
            block, region, [one[distance:] for one in now], [one[:-distance] for one in now]
        )
        now = [np.concatenate([one[:distance], new]) for one, new in zip(now, made, strict=True)]
        distance *= 2
    return [np.moveaxis(one[::back], 0, axis) for one in now]
