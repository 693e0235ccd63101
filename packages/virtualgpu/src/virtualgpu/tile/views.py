"""Views of arrays: the elements of an array that make up a tile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from virtualgpu.tile.types import TensorType, ViewType

PADDINGS = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}


@dataclass
class Array:
    """A tensor view at run time: address of its first element, sizes and strides in elements."""

    type: TensorType
    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass
class Tiled:
    """A view that is loaded and stored tile by tile."""

    type: ViewType
    array: Array

    def counts(self) -> list[int]:
        """Return the number of tiles along each dimension of the index space."""
        view = self.type
        return [
            self.array.shape[dim]
            if place == view.sparse
            else -(-self.array.shape[dim] // view.steps[place])
            for place, dim in enumerate(view.dims)
        ]


@dataclass
class Window:
    """The elements of one tile of a view.

    ``places[d]`` are the indices along the array's dimension ``dims[d]``, one for each index along
    the tile's dimension ``d``.
    """

    tiled: Tiled
    places: list[np.ndarray]
    dense: bool  # True if each dimension's indices are consecutive

    @property
    def inside(self) -> bool:
        """Return True if no element is outside the array."""
        array = self.tiled.array
        return all(
            one.size == 0 or (one.min() >= 0 and one.max() < array.shape[dim])
            for one, dim in zip(self.places, self.tiled.type.dims, strict=True)
        )

    def valid(self) -> np.ndarray:
        """Return the mask of the elements inside the array: bool, of the tile's shape."""
        shape = self.tiled.type.shape
        found = np.ones(shape, bool)
        for d, (one, dim) in enumerate(zip(self.places, self.tiled.type.dims, strict=True)):
            along = (one >= 0) & (one < self.tiled.array.shape[dim])
            found &= _along(along, d, len(shape))
        return found

    def addresses(self) -> np.ndarray:
        """Return the addresses of all elements, inside or not: int64, of the tile's shape."""
        array, shape = self.tiled.array, self.tiled.type.shape
        size = array.type.element.size
        found = np.full(shape, array.base, np.int64)
        for d, (one, dim) in enumerate(zip(self.places, self.tiled.type.dims, strict=True)):
            found += _along(one * (array.strides[dim] * size), d, len(shape))
        return found

    def index(self, address: int) -> tuple[int, ...] | None:
        """Return the array index of the element at ``address``; None if the tile has none there."""
        at = np.argwhere(self.addresses() == address)
        if not len(at):
            return None
        return self._index(at[0])

    def outside(self) -> tuple[int, ...]:
        """Return the array index of the first element outside."""
        return self._index(np.argwhere(~self.valid())[0])

    def _index(self, at: np.ndarray) -> tuple[int, ...]:
        index = [0] * len(at)
        for d, dim in enumerate(self.tiled.type.dims):
            index[dim] = int(self.places[d][at[d]])
        return tuple(index)


def _along(values: np.ndarray, dimension: int, rank: int) -> np.ndarray:
    return values.reshape([-1 if d == dimension else 1 for d in range(rank)])


def window(tiled: Tiled, indices: list[np.ndarray]) -> Window:
    """Return the tile at ``indices``: a number for each dimension, an array for the sparse one."""
    view, places = tiled.type, []
    for place, (index, size) in enumerate(zip(indices, view.shape, strict=True)):
        if place == view.sparse:
            places.append(np.asarray(index, np.int64))
        else:
            places.append(int(index) * view.steps[place] + np.arange(size, dtype=np.int64))
    return Window(tiled, places, view.sparse is None)


def shown(index: tuple[int, ...]) -> str:
    """Return an index in Python's notation: ``5`` in one dimension, ``(5, 1)`` in two."""
    return str(index[0]) if len(index) == 1 else str(tuple(index))
