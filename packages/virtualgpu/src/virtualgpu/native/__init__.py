"""Compilation of kernels to native code, which runs whole blocks of threads.

Native code runs launches in the default schedule, with or without ``check()`` or ``profile()``, of
kernels in which it supports every instruction. All other launches run in :mod:`virtualgpu.lanes`,
which defines what a kernel does. Results are the same to the bit.
:mod:`virtualgpu.devices.changeover` decides if and when a launch changes from the interpreter to
native code.
"""

from virtualgpu.native.run import natively

__all__ = ["natively"]
