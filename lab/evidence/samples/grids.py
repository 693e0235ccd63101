"""Stencils, images, bodies: threads that share tiles and neighbours."""

from __future__ import annotations

import numpy as np

from lab.evidence.samples.sample import Samples

SAMPLES = Samples()
RANDOM = np.random.default_rng(4)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


XY = """int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;"""


@SAMPLES.add(
    "stencil of one dimension in shared memory",
    r"""
extern "C" __global__ void stencil(const int *in, int *out, int n)
{
    __shared__ int s[64 + 6];
    int i = blockIdx.x * 64 + threadIdx.x, t = threadIdx.x + 3;
    s[t] = i < n ? in[i] : 0;
    if (threadIdx.x < 3) {
        s[t - 3] = i >= 3 ? in[i - 3] : 0;
        s[t + 64] = i + 64 < n ? in[i + 64] : 0;
    }
    __syncthreads();
    int sum = 0;
    for (int k = -3; k <= 3; k++) sum += s[t + k];
    if (i < n) out[i] = sum;
}""",
)
def _(k):
    x, y = RANDOM.integers(-9, 9, 500, np.int32), np.zeros(500, np.int32)
    k("stencil", 8, 64, x, y, 500)
    yield y, np.convolve(x, np.ones(7, int), "same")


@SAMPLES.add(
    "stencil of three dimensions",
    r"""
extern "C" __global__ void laplace(const float *u, float *v, int n)
{
    int x = threadIdx.x + 1, y = threadIdx.y + 1, z = blockIdx.x + 1;
    int i = (z * n + y) * n + x;
    v[i] = u[i - 1] + u[i + 1] + u[i - n] + u[i + n] + u[i - n * n] + u[i + n * n] - 6 * u[i];
}""",
)
def _(k):
    u, v = floats(10, 10, 10), np.zeros((10, 10, 10), np.float32)
    k("laplace", 8, (8, 8), u, v, 10)
    wanted, inner = np.zeros_like(u), slice(1, -1)
    wanted[inner, inner, inner] = (
        sum(np.roll(u, s, axis)[inner, inner, inner] for axis in range(3) for s in (-1, 1))
        - 6 * u[inner, inner, inner]
    )
    yield v, wanted


@SAMPLES.add(
    "convolution, weights in constant memory",
    f"""
__constant__ float weight[3][3];
extern "C" __global__ void convolve(const float *in, float *out, int w, int h)
{{
    {XY}
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int j = -1; j <= 1; j++)
        for (int i = -1; i <= 1; i++)
            if (x + i >= 0 && x + i < w && y + j >= 0 && y + j < h)
                sum += weight[j + 1][i + 1] * in[(y + j) * w + x + i];
    out[y * w + x] = sum;
}}""",
)
def _(k):
    image, out, weight = floats(30, 40), floats(30, 40), floats(3, 3)
    k.constant("weight", weight)
    k("convolve", (3, 4), (16, 8), image, out, 40, 30)
    wide = np.pad(image, 1)
    yield out, sum(weight[j, i] * wide[j : j + 30, i : i + 40] for j in range(3) for i in range(3))


@SAMPLES.add(
    "separable filter, rows in shared memory",
    r"""
extern "C" __global__ void rows(const float *in, float *out, int w)
{
    extern __shared__ float row[];
    const float *from = in + blockIdx.x * w;
    for (int i = threadIdx.x; i < w; i += blockDim.x) row[i] = from[i];
    __syncthreads();
    for (int i = threadIdx.x; i < w; i += blockDim.x) {
        float left = row[i > 0 ? i - 1 : 0], right = row[i < w - 1 ? i + 1 : w - 1];
        out[blockIdx.x * w + i] = 0.25f * left + 0.5f * row[i] + 0.25f * right;
    }
}""",
)
def _(k):
    image, out = floats(12, 100), floats(12, 100)
    k("rows", 12, 64, image, out, 100, shared=400)
    wide = np.pad(image, ((0, 0), (1, 1)), "edge")
    yield out, 0.25 * wide[:, :-2] + 0.5 * image + 0.25 * wide[:, 2:]


@SAMPLES.add(
    "Sobel edges",
    f"""
extern "C" __global__ void sobel(const int *p, int *out, int w, int h)
{{
    {XY}
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
    const int *c = p + y * w + x;
    int gx = c[1 - w] + 2 * c[1] + c[1 + w] - c[-1 - w] - 2 * c[-1] - c[w - 1];
    int gy = c[w - 1] + 2 * c[w] + c[w + 1] - c[-w - 1] - 2 * c[-w] - c[1 - w];
    out[y * w + x] = abs(gx) + abs(gy);
}}""",
)
def _(k):
    image, out = RANDOM.integers(0, 256, (20, 30), np.int32), np.zeros((20, 30), np.int32)
    k("sobel", (2, 3), (16, 8), image, out, 30, 20)
    smooth = [image[j : j + 18, i : i + 28] for j in range(3) for i in range(3)]
    a, b, c, d, _, f, g, h, m = smooth
    wanted = np.zeros_like(image)
    wanted[1:-1, 1:-1] = abs(c + 2 * f + m - a - 2 * d - g) + abs(g + 2 * h + m - a - 2 * b - c)
    yield out, wanted


@SAMPLES.add(
    "Jacobi iteration",
    f"""
extern "C" __global__ void jacobi(const double *u, double *v, int n)
{{
    {XY}
    if (x >= n || y >= n) return;
    bool edge = x == 0 || y == 0 || x == n - 1 || y == n - 1;
    int i = y * n + x;
    v[i] = edge ? u[i] : 0.25 * (u[i - 1] + u[i + 1] + u[i - n] + u[i + n]);
}}""",
)
def _(k):
    u = np.zeros((20, 20))
    u[0] = 1
    wanted, v = u.copy(), u.copy()
    for _ in range(6):
        k("jacobi", (3, 3), (8, 8), u, v, 20)
        u, v = v, u
        wanted[1:-1, 1:-1] = (
            wanted[1:-1, :-2] + wanted[1:-1, 2:] + wanted[:-2, 1:-1] + wanted[2:, 1:-1]
        ) / 4
    yield u, wanted


@SAMPLES.add(
    "heat equation",
    r"""
extern "C" __global__ void step(const float *u, float *v, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) v[i] = u[i] + a * (u[(i + n - 1) % n] - 2 * u[i] + u[(i + 1) % n]);
}""",
)
def _(k):
    u, v = floats(100), floats(100)
    wanted = u.copy()
    for _ in range(5):
        k("step", 1, 128, u, v, 0.25, 100)
        u, v = v, u
        wanted = wanted + 0.25 * (np.roll(wanted, 1) - 2 * wanted + np.roll(wanted, -1))
    yield u, wanted


@SAMPLES.add(
    "game of life",
    f"""
extern "C" __global__ void live(const unsigned char *a, unsigned char *b, int w, int h)
{{
    {XY}
    if (x >= w || y >= h) return;
    int count = 0;
    for (int j = -1; j <= 1; j++)
        for (int i = -1; i <= 1; i++)
            if (i || j) count += a[(y + j + h) % h * w + (x + i + w) % w];
    b[y * w + x] = count == 3 || (count == 2 && a[y * w + x]);
}}""",
)
def _(k):
    a = RANDOM.integers(0, 2, (24, 40), np.uint8)
    b = np.zeros_like(a)
    count = sum(np.roll(a, (j, i), (0, 1)) for j in (-1, 0, 1) for i in (-1, 0, 1)) - a
    k("live", (3, 3), (16, 8), a, b, 40, 24)
    yield b, (count == 3) | ((count == 2) & (a == 1))


@SAMPLES.add(
    "n bodies by tiles",
    r"""
extern "C" __global__ void forces(const float4 *body, float3 *force, int n)
{
    __shared__ float4 tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float4 me = i < n ? body[i] : make_float4(0, 0, 0, 0);
    float3 f = make_float3(0, 0, 0);
    for (int at = 0; at < n; at += 64) {
        tile[threadIdx.x] = at + threadIdx.x < n ? body[at + threadIdx.x] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int j = 0; j < 64; j++) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = tile[j].w * r * r * r;
            f.x += dx * s;
            f.y += dy * s;
            f.z += dz * s;
        }
        __syncthreads();
    }
    if (i < n) force[i] = f;
}""",
)
def _(k):
    body, force = floats(100, 4), floats(100, 3)
    k("forces", 2, 64, body, force, 100)
    d = body[None, :, :3] - body[:, None, :3]
    yield force, (d * (body[:, 3] / ((d**2).sum(2) + 0.01) ** 1.5)[..., None]).sum(1)


@SAMPLES.add(
    "all shortest paths (Floyd and Warshall)",
    f"""
extern "C" __global__ void relax(int *d, int n, int k)
{{
    {XY}
    if (x < n && y < n && x != k && y != k)
        d[y * n + x] = min(d[y * n + x], d[y * n + k] + d[k * n + x]);
}}""",
)
def _(k):
    d = RANDOM.integers(1, 99, (20, 20), np.int32)
    np.fill_diagonal(d, 0)
    wanted = d.copy()
    for i in range(20):
        k("relax", (3, 3), (8, 8), d, 20, i)
        wanted = np.minimum(wanted, wanted[:, i : i + 1] + wanted[i : i + 1])
    yield d, wanted
