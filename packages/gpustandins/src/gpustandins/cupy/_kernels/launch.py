"""Conversion of CuPy's arguments for a launch, and the errors of launches."""

from __future__ import annotations

import operator
import re
import struct
from typing import Any

import numpy as np

from virtualgpu.standins.interface import (
    Argument,
    CudaFunction,
    Module,
    array_argument,
    number_argument,
    queues,
)

from .. import _launches
from .._arrays import core
from .._errors import as_cupy_does
from ..cuda.memory import MemoryPointer, stream_number
from ..cuda.texture import Handle

# Types of Python numbers, from CuPy's documentation ("User-Defined Kernels", Kernel arguments).
_PYTHON = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def argument(value: Any) -> Argument:
    """Return a value as CuPy passes it to a kernel. Raises TypeError if CuPy refuses it.

    This follows ``cupy.cuda.function._pointer`` and ``cupy._core._scalar.CScalar`` of CuPy 14.
    Arrays of other libraries are refused, although ``ElementwiseKernel`` accepts them.
    """
    if isinstance(value, core.ndarray):
        return array_argument(value.data.ptr, value.dtype)
    if value is None:
        return Argument(bytes(8))
    if isinstance(value, Argument):
        return value
    if isinstance(value, MemoryPointer):
        return Argument(struct.pack("<Q", value.ptr))
    if isinstance(value, Handle):
        return Argument(struct.pack("<Q", value.ptr))
    if type(value) in _PYTHON:
        kind = np.uint64 if type(value) is int and value >= 1 << 63 else _PYTHON[type(value)]
        try:
            value = kind(value)
        except OverflowError:
            raise OverflowError(
                f"{value} does not fit into the 64-bit integer to which CuPy converts a Python int"
            ) from None
    if isinstance(value, np.generic) and value.dtype.kind in "?biufcV":
        return number_argument(value)
    if isinstance(value, np.ndarray) and value.size == 1:
        return number_argument(value.reshape(())[()])  # passed by value: a struct or a number
    if isinstance(value, np.ndarray):
        raise TypeError(
            f"You are trying to pass a numpy.ndarray of shape {value.shape} as a kernel parameter: "
            "it lies on the host, where no kernel can access it; copy it to the device with "
            "cupy.asarray(array)"
        )
    if hasattr(value, "__cuda_array_interface__"):
        raise TypeError(
            f"Unsupported type {type(value)}: a RawKernel accepts only CuPy arrays; "
            "pass cupy.asarray(array), which shares the memory without a copy"
        )
    raise TypeError(f"Unsupported type {type(value)}")


class Function:
    """Kernel of a loaded module, like ``cupy.cuda.Function``.

    Parameters
    ----------
    module : virtualgpu.Module
    funcname : str
    kind : str
        The kind of launch for :func:`virtualgpu.standins.recorder.record`.
    """

    def __init__(self, module: Module, funcname: str, kind: str = "raw"):
        with as_cupy_does():
            self._function = CudaFunction(module, funcname)
        self.name, self._kind = funcname, kind

    def __call__(
        self,
        grid: tuple,
        block: tuple,
        args: Any,
        shared_mem: int = 0,
        stream=None,
        enable_cooperative_groups: bool = False,
        *,
        size: int = 0,
    ) -> None:
        """Launch the kernel; ``size`` is used only for the record."""
        grid, block = _extent(grid, "grid"), _extent(block, "block")
        shared_mem = operator.index(shared_mem)
        if shared_mem < 0:
            raise OverflowError(
                f"can't convert negative value to size_t: shared_mem is {shared_mem}"
            )
        queue = stream_number(stream)
        len(args)  # like CuPy, refuses a generator
        arguments = [argument(value) for value in args]
        _launches.record(self.name, self._kind, size=size, grid=grid, block=block)
        with as_cupy_does(), queues.on(queue):
            self._function.launch(grid, block, arguments, shared_mem, enable_cooperative_groups)

    def linear_launch(
        self, size: int, args: Any, shared_mem: int = 0, block_max_size: int = 128, stream=None
    ) -> None:
        """Launch one thread for each of ``size`` elements, up to the largest grid."""
        blocks = min(0x7FFFFFFF, -(-size // block_max_size))
        self((blocks,), (min(block_max_size, size),), args, shared_mem, stream, size=size)


def load(
    source: str,
    options: tuple[str, ...],
    name: str,
    names: tuple[str, ...] = (),
    headers: tuple = (),
) -> Module:
    """Compile CUDA C++ with NVRTC and load it on the current device. Raises CompileException.

    C++11 and C++14 are raised to C++17. CuPy's ``complex.cuh`` compiles with all three, but the
    libcu++ headers that replace it here need C++17.
    """
    newer = tuple(re.sub(r"^(--?std=c\+\+)1[14]$", r"\g<1>17", option) for option in options)
    with as_cupy_does(source, name, options):
        return Module.from_cuda(source, options=newer, names=names, name=name, headers=headers)


def _extent(dimensions: Any, what: str) -> tuple[int, int, int]:
    if not isinstance(dimensions, tuple):
        raise TypeError(
            f"Argument '{what}' has incorrect type (expected tuple, got "
            f"{type(dimensions).__name__}): write ({dimensions},)"
        )
    if not dimensions:
        raise IndexError(f"tuple index out of range: the {what} is empty")
    # CuPy raises values below 1 to 1.
    return tuple(max(1, operator.index(d)) for d in (*dimensions, 1, 1)[:3])
