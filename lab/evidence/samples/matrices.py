"""Matrices: transposed, multiplied, dense and sparse."""

from __future__ import annotations

import numpy as np

from lab.evidence.samples.sample import Samples

SAMPLES = Samples()
RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


XY = """int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;"""
TILED = r"""
extern "C" __global__ void transpose(const float *in, float *out, int w, int h)
{{
    __shared__ float tile[16][16 + {pad}];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = in[y * w + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < h && y < w) out[y * h + x] = tile[threadIdx.x][threadIdx.y];
}}"""


def transposed(k):
    x, y = floats(33, 50), floats(50, 33)
    k("transpose", (4, 3), (16, 16), x, y, 50, 33)
    yield y, x.T


SAMPLES.add(
    "transposition, naive",
    f"""
extern "C" __global__ void transpose(const float *in, float *out, int w, int h)
{{ {XY} if (x < w && y < h) out[x * h + y] = in[y * w + x]; }}""",
)(transposed)
SAMPLES.add("transposition by tiles", TILED.format(pad=0))(transposed)
SAMPLES.add("transposition without bank conflicts", TILED.format(pad=1))(transposed)


def product(k):
    a, b, c = floats(20, 30), floats(30, 25), floats(20, 25)
    k("product", (4, 3), (8, 8), a, b, c, 20, 30, 25)
    yield c, a @ b


SAMPLES.add(
    "matrix product",
    f"""
extern "C" __global__ void product(const float *a, const float *b, float *c, int m, int k, int n)
{{
    {XY}
    if (x >= n || y >= m) return;
    float sum = 0;
    for (int i = 0; i < k; i++) sum += a[y * k + i] * b[i * n + x];
    c[y * n + x] = sum;
}}""",
)(product)
SAMPLES.add(
    "matrix product by tiles",
    f"""
extern "C" __global__ void product(const float *a, const float *b, float *c, int m, int k, int n)
{{
    __shared__ float p[8][8], q[8][8];
    {XY}
    int tx = threadIdx.x, ty = threadIdx.y;
    float sum = 0;
    for (int at = 0; at < k; at += 8) {{
        p[ty][tx] = y < m && at + tx < k ? a[y * k + at + tx] : 0;
        q[ty][tx] = x < n && at + ty < k ? b[(at + ty) * n + x] : 0;
        __syncthreads();
        for (int i = 0; i < 8; i++) sum += p[ty][i] * q[i][tx];
        __syncthreads();
    }}
    if (x < n && y < m) c[y * n + x] = sum;
}}""",
)(product)


@SAMPLES.add(
    "matrix times vector, a warp a row",
    r"""
extern "C" __global__ void multiply(const float *a, const float *x, float *y, int n)
{
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) sum += a[blockIdx.x * n + i] * x[i];
    for (int k = 16; k; k /= 2) sum += __shfl_down_sync(0xffffffff, sum, k);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}""",
)
def _(k):
    a, x, y = floats(40, 70), floats(70), floats(40)
    k("multiply", 40, 32, a, x, y, 70)
    yield y, a @ x


@SAMPLES.add(
    "sparse matrix (CSR) times vector",
    r"""
extern "C" __global__ void multiply(const int *begin, const int *column, const float *value,
                                    const float *x, float *y, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int j = begin[row]; j < begin[row + 1]; j++) sum += value[j] * x[column[j]];
    y[row] = sum;
}""",
)
def _(k):
    dense = floats(90, 60) * (RANDOM.random((90, 60)) < 0.1)
    row, column = np.nonzero(dense)
    begin = np.searchsorted(row, np.arange(91)).astype(np.int32)
    x, y = floats(60), floats(90)
    k(
        "multiply",
        2,
        64,
        begin,
        column.astype(np.int32),
        dense[row, column].astype(np.float32),
        x,
        y,
        90,
    )
    yield y, dense @ x
