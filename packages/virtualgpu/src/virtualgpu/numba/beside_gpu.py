"""numba.cuda kernels on the virtual GPU, on a machine whose numba.cuda drives a real one.

A real GPU cannot tell which line of a kernel races, and a kernel that writes out of bounds there
makes the whole process unusable. So inside :func:`reroute`, launches go to a virtual device. The
kernel is compiled to PTX, and its arrays are copied to the device and back afterwards. If the
virtual GPU is active already, nothing changes.

Apart from :mod:`virtualgpu.numba.hooks` and :mod:`~virtualgpu.numba.kernel_ptx`, only this module
depends on numba-cuda's dispatcher (0.30), whose every launch calls
``CUDADispatcher.call(arguments, configuration)``.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from virtualgpu import devices
from virtualgpu.awkward import kernels as awkward
from virtualgpu.devices import Device
from virtualgpu.devices.real.machine_array import MachineArray, give_back, host_copy
from virtualgpu.devices.real.presence import gpu_is_present
from virtualgpu.memory import array_names
from virtualgpu.numba import numpy_names
from virtualgpu.numba.arguments import array_parameters
from virtualgpu.wording import a_or_an

_compiled: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()


@contextmanager
def reroute() -> Iterator[None]:
    """Run launches of ``numba.cuda`` kernels inside the context on the virtual GPU.

    Arguments may be arrays of NumPy, numba.cuda, CuPy, JAX and Awkward, numbers, and tuples of
    these; others raise :class:`TypeError`. Two views of one array are copied separately.
    """
    active = sys.modules.get("virtualgpu.numba.hooks")
    numba_cuda = getattr(sys.modules.get("numba.cuda"), "__name__", "")
    # numba.cuda may be its successor (virtualgpu.successor.choice).
    if numba_cuda != "numba.cuda" or (active and active.is_active()):
        yield
        return
    numpy_names.lend()
    with _calling(_call):
        yield


@contextmanager
def without_reroute() -> Iterator[None]:
    """Launch on the real GPU even inside :func:`reroute`, for launches that are timed."""
    if not _before:
        yield
        return
    with _calling(_before[0]):
        yield


_before: list[Any] = []


@contextmanager
def _calling(call: Any) -> Iterator[None]:
    from numba.cuda.dispatcher import CUDADispatcher

    _before.append(CUDADispatcher.call)
    CUDADispatcher.call = call
    try:
        yield
    finally:
        CUDADispatcher.call = _before.pop()


def _call(dispatcher, arguments: tuple, configuration) -> None:
    """Replace ``CUDADispatcher.call``."""
    machine = devices.current()
    converted = _Arguments(machine)
    try:
        signature = tuple(converted.add(argument) for argument in arguments)
        module, entry, cooperative = _load(dispatcher, signature, machine)
        machine.launch(
            module,
            entry,
            configuration.griddim,
            configuration.blockdim,
            converted.parameters,
            configuration.sharedmem,
            cooperative,
        )
        converted.give_back()
    finally:
        converted.free()


class _Arguments:
    """Arguments of one launch on the virtual device: their parameters, and the copies to return."""

    def __init__(self, machine: Device):
        self.parameters: list[bytes] = []
        self._machine = machine
        self._copies: dict[int, tuple[Any, MachineArray]] = {}  # by the id of the argument
        self._owned: list[int] = []

    def add(self, value: Any) -> Any:
        """Append the parameters of an argument; return its Numba type."""
        from numba.cuda import types
        from numba.cuda.np import numpy_support

        if isinstance(value, tuple):
            kinds = [self.add(item) for item in value]
            named = type(value) if hasattr(value, "_fields") else None
            return types.BaseTuple.from_types(kinds, named)
        copy: MachineArray | None = value if isinstance(value, MachineArray) else None
        if copy is None and (host := host_copy(value)) is not None:
            copy = self._copy(value, host)
        if copy is not None:
            self.parameters += copy.parameters()
            return types.Array(numpy_support.from_dtype(copy.dtype), copy.ndim, copy.layout)
        if (number := _number(value)) is not None:
            parts = (number.real, number.imag) if number.dtype.kind == "c" else (number,)
            self.parameters += [part.tobytes() for part in parts]
            return numpy_support.from_dtype(number.dtype)
        if awkward.is_awkward(value):
            kind, parameters = awkward.as_argument(value, self._store)
            self.parameters += parameters
            return kind
        raise TypeError(
            f"{a_or_an(type(value).__name__)} cannot be passed to a kernel on the virtual GPU of "
            "a machine with a real one; pass arrays and numbers"
        )

    def _copy(self, value: Any, host: np.ndarray) -> MachineArray:
        if id(value) not in self._copies:
            self._copies[id(value)] = value, MachineArray(host, self._machine)
        return self._copies[id(value)][1]

    def _store(self, array: np.ndarray) -> int:
        if not array.nbytes:
            return 0
        self._owned.append(address := self._machine.allocate(array.nbytes))
        self._machine.write(address, array)
        return address

    def give_back(self) -> None:
        for value, copy in self._copies.values():
            if copy.changed:
                give_back(value, copy.copy_to_host())

    def free(self) -> None:
        for address in self._owned:
            self._machine.free(address)
        self._copies.clear()


def _number(value: Any) -> np.generic | None:
    """Return a number in the type that numba gives it."""
    if isinstance(value, np.generic):
        return value
    kinds: tuple[tuple[type, Any], ...] = (
        (bool, np.bool_),
        (int, np.int64),
        (float, np.float64),
        (complex, np.complex128),
    )
    for kind, dtype in kinds:
        if isinstance(value, kind):
            return dtype(value)
    return None


def _load(dispatcher, signature: tuple, machine: Device) -> tuple[Any, str, bool]:
    """Return the kernel's module and entry on the device, compiled for these types.

    The last result is True if its blocks wait for each other.
    """
    from numba import cuda

    from virtualgpu.ptx import parse

    known = _compiled.setdefault(dispatcher, {})
    key = (signature, id(machine))
    if key not in known:
        fast = bool(dispatcher.targetoptions.get("fastmath", False))
        ptx, _ = cuda.compile(
            dispatcher.py_func,
            signature,
            device=False,
            abi="numba",
            lineinfo=True,
            fastmath=fast,
            cc=machine.compute_capability,
        )
        entry = next(name for name, f in parse(ptx).functions.items() if f.is_entry)
        module = machine.load(ptx, {entry: dispatcher.py_func.__name__})
        arrays = array_names.register(entry, array_parameters(dispatcher.py_func, signature))
        # numba-cuda's own test for a cooperative kernel.
        known[key] = machine, (module, entry, "cudaCGGetIntrinsicHandle" in ptx), arrays
        if gpu_is_present():
            # Register the types for inspect_asm() and overloads, as a launch on the GPU does.
            with suppress(Exception):
                dispatcher.compile(signature)
    return known[key][1]
