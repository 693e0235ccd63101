"""Modules and kernels, which convert arguments to bytes by PyCUDA's rules and launch."""

from __future__ import annotations

import operator
import struct
from typing import Any

import numpy as np
from cuda.bindings import driver as binding

from virtualgpu.standins.interface import (
    Argument,
    array_argument,
    demand_plain,
    many,
    number_argument,
)

from ._context import Context, Event, need_context, time_between
from ._errors import LogicError, call
from ._kernels import Kernel, Loaded, load_ptx
from ._memory import (
    DeviceAllocation,
    ManagedAllocation,
    PointerHolderBase,
    mem_alloc_like,
    memcpy_dtoh,
    memcpy_dtoh_async,
    memcpy_htod,
    memcpy_htod_async,
)
from ._missing import Absent


class function_attribute:
    """``CU_FUNC_ATTRIBUTE_...`` constants by name, without the prefix."""


class func_cache:
    """Settings of :meth:`Function.set_cache_config`, without effect as there are no caches."""

    PREFER_NONE, PREFER_SHARED, PREFER_L1, PREFER_EQUAL = 0, 1, 2, 3


for _name, _value in binding.CUfunction_attribute.__members__.items():
    setattr(function_attribute, _name.removeprefix("CU_FUNC_ATTRIBUTE_"), int(_value))


class ArgumentHandler:
    """Host array as an argument, which is on the device for the duration of a call."""

    def __init__(self, ary: np.ndarray):
        self.array = ary
        self.dev_alloc: DeviceAllocation | None = None

    def get_device_alloc(self) -> DeviceAllocation:
        if self.dev_alloc is None:
            try:
                self.dev_alloc = mem_alloc_like(self.array)
            except AttributeError:
                raise TypeError(
                    f"could not determine array length of '{type(self.array)}': unsupported array "
                    "type or not an array"
                ) from None
        return self.dev_alloc

    def pre_call(self, stream) -> None:
        """Do nothing; subclasses prepare the launch."""


class In(ArgumentHandler):
    """Argument that is copied to the device before the launch."""

    def pre_call(self, stream) -> None:
        if stream is None:
            memcpy_htod(self.get_device_alloc(), self.array)
        else:
            memcpy_htod_async(self.get_device_alloc(), self.array, stream)


class Out(ArgumentHandler):
    """Argument that is copied back after the launch, and is uninitialised before it."""

    def post_call(self, stream) -> None:
        if stream is None:
            memcpy_dtoh(self.array, self.get_device_alloc())
        else:
            memcpy_dtoh_async(self.array, self.get_device_alloc(), stream)


class InOut(In, Out):
    """Argument that is copied to the device before the launch and back after it."""


class Module:
    """Loaded PTX; :class:`pycuda.compiler.SourceModule` creates it from CUDA C++."""

    def __init__(self, loaded: Loaded):
        self._loaded = loaded

    def get_function(self, name: str) -> Function:
        """Return a kernel by its name in the PTX.

        Raises LogicError if there is no such kernel.
        """
        with call("cuModuleGetFunction"):
            return Function(self._loaded.kernel(name))

    def get_global(self, name: str) -> tuple[int, int | None]:
        """Return the address and bytes of a ``__device__`` or ``__constant__`` variable.

        On a GPU the bytes are None, because CuPy does not report them.
        """
        with call("cuModuleGetGlobal"):
            return self._loaded.symbol(name)

    def get_texref(self, name: str):
        raise NotImplementedError(
            f"texture reference {name}: CUDA 12 has removed texture references, and PyCUDA has no "
            "texture objects; read the array through a const __restrict__ pointer, or use "
            "cupy.cuda.texture"
        )

    get_surfref = get_texref


class Function:
    """Kernel, which is called with ``block=`` and ``grid=``."""

    param_set = Absent("function(*arguments, block=..., grid=...)")
    param_set_size = Absent("function(*arguments, block=..., grid=...)")
    param_setv = Absent("function(*arguments, block=..., grid=...)")
    set_block_shape = Absent("function(*arguments, block=..., grid=...)")
    set_shared_size = Absent("function(*arguments, block=..., grid=...)")
    launch = Absent("function(*arguments, block=..., grid=...)")
    launch_grid = Absent("function(*arguments, block=..., grid=...)")
    launch_grid_async = Absent("function(*arguments, block=..., grid=...)")

    def __init__(self, kernel: Kernel):
        self._kernel = kernel
        self.arg_format: str | None = None

    def __call__(
        self,
        *args,
        block=None,
        grid=(1, 1),
        shared: int = 0,
        stream=None,
        texrefs=(),
        time_kernel: bool = False,
    ) -> float | None:
        """Launch the kernel.

        Parameters
        ----------
        args
            NumPy scalars of the kernel's types, :class:`In`, :class:`Out` and :class:`InOut`
            around host arrays, device memory, ``GPUArray``, anything with
            ``__cuda_array_interface__``.
        block : tuple of up to three ints
            Threads per block.
        grid : tuple of up to three ints
            Blocks of the grid.
        shared : int
            Bytes of dynamic shared memory per block.
        time_kernel : bool
            Return the time in seconds; without a GPU, return NaN and warn.

        Raises
        ------
        TypeError
            For an argument of another kind, such as a Python number, whose size is not known.
        LogicError
            If the arguments have too few bytes in total, for bad addresses and for impossible
            launches.
        LaunchError
            For any other failure of a kernel.
        """
        if block is None:
            raise ValueError("must specify block size")
        if stream is not None and time_kernel:
            raise AssertionError("Can't time the kernel on an asynchronous invocation")
        _no_references(texrefs)
        handlers = [one for one in args if isinstance(one, ArgumentHandler)]
        arguments = [_argument(one, position) for position, one in enumerate(args)]
        for handler in handlers:
            handler.pre_call(stream)
        start = Event().record() if time_kernel else None
        self._launch(grid, block, arguments, shared, stream)
        end = Event().record() if time_kernel else None
        after = [handler for handler in handlers if hasattr(handler, "post_call")]
        for handler in after:
            handler.post_call(stream)
        if stream is None and (after or time_kernel):
            Context.synchronize()
        return time_between(start, end, "so time_kernel returns") * 1e-3 if start and end else None

    def prepare(self, arg_types, texrefs=()) -> Function:
        """Set the argument types for prepared calls.

        They are NumPy types, dtypes, or letters of the struct module, where ``P`` means a pointer.
        """
        _no_references(texrefs)
        self.arg_format = "".join(_letter(kind) for kind in arg_types)
        return self

    def prepared_call(self, grid, block, *args, shared_size: int = 0) -> None:
        """Launch with the types of :meth:`prepare`; pointers are ints or device memory."""
        self.prepared_async_call(grid, block, None, *args, shared_size=shared_size)

    def prepared_async_call(self, grid, block, stream, *args, shared_size: int = 0) -> None:
        """Launch in a stream, with the types of :meth:`prepare`."""
        if self.arg_format is None:
            raise LogicError(
                "prepared_call before prepare: call prepare with the argument types first"
            )
        letters = _letters(self.arg_format)
        if len(letters) != len(args):
            raise struct.error(f"pack requires exactly {many(len(letters), 'argument')}")
        arguments = [_packed(letter, value) for letter, value in zip(letters, args, strict=True)]
        self._launch(grid, block, arguments, shared_size, stream)

    def prepared_timed_call(self, grid, block, *args, shared_size: int = 0):
        """Launch with the prepared types; return a function that waits and returns seconds."""
        start, end = Event(), Event()
        start.record()
        self.prepared_call(grid, block, *args, shared_size=shared_size)
        end.record()
        return lambda: end.synchronize().time_since(start) * 1e-3

    def _launch(self, grid, block, arguments: list[Argument], shared: int, stream) -> None:
        need_context("cuLaunchKernel")
        grid, block = _extent("grid", grid), _extent("block", block)
        with call("cuLaunchKernel"):
            self._kernel.start(grid, block, arguments, int(shared), stream)

    def get_attribute(self, attribute: int) -> int:
        """Return a :class:`function_attribute`."""
        for name, value in vars(function_attribute).items():
            if value == attribute and name.lower() in self._kernel.attributes:
                return self._kernel.attributes[name.lower()]
        raise LogicError("cuFuncGetAttribute failed: invalid argument")

    def set_attribute(self, attribute: int, value: int) -> None:
        """Set ``MAX_DYNAMIC_SHARED_SIZE_BYTES`` or ``PREFERRED_SHARED_MEMORY_CARVEOUT``."""
        if attribute == function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES:
            with call("cuFuncSetAttribute"):
                self._kernel.allow_dynamic(int(value))
        elif attribute == function_attribute.PREFERRED_SHARED_MEMORY_CARVEOUT:
            self._kernel.prefer_shared(int(value))
        else:
            raise LogicError("cuFuncSetAttribute failed: invalid argument")

    def set_cache_config(self, config: int) -> None:
        """Do nothing, because there are no caches."""

    def set_shared_config(self, config: int) -> None:
        """Do nothing, because shared memory banks are always four bytes wide."""

    def __getattr__(self, name: str) -> int:
        if isinstance(absent := vars(type(self)).get(name), Absent):
            raise absent.missing()
        if not name.startswith("_") and name in self._kernel.attributes:
            return self._kernel.attributes[name]
        raise AttributeError(f"a function has no attribute {name!r}")


def _argument(value: Any, position: int) -> Argument:
    if isinstance(value, np.number):
        return number_argument(value)
    if isinstance(value, DeviceAllocation | PointerHolderBase) or hasattr(value, "_pooled"):
        return Argument(struct.pack("<Q", int(value)))
    if isinstance(value, ArgumentHandler):
        address = int(value.get_device_alloc())
        return array_argument(address, value.array.dtype)
    if isinstance(value, np.ndarray):
        if isinstance(value.base, ManagedAllocation):
            return array_argument(int(value.base), value.dtype)
        demand_plain(value.dtype)
        return Argument(value.tobytes())  # the array itself, passed by value as a struct
    if isinstance(value, np.void):
        return number_argument(value)
    if (interface := getattr(value, "__cuda_array_interface__", None)) is not None:
        return array_argument(interface["data"][0], interface["typestr"])
    if hasattr(value, "gpudata"):
        return Argument(struct.pack("<Q", int(value.gpudata)))
    raise TypeError(
        f"invalid type on parameter #{position} (0-based): {type(value).__name__}; pass numbers "
        "as NumPy scalars of the kernel's types (numpy.int32(n)), and host arrays in "
        "pycuda.driver.In, Out or InOut"
    )


def _letter(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, np.number):
        return np.dtype(kind).char
    if isinstance(kind, np.dtype):
        return f"{kind.itemsize}s" if kind.char == "V" else kind.char
    return kind if isinstance(kind, str) else "P"


def _letters(text: str) -> list[str]:
    """Split a format: ``"P2sf"`` → ``["P", "2s", "f"]``."""
    letters, count = [], ""
    for char in text:
        if char.isdigit():
            count += char
        elif not char.isspace():
            letters.append(count + char)
            count = ""
    return letters


def _packed(letter: str, value: Any) -> Argument:
    if letter == "P":
        return Argument(struct.pack("<Q", int(value)))
    if letter.endswith("s"):
        return Argument(struct.pack(letter, bytes(value)))
    dtype = np.dtype(letter)
    if dtype.kind in "iu":  # also device memory, for a pointer declared as an integer
        try:
            value = operator.index(value)
        except TypeError:
            raise struct.error("required argument is not an integer") from None
    return number_argument(dtype.type(value))


def _extent(name: str, dimensions) -> tuple[int, int, int]:
    """Return three numbers. Raises TypeError for values that PyCUDA's C++ code refuses."""
    if np.isscalar(dimensions):
        raise TypeError(f"block and grid must be tuples: write ({dimensions}, 1, 1)")
    dimensions = tuple(dimensions)
    if len(dimensions) > 3 or (name == "block" and len(dimensions) < 3):
        raise TypeError(f"{name}={dimensions!r} has {many(len(dimensions), 'number')}: pass three")
    for one in dimensions:
        if not isinstance(one, int):
            kind = f"{type(one).__module__}.".removeprefix("builtins.") + type(one).__name__
            raise TypeError(
                f"{name}={dimensions!r} contains {kind}, but PyCUDA accepts only Python's int: "
                "write int(...), or // instead of /"
            )
    return (*dimensions, 1, 1)[:3]


def _no_references(texrefs) -> None:
    if texrefs:
        raise NotImplementedError(
            "CUDA 12 has removed texture references; use texture objects (cupy.cuda.texture)"
        )


def module_from_buffer(buffer: bytes, options=(), message_handler=None) -> Module:
    """Return a module from PTX.

    Raises NotImplementedError for machine code of a real GPU.
    """
    need_context("cuModuleLoadDataEx")
    text = bytes(buffer).rstrip(b"\0")
    if b".version" not in text:
        raise NotImplementedError(
            "a cubin contains machine code for a real GPU, but the virtual GPU runs PTX or CUDA "
            "C++ (pycuda.compiler.SourceModule)"
        )
    with call("cuModuleLoadDataEx"):
        return Module(load_ptx(text))


def module_from_file(filename: str) -> Module:
    """Return a module from a PTX file."""
    with open(filename, "rb") as file:
        return module_from_buffer(file.read())
