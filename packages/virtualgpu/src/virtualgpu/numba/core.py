"""Replacements of the parts of cuda.core that numba-cuda uses, which would need a driver.

Each class has only the attributes and methods that numba-cuda 0.30 uses. The module cannot be
called ``cuda_core``, because numba-cuda's import hook takes over every name that contains
``numba.cuda``.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace

from virtualgpu import devices
from virtualgpu.compilers.nvrtc import CompilationError, compile_to_ptx
from virtualgpu.cuda.driver_api import API
from virtualgpu.cuda.kernel_resources import find_kernel, resources
from virtualgpu.devices.per_device import PerDevice
from virtualgpu.memory import array_names

kernel_names: dict[str, str] = {}  # entry in the PTX → the Python function's name


class CoreDevice:
    """Replacement of ``cuda.core.Device``."""

    def __init__(self, number: int = 0):
        current = devices.every()[number]
        self.device_id = number
        self.name = current.name
        self.compute_capability = current.compute_capability
        self.uuid = f"00000000-0000-0000-0000-{number:012}"
        handle = _context_handle(number)
        self.context = SimpleNamespace(handle=handle, _handle=handle)

    def set_current(self) -> None:
        API.cuCtxPushCurrent(self.context.handle)


def _context_handle(number: int):
    from cuda.bindings import driver as binding

    return binding.CUcontext(number + 1)  # 0 would mean no context


class CoreStream:
    """Replacement of ``cuda.core.Stream``; work is complete when a call returns."""

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
        API.cuStreamSynchronize(self.handle)


class NVRTCProgram:
    """Replacement of ``cuda.core.Program``, which needs a driver; NVRTC itself needs none."""

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
    """Linked PTX in place of a linked cubin (``cuda.core.ObjectCode``), loaded on first use."""

    def __init__(self, texts: list[str]):
        self.texts = texts
        self.code = "\n".join(texts).encode()
        self.handle = next(_handles)
        self.arrays: list[array_names.Arrays] = []  # names of kernels that come from a cache
        # Each device has its own copy of the module's variables.
        self._loaded: PerDevice = PerDevice()
        API.modules[self.handle] = self

    def __int__(self):
        return self.handle

    def __reduce__(self):
        # Numba's disk cache pickles it; an unpickled object is loaded and numbered again.
        names = {e: n for e, n in kernel_names.items() if any(e in text for text in self.texts)}
        arrays = {entry: array_names.registered(entry) for entry in names}
        return _from_cache, (self.texts, names, arrays)

    def loaded(self, device: devices.Device | None = None):
        """Return the module on ``device`` (default: the current one), loaded on first use."""
        device = device or devices.current()
        return self._loaded.get_or(lambda: device.load(self.texts, kernel_names), device)

    def get_kernel(self, name: str) -> CoreKernel:
        return CoreKernel(self, name)

    def unload(self) -> None:
        for device, loaded in self._loaded.clear().items():
            device.unload(loaded)


def _from_cache(texts: list[str], names: dict[str, str], arrays: dict[str, tuple]) -> ObjectCode:
    kernel_names.update(names)
    code = ObjectCode(texts)
    code.arrays = [array_names.register(entry, known) for entry, known in arrays.items()]
    return code


class CoreKernel:
    """Replacement of ``cuda.core.Kernel``."""

    def __init__(self, code: ObjectCode, name: str):
        self.code, self.name = code, name
        self.handle = self._handle = self
        self.sizes = [p.size for p in find_kernel(code.texts, name)[1].parameters]
        used = resources(code.texts, name)
        self.attributes = SimpleNamespace(
            num_regs=used.registers,
            const_size_bytes=used.constant,
            local_size_bytes=used.local,
            shared_size_bytes=used.shared,
            max_threads_per_block=used.maximum_threads,
        )


def linker_class(module):
    class Linker(module._Linker):
        """Linker that collects PTX; CUDA C++ is first compiled by NVRTC."""

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.lto = False  # PTX is executed, so link-time optimisation has no effect
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
                return  # the virtual GPU provides its functions
            super().add_file(path, kind)

        def _refuse(self, what):
            raise module.LinkerError(
                f"{what} contains machine code for a real GPU; the virtual GPU links only PTX "
                "and CUDA C++ (.ptx, .cu)"
            )

        def get_linked_ptx(self):
            return "\n".join(self.texts).encode()

        info_log = error_log = ""

        def close(self):
            self._complete = True

        def complete(self):
            self._complete = True
            return ObjectCode(self.texts)

    for form, what in (
        ("cubin", "a cubin"),
        ("ltoir", "LTO-IR"),
        ("fatbin", "a fatbin"),
        ("object", "an object file"),
    ):
        setattr(Linker, f"add_{form}", lambda self, code, name="", what=what: self._refuse(what))
    Linker.__name__ = "_Linker"
    return Linker
