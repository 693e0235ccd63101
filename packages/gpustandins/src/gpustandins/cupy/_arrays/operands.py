"""Conversion of operands for NumPy, and of NumPy's results to device arrays."""

from __future__ import annotations

import numpy as np

from virtualgpu.standins.interface import devices

from ..cuda.memory import MemoryPointer, UnownedMemory
from .core import from_host, ndarray, supported, view, view_of

SCALARS = (bool, int, float, complex, np.generic)


def as_array(x) -> ndarray | None:
    """Return ``x`` as a CuPy array if it lies on the device (also a Numba array), else None."""
    if isinstance(x, ndarray):
        return x
    if isinstance(x, SCALARS):
        return None
    if hasattr(x, "__cupy_get_ndarray__"):
        return x.__cupy_get_ndarray__()
    interface = getattr(x, "__cuda_array_interface__", None)
    return None if interface is None else from_interface(interface, x)


def from_interface(interface: dict, owner) -> ndarray:
    """Return an array over the memory described by a ``__cuda_array_interface__``."""
    if interface.get("mask") is not None:
        raise ValueError("CuPy currently does not support masked arrays.")
    dtype = np.dtype(interface["typestr"])
    if dtype.kind == "V" and interface.get("descr"):
        dtype = np.dtype([tuple(one) for one in interface["descr"]])
    if dtype.byteorder == ">":
        raise ValueError("CuPy does not support the big-endian byte-order")
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    size = int(np.prod(shape, dtype=np.int64))
    pointer = interface["data"][0] if size else 0
    low = high = 0
    if size:
        steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)] if strides else []
        low = sum(step for step in steps if step < 0)
        high = (
            sum(step for step in steps if step > 0) if strides else (size - 1) * dtype.itemsize
        ) + dtype.itemsize
    mem = UnownedMemory(pointer + low, high - low, owner)
    # Dates and times are accepted in place, so that users can view them as integers.
    kept = np.dtype(np.int64) if dtype.kind in "Mm" else supported(dtype)
    made = ndarray(shape, kept, MemoryPointer(mem, -low), strides)
    made._host = made._host.view(dtype)
    return made


def operand(x):
    """Return NumPy's operand for ``x``: the host view of an array, or the scalar itself.

    Raises TypeError for everything else, including NumPy arrays and lists, because a kernel cannot
    access them.
    """
    array = as_array(x)
    if array is not None:
        on_this_device(array)
        return _worked_on(array)
    if isinstance(x, SCALARS):
        return x
    raise TypeError(f"Unsupported type {type(x)}")


def on_this_device(array: ndarray) -> None:
    """Raise ValueError for an array on another device, as CuPy does without peer access."""
    if len(devices.every()) > 1 and array.size and array.data.device_id != devices.number():
        raise ValueError(
            f"The device where the array resides ({array.data.device_id}) is different from the "
            f"current device ({devices.number()}), and peer access is not available between them: "
            "copy it here with cupy.asarray(array), or compute there in a `with array.device:` "
            "block"
        )


def on_host(x):
    """Return the host view of a device array, or any other object unchanged."""
    array = as_array(x)
    return x if array is None else _worked_on(array)


def _worked_on(array: ndarray) -> np.ndarray:
    """Return the host view. Raises VirtualGPUError for an array too large for the host."""
    if hasattr(array._host, "demand_part"):
        array._host.demand_part("work of the host")
    return array._host


def wrap(result, arrays: list[ndarray]):
    """Convert NumPy arrays and scalars to CuPy arrays; return anything else unchanged.

    A result that shares memory with one of ``arrays`` becomes a view of that array.
    """
    if isinstance(result, np.ndarray):
        return _array(result, arrays)
    if isinstance(result, np.generic):
        return from_host(np.asarray(result))
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(wrap(one, arrays) for one in result))
    if isinstance(result, tuple | list):
        return type(result)(wrap(one, arrays) for one in result)
    return result


def _array(result: np.ndarray, arrays: list[ndarray]) -> ndarray:
    result = np.asarray(result)  # converts masked arrays and matrices
    if not result.size:
        for array in arrays if result.base is not None else ():
            if result.base is array._host or result.base is array._host.base:
                return view_of(array, result)
    else:
        address = result.__array_interface__["data"][0]
        for array in arrays:
            mem = array._mem
            if not mem.ptr:
                continue
            offset = mem._machine.address_of(address) - mem.ptr
            if 0 <= offset < max(mem.size, 1):
                # NumPy makes some views read-only that CuPy does not (reading flags.writeable would
                # give warnings).
                if result.__array_interface__["data"][1]:
                    result = mem.window(result.shape, result.dtype, offset, result.strides)
                return view(result, mem, array if array._base is None else array._base)
    return from_host(result)
