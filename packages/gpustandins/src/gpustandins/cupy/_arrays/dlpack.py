"""DLPack: arrays shared with other libraries without a copy.

The memory is on the host, so a consumer on the CPU can have it as a CPU array
(``numpy.from_dlpack(x, device="cpu")``), for which real CuPy makes a copy. Only consumers that
pass ``stream=-1`` get a capsule for a CUDA device: these are cuTile and ``cuda.core``, which use
the virtual GPU's driver. Other consumers are refused, because they would treat the address as
memory of a real GPU.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from virtualgpu.standins.interface import destructors

from .core import ndarray
from .operands import as_array

CPU = (1, 0)
CUDA = 2  # kDLCUDA
_KINDS = "iufOVcb"  # NumPy's kind for each DLDataTypeCode: int, uint, float, …, complex, bool


class _Tensor(ctypes.Structure):
    """``DLTensor`` of DLPack's ``dlpack.h``, the first field of a ``DLManagedTensor``."""

    _fields_ = (
        ("data", ctypes.c_size_t),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """``DLManagedTensor`` of DLPack's ``dlpack.h``."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))


_given: dict[int, tuple] = {}  # address in a capsule → the objects to keep alive with it
_capsules = ctypes.pythonapi
_NAME = b"dltensor"


def _delete(address):
    _given.pop(address, None)


# Created once, because a signal handler may interrupt an object's creation while a capsule is
# freed.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _capsules)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _capsules)
)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _capsules)
)


def _end(capsule):
    """Free a capsule's tensor unless a consumer has taken it."""
    if _is_valid(capsule, _NAME):
        _delete(_pointer(capsule, _NAME))


@cache
def _callbacks():
    """Return C functions that call :func:`_delete` and :func:`_end`."""
    found = destructors("dlpack", {"FreeTensor": _delete, "FreeCapsule": _end})
    return _DELETER(found["FreeTensor"]), found["FreeCapsule"]


def _capsule(array: ndarray):
    """Return a capsule that contains the array itself, on its device."""
    kind = _KINDS.find(array.dtype.kind)
    if kind < 0 or array.dtype.kind in "OV":
        raise BufferError(f"DLPack does not support elements of dtype {array.dtype}")
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    strides = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))
    delete, end = _callbacks()
    held = _Managed(
        _Tensor(
            array.data.ptr,
            (CUDA, array.data.device_id),
            array.ndim,
            kind,
            array.itemsize * 8,
            1,
            shape,
            strides,
            0,
        ),
        None,
        delete,
    )
    address = ctypes.addressof(held)
    _given[address] = held, shape, strides, array
    return _new(address, _NAME, end)


class _Described:
    """Contents of a capsule, as an object with ``__cuda_array_interface__`` that keeps it alive."""

    def __init__(self, capsule):
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_size_t, (ctypes.py_object, ctypes.c_char_p)
        tensor = _Tensor.from_address(get(capsule, b"dltensor"))
        dtype = np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
        self.capsule = capsule
        self.__cuda_array_interface__ = {
            "data": (tensor.data + tensor.offset, False),
            "typestr": dtype.str,
            "version": 3,
            "shape": tuple(tensor.shape[: tensor.ndim]),
            "strides": tuple(step * dtype.itemsize for step in tensor.strides[: tensor.ndim])
            if tensor.strides
            else None,
        }


def export(array: ndarray, stream, dl_device, copy):
    """Return a capsule of the array or of a copy on the host. Raises BufferError otherwise.

    Parameters
    ----------
    stream : int or None
        As in CuPy, it must be −1, 1, 2 or larger.
    dl_device : tuple of int or None
        The device that the consumer requests; ``(1, 0)`` is the CPU.
    """
    if dl_device is not None and tuple(int(part) for part in dl_device) == CPU:
        if copy is False:
            raise ValueError("GPU memory cannot be passed to the CPU without a copy")
        return array.get().__dlpack__()
    if stream is not None and (not isinstance(stream, int) or stream < -1 or stream == 0):
        raise ValueError(
            "On CUDA, the valid stream for the DLPack protocol is -1, 1, 2, or any "
            f"larger value, but {stream} was provided"
        )
    if stream == -1:
        return _capsule(array)
    raise BufferError(
        "a DLPack capsule of CUDA memory needs a GPU: pass the array itself to Numba or CuPy, "
        "which read its __cuda_array_interface__, or make a copy on the host with x.get()"
    )


def take_in(array) -> ndarray:
    """Return an array over the memory of an object that supports DLPack.

    The object can be a CuPy or Numba array or a cuda.core buffer. Raises TypeError for host
    arrays, as CuPy does.
    """
    given = as_array(array)
    if given is not None:
        return given.reshape(given.shape) if given is array else given
    kind = array.__dlpack_device__()[0] if hasattr(array, "__dlpack_device__") else None
    if kind == CUDA:
        return as_array(_Described(array.__dlpack__(stream=-1)))
    if kind == CPU[0]:
        raise TypeError(
            "CPU arrays cannot be directly imported to CuPy. Use "
            "`cupy.array(numpy.from_dlpack(input))` instead."
        )
    raise TypeError(f"Unsupported array type: {kind}")
