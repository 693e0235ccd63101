"""Choice of the device that an oracle launches kernels on."""

from __future__ import annotations

from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.checked_device import CheckedDevice
from gpucourse.grading.oracle.untrusted_ptx import UntrustingDevice
from virtualgpu.api import Budget, VirtualDevice


def new_device(limits: Limits) -> VirtualDevice:
    """Return a virtual GPU with limited memory and time.

    With ``limits.gpu``, a real GPU also runs its launches.
    """
    budget = Budget(seconds=limits.launch_seconds)
    kind = CheckedDevice if limits.gpu else UntrustingDevice
    return kind(limits.device_bytes, budget)
