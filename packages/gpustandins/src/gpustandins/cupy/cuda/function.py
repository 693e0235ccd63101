"""``cupy.cuda.function``: PTX modules from other compilers, and their kernels."""

from __future__ import annotations

import importlib
from pathlib import Path

from virtualgpu.standins.interface import Module as _Module

from .._errors import as_cupy_does

__all__ = ["Module"]


def __getattr__(name: str):
    # Arrays need this package and launches need arrays, so the import cannot be at the top.
    if name == "Function":
        return importlib.import_module("cupy._kernels.launch").Function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Module:
    """Module to be loaded with :meth:`load` or :meth:`load_file`, for :meth:`get_function`."""

    def __init__(self) -> None:
        self._loaded: _Module | None = None

    def load(self, cubin: bytes | str) -> None:
        """Load PTX as text or bytes. Raises NotImplementedError for machine code."""
        text = cubin.decode("utf-8", "replace") if isinstance(cubin, bytes) else cubin
        if ".version" not in text:
            raise NotImplementedError(
                "this is machine code of a real GPU, but the virtual GPU runs PTX (nvcc --ptx)"
            )
        with as_cupy_does():
            self._loaded = _Module.from_ptx(text.rstrip("\0"))

    def load_file(self, filename: str) -> None:
        """Load a PTX file."""
        self.load(Path(filename).read_bytes())

    def get_function(self, name: str):
        """Return the kernel ``name``, which is called with grid, block and arguments."""
        if self._loaded is None:
            raise ValueError("nothing is loaded into this module: call load(ptx) first")
        return __getattr__("Function")(self._loaded, name)
