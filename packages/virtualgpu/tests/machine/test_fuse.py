"""Hot blocks that are compiled give what the table of operations gives, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from virtualgpu.machine import fuse

SOURCE = r"""
#include <cuda_fp16.h>
extern "C" {
__global__ void mandelbrot(int *out, int n, float step) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float cx = -2.0f + step * (i % 64), cy = -1.2f + step * (i / 64), x = 0, y = 0;
    int k = 0;
    while (k < 200 && x * x + y * y < 4.0f) {
        float t = x * x - y * y + cx;
        y = 2 * x * y + cy; x = t; k++;
    }
    out[i] = k;
}
__global__ void integers(long long *out, const int *a, const int *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i], y = b[i];
    long long r = (long long)x * y;
    r ^= (unsigned)x >> (y & 31); r += __popc(x) - __clz(y) + __brev(x);
    r = r * 31 + max(x, y) - min((unsigned)x, (unsigned)y) + abs(x - y);
    if (y) r += x / y + (unsigned)x % (unsigned)y;
    r += (short)x + (signed char)y + (unsigned char)(x >> 3) + (x > y ? x : -y);
    out[i] = r;
}
__global__ void floats(double *out, const float *a, const double *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i]; double y = b[i];
    double r = x * y + fabs(y) - sqrt(fabs(y)) + sqrtf(fabsf(x)) / (1 + x * x);
    r += fmin(x, (float)y) + copysign(y, (double)x) + (int)x + (double)(long long)y;
    r += isnan(r) ? 1.0 : floor(y) + ceilf(x) + rint(y) + truncf(x);
    out[i] = r;
}
__global__ void halves(__half *out, const __half *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __hfma(a[i], a[i], __float2half(0.5f)) - a[i];
}
__global__ void narrow(unsigned char *out, const signed char *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (unsigned char)(a[i] * 3 + (a[i] < 0) - (i & 7));
}
}
"""


@pytest.fixture(autouse=True)
def interpreting(monkeypatch):
    """What these tests look at is what native code does not have."""
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "0")


@pytest.fixture(scope="module")
def texts():
    return virtualgpu.Module.from_cuda(SOURCE).texts


def run(texts, monkeypatch, hot: float, kernel: str, out: np.ndarray, *inputs) -> np.ndarray:
    """One launch with blocks compiled past ``hot`` lanes."""
    monkeypatch.setattr(fuse, "HOT", hot)
    module = virtualgpu.Module.from_ptx(*texts)
    module.launch(kernel, -(-out.size // 96), 96, [out, *inputs, np.int32(out.size)]
                  if kernel != "mandelbrot" else [out, np.int32(out.size), np.float32(0.04)])
    return out


def same(texts, monkeypatch, kernel, dtype, *inputs):
    size = inputs[0].size if inputs else 4096
    cold = run(texts, monkeypatch, np.inf, kernel, np.zeros(size, dtype), *inputs)
    hot = run(texts, monkeypatch, -1, kernel, np.zeros(size, dtype), *inputs)
    assert hot.tobytes() == cold.tobytes()
    return cold


RNG = np.random.default_rng(20261)
EDGES_I = np.array([0, 1, -1, 2, 7, 31, 32, 33, 2**31 - 1, -(2**31)], np.int32)
EDGES_F = np.array([0, -0.0, 1, -1, 0.5, 1e-45, 1e-38, 3.4e38, np.inf, -np.inf, np.nan, 2.5, -3.5])


def test_divergent_loop(texts, monkeypatch):
    counts = same(texts, monkeypatch, "mandelbrot", np.int32)
    assert counts.max() == 200
    assert len(np.unique(counts)) > 20


def test_integers(texts, monkeypatch):
    a, b = (g.ravel() for g in np.meshgrid(EDGES_I, EDGES_I))
    a = np.concatenate([a, RNG.integers(-(2**31), 2**31, 500)]).astype(np.int32)
    b = np.concatenate([b, RNG.integers(-(2**31), 2**31, 500)]).astype(np.int32)
    same(texts, monkeypatch, "integers", np.int64, a, b)


def test_floats(texts, monkeypatch):
    a, b = (g.ravel() for g in np.meshgrid(EDGES_F, EDGES_F))
    with np.errstate(over="ignore"):
        a = np.concatenate([a, RNG.normal(0, 1e3, 500)]).astype(np.float32)
    b = np.concatenate([b, RNG.normal(0, 1e3, 500)])
    same(texts, monkeypatch, "floats", np.float64, a, b)


def test_half_precision(texts, monkeypatch):
    with np.errstate(over="ignore"):
        a = np.concatenate([EDGES_F, RNG.normal(0, 10, 500)]).astype(np.float16)
    same(texts, monkeypatch, "halves", np.float16, a)


def test_narrow_integers_are_extended(texts, monkeypatch):
    same(texts, monkeypatch, "narrow", np.uint8, np.arange(-128, 128).astype(np.int8))


def test_a_hot_block_is_compiled_once(texts, monkeypatch):
    compiled = []
    original = fuse.fuse
    monkeypatch.setattr(fuse, "fuse", lambda p, b: compiled.append(b.index) or original(p, b))
    run(texts, monkeypatch, -1, "mandelbrot", np.zeros(4096, np.int32))
    assert compiled
    assert len(compiled) == len(set(compiled))


def test_uniform_registers(texts):
    module = virtualgpu.Module.from_ptx(*texts)
    program = module.loaded.program("mandelbrot")
    uniform = fuse.uniform_slots(program)
    names = {name for name, slot in program.entry_code.slots.items() if slot in uniform}
    loads = [i for i in program.entry_code.function.body
             if i.opcode == "ld" and "param" in i.modifiers]
    assert {i.operands[0].name for i in loads} <= names
    thread = next(i for i in program.entry_code.function.body if "%tid.x" in i.text)
    assert thread.operands[0].name not in names
