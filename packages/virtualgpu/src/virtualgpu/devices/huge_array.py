"""``virtualgpu.huge()``: arrays that take memory only where they are touched."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from virtualgpu.devices import current
from virtualgpu.devices.virtual import VirtualDevice
from virtualgpu.errors import VirtualGPUError
from virtualgpu.memory import part_view
from virtualgpu.memory.huge import Rule
from virtualgpu.memory.part_view import PartView, is_basic
from virtualgpu.memory.plain_dtypes import demand_plain
from virtualgpu.memory.sparse import tells


def huge(shape: int | Iterable[int], dtype: Any = float, fill: Any = 0) -> HugeArray:
    """Return an array on the virtual GPU that takes memory only where it is touched.

    >>> x = virtualgpu.huge(2**33, np.float32, fill="index")
    >>> with virtualgpu.sample(blocks=16):
    ...     kernel[2**25, 256](x)
    >>> x[-4:].get()

    Every element has an address, but the array does not count as used device memory. Kernels of
    Numba, CuPy, PyCUDA, Triton and cuTile accept it, and ``cupy.asarray(x)`` returns the same
    memory as a CuPy array. The host can only copy and compute on parts of at most 1 GiB.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
        Numbers, booleans or records of them.
    fill : number, "index", callable or None
        Initial values of the elements: a number, their index in C order, or the result of a
        function of an array of indices (int64). Zero costs nothing. With any other value, each
        launch runs at least twice, the first time to find out which pages it touches. With None,
        elements are zero but count as unwritten, so that ``check()`` reports a read.

    Raises
    ------
    ValueError
        The shape has no elements, or a negative length.
    TypeError
        The elements are Python objects.
    OutOfMemory
        The array has more bytes than the virtual GPU has addresses for.
    VirtualGPUError
        The current device is not a virtual GPU in this process, or the system does not report
        which pages are touched.
    """
    lengths = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    lengths = tuple(map(operator.index, lengths))
    if min(lengths, default=1) < 1:
        raise ValueError(f"huge: an array of shape {lengths}; each length must be at least 1")
    kind = np.dtype(dtype)
    demand_plain(kind, "a huge array")
    if not tells():
        raise VirtualGPUError(
            "huge arrays need a system that reports which pages are touched: Linux, with "
            "/proc/self/pagemap"
        )
    machine = current()
    if not isinstance(machine, VirtualDevice):
        raise VirtualGPUError(
            f"huge arrays need a virtual GPU in this process, and {machine.name!r} is not one"
        )
    nbytes = math.prod(lengths) * kind.itemsize
    memory = machine.memory
    address = memory.allocate(nbytes, huge=(kind, _rule(fill, kind)))
    if fill is not None:
        memory.wrote(address, nbytes)
    view = part_view.of(memory.mapping.view(address, lengths, kind), memory.huge[address])
    return HugeArray(machine, address, view, None)


def _rule(fill: Any, dtype: np.dtype) -> Rule | None:
    if fill is None or callable(fill):
        return fill
    if isinstance(fill, str):
        if fill != "index":
            raise ValueError(f'huge: fill={fill!r}; pass a number, "index", a function or None')
        return lambda index: index
    value = np.asarray(fill, dtype)
    if value.shape:
        raise ValueError(f"huge: fill has shape {value.shape}; pass one number for all elements")
    return None if not any(value.tobytes()) else lambda index: value


class HugeArray:
    """Array that :func:`huge` returns, or a part of it: ``array[a:b]``.

    It has ``shape``, ``strides``, ``dtype``, ``size``, ``nbytes`` and
    ``__cuda_array_interface__``.
    """

    def __init__(
        self, machine: VirtualDevice, address: int, view: PartView, base: HugeArray | None
    ):
        self._machine, self._view, self._base = machine, view, base
        self._address = address
        self.shape, self.strides, self.dtype = view.shape, view.strides, view.dtype
        self.size, self.ndim, self.nbytes = view.size, view.ndim, view.nbytes
        if base is None:
            weakref.finalize(self, machine.free, address).atexit = False

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self._address, False),
            "version": 3,
        }

    def data_ptr(self) -> int:
        """Return the address of the first element, under the name that Triton uses."""
        return self._address

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> HugeArray:
        """Return a part that shares the memory. Keys are integers, slices, ``...`` and None."""
        if not is_basic(key):
            raise TypeError("a huge array can only be indexed with integers and slices")
        keys = key if isinstance(key, tuple) else (key,)
        part: Any = self._view[keys if ... in keys else (*keys, ...)]
        address = self._machine.address_of(part.ctypes.data) if part.size else 0
        return HugeArray(self._machine, address, part, self._base or self)

    def __setitem__(self, key: Any, value: Any) -> None:
        part = self[key]
        part._view[...] = value
        if part.size:
            low, high = np.lib.array_utils.byte_bounds(part._view.view(np.ndarray))
            self._machine.wrote(self._machine.address_of(low), high - low)

    def get(self) -> np.ndarray:
        """Return a copy on the host. Raises VirtualGPUError for a part of more than 1 GiB."""
        self._view.demand_part("copy to the host")
        return np.array(self._view)

    copy_to_host = get

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("a huge array does not fit a NumPy array: copy a part with x[a:b].get()")

    def __repr__(self) -> str:
        return f"<huge array of shape {self.shape}, {self.dtype}: x[a:b].get() copies a part>"
