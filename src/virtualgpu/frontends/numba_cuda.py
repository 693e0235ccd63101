"""``numba.cuda`` on a device of ours: the only module that touches numba-cuda's internals.

What it relies on (numba-cuda 0.28 to 0.30):

- ``numba.cuda.cudadrv.driver`` reaches the CUDA driver through attributes ``cu...`` of one
  object, ``driver``; they become those of :class:`~virtualgpu.frontends.driver_api.DriverAPI`.
- The same module names its parts of cuda.core ``ExperimentalDevice``, ``ExperimentalStream``
  and ``_Linker``; they become the small classes below.
- ``numba.cuda.dispatcher`` and ``memory_management.nrt`` launch by ``launch(stream, config,
  kernel, *arguments)`` with a
  ``LaunchConfig``, both module globals.
- ``_Kernel.__init__`` takes ``lineinfo``; it is switched on, so that every message can name
  the line. ``_Kernel.entry_name`` is the kernel's name in the PTX.
- Host arrays become device views in ``devicearray._to_strided_memory_view`` and come back in
  ``args.Out.to_device``.
- ``numba.cuda.cudadrv.nvrtc`` compiles CUDA C++ through its global ``Program``.

Typing, lowering, NVVM, caching, argument passing, memory management and streams are all
numba-cuda's own.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import warnings
from types import SimpleNamespace

import numpy as np

from virtualgpu import device
from virtualgpu.compilers.nvrtc import CompilationError, compile_to_ptx
from virtualgpu.errors import LaunchError, MemoryAccessError, VirtualGPUError
from virtualgpu.frontends import arguments
from virtualgpu.frontends.driver_api import CONTEXT, DriverAPI, DriverFailure

_saved: list[tuple[object, str, object]] = []
_kernel_names: dict[str, str] = {}
_api: DriverAPI | None = None


def is_active() -> bool:
    return bool(_saved)


def activate() -> None:
    """Point numba-cuda at :func:`virtualgpu.device.current`. Doing it twice changes nothing."""
    global _api
    if _saved:
        return
    from numba.cuda import args, dispatcher
    from numba.cuda.cudadrv import devicearray, devices, nvrtc
    from numba.cuda.cudadrv import driver as module
    from numba.cuda.memory_management import nrt

    _api = DriverAPI()
    driver = module.driver
    _replace(driver, "is_initialized", True)
    _replace(driver, "initialization_error", None)
    _replace(driver, "pid", os.getpid())
    module._logger = module.make_logger()
    for name in dir(_api):
        if name.startswith("cu"):
            _replace(driver, name, _numba_call(module, getattr(_api, name)))
    _replace(module, "ExperimentalDevice", CoreDevice)
    _replace(module, "ExperimentalStream", CoreStream)
    _replace(module, "_Linker", _linker_class(module))
    _replace(module.Stream, "add_callback", _add_callback)
    _replace(module.ManagedMemory, "__init__", _managed_init(module))
    launch = _launch_for(module)
    for user in (dispatcher, nrt):
        _replace(user, "launch", launch)
        _replace(user, "LaunchConfig", SimpleNamespace)
    _replace(nrt, "_Linker", module._Linker)
    _replace(dispatcher._Kernel, "__init__", _kernel_init(dispatcher._Kernel.__init__))
    _replace(nvrtc, "Program", Program)
    convert = arguments.to_strided_memory_view(devicearray, arguments.view_class(devicearray))
    _replace(devicearray, "_to_strided_memory_view", convert)
    _replace(args.Out, "to_device", arguments.out_to_device(convert))
    _forget_devices(driver, devices)


def deactivate() -> None:
    """Give numba-cuda its own parts back."""
    from numba.cuda.cudadrv import devices
    from numba.cuda.cudadrv import driver as module

    _forget_devices(module.driver, devices)
    while _saved:
        owner, name, value = _saved.pop()
        if value is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)


_MISSING = object()


def _replace(owner: object, name: str, value: object) -> None:
    before = owner.__dict__.get(name, _MISSING)
    _saved.append((owner, name, before))
    setattr(owner, name, value)


def _forget_devices(driver, devices) -> None:
    """Devices and contexts made through the other driver must not be met again."""
    driver.devices.clear()
    devices._runtime.gpus.__class__.lst.fget.cache_clear()
    devices._runtime._tls.__dict__.clear()


def _numba_call(module, function):
    def call(*arguments):
        try:
            return function(*arguments)
        except DriverFailure as failure:
            raise module.CudaAPIError(failure.code, str(failure)) from None

    return call


# -- parts of cuda.core --------------------------------------------------------------------------


class CoreDevice:
    """In place of ``cuda.core.Device``."""

    def __init__(self, number: int = 0):
        current = device.current()
        self.device_id = number
        self.name = current.name
        self.compute_capability = current.compute_capability
        self.uuid = "00000000-0000-0000-0000-000000000000"
        self.context = SimpleNamespace(handle=_context_handle(), _handle=_context_handle())

    def set_current(self) -> None:
        _api.cuCtxPushCurrent(CONTEXT)


def _context_handle():
    from cuda.bindings import driver as binding

    return binding.CUcontext(CONTEXT)


class CoreStream:
    """In place of ``cuda.core.Stream``: work is done when the call returns."""

    def __init__(self, handle: int):
        self.handle = int(handle)

    @classmethod
    def from_handle(cls, handle) -> CoreStream:
        return cls(handle)

    def __cuda_stream__(self):
        return (0, self.handle)

    def __int__(self):
        return self.handle

    def sync(self) -> None:
        device.current().synchronize()


def _add_callback(self, callback, arg=None) -> None:
    """All work of the stream is done already: call at once."""
    callback(self, 0, arg)


def _managed_init(module):
    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        self.owned = owner
        module.AutoFreePointer.__init__(self, context, pointer, size, finalizer=finalizer)
        self._buflen_ = self.size
        # The host reads the device's bytes where they are; the two addresses differ here.
        self._bufptr_ = _api.host_address(int(pointer), size)

    return __init__


class Program:
    """In place of ``cuda.core.Program``, which asks for a driver: NVRTC needs none."""

    def __init__(self, source, language, options=None):
        self.source = source.decode() if isinstance(source, bytes) else source
        self.options = options

    def compile(self, target, logs=None, **_):
        o = self.options
        flags = [f"-I{p}" for p in o.include_path or ()]
        if o.relocatable_device_code:
            flags.append("--relocatable-device-code=true")
        if o.debug:
            flags.append("-G")
        if o.arch:
            flags.append(f"--gpu-architecture={o.arch.replace('sm_', 'compute_')}")
        name = o.name or "kernel.cu"
        try:
            text, _ = compile_to_ptx(self.source, name, tuple(flags))
        except CompilationError as error:
            if logs is not None:
                logs.write(error.log)
            raise
        return SimpleNamespace(code=text.encode(), code_type="ptx")


_handles = itertools.count(1)


class ObjectCode:
    """Linked PTX, as ``cuda.core.ObjectCode`` is a linked cubin; loaded when first used."""

    def __init__(self, texts: list[str]):
        self.texts = texts
        self.code = "\n".join(texts).encode()
        self.handle = next(_handles)
        self._loaded = None
        self._device = None
        _api.modules[self.handle] = self

    def __int__(self):
        return self.handle

    def loaded(self):
        if self._loaded is None or self._device is not device.current():
            self._device = device.current()
            self._loaded = self._device.load(self.texts, _kernel_names)
        return self._loaded

    def get_kernel(self, name: str) -> CoreKernel:
        return CoreKernel(self, name)

    def unload(self) -> None:
        if self._loaded is not None and hasattr(self._loaded, "unload"):
            self._loaded.unload()
        self._loaded = None


class CoreKernel:
    """In place of ``cuda.core.Kernel``."""

    def __init__(self, code: ObjectCode, name: str):
        from virtualgpu.ptx import parse

        self.code, self.name = code, name
        self.handle = self._handle = self
        functions = {}
        for text in code.texts:
            module = parse(text)
            functions |= module.functions
            if name in module.functions:
                function, variables = module.functions[name], module.variables
        if name not in functions:
            raise VirtualGPUError(f"no kernel {name} in the linked PTX")
        self.sizes = [p.size for p in function.parameters]
        shared = sum(v.size for v in (*variables.values(), *function.variables.values())
                     if v.space == "shared")
        local = sum(v.size for v in function.variables.values() if v.space == "local")
        constant = sum(v.size for v in variables.values() if v.space == "const")
        self.attributes = SimpleNamespace(
            # Registers are given out by the assembler of a real GPU: PTX has as many as it likes.
            num_regs=min(255, len(function.registers)), const_size_bytes=constant,
            local_size_bytes=local, shared_size_bytes=shared,
            max_threads_per_block=function.maximum_threads or 1024)


def _linker_class(module):
    class Linker(module._Linker):
        """Collects PTX; CUDA C++ goes through NVRTC first."""

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.lto = False  # PTX is what runs: link-time optimisation has nothing to add
            self.texts: list[str] = []

        def add_ptx(self, ptx, name="<cudapy-ptx>"):
            self.texts.append(ptx.decode() if isinstance(ptx, bytes) else ptx)

        def add_cu(self, cu, name="<cudapy-cu>"):
            from numba.cuda.cudadrv import nvrtc

            code, _ = nvrtc.compile(cu, name, self.cc, lineinfo=True)
            self.add_ptx(code.code)

        def add_library(self, lib, name="<cudapy-lib>"):
            if "cudadevrt" not in str(lib) + str(name):
                self._refuse("a library")

        def add_file(self, path, kind):
            if "cudadevrt" in str(path):
                return  # its functions are intrinsics of the machine
            super().add_file(path, kind)

        def add_cubin(self, cubin, name="<cudapy-cubin>"):
            self._refuse("a cubin")

        def add_ltoir(self, ltoir, name="<cudapy-ltoir>"):
            self._refuse("LTO-IR")

        def add_fatbin(self, fatbin, name="<cudapy-fatbin>"):
            self._refuse("a fatbin")

        def add_object(self, obj, name="<cudapy-object>"):
            self._refuse("an object file")

        def _refuse(self, what):
            raise module.LinkerError(
                f"{what} holds machine code of a real GPU; the virtual GPU links PTX and "
                "CUDA C++ (.ptx, .cu)")

        def get_linked_ptx(self):
            return "\n".join(self.texts).encode()

        info_log = error_log = ""

        def close(self):
            self._complete = True

        def complete(self):
            self._complete = True
            return ObjectCode(self.texts)

    Linker.__name__ = "_Linker"
    return Linker


# -- launching ----------------------------------------------------------------------------------


def _kernel_init(original):
    from numba.cuda.core.errors import NumbaDebugInfoWarning, NumbaError

    def __init__(self, py_func, argtypes, *args, **kwargs):
        if kwargs.get("debug") or kwargs.get("lineinfo"):
            original(self, py_func, argtypes, *args, **kwargs)
        else:
            _with_lines(self, py_func, argtypes, *args, **kwargs)
        _kernel_names[self.entry_name] = py_func.__name__

    def _with_lines(self, py_func, argtypes, *args, **kwargs):
        """Compile with line information that the user did not ask for and must not feel."""
        try:
            with warnings.catch_warnings():
                # A function made by exec has no source to point at.
                warnings.simplefilter("ignore", NumbaDebugInfoWarning)
                original(self, py_func, argtypes, *args, **{**kwargs, "lineinfo": True})
        except NumbaError:
            raise
        except Exception:
            # Numba cannot describe some types (a tuple of empty tuples) to a debugger.
            original(self, py_func, argtypes, *args, **kwargs)

    return __init__


def _launch_for(module):
    from cuda.core._utils.cuda_utils import CUDAError

    class IllegalAddress(MemoryAccessError, module.CudaAPIError):
        """The error of a real GPU (700, illegal address) with what it cannot tell."""

        def __init__(self, error: MemoryAccessError):
            MemoryAccessError.__init__(
                self, error.message, error.location, address=error.address, space=error.space)
            self.code, self.msg = 700, str(error)

        def __str__(self):
            return Exception.__str__(self)

    class InvalidLaunch(LaunchError, CUDAError):
        """The error of cuda.core for a launch that no device takes, with the reason."""

        def __init__(self, error: LaunchError):
            LaunchError.__init__(self, f"{error.message} (CUDA_ERROR_INVALID_VALUE)",
                                 error.location)

    InvalidLaunch.__name__ = InvalidLaunch.__qualname__ = "LaunchError"
    IllegalAddress.__name__ = IllegalAddress.__qualname__ = "MemoryAccessError"

    def launch(stream, config, kernel, *arguments):
        parameters = [
            _bytes(value, size) for value, size in zip(arguments, kernel.sizes, strict=True)
        ]
        _api.share_mapped(to_device=True)
        try:
            device.current().launch(
                kernel.code.loaded(), kernel.name, _three(config.grid), _three(config.block),
                parameters, getattr(config, "shmem_size", 0) or 0,
                bool(getattr(config, "is_cooperative",
                             getattr(config, "cooperative_launch", False))))
        except MemoryAccessError as error:
            raise IllegalAddress(error) from None
        except LaunchError as error:
            raise InvalidLaunch(error) from None
        _api.share_mapped(to_device=False)

    return launch


def _three(dimensions) -> tuple[int, int, int]:
    return ((*tuple(int(d) for d in dimensions), 1, 1))[:3]


def _bytes(value, size: int) -> bytes:
    """A kernel argument as the bytes of a parameter of ``size`` bytes."""
    if isinstance(value, np.generic):
        raw = value.tobytes()
    elif isinstance(value, float):
        raw = struct.pack("<d" if size == 8 else "<f", value)
    elif isinstance(value, ctypes._SimpleCData | ctypes.Structure):
        raw = bytes(value)
    else:
        raw = (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return raw if len(raw) == size else raw[:size].ljust(size, b"\0")
