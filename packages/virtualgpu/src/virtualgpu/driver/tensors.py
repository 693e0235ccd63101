"""PyTorch CPU tensors as device tensors in a cuTile launch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from virtualgpu.devices.host_tensors import is_host_tensor

_CUDA = 2  # kDLCUDA


class _Header(ctypes.Structure):
    """The first fields of DLPack's ``DLTensor``; later fields stay as PyTorch set them."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
    ]


class Tensor:
    """CPU tensor with a copy at ``address``.

    cuTile reads it through DLPack, and cuTile's error messages name its class.
    """

    def __init__(self, tensor: Any, address: int):
        self._tensor, self._address = tensor.detach(), address

    def __dlpack__(self, **_) -> Any:
        capsule = self._tensor.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        told = _Header.from_address(pointer(capsule, b"dltensor"))
        told.data, told.device_type, told.device_number = self._address, _CUDA, 0
        return capsule


def on_device(argument: Any, address: Callable[[Any], int]) -> Any:
    """Return an argument of a kernel, with device copies in place of its CPU tensors.

    Tensors in tuples and lists are replaced too; cuTile takes no subclasses of these.
    """
    if type(argument) in (list, tuple):
        return type(argument)(on_device(one, address) for one in argument)
    return Tensor(argument, address(argument)) if is_host_tensor(argument) else argument
