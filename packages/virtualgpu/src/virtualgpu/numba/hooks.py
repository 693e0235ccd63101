"""Hooks that replace internals of numba-cuda, so that ``numba.cuda`` uses the virtual GPU.

They rely on these parts of numba-cuda 0.30:

- ``numba.cuda.cudadrv.driver`` reaches the CUDA driver through attributes ``cu...`` of one
  object, ``driver``; they become those of :class:`~virtualgpu.cuda.driver_api.DriverAPI`.
- The same module names its parts of cuda.core ``ExperimentalDevice``, ``ExperimentalStream``
  and ``_Linker``; they become the small classes of
  :mod:`virtualgpu.numba.core`.
- ``numba.cuda.dispatcher`` and ``memory_management.nrt`` launch kernels with ``launch(stream,
  config, kernel, *arguments)`` and a ``LaunchConfig``, both of which are module globals.
- ``_Kernel.entry_name`` is the kernel's name in the PTX.
- Host arrays become device views in ``devicearray._to_strided_memory_view`` and come back in
  ``args.Out.to_device``.
- ``driver._alloc_finalizer`` and similar functions create the finalizers of memory, streams, events
  and modules. A finalizer looks up the driver when it runs, which may be after :func:`deactivate`.
  It may run late and while another device is current, so ``cuMemFree`` must get the pointer object
  that ``cuMemAlloc`` returned, which stores its device.
- ``numba.cuda.cudadrv.nvrtc`` compiles CUDA C++ through its global ``Program``.
- ``numba.cuda.np.linalg``, imported by the first compilation, has ``ensure_blas``.

Typing, lowering, NVVM, caching, argument passing, memory management and streams are all
numba-cuda's own.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from types import ModuleType, SimpleNamespace

import numpy as np

from virtualgpu import logs
from virtualgpu.after_import import after_import, forget
from virtualgpu.cuda.driver_api import API, DriverFailure
from virtualgpu.cuda.interprocess_api import MemoryHandle
from virtualgpu.devices.real.presence import driver_without_device
from virtualgpu.memory import array_names
from virtualgpu.memory.plain_dtypes import demand_plain
from virtualgpu.numba import arguments, line_information, line_marks, remembered
from virtualgpu.numba.core import (
    CoreDevice,
    CoreStream,
    NVRTCProgram,
    kernel_names,
    linker_class,
)
from virtualgpu.numba.launcher import Launcher
from virtualgpu.watch import queues
from virtualgpu.watch.host_arrays import watched

_saved: list[tuple[object, str, object]] = []
_FINALIZERS = (
    "_alloc_finalizer",
    "_hostalloc_finalizer",
    "_pin_finalizer",
    "_event_finalizer",
    "_stream_finalizer",
    "_module_finalizer",
)
_LINEAR_ALGEBRA = "numba.cuda.np.linalg"


def is_active() -> bool:
    return bool(_saved)


def activate() -> None:
    """Direct numba-cuda to :func:`virtualgpu.devices.current`. A second call changes nothing."""
    if _saved:
        return
    from numba import cuda
    from numba.cuda import api, args, decorators, dispatcher
    from numba.cuda.cudadrv import devicearray, nvrtc
    from numba.cuda.cudadrv import devices as numba_devices
    from numba.cuda.cudadrv import driver as module
    from numba.cuda.memory_management import nrt

    driver = module.driver
    if driver_without_device():
        _let_go(driver)
    _replace(driver, "is_initialized", True)
    _replace(driver, "initialization_error", None)
    _replace(driver, "pid", os.getpid())
    module._logger = module.make_logger()
    for name in dir(API):
        if name.startswith("cu"):
            _replace(driver, name, _numba_call(module, getattr(API, name)))
    # Memory handles (IPC) of a type that numba-cuda can send.
    _replace(module, "binding", _with(module.binding, CUipcMemHandle=MemoryHandle))
    # Each compilation reads the environment again, and `jit` would return a kernel of the
    # simulator.
    _replace(decorators, "config", _with(decorators.config, ENABLE_CUDASIM=0))
    for name in _FINALIZERS:
        _replace(module, name, _while_active(getattr(module, name)))
    _replace(module, "ExperimentalDevice", CoreDevice)
    _replace(module, "ExperimentalStream", CoreStream)
    _replace(module, "_Linker", linker_class(module))
    _replace(module.Stream, "add_callback", _add_callback)
    _replace(module.ManagedMemory, "__init__", _managed_init(module))
    launch = Launcher(module).launch
    for user in (dispatcher, nrt):
        _replace(user, "launch", launch)
        _replace(user, "LaunchConfig", SimpleNamespace)
    _replace(nrt, "_Linker", module._Linker)
    _replace(dispatcher._Kernel, "__init__", _kernel_init(dispatcher._Kernel.__init__))
    for owner, name, method in (
        *remembered.replacements(),
        *line_information.replacements(),
        *line_marks.replacements(),
    ):
        _replace(owner, name, method)
    # Numba warns of grids that underuse a GPU, which does not apply here.
    _replace(dispatcher.config, "CUDA_LOW_OCCUPANCY_WARNINGS", 0)
    _replace(nvrtc, "Program", NVRTCProgram)
    convert = arguments.to_strided_memory_view(devicearray, arguments.view_class(devicearray))
    _replace(devicearray, "_to_strided_memory_view", convert)
    base = devicearray.DeviceNDArrayBase
    _replace(base, "__init__", _plain_init(base.__init__))
    _replace(args.Out, "to_device", arguments.out_to_device(convert))
    for make in ("pinned_array", "mapped_array", "managed_array"):
        made = _watched(getattr(api, make))
        for user in (api, cuda):
            _replace(user, make, made)
    if _LINEAR_ALGEBRA not in sys.modules:
        after_import(_LINEAR_ALGEBRA, _find_blas)
    _forget_devices(driver, numba_devices)


def _with(module, **others):
    """Return a module with the attributes of ``module``, except for ``others``."""
    made = ModuleType(module.__name__)
    made.__getattr__ = lambda name: getattr(module, name)
    made.__dict__.update(others)
    return made


def _watched(make):
    """Return host arrays that report their accesses, if streams are checked."""

    @functools.wraps(make)
    def make_watched(*arguments, **named):
        # shape, dtype, …: set before it is an array whose accesses are reported
        demand_plain(named.get("dtype", np.float64 if len(arguments) < 2 else arguments[1]))
        return watched(make(*arguments, **named))

    return make_watched


def _plain_init(init):
    """Call ``DeviceNDArrayBase.__init__`` after rejecting arrays of Python objects."""

    @functools.wraps(init)
    def plain_init(self, shape, strides, dtype, *more, **named):
        demand_plain(dtype, "a device array")
        init(self, shape, strides, dtype, *more, **named)

    return plain_init


def _let_go(driver) -> None:
    """Close the library that numba-cuda opened on import, which has no device.

    Its calls go through cuda.bindings.
    """
    import _ctypes

    if (library := vars(driver).pop("lib", None)) is not None:
        _ctypes.dlclose(library._handle)


def deactivate() -> None:
    """Restore numba-cuda's own parts."""
    from numba.cuda.cudadrv import devices
    from numba.cuda.cudadrv import driver as module

    forget(_LINEAR_ALGEBRA)
    _forget_devices(module.driver, devices)
    while _saved:
        owner, name, value = _saved.pop()
        if value is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)


def _find_blas(linalg) -> None:
    """Find SciPy's BLAS without importing it, which takes a third of the first compilation."""
    imported = linalg.ensure_blas
    linalg.ensure_blas = lambda: None if importlib.util.find_spec("scipy") else imported()


_MISSING = object()


def _replace(owner: object, name: str, value: object) -> None:
    before = owner.__dict__.get(name, _MISSING)
    _saved.append((owner, name, before))
    setattr(owner, name, value)


def _forget_devices(driver, devices) -> None:
    """Forget devices and contexts that were created through the other driver."""
    driver.devices.clear()
    devices._runtime.gpus.__class__.lst.fget.cache_clear()
    devices._runtime._tls.__dict__.clear()


def _while_active(make):
    """Wrap finalizers so that they do nothing after :func:`deactivate`."""

    def make_finalizer(*arguments):
        core = make(*arguments)

        def finalize(*key):
            if _saved:
                core(*key)

        return finalize

    return make_finalizer


def _numba_call(module, function):
    def call(*arguments):
        try:
            return function(*arguments)
        except DriverFailure as failure:
            raise module.CudaAPIError(failure.code, str(failure)) from None

    return call


def _add_callback(self, callback, arg=None) -> None:
    """Call the function at once, because all work of the stream is complete."""
    queues.tell("synchronize", self.handle)
    callback(self, 0, arg)


def _managed_init(module):
    def __init__(self, context, pointer, size, owner=None, finalizer=None):
        self.owned = owner
        module.AutoFreePointer.__init__(self, context, pointer, size, finalizer=finalizer)
        self._buflen_ = self.size
        # The host accesses the device's bytes in place; the host and device addresses may differ.
        self._bufptr_ = API.host_address(int(pointer), size)

    return __init__


# -- launches -----------------------------------------------------------------------------------


def _kernel_init(original):
    def __init__(self, py_func, argtypes, *args, **kwargs):
        line_information.now.kernel = True
        with logs.timed("kernel %s compiled by Numba", py_func.__name__):
            original(self, py_func, argtypes, *args, **kwargs)
        kernel_names[self.entry_name] = py_func.__name__
        self._arrays = array_names.register(
            self.entry_name, arguments.array_parameters(py_func, self.argument_types)
        )

    return __init__
