"""Switching the virtual GPU's driver on and off."""

from __future__ import annotations

import atexit

from virtualgpu.after_import import after_import, forget
from virtualgpu.driver import (  # noqa: F401  (they fill the table)
    contexts,
    cuda_core,
    cutile,
    entries,
    kernels,
    library,
    linking,
    memory,
    pools,
    streams,
)

NAME = "libcuda.so.1"
_loaded: list[object] = []


def install() -> bool:
    """Answer as the driver to what loads ``libcuda.so.1`` from now on, where there is none.

    Returns whether this system can (Linux on x86-64, no sandbox that forbids it).
    """
    if not library.is_possible():
        return False
    entries.switch(True)
    if not _loaded:
        try:
            made = library.Library(NAME, {name: entries.address(name) for name in entries.names()})
        except (OSError, MemoryError):
            return False  # a sandbox that loads no code from memory; Numba works without
        entries.exported.update((name, made.address(name)) for name in entries.names())
        atexit.register(made.end)
        _loaded.append(made)
    after_import("cuda.core", cuda_core.adapt)
    after_import("cuda.tile", cutile.adapt)
    return True


def is_loaded() -> bool:
    """Whether this process has the virtual GPU's driver under the driver's name."""
    return bool(_loaded)


def remove() -> None:
    """The driver knows no device any more; those who have loaded it keep it."""
    entries.switch(False)
    forget("cuda.core")
    forget("cuda.tile")
    cuda_core.restore()
    cutile.restore()
