"""Awkward's CUDA backend without a GPU.

It runs CUDA C++ kernels of its own, compiled for minutes as one module, and sends reducers through
``cuda.compute``, which needs a driver. Here its arrays live in the memory of the virtual GPU
(CuPy's stand-in), and each kernel is Awkward's own CPU kernel on that memory: the same results, and
errors when they happen rather than at the next synchronisation. ``ak.to_backend(array, "cuda")``,
what mixes with what and what is refused remain Awkward's (awkward 2.8 to 2.14).
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
    """Have ``awkward._connect.cuda`` find CuPy's stand-in; return a function to undo it."""
    return _replace((connect, "import_cupy", _import_cupy), (connect, "synchronize_cuda", _wait))


def use_cpu_kernels(backends: ModuleType) -> Callable[[], None]:
    """Have ``awkward._backends.cupy`` run Awkward's CPU kernels; return a function to undo it."""
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
    """Import CuPy or its stand-in as it is installed now, not when Awkward was imported."""
    import cupy

    return cupy


def _wait(stream: object = None) -> None:
    """Do nothing: nothing is ever in flight, and kernels have reported their errors."""


class _CupyOfTheDay:
    """Descriptor for the module of Awkward's one Cupy object.

    It covers an object that an earlier attempt made.
    """

    def __get__(self, instance: Any, owner: type) -> ModuleType:
        return _import_cupy()

    def __set__(self, instance: Any, module: ModuleType) -> None:
        """Store the module that its constructor finds, which counts again without this class."""
        vars(instance)["_module"] = module


_cupy_of_the_day = _CupyOfTheDay()


def _host_kernel(backend: Any, index: tuple) -> HostKernel:
    from awkward._backends.numpy import NumpyBackend

    return HostKernel(NumpyBackend.instance()[index])


class HostKernel:
    """One of Awkward's CPU kernels, for arrays in the memory of the virtual GPU."""

    def __init__(self, kernel: Any):
        self._kernel = kernel

    @property
    def key(self) -> tuple:
        """Its name and the dtypes of its arrays, by which Awkward finds kernels."""
        return self._kernel.key

    def __call__(self, *arguments: Any) -> Any:
        """Return the kernel's error or None, as CPU kernels do."""
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
                wrote(one)  # as far as the checkers can tell
        return error


# Some kernels take an array of pointers (where each of a combination's parts goes).
_POINTERS = (ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int8))


def host_addresses(addresses: np.ndarray) -> np.ndarray:
    """Return host addresses for device addresses of whole arrays, shape (n,); 0 stays 0.

    The arrays count as written: the kernel is about to fill them.
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
