"""Access to the current device and handle numbers for :mod:`cupy.cuda`."""

from __future__ import annotations

import itertools

from virtualgpu.standins.interface import SharedDevice, current_shared, devices

#: Returns a new handle for a stream or an event; nothing is stored under it.
new_handle = itertools.count(0x5000).__next__


def machine() -> SharedDevice:
    """Return the device that holds the arrays.

    Raises VirtualGPUError if this process cannot access its memory.
    """
    return current_shared("CuPy")


def reached(device: devices.Device) -> SharedDevice:
    """Return ``device`` as a device whose memory this process can access.

    Raises VirtualGPUError, as :func:`machine` does, for any other device.
    """
    return devices.shared(device) or machine()


def owner(address: int) -> SharedDevice:
    """Return the device that contains ``address``, or the current device if none does."""
    return reached(devices.owner(address))
