"""Common base of :mod:`cupy.cuda`: the device, and handles."""

from __future__ import annotations

import itertools

from virtualgpu.standins.interface import SharedDevice, current_shared, devices

#: A handle for a stream or an event: a number with nothing behind it.
new_handle = itertools.count(0x5000).__next__


def machine() -> SharedDevice:
    """Return the device that holds the arrays.

    Raises VirtualGPUError where they are out of reach.
    """
    return current_shared("CuPy")


def reached(device: devices.Device) -> SharedDevice:
    """Return ``device``, whose memory this process reaches.

    Raises VirtualGPUError, as :func:`machine` does, for another.
    """
    return devices.shared(device) or machine()


def owner(address: int) -> SharedDevice:
    """Return the device that has ``address``; the current one if none has."""
    return reached(devices.owner(address))
