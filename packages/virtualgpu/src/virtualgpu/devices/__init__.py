"""Devices: what frontends talk to, and which one it is.

A frontend allocates, copies, loads PTX and launches through :class:`Device`
(:mod:`virtualgpu.devices.protocol`), and does not know whether the machine is in this process, in
another one (a grader's) or a real GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from virtualgpu.devices.protocol import Device, SharedDevice, Triple, shared
from virtualgpu.devices.virtual import VirtualDevice
from virtualgpu.errors import VirtualGPUError

__all__ = ["Device", "SharedDevice", "Triple", "VirtualDevice", "current", "current_shared",
           "set_current", "shared", "use"]

_current: Device | None = None


def current() -> Device:
    """The device that frontends use; the first call makes a :class:`VirtualDevice`."""
    global _current
    if _current is None:
        _current = VirtualDevice()
    return _current


def current_shared(library: str) -> SharedDevice:
    """:func:`current`, for the stand-in of ``library``, whose array work is NumPy's in place.

    Raises VirtualGPUError where this process does not reach the device's memory.
    """
    found = shared(device := current())
    if found is None:
        raise VirtualGPUError(
            f"{library}'s stand-in computes on the memory of the virtual GPU, and {device.name!r} "
            "keeps its memory in another process: use numba.cuda arrays here")
    return found


def set_current(device: Device | None) -> None:
    """Replace the device for the rest of the process (None: a fresh one at the next use)."""
    global _current
    _current = device


@contextmanager
def use(device: Device) -> Iterator[Device]:
    """Frontends talk to ``device`` inside the ``with``."""
    global _current
    before, _current = _current, device
    try:
        yield device
    finally:
        _current = before
