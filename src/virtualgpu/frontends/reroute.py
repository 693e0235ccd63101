"""numba.cuda kernels on the virtual GPU, on a machine whose numba.cuda drives a real one.

A real GPU cannot say which line of a kernel races, and a kernel that writes out of bounds there
spoils the whole process. So inside :func:`reroute` launches go to a virtual device: the kernel is
compiled to PTX, its arrays are copied over, and copied back when it is done. Where the virtual GPU
is active anyway, nothing changes.

:func:`check`, :func:`profile` and :func:`schedule` reroute as well, so that they never pass in
silence over a launch that they could not see.

Beside :mod:`virtualgpu.frontends.numba_cuda` and :mod:`~virtualgpu.frontends.kernel_ptx` the only
module that knows numba-cuda's dispatcher (0.28 to 0.30): every launch goes through
``CUDADispatcher.call(arguments, configuration)``.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from virtualgpu import device, instruments

_compiled: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()


@contextmanager
def reroute() -> Iterator[None]:
    """Launches of ``numba.cuda`` kernels inside the ``with`` run on the virtual GPU.

    Arguments are NumPy arrays, arrays of numba.cuda and numbers; raises :class:`TypeError` for
    others.
    """
    active = sys.modules.get("virtualgpu.frontends.numba_cuda")
    if "numba.cuda" not in sys.modules or (active and active.is_active()):
        yield
        return
    from numba.cuda.dispatcher import CUDADispatcher

    before = CUDADispatcher.call
    CUDADispatcher.call = _call
    try:
        yield
    finally:
        CUDADispatcher.call = before


def _rerouted(instrument: Callable[..., AbstractContextManager]) -> Callable:
    @contextmanager
    @functools.wraps(instrument.__wrapped__)
    def on_the_virtual_gpu(*arguments):
        with reroute(), instrument(*arguments) as value:
            yield value

    return on_the_virtual_gpu


check = _rerouted(instruments.check)
profile = _rerouted(instruments.profile)
schedule = _rerouted(instruments.schedule)


def _call(dispatcher, arguments: tuple, configuration) -> None:
    """In place of ``CUDADispatcher.call``."""
    machine = device.current()
    hosts = [_on_host(argument) for argument in arguments]
    module, entry = _load(dispatcher, hosts, machine)
    parameters, addresses = [], []
    try:
        for host in hosts:
            if not isinstance(host, np.ndarray):
                parameters.append(host.tobytes())
                continue
            address = machine.allocate(host.nbytes) if host.nbytes else 0
            addresses.append(address)
            if address:
                machine.write(address, host)
            # As numba-cuda's _Kernel._prepare_args flattens an array.
            numbers = (0, 0, host.size, host.itemsize, address, *host.shape, *host.strides)
            parameters += [int(number).to_bytes(8, "little", signed=True) for number in numbers]
        machine.launch(module, entry, configuration.griddim, configuration.blockdim, parameters,
                       configuration.sharedmem)
        arrays = [pair for pair in zip(arguments, hosts, strict=True)
                  if isinstance(pair[1], np.ndarray)]
        for (argument, host), address in zip(arrays, addresses, strict=True):
            if address:
                _give_back(argument, machine.read(address, host.nbytes).view(host.dtype)
                           .reshape(host.shape))
    finally:
        for address in addresses:
            if address:
                machine.free(address)


def _on_host(argument: Any) -> np.ndarray | np.generic:
    """A C-contiguous copy of an array, or a number in the type that numba gives it."""
    if hasattr(argument, "copy_to_host"):
        return np.array(argument.copy_to_host(), order="C")
    if isinstance(argument, np.ndarray):
        return np.array(argument, order="C")
    if isinstance(argument, np.generic):
        return argument
    for kind, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
        if isinstance(argument, kind):
            return dtype(argument)
    raise TypeError(
        f"a {type(argument).__name__} cannot be handed to the virtual GPU beside a real one: "
        "arrays and numbers can")


def _give_back(argument: Any, result: np.ndarray) -> None:
    if isinstance(argument, np.ndarray):
        argument[...] = result
    else:
        argument.copy_to_device(result)


def _load(dispatcher, hosts: list, machine) -> tuple:
    """The kernel's module and entry on the machine, compiled for these arguments."""
    from numba import cuda
    from numba.cuda import types
    from numba.cuda.np import numpy_support

    from virtualgpu.ptx import parse

    def type_of(host):
        scalar = numpy_support.from_dtype(host.dtype)
        return types.Array(scalar, host.ndim, "C") if isinstance(host, np.ndarray) else scalar

    signature = tuple(type_of(host) for host in hosts)
    known = _compiled.setdefault(dispatcher, {})
    key = (signature, id(machine))
    if key not in known:
        ptx, _ = cuda.compile(dispatcher.py_func, signature, device=False, abi="numba",
                              lineinfo=True, cc=machine.compute_capability)
        entry = next(name for name, f in parse(ptx).functions.items() if f.is_entry)
        known[key] = machine, machine.load(ptx, {entry: dispatcher.py_func.__name__}), entry
    return known[key][1:]
