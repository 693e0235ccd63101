"""Devices and contexts, streams and events.

A context must be current before anything else works, as in PyCUDA: ``import pycuda.autoinit``
makes one. Streams keep order and never overlap; events know their order and no times.
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
    """``CU_DEVICE_ATTRIBUTE_...`` by their names without the prefix."""


class ctx_flags:
    """Flags of :meth:`Device.make_context`; none changes anything here."""

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
    """Start the driver; calls before it fail."""
    global _initialised
    _initialised = True


def need_init(function: str) -> None:
    if not _initialised:
        raise LogicError(
            f"{function} failed: initialization error (call pycuda.driver.init() or "
            "import pycuda.autoinit first)"
        )


def need_context(function: str) -> None:
    """Raise LogicError where no context is current."""
    need_init(function)
    if not _stack:
        raise LogicError(
            f"{function} failed: invalid device context - no currently active "
            "context? (import pycuda.autoinit makes one)"
        )


def get_version() -> tuple[int, int, int]:
    """Return the CUDA version of PyCUDA: here that of the bindings."""
    return (binding.CUDA_VERSION // 1000, binding.CUDA_VERSION % 1000 // 10, 0)


def get_driver_version() -> int:
    """Return ``cuDriverGetVersion``; without a GPU the bindings' version."""
    return runtime.driverGetVersion()


class Device:
    """A GPU by its number. Raises LogicError for one that there is not."""

    can_access_peer = Absent("nothing: virtual GPUs do not reach each other's memory")
    uuid = Absent("Device.pci_bus_id()")

    def __init__(self, number: int):
        need_init("cuDeviceGet")
        if not 0 <= number < self.count():
            raise LogicError(
                f"cuDeviceGet failed: invalid device ordinal (there is no device {number}: this "
                f"process sees {self.count()}; without a GPU the environment variable "
                f"VIRTUALGPU_DEVICES={max(number + 1, 2)}, set before it starts, makes more)"
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
        """Return a :class:`device_attribute`; 0 for parts that the machine does not have."""
        if attribute not in _ATTRIBUTES.values():
            raise LogicError("cuDeviceGetAttribute failed: invalid argument")
        with call("cuDeviceGetAttribute"):
            return runtime.deviceGetAttribute(attribute, self._number)

    def get_attributes(self) -> dict[int, int]:
        """Return all attributes, by number."""
        return {value: self.get_attribute(value) for value in _ATTRIBUTES.values()}

    def __getattr__(self, name: str) -> int:
        if isinstance(absent := vars(type(self)).get(name), Absent):
            raise absent.missing()
        if name.upper() not in _ATTRIBUTES:
            raise AttributeError(f"a device has no attribute {name!r}")
        return self.get_attribute(_ATTRIBUTES[name.upper()])

    def make_context(self, flags: int = 0) -> Context:
        """Make a new context and make it current."""
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
    """A context, which all other calls need; :meth:`Device.make_context` makes it."""

    attach = Absent("Context.push and Context.pop")
    get_limit = Absent("nothing: stack and heap grow as they are asked for")
    set_limit = Absent("nothing: stack and heap grow as they are asked for")
    get_shared_config = Absent("nothing: banks are four bytes wide")
    set_shared_config = Absent("nothing: banks are four bytes wide")
    enable_peer_access = Absent("memcpy_peer: devices do not reach each other's memory")
    disable_peer_access = Absent("memcpy_peer: devices do not reach each other's memory")

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
        """Wait for all work."""
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
        """Give the context up; it is no longer current."""
        if self in _stack:
            _stack.remove(self)
            _select()

    @staticmethod
    def get_api_version() -> int:
        return 3020

    @staticmethod
    def set_cache_config(config: int) -> None:
        """Do nothing: there are no caches."""

    @staticmethod
    def get_cache_config() -> int:
        return 0


def _select() -> None:
    """Make the device of the current context the one that all calls use."""
    number = _stack[-1]._device._number if _stack else 0
    if number != runtime.getDevice():
        runtime.setDevice(number)


def mem_get_info() -> tuple[int, int]:
    """Free and total device memory in bytes."""
    need_context("cuMemGetInfo")
    return runtime.memGetInfo()


class Stream(cupy.cuda.Stream):
    """A queue of work; on the virtual GPU work is done when the call returns."""

    begin_capture = Absent("plain launches: work is done when a call returns")

    def __init__(self, flags: int = 0):
        need_context("cuStreamCreate")
        super().__init__(non_blocking=bool(flags & 1))

    @property
    def handle(self) -> int:
        return self.ptr

    def is_done(self) -> bool:
        return self.done

    def wait_for_event(self, event: Event) -> None:
        """Let later work wait; ``virtualgpu.check(streams=True)`` tells where that is missing."""
        self.wait_event(event)


def number(stream: Stream | None) -> int:
    """Return a stream's handle; None is the default stream."""
    return 0 if stream is None else stream.handle


class Event(cupy.cuda.Event):
    """A mark in a stream. Without a GPU two of them give NaN for the time between."""

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
        """Return milliseconds since ``start``: NaN without a GPU, with a warning.

        Raises LogicError for events that were never recorded.
        """
        return time_between(start, self)

    def time_till(self, end: Event) -> float:
        """Return milliseconds until ``end``, as :meth:`time_since` does."""
        return time_between(self, end)


def time_between(start: Event, end: Event, what: str = "the time between events is") -> float:
    """Return milliseconds; NaN and a warning of ``what`` without a GPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy's stand-in warns the first time alone
        try:
            time = cupy.cuda.get_elapsed_time(start, end)
        except runtime.CUDARuntimeError:
            raise LogicError(
                "cuEventElapsedTime failed: invalid resource handle (record both events first)"
            ) from None
    if math.isnan(time):
        warnings.warn(
            f"the virtual GPU has no times: {what} nan here; count work with "
            "virtualgpu.profile(), or run on a GPU",
            UserWarning,
            stacklevel=3,
        )
    return time
