"""Memory, arguments and launches."""

from __future__ import annotations

import ctypes

import cupy
import numpy as np


class Error(Exception):
    """Any error of this module."""


class CompileError(Error):
    """The source does not compile; the message is NVRTC's."""


class LogicError(Error):
    """A call that makes no sense."""


class DeviceAllocation:
    """Bytes on the GPU, freed with this object."""

    def __init__(self, nbytes: int):
        self.size = int(nbytes)
        self._pointer = cupy.cuda.alloc(self.size)

    def __int__(self) -> int:
        return self._pointer.ptr

    __index__ = __int__

    def free(self) -> None:
        """Give the memory back now."""
        self._pointer = None

    def as_argument(self) -> np.uintp:
        """Its address: which numbers lie there, the kernel knows."""
        if self._pointer is None:
            raise LogicError("the memory was freed")
        return np.uintp(self._pointer.ptr)


class Variable:
    """A ``__constant__`` or ``__device__`` variable of a module, to copy to and from."""

    def __init__(self, pointer):
        self._pointer = pointer

    def __int__(self) -> int:
        return self._pointer.ptr

    __index__ = __int__


class ArgumentHandler:
    """A host array as an argument: what happens to it around a launch."""

    copies_in = copies_out = False

    def __init__(self, array: np.ndarray):
        self.array = np.asarray(array)


class In(ArgumentHandler):
    """Copied to the GPU before the launch."""

    copies_in = True


class Out(ArgumentHandler):
    """Copied back after the launch."""

    copies_out = True


class InOut(In, Out):
    """Copied to the GPU and back."""


class Function:
    """A kernel; call it with its arguments and ``block=``, ``grid=``, ``shared=``, ``stream=``."""

    def __init__(self, kernel, name: str):
        self._kernel, self._name = kernel, name

    def __call__(
        self,
        *arguments,
        block=None,
        grid=(1, 1),
        shared: int = 0,
        stream=None,
        texrefs=(),
        time_kernel: bool = False,
    ):
        if block is None:
            raise ValueError("must specify block size")
        held = [_argument(at, one) for at, one in enumerate(arguments)]
        self._kernel(tuple(grid), tuple(block), tuple(held), shared_mem=shared, stream=stream)
        for argument, device in zip(arguments, held, strict=True):
            if isinstance(argument, ArgumentHandler) and argument.copies_out:
                argument.array[...] = device.get()


def _argument(at: int, argument):
    """Return what CuPy takes.

    As in PyCUDA, numbers must have a width (np.int32(n), not n).
    """
    # By what it does and not by its name: a lesson that counts copies replaces In and Out.
    if isinstance(argument, ArgumentHandler):
        if argument.copies_in:
            return cupy.asarray(argument.array)
        return cupy.empty(argument.array.shape, argument.array.dtype)
    if isinstance(argument, DeviceAllocation):
        return argument.as_argument()
    if isinstance(argument, np.generic | cupy.ndarray):
        return argument
    raise TypeError(
        f"invalid type on parameter #{at} (0-based): {type(argument).__name__}; pass "
        "np.int32(n) or np.float32(x) for numbers, In, Out or InOut for arrays"
    )


def mem_alloc(nbytes: int) -> DeviceAllocation:
    """Bytes on the GPU."""
    return DeviceAllocation(nbytes)


def memcpy_htod(target: DeviceAllocation | Variable, source: np.ndarray) -> None:
    """Host to GPU."""
    source = np.ascontiguousarray(source)
    target._pointer.copy_from_host(ctypes.c_void_p(source.ctypes.data), source.nbytes)


def memcpy_dtoh(target: np.ndarray, source: DeviceAllocation | Variable) -> None:
    """GPU to host; ``target`` must be contiguous."""
    source._pointer.copy_to_host(ctypes.c_void_p(target.ctypes.data), target.nbytes)


def memcpy_dtod(target: DeviceAllocation, source: DeviceAllocation, nbytes: int) -> None:
    """GPU to GPU."""
    target._pointer.copy_from_device(source._pointer, nbytes)


def to_device(array: np.ndarray) -> DeviceAllocation:
    """Copy an array's bytes to the GPU."""
    allocation = mem_alloc(array.nbytes)
    memcpy_htod(allocation, array)
    return allocation


class Context:
    """The context that CuPy made."""

    @staticmethod
    def synchronize() -> None:
        """Wait for everything launched."""
        cupy.cuda.Device().synchronize()


class Device:
    """GPU number ``number``."""

    def __init__(self, number: int):
        self._number = number

    @staticmethod
    def count() -> int:
        return cupy.cuda.runtime.getDeviceCount()

    def name(self) -> str:
        return cupy.cuda.runtime.getDeviceProperties(self._number)["name"].decode()

    def compute_capability(self) -> tuple[int, int]:
        digits = cupy.cuda.Device(self._number).compute_capability
        return int(digits[:-1]), int(digits[-1])


class Event(cupy.cuda.Event):
    """A mark in a stream."""

    def time_till(self, other: Event) -> float:
        """Milliseconds between two recorded events."""
        return cupy.cuda.get_elapsed_time(self, other)


def init() -> None:
    """CuPy did it."""
