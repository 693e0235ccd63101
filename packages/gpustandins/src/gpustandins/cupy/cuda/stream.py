"""Streams and events, which keep their order; nothing overlaps and no times are measured."""

from __future__ import annotations

import threading
import time
import warnings

from virtualgpu.standins.interface import devices, queues

from ._machine import new_handle
from .runtime import CUDARuntimeError

_thread = threading.local()


class BaseStream:
    """Queue of work, each item of which is done as soon as it is submitted.

    ``ptr`` is its handle (int) and ``device_id`` its device.
    """

    device_id = 0
    is_non_blocking = False
    priority = 0

    def __init__(self, ptr: int):
        self.ptr = ptr

    def __eq__(self, other) -> bool:
        return isinstance(other, BaseStream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return hash((self.ptr, self.device_id))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ptr} (device {self.device_id})>"

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.ptr)

    def __enter__(self) -> BaseStream:
        _stack().append(self)
        queues.choose(self.ptr)
        return self

    def __exit__(self, *failure) -> None:
        _stack().pop()
        queues.choose(_stack()[-1].ptr)

    def use(self) -> BaseStream:
        """Make this the current stream of the thread."""
        stack = _stack()
        stack[-1:] = [self]
        queues.choose(self.ptr)
        return self

    def synchronize(self) -> None:
        """Wait for the device. Only a real GPU used for comparison has work in flight."""
        devices.current().synchronize()
        queues.tell("synchronize", self.ptr)

    @property
    def done(self) -> bool:
        """Always True. Reading it counts as a synchronisation for the checkers."""
        self.synchronize()
        return True

    def add_callback(self, callback, arg) -> None:
        """Call ``callback(stream, status, arg)`` at once, because all earlier work is done."""
        self.synchronize()
        callback(self, 0, arg)

    def launch_host_func(self, callback, arg) -> None:
        """Call ``callback(arg)`` at once."""
        self.synchronize()
        callback(arg)

    def record(self, event: Event | None = None) -> Event:
        """Record an event (a new one by default) and return it."""
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Do nothing; ``virtualgpu.check(streams=True)`` reports missing waits."""
        queues.tell("wait", self.ptr, event=event.ptr)

    def begin_capture(self, mode=None):
        raise NotImplementedError(
            "cupy.cuda.Stream.begin_capture: the virtual GPU has no CUDA graphs; launch the "
            "kernels directly"
        )

    end_capture = begin_capture

    def is_capturing(self) -> bool:
        return False


class Stream(BaseStream):
    """User-created stream; ``Stream.null`` is the default stream.

    Parameters
    ----------
    null, ptds : bool
        Select the null stream or the per-thread default stream.
    non_blocking : bool
    priority : int, optional
        Stored; the order of work does not depend on them.
    """

    null: Stream
    ptds: Stream

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        super().__init__(0 if null else 2 if ptds else new_handle())
        self.device_id = devices.number() if self.ptr > 2 else 0
        self.is_non_blocking, self.priority = bool(non_blocking), priority or 0
        if non_blocking and self.ptr > 2:
            queues.non_blocking.add(self.ptr)

    @classmethod
    def from_external(cls, stream) -> Stream:
        """Return the stream of another library's object with ``__cuda_stream__()``."""
        _, handle = stream.__cuda_stream__()
        made = cls.__new__(cls)
        BaseStream.__init__(made, int(handle))
        return made


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)


class ExternalStream(BaseStream):
    """Stream created by another library.

    Parameters
    ----------
    ptr : int
        Its handle.
    device_id : int
        Ignored.
    """

    def __init__(self, ptr: int, device_id: int = -1):
        super().__init__(int(ptr))


def _stack() -> list[BaseStream]:
    try:
        return _thread.stack
    except AttributeError:
        _thread.stack = [Stream.null]
        return _thread.stack


def get_current_stream(device_id: int = -1) -> BaseStream:
    """Return this thread's current stream."""
    return _stack()[-1]


class Event:
    """Event in a stream.

    Parameters
    ----------
    block, disable_timing, interprocess : bool
        ``disable_timing`` makes :func:`get_elapsed_time` fail; the others have no effect.
    """

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        if interprocess and not disable_timing:
            raise ValueError("Timing must be disabled for interprocess events")
        self.ptr = new_handle()
        self.disable_timing = disable_timing
        self._recorded: float | None = None

    @property
    def done(self) -> bool:
        """Always True, because all earlier work is done."""
        self.synchronize()
        return True

    def record(self, stream: BaseStream | None = None) -> None:
        self._recorded = time.monotonic()
        queues.tell("record", (stream or get_current_stream()).ptr, event=self.ptr)

    def synchronize(self) -> None:
        """Do nothing but inform the checkers, because no work is in flight."""
        queues.tell("event", event=self.ptr)


_warned = False


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Return NaN and warn once: no GPU runs, so there is no GPU time."""
    global _warned

    if None in (start_event._recorded, end_event._recorded) or (
        start_event.disable_timing or end_event.disable_timing
    ):
        raise CUDARuntimeError(400)
    if not _warned:
        _warned = True
        warnings.warn(
            "the virtual GPU has no times, so get_elapsed_time returns nan; count work with "
            "virtualgpu.profile(), or run on a GPU",
            UserWarning,
            stacklevel=2,
        )
    return float("nan")
