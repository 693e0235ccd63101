"""The only names of virtualgpu that stand-ins for GPU libraries may use.

A stand-in is a package that ``import cupy`` imports on a machine without a GPU. It is in a
separate distribution (gpustandins) and is found through the entry points that
:mod:`virtualgpu.standins.finder` reads. The modules behind these names may be moved and renamed,
but the names do not change within a minor version.
"""

from __future__ import annotations

from virtualgpu import devices
from virtualgpu.compilers.headers import HOST_HEADERS, THRUST_COMPLEX
from virtualgpu.compilers.nvrtc import CompilationError, source_path
from virtualgpu.cuda.driver_api import API, ATTRIBUTES, DriverFailure
from virtualgpu.cuda.function import CudaFunction
from virtualgpu.cuda.kernel_arguments import Argument, array_argument, number_argument
from virtualgpu.cuda.module import Module
from virtualgpu.devices import SharedDevice, current_shared
from virtualgpu.devices.per_device import PerDevice
from virtualgpu.devices.virtual import VirtualDevice
from virtualgpu.driver.interrupts import destructors
from virtualgpu.errors import (
    LaunchError,
    LinkError,
    MemoryAccessError,
    MisalignedAddressError,
    OutOfMemory,
    TrapError,
    VirtualGPUError,
)
from virtualgpu.launch import limits
from virtualgpu.memory.plain_dtypes import demand_plain
from virtualgpu.memory.textures import MODES, Sampler, Texels
from virtualgpu.signal_handlers import raised_by_handler
from virtualgpu.standins.recorder import Launched, Launches, launches, listening, record, silence
from virtualgpu.watch import queues
from virtualgpu.watch.host_arrays import watched
from virtualgpu.wording import many

__all__ = [
    "API",
    "ATTRIBUTES",
    "HOST_HEADERS",
    "MODES",
    "THRUST_COMPLEX",
    "Argument",
    "CompilationError",
    "CudaFunction",
    "DriverFailure",
    "LaunchError",
    "Launched",
    "Launches",
    "LinkError",
    "MemoryAccessError",
    "MisalignedAddressError",
    "Module",
    "OutOfMemory",
    "PerDevice",
    "Sampler",
    "SharedDevice",
    "Texels",
    "TrapError",
    "VirtualDevice",
    "VirtualGPUError",
    "array_argument",
    "current_shared",
    "demand_plain",
    "destructors",
    "devices",
    "launches",
    "limits",
    "listening",
    "many",
    "number_argument",
    "queues",
    "raised_by_handler",
    "record",
    "silence",
    "source_path",
    "watched",
]
