"""A thread for each element: vectors, images, complex planes, layouts of memory."""

from __future__ import annotations

import numpy as np

from lab.evidence.samples.sample import Samples

SAMPLES = Samples()
RANDOM = np.random.default_rng(1)
AT = "int i = blockIdx.x * blockDim.x + threadIdx.x;"


def floats(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


@SAMPLES.add(
    "vector addition",
    f"""
extern "C" __global__ void add(const float *a, const float *b, float *c, int n)
{{ {AT} if (i < n) c[i] = a[i] + b[i]; }}""",
)
def _(k):
    a, b, c = floats(1000), floats(1000), floats(1000)
    k("add", 8, 128, a, b, c, 1000)
    yield c, a + b


@SAMPLES.add(
    "grid-stride loop",
    f"""
extern "C" __global__ void square(float *x, int n)
{{ for ({AT} i < n; i += gridDim.x * blockDim.x) x[i] *= x[i]; }}""",
)
def _(k):
    x = floats(5000)
    wanted = x * x
    k("square", 3, 64, x, 5000)
    yield x, wanted


@SAMPLES.add(
    "saxpy",
    f"""
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n)
{{ {AT} if (i < n) y[i] = a * x[i] + y[i]; }}""",
)
def _(k):
    x, y = floats(777), floats(777)
    wanted = 2.5 * x + y
    k("saxpy", 7, 128, 2.5, x, y, 777)
    yield y, wanted


@SAMPLES.add(
    "matrix addition in two dimensions",
    r"""
extern "C" __global__ void add(const float *a, const float *b, float *c, int rows, int columns)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < columns && y < rows) c[y * columns + x] = a[y * columns + x] + b[y * columns + x];
}""",
)
def _(k):
    a, b, c = floats(37, 50), floats(37, 50), floats(37, 50)
    k("add", (4, 5), (16, 8), a, b, c, 37, 50)
    yield c, a + b


@SAMPLES.add(
    "colour to grey",
    f"""
extern "C" __global__ void grey(const uchar3 *in, unsigned char *out, int n)
{{
    {AT}
    if (i < n) out[i] = (77 * in[i].x + 151 * in[i].y + 28 * in[i].z) >> 8;
}}""",
)
def _(k):
    image, out = RANDOM.integers(0, 256, (900, 3), np.uint8), np.zeros(900, np.uint8)
    k("grey", 8, 128, image, out, 900)
    yield out, (image.astype(int) @ [77, 151, 28]) >> 8


ESCAPE = r"""
__device__ int rounds(double zr, double zi, double cr, double ci, int most)
{
    int n = 0;
    for (; n < most && zr * zr + zi * zi <= 4.0; n++) {
        double t = zr * zr - zi * zi + cr;
        zi = 2.0 * zr * zi + ci;
        zr = t;
    }
    return n;
}"""


def escape(z, c, most):
    n = np.zeros(z.shape, np.int32)
    for _ in range(most):
        here = z.real**2 + z.imag**2 <= 4
        n += here
        z = np.where(here, z * z + c, z)
    return n


@SAMPLES.add(
    "Mandelbrot set",
    ESCAPE
    + f"""
extern "C" __global__ void mandelbrot(int *out, int w, int h)
{{ {AT} if (i < w * h) out[i] = rounds(0, 0, i % w * 0.0625 - 2, i / w * 0.0625 - 1, 20); }}""",
    options=("--fmad=false",),
)
def _(k):
    out = np.zeros((32, 48), np.int32)
    k("mandelbrot", 12, 128, out, 48, 32)
    y, x = np.mgrid[:32, :48]
    c = x * 0.0625 - 2 + 1j * (y * 0.0625 - 1)
    yield out, escape(0 * c, c, 20)


@SAMPLES.add(
    "Julia set",
    ESCAPE
    + f"""
extern "C" __global__ void julia(int *out, int w, int h)
{{
    {AT}
    if (i < w * h) out[i] = rounds(i % w * 0.125 - 2, i / w * 0.125 - 2, -0.75, 0.125, 30);
}}""",
    options=("--fmad=false",),
)
def _(k):
    out = np.zeros((32, 32), np.int32)
    k("julia", 8, 128, out, 32, 32)
    y, x = np.mgrid[:32, :32]
    z = x * 0.125 - 2 + 1j * (y * 0.125 - 2)
    yield out, escape(z, -0.75 + 0.125j, 30)


@SAMPLES.add(
    "structure of arrays and array of structures",
    f"""
struct Particle {{ float x, y, mass; }};
extern "C" __global__ void split(const Particle *p, float *x, float *y, float *mass, int n)
{{ {AT} if (i < n) {{ Particle one = p[i]; x[i] = one.x; y[i] = one.y; mass[i] = one.mass; }} }}
extern "C" __global__ void together(const float *x, const float *y, const float *mass,
                                    Particle *p, int n)
{{ {AT} if (i < n) p[i] = Particle{{x[i], y[i], mass[i]}}; }}""",
)
def _(k):
    p, again = floats(300, 3), floats(300, 3)
    x, y, mass = floats(300), floats(300), floats(300)
    k("split", 3, 128, p, x, y, mass, 300)
    k("together", 3, 128, x, y, mass, again, 300)
    yield from zip((x, y, mass), p.T, strict=True)
    yield again, p


@SAMPLES.add(
    "loads of float4",
    f"""
extern "C" __global__ void scale(float4 *x, float a, int n)
{{
    {AT}
    if (i < n) {{ float4 v = x[i]; v.x *= a; v.y *= a; v.z *= a; v.w *= a; x[i] = v; }}
}}""",
)
def _(k):
    x = floats(400)
    wanted = 3 * x
    k("scale", 1, 100, x, 3.0, 100)
    yield x, wanted


@SAMPLES.add(
    "gather and scatter",
    f"""
extern "C" __global__ void permute(const float *x, const int *to, float *moved, float *back, int n)
{{ {AT} if (i < n) {{ moved[to[i]] = x[i]; back[i] = x[to[i]]; }} }}""",
)
def _(k):
    x, to = floats(500), RANDOM.permutation(500).astype(np.int32)
    moved, back = floats(500), floats(500)
    k("permute", 4, 128, x, to, moved, back, 500)
    scattered = np.empty_like(x)
    scattered[to] = x
    yield moved, scattered
    yield back, x[to]


@SAMPLES.add(
    "polynomial from constant memory",
    f"""
__constant__ float coefficient[6];
extern "C" __global__ void horner(const float *x, float *y, int n)
{{
    {AT}
    if (i >= n) return;
    float sum = 0;
    for (int j = 5; j >= 0; j--) sum = sum * x[i] + coefficient[j];
    y[i] = sum;
}}""",
)
def _(k):
    x, y, c = floats(300), floats(300), floats(6)
    k.constant("coefficient", c)
    k("horner", 3, 128, x, y, 300)
    yield y, np.polyval(c[::-1].astype(np.float64), x)


@SAMPLES.add(
    "half precision axpy",
    f"""
#include <cuda_fp16.h>
extern "C" __global__ void axpy(const __half2 *x, __half2 *y, int n)
{{ {AT} if (i < n) y[i] = __hfma2(__float2half2_rn(0.5f), x[i], y[i]); }}""",
)
def _(k):
    x, y = floats(256).astype(np.float16), floats(256).astype(np.float16)
    wanted = x * np.float16(0.5) + y
    k("axpy", 1, 128, x, y, 128)
    yield y, wanted


@SAMPLES.add(
    "bits: reversal, population, leading zeros",
    f"""
extern "C" __global__ void bits(const unsigned *x, unsigned *r, int *p, int *z, int n)
{{ {AT} if (i < n) {{ r[i] = __brev(x[i]); p[i] = __popc(x[i]); z[i] = __clz(x[i]); }} }}""",
)
def _(k):
    x = RANDOM.integers(0, 2**32, 100, np.uint32)
    r, p, z = np.zeros_like(x), np.zeros(100, np.int32), np.zeros(100, np.int32)
    k("bits", 1, 128, x, r, p, z, 100)
    text = [f"{v:032b}" for v in x]
    yield r, [int(t[::-1], 2) for t in text]
    yield p, [t.count("1") for t in text]
    yield z, [32 - len(t.lstrip("0")) for t in text]


@SAMPLES.add(
    "Monte Carlo: pi by an own generator",
    f"""
__device__ double next(unsigned long long &state)
{{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 11) * (1.0 / 9007199254740992.0);
}}
extern "C" __global__ void inside(int *hits, int rounds)
{{
    {AT}
    unsigned long long state = i * 7919ull + 1;
    int count = 0;
    for (int j = 0; j < rounds; j++) {{
        double x = next(state), y = next(state);
        count += x * x + y * y < 1.0;
    }}
    hits[i] = count;
}}""",
    options=("--fmad=false",),
)
def _(k):
    hits = np.zeros(256, np.int32)
    k("inside", 2, 128, hits, 50)
    state, wanted = np.arange(256, dtype=np.uint64) * np.uint64(7919) + np.uint64(1), 0
    for _ in range(50):
        point = []
        for _ in range(2):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            point.append((state >> np.uint64(11)) / 2**53)
        wanted = wanted + (point[0] ** 2 + point[1] ** 2 < 1)
    yield hits, wanted
    yield np.array(abs(4 * hits.sum() / 12800 - np.pi) < 0.1), np.array(True)


@SAMPLES.add(
    "Black-Scholes prices",
    f"""
__device__ float normal(float d) {{ return 0.5f * erfcf(-d * 0.70710678f); }}
extern "C" __global__ void price(const float *s, const float *x, const float *t, float *call, int n)
{{
    {AT}
    if (i >= n) return;
    float r = 0.02f, v = 0.3f, root = sqrtf(t[i]);
    float d1 = (logf(s[i] / x[i]) + (r + 0.5f * v * v) * t[i]) / (v * root), d2 = d1 - v * root;
    call[i] = s[i] * normal(d1) - x[i] * expf(-r * t[i]) * normal(d2);
}}""",
)
def _(k):
    from math import erfc

    s, x = (RANDOM.uniform(5, 30, 200).astype(np.float32) for _ in range(2))
    t, call = RANDOM.uniform(0.25, 10, 200).astype(np.float32), floats(200)
    k("price", 2, 128, s, x, t, call, 200)
    wanted = []
    for a, b, c in zip(*(v.astype(float) for v in (s, x, t)), strict=True):
        d = (np.log(a / b) + (0.02 + 0.045) * c) / (0.3 * c**0.5)
        one, two = (0.5 * erfc(-v / 2**0.5) for v in (d, d - 0.3 * c**0.5))
        wanted.append(a * one - b * np.exp(-0.02 * c) * two)
    yield call, wanted
