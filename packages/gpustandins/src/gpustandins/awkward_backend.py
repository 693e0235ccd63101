"""Awkward's CUDA backend without a GPU.

On a GPU, the backend compiles one module of CUDA C++ kernels, which takes minutes, and computes
reducers with ``cuda.compute``, which needs a driver. Here its arrays lie in the memory of the
virtual GPU (CuPy's stand-in), and Awkward's CPU kernels work on that memory. The results are the
same, and an error is raised at once instead of at the next synchronisation. Awkward itself (2.8 to
2.14) still handles ``ak.to_backend(array, "cuda")``, decides which arrays can be combined, and
refuses the rest.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType
from typing import TYPE_CHECKING, Any

from virtualgpu.standins.interface import current_shared

if TYPE_CHECKING:
    import numpy as np


def use_stand_in(connect: ModuleType) -> Callable[[], None]:
    """Make ``awkward._connect.cuda`` use CuPy's stand-in; return a function that undoes it."""
    return _replace((connect, "import_cupy", _import_cupy), (connect, "synchronize_cuda", _wait))


def use_cpu_kernels(backends: ModuleType) -> Callable[[], None]:
    """Make ``awkward._backends.cupy`` use Awkward's CPU kernels; return a function to undo it."""
    return _replace(
        (backends.CupyBackend, "__getitem__", _host_kernel),
        (backends.Cupy, "_module", _cupy_of_the_day),
    )


def _replace(*replacements: tuple[Any, str, Any]) -> Callable[[], None]:
    from unittest.mock import patch

    with ExitStack() as stack:
        for owner, name, value in replacements:
            stack.enter_context(patch.object(owner, name, value, create=True))
        return stack.pop_all().close


def _import_cupy(name: str = "Awkward Arrays with CUDA") -> ModuleType:
    """Import the present CuPy or stand-in, which may differ from that of Awkward's import."""
    import cupy

    return cupy


def _wait(stream: object = None) -> None:
    """Do nothing, because kernels have already finished and reported their errors."""


class _CupyOfTheDay:
    """Descriptor for the module attribute of Awkward's only Cupy object.

    It also overrides the attribute of an object created earlier.
    """

    def __get__(self, instance: Any, owner: type) -> ModuleType:
        return _import_cupy()

    def __set__(self, instance: Any, module: ModuleType) -> None:
        """Store the module found by the constructor, which is used once this class is removed."""
        vars(instance)["_module"] = module


_cupy_of_the_day = _CupyOfTheDay()


def _host_kernel(backend: Any, index: tuple) -> HostKernel:
    from awkward._backends.numpy import NumpyBackend

    return HostKernel(NumpyBackend.instance()[index])


class HostKernel:
    """An Awkward CPU kernel applied to arrays in the memory of the virtual GPU."""

    def __init__(self, kernel: Any):
        self._kernel = kernel

    @property
    def key(self) -> tuple:
        """The kernel's name and array dtypes, by which Awkward looks kernels up."""
        return self._kernel.key

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel; return its error or None, as CPU kernels do."""
        from awkward._nplikes.array_like import maybe_materialize
        from cupy._arrays.core import ndarray, wrote

        arguments = maybe_materialize(*arguments)
        hosts = [one._host if isinstance(one, ndarray) else one for one in arguments]
        for at, kind in enumerate(self._kernel._impl.argtypes):
            if getattr(kind, "_type_", None) in _POINTERS:
                hosts[at] = host_addresses(hosts[at])
        error = self._kernel(*hosts)
        for one in arguments:
            if isinstance(one, ndarray):
                wrote(one)  # for the checkers, the whole array counts as written
        return error


# Some kernels take an array of pointers (one for each part of a combination).
_POINTERS = (ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int8))


def host_addresses(addresses: np.ndarray) -> np.ndarray:
    """Convert device addresses of whole arrays, shape (n,), to host addresses; 0 stays 0.

    The arrays count as written, because the kernel is about to fill them.
    """
    import numpy as np

    device = current_shared("CuPy")
    hosts = np.zeros_like(addresses)
    for at, address in enumerate(addresses.tolist()):
        if address:
            device.demand(address, 1, "a kernel's argument")
            start, end = device.extent(address) or (address, address)
            device.wrote(start, end - start)
            hosts[at] = device.view(address, (1,), np.uint8).ctypes.data
    return hosts
