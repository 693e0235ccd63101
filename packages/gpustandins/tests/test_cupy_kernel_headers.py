"""Headers that CuPy brings for kernels of one's own, and structs by value."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu


@pytest.mark.parametrize(("ctype", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_atomics_of_the_larger_and_the_smaller(cp, ctype, dtype):
    kernel = cp.RawKernel(
        '#include <cupy/atomics.cuh>\nextern "C" __global__ void f(NUMBER *x, const NUMBER *y) {\n'
        "  atomicMax(x, y[threadIdx.x]); atomicMin(x + 1, y[threadIdx.x]); }",
        "f",
        (f"-DNUMBER={ctype}",),
    )
    y = cp.asarray(np.sin(np.arange(64)).astype(dtype))
    x = cp.zeros(2, dtype)
    with virtualgpu.check() as report:
        kernel((1,), (64,), (x, y))
    assert report.ok
    assert x.get().tolist() == [y.get().max(), y.get().min()]


def test_sums_of_half_precision(cp):
    kernel = cp.RawKernel(
        '#include <cupy/atomics.cuh>\nextern "C" __global__ void f(float16 *x) '
        "{ atomicAdd(x, float16(1.5f)); }",
        "f",
    )
    x = cp.zeros(1, cp.float16)
    kernel((2,), (32,), (x,))
    assert x.get()[0] == 96


def test_an_array_made_in_a_kernel(cp):
    kernel = cp.RawKernel(
        r"""
#include <cupy/carray.cuh>
extern "C" __global__ void f(float *data) {
    ptrdiff_t shape[] = {3, 4}, strides[] = {4, 12};
    CArray<float, 2> columns(data, shape, strides);
    ptrdiff_t at[] = {2, 1};
    columns[at] = columns.size();
}""",
        "f",
    )
    x = cp.zeros(12, cp.float32)
    kernel((1,), (1,), (x,))
    assert np.flatnonzero(x.get()).tolist() == [5] and x.get()[5] == 12


def test_a_struct_by_value(cp):
    kernel = cp.RawKernel(
        r"""
struct Track { float pt; int charge; double vertex; };
extern "C" __global__ void f(Track track, double *out) {
    out[0] = track.pt; out[1] = track.charge; out[2] = track.vertex; }""",
        "f",
    )
    dtype = np.dtype([("pt", "f4"), ("charge", "i4"), ("vertex", "f8")], align=True)
    track = np.array([(1.5, -1, 3.25)], dtype)
    for one in (track, track[0], track.reshape(())):
        out = cp.zeros(3)
        kernel((1,), (1,), (one, out))
        assert out.get().tolist() == [1.5, -1, 3.25]
    with pytest.raises(TypeError, match="lies on the host"):
        kernel((1,), (1,), (np.zeros(2, dtype), out))
