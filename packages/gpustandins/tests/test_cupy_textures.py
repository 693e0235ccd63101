"""``cupy.cuda.texture`` of the stand-in: kernels in CUDA C++ that read textures and surfaces."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import virtualgpu
from virtualgpu.errors import MemoryAccessError

RANDOM = np.random.default_rng(5)
SOURCE = r"""
extern "C" {
__global__ void fetched(cudaTextureObject_t t, float *out)
{ out[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x); }
__global__ void doubles(cudaTextureObject_t t, double *out)
{ int2 v = tex1Dfetch<int2>(t, threadIdx.x); out[threadIdx.x] = __hiloint2double(v.y, v.x); }
__global__ void along(cudaTextureObject_t t, const float *x, float *out)
{ out[threadIdx.x] = tex1D<float>(t, x[threadIdx.x]); }
__global__ void plane(cudaTextureObject_t t, const float *x, const float *y, float *out)
{ out[threadIdx.x] = tex2D<float>(t, x[threadIdx.x], y[threadIdx.x]); }
__global__ void space(cudaTextureObject_t t, float x, float y, float z, float *out)
{ *out = tex3D<float>(t, x, y, z); }
__global__ void layer(cudaTextureObject_t t, float x, float y, int n, float *out)
{ *out = tex2DLayered<float>(t, x, y, n); }
__global__ void pixel(cudaTextureObject_t t, uchar4 *out, int w)
{ out[threadIdx.y * w + threadIdx.x] = tex2D<uchar4>(t, threadIdx.x + 0.5f, threadIdx.y + 0.5f); }
__global__ void bright(cudaTextureObject_t t, float4 *out) { *out = tex2D<float4>(t, 1.5f, 0.5f); }
__global__ void turned(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int h)
{
    short2 v = surf2Dread<short2>(from, sizeof(v) * threadIdx.x, threadIdx.y);
    surf2Dwrite(v, to, sizeof(v) * threadIdx.x, h - 1 - threadIdx.y);
}
__global__ void unscaled(cudaSurfaceObject_t s) { surf2Dwrite(1.0f, s, threadIdx.x, threadIdx.y); }
}
"""


@pytest.fixture(scope="module")
def kernels(cp):
    return cp.RawModule(code=SOURCE)


@pytest.fixture(scope="module")
def t(cp):
    return cp.cuda.texture


@pytest.fixture(scope="module")
def run(cp, kernels):
    def run(name, block, *arguments):
        kernels.get_function(name)((1,), block, arguments)

    return run


def channels(cp, dtype, count=1):
    dtype = np.dtype(dtype)
    bits = [8 * dtype.itemsize] * count + [0] * (4 - count)
    kind = {"i": "Signed", "u": "Unsigned", "f": "Float"}[dtype.kind]
    return cp.cuda.texture.ChannelFormatDescriptor(
        *bits, getattr(cp.cuda.runtime, f"cudaChannelFormatKind{kind}")
    )


def cuda_array(cp, data, count=1, flags=0):
    """A CUDA array with the elements of a NumPy array."""
    width = data.shape[-1] // count
    made = cp.cuda.texture.CUDAarray(
        channels(cp, data.dtype, count), width, *data.shape[-2::-1], flags=flags
    )
    made.copy_from(data)
    return made


def of_array(cp, array, *mode, **more):
    r, t = cp.cuda.runtime, cp.cuda.texture
    return t.TextureObject(
        t.ResourceDescriptor(r.cudaResourceTypeArray, array), t.TextureDescriptor(*mode, **more)
    )


# -- arrays and copies ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("extents", [(67,), (67, 19), (67, 19, 5)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.int16, np.int32, np.uint8])
def test_copies_to_an_array_and_back(cp, t, dtype, extents, count):
    shape = (*extents[:0:-1], extents[0] * count)
    host = RANDOM.integers(0, 99, shape).astype(dtype)
    array = t.CUDAarray(channels(cp, dtype, count), *extents)
    assert array.ndim == len(extents)
    for given in (
        host,
        np.asfortranarray(host),
        cp.asarray(host),
        cp.asfortranarray(cp.asarray(host)),
    ):
        for out in (np.zeros_like(host), cp.zeros(shape, dtype)):
            array.copy_from(np.zeros_like(host))
            array.copy_from(given)
            array.copy_to(out, cp.cuda.Stream())
            assert (cp.asnumpy(out) == host).all()


def test_arrays_that_do_not_fit(cp, t):
    array = t.CUDAarray(channels(cp, np.float32, 2), 4, 3)
    with pytest.raises(ValueError, match=r"shape mismatch: \(3, 4\) instead of \(3, 8\)"):
        array.copy_from(np.zeros((3, 4), np.float32))
    with pytest.raises(ValueError, match="dtype mismatch: float64 instead of float32"):
        array.copy_to(np.zeros((3, 8)))
    with pytest.raises(ValueError, match="must be C-contiguous"):
        array.copy_to(np.zeros((8, 3), np.float32).T)
    with pytest.raises(ValueError, match="width must be nonzero"):
        t.CUDAarray(channels(cp, np.float32), 0)
    with pytest.raises(ValueError, match="height must be nonzero"):
        t.CUDAarray(channels(cp, np.float32), 2, 0, 2)
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="InvalidChannelDescriptor"):
        t.CUDAarray(t.ChannelFormatDescriptor(32, 32, 32, 0, 2), 4)
    with pytest.raises(NotImplementedError, match="cube maps"):
        t.CUDAarray(channels(cp, np.float32), 4, 4, 6, cp.cuda.runtime.cudaArrayCubemap)
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="the number of its layers"):
        t.CUDAarray(channels(cp, np.float32), 4, 4, 0, cp.cuda.runtime.cudaArrayLayered)


def test_descriptors_tell_what_they_were_made_of(cp, t):
    r, x = cp.cuda.runtime, cp.zeros((2, 8), np.float32)
    form = channels(cp, np.float32)
    assert form.get_channel_format() == {"x": 32, "y": 0, "z": 0, "w": 0, "f": 2}
    array = cuda_array(cp, x.get())
    assert t.ResourceDescriptor(0, array).get_resource_desc() == {
        "resType": 0,
        "array": {"array": array.ptr},
    }
    assert (
        t.ResourceDescriptor(
            r.cudaResourceTypeLinear, arr=x, chDesc=form, sizeInBytes=64
        ).get_resource_desc()["linear"]["sizeInBytes"]
        == 64
    )
    assert t.ResourceDescriptor(
        r.cudaResourceTypePitch2D, arr=x, chDesc=form, width=8, height=2, pitchInBytes=32
    ).get_resource_desc()["pitch2D"] == {
        "devPtr": x.data.ptr,
        "desc": form.get_channel_format(),
        "width": 8,
        "height": 2,
        "pitchInBytes": 32,
    }
    assert t.TextureDescriptor((1,), 1, 1, None, (0.5,), 1).get_texture_desc() == {
        "addressMode": (1, 0, 0),
        "filterMode": 1,
        "readMode": 1,
        "sRGB": 0,
        "borderColor": (0.5, 0, 0, 0),
        "normalizedCoords": 1,
        "maxAnisotropy": 0,
    }
    with pytest.raises(NotImplementedError, match="MipmappedArray is currently not supported"):
        t.ResourceDescriptor(r.cudaResourceTypeMipmappedArray)
    with pytest.raises(ValueError, match="needs cuArr; any other needs arr and chDesc"):
        t.ResourceDescriptor(r.cudaResourceTypeLinear, arr=x)
    with pytest.raises(NotImplementedError, match="convert the colours first"):
        t.TextureDescriptor(sRGB=1)


# -- kernels -------------------------------------------------------------------------------------


def test_linear_memory(cp, t, run):
    x, out = cp.asarray(RANDOM.random(32, np.float32)), cp.zeros(32, np.float32)
    linear = cp.cuda.runtime.cudaResourceTypeLinear
    texture = t.TextureObject(
        t.ResourceDescriptor(linear, arr=x, chDesc=channels(cp, np.float32), sizeInBytes=x.nbytes),
        t.TextureDescriptor(),
    )
    run("fetched", (32,), texture, out)
    assert (out == x).all()
    x[3] = 7  # the array itself, not a copy
    run("fetched", (32,), texture, out)
    assert out[3] == 7
    y, out = cp.asarray(RANDOM.random(16)), cp.zeros(16)
    run(
        "doubles",
        (16,),
        t.TextureObject(
            t.ResourceDescriptor(
                linear, arr=y, chDesc=channels(cp, np.int32, 2), sizeInBytes=y.nbytes
            ),
            t.TextureDescriptor(),
        ),
        out,
    )
    assert (out == y).all()


def test_interpolation_between_points(cp, run):
    data, x = np.float32([0, 10, 40, 90]), cp.asarray(np.float32([0, 0.5, 1, 1.25, 3.9, 9]))
    out = cp.zeros(6, np.float32)
    run("along", (6,), of_array(cp, cuda_array(cp, data), (1,), 1), x, out)
    assert out.get().tolist() == [0, 0, 5, 7.5, 90, 90]


def test_planes_by_rows_and_normalized(cp, t, run):
    r, data = cp.cuda.runtime, RANDOM.random((4, 8), np.float32)
    at = np.arange(32)
    there, out = cp.asarray(data), cp.zeros(32, np.float32)
    rows = t.TextureObject(
        t.ResourceDescriptor(
            r.cudaResourceTypePitch2D,
            arr=there,
            chDesc=channels(cp, np.float32),
            width=8,
            height=4,
            pitchInBytes=32,
        ),
        t.TextureDescriptor((r.cudaAddressModeWrap,) * 2, normalizedCoords=1),
    )
    x, y = (
        cp.asarray(one.astype(np.float32))
        for one in ((at % 8 + 0.5) / 8 - 2, (at // 8 + 0.5) / 4 + 1)
    )
    run("plane", (32,), rows, x, y, out)
    assert (out.get().reshape(4, 8) == data).all()


def test_space_and_layers(cp, run):
    data, out = np.arange(60, dtype=np.float32).reshape(3, 4, 5), cp.zeros(1, np.float32)
    run(
        "space",
        (1,),
        of_array(cp, cuda_array(cp, data), (1, 1, 1), 1),
        np.float32(2),
        np.float32(1),
        np.float32(1.5),
        out,
    )
    assert out[0] == (1.5 + 5 * 0.5 + 20)
    layers = cuda_array(cp, data, flags=cp.cuda.runtime.cudaArrayLayered)
    run(
        "layer",
        (1,),
        of_array(cp, layers, (1, 1), 1),
        np.float32(2),
        np.float32(1),
        np.int32(2),
        out,
    )
    assert out[0] == (1.5 + 5 * 0.5 + 40)


def test_pixels_of_four_channels(cp, run):
    data = RANDOM.integers(0, 256, (3, 16), np.uint8)
    array, out = cuda_array(cp, data, 4), cp.zeros((3, 16), np.uint8)
    run("pixel", (4, 3), of_array(cp, array), out, np.int32(4))
    assert (out.get() == data).all()
    bright = cp.zeros(4, np.float32)
    run("bright", (1,), of_array(cp, array, None, 0, 1), bright)
    np.testing.assert_allclose(bright.get(), data[0, 4:8] / 255, rtol=1e-6)


def test_surfaces_are_read_and_written(cp, t, run):
    data = RANDOM.integers(-99, 99, (3, 8), np.int16)
    stored = cp.cuda.runtime.cudaArraySurfaceLoadStore
    first, second = (cuda_array(cp, one, 2, stored) for one in (data, np.zeros_like(data)))
    surfaces = [t.SurfaceObject(t.ResourceDescriptor(0, one)) for one in (first, second)]
    run("turned", (4, 3), *surfaces, np.int32(3))
    out = np.zeros_like(data)
    second.copy_to(out)
    assert (out == data[::-1]).all()


def test_elementwise_kernels_take_textures(cp):
    texture = of_array(cp, cuda_array(cp, np.float32([0, 10, 40, 90])), (1,), 1)
    for declared in ("T x, U t", "float32 x, uint64 t"):
        read = cp.ElementwiseKernel(declared, "T y", "y = tex1D<float>(t, x)", "read")
        got = read(cp.asarray(np.float32([0.5, 1, 1.25])), texture, cp.zeros(3, np.float32))
        assert got.get().tolist() == [0, 5, 7.5]


# -- misuse --------------------------------------------------------------------------------------


def test_errors_name_line_and_thread(cp, t, run):
    x, out = cp.zeros(20, np.float32), cp.zeros(32, np.float32)
    short = t.TextureObject(
        t.ResourceDescriptor(2, arr=x, chDesc=channels(cp, np.float32), sizeInBytes=80),
        t.TextureDescriptor(),
    )
    with pytest.raises(
        MemoryAccessError,
        match=r"(?s)ILLEGAL_ADDRESS.*element 20 of linear "
        r"memory of 20 elements.*kernel fetched.*line 4, thread 20 of block 0",
    ):
        run("fetched", (32,), short, out)
    with pytest.raises(MemoryAccessError, match=r"(?s)no such object.*line 4"):
        run("fetched", (32,), np.uint64(1), out)
    with pytest.raises(MemoryAccessError, match=r"(?s)the address of an array; create an object"):
        run("fetched", (32,), x, out)
    array = cuda_array(
        cp, np.zeros((32, 4), np.float32), flags=cp.cuda.runtime.cudaArraySurfaceLoadStore
    )
    surface = t.SurfaceObject(t.ResourceDescriptor(0, array))
    with pytest.raises(
        MemoryAccessError, match=r"(?s)x counts bytes, so multiply.*kernel unscaled"
    ):
        run("unscaled", (8, 1), surface)


def test_an_object_ends_with_its_name(cp, run):
    out = cp.zeros(32, np.float32)
    texture = of_array(cp, cuda_array(cp, np.zeros(32, np.float32)))
    number = np.uint64(texture.ptr)
    run("along", (1,), number, out, out)
    del texture
    gc.collect()
    with pytest.raises(MemoryAccessError, match="destroyed; keep it until the launch"):
        run("along", (1,), number, out, out)


def test_objects_that_cuda_refuses(cp, t):
    wrong = cp.cuda.runtime.CUDARuntimeError
    with pytest.raises(wrong, match=r"(?s)InvalidFilterSetting.*only floats are interpolated"):
        of_array(cp, cuda_array(cp, np.zeros(4, np.int32)), None, 1)
    with pytest.raises(wrong, match=r"(?s)InvalidValue.*create the array with that flag") as error:
        t.SurfaceObject(t.ResourceDescriptor(0, cuda_array(cp, np.zeros(4, np.float32))))
    assert error.value.status == 1
    with pytest.raises(wrong, match="unknown address, filter or read mode"):
        of_array(cp, cuda_array(cp, np.zeros(4, np.float32)), (7,))


def test_check_hears_what_was_never_written(cp, t, run):
    array, out = t.CUDAarray(channels(cp, np.float32), 4, 2), cp.zeros(1, np.float32)
    x = cp.ones(1, np.float32)
    with virtualgpu.check() as report:
        run("plane", (1,), of_array(cp, array), x, x, out)
    assert [one.kind for one in report.findings] == ["uninitialised"]
    array.copy_from(np.zeros((2, 4), np.float32))
    with virtualgpu.check() as report:
        run("plane", (1,), of_array(cp, array), x, x, out)
    assert report.ok, report
