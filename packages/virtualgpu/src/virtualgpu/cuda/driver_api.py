"""CUDA driver API on top of a :class:`~virtualgpu.devices.Device`.

There is one method for each function that numba-cuda calls, with the driver's names, arguments and
result codes (CUDA Driver API reference). Memory, modules and launches go to the device. Contexts
and streams are only bookkeeping, because every call completes before it returns.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
import warnings
import weakref
from typing import Any

import numpy as np
from cuda.bindings import driver as binding

from virtualgpu import devices
from virtualgpu.cuda.device_attributes import ATTRIBUTES, SHARED_PER_MULTIPROCESSOR
from virtualgpu.cuda.failure import DriverFailure as DriverFailure
from virtualgpu.cuda.interprocess_api import InterprocessAPI
from virtualgpu.errors import OutOfMemory, VirtualGPUError
from virtualgpu.launch.limits import blocks_per_multiprocessor
from virtualgpu.watch import queues

Result = binding.CUresult


class DevicePointer(binding.CUdeviceptr):
    """Device address with its device, because another device may use the same number."""

    def __init__(self, address: int):
        self.owner = weakref.ref(devices.current())
        self.freed = False


class _Contexts(threading.local):
    """Stack of the contexts that a thread has pushed, the current one last."""

    def __init__(self) -> None:
        self.stack: list[int] = []


class DriverAPI(InterprocessAPI):
    """Driver functions by name, which return bare values and raise DriverFailure."""

    def __init__(self):
        self._contexts = _Contexts()
        self._handles = itertools.count(0x1000)
        self._events: dict[int, float | None] = {}
        self._mapped: dict[int, tuple[DevicePointer, int]] = {}  # host address → bytes copied
        self._pinned: set[int] = set()
        self.host: dict[int, object] = {}  # host allocations: address → owner
        self.modules: dict[int, object] = {}
        self._warned = False

    @property
    def device(self) -> devices.Device:
        return devices.current()

    def _nothing(self, *arguments: Any) -> None:
        """Do nothing, because there is nothing to do or it is already done."""

    cuInit = cuProfilerStart = cuProfilerStop = _nothing
    cuDevicePrimaryCtxRelease = cuDevicePrimaryCtxReset = _nothing
    cuKernelSetCacheConfig = cuKernelSetAttribute = _nothing

    # -- devices and contexts ------------------------------------------------------------------

    def cuDriverGetVersion(self):
        return binding.CUDA_VERSION

    def cuDeviceGetCount(self):
        return len(devices.every())

    def cuDeviceGetAttribute(self, code, number):
        name = binding.CUdevice_attribute(code).name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        if name == "MAX":
            raise DriverFailure(Result.CUDA_ERROR_INVALID_VALUE, "cuDeviceGetAttribute")
        if name == "PCI_DEVICE_ID":
            return int(number)
        return ATTRIBUTES.get(name, 0)  # unlisted features do not exist: textures, pools, IPC

    @property
    def contexts(self) -> list[int]:
        """Return this thread's list of contexts (not a copy), the current one last."""
        return self._contexts.stack

    def cuCtxGetCurrent(self):
        stack = self._contexts.stack
        return binding.CUcontext(stack[-1] if stack else 0)

    def cuCtxSetCurrent(self, context):
        self._contexts.stack[-1:] = [int(context)] if int(context) else []
        self._select()

    def cuCtxPushCurrent(self, context):
        self._contexts.stack.append(int(context))
        self._select()

    def _select(self):
        stack = self._contexts.stack
        devices.select(stack[-1] - 1 if stack else 0)

    def cuCtxPopCurrent(self):
        stack = self._contexts.stack
        if not stack:
            raise DriverFailure(Result.CUDA_ERROR_INVALID_CONTEXT, "cuCtxPopCurrent")
        context = stack.pop()
        self._select()
        return binding.CUcontext(context)

    def cuCtxGetDevice(self):
        return binding.CUdevice(devices.number())

    def cuCtxSynchronize(self):
        self.device.synchronize()
        queues.tell("synchronize", None)

    def cuDeviceCanAccessPeer(self, one, other):
        return 0

    def cuCtxEnablePeerAccess(self, context, flags):
        raise DriverFailure(Result.CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "cuCtxEnablePeerAccess")

    # -- memory --------------------------------------------------------------------------------

    def cuMemGetInfo(self):
        total = self.device.total_memory
        reached = devices.shared(self.device)
        return (total - reached.allocated if reached is not None else total, total)

    def cuMemAlloc(self, nbytes):
        if nbytes == 0:
            raise DriverFailure(Result.CUDA_ERROR_INVALID_VALUE, "cuMemAlloc")
        try:
            return DevicePointer(self.device.allocate(int(nbytes)))
        except OutOfMemory:
            raise DriverFailure(Result.CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc") from None

    def cuMemAllocManaged(self, nbytes, flags):
        return self.cuMemAlloc(nbytes)

    def cuMemFree(self, pointer):
        """Free memory of :meth:`cuMemAlloc` once, on its own device, even if another is current."""
        if not isinstance(pointer, DevicePointer) or pointer.freed:
            raise DriverFailure(Result.CUDA_ERROR_INVALID_VALUE, "cuMemFree")
        pointer.freed = True
        if (device := pointer.owner()) is not None:  # else the memory went with the device
            device.free(int(pointer))

    def cuMemHostAlloc(self, nbytes, flags):
        if flags & binding.CU_MEMHOSTALLOC_DEVICEMAP:
            pointer = self.cuMemAlloc(nbytes)
            host = self.host_address(int(pointer), nbytes)
            self._mapped[host] = (pointer, 0)
            self.host[host] = pointer
            return host
        buffer = np.zeros(nbytes, np.uint8)
        self.host[buffer.ctypes.data] = buffer
        queues.pin(buffer.ctypes.data, nbytes)
        return buffer.ctypes.data

    def cuMemFreeHost(self, host):
        owner = self.host.pop(int(host), None)
        queues.unpin(int(host))
        self._mapped.pop(int(host), None)
        if isinstance(owner, DevicePointer):
            self.cuMemFree(owner)

    def cuMemHostRegister(self, host, nbytes, flags):
        if host in self._pinned:
            raise DriverFailure(
                Result.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "cuMemHostRegister"
            )
        self._pinned.add(host)
        queues.pin(host, nbytes)
        if flags & binding.CU_MEMHOSTREGISTER_DEVICEMAP:
            pointer = self.cuMemAlloc(nbytes)
            self._mapped[host] = (pointer, nbytes)
            self.cuMemcpyHtoD(pointer, host, nbytes)

    def cuMemHostUnregister(self, host):
        self._pinned.discard(host)
        queues.unpin(host)
        pointer, nbytes = self._mapped.pop(host, (None, 0))
        if pointer is not None:
            if (device := pointer.owner()) is not None:
                host_bytes(host, nbytes)[:] = device.read(int(pointer), nbytes)
            self.cuMemFree(pointer)

    def share_mapped(self, *, to_device: bool) -> None:
        """Copy ``cuda.mapped`` arrays to the device before a launch, or back after it."""
        if not self._mapped:
            return
        with queues.on(None):  # on a GPU there is nothing to copy
            for host, (pointer, nbytes) in self._mapped.items():
                if nbytes and pointer.owner() is self.device:
                    (
                        self.cuMemcpyHtoD(pointer, host, nbytes)
                        if to_device
                        else self.cuMemcpyDtoH(host, pointer, nbytes)
                    )

    def cuMemHostGetDevicePointer(self, host, flags):
        if int(host) not in self._mapped:
            raise DriverFailure(
                Result.CUDA_ERROR_INVALID_VALUE,
                "cuMemHostGetDevicePointer",
                "this memory was not mapped: pass CU_MEMHOSTALLOC_DEVICEMAP to cuMemHostAlloc, or "
                "CU_MEMHOSTREGISTER_DEVICEMAP to cuMemHostRegister",
            )
        return binding.CUdeviceptr(self._mapped[int(host)][0])

    def host_address(self, address: int, nbytes: int) -> int:
        """Return the host address of mapped or managed device memory."""
        reached = devices.shared(self.device)
        if reached is None:
            raise DriverFailure(Result.CUDA_ERROR_NOT_SUPPORTED, "cuMemHostAlloc")
        return reached.host_view(address, nbytes).ctypes.data

    def cuMemGetAddressRange(self, address):
        reached = devices.shared(devices.owner(int(address)))
        extent = reached.extent(int(address)) if reached is not None else None
        if extent is None:
            raise DriverFailure(Result.CUDA_ERROR_NOT_FOUND, "cuMemGetAddressRange")
        return binding.CUdeviceptr(extent[0]), extent[1] - extent[0]

    def cuPointerGetAttribute(self, attribute, pointer):
        return binding.CUdeviceptr(int(pointer))

    # Copies to and from the host block the host; copies on the device and fills do not.

    def cuMemcpyHtoD(self, target, host, nbytes):
        self.cuMemcpyHtoDAsync(target, host, nbytes, queues.LEGACY)
        queues.wait()

    def cuMemcpyDtoH(self, host, origin, nbytes):
        self.cuMemcpyDtoHAsync(host, origin, nbytes, queues.LEGACY)
        queues.wait()

    def cuMemcpyDtoD(self, target, origin, nbytes):
        self.cuMemcpyDtoDAsync(target, origin, nbytes, queues.LEGACY)

    def cuMemsetD8(self, target, byte, count):
        self.cuMemsetD8Async(target, byte, count, queues.LEGACY)

    def cuMemcpyHtoDAsync(self, target, host, nbytes, stream):
        if nbytes:
            with queues.copying(stream, int(target), int(host), nbytes):
                devices.owner(int(target)).write(int(target), host_bytes(host, nbytes))

    def cuMemcpyDtoHAsync(self, host, origin, nbytes, stream):
        if nbytes:
            with queues.copying(stream, int(host), int(origin), nbytes):
                host_bytes(host, nbytes)[:] = devices.owner(int(origin)).read(int(origin), nbytes)

    def cuMemcpyDtoDAsync(self, target, origin, nbytes, stream):
        if nbytes:
            with queues.copying(stream, int(target), int(origin), nbytes):
                devices.copy(int(target), int(origin), nbytes)

    def cuMemsetD8Async(self, target, byte, count, stream):
        if count:
            with queues.copying(stream, int(target), 0, count):
                devices.owner(int(target)).fill(int(target), int(byte) & 0xFF, count)

    # -- modules and occupancy -----------------------------------------------------------------

    def cuLibraryGetGlobal(self, handle, name):
        module = self.modules[int(handle)]
        try:
            address, nbytes = self.device.symbol(module.loaded(), name.decode())
        except (VirtualGPUError, KeyError):
            raise DriverFailure(Result.CUDA_ERROR_NOT_FOUND, "cuLibraryGetGlobal") from None
        return binding.CUdeviceptr(address), nbytes

    def cuLibraryUnload(self, handle):
        module = self.modules.pop(int(handle), None)
        if module is not None:
            module.unload()

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, kernel, threads, shared, flags=0):
        shared += kernel.attributes.shared_size_bytes
        blocks = blocks_per_multiprocessor(int(threads))
        return min(blocks, SHARED_PER_MULTIPROCESSOR // shared) if shared else blocks

    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags = (
        cuOccupancyMaxActiveBlocksPerMultiprocessor
    )

    # -- streams and events --------------------------------------------------------------------

    def cuStreamCreate(self, flags):
        handle = next(self._handles)
        if flags & binding.CUstream_flags.CU_STREAM_NON_BLOCKING:
            queues.non_blocking.add(handle)
        return binding.CUstream(handle)

    def cuStreamDestroy(self, stream):
        queues.non_blocking.discard(int(stream))

    def cuStreamSynchronize(self, stream):
        self.device.synchronize()
        queues.tell("synchronize", int(stream))

    def cuStreamWaitEvent(self, stream, event, flags=0):
        queues.tell("wait", int(stream), event=int(event))

    def cuEventCreate(self, flags):
        handle = next(self._handles)
        self._events[handle] = None
        return binding.CUevent(handle)

    def cuEventDestroy(self, event):
        self._events.pop(int(event), None)

    def cuEventRecord(self, event, stream):
        self._events[int(event)] = time.monotonic()
        queues.tell("record", int(stream), event=int(event))

    def cuEventSynchronize(self, event):
        queues.tell("event", event=int(event))

    cuEventQuery = cuEventSynchronize  # the answer is "done", and the program may rely on it

    def cuEventElapsedTime(self, start, end):
        """Return NaN, because no GPU ran and so there is no GPU time."""
        if self._events.get(int(start)) is None or self._events.get(int(end)) is None:
            raise DriverFailure(Result.CUDA_ERROR_INVALID_HANDLE, "cuEventElapsedTime")
        if not self._warned:
            self._warned = True
            warnings.warn(
                "the virtual GPU has no times, so event_elapsed_time returns nan; count work "
                "with virtualgpu.profile(), or run on a GPU",
                UserWarning,
                stacklevel=4,
            )
        return float("nan")


def host_bytes(host: int, nbytes: int) -> np.ndarray:
    raw: Any = (ctypes.c_uint8 * nbytes).from_address(int(host))  # NumPy's stubs do not accept it
    return np.frombuffer(raw, np.uint8)


API = DriverAPI()  # the only driver of this process
