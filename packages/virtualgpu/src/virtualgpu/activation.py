"""Switching the virtual GPU on and off."""

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

#: Compilers whose import means that there will be kernels.
COMPILERS = ("numba.cuda", "triton", "cuda.tile")
#: Takes names from cuda.core when it is imported, so activation comes right before.
SUCCESSOR = "numba_cuda_mlir"
#: Reaches kernels by the driver alone, which takes a tenth of what numba.cuda takes to import.
CUDA_CORE = "cuda.core"


def activate(force: bool = False, standins: Collection[str] | None = None) -> bool:
    """Run ``numba.cuda`` kernels on the virtual GPU where there is no GPU.

    ``numba.cuda`` is numba-cuda's or that of its successor numba-cuda-mlir
    (:mod:`virtualgpu.successor.choice`). Where neither is installed, it cannot be imported, and all
    else works.

    ``cuda.core`` and whatever else calls ``libcuda.so.1`` find the virtual GPU's driver from then
    on (:mod:`virtualgpu.driver`), unless there is a GPU, and so does PyTorch's ``device="cuda"``
    (:mod:`virtualgpu.torch_device`).

    ``import cupy`` and its like find their stand-ins from then on, which are distributed apart
    (gpustandins), and with them Awkward's CUDA backend runs its CPU kernels on the virtual GPU's
    memory, unless there is a GPU. With and without one, kernels may iterate over Awkward Arrays
    (:mod:`virtualgpu.awkward.kernels`). An error that ends the program is shown without the frames
    of compiler and launch (:mod:`virtualgpu.tracebacks`). In a Jupyter kernel, scripts that it
    starts find the same (:mod:`virtualgpu.scripts`), unless there is a GPU.

    Parameters
    ----------
    force : bool
        Also where there is a GPU.
    standins : collection of str, optional
        The packages that stand-ins answer for, of "cupy", "cupyx", "pycuda" and "cudf"; those
        that they need come along. By default all of them; another name raises ValueError.

    Returns
    -------
    bool
        Whether the virtual GPU is in use now.
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
        warnings.warn(
            f"{' and '.join(replaced)} was imported before the virtual GPU was switched on, "
            f"and needs a GPU, which this machine does not have. Import {replaced[0]} again "
            "to get the stand-in, and call virtualgpu.activate() first next time",
            UserWarning,
            stacklevel=2,
        )
    return True


def use_standins(names: Collection[str] | None = None) -> list[str]:
    """Let ``import cupy`` and its like find their stand-ins, unless there is a GPU.

    Only those of ``names``, or all.

    Returns the packages that were imported before and are now replaced in ``sys.modules``.
    """
    if gpu_is_present():
        return []
    scripts.reach()
    return finder.install(names)


def activate_later() -> list[str]:
    """Call :func:`use_standins` now, and :func:`activate` when numba.cuda or Triton is imported.

    ``numba.cuda`` takes two seconds to import, and a program may not need it. ``cuda.core`` finds
    the virtual GPU's driver once it is imported.
    """
    replaced = use_standins()
    choice.take()
    numpy_names.lend()
    if not gpu_is_present():
        simulator.take_its_place()
    for name in COMPILERS:  # a cell between here and there may ask for the simulator
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
    """Undo :func:`activate`; ``sys.modules`` no longer holds stand-ins."""
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
    """Return True if ``numba.cuda`` talks to the virtual GPU (or another of our devices)."""
    import sys

    frontends = map(sys.modules.get, ("virtualgpu.numba.hooks", "virtualgpu.successor.messages"))
    return any(frontend.is_active() for frontend in frontends if frontend)


def answers() -> bool:
    """Return True if launches here come to the virtual GPU.

    Where there is no GPU, the stand-ins may be in place alone: ``numba.cuda`` is hooked when it is
    imported, and until then :func:`is_active` says no although CuPy's kernels run here.
    """
    return is_active() or finder.is_installed()
