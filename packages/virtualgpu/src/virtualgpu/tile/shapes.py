"""Operations that move elements without computing, and those that produce indices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from virtualgpu.errors import VirtualGPUError
from virtualgpu.tile.body import TileOperation

SHAPES: dict[str, Callable[..., np.ndarray]] = {}


def _does(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    SHAPES[function.__name__] = function
    return function


@_does
def iota(operation: TileOperation) -> np.ndarray:
    tile = operation.results[0]
    return np.arange(tile.shape[0]).astype(tile.element.dtype)


@_does
def broadcast(operation: TileOperation, source: np.ndarray) -> np.ndarray:
    return np.broadcast_to(source, operation.results[0].shape)


@_does
def reshape(operation: TileOperation, source: np.ndarray) -> np.ndarray:
    return np.reshape(source, operation.results[0].shape)


@_does
def permute(operation: TileOperation, source: np.ndarray) -> np.ndarray:
    return np.transpose(source, operation.attributes["permutation"])


@_does
def cat(operation: TileOperation, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.concatenate([left, right], operation.attributes["dim"])


@_does
def extract(operation: TileOperation, source: np.ndarray, *indices: np.ndarray) -> np.ndarray:
    return source[_part(operation, source, operation.results[0].shape, indices)]


@_does
def insert(
    operation: TileOperation, source: np.ndarray, destination: np.ndarray, *indices: np.ndarray
) -> np.ndarray:
    result = np.array(destination)
    result[_part(operation, destination, source.shape, indices)] = source
    return result


def _part(
    operation: TileOperation, whole: np.ndarray, shape: tuple[int, ...], indices
) -> tuple[slice, ...]:
    parts = []
    for dimension, (index, size) in enumerate(zip(map(int, indices), shape, strict=True)):
        if not 0 <= index < whole.shape[dimension] // size:
            raise VirtualGPUError(
                f"{operation}: part {index} along dimension {dimension} of a tile that has "
                f"{whole.shape[dimension] // size} parts of {size}"
            )
        parts.append(slice(index * size, (index + 1) * size))
    return tuple(parts)
