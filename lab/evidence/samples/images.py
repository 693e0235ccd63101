"""Textures and surfaces: what reads between pixels, and beyond the edge."""

from __future__ import annotations

import cupy
import numpy as np
from cupy.cuda import runtime, texture

from lab.evidence.samples.sample import Samples

SAMPLES = Samples()
RANDOM = np.random.default_rng(9)
XY = """int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;"""


def array_of(data: np.ndarray, flags: int = 0) -> texture.CUDAarray:
    """A CUDA array with the elements of an image."""
    kind = {"f": runtime.cudaChannelFormatKindFloat, "u": runtime.cudaChannelFormatKindUnsigned}[
        data.dtype.kind
    ]
    made = texture.CUDAarray(
        texture.ChannelFormatDescriptor(8 * data.itemsize, 0, 0, 0, kind),
        *data.shape[::-1],
        flags=flags,
    )
    made.copy_from(data)
    return made


def resource(array: texture.CUDAarray) -> texture.ResourceDescriptor:
    return texture.ResourceDescriptor(runtime.cudaResourceTypeArray, array)


@SAMPLES.add(
    "image rotated by an interpolating texture that wraps",
    f"""
extern "C" __global__ void rotate(cudaTextureObject_t image, float *out, int w, int h, float angle)
{{
    {XY}
    if (x >= w || y >= h) return;
    float u = (x + 0.5f) / w - 0.5f, v = (y + 0.5f) / h - 0.5f;
    out[y * w + x] = tex2D<float>(image, u * cosf(angle) - v * sinf(angle) + 0.5f,
                                  v * cosf(angle) + u * sinf(angle) + 0.5f);
}}""",
)
def _(k):
    h, w, angle = 48, 64, 0.7
    y, x = np.mgrid[:h, :w]
    # Smooth: the eight bits of a weight then make a difference of 4e-5 at most.
    image = (0.1 * np.cos(2 * np.pi * x / w) * np.cos(2 * np.pi * y / h)).astype(np.float32)
    read = texture.TextureObject(
        resource(array_of(image)),
        texture.TextureDescriptor(
            (runtime.cudaAddressModeWrap,) * 2, runtime.cudaFilterModeLinear, normalizedCoords=1
        ),
    )
    out = np.zeros_like(image)
    k("rotate", (4, 3), (16, 16), read, out, w, h, angle)
    u, v = (x + 0.5) / w - 0.5, (y + 0.5) / h - 0.5
    column = (u * np.cos(angle) - v * np.sin(angle) + 0.5) * w - 0.5
    row = (v * np.cos(angle) + u * np.sin(angle) + 0.5) * h - 0.5
    i, j = np.floor(column).astype(int), np.floor(row).astype(int)
    a, b = column - i, row - j
    yield (
        out,
        sum(
            image[(j + below) % h, (i + right) % w]
            * (b if below else 1 - b)
            * (a if right else 1 - a)
            for below in (0, 1)
            for right in (0, 1)
        ),
    )


@SAMPLES.add(
    "brightness of a picture of bytes, read as floats from linear memory",
    """
extern "C" __global__ void brightness(cudaTextureObject_t picture, float *sum, int n)
{
    float mine = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) mine += tex1Dfetch<float>(picture, i);
    atomicAdd(sum, mine);
}""",
)
def _(k):
    picture, total = cupy.asarray(RANDOM.integers(0, 256, 1000, np.uint8)), np.zeros(1, np.float32)
    read = texture.TextureObject(
        texture.ResourceDescriptor(
            runtime.cudaResourceTypeLinear,
            arr=picture,
            sizeInBytes=picture.nbytes,
            chDesc=texture.ChannelFormatDescriptor(
                8, 0, 0, 0, runtime.cudaChannelFormatKindUnsigned
            ),
        ),
        texture.TextureDescriptor(readMode=runtime.cudaReadModeNormalizedFloat),
    )
    k("brightness", 1, 64, read, total, 1000)
    yield total, np.float32([picture.get().sum() / 255])


@SAMPLES.add(
    "blurred image, from a texture that clamps to a surface",
    f"""
extern "C" __global__ void blur(cudaTextureObject_t in, cudaSurfaceObject_t out, int w, int h)
{{
    {XY}
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int j = -1; j <= 1; j++)
        for (int i = -1; i <= 1; i++) sum += tex2D<float>(in, x + i + 0.5f, y + j + 0.5f);
    surf2Dwrite(sum / 9, out, x * sizeof(float), y);
}}""",
)
def _(k):
    image = RANDOM.random((20, 30), np.float32)
    blurred = array_of(np.zeros_like(image), runtime.cudaArraySurfaceLoadStore)
    read = texture.TextureObject(
        resource(array_of(image)), texture.TextureDescriptor((runtime.cudaAddressModeClamp,) * 2)
    )
    k("blur", (2, 2), (16, 16), read, texture.SurfaceObject(resource(blurred)), 30, 20)
    out = np.zeros_like(image)
    blurred.copy_to(out)
    wide = np.pad(image, 1, "edge")
    yield out, sum(wide[j : j + 20, i : i + 30] for j in range(3) for i in range(3)) / 9
