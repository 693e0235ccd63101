"""``SourceModule``: CUDA C++ compiled by NVRTC, where PyCUDA calls nvcc."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from cupy.cuda.compiler import CompileException

from virtualgpu.standins.interface import CompilationError, source_path

from ._context import need_context
from ._errors import CompileError, call
from ._function import Function, Module
from ._kernels import Loaded, load_cuda
from ._missing import lookup

__all__ = ["DEFAULT_NVCC_FLAGS", "SourceModule", "compile"]

NAME = "kernel.cu"  # PyCUDA's name for every source
DEFAULT_NVCC_FLAGS = os.environ.get("PYCUDA_DEFAULT_NVCC_FLAGS", "").split()

# nvcc's options for the host compiler, the assembler and files; NVRTC does not have them, and they
# would change nothing here. The second list has options with a value.
_ALONE = """
-O0 -O1 -O2 -O3 -g -m64 --machine=64 --keep -keep -cubin -ptx --verbose -v
""".split()
_WITH_VALUE = """
-Xcompiler --compiler-options -Xptxas --ptxas-options -Xlinker --linker-options -ccbin
--compiler-bindir -code --gpu-code -O --optimize --keep-dir -t --threads
""".split()


def nvrtc_options(options: Sequence[str]) -> list[str]:
    """Return nvcc's options without those that NVRTC does not have."""
    kept, skip = [], False
    for option in options:
        name, has_value, _ = option.partition("=")
        if skip or option in _ALONE:
            skip = False
        elif name in _WITH_VALUE:
            skip = not has_value
        else:
            kept.append(option)
    return kept


def compile(
    source: str,
    nvcc: str = "nvcc",
    options: Sequence[str] | None = None,
    keep: bool = False,
    no_extern_c: bool = False,
    arch: str | None = None,
    code: str | None = None,
    cache_dir=None,
    include_dirs: Sequence[str] = (),
    target: str = "cubin",
) -> bytes:
    """Compile to PTX for every ``target``, as there is no machine code. Raises CompileError."""
    if target not in ("cubin", "ptx", "fatbin"):
        raise AssertionError(f"target must be cubin, ptx or fatbin, not {target!r}")
    return _compile(source, options, no_extern_c, arch, include_dirs).ptx()


class SourceModule:
    """Module loaded from CUDA C++ source.

    Parameters
    ----------
    source : str
        The source is put inside ``extern "C" { }`` unless ``no_extern_c`` is True, so that kernels
        keep their names. Templates and headers with templates need ``no_extern_c=True`` and
        ``extern "C"`` before each kernel. C library headers can be included.
    options : list of str
        Options of nvcc; those for the host compiler and the assembler are ignored.
    no_extern_c : bool
    arch : str
        For example ``sm_90``. The code is compiled for the virtual architecture of that name.
    include_dirs : list of str
    nvcc, keep, code, cache_dir
        Ignored, because NVRTC compiles in memory.

    Raises
    ------
    pycuda.driver.CompileError
        With the line, a caret and the compiler's own output (``.stderr``).
    """

    def __init__(
        self,
        source,
        nvcc="nvcc",
        options=None,
        keep=False,
        no_extern_c=False,
        arch=None,
        code=None,
        cache_dir=None,
        include_dirs=(),
    ):
        need_context("cuModuleLoadDataEx")
        compiled = _compile(source, options, no_extern_c, arch, include_dirs)
        if compiled.log.strip():
            warnings.warn(
                "The CUDA compiler succeeded, but said the following:\n" + compiled.log,
                stacklevel=2,
            )
        self.module = Module(compiled)
        self.get_global = self.module.get_global
        self.get_texref = self.module.get_texref
        self.get_surfref = self.module.get_surfref

    def get_function(self, name: str) -> Function:
        """Return a kernel by its name.

        Raises LogicError if there is no such kernel.
        """
        return self.module.get_function(name)


def _compile(source: str, options, no_extern_c: bool, arch, include_dirs) -> Loaded:
    # Line numbers in messages are those of the user's source.
    source = f'#line 1 "{source_path(source, NAME)}"\n{source}\n'
    if not no_extern_c:
        source = f'extern "C" {{\n{source}}}\n'
    flags = nvrtc_options(DEFAULT_NVCC_FLAGS if options is None else options)
    flags += [f"-I{folder}" for folder in include_dirs]
    try:
        with call("cuModuleLoadDataEx"):
            return load_cuda(source, NAME, flags, arch)
    except (CompilationError, CompileException) as error:
        log = getattr(error, "log", str(error))
        raise CompileError(str(error), ["nvrtc", *flags, NAME], "", log) from None


#: Classes that link machine code, which the virtual GPU does not have, with alternatives.
MISSING = dict.fromkeys(
    ("CudaModule", "DynamicModule", "DynamicSourceModule"),
    "SourceModule, without dynamic parallelism",
)
__getattr__ = lookup("pycuda.compiler", MISSING)
