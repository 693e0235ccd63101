"""Modules and functions on the virtual GPU directly, or on a real GPU through CuPy.

``cupy.RawModule`` would suffice for both, except for three features of PyCUDA: each load has its
own variables, arguments are packed into one buffer, and compiler warnings are shown.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from gpustandins.nvcc import PRE_INCLUDE, TYPES
from virtualgpu.standins.interface import (
    HOST_HEADERS,
    THRUST_COMPLEX,
    Argument,
    CudaFunction,
    Module,
    many,
    queues,
)

from . import VIRTUAL
from ._context import number
from ._errors import LogicError

COMPLEX = "pycuda-complex.hpp"
_COMPLEX = r"""#include <cuda/std/complex>
namespace pycuda {
using cuda::std::complex; using cuda::std::abs; using cuda::std::arg; using cuda::std::norm;
using cuda::std::conj; using cuda::std::polar; using cuda::std::exp; using cuda::std::log;
using cuda::std::pow; using cuda::std::sqrt; using cuda::std::sin; using cuda::std::cos;
using cuda::std::real; using cuda::std::imag;
}
"""


class _VirtualKernel(CudaFunction):
    """Kernel on the virtual GPU."""

    def start(self, grid, block, arguments: Sequence[Argument], shared: int, stream) -> None:
        with queues.on(number(stream)):
            self.look(arguments)
            self.run(grid, block, self._parameters(arguments), shared)

    def _parameters(self, arguments: Sequence[Argument]) -> list[bytes]:
        """Unpack the kernel's parameters from one buffer, as PyCUDA packs them.

        Each value is aligned to its size, so a value that is too wide shifts those after it.
        """
        buffer = bytearray()
        for one in arguments:
            align = (
                one.dtype.itemsize
                if one.dtype is not None and one.dtype.kind in "iuf" and (not one.is_array)
                else 8
                if one.is_array or len(one.raw) == 8
                else 1
            )
            buffer += bytes(-len(buffer) % align) + one.raw
        found, at = [], 0
        for variable in self.ptx.parameters:
            at += -at % max(variable.align, 1)
            if at + variable.size > len(buffer):
                raise LogicError(
                    f"cuLaunchKernel failed: invalid argument (kernel {self.entry} takes "
                    f"{many(len(self.sizes), 'argument')} of {self.sizes} bytes, but the "
                    f"{len(arguments)} that it got have {[len(one.raw) for one in arguments]})"
                )
            found.append(bytes(buffer[at : at + variable.size]))
            at += variable.size
        return found

    def prefer_shared(self, carveout: int) -> None:
        self.carveout = carveout


class _VirtualModule:
    """Module on the virtual GPU."""

    def __init__(self, module: Module):
        self._module, self.log, self.symbol = module, module.log, module.symbol

    def ptx(self) -> bytes:
        return self._module.texts[0].encode()

    def kernel(self, name: str) -> _VirtualKernel:
        return _VirtualKernel(self._module, name)


class _CuPyKernel:
    """Kernel on a real GPU."""

    def __init__(self, kernel: cupy.RawKernel):
        self._kernel = kernel

    @property
    def attributes(self) -> dict[str, int]:
        return self._kernel.attributes

    def allow_dynamic(self, nbytes: int) -> None:
        self._kernel.max_dynamic_shared_size_bytes = nbytes

    def prefer_shared(self, carveout: int) -> None:
        self._kernel.preferred_shared_memory_carveout = carveout

    def start(self, grid, block, arguments: Sequence[Argument], shared: int, stream) -> None:
        self._kernel(
            grid,
            block,
            tuple(map(_value, arguments)),
            shared_mem=shared,
            stream=stream or cupy.cuda.Stream.null,
        )


def _value(argument: Argument) -> np.generic | np.ndarray:
    """Return an argument that CuPy passes by value: a number, an address or a record."""
    if argument.is_array or (argument.dtype is None and len(argument.raw) == 8):
        return np.frombuffer(argument.raw, np.uint64)[0]
    if argument.dtype is None:
        return np.frombuffer(argument.raw, f"V{len(argument.raw)}")
    return np.frombuffer(argument.raw, argument.dtype)[0]


class _CuPyModule:
    """Module on a real GPU. In CuPy, two loads of one source share their variables.

    ``keep`` is the file from which the module is loaded again on another device.
    """

    log = ""  # CuPy would have to load another module to get the compiler's output

    def __init__(self, module: cupy.RawModule, keep: Any = None):
        self._module, self._keep = module, keep
        module.compile()

    def kernel(self, name: str) -> _CuPyKernel:
        return _CuPyKernel(self._module.get_function(name))

    def ptx(self) -> bytes:
        raise NotImplementedError(
            "pycuda.compiler.compile is not available on CuPy, which does not return the code: "
            "use SourceModule"
        )

    def symbol(self, name: str) -> tuple[int, int | None]:
        pointer = self._module.get_global(name)
        return pointer.ptr, pointer.mem.size or None


Kernel = _VirtualKernel | _CuPyKernel
Loaded = _VirtualModule | _CuPyModule


def load_cuda(source: str, name: str, options: Sequence[str], arch: str | None) -> Loaded:
    """Compile CUDA C++ and load it on the current device.

    On a real GPU, ``arch`` is ignored and the code is compiled for that GPU.
    """
    if VIRTUAL:
        architecture = [] if arch is None else [f"--gpu-architecture={arch}"]
        options = [*options, *architecture, PRE_INCLUDE]
        headers = (*HOST_HEADERS, THRUST_COMPLEX, (COMPLEX, _COMPLEX), TYPES)
        return _VirtualModule(Module.from_cuda(source, options=options, name=name, headers=headers))
    # CuPy accepts headers only as files; Jitify finds those of the C library.
    own = _COMPLEX if COMPLEX in source else ""
    source = TYPES[1] + own + re.sub(rf"#include\s*[<\"]{COMPLEX}[>\"]", "", source)
    jitify = "#include" in source
    return _CuPyModule(cupy.RawModule(code=source, options=tuple(options), jitify=jitify))


def load_ptx(text: bytes) -> Loaded:
    """Load PTX on the current device."""
    if VIRTUAL:
        return _VirtualModule(Module.from_ptx(text.decode()))
    file = tempfile.NamedTemporaryFile(suffix=".ptx")
    file.write(text)
    file.flush()
    return _CuPyModule(cupy.RawModule(path=file.name), file)
