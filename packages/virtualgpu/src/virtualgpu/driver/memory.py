"""Memory allocation, copies and fills of the driver API.

CUDA Driver API, sections "Memory Management", "Unified Addressing".
"""

from __future__ import annotations

import ctypes

import numpy as np
from cuda.bindings import driver as binding

from virtualgpu import devices
from virtualgpu.cuda.driver_api import API, DriverFailure, host_bytes
from virtualgpu.driver.entries import Result, entry, forward
from virtualgpu.memory.mapping import BASE, END
from virtualgpu.watch import queues
from virtualgpu.wording import many

_Attribute = binding.CUpointer_attribute
managed: set[int] = set()  # start addresses of managed allocations

forward(
    cuMemHostAlloc=">z z I",
    cuMemHostGetDevicePointer=">z z I",
    cuMemFreeHost="z",
    cuMemHostRegister="z z I",
    cuMemHostUnregister="z",
    cuMemGetInfo=">z >z",
    cuMemGetAddressRange=">z >z z",
    cuIpcOpenMemHandle=">z h I",
    cuIpcCloseMemHandle="z",
    cuMemcpyHtoD="z z z",
    cuMemcpyDtoH="z z z",
    cuMemcpyDtoD="z z z",
    cuMemcpyHtoDAsync="z z z z",
    cuMemcpyDtoHAsync="z z z z",
    cuMemcpyDtoDAsync="z z z z",
)


def on_device(address: int) -> bool:
    """Return True for a device address, freed or not, and False for a host address."""
    return BASE <= address < END


def allocate(nbytes: int, function: str) -> int:
    """Allocate memory on the current device."""
    if nbytes == 0:
        raise DriverFailure(
            Result.CUDA_ERROR_INVALID_VALUE, function, "the requested size is 0 bytes"
        )
    return devices.current().allocate(nbytes)


@entry(">z z")
def cuMemAlloc(nbytes: int) -> int:
    return allocate(nbytes, "cuMemAlloc")


@entry(">z z I")
def cuMemAllocManaged(nbytes: int, flags: int) -> int:
    address = allocate(nbytes, "cuMemAllocManaged")
    if API.host_address(address, nbytes) != address:
        devices.current().free(address)
        raise NotImplementedError(
            "managed memory needs one address that is valid on the host and on the device. Only "
            "the first virtual GPU of a process can have such memory, and only if the operating "
            "system allows it; this device cannot. Use numba.cuda.managed_array, or a device "
            "buffer and copies"
        )
    managed.add(address)
    return address


@entry(">z z")
def cuMemAllocHost(nbytes: int) -> int:
    return API.cuMemHostAlloc(nbytes, 0)


def copy(target: int, origin: int, nbytes: int, stream: int = queues.LEGACY) -> None:
    """Copy between host and device memory, which are distinguished by their addresses."""
    if not nbytes:
        return
    if not (target and origin):
        raise DriverFailure(
            Result.CUDA_ERROR_INVALID_VALUE,
            "cuMemcpy",
            f"copy of {many(nbytes, 'byte')} {'from' if target else 'to'} a null pointer",
        )
    if not on_device(target):
        if on_device(origin):
            API.cuMemcpyDtoHAsync(target, origin, nbytes, stream)
        else:
            host_bytes(target, nbytes)[:] = host_bytes(origin, nbytes)
    elif on_device(origin):
        API.cuMemcpyDtoDAsync(target, origin, nbytes, stream)
    else:
        API.cuMemcpyHtoDAsync(target, origin, nbytes, stream)


@entry("z z z")
def cuMemcpy(target: int, origin: int, nbytes: int) -> None:
    copy(target, origin, nbytes)
    queues.wait()


@entry("z z z z")
def cuMemcpyAsync(target: int, origin: int, nbytes: int, stream: int) -> None:
    copy(target, origin, nbytes, stream)


@entry("z z z z z")
def cuMemcpyPeer(target: int, there: int, origin: int, here: int, nbytes: int) -> None:
    API.cuMemcpyDtoD(target, origin, nbytes)


@entry("z z z z z z")
def cuMemcpyPeerAsync(
    target: int, there: int, origin: int, here: int, nbytes: int, stream: int
) -> None:
    API.cuMemcpyDtoDAsync(target, origin, nbytes, stream)


for _bits, _letter in ((8, "B"), (16, "H"), (32, "I")):
    for _async in ("", "Async"):

        def _fill(
            target: int, value: int, count: int, stream: int = 0, dtype: str = f"u{_bits // 8}"
        ) -> None:
            if count:
                data = np.full(count, value, dtype)
                with queues.copying(stream, target, 0, data.nbytes):
                    devices.owner(target).write(target, data)

        _fill.__name__ = f"cuMemsetD{_bits}{_async}"
        entry(f"z {_letter} z z" if _async else f"z {_letter} z")(_fill)


@entry("z z")
def cuIpcGetMemHandle(where: int, address: int) -> None:
    ctypes.memmove(where, API.cuIpcGetMemHandle(address).reserved, 64)


@entry("z i z")
def cuPointerGetAttribute(where: int, attribute: int, address: int) -> None:
    if not on_device(address) and address not in API.host:
        raise DriverFailure(
            Result.CUDA_ERROR_INVALID_VALUE,
            "cuPointerGetAttribute",
            "this is an address of ordinary host memory, which the driver has neither allocated "
            "nor registered",
        )
    _attribute(where, attribute, address)


@entry("I z z z")
def cuPointerGetAttributes(count: int, attributes: int, places: int, address: int) -> None:
    for k in range(count):
        _attribute(
            ctypes.c_size_t.from_address(places + 8 * k).value,
            ctypes.c_int.from_address(attributes + 4 * k).value,
            address,
        )


def _attribute(where: int, attribute: int, address: int) -> None:
    """Write one attribute of a pointer.

    The attribute is zero (or, for the device number, -2) if the driver does not know the memory.
    """
    there = on_device(address) and address not in API.host
    number = devices.every().index(devices.owner(address)) if there else devices.number()
    known = there or address in API.host
    number_type: type[ctypes.c_int] | type[ctypes.c_size_t] = ctypes.c_int
    value = 0
    if attribute == _Attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        number_type = ctypes.c_int
        value = 2 if there else 1 if known else 0  # CU_MEMORYTYPE_DEVICE, _HOST
    elif attribute == _Attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        value = number if known else -2
    elif attribute == _Attribute.CU_POINTER_ATTRIBUTE_CONTEXT:
        number_type, value = ctypes.c_size_t, number + 1 if known else 0
    elif attribute == _Attribute.CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        number_type, value = ctypes.c_size_t, address if there else 0
    elif attribute == _Attribute.CU_POINTER_ATTRIBUTE_HOST_POINTER:
        shared = not there or _is_managed(address)
        number_type, value = ctypes.c_size_t, address if known and shared else 0
    elif attribute in (
        _Attribute.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        _Attribute.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    ):
        start, nbytes = API.cuMemGetAddressRange(address) if there else (0, 0)
        first = attribute == _Attribute.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
        number_type, value = ctypes.c_size_t, int(start) if first else nbytes
    elif attribute == _Attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED:
        ctypes.c_ubyte.from_address(where).value = there and _is_managed(address)
        return
    number_type.from_address(where).value = value


def _is_managed(address: int) -> bool:
    reached = devices.shared(devices.owner(address))
    extent = reached.extent(address) if reached is not None else None
    return extent is not None and extent[0] in managed
