"""CUDA C++ from a string."""

from __future__ import annotations

import cupy
from cupy.cuda.compiler import CompileException

from .driver import CompileError, Function, Variable


class SourceModule:
    """Compile ``source`` for this GPU.

    As in PyCUDA the source stands in ``extern "C" { }`` unless ``no_extern_c``, so kernels are
    found by their plain names. Raises :class:`pycuda.driver.CompileError` with NVRTC's message.
    """

    def __init__(
        self,
        source: str,
        nvcc: str = "nvcc",
        options=None,
        keep: bool = False,
        no_extern_c: bool = False,
        arch=None,
        code=None,
        cache_dir=None,
        include_dirs=(),
    ):
        if not no_extern_c:
            # Errors name the source's own lines all the same.
            source = f'extern "C" {{\n#line 1\n{source}\n}}'
        options = (*(options or ()), *(f"-I{folder}" for folder in include_dirs))
        self._module = cupy.RawModule(code=source, options=options)
        try:
            self._module.compile()
        except CompileException as error:
            raise CompileError(str(error)) from None

    def get_function(self, name: str) -> Function:
        """Return the kernel of that name."""
        return Function(self._module.get_function(name), name)

    def get_global(self, name: str) -> tuple:
        """Return a module's variable, for copies.

        Its size is None, because CuPy does not tell it.
        """
        return Variable(self._module.get_global(name)), None
