"""PyTorch's CPU tensors as arguments of Triton's kernels: copied to the device and back.

PyTorch has no device on the virtual GPU, and tests of Triton's kernels make tensors. A launch gets
a copy of each tensor's whole storage, so that views of one storage stay views of one; what the
kernel left in it is in the tensors when the launch ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from virtualgpu import devices

# Kernels are compiled for pointers at multiples of 16 where they are; a copy keeps what is left
# of its address by more than that.
_ALIGNMENT = 256


@contextmanager
def on_device(arguments: Sequence[Any]) -> Iterator[list[Any]]:
    """``arguments`` with an address of the current device in place of each CPU tensor.

    Where the launch ends with an error, the tensors are as they were.
    """
    device = devices.current()
    copies: dict[int, tuple[int, int, int]] = {}  # storage → (allocation, address, bytes)

    def moved(argument: Any) -> Any:
        if isinstance(argument, tuple):
            return tuple(map(moved, argument))
        if getattr(getattr(argument, "device", None), "type", None) != "cpu":
            return argument
        storage = argument.untyped_storage()
        start, nbytes = storage.data_ptr(), storage.nbytes()
        if not start or not nbytes:
            return 0
        if start not in copies:
            room = device.allocate(nbytes + _ALIGNMENT)
            address = room + (start - room) % _ALIGNMENT
            copies[start] = room, address, nbytes
            device.write(address, _host(start, nbytes))
        return copies[start][1] + argument.data_ptr() - start

    try:
        yield [moved(argument) for argument in arguments]
        for start, (_, address, nbytes) in copies.items():
            _host(start, nbytes)[:] = device.read(address, nbytes).view(np.uint8)
    finally:
        for room, _, _ in copies.values():
            device.free(room)


def _host(start: int, nbytes: int) -> np.ndarray:
    """The host's bytes at an address, without a copy."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(start))
