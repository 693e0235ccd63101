"""Texture and surface instructions.

CUDA C++ Programming Guide, "Texture Fetching"; PTX ISA, "Texture Instructions", "Surface
Instructions".

Elements are read and written by ordinary accesses, so observers are notified, also for CUDA
arrays. NVIDIA's documentation leaves some details open. Here a fraction is rounded to the nearest
1/256, as observed on a GPU (NVIDIA's developer forum, "tex1D accuracy"). The weighted sum is
computed in double precision and rounded once. A NaN coordinate counts as 0. Channels that a
texture lacks read as poison.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np

from virtualgpu.errors import MemoryAccessError, MisalignedAddressError
from virtualgpu.lanes import access
from virtualgpu.lanes.group import Group
from virtualgpu.memory import textures
from virtualgpu.memory.global_memory import POISON
from virtualgpu.memory.textures import Surface, Texels, Texture
from virtualgpu.program.site import Site
from virtualgpu.ptx import Instruction
from virtualgpu.wording import a_or_an

T = TypeVar("T", Texture, Surface)
STEPS = 256  # steps of a fraction: "9-bit fixed point format with 8 bits of fractional value"
_FAR = float(1 << 40)  # beyond every texture, but within the range of 64-bit integers
_READ = {"1d": "tex1D", "2d": "tex2D", "3d": "tex3D", "a2d": "tex2DLayered"}


@dataclass(frozen=True)
class Use:
    """Decoded texture or surface instruction.

    ``dtype`` is the type of a result or of a stored value, and ``width`` is the number of them.
    ``outside`` is the behaviour outside a surface: ``trap``, ``clamp`` or ``zero``. ``sites`` are
    the sites of its accesses, by the type and number of channels.
    """

    instruction: Instruction
    kernel: str
    geometry: str
    dtype: np.dtype
    width: int = 4
    integers: bool = False
    outside: str = ""
    sites: dict[tuple[str, np.dtype, int], Site] = field(default_factory=dict)

    def site(self, kind: str, dtype: np.dtype, width: int) -> Site:
        key = (kind, dtype, width)
        if key not in self.sites:
            self.sites[key] = Site(self.instruction, self.kernel, kind, "global", dtype, width)
        return self.sites[key]

    def fail(
        self, group: Group, at: int, words: str, kind: type[MemoryAccessError] = MemoryAccessError
    ) -> NoReturn:
        """Raise an error for the lane at position ``at`` of the group."""
        site = self.site("load", self.dtype, 1)
        raise kind(f"{self.instruction.name}: {words}", site.location(group, int(group.lanes[at])))


# -- what instructions do --------------------------------------------------------------------------


def fetch(use: Use, group: Group, handle: np.ndarray, *place: np.ndarray) -> tuple[np.ndarray, ...]:
    """Execute ``tex``: return four values for the coordinates (after the number of a layer)."""
    return _by_object(use, Texture, _fetch, group, handle, place)


def load(use: Use, group: Group, handle: np.ndarray, *place: np.ndarray) -> tuple[np.ndarray, ...]:
    """Execute ``suld.b``."""
    return _by_object(use, Surface, _load, group, handle, place)


def store(use: Use, group: Group, handle: np.ndarray, *given: np.ndarray) -> None:
    """Execute ``sust.b``: ``given`` are the coordinates and the values."""
    _by_object(use, Surface, _store, group, handle, given)


def _by_object(
    use: Use,
    kind: type[T],
    function: Callable[..., tuple[np.ndarray, ...]],
    group: Group,
    handle: np.ndarray,
    given: tuple[np.ndarray, ...],
) -> tuple[np.ndarray, ...]:
    """Apply ``function`` to the lanes of each texture or surface that the handles refer to."""
    numbers = np.unique(handle)
    if len(numbers) == 1:
        return function(use, _object(use, kind, group, int(numbers[0]), 0), group, *given)
    handle = group.spread(handle)
    results = [np.zeros(group.count, use.dtype) for _ in range(use.width)]
    for number in numbers:
        chosen = np.flatnonzero(handle == number)
        found = _object(use, kind, group, int(number), int(chosen[0]))
        some = [group.spread(one)[chosen] for one in given]
        got = _part(group, chosen, partial(function, use, found), *some)
        for result, values in zip(results, got, strict=False):
            result[chosen] = values
    return tuple(results)


def _object(use: Use, kind: type[T], group: Group, handle: int, at: int) -> T:
    memory = group.wave.launch.memory
    found = memory.objects.get(handle)
    wanted = kind.__name__.lower()
    if found is None:
        use.fail(
            group, at, f"{handle:#x} is no {wanted} object: {textures.unknown(memory, handle)}"
        )
    if not isinstance(found, kind):
        other = type(found).__name__.lower()
        use.fail(
            group,
            at,
            f"the instruction needs {a_or_an(wanted)} object, but this is {a_or_an(other)} object; "
            f"it is for {'reading textures' if kind is Texture else 'surfaces'}",
        )
    texels = found.texels
    if texels.geometry != use.geometry or (texels.kind == "linear") != use.integers * (
        kind is Texture
    ):
        right = (
            "tex1Dfetch and an integer"
            if texels.kind == "linear"
            else _READ.get(texels.geometry, "another function")
        )
        use.fail(
            group,
            at,
            f"it does not fit {texels}, which is read by "
            + (right if kind is Texture else right.replace("tex", "surf") + "read"),
        )
    return found


# -- textures --------------------------------------------------------------------------------------


def _fetch(use: Use, texture: Texture, group: Group, *place: np.ndarray) -> tuple[np.ndarray, ...]:
    texels, sampler = texture.texels, texture.sampler
    if texture.reads_floats != (use.dtype.kind == "f"):
        use.fail(
            group,
            0,
            f"the kernel reads {'floats' if use.dtype.kind == 'f' else 'integers'} "
            f"from {texels}"
            + (", which is read as floats" if sampler.promotes else "")
            + "; name the type of the elements, as in tex2D<float> and tex2D<int>, or read "
            "integers of 8 and 16 bits as floats (cudaReadModeNormalizedFloat)",
        )
    axes: list[list[tuple[np.ndarray, Any]]]
    if use.integers:
        axes = [[(_element(use, texels, group, place[0]), 1)]]
    else:
        coordinates = place[1:] if texels.layered else place
        axes = [
            _sample(one, extent, mode, sampler.linear, sampler.normalized)
            for one, extent, mode in zip(coordinates, texels.extents, sampler.modes, strict=False)
        ]
        if texels.layered:
            axes.append([(_layer(use, texels, group, place[0]), 1)])
    total: list[Any] = [0] * texels.channels
    for corner in itertools.product(*axes):
        weight: Any = np.prod(np.broadcast_arrays(*(w for _, w in corner)), 0)
        index = [i for i, _ in corner]
        # An element without weight is not read, so that an infinite neighbour has no influence.
        for channel, values in enumerate(_texel(use, texture, group, index, weight > 0)):
            total[channel] = total[channel] + np.where(weight > 0, values, 0) * weight
    if sampler.linear and not use.integers:
        total = [one / STEPS ** (len(texels.extents) - texels.layered) for one in total]
    lacking = np.full(use.dtype.itemsize, POISON, np.uint8).view(use.dtype)
    with np.errstate(all="ignore"):
        made = [np.atleast_1d(one).astype(use.dtype) for one in total]
    return (*made, *[lacking] * (4 - texels.channels))


def _sample(
    x: np.ndarray, count: int, mode: str, linear: bool, normalized: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the elements along an axis for a coordinate, and their weights (of 256 if two).

    An index of -1 means the border.
    """
    if not normalized and mode in ("wrap", "mirror"):
        mode = "clamp"  # Runtime API, cudaTextureDesc::addressMode
    with np.errstate(all="ignore"):
        at = x.astype(np.float64)
        if normalized:
            whole = np.floor(at)
            if mode == "wrap":
                at = at - whole
            elif mode == "mirror":
                at = np.where(whole % 2 == 0, at - whole, 1 - (at - whole))
            at = at * count
        at = np.clip(np.where(np.isnan(at), 0, at), -_FAR, _FAR)
    one = np.ones(at.shape, np.int64)
    if not linear:
        return [(_within(np.floor(at).astype(np.int64), count, mode, False), one)]
    if mode == "clamp":
        at = np.clip(at, 0, count)
    at = at - 0.5
    low = np.floor(at)
    share = np.rint((at - low) * STEPS).astype(np.int64)
    first = low.astype(np.int64)
    return [
        (_within(first, count, mode, True), STEPS - share),
        (_within(first + 1, count, mode, True), share),
    ]


def _within(index: np.ndarray, count: int, mode: str, neighbour: bool) -> np.ndarray:
    if mode == "border":
        return np.where((index < 0) | (index >= count), -1, index)
    if mode == "wrap" and neighbour:
        return index % count
    return index.clip(0, count - 1)


def _texel(
    use: Use, texture: Texture, group: Group, index: list[np.ndarray], wanted: np.ndarray
) -> list[np.ndarray]:
    """Return the channels of elements, as doubles or as 64-bit integers."""
    texels = texture.texels
    inside = wanted
    for one in index:
        inside = inside & (one >= 0)
    place = _address(
        texels, [one * (texels.size if axis == 0 else 1) for axis, one in enumerate(index)]
    )
    site = use.site("load", texels.dtype, texels.channels)
    if inside.all():
        return _values(texture, access.load(site, group, place))
    chosen = np.flatnonzero(group.spread(inside))
    border = texture.sampler.border
    results = [
        np.full(group.count, value if texture.reads_floats else 0)
        for value in border[: texels.channels]
    ]
    if len(chosen):
        place = group.spread(place)
        got = _part(group, chosen, partial(access.load, site), place[chosen])
        for result, values in zip(results, _values(texture, got), strict=True):
            result[chosen] = values
    return results


def _values(texture: Texture, got: Any) -> list[np.ndarray]:
    channels = got if isinstance(got, tuple) else (got,)
    dtype = texture.texels.dtype
    if not texture.reads_floats:
        return [one.astype(np.int64) for one in channels]
    if dtype.kind == "f":
        return [one.astype(np.float64) for one in channels]
    # "Texture Memory": the whole range of an integer is mapped to 0 to 1, or to -1 to 1.
    most = np.iinfo(dtype).max
    return [
        np.maximum((one / np.float64(most)).astype(np.float32).astype(np.float64), -1)
        for one in channels
    ]


def _element(use: Use, texels: Texels, group: Group, index: np.ndarray) -> np.ndarray:
    """Return an index into linear memory, to which address modes do not apply."""
    if (bad := (index < 0) | (index >= texels.extents[0])).any():
        at = int(np.argmax(bad))
        use.fail(
            group,
            at,
            f"the thread reads element {int(index[at])} of {texels}; guard the "
            "index, because address modes apply only to CUDA arrays",
        )
    return index.astype(np.int64)


def _layer(use: Use, texels: Texels, group: Group, index: np.ndarray) -> np.ndarray:
    if (bad := (index < 0) | (index >= texels.extents[-1])).any():
        at = int(np.argmax(bad))
        use.fail(
            group,
            at,
            f"layer {int(index[at])} of {texels}; address modes do not apply to the layer",
        )
    return index.astype(np.int64)


# -- surfaces --------------------------------------------------------------------------------------


def _load(use: Use, surface: Surface, group: Group, *place: np.ndarray) -> tuple[np.ndarray, ...]:
    inside, address = _surface(use, surface.texels, group, place)
    site = use.site("load", use.dtype, use.width)

    def read(part: Group, where: np.ndarray) -> tuple[np.ndarray, ...]:
        got = access.load(site, part, where)
        return got if isinstance(got, tuple) else (got,)

    if inside.all():
        return read(group, address)
    chosen = np.flatnonzero(group.spread(inside))
    results = tuple(np.zeros(group.count, use.dtype) for _ in range(use.width))
    if len(chosen):
        got = _part(group, chosen, read, group.spread(address)[chosen])
        for result, values in zip(results, got, strict=True):
            result[chosen] = values
    return results


def _store(use: Use, surface: Surface, group: Group, *given: np.ndarray) -> tuple[np.ndarray, ...]:
    count = len(given) - use.width
    inside, address = _surface(use, surface.texels, group, given[:count])
    site = use.site("store", use.dtype, use.width)
    chosen = np.flatnonzero(group.spread(inside))
    if len(chosen):
        _part(
            group,
            chosen,
            partial(access.store, site),
            group.spread(address)[chosen],
            *(group.spread(one)[chosen] for one in given[count:]),
        )
    return ()


def _surface(
    use: Use, texels: Texels, group: Group, place: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mask of lanes inside the surface, and their addresses.

    x counts bytes (PTX ISA, "suld", "sust").
    """
    if texels.layered:
        place = (*place[1:], _layer(use, texels, group, place[0]))
    size = use.dtype.itemsize * use.width
    limits = [texels.extents[0] * texels.size - size, *(one - 1 for one in texels.extents[1:])]
    at = [one.astype(np.int64) for one in place]
    if (bad := at[0] % size != 0).any():
        first = int(np.argmax(bad))
        use.fail(
            group,
            first,
            f"x is {int(at[0][first])}, which is not a multiple of the {size} bytes that the "
            "thread moves. x counts bytes, so multiply it by the size of an element",
            MisalignedAddressError,
        )
    outside = np.logical_or.reduce(
        np.broadcast_arrays(
            *((one < 0) | (one > limit) for one, limit in zip(at, limits, strict=True))
        )
    )
    if use.outside == "trap" and outside.any():
        first = int(np.argmax(outside))
        where = ", ".join(str(int(group.spread(one)[first])) for one in at)
        use.fail(
            group,
            first,
            f"({where}), where the first coordinate counts bytes, is outside {texels}; "
            "guard the coordinates, or pass cudaBoundaryModeClamp or cudaBoundaryModeZero",
        )
    at = [one.clip(0, max(limit, 0)) for one, limit in zip(at, limits, strict=True)]
    if use.outside == "clamp" and limits[0] >= 0:
        outside = np.zeros(1, bool)
    return ~outside, _address(texels, at)


# -- their parts -----------------------------------------------------------------------------------


def _address(texels: Texels, at: list[np.ndarray]) -> np.ndarray:
    """Return the addresses of elements, where x counts bytes.

    y, z and layers count rows and planes.
    """
    offset, rows = at[0], 1
    for one, extent in zip(at[1:], texels.extents[1:], strict=True):
        offset = offset + one * (rows * texels.pitch)
        rows *= extent
    return offset.astype(np.uint64) + np.uint64(texels.address)


def _part(
    group: Group, chosen: np.ndarray, function: Callable[..., Any], *given: np.ndarray
) -> Any:
    """Apply ``function`` to some of the lanes and return its results."""
    part = group.subset(chosen, group.block, ())
    got = function(part, *given)
    group.changed |= part.changed
    group.waited = max(group.waited, part.waited)
    return got
