"""Kernels as native code: whole blocks of threads in one compiled function.

Launches in the default schedule, plain or under ``check()`` or ``profile()``, of kernels that this
room understands in full; all others run on :mod:`virtualgpu.lanes`, which defines what a kernel
does. Results are the same to the bit. Whether a launch leaves the interpreter, and where in its
midst, :mod:`virtualgpu.devices.changeover` decides.
"""

from virtualgpu.native.run import natively

__all__ = ["natively"]
