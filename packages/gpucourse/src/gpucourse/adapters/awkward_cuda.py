"""Awkward Arrays on the CUDA backend: three things that Awkward itself does not do yet.

**Iteration in Numba kernels**, with and without a GPU. numba-cuda takes only those registrations
of a third library whose implementation says that it comes from outside Numba, and Numba's
decorator ``iternext_impl`` stamps its own name on Awkward's. So ``for x in event`` and
``enumerate(event)`` fail with "No definition for lowering iternext" until the name is put right
(seen with awkward 2.8 to 2.14, numba-cuda 0.28 to 0.30).

**Operations, without a GPU.** Awkward's CUDA backend runs its own CUDA C++ kernels, compiled for
minutes as one module, and sends reducers through ``cuda.compute``, which needs a driver. Here its
arrays live in the memory of the virtual GPU (CuPy's stand-in), and each kernel is Awkward's own CPU
kernel on that memory: the same results, and errors when they happen rather than at the next
synchronisation. ``ak.to_backend(array, "cuda")``, what mixes with what and what is refused remain
Awkward's.

**Kernels on the virtual GPU beside a real one** (:mod:`virtualgpu.numba.reroute`): the array is
copied over for the launch, as numbers and NumPy's arrays are.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpucourse.system.after_import import after_import, forget

if TYPE_CHECKING:
    import numpy as np

_VIEWS = "awkward._connect.numba.arrayview"
_BACKEND = "awkward._backends.cupy"
_CONNECT = "awkward._connect.cuda"
_REROUTE = "virtualgpu.numba.reroute"
_replaced = ExitStack()


def mend_iteration() -> None:
    """Have ``for x in array`` compile in CUDA kernels from the first compilation on."""
    after_import(_VIEWS, _mend_iteration)


def route_to_cpu_kernels() -> None:
    """Have Awkward's CUDA backend use CuPy's stand-in and Awkward's CPU kernels."""
    after_import(_BACKEND, _route_backend)
    after_import(_CONNECT, _use_stand_in)


def hand_over() -> None:
    """Have kernels with Awkward Arrays run on the virtual GPU beside a real one."""
    after_import(_REROUTE, _hand_over)


def undo() -> None:
    """Undo :func:`route_to_cpu_kernels`; wait for nothing more (a mend that was made stays)."""
    for name in (_BACKEND, _CONNECT, _VIEWS, _REROUTE):
        forget(name)
    _replaced.close()


def _replace(owner: Any, name: str, value: Any) -> None:
    from unittest.mock import patch

    if vars(owner).get(name) is not value:
        _replaced.enter_context(patch.object(owner, name, value, create=True))


def _mend_iteration(views: ModuleType) -> None:
    views.lower_iternext.__module__ = views.__name__


def _hand_over(reroute: ModuleType) -> None:
    if _as_argument not in reroute.handlers:
        reroute.handlers.append(_as_argument)


def _as_argument(value: Any, store: Callable[[np.ndarray], int]) -> tuple | None:
    """Numba's type of an Awkward Array and its parameters, with the buffers where ``store`` puts
    them; None for anything else."""
    from gpucourse.adapters import awkward_arguments as awkward

    if not awkward.is_awkward(value):
        return None
    host = sys.modules["awkward"].to_backend(value, "cpu")
    return host.numba_type, awkward.parameters(host, store)


def _use_stand_in(connect: ModuleType) -> None:
    _replace(connect, "import_cupy", _import_cupy)
    _replace(connect, "synchronize_cuda", _synchronize)


def _import_cupy(name: str = "Awkward Arrays with CUDA") -> ModuleType:
    """CuPy or its stand-in as it is found now, not as it was when Awkward was imported."""
    import cupy

    return cupy


def _synchronize(stream: object = None) -> None:
    """Nothing is ever in flight, and kernels have told their errors."""


class _CupyOfTheDay:
    """What Awkward's one Cupy object calls its module, also where an earlier attempt made it."""

    def __get__(self, instance: Any, owner: type) -> ModuleType:
        return _import_cupy()

    def __set__(self, instance: Any, module: ModuleType) -> None:
        """What its constructor finds counts again when this is gone."""
        vars(instance)["_module"] = module


_cupy_of_the_day = _CupyOfTheDay()


def _route_backend(backends: ModuleType) -> None:
    _replace(backends.CupyBackend, "__getitem__", _host_kernel)
    _replace(backends.Cupy, "_module", _cupy_of_the_day)


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
        """Returns the kernel's error or None, as CPU kernels do."""
        from awkward._nplikes.array_like import maybe_materialize
        from cupy._core import ndarray, wrote

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
    """Device addresses of whole arrays, shape (n,), as the host's; 0 stays 0.

    The arrays count as written: the kernel is about to fill them.
    """
    import numpy as np

    from virtualgpu.devices import current_shared

    device = current_shared("CuPy")
    hosts = np.zeros_like(addresses)
    for at, address in enumerate(addresses.tolist()):
        if address:
            hosts[at] = device.host_view(address, 1).__array_interface__["data"][0]
    return hosts
