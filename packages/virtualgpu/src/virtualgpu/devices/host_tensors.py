"""PyTorch's CPU tensors as arguments of a launch: copied to the device and back.

PyTorch has no device type for the virtual GPU, but tests of Triton and cuTile kernels create
tensors. A launch gets a copy of each tensor's whole storage, so that views of one storage stay
views of one storage. When the launch ends, the tensors receive what the kernel wrote.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from virtualgpu.devices import current

# Compilers specialise kernels for pointers at multiples of 16, so a copy keeps the remainder of its
# address modulo this larger number.
_ALIGNMENT = 256


#: Attribute of a CPU tensor that counts as a device tensor (:mod:`virtualgpu.torch_device`).
MARK = "_is_of_the_virtual_gpu"


def is_host_tensor(argument: Any) -> bool:
    """Return True for a tensor that PyTorch keeps on the CPU."""
    return hasattr(argument, "untyped_storage") and (
        getattr(argument, MARK, False)
        or getattr(getattr(argument, "device", None), "type", None) == "cpu"
    )


@contextmanager
def copies() -> Iterator[Callable[[Any], int]]:
    """Yield a function from a CPU tensor to its address on the current device, 0 if it is empty.

    At the end, the contents of the copies are copied back to the tensors. After an error, the
    tensors stay unchanged.
    """
    device = current()
    found: dict[int, tuple[int, int, int]] = {}  # storage → (allocation, address, bytes)

    def address(tensor: Any) -> int:
        storage = tensor.untyped_storage()
        start, nbytes = storage.data_ptr(), storage.nbytes()
        if not start or not nbytes:
            return 0
        if start not in found:
            room = device.allocate(nbytes + _ALIGNMENT)
            there = room + (start - room) % _ALIGNMENT
            found[start] = room, there, nbytes
            device.write(there, _host(start, nbytes))
        return found[start][1] + tensor.data_ptr() - start

    try:
        yield address
        for start, (_, there, nbytes) in found.items():
            _host(start, nbytes)[:] = device.read(there, nbytes).view(np.uint8)
    finally:
        for room, _, _ in found.values():
            device.free(room)


def _host(start: int, nbytes: int) -> np.ndarray:
    """Return the bytes of host memory at an address, without a copy."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(start))
