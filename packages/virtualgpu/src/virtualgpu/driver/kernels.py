"""Libraries, kernels and launches of the driver API.

CUDA Driver API, sections "Library Management", "Module Management", "Execution Control",
"Occupancy".

An image is PTX or Tile IR, the virtual GPU's own code. A cubin or a fatbin holds code of a real
GPU, so it is rejected.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cuda.bindings import driver as binding

from virtualgpu import devices
from virtualgpu.cuda.device_attributes import SHARED_PER_MULTIPROCESSOR
from virtualgpu.cuda.driver_api import API, DriverFailure
from virtualgpu.cuda.function import CudaFunction
from virtualgpu.cuda.module import Module
from virtualgpu.devices.per_device import PerDevice
from virtualgpu.driver.entries import Result, entry
from virtualgpu.driver.tiles import TileCode, TileFunction
from virtualgpu.driver.tiles import image as tile_image
from virtualgpu.errors import LaunchError, LinkError, VirtualGPUError
from virtualgpu.launch.limits import blocks_per_multiprocessor
from virtualgpu.watch import queues
from virtualgpu.wording import many

_Attribute = binding.CUfunction_attribute
_handles = itertools.count(0xA000, 16)

#: Name expressions of a PTX module's kernels and variables → their PTX names, for messages.
expressions: dict[str, dict[str, str]] = {}


class Library:
    """Library of PTX modules that are linked together, or of one Tile IR bytecode.

    A library is loaded on each device at its first use there.
    """

    def __init__(self, image: Sequence[str] | bytes):
        self.image = image
        self.kernels: dict[str, int] = {}  # name → handle
        self._modules: PerDevice[Module | TileCode] = PerDevice()

    def module(self, device: devices.Device) -> Module | TileCode:
        if isinstance(self.image, bytes):
            raw = self.image
            return self._modules.get_or(lambda: TileCode(raw, device), device)
        texts = list(self.image)
        mangled = {
            shown: name for text in texts for shown, name in expressions.get(text, {}).items()
        }
        return self._modules.get_or(lambda: Module(texts, mangled, device), device)

    def kernel(self, name: str) -> int:
        """Return a kernel's handle. Raises DriverFailure with the names of the existing kernels."""
        if name not in self.kernels:
            try:
                self.module(devices.current()).function(name)
            except LaunchError as error:
                raise DriverFailure(
                    Result.CUDA_ERROR_NOT_FOUND, "cuLibraryGetKernel", str(error)
                ) from None
            self.kernels[name] = next(_handles)
            _kernels[self.kernels[name]] = LibraryKernel(self, name)
        return self.kernels[name]


class LibraryKernel:
    """Kernel of a library; its settings are separate for each device."""

    def __init__(self, library: Library, name: str):
        self.library, self.name = library, name
        self._functions: PerDevice[CudaFunction | TileFunction] = PerDevice()

    def on(self, device: devices.Device) -> CudaFunction | TileFunction:
        def make() -> CudaFunction | TileFunction:
            module = self.library.module(device)
            return (
                TileFunction(module, self.name)
                if isinstance(module, TileCode)
                else CudaFunction(module, self.name)
            )

        return self._functions.get_or(make, device)


_libraries: dict[int, Library] = {}
_kernels: dict[int, LibraryKernel] = {}


def _library(handle: int) -> Library:
    if handle not in _libraries:
        raise DriverFailure(
            Result.CUDA_ERROR_INVALID_HANDLE, "cuLibrary", "no such library, or it was unloaded"
        )
    return _libraries[handle]


def kernel(handle: int) -> CudaFunction | TileFunction:
    """Return a kernel on the current device. Raises DriverFailure."""
    return _kernel(handle).on(devices.current())


def _kernel(handle: int) -> LibraryKernel:
    if handle not in _kernels:
        raise DriverFailure(
            Result.CUDA_ERROR_INVALID_HANDLE,
            "cuKernel",
            "no such kernel, or its library was unloaded",
        )
    return _kernels[handle]


# -- libraries and modules -----------------------------------------------------------------------


_NEXT = "\n// virtualgpu: the next text\n"


def joined(ptx: list[str]) -> str:
    """Return PTX modules that are linked with one another as one image."""
    return _NEXT.join(ptx)


def texts(image: str) -> list[str]:
    """Return the PTX modules of an image."""
    return image.split(_NEXT)


def _code(image: int) -> list[str] | bytes:
    if tiles := tile_image(image):
        return tiles
    head = ctypes.string_at(image, 4)
    if head in (b"\x7fELF", b"P\xedU\xba"):
        raise DriverFailure(
            Result.CUDA_ERROR_NO_BINARY_FOR_GPU,
            "cuLibraryLoadData",
            "this image is machine code of a real GPU, but the virtual GPU runs PTX and Tile "
            "IR: compile to 'ptx'",
        )
    return texts(ctypes.string_at(image).decode())


@entry(">z z")
def cuModuleLoadData(image: int) -> int:
    library = Library(_code(image))
    library.module(devices.current())  # report its errors now
    handle = next(_handles)
    _libraries[handle] = library
    return handle


@entry(">z z I z z")
def cuModuleLoadDataEx(image: int, count: int, options: int, values: int) -> int:
    return cuModuleLoadData(image)


@entry(">z z z z I z z I")
def cuLibraryLoadData(image: int, *options: int) -> int:
    return cuModuleLoadData(image)


@entry("z")
def cuLibraryUnload(handle: int) -> None:
    if library := _libraries.pop(handle, None):
        for one in library.kernels.values():
            _kernels.pop(one, None)


@entry("z")
def cuModuleUnload(handle: int) -> None:
    cuLibraryUnload(handle)


@entry(">z z z")
def cuLibraryGetKernel(library: int, name: int) -> int:
    return _library(library).kernel(ctypes.string_at(name).decode())


@entry(">z z z")
def cuModuleGetFunction(module: int, name: int) -> int:
    return cuLibraryGetKernel(module, name)


@entry(">z z")
def cuLibraryGetModule(library: int) -> int:
    return library


@entry(">z z")
def cuKernelGetFunction(handle: int) -> int:
    return handle


@entry(">z z")
def cuKernelGetLibrary(handle: int) -> int:
    library = _kernel(handle).library
    return next(one for one, known in _libraries.items() if known is library)


@entry(">I z")
def cuLibraryGetKernelCount(library: int) -> int:
    return len(_library(library).module(devices.current()).entries)


@entry(">z >z z z")
def cuLibraryGetGlobal(library: int, name: int) -> tuple[int, int]:
    try:
        return _library(library).module(devices.current()).symbol(ctypes.string_at(name).decode())
    except LinkError as error:
        raise DriverFailure(Result.CUDA_ERROR_NOT_FOUND, "cuLibraryGetGlobal", str(error)) from None


@entry(">z >z z z")
def cuModuleGetGlobal(module: int, name: int) -> tuple[int, int]:
    return cuLibraryGetGlobal(module, name)


# -- kernels -------------------------------------------------------------------------------------


def _attribute(function: CudaFunction | TileFunction, code: int) -> int:
    name = _Attribute(code).name.removeprefix("CU_FUNC_ATTRIBUTE_").lower()
    return function.attributes.get(name, 0)


def _set_attribute(function: CudaFunction | TileFunction, code: int, value: int) -> None:
    if code == _Attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        function.allow_dynamic(value)
    elif code == _Attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        function.carveout = value
    elif code == _Attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        function.large_clusters = bool(value)


@entry(">i i z")
def cuFuncGetAttribute(code: int, function: int) -> int:
    return _attribute(kernel(function), code)


@entry(">i i z i")
def cuKernelGetAttribute(code: int, handle: int, number: int) -> int:
    return _attribute(_kernel(handle).on(devices.every()[number]), code)


@entry("z i i")
def cuFuncSetAttribute(function: int, code: int, value: int) -> None:
    _set_attribute(kernel(function), code, value)


@entry("i i z i")
def cuKernelSetAttribute(code: int, value: int, handle: int, number: int) -> None:
    _set_attribute(_kernel(handle).on(devices.every()[number]), code, value)


@entry("z i")
def cuFuncSetCacheConfig(function: int, config: int) -> None:
    """Do nothing, because the virtual GPU has no configurable cache."""


@entry("z z >z >z")
def cuKernelGetParamInfo(handle: int, index: int) -> tuple[int, int]:
    places = _places(kernel(handle))
    if index >= len(places):
        raise DriverFailure(Result.CUDA_ERROR_INVALID_VALUE, "cuKernelGetParamInfo")
    return places[index]


@entry("z z >z >z")
def cuFuncGetParamInfo(function: int, index: int) -> tuple[int, int]:
    return cuKernelGetParamInfo(function, index)


def _places(function: CudaFunction | TileFunction) -> list[tuple[int, int]]:
    """Return the aligned offset and the size in bytes of each parameter, in order."""
    if isinstance(function, TileFunction):
        return function.places
    found, offset = [], 0
    for variable in function.ptx.parameters:
        offset = -(-offset // variable.align) * variable.align
        found.append((offset, variable.size))
        offset += variable.size
    return found


@entry(">i z i z")
def cuOccupancyMaxActiveBlocksPerMultiprocessor(handle: int, threads: int, shared: int) -> int:
    shared += kernel(handle).uses.shared
    blocks = blocks_per_multiprocessor(threads)
    return min(blocks, SHARED_PER_MULTIPROCESSOR // shared) if shared else blocks


@entry(">i z i z I")
def cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    handle: int, threads: int, shared: int, flags: int
) -> int:
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(handle, threads, shared)


# -- launches ------------------------------------------------------------------------------------


class _LaunchConfig(ctypes.Structure):
    """The C structure ``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_size_t),
        ("attributes", ctypes.c_size_t),
        ("count", ctypes.c_uint),
    )


_ATTRIBUTE_BYTES = 72  # of a CUlaunchAttribute: its id, 4 bytes of padding, a union of 64
_Launch = binding.CUlaunchAttributeID


@entry("z z z z")
def cuLaunchKernelEx(config: int, function: int, parameters: int, extra: int) -> None:
    wanted = _LaunchConfig.from_address(config)
    cooperative, cluster = False, None
    for k in range(wanted.count):
        at = wanted.attributes + _ATTRIBUTE_BYTES * k
        name = ctypes.c_int.from_address(at).value
        value = ctypes.c_int.from_address(at + 8).value
        if name == _Launch.CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            cooperative = bool(value)
        elif name == _Launch.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            x, y, z = (ctypes.c_uint * 3).from_address(at + 8)
            cluster = x, y, z
    _launch(
        function,
        wanted.grid,
        wanted.block,
        wanted.shared_bytes,
        wanted.stream,
        parameters,
        extra,
        cooperative,
        cluster,
    )


@entry("z I I I I I I I z z z")
def cuLaunchKernel(function: int, *numbers: int) -> None:
    shared_bytes, stream, parameters, extra = numbers[6:]
    _launch(function, numbers[:3], numbers[3:6], shared_bytes, stream, parameters, extra, False)


@entry("z I I I I I I I z z")
def cuLaunchCooperativeKernel(function: int, *numbers: int) -> None:
    shared_bytes, stream, parameters = numbers[6:]
    _launch(function, numbers[:3], numbers[3:6], shared_bytes, stream, parameters, 0, True)


_deferred = threading.local()  # .failures, inside deferring()


@contextmanager
def deferring() -> Iterator[None]:
    """Defer failures of launches inside the context to its end, with the virtual GPU's own error.

    This is for C code that calls the driver to clean up while a Python error is set, when no Python
    code can run.
    """
    failures: list[Exception] = []
    _deferred.failures = failures
    try:
        yield
    finally:
        del _deferred.failures
    if failures:
        raise failures[0]


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except VirtualGPUError as error:
        if not hasattr(_deferred, "failures"):
            raise
        _deferred.failures.append(error)


def _launch(
    handle: int,
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int,
    stream: int,
    parameters: int,
    extra: int,
    cooperative: bool,
    cluster: tuple[int, int, int] | None = None,
) -> None:
    function = kernel(handle)
    API.share_mapped(to_device=True)
    with queues.on(stream), _failing():
        function.run(
            tuple(grid),
            tuple(block),
            _parameters(function, parameters, extra),
            shared_bytes,
            cooperative,
            cluster,
        )
    API.share_mapped(to_device=False)


def _parameters(function: CudaFunction | TileFunction, parameters: int, extra: int) -> list[bytes]:
    """Return the bytes of each parameter, from separate pointers or from one buffer."""
    if parameters:
        return [
            ctypes.string_at(ctypes.c_size_t.from_address(parameters + 8 * k).value, size)
            for k, size in enumerate(function.sizes)
        ]
    buffer = 0
    for at in itertools.count(extra, 16) if extra else ():
        key = ctypes.c_size_t.from_address(at).value
        if key == 0:  # CU_LAUNCH_PARAM_END
            break
        if key == 1:  # CU_LAUNCH_PARAM_BUFFER_POINTER
            buffer = ctypes.c_size_t.from_address(at + 8).value
    if function.sizes and not buffer:
        raise DriverFailure(
            Result.CUDA_ERROR_INVALID_VALUE,
            "cuLaunchKernel",
            f"{function.entry} takes {many(len(function.sizes), 'argument')}, but the launch "
            "passes none",
        )
    return [ctypes.string_at(buffer + offset, size) for offset, size in _places(function)]
