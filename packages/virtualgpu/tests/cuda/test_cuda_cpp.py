"""Kernels from CUDA C++: compiled by NVRTC, launched with plain values, printing, failing."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices
from virtualgpu.compilers.nvrtc import CompilationError
from virtualgpu.cuda.module import Module
from virtualgpu.errors import (
    LaunchError,
    MemoryAccessError,
    MisalignedAddressError,
    TrapError,
    UnsupportedInstruction,
    VirtualGPUError,
)

SOURCE = r"""
#include <cuda_fp16.h>

struct Particle { char charge; double px, py; float mass[2]; };
__constant__ float weights[4] = {1, 2, 4, 8};
__constant__ int table[3];
__device__ int total = 100;
typedef int (*Function)(int);
__device__ int plus_one(int x) { return x + 1; }
__device__ int doubled(int x) { return x * 2; }
__device__ Function functions[2] = {plus_one, doubled};
struct Shape { __device__ virtual float area() const { return 0; } float a; };
struct Square : Shape { __device__ float area() const override { return a * a; } };
struct Circle : Shape { __device__ float area() const override { return 3 * a * a; } };
__noinline__ __device__ Particle boost(Particle p, float by)
{ p.px *= by; p.py -= by; p.mass[1] = by; return p; }
__device__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

template <typename T, int N> __global__ void scale(T *x) { x[threadIdx.x] *= N; }

extern "C" {
__global__ void types(char *a, short b, unsigned char c, bool d, float e, double f, long long g,
                      Particle h, double *out)
{
    out[0] = b; out[1] = c; out[2] = d; out[3] = e; out[4] = f; out[5] = g;
    out[6] = h.charge; out[7] = h.px; out[8] = h.py; out[9] = h.mass[1]; out[10] = a[2];
}
__global__ void structs(Particle *p, int n)
{
    int i = threadIdx.x;
    if (i < n) p[i] = boost(p[i], i + 0.5f);
}
__global__ void constants(float *out) { out[threadIdx.x] = weights[threadIdx.x & 3]; }
__global__ void counter() { atomicAdd(&total, 1); }
__global__ void read_counter(int *out) { *out = total; }
__global__ void pointers(int *out)
{
    int i = threadIdx.x;
    Square square; Circle circle; square.a = circle.a = i;
    Shape *shape = i % 2 ? (Shape *)&square : &circle;
    out[i] = functions[i % 2](i) * 10000 + (int)shape->area();
}
__global__ void recursion(int *out) { out[threadIdx.x] = factorial(threadIdx.x % 10); }
__global__ void halves(const __half *x, __half *y)
{ int i = threadIdx.x; y[i] = __hfma(x[i], __float2half(2), __float2half(0.5f)); }
__global__ void prints(int width)
{
    printf("%d|%5d|%-5d|%*d|%u|%x|%#o|%lld|%5.2f|%e|%s|%c|%%|%p\n", threadIdx.x, 7, 7, width, 42,
           4000000000u, 255, 8, 1LL << 40, 3.14159, 12345.678, "text", 'z', (void *)16);
}
__global__ void flood() { for (int i = 0; i < 50; i++) printf("%200d\n", i); }
__global__ void wide() { printf("%2000000000d %.*f", 1, 2000000000, 1.0); }
__global__ void asserts(int limit) { assert(threadIdx.x + blockIdx.x * 10 < limit); }
__global__ void heap(int *out)
{
    int *mine = (int *)malloc(4 * sizeof(int)), *other = new int[2];
    for (int i = 0; i < 4; i++) mine[i] = threadIdx.x + i;
    other[1] = mine[3];
    out[threadIdx.x] = mine[1] + other[1];
    free(mine); delete[] other;
}
__global__ void greedy(int *out) { *out = malloc(9 << 20) == 0; }
__global__ void after_free(int *out)
{ int *mine = (int *)malloc(16); free(mine); *out = mine[0]; }
__global__ void free_twice(int *out) { int *mine = (int *)malloc(16); free(mine); free(mine); }
__global__ void free_theirs(int *out) { free(out); }
__global__ void beyond(int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = n;
}
__global__ void crooked(char *x) { *(double *)(x + 4) = 1; }
__global__ void dynamic(int *out)
{
    extern __shared__ int tile[];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
__global__ void nothing() { }
__global__ void vectors(const float4 *in, float4 *out)
{ float4 v = in[threadIdx.x]; out[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x); }
}
"""


@pytest.fixture(scope="module")
def module() -> Module:
    return Module.from_cuda(SOURCE, names=("scale<float, 3>", "scale<int, -2>"))


def ints(count: int = 32) -> np.ndarray:
    return np.zeros(count, np.int32)


def test_templates_by_name_expression(module):
    x, y = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.int32)
    module.launch("scale<float, 3>", 1, 4, [x])
    module.launch("scale<int, -2>", 1, 4, [y])
    assert x.tolist() == [0, 3, 6, 9]
    assert y.tolist() == [0, -2, -4, -6]


def test_entries_are_the_kernels(module):
    assert {"types", "nothing", "dynamic"} <= set(module.entries)
    assert sum("scale" in name for name in module.entries) == 2
    assert not any("boost" in name for name in module.entries)


PARTICLE = np.dtype([("charge", "i1"), ("px", "f8"), ("py", "f8"), ("mass", "f4", 2)], align=True)


def test_arguments_of_every_type(module):
    particle = np.zeros(1, PARTICLE)
    particle[0] = (-1, 2.5, -3.5, (0, 7.25))
    out = np.zeros(11)
    a = np.array([0, 0, -5], np.int8)
    plain = [a, -300, 250, True, 1.5, 2.25, 1 << 40, particle.tobytes(), out]
    typed = [
        a,
        np.int16(-300),
        np.uint8(250),
        np.bool_(True),
        np.float32(1.5),
        np.float64(2.25),
        np.int64(1 << 40),
        particle[0],
        out,
    ]
    for arguments in (plain, typed):
        out[:] = 0
        module.launch("types", 1, 1, arguments)
        assert out.tolist() == [-300, 250, 1, 1.5, 2.25, 1 << 40, -1, 2.5, -3.5, 7.25, -5]


def test_ctypes_are_arguments_too(module):
    class Struct(ctypes.Structure):
        _fields_ = (
            ("charge", ctypes.c_byte),
            ("px", ctypes.c_double),
            ("py", ctypes.c_double),
            ("mass", ctypes.c_float * 2),
        )

    out = np.zeros(11)
    module.launch(
        "types",
        1,
        1,
        [
            np.zeros(3, np.int8),
            ctypes.c_short(1),
            ctypes.c_ubyte(2),
            ctypes.c_bool(True),
            ctypes.c_float(3),
            ctypes.c_double(4),
            ctypes.c_longlong(5),
            Struct(6, 7, 8, (ctypes.c_float * 2)(9, 10)),
            out,
        ],
    )
    assert out.tolist() == [1, 2, 1, 3, 4, 5, 6, 7, 8, 10, 0]


def test_a_python_number_becomes_what_the_kernel_declares(module):
    """An int for a float parameter is that number, not its bits."""
    out = np.zeros(11)
    module.launch(
        "types", 1, 1, [np.zeros(3, np.int8), 1, 2, False, 3, 4, 5, bytes(PARTICLE.itemsize), out]
    )
    assert out[:6].tolist() == [1, 2, 0, 3, 4, 5]


@pytest.mark.parametrize(
    ("position", "value", "words"),
    [
        (1, 1.5, "argument 1"),
        (1, np.int32(1), "4 bytes, but its parameter has 2"),
        (1, "1", "a str"),
        (1, 1 << 16, "argument 1.*does not fit"),
        (1, -(1 << 15) - 1, "does not fit"),
        (1, (1 << 16) - 1, None),
        (2, -1, None),
        (4, 10**400, "argument 4.*does not fit"),
        (7, b"123", "3 bytes, but its parameter has 32"),
        (4, np.float64(1), "8 bytes, but its parameter has 4"),
        (1, None, "a NoneType"),
    ],
)
def test_arguments_that_do_not_fit(module, position, value, words):
    arguments = [np.zeros(3, np.int8), 1, 2, True, 3.0, 4.0, 5, bytes(32), np.zeros(11)]
    arguments[position] = value
    if words is None:
        module.launch("types", 1, 1, arguments)
        return
    with pytest.raises(LaunchError, match=words):
        module.launch("types", 1, 1, arguments)


def test_too_few_arguments_and_unknown_kernels(module):
    with pytest.raises(LaunchError, match="takes 2 arguments, not 1"):
        module.launch("structs", 1, 1, [1])
    with pytest.raises(LaunchError, match="no kernel struct;"):
        module.launch("struct", 1, 1)


def test_structs_by_value_in_arrays_of_records(module):
    p = np.zeros(5, PARTICLE)
    p["px"], p["py"], p["mass"], p["charge"] = range(5), 10, 1, -1
    module.launch("structs", 1, 32, [p, 5])
    by = np.arange(5) + 0.5
    assert p["px"].tolist() == (np.arange(5) * by).tolist()
    assert p["py"].tolist() == (10 - by).tolist()
    assert p["mass"].tolist() == [[1, b] for b in by]
    assert (p["charge"] == -1).all()


def test_constant_memory_and_device_variables(module):
    out = np.zeros(8, np.float32)
    module.launch("constants", 1, 8, [out])
    assert out.tolist() == [1, 2, 4, 8] * 2
    got = ints(1)
    module.launch("read_counter", 1, 1, [got])
    before = got[0]
    module.launch("counter", 3, 5)
    module.launch("read_counter", 1, 1, [got])
    assert got[0] == before + 15


def test_function_pointers_and_virtual_functions(module):
    out = ints()
    module.launch("pointers", 1, 32, [out])
    i = np.arange(32)
    assert (
        out.tolist() == np.where(i % 2, 2 * i * 10000 + i * i, (i + 1) * 10000 + 3 * i * i).tolist()
    )


def test_recursion(module):
    out = ints()
    module.launch("recursion", 1, 32, [out])
    assert out[:10].tolist() == [1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880]


def test_half_precision(module):
    x = np.linspace(-2, 2, 16).astype(np.float16)
    y = np.zeros_like(x)
    module.launch("halves", 1, 16, [x, y])
    np.testing.assert_array_equal(y, (x.astype(np.float64) * 2 + 0.5).astype(np.float16))


def test_vector_types(module):
    x = np.arange(16, dtype=np.float32)
    y = np.zeros_like(x)
    module.launch("vectors", 1, 4, [x, y])
    np.testing.assert_array_equal(y.reshape(4, 4), x.reshape(4, 4)[:, ::-1])


def test_dynamic_shared_memory(module):
    out = ints()
    module.launch("dynamic", 1, 32, [out], shared_bytes=128)
    assert out.tolist() == list(range(32))[::-1]
    with pytest.raises(MemoryAccessError, match="shared"):
        module.launch("dynamic", 1, 32, [out], shared_bytes=124)
    with pytest.raises(MemoryAccessError, match="0 bytes: pass its size to the launch"):
        module.launch("dynamic", 1, 32, [out])


# -- arrays ---------------------------------------------------------------------------------------


def test_arrays_that_are_not_contiguous(module):
    whole = np.zeros((4, 8), np.float32)
    module.launch("constants", 1, 4, [whole[1, ::2]])
    assert whole[1].tolist() == [1, 0, 2, 0, 4, 0, 8, 0]
    assert not whole[[0, 2, 3]].any()


def test_an_array_given_twice_is_one_array():
    both = Module.from_cuda(
        'extern "C" __global__ void k(int *a, int *b, int *same)'
        "{ a[0] = 5; *same = b[0] == 5 && a == b; }"
    )
    x, same = ints(1), ints(1)
    both.launch("k", 1, 1, [x, x, same])
    assert (x[0], same[0]) == (5, 1)


def test_read_only_arrays_stay_as_they_are(module):
    out = np.zeros(4, np.float32)
    out.flags.writeable = False
    module.launch("constants", 1, 4, [out])
    assert not out.any()


def test_arrays_on_the_device(module):
    class OnDevice:
        def __init__(self, address):
            self.__cuda_array_interface__ = {
                "data": (address, False),
                "shape": (4,),
                "typestr": "<f4",
                "version": 3,
            }

    gpu = devices.current()
    address = gpu.allocate(16)
    module.launch("constants", 1, 4, [OnDevice(address)])
    assert gpu.read(address, 16).view(np.float32).tolist() == [1, 2, 4, 8]
    gpu.free(address)


def test_empty_arrays(module):
    module.launch("beyond", 1, 1, [ints(1), 0])
    with pytest.raises(MemoryAccessError):
        module.launch("beyond", 1, 1, [ints(0), 0])


def test_host_memory_is_given_back(module):
    # The module's own variables are there from its first launch on.
    module.launch("constants", 1, 4, [np.zeros(4, np.float32)])
    before = devices.current().memory.allocated
    for _ in range(3):
        module.launch("constants", 1, 4, [np.zeros(4, np.float32)])
        with pytest.raises(MemoryAccessError):
            module.launch("beyond", 1, 4, [ints(1), 0])
    assert devices.current().memory.allocated == before


# -- printing, asserting, the heap ----------------------------------------------------------------


def test_printf(module, capsys):
    module.launch("prints", 1, 2, [6])
    first, second = capsys.readouterr().out.splitlines()
    assert first == (
        "0|    7|7    |    42|4000000000|ff|010|1099511627776| 3.14|1.234568e+04|text|z|%|0x10"
    )
    assert second.startswith("1|")
    module.launch("prints", 1, 1, [-6])
    assert "|42    |" in capsys.readouterr().out


def test_printf_narrows_and_writes_hexadecimal_numbers_as_c_does(capsys):
    text = r"""extern "C" __global__ void k(double x) {
        printf("%hd %hhd %hu %hhx|", 70000, -300, 70000, 511);
        printf("%a %a %A %.2a %+.0a %9a|%-9a|%012a|", 1.0, -x, 0.1, 3.14159, 1.9, 0.0, 1.0, x);
        printf("%p %7p|", (void *)0, (void *)0); }"""
    Module.from_cuda(text).launch("k", 1, 1, [np.float64(1.5)])
    assert capsys.readouterr().out == (
        "4464 -44 4464 ff|"
        "0x1p+0 -0x1.8p+0 0X1.999999999999AP-4 0x1.92p+1 +0x2p+0    0x0p+0|0x1p+0   |0x00001.8p+0|"
        "(nil)   (nil)|"
    )


def test_printf_has_a_buffer_like_the_devices(module, capsys):
    module.launch("flood", 2, 64)
    assert 1 << 20 <= len(capsys.readouterr().out) < (1 << 20) + 300
    module.launch("wide", 1, 32)
    assert len(capsys.readouterr().out) < 300_000


def test_what_was_printed_before_a_failure_is_shown(capsys):
    with pytest.raises(TrapError):
        Module.from_cuda(
            'extern "C" __global__ void k() { printf("before\\n"); __trap(); }'
        ).launch("k", 1, 1)
    assert capsys.readouterr().out == "before\n"


def test_assert(module):
    module.launch("asserts", 2, 10, [20])
    with pytest.raises(TrapError) as error:
        module.launch("asserts", 2, 10, [17])
    assert "assertion `threadIdx.x + blockIdx.x * 10 < limit` failed" in str(error.value)
    line = next(i for i, text in enumerate(SOURCE.splitlines(), 1) if "void asserts" in text)
    location = error.value.location
    assert (location.line, location.block, location.thread) == (line, (1, 0, 0), (7, 0, 0))


def test_the_heap(module):
    out = ints()
    module.launch("heap", 1, 32, [out])
    assert out.tolist() == [2 * t + 4 for t in range(32)]
    assert not devices.current().memory.heap
    module.launch("greedy", 1, 1, [out])
    assert out[0] == 1
    with pytest.raises(MemoryAccessError, match="freed"):
        module.launch("after_free", 1, 1, [out])
    for kernel in ("free_twice", "free_theirs"):
        with pytest.raises(VirtualGPUError, match="malloc"):
            module.launch(kernel, 1, 1, [out])


# -- faults and compile errors --------------------------------------------------------------------


def test_a_fault_names_the_line_of_the_source(module):
    with pytest.raises(MemoryAccessError) as error:
        module.launch("beyond", 3, 10, [ints(25), 1])
    line = next(i for i, text in enumerate(SOURCE.splitlines(), 1) if "x[i] = n" in text)
    location = error.value.location
    assert (location.kernel, location.line) == ("beyond", line)
    assert (location.block, location.thread) == ((2, 0, 0), (5, 0, 0))
    assert location.filename.endswith("kernel.cu")
    with pytest.raises(MisalignedAddressError, match="not a multiple of 8"):
        module.launch("crooked", 1, 1, [np.zeros(16, np.int8)])


@pytest.mark.parametrize(
    ("statement", "quoted"),
    [
        ("x[i] = y[i + 1];", "i + 1"),
        ("x[2 * i] = 1;", "2 * i"),
        ("x[i] += y[i + 1];", None),  # which of the two it reads is not known
        ("x[i] = y[i];", None),
    ],
)
def test_a_computed_index_past_the_end_is_quoted_in_cpp(statement, quoted):
    source = (
        'extern "C" __global__ void k(int *x, int *y, int n) {\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  {statement}\n}}"
    )
    kernels = Module.from_cuda(source, name="mine.cu")
    with pytest.raises(MemoryAccessError) as error:
        kernels.launch("k", 2, 8, [ints(12), ints(12), np.int32(12)])
    advice = str(error.value).partition("; ")[2].partition("\n")[0]
    if quoted is None:
        assert advice.startswith("guard the index (if (i < n))")
    else:
        assert f"in which threads is `{quoted}` too large?" in advice
        assert advice.endswith(f"(if ({quoted} < n))")


def test_a_compile_error_names_line_and_code():
    with pytest.raises(CompilationError) as error:
        Module.from_cuda(
            'extern "C" __global__ void k(int *x)\n{\n    x[0] = undeclared;\n}\n', name="mine.cu"
        )
    text = str(error.value)
    assert 'line 3: identifier "undeclared" is undefined\n    x[0] = undeclared;' in text
    assert "mine.cu(3): error" in error.value.log


@pytest.mark.parametrize(
    "source",
    [
        "#error stop here",
        '#include "nowhere.h"',
        "__global__ void k( {",
        "int main() { return x; }",
    ],
)
def test_other_compile_errors_tell_the_log(source):
    with pytest.raises(CompilationError, match="does not compile") as error:
        Module.from_cuda(source)
    assert error.value.log.strip()


def test_options_reach_the_compiler():
    out = ints(1)
    source = 'extern "C" __global__ void k(int *x) { *x = N + sizeof(long); }'
    Module.from_cuda(source, options=("-DN=34",)).launch("k", 1, 1, [out])
    assert out[0] == 42
    with pytest.raises(CompilationError, match="N"):
        Module.from_cuda(source)
    with pytest.raises(CompilationError):
        Module.from_cuda(source, options=("--no-such-option",))


@pytest.mark.parametrize("architecture", ["compute_75", "compute_80", "compute_90"])
def test_other_architectures(architecture):
    out = np.zeros(1, np.float32)
    Module.from_cuda(
        'extern "C" __global__ void k(float *x) { *x = sinf(0.5f) + sqrtf(2); }',
        options=(f"-arch={architecture}",),
    ).launch("k", 1, 1, [out])
    assert out[0] == pytest.approx(np.sin(0.5) + np.sqrt(2), rel=1e-6)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('asm volatile("cp.async.bulk.commit_group;");', "Compile for compute_80"),
        ("x[0] = tex1DLod<float>(x[1], 2.f, 0.f);", "it supports textures .*no mipmaps"),
    ],
)
def test_what_the_machine_lacks_has_its_own_name(body, words):
    module = Module.from_cuda(f'extern "C" __global__ void k(int *x) {{ {body} }}')
    with pytest.raises(UnsupportedInstruction, match=words):
        module.launch("k", 1, 1, [ints(2)])


def test_a_kernel_launches_no_kernel():
    with pytest.raises(CompilationError, match="return to the host"):
        Module.from_cuda("__global__ void child() { }\n__global__ void k() { child<<<1, 1>>>(); }")


def test_a_name_that_is_not_there():
    with pytest.raises(CompilationError):
        Module.from_cuda("template <typename T> __global__ void k(T *x) { }", names=("j<int>",))


def test_debug_code_runs_too():
    """-G keeps everything in local memory and marks every line."""
    module = Module.from_cuda(
        r"""
        extern "C" __global__ void k(int *x, int n)
        {
            int square[4];
            for (int i = 0; i < 4; i++) square[i] = i * i;
            if (threadIdx.x < n) x[threadIdx.x] += square[threadIdx.x % 4];
        }""",
        options=("-G",),
    )
    x = ints(8)
    module.launch("k", 1, 32, [x, 8])
    assert x.tolist() == [0, 1, 4, 9] * 2


def test_grid_and_block_of_up_to_three_dimensions():
    out = ints(2 * 3 * 4 * 5)
    Module.from_cuda(r"""
        extern "C" __global__ void k(int *x)
        {
            int b = blockIdx.x + gridDim.x * blockIdx.y;
            int t = threadIdx.x + blockDim.x * threadIdx.y;
            x[b * blockDim.x * blockDim.y + t] = b * 100 + t;
        }""").launch("k", (2, 3), np.array([4, 5]), [out])
    b, t = np.divmod(np.arange(120), 20)
    assert out.tolist() == (b * 100 + t).tolist()


def test_two_devices_two_modules():
    one, two = virtualgpu.VirtualDevice(1 << 20), virtualgpu.VirtualDevice(1 << 20)
    source = '__device__ int n; extern "C" __global__ void k(int *x) { *x = ++n; }'
    first, second = (Module.from_cuda(source, device=d) for d in (one, two))
    x = ints(1)
    for _ in range(3):
        first.launch("k", 1, 1, [x])
    second.launch("k", 1, 1, [x])
    assert x[0] == 1
