"""Switching the virtual GPU's driver on and off."""

from __future__ import annotations

import atexit
import ctypes
import warnings

from virtualgpu.after_import import after_import, forget
from virtualgpu.driver import (  # noqa: F401  (they fill the table)
    contexts,
    cuda_core,
    cutile,
    entries,
    interrupts,
    kernels,
    library,
    linking,
    memory,
    pools,
    streams,
)

#: Names under which programs open the driver. numba-cuda-mlir tries the second first, which not
#: every driver installs.
NAMES = ("libcuda.so.1", "libcuda.so")
_loaded: list[library.SharedLibrary] = []


def install() -> bool:
    """Load the virtual GPU's driver as ``libcuda.so.1`` for later users, if there is no driver yet.

    Returns True if this system supports it (Linux on x86-64, no sandbox that forbids it).
    """
    if not library.is_possible():
        return False
    entries.switch(True)
    if not _loaded:
        try:
            functions = {name: entries.address(name) for name in entries.names()}
            calls = interrupts.calls()
            _loaded.extend(library.SharedLibrary(name, functions, calls) for name in NAMES)
        except (OSError, MemoryError):
            return False  # a sandbox that forbids code in memory; Numba works without it
        entries.exported.update((name, _loaded[0].address(name)) for name in functions)
        for made in _loaded:
            atexit.register(made.end)
        _tell_of_another()
    after_import("cuda.core", cuda_core.adapt)
    after_import("cuda.tile", cutile.adapt)
    return True


def _tell_of_another() -> None:
    """Warn if a library that looks for libcuda by name finds one that was loaded earlier."""
    found = ctypes.cast(ctypes.CDLL(NAMES[0])["cuInit"], ctypes.c_void_p).value
    if found != _loaded[0].address("cuInit"):
        warnings.warn(
            f"this program has already loaded NVIDIA's {NAMES[0]}, which has no device here, so "
            "cuda.core, cuTile and numba-cuda-mlir will find no device. Call "
            "virtualgpu.activate() or run %load_ext gpucourse before the code that loads it",
            UserWarning,
            stacklevel=4,
        )


def is_loaded() -> bool:
    """Return True if this process has loaded the virtual GPU's driver under the driver's name."""
    return bool(_loaded)


def remove() -> None:
    """Make the driver report no device. Programs that have loaded it keep it."""
    entries.switch(False)
    forget("cuda.core")
    forget("cuda.tile")
    cuda_core.restore()
    cutile.restore()
