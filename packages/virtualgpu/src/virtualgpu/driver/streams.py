"""Streams and events (CUDA Driver API, sections "Stream Management", "Event Management").

All work is complete when the call that issues it returns. So a stream only stores its device, and
an event only stores whether it was recorded.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from virtualgpu import devices
from virtualgpu.cuda.driver_api import API
from virtualgpu.driver.entries import entry, forward
from virtualgpu.watch import queues

forward(
    cuStreamWaitEvent="z z I",
    cuEventCreate=">z I",
    cuEventDestroy="z",
    cuEventRecord="z z",
    cuEventQuery="z",
    cuEventSynchronize="z",
    cuEventElapsedTime=">f z z",
)


class _Stream(NamedTuple):
    device: int
    flags: int
    priority: int


_streams: dict[int, _Stream] = {}


def _stream(handle: int) -> _Stream:
    return _streams.get(handle) or _Stream(devices.number(), 0, 0)  # a default stream


@entry(">z I i")
def cuStreamCreateWithPriority(flags: int, priority: int) -> int:
    handle = int(API.cuStreamCreate(flags))
    _streams[handle] = _Stream(devices.number(), flags, max(-5, min(priority, 0)))
    return handle


@entry(">z I")
def cuStreamCreate(flags: int) -> int:
    return cuStreamCreateWithPriority(flags, 0)


@entry("z")
def cuStreamDestroy(stream: int) -> None:
    _streams.pop(stream, None)
    API.cuStreamDestroy(stream)


@entry("z")
def cuStreamSynchronize(stream: int) -> None:
    devices.every()[_stream(stream).device].synchronize()
    queues.tell("synchronize", stream)


@entry("z")
def cuStreamQuery(stream: int) -> None:
    """Return success, because all work of a stream is always complete."""
    queues.tell("synchronize", stream)


@entry("z >I")
def cuStreamGetFlags(stream: int) -> int:
    return _stream(stream).flags


@entry("z >i")
def cuStreamGetPriority(stream: int) -> int:
    return _stream(stream).priority


@entry("z >z")
def cuStreamGetCtx(stream: int) -> int:
    return _stream(stream).device + 1


@entry("z >i")
def cuStreamGetDevice(stream: int) -> int:
    return _stream(stream).device


@entry("z >z")
def cuStreamGetId(stream: int) -> int:
    return stream


@entry("z >i")
def cuStreamIsCapturing(stream: int) -> int:
    return 0


@entry("z >i")
def cuStreamGetCaptureInfo(stream: int) -> int:
    return 0


@entry("z z z I")
def cuStreamAddCallback(stream: int, callback: int, data: int, flags: int) -> None:
    queues.tell("synchronize", stream)
    ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_int, ctypes.c_size_t)(callback)(
        stream, 0, data
    )


@entry("z z z")
def cuLaunchHostFunc(stream: int, function: int, data: int) -> None:
    queues.tell("synchronize", stream)
    ctypes.CFUNCTYPE(None, ctypes.c_size_t)(function)(data)


@entry("z z I")
def cuEventRecordWithFlags(event: int, stream: int, flags: int) -> None:
    API.cuEventRecord(event, stream)
