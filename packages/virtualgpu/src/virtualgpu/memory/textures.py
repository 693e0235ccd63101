"""Texture and surface objects.

CUDA Runtime API, ``cudaResourceDesc``, ``cudaTextureDesc``; CUDA C++ Programming Guide, "Texture
and Surface Memory".

A kernel gets a handle, a number that is no address. No number is given twice, so the handle of a
destroyed object is recognised.
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
MODES = ("wrap", "clamp", "mirror", "border")  # by the number of a cudaTextureAddressMode
_FIRST = END
_numbers = itertools.count(_FIRST)


@dataclass(frozen=True)
class Texels:
    """Elements in device memory, one after the other along x.

    Attributes
    ----------
    kind : str
        ``array`` (a CUDA array), ``linear`` or ``pitch`` (rows in linear memory).
    address : int
        Of the first.
    dtype : dtype
        Of one channel: an integer of 8, 16 or 32 bits, float16 or float32.
    channels : int
        1, 2 or 4.
    extents : tuple of one to three ints
        Elements along x, y and z.
    pitch : int
        Bytes from one row to the next.
    layered : bool
        z counts layers, which nothing filters across.
    writable : bool
        Surfaces may be made of it (``cudaArraySurfaceLoadStore``).
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
        """Bytes of an element."""
        return self.dtype.itemsize * self.channels

    @property
    def geometry(self) -> str:
        """Return the geometry by its PTX name."""
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
        Of :data:`MODES`, for x, y and z.
    linear : bool
        Elements around a point are interpolated; else the one it lies in is taken.
    normalized : bool
        Coordinates count the texture's width, height and depth as 1.
    promotes : bool
        Integers of 8 and 16 bits are read as floats, 0 to 1 or -1 to 1.
    border : tuple of four floats
        What lies outside, in mode ``border``.
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

    Raises VirtualGPUError where CUDA makes none.
    """
    _check(memory, texels)
    made = Texture(texels, sampler)
    if sampler.linear and not made.reads_floats and texels.kind != "linear":
        raise VirtualGPUError(
            f"linear filtering of {texels.dtype}: only floats are interpolated; take "
            "cudaFilterModePoint"
            + (
                ""
                if texels.dtype.itemsize == 4
                else ", or read integers as floats (cudaReadModeNormalizedFloat)"
            )
        )
    if any(sampler.border) and not made.reads_floats:
        raise VirtualGPUError(
            f"a border colour for {texels.dtype}: it is of four floats, for "
            "textures that read floats"
        )
    return _keep(memory, made)


def create_surface(memory: GlobalMemory, texels: Texels) -> int:
    """Return the handle of a new surface object.

    Raises VirtualGPUError where CUDA makes none.
    """
    if texels.kind != "array":
        raise VirtualGPUError(
            "a surface object of linear memory: surfaces are of CUDA arrays; a "
            "kernel writes to other memory through a pointer"
        )
    _check(memory, texels)
    if not texels.writable:
        raise VirtualGPUError(
            "a surface object of a CUDA array that was made without "
            "cudaArraySurfaceLoadStore; give the array that flag"
        )
    return _keep(memory, Surface(texels))


def destroy(memory: GlobalMemory, handle: int) -> None:
    """End an object. Raises VirtualGPUError where there is none."""
    if memory.objects.pop(handle, None) is None:
        raise VirtualGPUError(f"{handle:#x} is no texture or surface object")


def unknown(memory: GlobalMemory, handle: int) -> str:
    """Explain why ``handle`` is no object of this device, and name the remedy."""
    for number, other in enumerate(memory.all):
        if handle in other.objects:
            return (
                f"an object of device {number}, and this is device {memory.all.index(memory)}; "
                "make one on the device that launches"
            )
    if _FIRST <= handle < next(_numbers):
        return "an object that was destroyed; keep it until the launch"
    if memory.extent(handle) is not None:
        return "the address of an array; make an object of it and pass that"
    return "no such object; pass what cudaCreateTextureObject or cudaCreateSurfaceObject gave"


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
            "1, 2 or 4, integers of 8, 16 or 32 bits, or floats of 16 or 32"
        )
    if min(texels.extents) < 1:
        raise VirtualGPUError(f"a texture of {texels}: it has at least one element each way")
    if texels.address % BASE_ALIGN:
        raise VirtualGPUError(
            f"a texture at {texels.address:#x}: it begins at a multiple of {BASE_ALIGN} bytes, as "
            "an array does; copy the part into an array of its own"
        )
    width = texels.extents[0] * texels.size
    if texels.kind == "pitch" and (texels.pitch % PITCH_ALIGN or texels.pitch < width):
        raise VirtualGPUError(
            f"rows {texels.pitch} bytes apart that have {many(width, 'byte')}: the pitch is a "
            f"multiple of {PITCH_ALIGN} and at least a row's length; pad the rows"
        )
    rows = int(np.prod(texels.extents[1:]))
    memory.demand(texels.address, (rows - 1) * texels.pitch + width, "a texture")
