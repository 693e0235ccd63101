"""Switching the virtual GPU on and off."""

from __future__ import annotations

import warnings

from virtualgpu.devices.presence import gpu_is_present
from virtualgpu.standins import finder


def activate(force: bool = False) -> bool:
    """Run ``numba.cuda`` kernels on the virtual GPU where there is no GPU.

    ``import cupy`` and its like find their stand-ins from then on, unless there is a GPU.

    Parameters
    ----------
    force : bool
        Also where there is a GPU.

    Returns
    -------
    bool
        Whether the virtual GPU is in use now.
    """
    if not force and gpu_is_present():
        return False
    from virtualgpu.numba import hooks

    hooks.activate()
    if replaced := use_standins():
        warnings.warn(
            f"{' and '.join(replaced)} was imported before the virtual GPU was switched on and "
            f"needs a GPU, which this machine does not have: `import {replaced[0]}` again gives "
            "the stand-in; let virtualgpu.activate() come first", UserWarning, stacklevel=2)
    return True


def use_standins() -> list[str]:
    """Have ``import cupy`` and its like find their stand-ins, unless there is a GPU.

    Returns the packages that were imported before and are now replaced in ``sys.modules``.
    """
    return [] if gpu_is_present() else finder.install()


def deactivate() -> None:
    """Undo :func:`activate`; ``sys.modules`` no longer holds stand-ins."""
    import sys

    finder.remove()
    if frontend := sys.modules.get("virtualgpu.numba.hooks"):
        frontend.deactivate()


def is_active() -> bool:
    """Whether ``numba.cuda`` talks to the virtual GPU (or another device of ours)."""
    import sys

    frontend = sys.modules.get("virtualgpu.numba.hooks")
    return frontend is not None and frontend.is_active()
