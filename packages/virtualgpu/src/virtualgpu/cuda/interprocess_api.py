"""CUDA IPC: memory of one process, opened by another (CUDA Driver API, "Memory Management")."""

from __future__ import annotations

from cuda.bindings import driver as binding

from virtualgpu import devices
from virtualgpu.cuda.failure import DriverFailure
from virtualgpu.errors import OutOfMemory, VirtualGPUError
from virtualgpu.memory import interprocess
from virtualgpu.memory.global_memory import GlobalMemory

Result = binding.CUresult


class MemoryHandle:
    """IPC handle with its 64 bytes for sending, which the class of cuda-bindings 13.5 lacks."""

    reserved = bytes(interprocess.HANDLE_BYTES)


class InterprocessAPI:
    """Part of :class:`~virtualgpu.cuda.driver_api.DriverAPI` for memory of other processes."""

    def cuIpcGetMemHandle(self, address):
        start, _ = self.cuMemGetAddressRange(address)
        memory = _memory(devices.owner(int(start)), "cuIpcGetMemHandle")
        made = MemoryHandle()
        made.reserved = _checked(interprocess.handle, memory, int(start))
        return made

    def cuIpcOpenMemHandle(self, handle, flags):
        memory = _memory(devices.current(), "cuIpcOpenMemHandle")
        return binding.CUdeviceptr(
            _checked(interprocess.open_handle, memory, bytes(handle.reserved))
        )

    def cuIpcCloseMemHandle(self, address):
        memory = _memory(devices.owner(int(address)), "cuIpcCloseMemHandle")
        _checked(interprocess.close_handle, memory, int(address))


def _memory(device: devices.Device, function: str) -> GlobalMemory:
    """Return a device's memory if it is in this process. Raises DriverFailure."""
    memory = getattr(device, "memory", None)
    if not isinstance(memory, GlobalMemory):
        raise DriverFailure(
            Result.CUDA_ERROR_NOT_SUPPORTED,
            function,
            f"{device.name!r} keeps its memory in another process",
        )
    return memory


def _checked(function, memory: GlobalMemory, what):
    try:
        return function(memory, what)
    except OutOfMemory as error:
        raise DriverFailure(
            Result.CUDA_ERROR_OUT_OF_MEMORY, function.__name__, str(error)
        ) from None
    except VirtualGPUError as error:
        raise DriverFailure(
            Result.CUDA_ERROR_INVALID_VALUE, function.__name__, str(error)
        ) from None
    except OSError as error:
        raise DriverFailure(
            Result.CUDA_ERROR_OPERATING_SYSTEM, function.__name__, str(error)
        ) from None
