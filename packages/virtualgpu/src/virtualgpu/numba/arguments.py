"""Host arrays as kernel arguments: they are copied to the device for a launch, and back.

numba-cuda does this with buffers of cuda.core, which need a driver. These functions replace it
(see :mod:`virtualgpu.numba.hooks`). A view with gaps is copied together with the bytes between its
elements, so that its strides are also valid on the device.
"""

from __future__ import annotations

import inspect
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from virtualgpu import devices
from virtualgpu.memory.array_names import ArrayParameter
from virtualgpu.memory.plain_dtypes import demand_plain


class ArrayLayout(NamedTuple):
    """Layout of an array argument: ``fixed`` parameters, and two for each dimension.

    ``address`` is the index of the parameter with the address of element 0. If an offset follows
    it and strides count elements, ``item_size`` returns the bytes of an element of a type, or None
    for a type that only an extension knows.
    """

    fixed: int
    address: int
    item_size: Callable[[Any], int | None] | None = None


#: numba-cuda: meminfo, parent, size, itemsize, data, shape, strides.
NUMBA_CUDA = ArrayLayout(fixed=5, address=4)


def array_parameters(
    py_func, argument_types: Iterable, layout: ArrayLayout = NUMBA_CUDA, types: Any = None
) -> tuple[ArrayParameter, ...]:
    """Return the positions of array arguments in a kernel's parameters.

    ``types`` are Numba's, or those of its successor. From the first argument whose parameters only
    an extension knows, no positions are returned, nor are those of arrays whose element type only
    an extension knows.
    """
    if types is None:
        from numba.cuda import types as numba_types

        types = numba_types

    found: list[ArrayParameter] = []
    position = 0

    def add(name: str, kind) -> bool:
        nonlocal position
        if isinstance(kind, types.BaseTuple):
            return all(add(f"{name}[{k}]", item) for k, item in enumerate(kind))
        if isinstance(kind, types.Array):
            size = layout.item_size(kind.dtype) if layout.item_size else 0
            if kind.ndim and size is not None:
                found.append(ArrayParameter(name, position + layout.address, kind.ndim, size))
            position += layout.fixed + 2 * kind.ndim
            return True
        position += 2 if isinstance(kind, types.Complex) else 1
        return isinstance(kind, (types.Number, types.Boolean, types.CPointer, types.Record))

    code = py_func.__code__
    names = code.co_varnames[: code.co_argcount + bool(code.co_flags & inspect.CO_VARARGS)]
    all(add(name, kind) for name, kind in zip(names, argument_types, strict=False))
    return tuple(found)


def view_class(devicearray):
    """Return a class of strided device views that free their memory when they are deleted."""

    class DeviceView(devicearray._StridedMemoryViewShim):
        __slots__ = ("__weakref__", "base", "host", "nbytes")

    return DeviceView


def to_strided_memory_view(devicearray, DeviceView):
    """Return the replacement for numba-cuda's function of that name."""
    from cuda.core.utils import StridedMemoryView
    from numba.cuda.cudadrv import driver

    def layout(strides, shape, itemsize):
        flags = (
            np.lib.stride_tricks.as_strided(
                np.zeros(1, np.uint8).view(f"V{1}"), shape, [s // itemsize for s in strides]
            ).flags
            if itemsize and all(s % itemsize == 0 for s in strides)
            else None
        )
        c = bool(flags and flags.c_contiguous)
        f = bool(flags and flags.f_contiguous)
        return devicearray._StridedLayoutShim(
            strides_in_bytes=tuple(strides),
            is_contiguous_c=c,
            is_contiguous_f=f,
            is_contiguous_any=c or f,
        )

    def make(pointer, shape, strides, dtype):
        demand_plain(dtype)
        size = int(np.prod(shape, dtype=np.int64))
        return DeviceView(
            ptr=pointer,
            shape=tuple(shape),
            dtype=dtype,
            size=size,
            _layout=layout(strides, shape, dtype.itemsize),
        )

    def convert(obj, stream=0, copy=True, user_explicit=False):
        if isinstance(obj, StridedMemoryView | DeviceView):
            return obj, False
        if driver.is_device_memory(obj):
            return obj._strided_memory_view_shim, False
        if (desc := getattr(obj, "__cuda_array_interface__", None)) is not None:
            if desc.get("stream") is not None and devicearray.config.CUDA_ARRAY_INTERFACE_SYNC:
                context = devicearray.devices.get_context()
                context.create_external_stream(desc["stream"]).synchronize()
            dtype = np.dtype(desc["typestr"])
            demand_plain(dtype)
            strides = desc.get("strides") or np.empty(desc["shape"], dtype).strides
            return make(desc["data"][0], desc["shape"], strides, dtype), False
        if not isinstance(obj, np.ndarray | np.generic) and hasattr(obj, "__dlpack__"):
            obj = np.from_dlpack(obj)
        host = np.asanyarray(obj)
        demand_plain(host.dtype)
        if (
            copy
            and devicearray.config.CUDA_WARN_ON_IMPLICIT_COPY
            and not (devicearray.config.DISABLE_PERFORMANCE_WARNINGS or user_explicit)
        ):
            if isinstance(obj, np.ndarray):
                devicearray.warn(
                    devicearray.NumbaPerformanceWarning(
                        "Host array used in CUDA kernel will incur copy overhead to/from device "
                        "in each launch: cuda.to_device(array) copies it once"
                    ),
                    stacklevel=_outside(),
                )
        if not host.size:
            return make(0, host.shape, host.strides, host.dtype), True
        low, high = np.lib.array_utils.byte_bounds(host)
        current = devices.current()
        base = current.allocate(high - low)
        view = make(
            base + host.__array_interface__["data"][0] - low, host.shape, host.strides, host.dtype
        )
        weakref.finalize(view, current.free, base)
        view.base, view.host, view.nbytes = base, low, high - low
        if copy or high - low != host.nbytes:
            current.write(base, _bytes_at(low, high - low))
        return view, True

    return convert


def _outside() -> int:
    """Return the number of stack frames from here that belong to Numba or to this package."""
    inside = tuple(
        os.path.join(os.path.dirname(module.__file__ or ""), "")
        for module in (sys.modules["virtualgpu"], sys.modules["numba.cuda"])
    )
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    return level


def out_to_device(convert):
    """Return the replacement for ``Out.to_device`` and ``InOut.to_device``.

    It copies the array back after the launch.
    """

    def to_device(self, retr, stream=0):
        view, copied = convert(self.value, stream, copy=self.__class__.copy_input)
        if copied and view.size:

            def back():
                _bytes_at(view.host, view.nbytes)[:] = devices.current().read(
                    view.base, view.nbytes
                )

            value = self.value
            if isinstance(value, np.ndarray) and not value.flags.writeable:
                raise ValueError(
                    "cannot write back to a read-only array; pass cuda.In(array), or a copy"
                )
            retr.append(back)
        else:
            retr.append(lambda: view)
        return view

    return to_device


def _bytes_at(pointer: int, nbytes: int) -> np.ndarray:
    import ctypes

    raw: Any = (ctypes.c_uint8 * nbytes).from_address(pointer)  # missing in NumPy's stubs
    return np.frombuffer(raw, np.uint8)
