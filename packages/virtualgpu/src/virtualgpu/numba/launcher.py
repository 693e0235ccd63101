"""Launches of numba-cuda on the current device, with errors of numba-cuda's classes."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from virtualgpu import devices
from virtualgpu.cuda.driver_api import API
from virtualgpu.errors import LaunchError, MemoryAccessError, MisalignedAddressError
from virtualgpu.watch import queues
from virtualgpu.wording import many


class Launcher:
    """Replacement of the function ``launch`` of numba-cuda's driver module.

    Parameters
    ----------
    module : module
        ``numba.cuda.cudadrv.driver``, whose error a failing kernel raises.
    """

    def __init__(self, module: Any):
        from cuda.core._utils.cuda_utils import CUDAError

        class IllegalAddress(MemoryAccessError, module.CudaAPIError):
            """Error 700 of CUDA (illegal address), with details that a GPU cannot give."""

            number = 700

            def __init__(self, error: MemoryAccessError):
                MemoryAccessError.__init__(
                    self, error.message, error.location, address=error.address, space=error.space
                )
                self.code, self.msg = self.number, str(error)

            def __str__(self):
                return Exception.__str__(self)

        class MisalignedAddress(IllegalAddress, MisalignedAddressError):
            """Error 716 of CUDA (misaligned address)."""

            number = 716

        class InvalidLaunch(LaunchError, CUDAError):
            """cuda.core's error for a launch that no device accepts, with the reason."""

            def __init__(self, error: LaunchError):
                LaunchError.__init__(
                    self, f"{error.message} (CUDA_ERROR_INVALID_VALUE)", error.location
                )

        InvalidLaunch.__name__ = InvalidLaunch.__qualname__ = "LaunchError"
        IllegalAddress.__name__ = IllegalAddress.__qualname__ = "MemoryAccessError"
        MisalignedAddress.__name__ = MisalignedAddress.__qualname__ = "MisalignedAddressError"
        for one in (IllegalAddress, MisalignedAddress, InvalidLaunch):
            one.__module__ = "virtualgpu"  # module from which users know the class
        self._illegal_address = IllegalAddress
        self._misaligned_address = MisalignedAddress
        self._invalid_launch = InvalidLaunch

    def launch(self, stream, config, kernel, *arguments):
        """Run ``kernel`` on the current device; the arguments are in numba-cuda's order."""
        if len(arguments) != len(kernel.sizes):
            raise self._invalid_launch(
                LaunchError(
                    f"the kernel takes {many(len(kernel.sizes), 'value')} and got "
                    f"{len(arguments)}: the type or the number of dimensions of an argument "
                    "differs from the signature"
                )
            )
        parameters = [
            # Most values are integers: an array's sizes, strides and pointer.
            (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            if type(value) is int
            else _bytes(value, size)
            for value, size in zip(arguments, kernel.sizes, strict=True)
        ]
        API.share_mapped(to_device=True)
        try:
            with queues.on(stream.handle):
                device = devices.current()
                device.launch(
                    kernel.code.loaded(device),
                    kernel.name,
                    _three(config.grid),
                    _three(config.block),
                    parameters,
                    getattr(config, "shmem_size", 0) or 0,
                    bool(
                        getattr(
                            config, "is_cooperative", getattr(config, "cooperative_launch", False)
                        )
                    ),
                )
        except MisalignedAddressError as error:
            raise self._misaligned_address(error) from None
        except MemoryAccessError as error:
            raise self._illegal_address(error) from None
        except LaunchError as error:
            raise self._invalid_launch(error) from None
        API.share_mapped(to_device=False)


def _three(dimensions) -> tuple[int, int, int]:
    x, y, z = (*map(int, dimensions), 1, 1)[:3]
    return x, y, z


def _bytes(value, size: int) -> bytes:
    """Return a kernel argument as the bytes of a parameter of ``size`` bytes."""
    if isinstance(value, np.generic):
        raw = value.tobytes()
    elif isinstance(value, float):
        raw = struct.pack("<d" if size == 8 else "<f", value)
    elif isinstance(value, (ctypes._SimpleCData, ctypes.Structure)):
        raw = bytes(value)
    else:
        raw = (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return raw if len(raw) == size else raw[:size].ljust(size, b"\0")
