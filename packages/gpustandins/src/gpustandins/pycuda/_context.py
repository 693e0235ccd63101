"""Devices and contexts, streams and events.

A context must be current before anything else works, as in PyCUDA: ``import pycuda.autoinit``
makes one. Streams keep order and never overlap; events know their order and no times.
"""

from __future__ import annotations

import math
import warnings

from cuda.bindings import driver as binding

from virtualgpu.standins.interface import API, DriverFailure
from virtualgpu.standins.interface import devices as machines

from ._errors import LogicError
from ._missing import Absent

_initialised = False
_stack: list[Context] = []


def _names(enum, prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): int(value)
        for name, value in enum.__members__.items()
        if name.startswith(prefix)
    }


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


for _name, _value in _names(binding.CUdevice_attribute, "CU_DEVICE_ATTRIBUTE_").items():
    setattr(device_attribute, _name, _value)


def init(flags: int = 0) -> None:
    """Start the driver; what comes before it fails."""
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
    """Return the CUDA version of PyCUDA: here that of the compiler in use."""
    return (binding.CUDA_VERSION // 1000, binding.CUDA_VERSION % 1000 // 10, 0)


def get_driver_version() -> int:
    """As ``cuDriverGetVersion``; there is no driver, so the bindings' version."""
    return binding.CUDA_VERSION


class Device:
    """A virtual GPU by its number. Raises LogicError for one that there is not."""

    can_access_peer = Absent("nothing: virtual GPUs do not reach each other's memory")
    uuid = Absent("Device.pci_bus_id()")

    def __init__(self, number: int):
        need_init("cuDeviceGet")
        if not 0 <= number < self.count():
            raise LogicError(
                f"cuDeviceGet failed: invalid device ordinal ({machines.no_device(number)})"
            )
        self._number = number

    @staticmethod
    def count() -> int:
        need_init("cuDeviceGetCount")
        return len(machines.every())

    @property
    def _machine(self) -> machines.Device:
        return machines.every()[self._number]

    def name(self) -> str:
        return self._machine.name

    def compute_capability(self) -> tuple[int, int]:
        return tuple(self._machine.compute_capability)

    def total_memory(self) -> int:
        """Bytes."""
        return self._machine.total_memory

    def pci_bus_id(self) -> str:
        return f"0000:00:{self._number:02x}.0"

    def get_attribute(self, attribute: int) -> int:
        """One of :class:`device_attribute`; what the machine does not have is 0."""
        try:
            return API.cuDeviceGetAttribute(attribute, self._number)
        except (DriverFailure, ValueError):
            raise LogicError("cuDeviceGetAttribute failed: invalid argument") from None

    def get_attributes(self) -> dict[int, int]:
        """All attributes, by number."""
        return {
            value: self.get_attribute(value)
            for name, value in vars(device_attribute).items()
            if name[0].isupper() and name != "MAX"
        }

    def __getattr__(self, name: str) -> int:
        if isinstance(absent := vars(type(self)).get(name), Absent):
            raise absent.missing()
        value = getattr(device_attribute, name.upper(), None)
        if value is None:
            raise AttributeError(f"a device has no attribute {name!r}")
        return self.get_attribute(value)

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
        """Wait for all work: it is done already."""
        need_context("cuCtxSynchronize")
        API.cuCtxSynchronize()

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
        """Without effect: there are no caches."""

    @staticmethod
    def get_cache_config() -> int:
        return 0


def _select() -> None:
    """Make the device of the current context the one that all calls use."""
    number = _stack[-1]._device._number if _stack else 0
    if number != machines.number():
        API.cuCtxSetCurrent(number + 1)


def mem_get_info() -> tuple[int, int]:
    """Free and total device memory in bytes."""
    need_context("cuMemGetInfo")
    return tuple(int(one) for one in API.cuMemGetInfo())


class Stream:
    """A queue of work; work is done when the call returns."""

    begin_capture = Absent("plain launches: work is done when a call returns")

    def __init__(self, flags: int = 0):
        need_context("cuStreamCreate")
        self.handle = int(API.cuStreamCreate(flags))

    def synchronize(self) -> None:
        API.cuStreamSynchronize(self.handle)

    def is_done(self) -> bool:
        self.synchronize()
        return True

    def wait_for_event(self, event: Event) -> None:
        """Order is kept anyway: what is missing, ``virtualgpu.check(streams=True)`` tells."""
        API.cuStreamWaitEvent(self.handle, event._handle)


def number(stream: Stream | None) -> int:
    """Return a stream's handle; None is the default stream."""
    return 0 if stream is None else stream.handle


class Event:
    """A mark in a stream. Two of them give NaN for the time between: no GPU ran."""

    ipc_handle = Absent("numba.cuda's IPC handles, or one process")

    def __init__(self, flags: int = 0):
        need_context("cuEventCreate")
        self._recorded = False
        self._handle = int(API.cuEventCreate(flags))

    def record(self, stream: Stream | None = None) -> Event:
        self._recorded = True
        API.cuEventRecord(self._handle, number(stream))
        return self

    def synchronize(self) -> Event:
        API.cuEventSynchronize(self._handle)
        return self

    def query(self) -> bool:
        self.synchronize()
        return True

    def time_since(self, start: Event) -> float:
        """Return milliseconds since ``start``: NaN here, with a warning.

        Raises LogicError for events that were never recorded.
        """
        return _no_time(start, self)

    def time_till(self, end: Event) -> float:
        """Milliseconds until ``end``: NaN here, with a warning."""
        return _no_time(self, end)


def _no_time(*events: Event) -> float:
    if not all(one._recorded for one in events):
        raise LogicError(
            "cuEventElapsedTime failed: invalid resource handle (record both events first)"
        )
    warnings.warn(
        "the virtual GPU has no times: the time between events is nan here; count work "
        "with virtualgpu.profile(), or run on a GPU",
        UserWarning,
        stacklevel=3,
    )
    return math.nan
