"""Devices and contexts of the driver API.

CUDA Driver API, sections "Device Management", "Primary Context Management", "Context Management".
"""

from __future__ import annotations

import ctypes

from cuda.bindings import driver as binding

from virtualgpu import devices
from virtualgpu.cuda.driver_api import API, DriverFailure
from virtualgpu.driver.entries import Result, entry, forward

# Only this package has memory pools; the other front ends do not use them.
_ATTRIBUTES = {binding.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: 1}
_HEAP = binding.CUlimit.CU_LIMIT_MALLOC_HEAP_SIZE

forward(
    cuDriverGetVersion=">i",
    cuDeviceGetCount=">i",
    cuDeviceCanAccessPeer=">i i i",
    cuDevicePrimaryCtxRelease="i",
    cuCtxEnablePeerAccess="z I",
    cuCtxGetCurrent=">z",
    cuCtxSetCurrent="z",
    cuCtxPushCurrent="z",
    cuCtxPopCurrent=">z",
    cuCtxGetDevice=">i",
    cuCtxSynchronize="",
)


def device(number: int) -> devices.Device:
    """Return a device by its number. Raises DriverFailure."""
    if not 0 <= number < len(devices.every()):
        raise DriverFailure(
            Result.CUDA_ERROR_INVALID_DEVICE, "cuDeviceGet", devices.no_device(number)
        )
    return devices.every()[number]


@entry("I")
def cuInit(flags: int) -> None:
    devices.every()


@entry(">i i")
def cuDeviceGet(number: int) -> int:
    device(number)
    return number


@entry("z i i")
def cuDeviceGetName(text: int, length: int, number: int) -> None:
    _write_text(text, length, device(number).name)


@entry("z i")
def cuDeviceGetUuid(uuid: int, number: int) -> None:
    device(number)
    ctypes.memmove(uuid, number.to_bytes(16, "big"), 16)


@entry("z i i")
def cuDeviceGetPCIBusId(text: int, length: int, number: int) -> None:
    _write_text(text, length, f"0000:00:{number:02x}.0")


@entry(">z i")
def cuDeviceTotalMem(number: int) -> int:
    return device(number).total_memory


@entry(">i i i")
def cuDeviceGetAttribute(code: int, number: int) -> int:
    device(number)
    try:
        attribute = binding.CUdevice_attribute(code)
    except ValueError:
        raise DriverFailure(Result.CUDA_ERROR_INVALID_VALUE, "cuDeviceGetAttribute") from None
    return _ATTRIBUTES.get(attribute) or API.cuDeviceGetAttribute(attribute, number)


@entry(">z i")
def cuDevicePrimaryCtxRetain(number: int) -> int:
    device(number)
    return number + 1


@entry("i >I >i")
def cuDevicePrimaryCtxGetState(number: int) -> tuple[int, int]:
    return 0, 1


@entry(">z z")
def cuGetExportTable(identifier: int) -> int:
    """Raise an error, because the tables that NVIDIA's libraries request are undocumented.

    NVRTC works without these tables.
    """
    raise DriverFailure(Result.CUDA_ERROR_NOT_FOUND, "cuGetExportTable")


@entry(">I")
def cuCtxGetFlags() -> int:
    return 0


@entry("z >z")
def cuCtxGetId(context: int) -> int:
    return context or devices.number() + 1


@entry(">i >i")
def cuCtxGetStreamPriorityRange() -> tuple[int, int]:
    return 0, -5  # least and greatest, as on hardware; priorities have no effect


@entry(">z I")
def cuCtxGetLimit(limit: int) -> int:
    from virtualgpu.memory.global_memory import HEAP

    return HEAP if limit == _HEAP else 0


def _write_text(where: int, length: int, words: str) -> None:
    raw = words.encode()[: length - 1] + b"\0"
    ctypes.memmove(where, raw, len(raw))
