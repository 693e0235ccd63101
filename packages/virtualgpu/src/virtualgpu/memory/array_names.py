"""Names for addresses in messages: argument and element, ``values[71009] of 71009``.

PTX identifies parameters by number and size. A frontend that knows how its arrays become
parameters registers their names with the kernel. Messages name the arrays of other kernels by the
number of the argument. Nothing in this module runs during a launch without errors.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from virtualgpu.memory.global_memory import GUARD
from virtualgpu.wording import many


@dataclass(frozen=True, slots=True)
class ArrayParameter:
    """Array argument, which takes several parameters of 8 bytes.

    Attributes
    ----------
    name : str
        Name of the parameter in the kernel's source.
    position : int
        Number of the parameter that holds the address of element 0. The array's shape follows,
        then its strides in bytes.
    dimensions : int
        At least 1.
    itemsize : int
        Bytes of an element, if an offset precedes the shape, and offset and strides are in
        elements (MLIR's memref). It is 0 if strides are in bytes.
    """

    name: str
    position: int
    dimensions: int
    itemsize: int = 0


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Arrays:
    """Array arguments of a kernel, registered for as long as this object exists."""

    parameters: tuple[ArrayParameter, ...]


_registered: weakref.WeakValueDictionary[str, Arrays] = weakref.WeakValueDictionary()


def register(entry: str, parameters: tuple[ArrayParameter, ...]) -> Arrays:
    """Register the arrays of the kernel that PTX calls ``entry``.

    A kernel keeps the returned object, because the names are dropped with it.
    """
    arrays = _registered.get(entry)
    if arrays is None or arrays.parameters != parameters:
        arrays = _registered[entry] = Arrays(parameters)
    return arrays


def registered(entry: str) -> tuple[ArrayParameter, ...]:
    arrays = _registered.get(entry)
    return arrays.parameters if arrays else ()


@dataclass(frozen=True, slots=True)
class ArrayPosition:
    """Registered array, and the position of an address relative to it.

    ``distance`` is 0 inside the array. ``words`` are those of :func:`element`.
    """

    array: ArrayParameter
    shape: tuple[int, ...]
    distance: int
    words: str


def element(launch: Any, address: int) -> str | None:
    """Return the element of a registered array at or near ``address``, or None."""
    found = nearest(launch, address)
    return None if found is None else found.words


def nearest(launch: Any, address: int) -> ArrayPosition | None:
    """Return the registered array that ``address`` is in or next to, or None."""
    if launch.memory.freed(address):
        return None
    parameters = _parameters(launch)
    places = [
        _place(array, parameters, address)
        for array in registered(launch.program.entry_code.function.name)
    ]
    near = [place for place in places if place.distance < GUARD]
    return min(near, key=lambda place: place.distance, default=None)


def argument(launch: Any, address: int, size: int) -> str | None:
    """Return the element by its argument, for example ``7 of 7 of argument 0``.

    Elements have ``size`` bytes.
    """
    places: list[tuple[int, str]] = []
    for number, pointer in _parameters(launch).items():
        if (extent := launch.memory.extent(pointer)) is not None:
            start, end = extent
            places.append(
                (
                    _outside(address, start, end - 1),
                    f"{(address - start) // size} of {(end - start) // size} of argument {number}",
                )
            )
    near = [place for place in places if place[0] < GUARD]
    return min(near, key=lambda place: place[0])[1] if near else None


def _parameters(launch: Any) -> dict[int, int]:
    """Return the 8-byte parameters as unsigned integers, by their numbers."""
    program, word = launch.program, np.dtype(np.uint64)
    return {
        number: int(launch.parameter(program.parameter_offsets[variable.name], word)[0])
        for number, variable in enumerate(program.entry_code.function.parameters)
        if variable.size == 8
    }


def _place(array: ArrayParameter, parameters: dict[int, int], address: int) -> ArrayPosition:
    n, at, unit = array.dimensions, array.position, array.itemsize or 1
    start, *rest = (parameters[at + k] for k in range(1 + 2 * n + bool(array.itemsize)))
    signed = np.array(rest, np.uint64).view(np.int64).tolist()
    if array.itemsize:
        start += unit * signed.pop(0)
    shape, strides = signed[:n], [unit * stride for stride in signed[n:]]
    ends = [(length - 1) * stride for length, stride in zip(shape, strides, strict=True)]
    distance = _outside(
        address, start + sum(e for e in ends if e < 0), start + sum(e for e in ends if e > 0)
    )
    index, left = [0] * n, address - start
    for axis in sorted(range(n), key=lambda axis: -abs(strides[axis])):
        if strides[axis]:
            steps, left = divmod(left, abs(strides[axis]))
            index[axis] = steps if strides[axis] > 0 else -steps
    if 0 in shape:
        words = f"{array.name}, which has no elements"
    elif min(index) < 0:
        words = f"{many(distance, 'byte')} before {array.name}"
    else:
        words = element_of(array.name, index, shape)
    return ArrayPosition(array, tuple(shape), distance, words)


def element_of(name: str, index: Sequence[int], shape: Sequence[int]) -> str:
    """Return the name of an element, for example ``a[7] of 7`` or ``a[3, 14] of (5, 7)``."""
    extent = str(shape[0]) if len(shape) == 1 else str(tuple(shape))
    return f"{name}[{', '.join(map(str, index))}] of {extent}"


def _outside(address: int, low: int, high: int) -> int:
    return max(low - address, address - high, 0)
