"""A GPU on the CPU: the PTX of CUDA kernels, run warp by warp and watched.

>>> import virtualgpu
>>> virtualgpu.activate()              # numba.cuda now works without a GPU
>>> with virtualgpu.check() as report: # races, bad addresses, barriers, uninitialised reads
...     kernel[blocks, threads](a, b)
>>> report.ok, report.findings

Kernels are compiled by the real compilers (NVVM, NVRTC); this package executes what they
write. It names itself "Virtual GPU (CPU)" and never reports a time as if it were a GPU's.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_WHERE = {
    "activate": "virtualgpu.activation",
    "deactivate": "virtualgpu.activation",
    "is_active": "virtualgpu.activation",
    "answers": "virtualgpu.activation",
    "schedule": "virtualgpu.numba.reroute",
    "check": "virtualgpu.numba.reroute",
    "profile": "virtualgpu.numba.reroute",
    "launches": "virtualgpu.standins.recorder",
    "Module": "virtualgpu.cuda.module",
    "VirtualDevice": "virtualgpu.devices",
    "CompilationError": "virtualgpu.compilers.nvrtc",
    **dict.fromkeys((
        "BarrierError", "BudgetExceeded", "DeadlockError", "EndlessError", "LaunchError",
        "LinkError", "MemoryAccessError", "MisalignedAddressError", "OutOfMemory",
        "PTXSyntaxError", "TrapError", "UnsupportedInstruction", "VirtualGPUError",
    ), "virtualgpu.errors"),
}

__all__ = sorted(_WHERE)


def __getattr__(name: str):
    """Parts are imported when first used: ``import virtualgpu`` alone costs a millisecond."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
