"""Texture and surface objects.

CUDA Runtime API, ``cudaResourceDesc``, ``cudaTextureDesc``; CUDA C++ Programming Guide, "Texture
and Surface Memory".

A kernel gets a handle, a number that is not an address. No number is used twice, so the handle of
a destroyed object is recognised.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from virtualgpu.errors import VirtualGPUError
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.memory.mapping import END
from virtualgpu.wording import many

BASE_ALIGN = 512  # bytes (cudaDeviceProp::textureAlignment)
PITCH_ALIGN = 32  # bytes (cudaDeviceProp::texturePitchAlignment)
MODES = ("wrap", "clamp", "mirror", "border")  # by the value of a cudaTextureAddressMode
_FIRST = END
_numbers = itertools.count(_FIRST)


@dataclass(frozen=True)
class Texels:
    """Elements of a texture in device memory, consecutive along x.

    Attributes
    ----------
    kind : str
        ``array`` (a CUDA array), ``linear`` or ``pitch`` (rows in linear memory).
    address : int
        Address of the first element.
    dtype : dtype
        Type of one channel: an integer of 8, 16 or 32 bits, float16 or float32.
    channels : int
        1, 2 or 4.
    extents : tuple of one to three ints
        Elements along x, y and z.
    pitch : int
        Bytes from one row to the next.
    layered : bool
        True if z counts layers, which are not filtered across.
    writable : bool
        True if surfaces may be made of it (``cudaArraySurfaceLoadStore``).
    """

    kind: str
    address: int
    dtype: np.dtype
    channels: int
    extents: tuple[int, ...]
    pitch: int
    layered: bool = False
    writable: bool = False

    @property
    def size(self) -> int:
        """Size of an element in bytes."""
        return self.dtype.itemsize * self.channels

    @property
    def geometry(self) -> str:
        """Return the PTX name of the geometry."""
        if self.layered:
            return f"a{len(self.extents) - 1}d"
        return f"{len(self.extents)}d"

    def __str__(self) -> str:
        extents = " x ".join(map(str, self.extents))
        what = {"array": "a CUDA array", "linear": "linear memory", "pitch": "rows in memory"}
        several = "" if self.channels == 1 else f"{self.channels} x "
        return (
            f"{what[self.kind]} of {extents} elements of {several}{self.dtype}"
            f"{' (the last counts layers)' if self.layered else ''}"
        )


@dataclass(frozen=True)
class Sampler:
    """Sampler of a texture: filtering, addressing and coordinates.

    Attributes
    ----------
    modes : tuple of three str
        Address modes from :data:`MODES`, for x, y and z.
    linear : bool
        True to interpolate the elements around a point; otherwise the element that contains it is
        used.
    normalized : bool
        True if coordinates are relative to the texture's width, height and depth.
    promotes : bool
        True to read integers of 8 and 16 bits as floats, 0 to 1 or -1 to 1.
    border : tuple of four floats
        Value outside the texture, in mode ``border``.
    """

    modes: tuple[str, str, str] = ("wrap", "wrap", "wrap")
    linear: bool = False
    normalized: bool = False
    promotes: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Texture:
    texels: Texels
    sampler: Sampler

    @property
    def reads_floats(self) -> bool:
        dtype = self.texels.dtype
        return dtype.kind == "f" or (self.sampler.promotes and dtype.itemsize < 4)


@dataclass(frozen=True)
class Surface:
    texels: Texels


def create_texture(memory: GlobalMemory, texels: Texels, sampler: Sampler) -> int:
    """Return the handle of a new texture object.

    Raises VirtualGPUError if CUDA would refuse it.
    """
    _check(memory, texels)
    made = Texture(texels, sampler)
    if sampler.linear and not made.reads_floats and texels.kind != "linear":
        raise VirtualGPUError(
            f"linear filtering of {texels.dtype}: only floats are interpolated; use "
            "cudaFilterModePoint"
            + (
                ""
                if texels.dtype.itemsize == 4
                else ", or read integers as floats (cudaReadModeNormalizedFloat)"
            )
        )
    if any(sampler.border) and not made.reads_floats:
        raise VirtualGPUError(
            f"a border colour for {texels.dtype}: a border colour has four floats, so the texture "
            "must read floats"
        )
    return _keep(memory, made)


def create_surface(memory: GlobalMemory, texels: Texels) -> int:
    """Return the handle of a new surface object.

    Raises VirtualGPUError if CUDA would refuse it.
    """
    if texels.kind != "array":
        raise VirtualGPUError(
            "a surface object of linear memory: surfaces need a CUDA array. A kernel writes "
            "to other memory through a pointer"
        )
    _check(memory, texels)
    if not texels.writable:
        raise VirtualGPUError(
            "a surface object of a CUDA array that was created without "
            "cudaArraySurfaceLoadStore; create the array with that flag"
        )
    return _keep(memory, Surface(texels))


def destroy(memory: GlobalMemory, handle: int) -> None:
    """Destroy an object. Raises VirtualGPUError if there is none."""
    if memory.objects.pop(handle, None) is None:
        raise VirtualGPUError(f"{handle:#x} is no texture or surface object")


def unknown(memory: GlobalMemory, handle: int) -> str:
    """Explain why ``handle`` is no object of this device, and how to correct it."""
    for number, other in enumerate(memory.all):
        if handle in other.objects:
            return (
                f"an object of device {number}, but this is device {memory.all.index(memory)}; "
                "create one on the device that launches"
            )
    if _FIRST <= handle < next(_numbers):
        return "an object that was destroyed; keep it until the launch"
    if memory.extent(handle) is not None:
        return "the address of an array; create an object for the array and pass that"
    return "no such object; pass what cudaCreateTextureObject or cudaCreateSurfaceObject returned"


def _keep(memory: GlobalMemory, made: Texture | Surface) -> int:
    handle = next(_numbers)
    memory.objects[handle] = made
    return handle


def _check(memory: GlobalMemory, texels: Texels) -> None:
    if texels.channels not in (1, 2, 4) or texels.dtype.str[1:] not in (
        "u1",
        "i1",
        "u2",
        "i2",
        "u4",
        "i4",
        "f2",
        "f4",
    ):
        raise VirtualGPUError(
            f"elements of {many(texels.channels, 'channel')} of {texels.dtype}: a texture has "
            "1, 2 or 4 channels, of integers of 8, 16 or 32 bits or floats of 16 or 32 bits"
        )
    if min(texels.extents) < 1:
        raise VirtualGPUError(f"a texture of {texels}: every dimension must be at least 1")
    if texels.address % BASE_ALIGN:
        raise VirtualGPUError(
            f"a texture at {texels.address:#x}: its address must be a multiple of {BASE_ALIGN} "
            "bytes, like that of a whole array. Copy the part to a separate array"
        )
    width = texels.extents[0] * texels.size
    if texels.kind == "pitch" and (texels.pitch % PITCH_ALIGN or texels.pitch < width):
        raise VirtualGPUError(
            f"a pitch of {texels.pitch} bytes for rows of {many(width, 'byte')}: the pitch must be "
            f"a multiple of {PITCH_ALIGN} and at least a row's length. Pad the rows"
        )
    rows = int(np.prod(texels.extents[1:]))
    memory.demand(texels.address, (rows - 1) * texels.pitch + width, "a texture")
