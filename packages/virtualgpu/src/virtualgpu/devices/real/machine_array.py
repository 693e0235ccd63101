"""Copies on the virtual GPU of NumPy, Numba, CuPy and JAX arrays, on a machine with a real GPU."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from virtualgpu.devices import Device
from virtualgpu.memory.plain_dtypes import demand_plain


class MachineArray:
    """Copy of a host array on a virtual device, with the original's strides.

    A view with gaps keeps its gaps, because the layout decides what an access costs. Like the
    arrays of numba-cuda and CuPy, it has ``shape``, ``strides``, ``dtype``,
    ``__cuda_array_interface__`` and ``copy_to_host``. Its memory is freed with it. An array of
    Python objects raises TypeError.
    """

    def __init__(self, host: np.ndarray, machine: Device):
        demand_plain(host.dtype)
        self.shape, self.strides, self.dtype = host.shape, host.strides, host.dtype
        self.size, self.ndim = host.size, host.ndim
        self.layout = "C" if host.flags.c_contiguous else "F" if host.flags.f_contiguous else "A"
        self._machine = machine
        low, high = np.lib.array_utils.byte_bounds(host) if host.size else (0, 0)
        self._start = host.__array_interface__["data"][0] - low if host.size else 0
        self._nbytes = high - low
        self._base = machine.allocate(self._nbytes) if host.size else 0
        if host.size:
            weakref.finalize(self, machine.free, self._base).atexit = False
            self._before = np.zeros(self._nbytes, np.uint8)
            self._view(self._before)[...] = host
            machine.write(self._base, self._before)

    def _view(self, span: np.ndarray) -> np.ndarray:
        return np.ndarray(self.shape, self.dtype, span, self._start, self.strides)

    @property
    def address(self) -> int:
        """Return the address of the first element; 0 for an empty array."""
        return self._base + self._start

    @property
    def __cuda_array_interface__(self) -> dict:
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "version": 3,
        }

    def copy_to_host(self) -> np.ndarray:
        """Copy the elements into a new array with the same shape and order of axes."""
        if not self.size:
            return np.empty(self.shape, self.dtype)
        return np.array(self._view(self._machine.read(self._base, self._nbytes)), order="K")

    @property
    def changed(self) -> bool:
        """Return True if the elements differ from their initial values."""
        return bool(self.size) and not np.array_equal(
            self._machine.read(self._base, self._nbytes), self._before
        )

    def parameters(self) -> list[bytes]:
        """Return the parameters as numba-cuda's ``_Kernel._prepare_args`` flattens an array."""
        numbers = (0, 0, self.size, self.dtype.itemsize, self.address, *self.shape, *self.strides)
        return [int(number).to_bytes(8, "little", signed=True) for number in numbers]


def host_copy(value: Any) -> np.ndarray | None:
    """Return an array of NumPy, numba-cuda, CuPy or JAX as a NumPy array, or None."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(type(value), "copy_to_host"):
        return value.copy_to_host()
    if getattr(value, "__cuda_array_interface__", None) is None:
        return None
    return value.get() if hasattr(value, "get") else np.asarray(value)


def give_back(value: Any, result: np.ndarray) -> None:
    """Copy a kernel's results back into ``value``; JAX arrays never change."""
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value[...] = result
    elif hasattr(value, "copy_to_device"):
        if value.is_c_contiguous() or value.is_f_contiguous():
            value.copy_to_device(result)
        else:
            _into_gaps(value, result)
    elif hasattr(value, "set"):
        value.set(result)


def _into_gaps(value: Any, result: np.ndarray) -> None:
    """Write to a numba-cuda view with gaps, which numba-cuda's own copies refuse.

    The whole span of the view is fetched, and copied back with the view's elements changed.
    """
    reach = [step * (n - 1) for step, n in zip(value.strides, value.shape, strict=True)]
    start = -sum(step for step in reach if step < 0)
    nbytes = sum(map(abs, reach)) + value.dtype.itemsize
    span = type(value)((nbytes,), (1,), np.dtype(np.uint8), gpu_data=value.gpu_data)
    raw = span.copy_to_host()
    np.ndarray(value.shape, value.dtype, raw, start, value.strides)[...] = result
    span.copy_to_device(raw)
