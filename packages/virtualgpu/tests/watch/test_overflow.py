"""32-bit indices that wrap, under ``check()``: found only where they decide something."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import virtualgpu
from virtualgpu import devices
from virtualgpu.compilers import nvrtc

# A kernel's body, its numbers a, b and c (of the type given), and what is told of it.
FAULTS = {
    "row * pitch": ("x[i * a] = 1;", "int", (10**8,), "thread 22 of block 0 computes 22 * 100,0"),
    "row * pitch + column": (
        "if ((int)blockIdx.x * a + i < b) x[i] = 1;",
        "int",
        (1_500_000_000, 1000),
        "computes 2 * 1,500,000,000",
    ),
    "a third dimension": ("x[(i * a + 1) * b + 2] = 1;", "int", (100, 10**7), "* 10,000,000 + 2"),
    "unsigned": ("if (i * a < b) x[i] = 1;", "unsigned", (1 << 28, 9), "It becomes 0, which"),
    "bytes of an index": ("if ((i + a) * 4 < b) x[i] = 1;", "int", (1 << 29, 9), "536,870,912 * 4"),
    "a shift": ("if ((i << a) < b) x[i] = 1;", "int", (24, 9), "128 << 24"),
    "a sum": ("x[i + a] = 1;", "int", (2**31 - 48,), "48 + 2,147,483,600"),
    "a length": (
        "int s = 0; for (int t = 0; t < a * b; t++) s += x[t & 7]; x[i] = s;",
        "int",
        (641, 6_700_417),
        "That is 4,294,967,297",
    ),
    "a counter": (
        "if (i) return; for (unsigned t = 0; t < b; t += a) x[t & 7] += 1;",
        "unsigned",
        (1 << 30, 4_000_000_000),
        "3,221,225,472 + 1,073,741,824",
    ),
    "a clamped index": ("x[min(i * a, b)] = 1;", "int", (1 << 29, 9), "4 * 536,870,912"),
    "a loaded index": ("x[x[i] * a + (1 << 30) * x[i]] = 1;", "int", (1 << 30,), "an address"),
    "a length that is cut": ("int n = (int)w; if (i < n) x[i] = 1;", "int", (), "4,294,968,296"),
    "a length of 64 bits": ("if (i * a < w) x[i] = 1;", "int", (1 << 28,), "decides a condition"),
}
LCG = "unsigned h = i; for (int t = 0; t < x[0] + 2; t++) h = h * 1664525u + 1013904223u;"
MEANT = {
    "a random number": (f"{LCG} x[h % a] = 1; if (h < b) x[i] = 2;", (1000, 1 << 30)),
    "a remainder by a literal": (f"{LCG} x[h % 999u] = h; x[h & 1023] = 2; x[h >> 22] = 3;", ()),
    "FNV-1a": (
        "unsigned h = 2166136261u; for (int t = 0; t < 9; t++) h = (h ^ t) * 16777619u;"
        "if (h < a) x[h % 1000u] = 1;",
        (1 << 31,),
    ),
    "a hash of strings": (
        "unsigned h = 5381; for (int t = 0; t < b; t++) h = h * 33 + x[t] + 97;"
        "if (h < a) x[h % 997u] = 1;",
        (1 << 31, 20),
    ),
    "a hash of a few characters": (
        "unsigned h = x[0] + i; for (int t = 0; t < 7; t++) h = h * 33 + x[t + 1]; "
        "if (h < a) x[i] = 1;",
        (1 << 31,),
    ),
    "xorshift": (
        "unsigned s = i + 1; s ^= s << 13; s ^= s >> 17; s ^= s << 5; if (s < a) x[s % b] = 1;",
        (1 << 31, 1000),
    ),
    "Knuth's factor": ("x[(i * 2654435761u) >> 20 & 511] = 1;", ()),
    "64 bits, of which some count": (
        "unsigned long long s = i * 6364136223846793005ull + 1442695040888963407ull;"
        "unsigned r = s >> 33; if (r < a) x[r % b] = 1; x[(unsigned)s % b] = 2;",
        (1 << 30, 1000),
    ),
    "both ends at once": ("if (i >= 1 && i < (int)a - 1) x[i] = x[i - 1] + x[i + 1];", (500,)),
    "below none": ("if (i + 1 < (int)a) x[i] = 1; if (i < b) x[b - 1] = 1;", (0, 0)),
    "a ring": ("unsigned h = a + i; x[h & 1023] = 1; if (h - b < 9) x[i] = 2;", (2**32 - 5,) * 2),
    "undone": ("x[(int)(b + i) + (int)a - (int)b] = 1;", (5, 2**31 - 1)),
    "counting down": ("for (unsigned t = a; t-- > 0;) x[t] = t;", (700,)),
    "unrolled": ("int s = 0; for (int t = i; t < (int)a; t++) s += x[t]; x[i] = s;", (1003,)),
    "thrown away": ("if (i < a && i * b < 1u << 31) x[i] = 1;", (4, 1 << 28)),
}


@pytest.fixture(params=["0", "always"], ids=["interpreted", "native"])
def executor(request, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", request.param)


def launch(body: str, kind: str, numbers: tuple[int, ...], grid: int = 4, block: int = 256):
    given = "".join(f", {kind} {name}" for name in "abc"[: len(numbers)])
    source = f"""extern "C" __global__ void k(int *x, long long w{given}) {{
        {kind} i = blockIdx.x * blockDim.x + threadIdx.x;
        {body}
    }}"""
    dtype = np.int32 if kind == "int" else np.uint32
    arguments = [np.ones(2048, np.int32), np.int64(2**32 + 1000), *map(dtype, numbers)]
    with virtualgpu.check() as report:
        try:
            virtualgpu.Module.from_cuda(source).launch("k", grid, block, arguments)
        except (virtualgpu.MemoryAccessError, virtualgpu.EndlessError):
            pass  # where the wrapped index leads
    return report.of_kind("overflow")


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrapped_index_is_told_with_its_numbers(name, executor):
    body, kind, numbers, told = FAULTS[name]
    (finding,) = launch(body, kind, numbers)
    assert told in finding.message
    assert "(size_t)i" in finding.advice
    assert finding.line == 3
    assert finding.thread is not None


@pytest.mark.parametrize("name", MEANT)
def test_wrapping_that_is_meant_is_no_finding(name, executor):
    body, numbers = MEANT[name]
    assert not launch(body, "unsigned", numbers, grid=1, block=64)


def test_a_numba_kernel_is_told_in_its_words(executor):
    @cuda.jit
    def kernel(x, pitch):
        index = np.int32(cuda.grid(1) * pitch)
        if index < x.size:
            x[cuda.grid(1)] = 1

    with virtualgpu.check() as report:
        kernel[1, 64](np.zeros(64, np.int32), np.int32(1 << 28))
    (finding,) = report.of_kind("overflow")
    assert "thread 8 of block 0 computes 8 * 268,435,456" in finding.message
    assert finding.advice.endswith("np.int64(i) * n")


@pytest.mark.parametrize(("stride", "follows"), [(4, False), (1 << 29, True)])
def test_only_a_launch_whose_index_may_wrap_computes_it_twice(stride, follows):
    source = """extern "C" __global__ void k(int *x, int n, int stride) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i * stride] = 1;
    }"""
    device = devices.current()
    module = device.load(nvrtc.compile_cuda(source).ptx)
    program = module.program("k")
    numbers = [bytes(8), *(np.int32(number).tobytes() for number in (1000, stride))]
    assert (module.following(program, (1, 1, 1), (256, 1, 1), numbers) is not program) is follows
