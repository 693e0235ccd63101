"""``tex``, ``suld`` and ``sust`` against NumPy, and what goes wrong with them.

The reference follows the CUDA guide's appendix "Texture Fetching" point by point, on arrays that go
on for ever: an index outside is that of the repeated, mirrored or bordered array.
"""

import itertools
import math

import numpy as np
import pytest

import virtualgpu
from ptx_lab import per_thread
from virtualgpu import devices
from virtualgpu.devices.virtual import several
from virtualgpu.errors import (
    MemoryAccessError,
    MisalignedAddressError,
    UnsupportedInstruction,
    VirtualGPUError,
)
from virtualgpu.memory.textures import MODES, Sampler, Texels

RANDOM = np.random.default_rng(19)
PLACES = {
    "1d": "{%f0}",
    "2d": "{%f0, %f1}",
    "3d": "{%f0, %f1, %f2, %f2}",
    "a2d": "{%r9, %f0, %f1, %f1}",
}


def texels(data, kind="array", channels=1, layered=False, writable=False, written=True):
    """Elements in new device memory; data is (z, y, x * channels)."""
    device = devices.current()
    address = device.allocate(data.nbytes)
    if written:
        device.write(address, data)
    width = data.shape[-1] // channels
    extents = (width, *data.shape[-2::-1])
    return Texels(
        kind,
        address,
        data.dtype,
        channels,
        extents,
        data.shape[-1] * data.itemsize,
        layered,
        writable,
    )


def texture(data, kind="array", channels=1, layered=False, written=True, **sampler):
    return devices.current().create_texture(
        texels(data, kind, channels, layered, written=written), Sampler(**sampler)
    )


def read(handle, geometry, *axes, dtype=np.float32, before="", channel=0):
    """One element of what ``tex`` gives, for each point; axes are arrays of float32."""
    letter = {"f": "f32", "i": "s32", "u": "u32"}[np.dtype(dtype).kind]
    bank = "%f1" if letter == "f32" else "%r1"
    results = ", ".join(f"{bank}{i}" for i in range(4))
    loads = "".join(
        f"mad.wide.u32 %rd20, %gid, 4, %rd{2 + i}; ld.global.f32 %f{i}, [%rd20];\n"
        for i in range(len(axes))
    )
    return per_thread(
        f"{loads} mov.u64 %rd10, {handle}; {before}\n"
        f"tex.{geometry}.v4.{letter}.f32 {{{results}}}, [%rd10, {PLACES[geometry]}];",
        *axes,
        block=len(axes[0]),
        dtype=dtype,
        result=f"{bank}{channel}",
    )


def endless(data, index, mode, border):
    """The element at an index of the endless array; indices are in the order of the axes x, y, z"""
    place = []
    for i, n in zip(index, data.shape[::-1], strict=True):
        if mode == "border" and not 0 <= i < n:
            return border
        if mode == "clamp":
            i = min(max(i, 0), n - 1)
        elif mode == "wrap":
            i %= n
        elif mode == "mirror":
            i = min(i % (2 * n), 2 * n - 1 - i % (2 * n))
        place.append(i)
    return float(data[tuple(reversed(place))])


def reference(data, point, mode, linear, normalized, border):
    point = [
        float(x) * (n if normalized else 1) for x, n in zip(point, data.shape[::-1], strict=True)
    ]
    if not normalized and mode in ("wrap", "mirror"):
        mode = "clamp"
    if not linear:
        return endless(data, [math.floor(x) for x in point], mode, border)
    low = [math.floor(x - 0.5) for x in point]
    share = [round(256 * (x - 0.5 - i)) / 256 for x, i in zip(point, low, strict=True)]
    total = 0.0
    for corner in itertools.product((0, 1), repeat=len(point)):
        weight = math.prod(a if c else 1 - a for a, c in zip(share, corner, strict=True))
        total += weight * endless(
            data, [i + c for i, c in zip(low, corner, strict=True)], mode, border
        )
    return total


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(7,), (5, 6), (3, 5, 7)], ids=["1d", "2d", "3d"])
def test_points_inside_and_far_outside(shape, mode, linear, normalized):
    data = RANDOM.random(shape, np.float32)
    axes = [
        RANDOM.uniform(-3, 4, 128).astype(np.float32) * (1 if normalized else n)
        for n in shape[::-1]
    ]
    handle = texture(
        data, modes=(mode,) * 3, linear=linear, normalized=normalized, border=(0.25, 0, 0, 0)
    )
    wanted = [reference(data, p, mode, linear, normalized, 0.25) for p in zip(*axes, strict=True)]
    np.testing.assert_allclose(read(handle, f"{len(shape)}d", *axes), wanted, rtol=3e-7, atol=1e-7)


def test_each_axis_has_a_mode():
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    handle = texture(data, modes=("border", "clamp", "clamp"))
    x, y = np.float32([[-1, 0, 3, 4], [-5, -5, 9, 9]])
    assert read(handle, "2d", x, y).tolist() == [0, 0, 11, 0]


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4"])
def test_elements_of_every_type(dtype, channels):
    data = RANDOM.integers(0, 256, (6 * channels * np.dtype(dtype).itemsize,), np.uint8).view(dtype)
    if dtype[0] == "f":
        data = np.linspace(-3, 3, len(data)).astype(dtype)
    handle = texture(data, channels=channels)
    x = np.arange(6, dtype=np.float32)
    kind = {"f": np.float32, "i": np.int32, "u": np.uint32}[dtype[0]]
    for channel in range(channels):
        got = read(handle, "1d", x, dtype=kind, channel=channel)
        assert (got == data[channel::channels].astype(kind)).all()
    if channels < 4:  # poison, which no one takes for a value
        assert (read(handle, "1d", x, dtype=kind, channel=3).view(np.uint32) == 0xFEFEFEFE).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_integers_as_floats(dtype):
    info = np.iinfo(dtype)
    data = np.array([info.min, info.min + 1, 0, 1, info.max], dtype)
    got = read(texture(data, promotes=True), "1d", np.arange(5, dtype=np.float32))
    np.testing.assert_allclose(got, np.maximum(data / info.max, -1), rtol=1e-7)
    middle = read(texture(data, promotes=True, linear=True), "1d", np.float32([4.0]))
    np.testing.assert_allclose(middle, (1 / info.max + 1) / 2, rtol=1e-6)


def test_a_border_that_is_infinite_has_no_say_inside():
    handle = texture(
        np.float32([1, 2]), modes=("border",) * 3, linear=True, border=(np.inf, 0, 0, 0)
    )
    assert read(handle, "1d", np.float32([0.5, 1.5, 0.25])).tolist() == [1, 2, np.inf]


def test_weights_have_eight_bits():
    handle = texture(np.float32([0, 256, np.inf]), linear=True)
    x = np.float32([0.5 + 100 / 256, 0.5 + 100.4 / 256, 0.5 + 255.9 / 256, 1.5, np.nan, -np.inf])
    assert read(handle, "1d", x).tolist() == [100, 100, 256, 256, 0, 0]


def test_interpolation_as_a_gpu_measured_it():
    """Coordinates and results of a real GPU: NVIDIA's developer forum, "tex1D accuracy", 2008."""
    x = np.float32([0, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.95])
    handle = texture(np.float32([1, 2]), linear=True, normalized=True, modes=("clamp",) * 3)
    assert read(handle, "1d", x).tolist() == [
        1,
        1,
        1.1015625,
        1.19921875,
        1.30078125,
        1.3984375,
        1.5,
        1.6015625,
        1.69921875,
        1.80078125,
        1.8984375,
        2,
        2,
        2,
    ]


def test_layers():
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    handle = texture(data, layered=True, linear=True, modes=("clamp",) * 3)
    x, y = np.float32([[0.5, 1, 9], [1.5, 1, 9]])
    got = read(handle, "a2d", x, y, before="mov.u32 %r9, 1;")
    assert got.tolist() == [16, 14.5, 23]
    with pytest.raises(MemoryAccessError, match=r"layer 2 of a CUDA array of 4 x 3 x 2 .*float32"):
        read(handle, "a2d", x, y, before="mov.u32 %r9, 2;")


def test_lanes_may_read_different_textures():
    first, second = texture(np.float32([1, 2])), texture(np.float32([3, 4]))
    got = per_thread(
        f"setp.lt.u32 %p1, %gid, 5; mov.u64 %rd10, {first}; mov.u64 %rd11, {second};"
        "selp.b64 %rd10, %rd10, %rd11, %p1; cvt.rn.f32.u32 %f0, %gid;"
        "tex.1d.v4.f32.f32 {%f1, _, _, _}, [%rd10, {%f0}];",
        dtype=np.float32,
        result="%f1",
    )
    assert got.tolist() == [1] + [2] * 4 + [4] * 27


# -- linear memory -------------------------------------------------------------------------------


FETCH = "mov.u64 %rd10, {}; tex.1d.v4.f32.s32 {{%f1, %f2, %f3, %f4}}, [%rd10, {{%gid}}];"


def test_linear_memory_by_number():
    data = RANDOM.random(64, np.float32)
    handle = texture(data, "linear", channels=2, linear=True)  # a filter is ignored there
    got = per_thread(FETCH.format(handle), dtype=np.float32, result="%f2")
    assert (got == data[1::2]).all()


def test_rows_in_memory():
    data = RANDOM.random((3, 8), np.float32)
    x, y = np.float32([0.5, 6, 7.9]), np.float32([2.5, 1, 0])
    assert (read(texture(data, "pitch"), "2d", x, y) == data[[2, 1, 0], [0, 6, 7]]).all()


def test_an_index_outside_linear_memory():
    handle = texture(np.zeros(20, np.float32), "linear")
    with pytest.raises(
        MemoryAccessError,
        match=r"element 20 of linear memory of 20 elements of "
        r"float32; guard the index[^$]*thread 20 of block 0",
    ):
        per_thread(FETCH.format(handle))


def test_checkers_hear_of_reads():
    handle = texture(np.zeros(32, np.float32), "linear", written=False)
    with virtualgpu.check() as report:
        per_thread(FETCH.format(handle), dtype=np.float32, result="%f1")
    assert [one.kind for one in report.findings] == ["uninitialised"]
    where = texels(np.zeros(32, np.float32), "linear")
    handle = devices.current().create_texture(where, Sampler())
    with virtualgpu.check() as report:
        per_thread(
            f"mov.u64 %rd9, {where.address}; setp.eq.u32 %p1, %gid, 40;"
            f"@%p1 st.global.u32 [%rd9], 1; {FETCH.format(handle)}".replace(
                "[%rd10, {%gid}", "[%rd10, {%tid}"
            ),
            block=32,
            grid=2,
            dtype=np.float32,
            result="%f1",
        )
    assert [one.kind for one in report.findings] == ["race"]
    with virtualgpu.profile() as counted:
        per_thread(FETCH.format(handle), dtype=np.float32, result="%f1")
    assert counted.launches[0].counters.global_loads == 32


# -- surfaces ------------------------------------------------------------------------------------


def surface(data, **more):
    where = texels(data, writable=True, **more)
    return devices.current().create_surface(where), where


def held(where, data):
    return devices.current().read(where.address, data.nbytes).view(data.dtype).reshape(data.shape)


@pytest.mark.parametrize(("bits", "width"), [(8, 1), (8, 4), (16, 2), (32, 1), (32, 4), (64, 2)])
def test_surfaces_move_bytes(bits, width):
    size = bits // 8 * width
    data = RANDOM.integers(0, 256, (4, 8 * size), np.uint8)
    handle, _ = surface(data)
    other = np.zeros_like(data)
    target, there = surface(other)
    vector = "" if width == 1 else f".v{width}"
    bank = {8: "%h", 16: "%h", 32: "%r1", 64: "%rd2"}[bits]
    items = ", ".join(f"{bank}{i}" for i in range(width))
    per_thread(
        f"mov.u64 %rd10, {handle}; mov.u64 %rd11, {target}; and.b32 %r2, %gid, 7;"
        f"mul.lo.u32 %r2, %r2, {size}; shr.u32 %r3, %gid, 3; sub.u32 %r4, 3, %r3;"
        f"suld.b.2d{vector}.b{bits}.trap {{{items}}}, [%rd10, {{%r2, %r3}}];"
        f"sust.b.2d{vector}.b{bits}.trap [%rd11, {{%r2, %r4}}], {{{items}}}; mov.u32 %r0, 0;"
    )
    assert (held(there, other) == data[::-1]).all()


@pytest.mark.parametrize("geometry", ["1d", "2d", "3d", "a2d"])
def test_boundaries_of_surfaces(geometry):
    dims = {"1d": 1, "2d": 2}.get(geometry, 3)
    data = np.arange(1, 1 + 4**dims, dtype=np.uint32).reshape((4,) * dims)
    handle, where = surface(data, layered=geometry == "a2d")
    place = {"1d": "{%r2}", "2d": "{%r2, 1}", "3d": "{%r2, 1, 2, 0}", "a2d": "{2, %r2, 1, 0}"}[
        geometry
    ]
    row = data if dims == 1 else data[1] if dims == 2 else data[2, 1]
    start = f"mov.u64 %rd10, {handle}; mad.lo.s32 %r2, %gid, 4, -8;"
    for mode, outside in (("zero", (0, 0)), ("clamp", (row[0], row[3]))):
        got = per_thread(
            f"{start} suld.b.{geometry}.b32.{mode} {{%r0}}, [%rd10, {place}];", block=8
        )
        assert got.tolist() == [outside[0]] * 2 + row.tolist() + [outside[1]] * 2
    with pytest.raises(
        MemoryAccessError, match=r"\(-8.*the first coordinate counts bytes.*guard the coord"
    ):
        per_thread(f"{start} suld.b.{geometry}.b32.trap {{%r0}}, [%rd10, {place}];", block=8)
    store = start + "mul.lo.u32 %r3, %gid, 100; sust.b.{}.b32.{} [%rd10, {}], {{%r3}};"
    per_thread(store.format(geometry, "zero", place), block=8)
    wanted = data.copy()
    wanted[(*([] if dims == 1 else [1] if dims == 2 else [2, 1]),)] = [200, 300, 400, 500]
    assert (held(where, data) == wanted).all()
    per_thread(store.format(geometry, "clamp", place), block=8)
    assert held(where, data)[wanted != data].tolist() == [200, 300, 400, 700]
    with pytest.raises(MemoryAccessError, match=r"thread 0 of block 0"):
        per_thread(store.format(geometry, "trap", place), block=8)


def test_races_on_surfaces():
    handle, _ = surface(np.zeros(4, np.uint32))
    with virtualgpu.check() as report:
        per_thread(
            f"mov.u64 %rd10, {handle}; sust.b.1d.b32.trap [%rd10, {{0}}], {{%gid}};mov.u32 %r0, 0;",
            block=64,
        )
    assert [one.kind for one in report.findings] == ["race"]


# -- misuse --------------------------------------------------------------------------------------


def test_coordinates_of_surfaces_count_bytes():
    handle, _ = surface(np.zeros(32, np.float32))
    with pytest.raises(
        MisalignedAddressError,
        match=r"x is 1, .* multiple of the 4 .*multiply "
        r"it by the size of an element\s.*thread 1 of block 0",
    ):
        per_thread(f"mov.u64 %rd10, {handle}; suld.b.1d.b32.trap {{%r0}}, [%rd10, {{%gid}}];")


def test_numbers_that_are_no_textures():
    data = np.zeros(32, np.float32)
    where = texels(data, writable=True)
    device = devices.current()
    gone = device.create_texture(where, Sampler())
    device.destroy(gone)
    x = np.zeros(3, np.float32)
    for number, words in (
        (gone, "destroyed; keep it"),
        (0, "no such object; pass what"),
        (where.address, "the address of an array; create an object"),
        (device.create_surface(where), "needs a texture object.*a surface"),
    ):
        with pytest.raises(MemoryAccessError, match=f"{words}[^$]*kernel k, thread 0 of block 0"):
            read(number, "1d", x)
    with pytest.raises(VirtualGPUError, match="no texture or surface object"):
        device.destroy(gone)
    handle = device.create_texture(where, Sampler())
    device.free(where.address)
    with pytest.raises(MemoryAccessError, match=r"freed \(use after free\)"):
        read(handle, "1d", x)


def test_objects_of_another_device():
    first, second = several(2)
    with devices.use(first):
        handle = texture(np.zeros(4, np.float32))
    with (
        devices.use(second),
        pytest.raises(
            MemoryAccessError, match="an object of device 0, but this is device 1; create one on"
        ),
    ):
        read(handle, "1d", np.zeros(3, np.float32))


def test_reads_that_do_not_fit():
    x = np.zeros(3, np.float32)
    flat, linear = texture(np.zeros((3, 4), np.float32)), texture(np.zeros(4, np.float32), "linear")
    with pytest.raises(MemoryAccessError, match=r"4 x 3 elements of float32, .* read by tex2D"):
        read(flat, "1d", x)
    with pytest.raises(MemoryAccessError, match="read by tex1Dfetch and an integer"):
        read(linear, "1d", x)
    with pytest.raises(MemoryAccessError, match="read by tex1D"):
        per_thread(FETCH.format(texture(np.zeros(4, np.float32))))
    with pytest.raises(MemoryAccessError, match=r"reads integers from .* 4 x 3.*name the"):
        read(flat, "2d", x, x, dtype=np.int32)
    with pytest.raises(MemoryAccessError, match=r"reads floats from .* 4 elements of u"):
        read(texture(np.zeros(4, np.uint8)), "1d", x)


def test_objects_that_cuda_does_not_make():
    device = devices.current()
    good = np.zeros(16, np.float32)
    with pytest.raises(VirtualGPUError, match=r"linear filtering of int32.*cudaFilterModePoint$"):
        texture(good.view(np.int32), linear=True)
    with pytest.raises(VirtualGPUError, match=r"linear filtering of uint8.*NormalizedFloat"):
        texture(good.view(np.uint8), linear=True)
    with pytest.raises(VirtualGPUError, match="a border colour for uint8"):
        texture(good.view(np.uint8), border=(1, 0, 0, 0))
    with pytest.raises(VirtualGPUError, match="3 channels of float32"):
        texture(np.zeros(12, np.float32), channels=3)
    with pytest.raises(VirtualGPUError, match="1 channel of float64"):
        texture(good.astype(np.float64))
    address = texels(good).address
    for where, words in (
        (Texels("linear", address + 4, good.dtype, 1, (2,), 8), "multiple of 512"),
        (Texels("pitch", address, good.dtype, 1, (6, 2), 24), "pitch must be a multiple of 32"),
        (Texels("pitch", address, good.dtype, 1, (16, 2), 32), "at least a row's length"),
        (Texels("linear", address, good.dtype, 1, (17,), 68), "a texture of 68 bytes at"),
        (Texels("linear", address, good.dtype, 1, (0,), 0), "every dimension must be at least 1"),
    ):
        with pytest.raises(VirtualGPUError, match=words):
            device.create_texture(where, Sampler())
    with pytest.raises(VirtualGPUError, match="cudaArraySurfaceLoadStore"):
        device.create_surface(texels(good))
    with pytest.raises(VirtualGPUError, match="surfaces need a CUDA array"):
        device.create_surface(texels(good, "linear", writable=True))


@pytest.mark.parametrize(
    "text",
    [
        "tex.level.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd10, {%f0, %f0}], %f0;",
        "tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd10, {%f0, %f0, %f0, %f0}];",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd10, {%f0, %f0}], {%r1, %r1};",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p1, [%rd10, {%f0, %f0}];",
        "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd10, {%r1, %r1}];",
        "tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd10, {%f0, %f0}];",
        "sust.p.1d.b32.trap [%rd10, {%r1}], {%r1};",
        "sured.b.add.1d.u32.trap [%rd10, {%r1}], %r1;",
        "txq.width.b32 %r0, [%rd10];",
    ],
)
def test_what_is_lacking_is_named(text):
    with pytest.raises(UnsupportedInstruction, match=r"it supports textures.*no mipmaps"):
        per_thread(text)
