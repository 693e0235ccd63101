"""Current device, device selection, and copies between devices.

A frontend allocates, copies, loads PTX and launches through :class:`Device`
(:mod:`virtualgpu.devices.protocol`). It does not depend on whether the device is in this process,
in another one (such as a grader's) or a real GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from virtualgpu.devices.protocol import Device, SharedDevice, Triple, shared
from virtualgpu.devices.virtual import VirtualDevice, several, visible, wanted
from virtualgpu.errors import VirtualGPUError

__all__ = [
    "Device",
    "SharedDevice",
    "Triple",
    "VirtualDevice",
    "copy",
    "current",
    "current_shared",
    "device_address",
    "every",
    "living",
    "number",
    "owner",
    "select",
    "set_current",
    "shared",
    "use",
]

_devices: list[Device] = []  # by number; empty until the first use
_aside: list[list[Device]] = []  # the devices that enclosing `use` contexts have replaced
_selected = threading.local()


def every() -> list[Device]:
    """Return the devices that frontends see, by number.

    The first call creates as many virtual GPUs as ``VIRTUALGPU_DEVICES`` says (one by default).
    ``CUDA_VISIBLE_DEVICES`` selects those that this process sees.
    """
    if not _devices:
        seen = visible(count := wanted())
        made = several(count)
        _devices.extend(made[number] for number in seen)
    return _devices


def living() -> list[Device]:
    """Return :func:`every` device, and those that are restored when a :func:`use` ends."""
    return [*every(), *(device for devices in _aside for device in devices)]


def number() -> int:
    """Return the index of this thread's device in :func:`every`; 0 until :func:`select`."""
    chosen: int = getattr(_selected, "number", 0)
    return chosen if chosen < len(_devices or every()) else 0


def select(chosen: int) -> None:
    """Make device ``chosen`` this thread's device. Raises VirtualGPUError if there is none."""
    if not 0 <= chosen < len(every()):
        raise VirtualGPUError(no_device(chosen))
    _selected.number = int(chosen)


def no_device(chosen: int) -> str:
    """Explain why there is no device ``chosen``, and how to get one."""
    count = len(every())
    there = "one virtual GPU, number 0" if count == 1 else f"{count} virtual GPUs, 0 to {count - 1}"
    return (
        f"there is no device {chosen}: this process has {there}. To have more, set the environment "
        f"variable VIRTUALGPU_DEVICES={max(chosen + 1, 2)} before it starts"
    )


def current() -> Device:
    """Return the current device of this thread."""
    return (_devices or every())[number()]


def owner(address: int) -> Device:
    """Return the device that owns ``address``, or the current device if none is known to."""
    if len(found := every()) > 1:
        for one in found:
            memory = getattr(one, "memory", None)
            if memory is not None and memory.first <= address < memory.limit:
                return one
    return current()


def device_address(address: int) -> int:
    """Return the device address of a byte at the host address ``address``.

    Returns ``address`` itself if it belongs to no device.
    """
    for one in every():
        if (mapping := getattr(getattr(one, "memory", None), "mapping", None)) is not None and (
            mapping.host <= address < mapping.host + mapping.raw.size
        ):
            return mapping.address_of(address)
    return address


def copy(target: int, origin: int, nbytes: int) -> None:
    """Copy within a device, or between two devices (a peer copy)."""
    there, here = owner(target), owner(origin)
    if there is here:
        there.copy(target, origin, nbytes)
    else:
        there.write(target, here.read(origin, nbytes))


def current_shared(library: str) -> SharedDevice:
    """Return :func:`current` for a stand-in of ``library`` that works on its memory in place.

    Raises VirtualGPUError if this process cannot access the device's memory.
    """
    found = shared(device := current())
    if found is None:
        raise VirtualGPUError(
            f"{library}'s stand-in computes in the memory of the virtual GPU, but the memory of "
            f"{device.name!r} is in another process. Use numba.cuda arrays here"
        )
    return found


def set_current(device: Device | None) -> None:
    """Set the only device for the rest of the process; None creates new ones at the next use."""
    global _devices
    _devices = [] if device is None else [device]


@contextmanager
def use(device: Device) -> Iterator[Device]:
    """Make ``device`` the only device inside the ``with`` block."""
    global _devices
    before, _devices = _devices, [device]
    _aside.append(before)
    try:
        yield device
    finally:
        _aside.pop()
        _devices = before
