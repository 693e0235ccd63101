"""CUDA runtime functions that CuPy programs call, on the virtual GPU.

Names, arguments and units are those of ``cupy.cuda.runtime``. Clock rates, caches and bandwidths
do not exist here, so their values are 0 and never those of a real GPU.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable

import numpy as np
from cuda.bindings import driver as _driver

from virtualgpu.standins.interface import API, ATTRIBUTES, OutOfMemory, devices, queues

from ._machine import new_handle
from ._machine import owner as _owner

is_hip = False
streamDefault, streamNonBlocking, streamLegacy, streamPerThread = 0, 1, 1, 2
eventDefault, eventBlockingSync, eventDisableTiming, eventInterprocess = 0, 1, 2, 4
hostAllocDefault, hostAllocPortable, hostAllocMapped, hostAllocWriteCombined = 0, 1, 2, 4
memcpyHostToHost, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 0, 1, 2, 3
memcpyDefault = 4
cudaArrayDefault, cudaArrayLayered, cudaArraySurfaceLoadStore = 0, 1, 2
cudaArrayCubemap, cudaArrayTextureGather = 4, 8
memoryTypeUnregistered, memoryTypeHost, memoryTypeDevice, memoryTypeManaged = 0, 1, 2, 3

_NAMES = {
    1: ("cudaErrorInvalidValue", "invalid argument"),
    2: ("cudaErrorMemoryAllocation", "out of memory"),
    20: ("cudaErrorInvalidChannelDescriptor", "invalid channel descriptor"),
    26: ("cudaErrorInvalidFilterSetting", "linear filtering not supported for non-float type"),
    101: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    217: (
        "cudaErrorPeerAccessUnsupported",
        "peer access is not supported between these two devices",
    ),
    400: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    801: ("cudaErrorNotSupported", "operation not supported"),
}


class CUDARuntimeError(RuntimeError):
    """Error of the CUDA runtime; ``status`` is its number."""

    def __init__(self, status: int):
        self.status = status
        name, words = _NAMES.get(status, ("cudaErrorUnknown", "unknown error"))
        super().__init__(f"{name}: {words}")

    def __reduce__(self):
        return type(self), (self.status,)


def getDeviceCount() -> int:
    """Return the number of virtual GPUs: 1 unless ``VIRTUALGPU_DEVICES`` is set."""
    return len(devices.every())


def getDevice() -> int:
    return devices.number()


def setDevice(device: int) -> None:
    """Make a device current for this thread, also in Numba and PyCUDA."""
    _check(device)
    if device != devices.number():
        API.cuCtxSetCurrent(device + 1)


def _check(device: int) -> None:
    if not 0 <= device < len(devices.every()):
        raise CUDARuntimeError(101)


def deviceSynchronize() -> None:
    devices.current().synchronize()
    queues.tell("synchronize", None)


def runtimeGetVersion() -> int:
    """Return the version of the CUDA bindings: 1000 * major + 10 * minor."""
    return int(_driver.CUDA_VERSION)


driverGetVersion = runtimeGetVersion  # there is no separate driver


def memGetInfo() -> tuple[int, int]:
    """Return the free and the total bytes of the current device."""
    device = devices.current()
    reached = devices.shared(device)  # other devices do not report allocated bytes
    return device.total_memory - (reached.allocated if reached else 0), device.total_memory


def deviceGetAttribute(attrib: int, device: int) -> int:
    """Return an attribute by its ``cudaDevAttr...`` number (as in the driver API)."""
    _check(device)
    try:
        name = _driver.CUdevice_attribute(attrib).name
    except ValueError:
        return 0
    return ATTRIBUTES.get(name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)


def deviceGetPCIBusId(device: int) -> str:
    _check(device)
    return f"0000:00:{device:02x}.0"


def deviceGetByPCIBusId(pciBusId: str) -> int:
    known = [deviceGetPCIBusId(number) for number in range(getDeviceCount())]
    if pciBusId not in known:
        raise CUDARuntimeError(101)
    return known.index(pciBusId)


def deviceCanAccessPeer(device: int, peerDevice: int) -> int:
    """Return 0, because a kernel can access only its own device's memory.

    Copies between devices are possible.
    """
    return 0


def deviceEnablePeerAccess(peerDevice: int) -> None:
    _check(peerDevice)
    raise CUDARuntimeError(217)


def memcpyPeer(dst: int, dstDevice: int, src: int, srcDevice: int, size: int) -> None:
    """Copy from one device to another."""
    memcpyAsync(dst, src, size, memcpyDeviceToDevice, queues.LEGACY)


def memcpyPeerAsync(
    dst: int, dstDevice: int, src: int, srcDevice: int, size: int, stream: int
) -> None:
    memcpyAsync(dst, src, size, memcpyDeviceToDevice, stream)


def getDeviceProperties(device: int) -> dict:
    """Return properties by CuPy's names; ``name`` (bytes) identifies the virtual GPU."""
    _check(device)
    known, owner = attributes(), devices.every()[device]
    same = {
        "sharedMemPerBlock": "MaxSharedMemoryPerBlock",
        "regsPerBlock": "MaxRegistersPerBlock",
        "warpSize": "WarpSize",
        "maxThreadsPerBlock": "MaxThreadsPerBlock",
        "clockRate": "ClockRate",
        "totalConstMem": "TotalConstantMemory",
        "multiProcessorCount": "MultiProcessorCount",
        "integrated": "Integrated",
        "kernelExecTimeoutEnabled": "KernelExecTimeout",
        "canMapHostMemory": "CanMapHostMemory",
        "computeMode": "ComputeMode",
        "concurrentKernels": "ConcurrentKernels",
        "ECCEnabled": "EccEnabled",
        "pciBusID": "PciBusId",
        "pciDeviceID": "PciDeviceId",
        "pciDomainID": "PciDomainId",
        "tccDriver": "TccDriver",
        "memoryClockRate": "MemoryClockRate",
        "memoryBusWidth": "GlobalMemoryBusWidth",
        "l2CacheSize": "L2CacheSize",
        "maxThreadsPerMultiProcessor": "MaxThreadsPerMultiProcessor",
        "asyncEngineCount": "AsyncEngineCount",
        "unifiedAddressing": "UnifiedAddressing",
        "sharedMemPerMultiprocessor": "MaxSharedMemoryPerMultiprocessor",
        "regsPerMultiprocessor": "MaxRegistersPerMultiprocessor",
        "managedMemory": "ManagedMemory",
        "cooperativeLaunch": "CooperativeLaunch",
        "concurrentManagedAccess": "ConcurrentManagedAccess",
        "sharedMemPerBlockOptin": "MaxSharedMemoryPerBlockOptin",
        "maxBlocksPerMultiProcessor": "MaxBlocksPerMultiprocessor",
        "singleToDoublePrecisionPerfRatio": "SingleToDoublePrecisionPerfRatio",
        "streamPrioritiesSupported": "StreamPrioritiesSupported",
        "globalL1CacheSupported": "GlobalL1CacheSupported",
        "localL1CacheSupported": "LocalL1CacheSupported",
        "hostNativeAtomicSupported": "HostNativeAtomicSupported",
        "pageableMemoryAccess": "PageableMemoryAccess",
        "pageableMemoryAccessUsesHostPageTables": "PageableMemoryAccessUsesHostPageTables",
        "directManagedMemAccessFromHost": "DirectManagedMemAccessFromHost",
        "canUseHostPointerForRegisteredMem": "CanUseHostPointerForRegisteredMem",
        "computePreemptionSupported": "ComputePreemptionSupported",
        "persistingL2CacheMaxSize": "MaxPersistingL2CacheSize",
        "accessPolicyMaxWindowSize": "MaxAccessPolicyWindowSize",
        "reservedSharedMemPerBlock": "ReservedSharedMemoryPerBlock",
        "isMultiGpuBoard": "IsMultiGpuBoard",
        "multiGpuBoardGroupID": "MultiGpuBoardGroupID",
        "memPitch": "MaxPitch",
        "textureAlignment": "TextureAlignment",
        "texturePitchAlignment": "TexturePitchAlignment",
        "surfaceAlignment": "SurfaceAlignment",
    }
    properties = {name: known.get(attribute, 0) for name, attribute in same.items()}
    major, minor = owner.compute_capability
    return {
        "name": owner.name.encode(),
        "totalGlobalMem": owner.total_memory,
        "major": major,
        "minor": minor,
        "maxThreadsDim": tuple(known[f"MaxBlockDim{axis}"] for axis in "XYZ"),
        "maxGridSize": tuple(known[f"MaxGridDim{axis}"] for axis in "XYZ"),
        "uuid": device.to_bytes(16, "big"),  # as in the driver
        "luid": bytes(8),
        "luidDeviceNodeMask": 0,
        **properties,
    }


def malloc(size: int) -> int:
    """Allocate memory and return its device address, for :func:`free`."""
    try:
        return devices.current().allocate(size) if size else 0
    except OutOfMemory:
        raise CUDARuntimeError(2) from None


def free(ptr: int) -> None:
    if ptr:
        extent = _owner(ptr).extent(ptr)
        if extent is None or extent[0] != ptr:  # or an allocation that the pool keeps
            raise CUDARuntimeError(1)
        _owner(ptr).free(ptr)


mallocManaged = malloc


def memset(ptr: int, value: int, size: int) -> None:
    memsetAsync(ptr, value, size, queues.LEGACY)


def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
    with queues.copying(stream, ptr, 0, size):
        devices.owner(ptr).fill(ptr, value & 0xFF, size)


def memcpy(dst: int, src: int, size: int, kind: int) -> None:
    """Copy ``size`` bytes; ``kind`` is one of the ``memcpy...`` numbers."""
    memcpyAsync(dst, src, size, kind, queues.LEGACY)
    if kind != memcpyDeviceToDevice:
        queues.wait()


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    """Copy as :func:`memcpy` does, in a stream."""
    if kind == memcpyDefault:
        on_device = [_owner(address).extent(address) is not None for address in (dst, src)]
        kind = {(True, True): 3, (True, False): 1, (False, True): 2}.get(tuple(on_device), 0)
    if not size:
        return
    with queues.copying(stream, dst, src, size):
        if kind == memcpyDeviceToDevice:
            devices.copy(dst, src, size)
        elif kind == memcpyHostToDevice:
            devices.owner(dst).write(dst, _host_bytes(src, size))
        elif kind == memcpyDeviceToHost:
            _host_bytes(dst, size)[:] = devices.owner(src).read(src, size)
        else:
            _host_bytes(dst, size)[:] = _host_bytes(src, size)


def streamCreate() -> int:
    return new_handle()


def streamDestroy(stream: int) -> None:
    """Do nothing, because there is nothing to free."""


def streamSynchronize(stream: int) -> None:
    devices.current().synchronize()
    queues.tell("synchronize", stream)


def profilerStart() -> None:
    """Do nothing, because no profiler is attached.

    ``virtualgpu.profile()`` counts the work of kernels.
    """


def profilerStop() -> None:
    """Do nothing, like :func:`profilerStart`."""


def _host_bytes(address: int, nbytes: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


@functools.cache
def enumerators() -> dict[str, int]:
    """Return all enumeration constants of the runtime API by name (``cudaDevAttrWarpSize``)."""
    from cuda.bindings import runtime

    return {
        member.name: int(member)
        for thing in vars(runtime).values()
        if isinstance(thing, type) and issubclass(thing, int) and isinstance(thing, Iterable)
        for member in thing
    }


@functools.cache
def attributes() -> dict[str, int]:
    """Return all device attributes by name; both APIs use the same numbers."""
    prefix = "cudaDevAttr"
    return {
        name.removeprefix(prefix): deviceGetAttribute(number, 0)
        for name, number in enumerators().items()
        if name.startswith(prefix) and name != "cudaDevAttrMax"
    }


def __getattr__(name: str):
    if name.startswith("cuda") and name in enumerators():
        return enumerators()[name]
    from .._missing import missing

    raise missing(__name__, name, "numba.cuda, or a GPU")
