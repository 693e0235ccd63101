"""The device that an oracle launches on."""

from __future__ import annotations

from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.checked_device import CheckedDevice
from virtualgpu.devices import VirtualDevice
from virtualgpu.launch.limits import Budget


def new_device(limits: Limits) -> VirtualDevice:
    """A virtual GPU with bounded memory and time; with ``limits.gpu`` a real one behind it.

    It interprets: what students' processes send is no input for a compiler in this one.
    """
    budget = Budget(seconds=limits.launch_seconds)
    kind = CheckedDevice if limits.gpu else VirtualDevice
    device = kind(limits.device_bytes, budget)
    device.compiles = False
    return device
