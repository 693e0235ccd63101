"""What lies under all of :mod:`cupy.cuda`: the device, and handles."""

from __future__ import annotations

import itertools

from virtualgpu import devices as machines
from virtualgpu.errors import VirtualGPUError

#: A handle for a stream or an event: a number with nothing behind it.
new_handle = itertools.count(0x5000).__next__


def machine():
    """The device that holds the arrays. Raises VirtualGPUError where it is not in this process."""
    current = machines.current()
    if not hasattr(current, "memory"):
        raise VirtualGPUError(
            f"CuPy's stand-in computes on the memory of the virtual GPU, and {current.name!r} "
            "keeps its memory in another process: use numba.cuda arrays here")
    return current
