"""``cupy.cuda.texture``: CUDA arrays, texture objects and surface objects.

It does not support mipmaps, cube maps, gathers and sRGB, nor texture references, which CUDA 12
removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from virtualgpu.standins.interface import MODES, Sampler, Texels, VirtualDevice, VirtualGPUError

from . import runtime
from ._machine import machine
from .memory import Memory, MemoryPointer

__all__ = [
    "CUDAarray",
    "ChannelFormatDescriptor",
    "ResourceDescriptor",
    "SurfaceObject",
    "TextureDescriptor",
    "TextureObject",
]

_ARRAY, _MIPMAPPED, _LINEAR, _PITCH = range(4)  # cudaResourceType
_KINDS = {0: "i", 1: "u", 2: "f"}  # by cudaChannelFormatKind
_INVALID, _FILTER = 1, 26  # cudaErrorInvalidValue, cudaErrorInvalidFilterSetting


class ChannelFormatDescriptor:
    """Format of an element's channels.

    Parameters
    ----------
    x, y, z, w : int
        Bits of each channel; 0 for a missing channel. All other channels have the same size.
    f : int
        ``cupy.cuda.runtime.cudaChannelFormatKindFloat``, ``…Signed`` or ``…Unsigned``.
    """

    def __init__(self, x: int, y: int, z: int, w: int, f: int):
        self._format = {"x": int(x), "y": int(y), "z": int(z), "w": int(w), "f": int(f)}

    def get_channel_format(self) -> dict[str, int]:
        """Return the values passed to the constructor."""
        return dict(self._format)

    @property
    def _element(self) -> tuple[np.dtype, int]:
        """Return the dtype of a channel and the number of channels. Raises CUDARuntimeError."""
        bits = [self._format[name] for name in "xyzw"]
        count = sum(map(bool, bits))
        kind = _KINDS.get(self._format["f"], "")
        code = f"{kind}{bits[0] // 8}"
        if (
            bits != [bits[0]] * count + [0] * (4 - count)
            or count not in (1, 2, 4)
            or (code not in ("i1", "i2", "i4", "u1", "u2", "u4", "f2", "f4"))
            or bits[0] % 8
        ):
            raise _told(
                20,
                f"channels of {bits} bits are not supported: use 1, 2 or 4 channels of the same "
                "size, either integers of 8, 16 or 32 bits or floats of 16 or 32 bits",
            )
        return np.dtype(code), count


class CUDAarray:
    """Array that only textures, surfaces and copies can access.

    Parameters
    ----------
    desc : ChannelFormatDescriptor
    width, height, depth : int
        Lengths in elements; 0 for a missing dimension.
    flags : int
        ``cupy.cuda.runtime.cudaArraySurfaceLoadStore`` allows surfaces of the array; with
        ``cudaArrayLayered``, ``depth`` is the number of layers.
    """

    def __init__(
        self,
        desc: ChannelFormatDescriptor,
        width: int,
        height: int = 0,
        depth: int = 0,
        flags: int = 0,
    ):
        if width == 0:
            raise ValueError("To create a CUDA array, width must be nonzero.")
        if height == 0 and depth > 0:
            raise ValueError("To create a 2D CUDA array, height must be nonzero.")
        if flags & ~(runtime.cudaArrayLayered | runtime.cudaArraySurfaceLoadStore):
            raise NotImplementedError(
                "the virtual GPU does not support CUDA arrays for cube maps or gathers, or sparse "
                "ones; the flags it supports are cudaArrayLayered and cudaArraySurfaceLoadStore"
            )
        if flags & runtime.cudaArrayLayered and not depth:
            raise _told(
                _INVALID, "a layered array needs a depth, which is the number of its layers"
            )
        self.desc, self.flags = desc, flags
        self.width, self.height, self.depth = width, height, depth
        self.ndim = 3 if depth else 2 if height else 1
        dtype, channels = desc._element
        self._extents = (width, height, depth)[: self.ndim]
        self._shape = (*self._extents[:0:-1], width * channels)
        self._memory = Memory(int(np.prod(self._shape)) * dtype.itemsize)
        self.ptr = self._memory.ptr

    def copy_from(self, in_arr, stream=None) -> None:
        """Copy a NumPy or CuPy array of shape (depth, height, channels * width) to this one."""
        self._check(in_arr)
        there = MemoryPointer(self._memory, 0)
        if isinstance(in_arr, np.ndarray):
            in_arr = np.ascontiguousarray(in_arr)
            there.copy_from_host_async(in_arr.ctypes.data, self._memory.size, stream)
        else:
            in_arr = in_arr if in_arr.flags.c_contiguous else in_arr.copy("C")
            there.copy_from_device_async(in_arr.data, self._memory.size, stream)

    def copy_to(self, out_arr, stream=None) -> None:
        """Copy this array to a C-contiguous NumPy or CuPy array."""
        if not out_arr.flags.c_contiguous:
            raise ValueError("The output array must be C-contiguous")
        self._check(out_arr)
        there = MemoryPointer(self._memory, 0)
        if isinstance(out_arr, np.ndarray):
            there.copy_to_host_async(out_arr.ctypes.data, self._memory.size, stream)
        else:
            out_arr.data.copy_from_device_async(there, self._memory.size, stream)

    def _check(self, array) -> None:
        if array.shape != self._shape:
            raise ValueError(
                f"shape mismatch: {array.shape} instead of {self._shape}, which is "
                "(depth, height, channels * width)"
            )
        if array.dtype != self.desc._element[0]:
            raise ValueError(f"dtype mismatch: {array.dtype} instead of {self.desc._element[0]}")


class ResourceDescriptor:
    """Resource of a texture or surface.

    Parameters
    ----------
    restype : int
        ``cupy.cuda.runtime.cudaResourceTypeArray``, ``…Linear`` or ``…Pitch2D``.
    cuArr : CUDAarray
        For ``…Array``.
    arr : cupy.ndarray
    chDesc : ChannelFormatDescriptor
        For the other types.
    sizeInBytes : int
        For ``…Linear``.
    width, height, pitchInBytes : int
        For ``…Pitch2D``: elements, and bytes from one row to the next (a multiple of 32).
    """

    def __init__(
        self,
        restype: int,
        cuArr: CUDAarray | None = None,
        arr=None,
        chDesc: ChannelFormatDescriptor | None = None,
        sizeInBytes: int = 0,
        width: int = 0,
        height: int = 0,
        pitchInBytes: int = 0,
    ):
        if restype == _MIPMAPPED:
            raise NotImplementedError("cudaResourceTypeMipmappedArray is currently not supported.")
        if restype not in (_ARRAY, _LINEAR, _PITCH):
            raise ValueError(f"{restype} is not a cudaResourceType")
        if (cuArr is None) if restype == _ARRAY else (arr is None or chDesc is None):
            raise ValueError(
                "a resource of a CUDA array needs cuArr; any other needs arr and chDesc"
            )
        self.chDesc, self.cuArr, self.arr = chDesc, cuArr, arr
        self._type = restype
        self._numbers = (
            {"sizeInBytes": sizeInBytes}
            if restype == _LINEAR
            else {"width": width, "height": height, "pitchInBytes": pitchInBytes}
        )

    def get_resource_desc(self) -> dict:
        """Return the values passed to the constructor, with device addresses for arrays."""
        if self._type == _ARRAY:
            return {"resType": self._type, "array": {"array": self.cuArr.ptr}}
        return {
            "resType": self._type,
            "linear" if self._type == _LINEAR else "pitch2D": {
                "devPtr": self.arr.data.ptr,
                "desc": self.chDesc.get_channel_format(),
                **self._numbers,
            },
        }

    def _texels(self) -> Texels:
        if self._type == _ARRAY:
            array = self.cuArr
            dtype, channels = array.desc._element
            return Texels(
                "array",
                array.ptr,
                dtype,
                channels,
                array._extents,
                array.width * channels * dtype.itemsize,
                bool(array.flags & runtime.cudaArrayLayered),
                bool(array.flags & runtime.cudaArraySurfaceLoadStore),
            )
        dtype, channels = self.chDesc._element
        if self._type == _LINEAR:
            count = self._numbers["sizeInBytes"] // (dtype.itemsize * channels)
            return Texels("linear", self.arr.data.ptr, dtype, channels, (count,), 0)
        return Texels(
            "pitch",
            self.arr.data.ptr,
            dtype,
            channels,
            (self._numbers["width"], self._numbers["height"]),
            self._numbers["pitchInBytes"],
        )


class TextureDescriptor:
    """Sampling settings of a texture.

    Parameters
    ----------
    addressModes : sequence of up to three ints
        ``cupy.cuda.runtime.cudaAddressModeWrap``, ``…Clamp``, ``…Mirror`` or ``…Border``, for x, y
        and z. Wrap (0, the default) and mirror need normalized coordinates; without them they
        clamp.
    filterMode : int
        ``cudaFilterModePoint`` or ``cudaFilterModeLinear``.
    readMode : int
        ``cudaReadModeElementType`` or ``cudaReadModeNormalizedFloat``.
    sRGB : int, optional
        Not supported.
    borderColors : sequence of up to four floats, optional
    normalizedCoords : int, optional
    maxAnisotropy : int, optional
        Has no effect, as there are no mipmaps.
    """

    def __init__(
        self,
        addressModes: Iterable[int] | None = None,
        filterMode: int = 0,
        readMode: int = 0,
        sRGB: int | None = None,
        borderColors: Iterable[float] | None = None,
        normalizedCoords: int | None = None,
        maxAnisotropy: int | None = None,
    ):
        modes, colors = list(addressModes or ()), list(borderColors or ())
        assert len(modes) <= 3 and len(colors) <= 4
        if sRGB:
            raise NotImplementedError(
                "CuPy's stand-in for machines without a GPU does not support sRGB textures; "
                "convert the colours first"
            )
        self._desc = {
            "addressMode": (*map(int, modes), *[0] * (3 - len(modes))),
            "filterMode": int(filterMode),
            "readMode": int(readMode),
            "sRGB": 0,
            "borderColor": (*map(float, colors), *[0.0] * (4 - len(colors))),
            "normalizedCoords": int(normalizedCoords or 0),
            "maxAnisotropy": int(maxAnisotropy or 0),
        }

    def get_texture_desc(self) -> dict:
        """Return the values passed to the constructor."""
        return dict(self._desc)

    def _sampler(self) -> Sampler:
        desc = self._desc
        if not set(desc["addressMode"]) <= set(range(4)) or not {
            desc["filterMode"],
            desc["readMode"],
        } <= {0, 1}:
            raise _told(_INVALID, f"unknown address, filter or read mode: {desc}")
        x, y, z = (MODES[mode] for mode in desc["addressMode"])
        return Sampler(
            (x, y, z),
            bool(desc["filterMode"]),
            bool(desc["normalizedCoords"]),
            bool(desc["readMode"]),
            desc["borderColor"],
        )


class Handle:
    """Texture or surface object; ``ptr`` is the number passed to a kernel."""

    ptr = 0

    def _make(self, make: Callable[[VirtualDevice], int]) -> None:
        device = machine()
        if not isinstance(device, VirtualDevice):
            raise NotImplementedError(
                f"textures and surfaces on {device.name} are not supported: they exist only on "
                "the virtual GPU of this process"
            )
        try:
            self.ptr = make(device)
        except VirtualGPUError as error:
            raise _told(
                _FILTER if "linear filtering" in error.message else _INVALID, error.message
            ) from None
        self._device = device

    def __del__(self):
        if self.ptr:
            self._device.destroy(self.ptr)


class TextureObject(Handle):
    """Texture object, for a kernel parameter of type ``cudaTextureObject_t``.

    Raises CUDARuntimeError if CUDA refuses the combination.

    Parameters
    ----------
    ResDesc : ResourceDescriptor
    TexDesc : TextureDescriptor
    """

    def __init__(self, ResDesc: ResourceDescriptor, TexDesc: TextureDescriptor):
        self.ResDesc, self.TexDesc = ResDesc, TexDesc
        texels, sampler = ResDesc._texels(), TexDesc._sampler()
        self._make(lambda device: device.create_texture(texels, sampler))


class SurfaceObject(Handle):
    """Surface object, for a kernel parameter of type ``cudaSurfaceObject_t``.

    It needs a CUDA array created with ``cudaArraySurfaceLoadStore``; others raise
    CUDARuntimeError.

    Parameters
    ----------
    ResDesc : ResourceDescriptor
    """

    def __init__(self, ResDesc: ResourceDescriptor):
        self.ResDesc = ResDesc
        texels = ResDesc._texels()
        self._make(lambda device: device.create_surface(texels))


def __getattr__(name: str):
    from .._missing import missing

    raise missing(
        __name__,
        name,
        "TextureObject; CUDA 12 has removed texture references"
        if name == "TextureReference"
        else "a GPU",
    )


def _told(status: int, words: str) -> runtime.CUDARuntimeError:
    """Return a runtime error whose message includes the reason."""
    error = runtime.CUDARuntimeError(status)
    error.args = (f"{error}\n{words}",)
    return error
