"""Commands of the host to streams, which every front end reports to observers alike.

Work is complete when the call that issues it returns, so nothing here changes what a program
computes. Without an observer, each function finds an empty list and returns.

Streams are identified by the driver's handles: 0 and 1 are the legacy default stream, and 2 is the
per-thread default stream (CUDA Driver API, "Stream synchronization behavior").
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from virtualgpu.memory.mapping import BASE, END
from virtualgpu.watch import instruments

LEGACY, PER_THREAD = 0, 2

#: Streams that do not wait for the legacy default stream, by handle.
non_blocking: set[int] = set()

_local = threading.local()


class Command(NamedTuple):
    """One command of the host.

    Attributes
    ----------
    kind : str
        ``copy`` (also a fill), ``record``, ``wait`` (a stream for an event), ``synchronize`` (the
        host with a stream; None: with the device), ``event`` (the host with an event), ``read``
        and ``write`` (by the host, of memory that a device reaches too) or ``freed``.
    stream : int or None
    event : object
        The same for the same event.
    target, origin : int
        Addresses, of the host or of a device; 0 where there is none.
    nbytes : int
    pageable : bool
        The host's side of the copy is ordinary memory: such a copy from the device is done when
        the call returns, and one to the device has taken its bytes.
    """

    kind: str
    stream: int | None = LEGACY
    event: object = None
    target: int = 0
    origin: int = 0
    nbytes: int = 0
    pageable: bool = False


def tell(kind: str, stream: int | None = LEGACY, **details) -> None:
    """Report one :class:`Command` to the observers."""
    if instruments.watching():
        command = Command(kind, stream if stream is None else handle(stream), **details)
        for observer in instruments.observers():
            observer.commanded(command)


def handle(stream: int) -> int:
    """Return the handle of the stream that a program names; 0 may mean the thread's own."""
    stream = int(getattr(stream, "value", stream) or 0)
    if stream == LEGACY and os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM") == "1":
        return PER_THREAD
    return LEGACY if stream == 1 else stream


def chosen() -> int | None:
    """Return the stream of this thread's next launch, or None if commands are not reported."""
    stream = getattr(_local, "stream", LEGACY)
    return stream if stream is None else handle(stream)


def choose(stream: int | None) -> None:
    """Direct this thread's commands from now on to ``stream``."""
    _local.stream = stream


class on:
    """Context that directs commands to ``stream``; with None, they are not reported."""

    __slots__ = ("_before", "_stream")

    def __init__(self, stream: int | None):
        self._stream = stream

    def __enter__(self) -> None:
        self._before = getattr(_local, "stream", LEGACY)
        _local.stream = self._stream

    def __exit__(self, *failure: object) -> None:
        _local.stream = self._before


def wait(stream: int = LEGACY) -> None:
    """Record that the host waits for its last command."""
    if instruments.watching() and chosen() is not None:
        tell("synchronize", stream)


@contextmanager
def copying(stream: int, target: int, origin: int, nbytes: int) -> Iterator[None]:
    """Report a copy between any two addresses; ``origin`` is 0 for a fill.

    The host waits if this kind of copy is synchronous.
    """
    if not instruments.watching() or chosen() is None:
        yield
        return
    with on(None):  # its parts are not separate commands
        yield
    plain = [not (BASE <= address < END or is_pinned(address)) for address in (target, origin)]
    tell(
        "copy",
        stream,
        target=0 if plain[0] else target,
        nbytes=nbytes,
        origin=0 if plain[1] else origin,
        pageable=bool(origin) and any(plain),
    )
    if plain[0]:
        tell("synchronize", stream)


@contextmanager
def copying_from(stream: int, origin: int, host: np.ndarray, waits: bool) -> Iterator[None]:
    """Report a copy from a device to a host array inside the context."""
    with copying(stream, host.__array_interface__["data"][0], origin, host.nbytes):
        yield
    if waits:
        wait(stream)


_pinned: dict[int, int] = {}  # page-locked host memory: start and end


def pin(host: int, nbytes: int) -> None:
    """Mark host memory as pinned, so that copies to and from it are asynchronous."""
    _pinned[host] = host + nbytes


def unpin(host: int) -> None:
    _pinned.pop(host, None)


def is_pinned(host: int) -> bool:
    return any(start <= host < end for start, end in _pinned.items())
