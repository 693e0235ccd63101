"""CUDA modules from PTX or CUDA C++ text, with launches that take values and arrays."""

from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from virtualgpu import devices as devices
from virtualgpu.compilers.nvrtc import compile_cuda
from virtualgpu.compilers.signatures import ParameterType, kernel_signature, kernel_signatures
from virtualgpu.cuda import kernel_arguments
from virtualgpu.cuda.kernel_arguments import Argument, array_argument, number_argument
from virtualgpu.cuda.kernel_resources import Resources, resources
from virtualgpu.errors import LaunchError, LinkError, VirtualGPUError
from virtualgpu.ptx import Function, Variable, parse
from virtualgpu.wording import a_or_an, many

# Headers that take seconds to compile. A source that includes one is not compiled a second time to
# get the types of the parameters.
_SLOW_HEADERS = re.compile(r'#\s*include\s*[<"](cooperative_groups|cub/|thrust/|cuda/)')


class Module:
    """PTX module that is loaded on a device.

    >>> module = Module.from_cuda('extern "C" __global__ void twice(float *x) '
    ...                           '{ x[threadIdx.x] *= 2; }')
    >>> x = np.arange(4, dtype=np.float32)
    >>> module.launch("twice", 1, 4, [x])
    >>> x
    array([0., 2., 4., 6.], dtype=float32)

    Attributes
    ----------
    texts : list of str
        The PTX.
    mangled : dict
        The name in the PTX of each name expression.
    log : str
        The compiler's warnings.
    unload : callable
        Frees the memory of the module's variables. This also happens when the last reference to
        the module is deleted.
    """

    def __init__(
        self,
        texts: list[str],
        mangled: dict[str, str] | None = None,
        device: devices.Device | None = None,
    ):
        self.texts = texts
        self.mangled = mangled or {}
        self.log = ""
        self.device = device or devices.current()
        shown = {entry: expression for expression, entry in self.mangled.items()}
        self.loaded = self.device.load(texts, shown)
        self.unload = weakref.finalize(self, _unload, self.device, self.loaded)
        self.unload.atexit = False
        self._source: tuple | None = None
        self._functions: dict[str, Function] = {
            name: function
            for text in texts
            for name, function in parse(text).functions.items()
            if function.is_entry
        }
        self._variables = {name for text in texts for name in parse(text).variables}

    @classmethod
    def from_ptx(cls, *texts: str, device: devices.Device | None = None) -> Module:
        """Link PTX texts. Raises PTXSyntaxError, LinkError, UnsupportedInstruction."""
        return cls(list(texts), device=device)

    @classmethod
    def from_cuda(
        cls,
        source: str,
        *,
        options: Sequence[str] = (),
        names: Sequence[str] = (),
        name: str = "kernel.cu",
        headers: Sequence[tuple[str, str]] = (),
        device: devices.Device | None = None,
    ) -> Module:
        """Compile CUDA C++ with NVRTC and load it.

        Parameters
        ----------
        source : str
            Kernels are launched by their names in the PTX, so either write
            ``extern "C"`` before ``__global__``, or give name expressions.
        options : sequence of str
            NVRTC options, such as ``-DN=3``, ``-Ifolder``, ``--use_fast_math`` or ``--std=c++20``.
            Line information is always generated.
        names : sequence of str
            Name expressions: instances of templates (``"add<float>"``), kernels without
            ``extern "C"`` (``"physics::boost"``), device variables (``"&weights"``). Kernels
            and variables then go by these names.
        name : str
            The source's name in messages.
        headers : sequence of pairs (name, text)
            Headers that the source includes and that do not exist as files. CUDA's own headers
            (``cuda_fp16.h``, ``cooperative_groups.h``, ``cub/cub.cuh``, ``cuda/std/...``) are
            found in the installed wheels.

        Raises
        ------
        CompilationError
            With the compiler's message, the line and a caret
            (:class:`~virtualgpu.compilers.nvrtc.CompilationError`).
        """
        options, headers = tuple(options), tuple((path, text) for path, text in headers)
        compiled = compile_cuda(source, name, options, tuple(names), headers=headers)
        module = cls([compiled.ptx], dict(compiled.mangled), device)
        module.log = compiled.log
        module._source = (source, options, headers)
        return module

    # -- kernels -------------------------------------------------------------------------------

    @property
    def entries(self) -> list[str]:
        """The kernels' names in the PTX."""
        return list(self._functions)

    def function(self, entry: str) -> Function:
        """Return a kernel by its name or name expression; an unknown one raises LaunchError."""
        known = self._functions.get(self.mangled.get(entry, entry))
        if known is None:
            similar = [name for name in self.entries if f"{len(entry)}{entry}" in name]
            advice = (
                (
                    f'; its mangled C++ name is {similar[0]}: write extern "C" before __global__, '
                    "or list the name in `names`"
                )
                if similar
                else ""
            )
            shown = {name: expression for expression, name in self.mangled.items()}
            names = ", ".join(shown.get(name, name) for name in self.entries) or "none"
            raise LaunchError(f"no kernel {entry}; the module has: {names}{advice}")
        return known

    def sizes(self, entry: str) -> list[int]:
        """Return the size in bytes of each of a kernel's parameters."""
        return [variable.size for variable in self.function(entry).parameters]

    def signature(self, entry: str) -> tuple[ParameterType, ...] | None:
        """Return the C++ types of a kernel's parameters.

        Returns None if only the PTX is known, or if the compiler cannot tell
        (:func:`~virtualgpu.compilers.signatures.kernel_signature`). This compiles the source a
        second time, for all kernels together.
        """
        function = self.function(entry)
        if self._source is None:
            return None
        source, options, headers = self._source
        expressions = {mangled: name for name, mangled in self.mangled.items()}
        shown = tuple(expressions.get(name, name) for name in self.entries)
        own = expressions.get(function.name, entry)
        together = kernel_signatures(source, shown, options, headers)
        found = (
            together[shown.index(own)]
            if together
            else kernel_signature(source, own, options, headers)
        )
        return found if found is not None and len(found) == len(function.parameters) else None

    def resources(self, entry: str) -> Resources:
        """Return the registers, memory and threads that a kernel uses."""
        return resources(self.texts, self.function(entry).name)

    def launch(
        self,
        entry: str,
        grid: int | tuple,
        block: int | tuple,
        args: Sequence[Any] = (),
        *,
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: int | tuple | None = None,
    ) -> None:
        """Run a kernel to its end.

        Parameters
        ----------
        entry : str
            A kernel's name, or a name expression given to :meth:`from_cuda`.
        grid, block : int or tuple of up to three ints
        args : sequence
            One value per parameter. A NumPy array is copied to the device, passed as a pointer and
            copied back. An object with ``__cuda_array_interface__`` is passed as its pointer, and
            ``bytes`` are passed unchanged. NumPy and ctypes numbers are passed with their own
            type, Python ints and floats with the type that the kernel declares. An array that is
            passed twice is one array on the device too.
        shared_bytes : int
            Dynamic shared memory per block.
        cooperative : bool
            Keep all blocks resident at once, so that ``grid.sync()`` works.
        cluster : int or tuple of up to three ints, optional
            Blocks in a thread block cluster, if the kernel declares no ``__cluster_dims__``.

        Raises
        ------
        LaunchError
            The number of arguments is wrong, an argument has the wrong size, the element type of
            an array differs from that of the kernel's pointer (this is not checked if the source
            includes C++ headers that take seconds to compile), or the grid is impossible.
        VirtualGPUError
            Any error in the kernel.
        """
        function = self.function(entry)
        wanted = function.parameters
        if len(args) != len(wanted):
            raise LaunchError(
                f"kernel {entry} takes {many(len(wanted), 'argument')}, not {len(args)}"
            )
        slow = self._source is not None and _SLOW_HEADERS.search(self._source[0])
        signature = None if slow else self.signature(entry)
        copies: list[tuple[int, np.ndarray]] = []
        try:
            parameters = [
                self._parameter(
                    value, variable, position, copies, signature[position] if signature else None
                )
                for position, (value, variable) in enumerate(zip(args, wanted, strict=True))
            ]
            self.launch_bytes(
                entry,
                three(grid),
                three(block),
                parameters,
                shared_bytes,
                cooperative,
                None if cluster is None else three(cluster),
            )
            for address, array in copies:
                if array.flags.writeable and array.size:
                    array[...] = (
                        self.device.read(address, array.nbytes)
                        .view(array.dtype)
                        .reshape(array.shape)
                    )
        finally:
            for address, _ in copies:
                self.device.free(address)

    def launch_bytes(
        self,
        entry: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: list[bytes],
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: tuple[int, int, int] | None = None,
    ) -> None:
        """Run a kernel with parameters given as bytes, one entry for each."""
        self.device.launch(
            self.loaded,
            self.function(entry).name,
            grid,
            block,
            parameters,
            shared_bytes,
            cooperative,
            cluster,
        )

    def _parameter(
        self,
        value: Any,
        variable: Variable,
        position: int,
        copies: list,
        declared: ParameterType | None,
    ) -> bytes:
        size = variable.size
        if isinstance(value, np.ndarray):
            address = next((a for a, array in copies if array is value), None)
            if address is None:
                address = self.device.allocate(value.nbytes)
                copies.append((address, value))
                if value.size:
                    self.device.write(address, value)
            argument = array_argument(address, value.dtype)
        elif (interface := getattr(value, "__cuda_array_interface__", None)) is not None:
            argument = array_argument(interface["data"][0], interface["typestr"])
        elif isinstance(value, bytes):
            argument = Argument(value)
        elif isinstance(value, np.generic):
            argument = number_argument(value)
        elif isinstance(value, ctypes._SimpleCData | ctypes.Structure):
            argument = Argument(bytes(value))
        elif isinstance(value, bool | int | float):
            argument = Argument(_number(value, variable, position))
        else:
            raise LaunchError(
                f"argument {position} is {a_or_an(type(value).__name__)}; a kernel takes numbers, "
                "bytes and arrays"
            )
        if len(argument.raw) != size:
            raise LaunchError(
                f"argument {position} has {many(len(argument.raw), 'byte')}, but its parameter "
                f"has {size}. Pass "
                "a NumPy scalar of the type that the kernel declares"
            )
        if wanted := kernel_arguments.misfit(argument, size, declared):
            raise LaunchError(
                f"argument {position} is {argument}; the kernel's parameter is {wanted}. "
                "Convert the argument with .astype, or change the declaration of the parameter"
            )
        return argument.raw

    # -- variables of the module ---------------------------------------------------------------

    def symbol(self, name: str) -> tuple[int, int]:
        """Return the device address and size of a ``__device__`` or ``__constant__`` variable.

        ``name`` is the variable's name, or the name expression (``"&weights"``) that was given to
        :meth:`from_cuda`. The compiler may have left out a ``__constant__`` variable that no
        kernel reads. An unknown name raises LinkError.
        """
        known = self.mangled.get(name) or self.mangled.get(f"&{name}") or name
        if known not in self._variables:
            raise LinkError(
                f"no variable {name}; the module has: "
                f"{', '.join(sorted(self._variables)) or 'none'}. The compiler drops variables "
                "that nothing reads"
            )
        return self.device.symbol(self.loaded, known)

    def read_symbol(self, name: str, dtype: Any) -> np.ndarray:
        """Return a copy of a module's variable as an array of ``dtype``, shape (elements,)."""
        address, nbytes = self.symbol(name)
        return self.device.read(address, nbytes).view(np.dtype(dtype))

    def write_symbol(self, name: str, values: np.ndarray) -> None:
        """Overwrite the first bytes of a variable with those of ``values``.

        ``cudaMemcpyToSymbol`` does the same. Raises LaunchError if the variable has fewer bytes.
        """
        values = np.ascontiguousarray(values)
        address, nbytes = self.symbol(name)
        if values.nbytes > nbytes:
            raise LaunchError(f"{many(values.nbytes, 'byte')} for {name}, which has only {nbytes}")
        self.device.write(address, values)


def _unload(device: devices.Device, loaded: Any) -> None:
    with suppress(VirtualGPUError):  # from a GPU that an earlier launch has spoiled
        device.unload(loaded)


def _number(value: float, variable: Variable, position: int) -> bytes:
    """Return a Python number as bytes of a kernel parameter's type."""
    size, is_float = variable.size, variable.element in ("f16", "f32", "f64")
    misfit = LaunchError(
        f"argument {position} is {str(value)[:40]}, which does not fit the kernel's parameter of "
        f"type {variable.element}, {many(size, 'byte')}"
    )
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


def three(dimensions: int | Sequence[int]) -> tuple[int, int, int]:
    """Return the dimensions of a grid or a block as three ints."""
    if isinstance(dimensions, int | np.integer):
        dimensions = (dimensions,)
    x, y, z = (*(int(d) for d in dimensions), 1, 1)[:3]
    return x, y, z
