"""``SourceModule``: CUDA C++ through NVRTC, where PyCUDA calls nvcc."""

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

NAME = "kernel.cu"  # what PyCUDA calls every source
DEFAULT_NVCC_FLAGS = os.environ.get("PYCUDA_DEFAULT_NVCC_FLAGS", "").split()

# nvcc's options for the host compiler, the assembler and files: with the number of words that
# follow. NVRTC knows none of them, and here they would change nothing.
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
    """Compile to PTX for any ``target``: there is no machine code here. Raises CompileError."""
    if target not in ("cubin", "ptx", "fatbin"):
        raise AssertionError(f"target is cubin, ptx or fatbin, not {target!r}")
    return _compile(source, options, no_extern_c, arch, include_dirs).ptx()


class SourceModule:
    """CUDA C++ as a loaded module.

    Parameters
    ----------
    source : str
        Put inside ``extern "C" { }`` unless ``no_extern_c``, so that kernels keep their names;
        templates and headers with templates need ``no_extern_c=True`` and ``extern "C"`` before
        each kernel. Headers of the C library may be included.
    options : list of str
        nvcc's; those for the host compiler and the assembler are dropped.
    no_extern_c : bool
    arch : str
        ``sm_90``. Compiled is for the virtual architecture of that name.
    include_dirs : list of str
    nvcc, keep, code, cache_dir
        Without effect: NVRTC compiles, in memory.

    Raises
    ------
    pycuda.driver.CompileError
        With the line, a caret and the compiler's own text (``.stderr``).
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

        Raises LogicError where there is none.
        """
        return self.module.get_function(name)


def _compile(source: str, options, no_extern_c: bool, arch, include_dirs) -> Loaded:
    # Messages count the lines of the source itself.
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


#: What links machine code, which the virtual GPU does not have: name → what to use.
MISSING = dict.fromkeys(
    ("CudaModule", "DynamicModule", "DynamicSourceModule"),
    "SourceModule; dynamic parallelism is missing",
)
__getattr__ = lookup("pycuda.compiler", MISSING)
