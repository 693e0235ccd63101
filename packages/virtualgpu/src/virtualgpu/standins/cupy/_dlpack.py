"""DLPack: arrays handed to other libraries, and taken from them, without a copy.

The memory is the host's, so a consumer on the CPU may have it as a CPU array
(``numpy.from_dlpack(x, device="cpu")``), as real CuPy grants by a copy. A capsule for a CUDA
device would be read by a library that talks to a real driver; there is none, so it is refused.
"""

from __future__ import annotations

from ._core import ndarray
from ._operands import as_array

CPU = (1, 0)


def export(array: ndarray, stream, dl_device, copy):
    """A capsule of a copy on the host, or the refusal to make one for a CUDA device.

    Parameters
    ----------
    stream : int or None
        Checked as CuPy checks it: −1, 1, 2 or larger.
    dl_device : tuple of int or None
        The device that the consumer asks for: ``(1, 0)`` is the CPU.
    """
    if dl_device is not None and tuple(int(part) for part in dl_device) == CPU:
        if copy is False:
            raise ValueError("GPU memory cannot be given to the CPU without a copy")
        return array.get().__dlpack__()
    if stream is not None and (not isinstance(stream, int) or stream < -1 or stream == 0):
        raise ValueError("On CUDA, the valid stream for the DLPack protocol is -1, 1, 2, or any "
                         f"larger value, but {stream} was provided")
    raise BufferError(
        "a DLPack capsule of CUDA memory needs a GPU: hand arrays to Numba and CuPy as they are "
        "(__cuda_array_interface__), or ask for a copy on the host with x.get()")


def take_in(array) -> ndarray:
    """An array from an object that speaks DLPack: CuPy's and Numba's, without a copy.

    Raises TypeError for arrays of the host, as CuPy does.
    """
    given = as_array(array)
    if given is not None:
        return given.reshape(given.shape) if given is array else given
    kind = array.__dlpack_device__()[0] if hasattr(array, "__dlpack_device__") else None
    if kind == CPU[0]:
        raise TypeError("CPU arrays cannot be directly imported to CuPy. Use "
                        "`cupy.array(numpy.from_dlpack(input))` instead.")
    raise TypeError(f"Unsupported array type: {kind}")
