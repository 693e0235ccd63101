"""``RawKernel`` and ``RawModule``: unmodified CUDA C++, compiled by NVRTC."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from gpustandins.nvcc import PRE_INCLUDE, TYPES
from virtualgpu.standins.interface import HOST_HEADERS, Module, PerDevice

from .._errors import as_cupy_does
from .code import HEADERS
from .launch import Function, load

_ATTRIBUTES = (
    "max_threads_per_block",
    "shared_size_bytes",
    "const_size_bytes",
    "local_size_bytes",
    "num_regs",
    "ptx_version",
    "binary_version",
    "cache_mode_ca",
    "max_dynamic_shared_size_bytes",
    "preferred_shared_memory_carveout",
)


class RawKernel:
    """Kernel from CUDA C++ source, like ``cupy.RawKernel``.

    It is compiled at the first call, once for each device. As in CuPy, an argument of another type
    than the kernel declares is usually not detected, but ``virtualgpu.check()`` reports it. Too
    few arguments, for which a GPU would read foreign memory, are an error here.

    Parameters
    ----------
    code : str
        CUDA C++.
    name : str
        The kernel's name; without ``extern "C"`` this is the mangled name.
    options : tuple of str
        Compiler options for NVRTC.
    backend : 'nvrtc' or 'nvcc'
        With ``nvcc``, C library headers can be included and ``uint``, ``ushort`` and ``ulong`` are
        types. NVRTC compiles in both cases.
    translate_cucomplex : bool
        Without effect: ``cuComplex.h`` is used as it is.
    enable_cooperative_groups : bool
        If True, ``grid.sync()`` works in the kernel.
    jitify : bool
        Has the same effect as ``backend='nvcc'``.
    """

    def __init__(
        self,
        code: str,
        name: str,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        *,
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        jitify: bool = False,
    ):
        for what, value, wanted in (
            ("code", code, str),
            ("name", name, str),
            ("options", options, tuple),
            ("backend", backend, str),
        ):
            if not isinstance(value, wanted) and not (what == "code" and value is None):
                raise TypeError(
                    f"Argument '{what}' has incorrect type (expected "
                    f"{wanted.__name__}, got {type(value).__name__})"
                )
        self.code, self.name, self.options, self.backend = code, name, options, backend
        self.__name__ = name
        self.translate_cucomplex = translate_cucomplex
        self.enable_cooperative_groups = enable_cooperative_groups
        self.jitify = jitify
        self.file_path: str | None = None  # a PTX file, for kernels of a RawModule
        self.name_expressions: tuple[str, ...] | None = None
        self._functions = PerDevice()

    def __call__(self, grid: tuple, block: tuple, args, **kwargs) -> None:
        """Compile the kernel if necessary, and launch it.

        Parameters
        ----------
        grid, block : tuple of up to three ints
        args : tuple
            CuPy arrays (passed as pointers), NumPy scalars (with their own width), Python ints (as
            ``long long``), floats (as ``double``), bools and complex numbers.
        shared_mem : int
            Bytes of dynamic shared memory per block.
        """
        self.kernel(
            grid, block, args, enable_cooperative_groups=self.enable_cooperative_groups, **kwargs
        )

    @property
    def kernel(self) -> Function:
        """The compiled kernel on the current device."""
        return self._functions.get_or(lambda: Function(self._module(), self.name))

    def _module(self) -> Module:
        with_host = self.backend != "nvrtc" or self.jitify
        return _module(
            self.code,
            self.file_path,
            self.options,
            self.name_expressions or (),
            f"{_plain(self.name)}.cu",
            with_host,
        ).get_or(None)

    def compile(self, log_stream=None) -> None:
        """Compile now; the compiler's warnings are written to ``log_stream``."""
        self._functions.clear()
        module = self.kernel._function.module
        if log_stream is not None:
            log_stream.write(module.log)

    @property
    def attributes(self) -> dict[str, int]:
        """Return the resources and limits of the compiled kernel by name; -1 if unknown."""
        return {name: getattr(self, name) for name in _ATTRIBUTES}

    def __getattr__(self, name: str) -> int:
        if name in _ATTRIBUTES:
            return self.kernel._function.attributes[name]
        raise AttributeError(f"'RawKernel' object has no attribute {name!r}")

    def __setattr__(self, name: str, value) -> None:
        if name == "max_dynamic_shared_size_bytes":
            with as_cupy_does():
                self.kernel._function.allow_dynamic(value)
        elif name == "preferred_shared_memory_carveout":
            self.kernel._function.carveout = int(value)
        elif name in _ATTRIBUTES:
            raise AttributeError(f"attribute {name!r} of 'RawKernel' objects is not writable")
        else:
            object.__setattr__(self, name, value)

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "_functions"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._functions = PerDevice()


class RawModule:
    """Kernels and variables from one CUDA C++ source or PTX file, like ``cupy.RawModule``.

    Parameters
    ----------
    code, path : str
        Either CUDA C++ or the path of a PTX file. Machine code (a cubin) raises
        NotImplementedError, because the virtual GPU runs PTX.
    name_expressions : sequence of str, optional
        Template instances to compile as kernels: ``["add<float>", "add<double>"]``.
    options, backend, translate_cucomplex, enable_cooperative_groups, jitify
        As for :class:`RawKernel`.
    """

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions=None,
        jitify: bool = False,
    ):
        if (code is None) == (path is None):
            raise TypeError("Exactly one of `code` and `path` keyword arguments must be given.")
        if not isinstance(options, tuple):
            raise TypeError(
                "Argument 'options' has incorrect type (expected tuple, got "
                f"{type(options).__name__})"
            )
        if name_expressions is not None:
            if code is None:
                raise ValueError("name_expressions need the C++ source of the kernels: pass code=")
            if backend != "nvrtc":
                raise ValueError(
                    "name_expressions need backend='nvrtc', which returns the mangled names"
                )
        self.code, self.file_path, self.options, self.backend = code, path, options, backend
        self.translate_cucomplex, self.jitify = translate_cucomplex, jitify
        self.enable_cooperative_groups = enable_cooperative_groups
        self.name_expressions = tuple(name_expressions) if name_expressions is not None else None

    @property
    def module(self) -> Module:
        """The loaded module on the current device (a :class:`virtualgpu.Module`)."""
        with_host = self.backend != "nvrtc" or self.jitify
        return _module(
            self.code,
            self.file_path,
            self.options,
            self.name_expressions or (),
            "module.cu",
            with_host,
        ).get_or(None)

    def compile(self, log_stream=None) -> None:
        """Compile now; the compiler's warnings are written to ``log_stream``."""
        log = self.module.log
        if log_stream is not None:
            log_stream.write(log)

    def get_function(self, name: str) -> RawKernel:
        """Return the kernel with this name in the source, or one of the name expressions.

        Each kernel has its own attributes, while all share the module's variables. Raises
        CUDADriverError if there is no such kernel.
        """
        kernel = RawKernel(
            self.code,
            name,
            self.options,
            self.backend,
            translate_cucomplex=self.translate_cucomplex,
            enable_cooperative_groups=self.enable_cooperative_groups,
            jitify=self.jitify,
        )
        kernel.file_path, kernel.name_expressions = self.file_path, self.name_expressions
        module = self.module
        kernel._functions.get_or(lambda: Function(module, name))
        return kernel

    def get_global(self, name: str):
        """Return a ``MemoryPointer`` to the variable ``name`` (``__device__`` or ``__constant__``).

        Wrap it with ``cupy.ndarray(shape, dtype, pointer)``.
        """
        from ..cuda.memory import MemoryPointer, UnownedMemory

        module = self.module
        with as_cupy_does():
            address, nbytes = module.symbol(name)
        return MemoryPointer(UnownedMemory(address, nbytes, module), 0)


class _Loaded(PerDevice):
    def __init__(self, make):
        super().__init__()
        self._make = make

    def get_or(self, make):
        return super().get_or(make or self._make)


@lru_cache(maxsize=256)
def _module(
    code: str | None,
    path: str | None,
    options: tuple[str, ...],
    names: tuple[str, ...],
    name: str,
    with_host: bool,
) -> _Loaded:
    """Return the module of a source; kernels from the same source share its variables."""
    if code is None:
        return _Loaded(lambda: _from_file(path))
    headers = HEADERS
    if with_host:
        headers, options = (*HEADERS, *HOST_HEADERS, TYPES), (*options, PRE_INCLUDE)
    return _Loaded(lambda: load(code, options, name, names, headers))


def _from_file(path: str) -> Module:
    raw = Path(path).read_bytes()
    if b".version" not in raw:
        raise NotImplementedError(
            f"{path} contains machine code for a real GPU, but the virtual GPU runs PTX "
            "(nvcc --ptx) or CUDA C++ (code=...)"
        )
    with as_cupy_does():
        return Module.from_ptx(raw.decode())


def _plain(name: str) -> str:
    """Return a kernel's name without template arguments, to name its source file."""
    return name.partition("<")[0].replace("::", ".").strip() or "kernel"
