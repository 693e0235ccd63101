"""Execution of one block: its values, and the effect of each operation.

A block is a Python generator. It yields whenever it may be waiting for other blocks, which is at
the end of a loop iteration in which it accessed memory with an atomic or a memory order. The
launch (:mod:`.launch`) then runs the other blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from virtualgpu.errors import Location, TrapError, VirtualGPUError
from virtualgpu.tile import access, arithmetic, reductions, shapes, views
from virtualgpu.tile.body import Region, TileOperation
from virtualgpu.tile.events import WatchedTileLaunch
from virtualgpu.tile.types import Element
from virtualgpu.wording import many

_FORMAT = re.compile(r"%([-+ #0]*)(\d{0,4})(\.\d{1,3})?(?:hh|h|ll|l|z|j|t)?([a-zA-Z%])")
PRINTED = 4096  # elements of a tile that are printed


class TileBlock:
    """A block of a launch.

    ``index`` is its index in the grid, ``number`` its number among the blocks that run.
    """

    def __init__(self, launch: WatchedTileLaunch, number: int):
        self.launch, self.number = launch, number
        self.index = launch.block_index(number)
        self.values: list[Any] = [None] * launch.kernel_code.values
        self.waits = False
        self.watched = bool(launch.watchers)
        self.window: views.Window | None = None  # of a view, which it is accessing
        self.memory: list[int] = []  # allocations of its allocas

    def location(self, operation: TileOperation | None) -> Location:
        source = operation.source if operation is not None else None
        return Location(
            self.launch.kernel,
            source.filename if source else None,
            source.line if source else None,
            self.index,
        )

    def touched(
        self, kind: str, operation: TileOperation, addresses: np.ndarray, element: Element
    ) -> None:
        """Report a ``load``, ``store`` or ``atomic`` of elements to the watchers."""
        order = operation.attributes["order"]
        if kind == "atomic" or order != "weak":
            self.waits = True
        for watcher in self.launch.watchers:
            watcher.accessed(self, kind, operation, addresses.reshape(-1), element.size, order)

    def collided(self, operation: TileOperation, addresses: np.ndarray) -> None:
        """Report to the watchers that one store had several values for these addresses."""
        for watcher in self.launch.watchers:
            watcher.collided(self, operation, addresses)

    def unspecified(
        self,
        operation: TileOperation,
        tile: np.ndarray,
        valid: np.ndarray,
        window: views.Window | None = None,
    ) -> None:
        """Report to the watchers that only the ``valid`` elements of a tile are specified."""
        for watcher in self.launch.watchers:
            watcher.loaded(self, operation, tile, valid, window)

    def stores(self, operation: TileOperation, tile: np.ndarray, valid: np.ndarray | None) -> None:
        for watcher in self.launch.watchers:
            watcher.storing(self, operation, tile, valid)

    def run(self) -> Iterator[None]:
        """Run the whole kernel."""
        body = self.launch.kernel_code.body
        self.values[: len(body.arguments)] = self.launch.arguments
        try:
            yield from self.region(body)
        finally:
            for address in self.memory:
                self.launch.memory.free(address)

    def region(self, region: Region):
        """Run a region to its end; return the operation that ended it and the yielded values."""
        values, launch = self.values, self.launch
        for operation in region.operations:
            launch.count(self, operation)
            given = [values[one] for one in operation.operands]
            try:
                if operation.opcode.types == ":leave":
                    return operation.name, given
                if operation.name in CONTROL:
                    ended = yield from CONTROL[operation.name](self, operation, given)
                    if ended is not None:
                        return ended
                    continue
                run = operation.run
                results = (
                    run(operation, *given)
                    if run
                    else MEMORY[operation.name](self, operation, given)
                )
            except VirtualGPUError as error:
                if error.location is None:
                    raise type(error)(error.message, self.location(operation)) from None
                raise
            except (
                ArithmeticError,
                AttributeError,
                LookupError,
                MemoryError,
                TypeError,
                ValueError,
            ) as error:  # an error that no type rule excludes
                raise VirtualGPUError(
                    f"{operation}: {type(error).__name__}: {error}", self.location(operation)
                ) from error
            if len(operation.results) == 1 and run is not None and not isinstance(results, list):
                values[operation.at] = results
            else:
                values[operation.at : operation.at + len(operation.results)] = results
            if self.watched:
                for watcher in launch.watchers:
                    watcher.computed(self, operation)
        return "return", []

    def put(self, operation: TileOperation, results: list) -> None:
        self.values[operation.at : operation.at + len(results)] = results


# -- control flow --------------------------------------------------------------------------------


def _if(block: TileBlock, operation: TileOperation, given: list):
    taken = operation.regions[0 if bool(given[0]) else 1]
    how, handed = yield from block.region(taken)
    if how != "yield":
        return how, handed
    block.put(operation, handed)
    return None


def _for(block: TileBlock, operation: TileOperation, given: list):
    lower, upper, step = (int(one) for one in given[:3])
    dtype = operation.types[0].element.dtype
    if "unsigned" in operation.flags:
        mask = (1 << dtype.itemsize * 8) - 1
        lower, upper, step = lower & mask, upper & mask, step & mask
    if step <= 0:
        raise VirtualGPUError(f"a loop with the step {step}; a step must be positive")
    region, carried, unsigned = operation.regions[0], given[3:], np.dtype(f"u{dtype.itemsize}")
    for number in range(lower, upper, step):
        at = unsigned.type(number & ((1 << dtype.itemsize * 8) - 1))
        block.values[region.at] = (
            np.bool_(number) if dtype.kind == "b" else np.asarray(at).view(dtype)
        )
        block.values[region.at + 1 : region.at + 1 + len(carried)] = carried
        how, carried = yield from block.region(region)
        if how == "return":
            return how, carried
        yield from _rest(block)
    block.put(operation, carried)
    return None


def _loop(block: TileBlock, operation: TileOperation, given: list):
    region, carried = operation.regions[0], given
    while True:
        block.values[region.at : region.at + len(carried)] = carried
        how, carried = yield from block.region(region)
        if how == "return":
            return how, carried
        if how == "break":
            break
        yield from _rest(block)
    block.put(operation, carried)
    return None


def _rest(block: TileBlock):
    """Let other blocks run after an iteration that read what they write."""
    if block.waits:
        block.waits = False
        yield


CONTROL: dict[str, Callable] = {"if": _if, "for": _for, "loop": _loop}


# -- memory and the grid -------------------------------------------------------------------------


def _masked(operation: TileOperation, given: list) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the addresses, and a mask of the active ones (None: all)."""
    places = dict(zip(operation.operands, given, strict=True))
    pointers = np.asarray(given[0])
    return pointers, places.get(operation.named.get("mask", -1))


def _load(block: TileBlock, operation: TileOperation, given: list) -> list:
    element, (pointers, mask) = operation.results[0].element, _masked(operation, given)
    block.window = None
    if mask is None:
        block.touched("load", operation, pointers, element)
        return [access.gather(block, operation, pointers, element), None]
    if "padding" in operation.flags:
        result = np.array(given[operation.operands.index(operation.named["padding"])])
    else:
        result = access.fill(element, pointers.shape, None)
    block.touched("load", operation, pointers[mask], element)
    result[mask] = access.gather(block, operation, pointers[mask], element)
    if "padding" not in operation.flags:
        block.unspecified(operation, result, mask)
    return [result, None]


def _store(block: TileBlock, operation: TileOperation, given: list) -> list:
    element, (pointers, mask) = operation.types[1].element, _masked(operation, given)
    value, block.window = np.asarray(given[1]), None
    block.stores(operation, value, mask)
    if mask is not None:
        pointers, value = pointers[mask], value[mask]
    block.touched("store", operation, pointers, element)
    access.scatter(block, operation, pointers, value, element)
    return [None]


def _atomic(block: TileBlock, operation: TileOperation, given: list) -> list:
    element, (pointers, mask) = operation.results[0].element, _masked(operation, given)
    value, compare = np.asarray(given[-1 - len(operation.flags)]), None
    block.window = None
    block.stores(operation, value, mask)
    if operation.name == "atomic_cas_tko":
        compare = np.asarray(given[1])
    if mask is None:
        before = access.atomic(block, operation, pointers, value, element, compare)
        return [before.reshape(pointers.shape), None]
    # If nothing is compared, cuTile reports that the value was as expected.
    result = access.fill(element, pointers.shape, None) if compare is None else compare.copy()
    result[mask] = access.atomic(
        block,
        operation,
        pointers[mask],
        value[mask],
        element,
        None if compare is None else compare[mask],
    )
    return [result, None]


def _window(block: TileBlock, operation: TileOperation) -> views.Window:
    tiled = block.values[operation.named["view"]]
    made = views.window(tiled, [block.values[one] for one in operation.named["indices"]])
    promised = operation.attributes.get("inbounds", ())
    if any(promised):
        for place, one in enumerate(made.places):
            size = tiled.array.shape[tiled.type.dims[place]]
            if promised[place] and one.size and not (one.min() >= 0 and one.max() < size):
                raise access.MemoryAccessError(
                    f"{access.verb(operation)} of element {views.shown(made.outside())} of an "
                    f"array of shape {tiled.array.shape}, although the kernel promises that its "
                    "tiles are inside (check_bounds=False)",
                    block.location(operation),
                )
    block.window = made
    for watcher in block.launch.watchers:
        watcher.windowed(block, operation, made)
    return made


def _load_view(block: TileBlock, operation: TileOperation, given: list) -> list:
    made = _window(block, operation)
    result = access.load_window(block, operation, made)
    if made.tiled.type.padding is None and block.watched and not made.inside:
        block.unspecified(operation, result, made.valid(), made)
    return [result, None]


def _store_view(block: TileBlock, operation: TileOperation, given: list) -> list:
    made, tile = _window(block, operation), np.asarray(given[0])
    if block.watched:
        block.stores(operation, tile, made.valid())
    access.store_window(block, operation, made, tile)
    return [None]


def _reduce_view(block: TileBlock, operation: TileOperation, given: list) -> list:
    made, value = _window(block, operation), np.asarray(block.values[operation.named["value"]])
    valid = made.valid()
    block.stores(operation, value, valid)
    access.atomic(
        block, operation, made.addresses()[valid], value[valid], made.tiled.type.tensor.element
    )
    return [None]


def _make_tensor(block: TileBlock, operation: TileOperation, given: list) -> list:
    tensor = operation.results[0]
    values, named = block.values, operation.named
    sizes = iter([int(values[one]) for one in named["shape"]])
    strides = iter([int(values[one]) for one in named["strides"]])
    return [
        views.Array(
            tensor,
            int(given[0]),
            tuple(next(sizes) if one is None else one for one in tensor.shape),
            tuple(next(strides) if one is None else one for one in tensor.strides),
        )
    ]


def _sizes(block: TileBlock, operation: TileOperation, given: list) -> list:
    found = given[0].shape if isinstance(given[0], views.Array) else given[0].counts()
    return [
        np.asarray(size).astype(one.element.dtype)
        for size, one in zip(found, operation.results, strict=True)
    ]


def _alloca(block: TileBlock, operation: TileOperation, given: list) -> list:
    size = operation.attributes["count"] * operation.results[0].element.pointee.size
    address = block.launch.memory.allocate(max(size, 1))
    block.memory.append(address)
    return [np.asarray(address, np.int64)]


def _global(block: TileBlock, operation: TileOperation, given: list) -> list:
    return [np.asarray(block.launch.module.address(operation.attributes["name"]), np.int64)]


def _assert(block: TileBlock, operation: TileOperation, given: list) -> list:
    if not np.all(given[0]):
        raise TrapError(
            f"assertion failed: {operation.attributes['message']}", block.location(operation)
        )
    return []


def _print(block: TileBlock, operation: TileOperation, given: list) -> list:
    values = iter(given[: len(operation.named["values"])])

    def one(found: re.Match) -> str:
        flags, width, precision, kind = found.groups()
        if kind == "%":
            return "%"
        value = next(values, None)
        if value is None:
            return found.group()
        spec = f"%{flags}{width}{precision or ''}{'d' if kind in 'iu' else kind}"
        return _shown(np.asarray(value), spec)

    block.launch.write(_FORMAT.sub(one, operation.attributes["text"]))
    return [None] * len(operation.results)


def _shown(value: np.ndarray, spec: str) -> str:
    if value.ndim:
        if value.size > PRINTED:
            return f"[a tile of {many(value.size, 'element')}]"
        return f"[{', '.join(_shown(part, spec) for part in value)}]"
    number = value.item()
    try:
        return spec % (number if spec[-1] in "eEfFgGaA" else int(number))
    except (TypeError, ValueError, OverflowError):
        return str(number)


def _scalars(values) -> list:
    return [np.asarray(one, np.int32) for one in values]


def _nothing(block: TileBlock, operation: TileOperation, given: list) -> list:
    return [None] * len(operation.results)


MEMORY: dict[str, Callable[[TileBlock, TileOperation, list], list]] = {
    "load_ptr_tko": _load,
    "store_ptr_tko": _store,
    "atomic_rmw_tko": _atomic,
    "atomic_cas_tko": _atomic,
    "load_view_tko": _load_view,
    "store_view_tko": _store_view,
    "atomic_red_view_tko": _reduce_view,
    "make_tensor_view": _make_tensor,
    **dict.fromkeys(
        ("make_partition_view", "make_strided_view", "make_gather_scatter_view"),
        lambda block, operation, given: [views.Tiled(operation.results[0], given[0])],
    ),
    **dict.fromkeys(("get_tensor_shape", "get_index_space_shape"), _sizes),
    "get_tile_block_id": lambda block, operation, given: _scalars(block.index),
    "get_num_tile_blocks": lambda block, operation, given: _scalars(block.launch.grid),
    "reduce": reductions.reduced,
    "scan": reductions.scanned,
    "alloca": _alloca,
    "get_global": _global,
    "assert": _assert,
    "print_tko": _print,
    **dict.fromkeys(
        (
            "make_token",
            "join_tokens",
            "gdc_launch_dependents_tko",
            "gdc_wait_tko",
            "memory_fence_alias_tko",
        ),
        _nothing,
    ),
}


def bind(operation: TileOperation) -> None:
    """Return the function that executes an operation, looked up once for all its runs."""
    if operation.name == "constant":
        tile = arithmetic.constant(operation.attributes["value"], operation.results[0])
        operation.run = lambda _, tile=tile: tile
    else:
        operation.run = arithmetic.ELEMENTWISE.get(operation.name) or shapes.SHAPES.get(
            operation.name
        )
