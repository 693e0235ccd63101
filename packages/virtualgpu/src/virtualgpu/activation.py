"""Activation and deactivation of the virtual GPU."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from types import ModuleType

from virtualgpu import scripts, torch_device, tracebacks
from virtualgpu.after_import import after_import, forget
from virtualgpu.awkward import kernels
from virtualgpu.devices.real.presence import gpu_is_present
from virtualgpu.numba import numpy_names, simulator
from virtualgpu.standins import finder
from virtualgpu.successor import choice

#: Compilers whose import shows that the program will launch kernels.
COMPILERS = ("numba.cuda", "triton", "cuda.tile")
#: Imports names from cuda.core while it is imported, so activation runs just before it.
SUCCESSOR = "numba_cuda_mlir"
#: Launches kernels through the driver only. Installing our driver takes a tenth of the time that
#: importing numba.cuda takes.
CUDA_CORE = "cuda.core"


def activate(force: bool = False, standins: Collection[str] | None = None) -> bool:
    """Run ``numba.cuda`` kernels on the virtual GPU if there is no GPU.

    ``numba.cuda`` may belong to numba-cuda or to its successor numba-cuda-mlir
    (:mod:`virtualgpu.successor.choice`). If neither is installed, ``numba.cuda`` cannot be
    imported, but everything else works.

    If there is no GPU, ``cuda.core`` and all other libraries that load ``libcuda.so.1`` get the
    virtual GPU's driver from then on (:mod:`virtualgpu.driver`), and PyTorch's ``device="cuda"``
    works (:mod:`virtualgpu.torch_device`).

    If there is no GPU, ``import cupy`` and similar imports find their stand-ins, which are a
    separate distribution (gpustandins). With them, Awkward's CUDA backend runs its CPU kernels on
    the virtual GPU's memory. With or without a GPU, kernels may iterate over Awkward Arrays
    (:mod:`virtualgpu.awkward.kernels`). The traceback of an error that ends the program omits the
    frames of the compiler and of the launch (:mod:`virtualgpu.tracebacks`). If there is no GPU and
    this process is a Jupyter kernel, the scripts that it starts use the virtual GPU too
    (:mod:`virtualgpu.scripts`).

    Parameters
    ----------
    force : bool
        Use the virtual GPU even if there is a GPU.
    standins : collection of str, optional
        The packages to replace by stand-ins: any of "cupy", "cupyx", "pycuda" and "cudf". The
        packages that they need are replaced too. By default all of them are replaced. Any other
        name raises ValueError.

    Returns
    -------
    bool
        True if the virtual GPU is in use now.
    """
    choice.take()
    numpy_names.lend()
    kernels.mend_iteration()
    if not force and gpu_is_present():
        return False
    if choice.chosen() == choice.NUMBA_CUDA and not choice.is_none_installed():
        simulator.take_its_place()
        from virtualgpu.numba import hooks

        hooks.activate()
    if not gpu_is_present():
        from virtualgpu.driver import install
        from virtualgpu.successor import messages
        from virtualgpu.triton import hooks as triton_hooks

        install.install()
        messages.activate()
        triton_hooks.install()
        torch_device.install()
    tracebacks.shorten()
    if replaced := use_standins(standins):
        were, need, again = (
            ("were", "need", "them again to get the stand-ins")
            if replaced[1:]
            else ("was", "needs", f"{replaced[0]} again to get the stand-in")
        )
        warnings.warn(
            f"{' and '.join(replaced)} {were} imported before the virtual GPU was switched on, "
            f"and {need} a GPU, which this machine does not have. Import {again}, "
            "and call virtualgpu.activate() first next time",
            UserWarning,
            stacklevel=2,
        )
    return True


def use_standins(names: Collection[str] | None = None) -> list[str]:
    """Make ``import cupy`` and similar imports find their stand-ins, unless there is a GPU.

    ``names`` limits this to some packages.

    Returns the packages that were imported before and are now replaced in ``sys.modules``.
    """
    if gpu_is_present():
        return []
    scripts.reach()
    return finder.install(names)


def activate_later() -> list[str]:
    """Call :func:`use_standins` now, and :func:`activate` when numba.cuda or Triton is imported.

    Importing ``numba.cuda`` takes two seconds, and a program may not need it. The virtual GPU's
    driver is installed when ``cuda.core`` is imported.

    Returns the packages that :func:`use_standins` replaced.
    """
    replaced = use_standins()
    choice.take()
    numpy_names.lend()
    if not gpu_is_present():
        simulator.take_its_place()
    for name in COMPILERS:  # a cell that runs before the import may enable the simulator
        after_import(name, _activate, None if gpu_is_present() else simulator.take_its_place)
    after_import(SUCCESSOR, _activate, _activate)
    if not gpu_is_present():
        after_import(CUDA_CORE, _install_driver)
    return replaced


def _install_driver(core: ModuleType) -> None:
    from virtualgpu.driver import install

    install.install()


def _activate(compiler: ModuleType | None = None) -> None:
    for name in (*COMPILERS, SUCCESSOR):  # activation imports numba.cuda
        forget(name)
    if not is_active():
        activate()


def deactivate() -> None:
    """Undo :func:`activate` and remove the stand-ins from ``sys.modules``."""
    import sys

    for name in (*COMPILERS, SUCCESSOR, CUDA_CORE):
        forget(name)
    scripts.withdraw()
    kernels.stop_waiting()
    finder.remove()
    tracebacks.undo()
    if frontend := sys.modules.get("virtualgpu.numba.hooks"):
        frontend.deactivate()
    if successor := sys.modules.get("virtualgpu.successor.messages"):
        successor.deactivate()
    choice.give_back()
    numpy_names.take_back()
    if driver := sys.modules.get("virtualgpu.driver.install"):
        driver.remove()
    torch_device.remove()
    if triton := sys.modules.get("virtualgpu.triton.hooks"):
        triton.remove()


def is_active() -> bool:
    """Return True if ``numba.cuda`` uses the virtual GPU or another device of this package."""
    import sys

    frontends = map(sys.modules.get, ("virtualgpu.numba.hooks", "virtualgpu.successor.messages"))
    return any(frontend.is_active() for frontend in frontends if frontend)


def answers() -> bool:
    """Return True if launches in this process run on the virtual GPU.

    Without a GPU, the stand-ins may be installed before ``numba.cuda`` is imported and hooked.
    Until then :func:`is_active` returns False, although CuPy kernels already run on the virtual
    GPU.
    """
    return is_active() or finder.is_installed()
