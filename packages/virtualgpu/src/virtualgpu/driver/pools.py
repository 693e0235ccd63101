"""Memory pools (CUDA Driver API, section "Stream Ordered Memory Allocator").

Freed memory is returned to the device at once, so a pool keeps no reserve.
"""

from __future__ import annotations

import ctypes
import itertools

from cuda.bindings import driver as binding

from virtualgpu import devices
from virtualgpu.cuda.driver_api import DriverFailure
from virtualgpu.driver import contexts
from virtualgpu.driver.entries import Result, entry
from virtualgpu.driver.memory import managed
from virtualgpu.wording import many

_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
_Attribute = binding.CUmemPool_attribute


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """The first fields of ``CUmemPoolProps``."""

    _fields_ = (
        ("allocType", ctypes.c_int),
        ("handleTypes", ctypes.c_int),
        ("location", _Location),
        ("security", ctypes.c_void_p),
        ("maxSize", ctypes.c_size_t),
    )


class Pool:
    """Allocations on one device, with their current and largest total size in bytes."""

    def __init__(self, number: int, limit: int = 0):
        self.number, self.limit = number, limit
        self.used = self.highest = 0
        self.attributes = {1: 1, 2: 1, 3: 1, 4: 0}  # reuse policies and release threshold

    def allocate(self, nbytes: int) -> int:
        if self.limit and self.used + nbytes > self.limit:
            raise DriverFailure(
                Result.CUDA_ERROR_OUT_OF_MEMORY,
                "cuMemAllocFromPoolAsync",
                f"{many(nbytes, 'byte')} requested from a pool that may hold {self.limit:,} and "
                f"already holds {self.used:,}",
            )
        if not nbytes:
            raise DriverFailure(
                Result.CUDA_ERROR_INVALID_VALUE,
                "cuMemAllocAsync",
                "the requested size is 0 bytes",
            )
        address = contexts.device(self.number).allocate(nbytes)
        self.used += nbytes
        self.highest = max(self.highest, self.used)
        _given[address] = self, nbytes
        return address


_handles = itertools.count(0x9000, 16)
_pools: dict[int, Pool] = {}
_given: dict[int, tuple[Pool, int]] = {}  # address → its pool and bytes
_default: dict[int, int] = {}  # device → its own pool
_chosen: dict[int, int] = {}  # device → the pool that it allocates from


def _pool(handle: int) -> Pool:
    if handle not in _pools:
        raise DriverFailure(
            Result.CUDA_ERROR_INVALID_VALUE, "cuMemPool", "no such pool, or it was destroyed"
        )
    return _pools[handle]


@entry(">z i")
def cuDeviceGetDefaultMemPool(number: int) -> int:
    contexts.device(number)
    if number not in _default:
        _default[number] = next(_handles)
        _pools[_default[number]] = Pool(number)
    return _default[number]


@entry(">z i")
def cuDeviceGetMemPool(number: int) -> int:
    return _chosen.get(number) or cuDeviceGetDefaultMemPool(number)


@entry("i z")
def cuDeviceSetMemPool(number: int, pool: int) -> None:
    _pool(pool)
    _chosen[number] = pool


@entry(">z z")
def cuMemPoolCreate(properties: int) -> int:
    wanted = _Properties.from_address(properties)
    if wanted.location.type != _DEVICE or wanted.allocType != 1:
        raise NotImplementedError(
            "the virtual GPU's memory pools hold only device memory. Use DeviceMemoryResource "
            "with copies, LegacyPinnedMemoryResource for the host's side of a copy, or the "
            "driver's cuMemAllocManaged"
        )
    if wanted.handleTypes:
        raise NotImplementedError(
            "memory pools that are shared between processes (IPC) are not supported"
        )
    contexts.device(wanted.location.id)
    handle = next(_handles)
    _pools[handle] = Pool(wanted.location.id, wanted.maxSize)
    return handle


@entry("z")
def cuMemPoolDestroy(handle: int) -> None:
    _pools.pop(handle, None)


@entry("z z")
def cuMemPoolTrimTo(handle: int, nbytes: int) -> None:
    _pool(handle)


@entry("z i z")
def cuMemPoolGetAttribute(handle: int, attribute: int, where: int) -> None:
    pool = _pool(handle)
    if attribute in pool.attributes:
        kind = ctypes.c_int if attribute < 4 else ctypes.c_uint64
        kind.from_address(where).value = pool.attributes[attribute]
        return
    high = attribute in (
        _Attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
        _Attribute.CU_MEMPOOL_ATTR_USED_MEM_HIGH,
    )
    ctypes.c_uint64.from_address(where).value = pool.highest if high else pool.used


@entry("z i z")
def cuMemPoolSetAttribute(handle: int, attribute: int, where: int) -> None:
    pool = _pool(handle)
    if attribute in pool.attributes:
        kind = ctypes.c_int if attribute < 4 else ctypes.c_uint64
        pool.attributes[attribute] = kind.from_address(where).value
    else:  # only the high-water marks can be set, and only to 0
        pool.highest = pool.used


@entry(">i z z")
def cuMemPoolGetAccess(handle: int, location: int) -> int:
    there = _Location.from_address(location)
    return 3 if there.type == _DEVICE and there.id == _pool(handle).number else 0  # read and write


@entry("z z z")
def cuMemPoolSetAccess(handle: int, descriptors: int, count: int) -> None:
    for k in range(count):  # CUmemAccessDesc: a location and flags
        there = _Location.from_address(descriptors + 12 * k)
        flags = ctypes.c_int.from_address(descriptors + 12 * k + 8).value
        if flags and there.id != _pool(handle).number:
            raise NotImplementedError(
                "a kernel can access only the memory of its own device; copy the data between "
                "the devices"
            )


@entry(">z z z")
def cuMemAllocAsync(nbytes: int, stream: int) -> int:
    return _pools[cuDeviceGetMemPool(devices.number())].allocate(nbytes)


@entry(">z z z z")
def cuMemAllocFromPoolAsync(nbytes: int, handle: int, stream: int) -> int:
    return _pool(handle).allocate(nbytes)


@entry("z")
def cuMemFree(address: int) -> None:
    if address:
        devices.owner(address).free(address)
        managed.discard(address)
        pool, nbytes = _given.pop(address, (None, 0))
        if pool is not None:
            pool.used -= nbytes


@entry("z z")
def cuMemFreeAsync(address: int, stream: int) -> None:
    cuMemFree(address)
