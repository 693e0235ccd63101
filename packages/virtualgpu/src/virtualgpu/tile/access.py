"""Loads, stores and atomics of tiles, each address checked."""

from __future__ import annotations

import numpy as np

from virtualgpu.errors import (
    LaunchError,
    MemoryAccessError,
    MisalignedAddressError,
)
from virtualgpu.memory.mapping import BASE
from virtualgpu.tile.body import TileOperation
from virtualgpu.tile.events import WatchedBlock
from virtualgpu.tile.types import Element, decoded, encoded, rounded, unsigned
from virtualgpu.tile.views import PADDINGS, Window
from virtualgpu.wording import many

# Value of elements that are outside the array and have no padding: conspicuous in a result.
_UNSPECIFIED = 0xFE


def demand(
    block: WatchedBlock, operation: TileOperation, addresses: np.ndarray, element: Element
) -> None:
    """Check that every address is that of an element.

    Raises MemoryAccessError, MisalignedAddressError.
    """
    if not addresses.size:
        return
    memory, size = block.launch.memory, element.size
    low, high = int(addresses.min()), int(addresses.max())
    extent = memory.extent(low) if low >= BASE else None
    if extent is None or high + size > extent[1]:
        bad = memory.bad_lanes(addresses.view(np.uint64), size) | (addresses < BASE)
        if bad.any():
            address = int(addresses.reshape(-1)[np.argmax(bad.reshape(-1))]) % (1 << 64)
            raise MemoryAccessError(
                f"{verb(operation)} of {many(size, 'byte')} at {address:#x}, which is "
                f"{memory.describe(address, size)}. Keep the indices inside the array, or give a "
                "mask (ct.gather and ct.scatter check bounds by default)",
                block.location(operation),
                address=address,
            )
    if size > 1 and ((odd := addresses % size != 0).any()):
        address = int(addresses.reshape(-1)[np.argmax(odd.reshape(-1))])
        raise MisalignedAddressError(
            f"{verb(operation)} at {address:#x}, which is not a multiple of the element size, "
            f"{many(size, 'byte')}",
            block.location(operation),
            address=address,
        )


def verb(operation: TileOperation) -> str:
    """Return ``load``, ``store`` or ``atomic``, for messages."""
    return operation.name.partition("_")[0]


def gather(
    block: WatchedBlock, operation: TileOperation, addresses: np.ndarray, element: Element
) -> np.ndarray:
    """Return the elements at ``addresses`` (int64, any shape)."""
    demand(block, operation, addresses, element)
    return decoded(_memory(block, element)[(addresses - BASE) // element.size], element)


def scatter(
    block: WatchedBlock,
    operation: TileOperation,
    addresses: np.ndarray,
    values: np.ndarray,
    element: Element,
) -> None:
    """Store ``values`` and tell observers; of several at one address, the last remains."""
    demand(block, operation, addresses, element)
    memory, places = _memory(block, element), (addresses - BASE) // element.size
    memory[places] = stored = np.broadcast_to(encoded(values, element), places.shape)
    if block.watched:
        bits = f"V{element.stored.itemsize}"
        lost = np.asarray(memory[places]).view(bits) != np.ascontiguousarray(stored).view(bits)
        if lost.any():
            block.collided(operation, addresses[lost])


def _memory(block: WatchedBlock, element: Element) -> np.ndarray:
    """Return a view of the device's memory as elements; BASE is a multiple of every size."""
    return block.launch.memory.mapping.raw.view(element.stored)


def fill(element: Element, shape: tuple[int, ...], padding: str | None) -> np.ndarray:
    """Return the padding for elements outside the array."""
    if padding is None:
        raw = np.full(element.stored.itemsize, _UNSPECIFIED, np.uint8).view(element.stored)
        return np.full(shape, decoded(raw, element)[0], element.dtype)
    value = PADDINGS[padding]
    if element.kind != "f" and not np.isfinite(value):
        value = 0
    return np.full(shape, value, np.float64).astype(element.dtype)


# -- tiles of views ------------------------------------------------------------------------------


def load_window(block: WatchedBlock, operation: TileOperation, window: Window) -> np.ndarray:
    """Load a tile, padded where it lies outside the array."""
    view = window.tiled.type
    element = view.tensor.element
    inside = window.inside
    if inside and window.dense and not block.watched:
        found = _strided(block, operation, window)
        return np.array(decoded(found, element))
    addresses = window.addresses()
    if inside:
        block.touched("load", operation, addresses, element)
        return gather(block, operation, addresses, element)
    valid = window.valid()
    result = fill(element, view.shape, view.padding)
    block.touched("load", operation, addresses[valid], element)
    result[valid] = gather(block, operation, addresses[valid], element)
    return result


def store_window(
    block: WatchedBlock, operation: TileOperation, window: Window, tile: np.ndarray
) -> None:
    """Store the part of a tile that lies inside the array."""
    element = window.tiled.type.tensor.element
    inside = window.inside
    if inside and window.dense and not block.watched and 0 not in window.tiled.array.strides:
        _strided(block, operation, window)[...] = encoded(tile, element)
        return
    addresses = window.addresses()
    if not inside:
        valid = window.valid()
        addresses, tile = addresses[valid], tile[valid]
    block.touched("store", operation, addresses, element)
    scatter(block, operation, addresses, tile, element)


def _strided(block: WatchedBlock, operation: TileOperation, window: Window) -> np.ndarray:
    """Return a view of the tile's elements that shares the device's memory."""
    array = window.tiled.array
    element = array.type.element
    first, ends = array.base, []
    strides = [array.strides[dim] * element.size for dim in window.tiled.type.dims]
    for one, stride in zip(window.places, strides, strict=True):
        first += int(one[0]) * stride
        ends.append((len(one) - 1) * stride)
    corners = np.array(
        [first + sum(e for e in ends if e < 0), first, first + sum(e for e in ends if e > 0)],
        np.int64,
    )
    demand(block, operation, corners, element)
    memory = block.launch.memory
    extent = memory.extent(int(corners[0]))
    if extent is None or corners[2] + element.size > extent[1]:
        demand(block, operation, window.addresses(), element)
        raise MemoryAccessError(
            f"{verb(operation)} of a tile that extends from one array into another",
            block.location(operation),
            address=int(corners[0]),
        )
    return memory.mapping.view(first, window.tiled.type.shape, element.stored, tuple(strides))


# -- atomics -------------------------------------------------------------------------------------


def updated(mode: str, old: np.ndarray, by: np.ndarray, element: Element) -> np.ndarray:
    """Return the new value of an element after an atomic."""
    if mode == "xchg":
        return by
    if mode == "addf":
        return rounded(old + by, element)
    if mode in ("umax", "umin"):
        function = np.maximum if mode == "umax" else np.minimum
        return function(unsigned(old), unsigned(by)).view(old.dtype)
    return {
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "add": np.add,
        "max": np.maximum,
        "min": np.minimum,
    }[mode](old, by)


def atomic(
    block: WatchedBlock,
    operation: TileOperation,
    addresses: np.ndarray,
    values: np.ndarray,
    element: Element,
    compare: np.ndarray | None = None,
) -> np.ndarray:
    """Read, compute and write each element in one step; return the old values.

    Elements of a tile that share an address are updated one after the other, in order.
    """
    addresses, values = addresses.reshape(-1), np.broadcast_to(values, addresses.shape).reshape(-1)
    block.touched("atomic", operation, addresses, element)
    demand(block, operation, addresses, element)
    mode = operation.attributes.get("mode", "xchg")
    before = np.empty(addresses.shape, element.dtype)
    left = np.arange(len(addresses))
    while len(left):
        _, first = np.unique(addresses[left], return_index=True)
        turn = left[np.sort(first)]
        old = gather(block, operation, addresses[turn], element)
        new = updated(mode, old, values[turn], element)
        if compare is not None:  # compare bits: NaN equals itself, and 0 is not -0
            width = f"u{element.stored.itemsize}"
            here, wanted = (
                np.ascontiguousarray(encoded(one, element)).view(width)
                for one in (old, compare.reshape(-1)[turn])
            )
            new = np.where(here == wanted, new, old)
        before[turn] = old
        scatter(block, operation, addresses[turn], new, element)
        left = np.setdiff1d(left, turn, assume_unique=True)
    return before


def argument(raw: bytes, element: Element) -> np.ndarray:
    """Return a kernel's parameter from its bytes. Raises LaunchError if there are too few."""
    if len(raw) != element.size:
        raise LaunchError(f"{many(len(raw), 'byte')} for a parameter of {element.size} ({element})")
    return decoded(np.frombuffer(raw, element.stored)[0], element).reshape(())
