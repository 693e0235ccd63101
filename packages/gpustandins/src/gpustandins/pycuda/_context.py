"""Devices, contexts, streams and events.

As in PyCUDA, a context must be current before anything else works; ``import pycuda.autoinit``
creates one. Streams keep their order and never overlap. Events also keep their order, but measure
no times.
"""

from __future__ import annotations

import math
import warnings

import cupy
from cuda.bindings import driver as binding
from cupy.cuda import runtime

from ._errors import LogicError, call
from ._missing import Absent

_initialised = False
_stack: list[Context] = []


class device_attribute:
    """``CU_DEVICE_ATTRIBUTE_...`` constants by name, without the prefix."""


class ctx_flags:
    """Flags of :meth:`Device.make_context`, which have no effect here."""

    SCHED_AUTO, SCHED_SPIN, SCHED_YIELD, SCHED_BLOCKING_SYNC = 0, 1, 2, 4
    BLOCKING_SYNC, SCHED_MASK, FLAGS_MASK = 4, 7, 255
    MAP_HOST, LMEM_RESIZE_TO_MAX = 8, 16


class event_flags:
    """Flags of :class:`Event`."""

    DEFAULT, BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS = 0, 1, 2, 4


_ATTRIBUTES = {
    name.removeprefix("CU_DEVICE_ATTRIBUTE_"): int(value)
    for name, value in binding.CUdevice_attribute.__members__.items()
    if not name.endswith("_MAX")
}
for _name, _value in _ATTRIBUTES.items():
    setattr(device_attribute, _name, _value)


def init(flags: int = 0) -> None:
    """Initialise the driver; earlier calls of other functions fail."""
    global _initialised
    _initialised = True


def need_init(function: str) -> None:
    if not _initialised:
        raise LogicError(
            f"{function} failed: initialization error (call pycuda.driver.init() or "
            "import pycuda.autoinit first)"
        )


def need_context(function: str) -> None:
    """Raise LogicError if no context is current."""
    need_init(function)
    if not _stack:
        raise LogicError(
            f"{function} failed: invalid device context - no currently active "
            "context? (import pycuda.autoinit creates one)"
        )


def get_version() -> tuple[int, int, int]:
    """Return the CUDA version of PyCUDA, which here is that of the bindings."""
    return (binding.CUDA_VERSION // 1000, binding.CUDA_VERSION % 1000 // 10, 0)


def get_driver_version() -> int:
    """Return ``cuDriverGetVersion``, or without a GPU the version of the bindings."""
    return runtime.driverGetVersion()


class Device:
    """GPU selected by its number. Raises LogicError if there is no such device."""

    can_access_peer = Absent("nothing instead: virtual GPUs cannot access each other's memory")
    uuid = Absent("Device.pci_bus_id()")

    def __init__(self, number: int):
        need_init("cuDeviceGet")
        if not 0 <= number < self.count():
            raise LogicError(
                f"cuDeviceGet failed: invalid device ordinal (there is no device {number}, as this "
                f"process sees {self.count()}; without a GPU, set the environment variable "
                f"VIRTUALGPU_DEVICES={max(number + 1, 2)} before the process starts to get more)"
            )
        self._number = number

    @staticmethod
    def count() -> int:
        need_init("cuDeviceGetCount")
        return runtime.getDeviceCount()

    def name(self) -> str:
        return runtime.getDeviceProperties(self._number)["name"].decode()

    def compute_capability(self) -> tuple[int, int]:
        digits = cupy.cuda.Device(self._number).compute_capability
        return int(digits[:-1]), int(digits[-1])

    def total_memory(self) -> int:
        """Return the device's memory in bytes."""
        return runtime.getDeviceProperties(self._number)["totalGlobalMem"]

    def pci_bus_id(self) -> str:
        return runtime.deviceGetPCIBusId(self._number)

    def get_attribute(self, attribute: int) -> int:
        """Return a :class:`device_attribute`; 0 for features that the device does not have."""
        if attribute not in _ATTRIBUTES.values():
            raise LogicError("cuDeviceGetAttribute failed: invalid argument")
        with call("cuDeviceGetAttribute"):
            return runtime.deviceGetAttribute(attribute, self._number)

    def get_attributes(self) -> dict[int, int]:
        """Return all attributes by number."""
        return {value: self.get_attribute(value) for value in _ATTRIBUTES.values()}

    def __getattr__(self, name: str) -> int:
        if isinstance(absent := vars(type(self)).get(name), Absent):
            raise absent.missing()
        if name.upper() not in _ATTRIBUTES:
            raise AttributeError(f"a device has no attribute {name!r}")
        return self.get_attribute(_ATTRIBUTES[name.upper()])

    def make_context(self, flags: int = 0) -> Context:
        """Create a context and make it current."""
        context = Context(self)
        context.push()
        return context

    def retain_primary_context(self) -> Context:
        """Return the primary context; push it to make it current."""
        return Context(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other._number == self._number

    def __hash__(self) -> int:
        return hash((Device, self._number))


class Context:
    """Context, which all other calls need; :meth:`Device.make_context` creates it."""

    attach = Absent("Context.push and Context.pop")
    get_limit = Absent("nothing instead: stack and heap grow as needed")
    set_limit = Absent("nothing instead: stack and heap grow as needed")
    get_shared_config = Absent("nothing instead: banks are four bytes wide")
    set_shared_config = Absent("nothing instead: banks are four bytes wide")
    enable_peer_access = Absent("memcpy_peer, as devices cannot access each other's memory")
    disable_peer_access = Absent("memcpy_peer, as devices cannot access each other's memory")

    def __init__(self, owner: Device):
        self._device = owner

    @staticmethod
    def get_current() -> Context | None:
        """Return the context on top of the stack, or None."""
        return _stack[-1] if _stack else None

    @staticmethod
    def get_device() -> Device:
        need_context("cuCtxGetDevice")
        return _stack[-1]._device

    @staticmethod
    def synchronize() -> None:
        """Wait for all work of the device."""
        need_context("cuCtxSynchronize")
        with call("cuCtxSynchronize"):
            runtime.deviceSynchronize()

    @staticmethod
    def pop() -> None:
        """Make the previous context current."""
        if not _stack:
            raise LogicError(
                "context::pop failed: invalid device context - cannot pop non-current context"
            )
        _stack.pop()
        _select()

    def push(self) -> None:
        """Make this context current."""
        _stack.append(self)
        _select()

    def detach(self) -> None:
        """Release the context, so that it is no longer current."""
        if self in _stack:
            _stack.remove(self)
            _select()

    @staticmethod
    def get_api_version() -> int:
        return 3020

    @staticmethod
    def set_cache_config(config: int) -> None:
        """Do nothing, because there are no caches."""

    @staticmethod
    def get_cache_config() -> int:
        return 0


def _select() -> None:
    """Make the device of the current context current for all calls."""
    number = _stack[-1]._device._number if _stack else 0
    if number != runtime.getDevice():
        runtime.setDevice(number)


def mem_get_info() -> tuple[int, int]:
    """Return the free and the total device memory in bytes."""
    need_context("cuMemGetInfo")
    return runtime.memGetInfo()


class Stream(cupy.cuda.Stream):
    """Stream of work; on the virtual GPU, work is done when a call returns."""

    begin_capture = Absent("plain launches, as work is done when a call returns")

    def __init__(self, flags: int = 0):
        need_context("cuStreamCreate")
        super().__init__(non_blocking=bool(flags & 1))

    @property
    def handle(self) -> int:
        return self.ptr

    def is_done(self) -> bool:
        return self.done

    def wait_for_event(self, event: Event) -> None:
        """Make later work wait; ``virtualgpu.check(streams=True)`` reports missing waits."""
        self.wait_event(event)


def number(stream: Stream | None) -> int:
    """Return the handle of a stream; None is the default stream."""
    return 0 if stream is None else stream.handle


class Event(cupy.cuda.Event):
    """Event in a stream. Without a GPU, the time between two events is NaN."""

    ipc_handle = Absent("numba.cuda's IPC handles, or one process")

    def __init__(self, flags: int = 0):
        need_context("cuEventCreate")
        super().__init__(block=bool(flags & 1), disable_timing=bool(flags & 2))

    def record(self, stream: Stream | None = None) -> Event:
        super().record(cupy.cuda.Stream.null if stream is None else stream)
        return self

    def synchronize(self) -> Event:
        super().synchronize()
        return self

    def query(self) -> bool:
        return self.done

    def time_since(self, start: Event) -> float:
        """Return the milliseconds since ``start``: without a GPU NaN, with a warning.

        Raises LogicError for events that were never recorded.
        """
        return time_between(start, self)

    def time_till(self, end: Event) -> float:
        """Return the milliseconds until ``end``, as :meth:`time_since` does."""
        return time_between(self, end)


def time_between(start: Event, end: Event, what: str = "so the time between events is") -> float:
    """Return milliseconds; without a GPU, return NaN and warn with the text ``what``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy's stand-in warns only once
        try:
            time = cupy.cuda.get_elapsed_time(start, end)
        except runtime.CUDARuntimeError:
            raise LogicError(
                "cuEventElapsedTime failed: invalid resource handle (record both events first)"
            ) from None
    if math.isnan(time):
        warnings.warn(
            f"the virtual GPU has no times, {what} nan; count work with "
            "virtualgpu.profile(), or run on a GPU",
            UserWarning,
            stacklevel=3,
        )
    return time
