"""Kernels from PTX or CUDA C++ text, launched with plain values and arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from virtualgpu import device as devices
from virtualgpu.compilers.nvrtc import compile_to_ptx
from virtualgpu.errors import LaunchError
from virtualgpu.ptx import Variable, parse


class Module:
    """PTX loaded on a device.

    >>> module = Module.from_cuda('extern "C" __global__ void twice(float *x) '
    ...                           '{ x[threadIdx.x] *= 2; }')
    >>> x = np.arange(4, dtype=np.float32)
    >>> module.launch("twice", 1, 4, [x])
    >>> x
    array([0., 2., 4., 6.], dtype=float32)
    """

    def __init__(self, texts: list[str], mangled: dict[str, str] | None = None,
                 device: devices.Device | None = None):
        self.texts = texts
        self.mangled = mangled or {}
        self.device = device or devices.current()
        shown = {entry: expression for expression, entry in self.mangled.items()}
        self.loaded = self.device.load(texts, shown)
        self._parameters: dict[str, list[Variable]] = {}
        for text in texts:
            for name, function in parse(text).functions.items():
                if function.is_entry:
                    self._parameters[name] = list(function.parameters)

    @classmethod
    def from_ptx(cls, *texts: str, device: devices.Device | None = None) -> Module:
        """Link PTX texts. Raises PTXSyntaxError, LinkError, UnsupportedInstruction."""
        return cls(list(texts), device=device)

    @classmethod
    def from_cuda(cls, source: str, *, options: tuple[str, ...] = (),
                  names: tuple[str, ...] = (), name: str = "kernel.cu",
                  device: devices.Device | None = None) -> Module:
        """Compile CUDA C++ with NVRTC and load it.

        ``names`` are name expressions (``"add<float>"``); kernels may be launched by them.
        Raises :class:`~virtualgpu.compilers.nvrtc.CompilationError` with the compiler's words.
        """
        text, mangled = compile_to_ptx(source, name, tuple(options), tuple(names))
        return cls([text], mangled, device)

    @property
    def entries(self) -> list[str]:
        """The kernels' names in the PTX."""
        return list(self._parameters)

    def launch(self, entry: str, grid: int | tuple, block: int | tuple, args: list[Any] = (),
               *, shared_bytes: int = 0, cooperative: bool = False) -> None:
        """Run a kernel to its end.

        Parameters
        ----------
        entry : str
            A kernel's name, or a name expression given to :meth:`from_cuda`.
        grid, block : int or tuple of up to three ints
        args : list
            One value per parameter. A NumPy array is copied to the device, passed as a pointer
            and copied back; anything with ``__cuda_array_interface__`` is passed as its
            pointer; ``bytes`` as they are; NumPy and ctypes numbers as the bytes of their own
            type, Python ints and floats as the type that the kernel declares. The same array
            twice is one array on the device too.
        shared_bytes : int
            Dynamic shared memory per block.

        Raises
        ------
        LaunchError
            The wrong number or sizes of arguments, or an impossible grid.
        VirtualGPUError
            What goes wrong in the kernel.
        """
        entry = self.mangled.get(entry, entry)
        if entry not in self._parameters:
            raise LaunchError(f"no kernel {entry}; the module has: {', '.join(self.entries)}")
        wanted = self._parameters[entry]
        if len(args) != len(wanted):
            raise LaunchError(f"kernel {entry} takes {len(wanted)} arguments, not {len(args)}")
        copies: list[tuple[int, np.ndarray]] = []
        try:
            parameters = [
                self._parameter(value, variable, position, copies)
                for position, (value, variable) in enumerate(zip(args, wanted, strict=True))
            ]
            self.device.launch(self.loaded, entry, _three(grid), _three(block), parameters,
                               shared_bytes, cooperative)
            for address, array in copies:
                if array.flags.writeable and array.size:
                    array[...] = self.device.read(address, array.nbytes).view(
                        array.dtype).reshape(array.shape)
        finally:
            for address, _ in copies:
                self.device.free(address)

    def _parameter(self, value: Any, variable: Variable, position: int, copies: list) -> bytes:
        size = variable.size
        if isinstance(value, np.ndarray):
            address = next((a for a, array in copies if array is value), None)
            if address is None:
                address = self.device.allocate(value.nbytes)
                copies.append((address, value))
                if value.size:
                    self.device.write(address, value)
            raw = np.uint64(address).tobytes()
        elif (interface := getattr(value, "__cuda_array_interface__", None)) is not None:
            raw = np.uint64(interface["data"][0]).tobytes()
        elif isinstance(value, bytes):
            raw = value
        elif isinstance(value, np.generic):
            raw = value.tobytes()
        elif isinstance(value, ctypes._SimpleCData | ctypes.Structure):
            raw = bytes(value)
        elif isinstance(value, bool | int | float):
            raw = _number(value, variable, position)
        else:
            raise LaunchError(
                f"argument {position} is a {type(value).__name__}; a kernel takes numbers, "
                "bytes and arrays")
        if len(raw) != size:
            raise LaunchError(
                f"argument {position} has {len(raw)} bytes, its parameter {size}: give a NumPy "
                "scalar of the type that the kernel declares")
        return raw


def _number(value: float, variable: Variable, position: int) -> bytes:
    """A Python number as the type of a kernel's parameter."""
    size, is_float = variable.size, variable.element in ("f16", "f32", "f64")
    misfit = LaunchError(
        f"argument {position} is {str(value)[:40]}, which does not fit the kernel's parameter of "
        f"type {variable.element}, {size} bytes")
    if isinstance(value, float) and not is_float:
        raise misfit
    if is_float:
        try:
            return np.float64(value).astype(f"f{size}").tobytes()
        except OverflowError:
            raise misfit from None
    if not -(1 << 8 * size - 1) <= value < 1 << 8 * size:
        raise misfit
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _three(dimensions: int | tuple) -> tuple[int, int, int]:
    if isinstance(dimensions, int | np.integer):
        dimensions = (dimensions,)
    return (*(int(d) for d in dimensions), 1, 1)[:3]
