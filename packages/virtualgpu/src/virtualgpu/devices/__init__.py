"""Devices: the protocol that front ends use, and the current device.

A frontend allocates, copies, loads PTX and launches through :class:`Device`
(:mod:`virtualgpu.devices.protocol`), and does not know whether the machine is in this process, in
another one (a grader's) or a real GPU.
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
_aside: list[list[Device]] = []  # those that a `use` around this has replaced
_selected = threading.local()


def every() -> list[Device]:
    """Return the devices that frontends see, by number.

    The first call makes virtual GPUs, as many as ``VIRTUALGPU_DEVICES`` says (one by default), of
    which ``CUDA_VISIBLE_DEVICES`` lets this process see some.
    """
    if not _devices:
        seen = visible(count := wanted())
        made = several(count)
        _devices.extend(made[number] for number in seen)
    return _devices


def living() -> list[Device]:
    """Return :func:`every` device, and those that come back when a :func:`use` ends."""
    return [*every(), *(device for devices in _aside for device in devices)]


def number() -> int:
    """Return this thread's index in :func:`every`: 0 until :func:`select` sets another."""
    chosen: int = getattr(_selected, "number", 0)
    return chosen if chosen < len(_devices or every()) else 0


def select(chosen: int) -> None:
    """Make device ``chosen`` this thread's. Raises VirtualGPUError where there is none such."""
    if not 0 <= chosen < len(every()):
        raise VirtualGPUError(no_device(chosen))
    _selected.number = int(chosen)


def no_device(chosen: int) -> str:
    """Explain why there is no device ``chosen``, and how to get one."""
    count = len(every())
    there = "one virtual GPU, number 0" if count == 1 else f"{count} virtual GPUs, 0 to {count - 1}"
    return (
        f"there is no device {chosen}: this process has {there}; the environment variable "
        f"VIRTUALGPU_DEVICES={max(chosen + 1, 2)}, set before it starts, makes more"
    )


def current() -> Device:
    """Return the device that this thread's frontends use."""
    return (_devices or every())[number()]


def owner(address: int) -> Device:
    """Return the device that has ``address``; the current one where no device is known to."""
    if len(found := every()) > 1:
        for one in found:
            memory = getattr(one, "memory", None)
            if memory is not None and memory.first <= address < memory.limit:
                return one
    return current()


def device_address(address: int) -> int:
    """Return the device address of a byte at the host's ``address``.

    Returns ``address`` itself where it is no device's.
    """
    for one in every():
        if (mapping := getattr(getattr(one, "memory", None), "mapping", None)) is not None and (
            mapping.host <= address < mapping.host + mapping.raw.size
        ):
            return mapping.address_of(address)
    return address


def copy(target: int, origin: int, nbytes: int) -> None:
    """Copy from device to device, also between different ones (a peer copy)."""
    there, here = owner(target), owner(origin)
    if there is here:
        there.copy(target, origin, nbytes)
    else:
        there.write(target, here.read(origin, nbytes))


def current_shared(library: str) -> SharedDevice:
    """Return :func:`current` for a stand-in of ``library`` that works on its memory in place.

    Raises VirtualGPUError where this process does not reach the device's memory.
    """
    found = shared(device := current())
    if found is None:
        raise VirtualGPUError(
            f"{library}'s stand-in computes on the memory of the virtual GPU, and {device.name!r} "
            "keeps its memory in another process: use numba.cuda arrays here"
        )
    return found


def set_current(device: Device | None) -> None:
    """Have one device for the rest of the process (None: fresh ones at the next use)."""
    global _devices
    _devices = [] if device is None else [device]


@contextmanager
def use(device: Device) -> Iterator[Device]:
    """Make ``device`` the current and only one inside the ``with``."""
    global _devices
    before, _devices = _devices, [device]
    _aside.append(before)
    try:
        yield device
    finally:
        _aside.pop()
        _devices = before
