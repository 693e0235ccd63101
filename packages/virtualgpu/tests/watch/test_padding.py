"""Padding of structs and records that are copied is no read of unwritten memory.

Beside each copy stands a read that is one.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, from_dtype  # noqa: E402

TYPES = """
struct Particle { char charge; int id; double energy; };
struct alignas(16) Point { float x, y, z; };
struct Small { short a; int b; char c; };
#define FILL_Particle(s) s.charge = 1; s.id = t; s.energy = t;
#define FILL_Point(s) s.x = 1; s.y = 2; s.z = 3;
#define FILL_Small(s) s.a = 1; s.b = 2; s.c = 3;
"""
COPIES = {
    "of a shared array": "__shared__ T s[64]; FILL(s[t]) __syncthreads(); o[t] = s[63 - t];",
    "of a global array": "FILL(g[t]) __syncthreads(); o[t] = g[63 - t];",
    "by a local variable": "FILL(g[t]) __syncthreads(); T v = g[63 - t]; o[t] = v; o[t + 64] = v;",
    "changed on the way": """FILL(g[t]) __syncthreads();
        T v = g[63 - t]; v.LAST += 1; o[t] = v;""",
    "of one struct": """__shared__ T s; if (t == 0) { FILL(s) } __syncthreads();
        if (t == 1) o[t] = s;""",
    "by one thread of many": "FILL(g[t]) __syncthreads(); if (t == 5) o[t] = g[6];",
    "twice": """FILL(g[t]) __syncthreads(); g[t + 64] = g[63 - t]; __syncthreads();
        o[t] = g[t + 64];""",
}
FAULTS = {
    "a struct nobody wrote": "if (t < 60) { FILL(g[t]) } __syncthreads(); o[t] = g[63 - t];",
    "a member nobody wrote": "g[t].FIRST = 1; __syncthreads(); o[t].LAST = g[63 - t].LAST + 1;",
}
MEMBERS = {"Particle": ("id", "energy"), "Point": ("x", "z"), "Small": ("a", "b")}


def launch(struct: str, body: str):
    first, last = MEMBERS[struct]
    body = body.replace("FILL", f"FILL_{struct}").replace("FIRST", first).replace("LAST", last)
    text = f"""{TYPES} typedef {struct} T;
        extern "C" __global__ void k(T *g, T *o) {{ int t = threadIdx.x; {body} }}"""
    fresh = cuda.device_array(128 * 16, np.uint8)
    with virtualgpu.check() as report:
        virtualgpu.Module.from_cuda(text).launch("k", 1, 64, [fresh, np.zeros(128 * 16, np.uint8)])
    return report


@pytest.mark.parametrize("struct", MEMBERS)
@pytest.mark.parametrize("name", COPIES)
def test_padding_of_a_copied_struct_is_no_finding(struct, name):

    report = launch(struct, COPIES[name])
    assert report.ok, str(report)


@pytest.mark.parametrize("struct", MEMBERS)
@pytest.mark.parametrize("name", FAULTS)
def test_members_that_nobody_wrote_are_found(struct, name):
    kinds = {finding.kind for finding in launch(struct, FAULTS[name]).findings}
    assert kinds == {"uninitialised"}


RECORD = np.dtype([("charge", "i1"), ("id", "i4"), ("energy", "f8"), ("n", "i2")], align=True)
NUMBA = from_dtype(RECORD)


@cuda.jit
def copies(fresh, out, written):
    t = cuda.threadIdx.x
    if t < written:
        fresh[t].charge = 1
        fresh[t].id = t
        fresh[t].energy = t * 0.5
        fresh[t].n = 3
    cuda.syncthreads()
    out[t] = fresh[63 - t]


@cuda.jit
def copies_in_shared_memory(fresh, out, written):
    s = cuda.shared.array(64, NUMBA)
    t = cuda.threadIdx.x
    if t < written:
        s[t].charge = 1
        s[t].id = t
        s[t].energy = t * 0.5
        s[t].n = 3
    cuda.syncthreads()
    out[t] = s[63 - t]


@pytest.mark.parametrize("written", [64, 60])
@pytest.mark.parametrize("kernel", [copies, copies_in_shared_memory])
def test_padding_of_a_copied_record_is_no_finding(kernel, written):
    with warnings.catch_warnings(), virtualgpu.check() as report:
        warnings.simplefilter("ignore")
        kernel[1, 64](cuda.device_array(64, RECORD), cuda.to_device(np.zeros(64, RECORD)), written)
    assert report.ok == (written == 64)


@cuda.jit
def copies_bytes(x, out):
    t = cuda.threadIdx.x
    for k in range(4):
        out[4 * t + k] = x[4 * t + k]


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_an_array_written_in_part_is_found(dtype):
    x = cuda.device_array(64, dtype)
    x[:62].copy_to_device(np.zeros(62, dtype))
    with warnings.catch_warnings(), virtualgpu.check() as report:
        warnings.simplefilter("ignore")
        copies_bytes[1, 16](x, cuda.to_device(np.zeros(64, dtype)))
    assert not report.ok
