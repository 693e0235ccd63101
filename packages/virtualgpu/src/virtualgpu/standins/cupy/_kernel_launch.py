"""From CuPy's arguments to a launch, and the errors on the way."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from virtualgpu.cuda.function import CudaFunction
from virtualgpu.cuda.kernel_arguments import Argument, array_argument, number_argument
from virtualgpu.cuda.module import Module
from virtualgpu.watch import queues

from . import _core, _launches
from ._kernel_errors import as_cupy_does
from .cuda.memory import MemoryPointer, stream_number
from .cuda.texture import Handle

# CuPy's documentation, "User-Defined Kernels", Kernel arguments: the types of Python's numbers.
_PYTHON = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def argument(value: Any) -> Argument:
    """A value for a kernel as CuPy hands it over. Raises TypeError for what it refuses."""
    if isinstance(value, _core.ndarray):
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
        try:
            value = _PYTHON[type(value)](value)
        except OverflowError:
            raise OverflowError(
                f"{value} does not fit 64 bits, which CuPy makes of a Python int") from None
    if isinstance(value, np.generic) and value.dtype.kind in "?biufcV":
        return number_argument(value)
    if (interface := getattr(value, "__cuda_array_interface__", None)) is not None:
        return array_argument(interface["data"][0], interface["typestr"])
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind == "V":
        return number_argument(value.reshape(())[()])  # a struct, by value
    if isinstance(value, np.ndarray):
        raise TypeError(
            f"Unsupported type {type(value)}: a NumPy array lies on the host, where no kernel "
            "can reach it; cupy.asarray(array) copies it to the device")
    raise TypeError(f"Unsupported type {type(value)}")


class Function:
    """``cupy.cuda.Function``: a kernel of a loaded module.

    Parameters
    ----------
    module : virtualgpu.Module
    funcname : str
    kind : str
        How the launches are named in :func:`virtualgpu.standins.recorder.record`.
    """

    def __init__(self, module: Module, funcname: str, kind: str = "raw"):
        with as_cupy_does():
            self._function = CudaFunction(module, funcname)
        self.name, self._kind = funcname, kind

    def __call__(self, grid: tuple, block: tuple, args: Any, shared_mem: int = 0, stream=None,
                 enable_cooperative_groups: bool = False, *, size: int = 0) -> None:
        """Launch. ``size`` is for the record alone."""
        grid, block = _extent(grid, "grid"), _extent(block, "block")
        arguments = [argument(value) for value in args]
        _launches.record(self.name, self._kind, size=size, grid=grid, block=block)
        with as_cupy_does(), queues.on(stream_number(stream)):
            self._function.launch(grid, block, arguments, int(shared_mem),
                                  enable_cooperative_groups)

    def linear_launch(self, size: int, args: Any, shared_mem: int = 0,
                      block_max_size: int = 128, stream=None) -> None:
        """Launch one thread for each of ``size`` elements, as far as a grid reaches."""
        blocks = min(0x7FFFFFFF, -(-size // block_max_size))
        self((blocks,), (min(block_max_size, size),), args, shared_mem, stream, size=size)


def load(source: str, options: tuple[str, ...], name: str, names: tuple[str, ...] = (),
         headers: tuple = ()) -> Module:
    """Compile CUDA C++ with NVRTC and load it on the current device. Raises CompileException."""
    with as_cupy_does(source, name, options):
        return Module.from_cuda(source, options=options, names=names, name=name, headers=headers)


def _extent(dimensions: Any, what: str) -> tuple[int, int, int]:
    if not isinstance(dimensions, tuple):
        raise TypeError(
            f"Argument '{what}' has incorrect type (expected tuple, got "
            f"{type(dimensions).__name__}): write ({dimensions},)")
    # CuPy makes 1 of what is less.
    return tuple(max(1, int(d)) for d in (*dimensions, 1, 1)[:3])
