"""NVRTC: options, headers, names, variables, line numbers, and errors that say where."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices
from virtualgpu.compilers import messages, nvrtc
from virtualgpu.compilers.headers import HOST_HEADERS
from virtualgpu.compilers.nvrtc import CompilationError, compile_cuda, source_path
from virtualgpu.compilers.signatures import kernel_signature
from virtualgpu.cuda.function import CudaFunction
from virtualgpu.cuda.module import Module
from virtualgpu.errors import LaunchError, LinkError, MemoryAccessError

# -- options and headers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ("-arch", "sm_80"),
        ("-arch=sm_80",),
        ("--gpu-architecture=sm_80",),
        ("--gpu-architecture=compute_80",),
        ("--gpu-architecture", "compute_80"),
    ],
)
def test_architectures_become_virtual_ones(options):
    """PTX is all that is wanted: no assembler need run."""
    ptx = compile_cuda('extern "C" __global__ void k() { }', options=options).ptx
    assert ".target sm_80" in ptx
    flags = nvrtc._flags(options, "sm_90")
    assert [flag for flag in flags if "arch" in flag] == ["--gpu-architecture=compute_80"]


def test_line_information_is_always_there():
    ptx = compile_cuda('extern "C" __global__ void k(int *x) { *x = 1; }').ptx
    assert ".loc" in ptx


@pytest.mark.parametrize("option", ["--no-such-option", "-O3"])
def test_an_option_that_nvrtc_lacks(option):
    with pytest.raises(CompilationError, match="NVRTC takes fewer options than nvcc"):
        compile_cuda('extern "C" __global__ void k() { }', options=(option,))


def test_half_precision_and_cooperative_groups():
    module = Module.from_cuda(r"""
        #include <cuda_fp16.h>
        #include <cooperative_groups.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void halves(__half *x) { x[threadIdx.x] = x[threadIdx.x] + x[0]; }
        extern "C" __global__ void sums(int *x, int *out) {
            auto grid = cg::this_grid();
            atomicAdd(x, (int)grid.thread_rank());
            grid.sync();
            auto tile = cg::tiled_partition<4>(cg::this_thread_block());
            out[grid.thread_rank()] = *x + tile.shfl(tile.thread_rank(), 3);
        }""")
    x = np.array([1, 2, 3, 4], np.float16)
    x[0] = 0
    module.launch("halves", 1, 4, [x])
    assert x.tolist() == [0, 2, 3, 4]
    total, out = np.zeros(1, np.int32), np.zeros(64, np.int32)
    module.launch("sums", 2, 32, [total, out], cooperative=True)
    assert (out == 63 * 64 // 2 + 3).all()


@pytest.mark.rehearsal
def test_block_reduce_of_cccl():
    """CUB comes with the compiler's wheels."""
    module = Module.from_cuda(r"""
        #include <cub/block/block_reduce.cuh>
        extern "C" __global__ void total(const float *x, float *out) {
            using Reduce = cub::BlockReduce<float, 128>;
            __shared__ typename Reduce::TempStorage storage;
            float sum = Reduce(storage).Sum(x[threadIdx.x]);
            if (threadIdx.x == 0) *out = sum;
        }""")
    out = np.zeros(1, np.float32)
    with virtualgpu.check() as report:
        module.launch("total", 1, 128, [np.arange(128, dtype=np.float32), out])
    assert out[0] == 127 * 128 / 2
    assert report.ok, report


def test_headers_that_are_texts():
    module = Module.from_cuda(
        '#include "mine.cuh"\nextern "C" __global__ void k(int *x) { *x = N; }',
        headers=[("mine.cuh", "#define N 42")],
    )
    x = np.zeros(1, np.int32)
    module.launch("k", 1, 1, [x])
    assert x[0] == 42


def test_headers_beside_the_notebook(tmp_path, monkeypatch):
    (tmp_path / "near.cuh").write_text("#define NEAR 7\n")
    monkeypatch.chdir(tmp_path)
    compiled = compile_cuda(
        '#include "near.cuh"\nextern "C" __global__ void k(int *x) { *x = NEAR; }'
    )
    assert "7;" in compiled.ptx


@pytest.mark.parametrize(("name", "_"), HOST_HEADERS)
def test_host_headers_for_code_written_for_nvcc(name, _):
    use = {
        "stdint.h": "uint64_t a = INT64_C_ + 1;",
        "cstdint": "std::int32_t a = 1;",
        "math.h": "double a = M_PI;",
        "limits.h": "int a = INT_MAX;",
        "float.h": "float a = FLT_MAX;",
    }.get(name, "int a = 1;").replace("INT64_C_", "1")
    compile_cuda(
        f'#include <{name}>\nextern "C" __global__ void k(double *x) {{ {use} *x = a; }}',
        headers=HOST_HEADERS,
    )


# -- errors -------------------------------------------------------------------------------------


def explained(source: str, **more) -> str:
    with pytest.raises(CompilationError) as error:
        compile_cuda(source, **more)
    return str(error.value)


def test_each_error_has_its_line_and_a_caret():
    text = explained(
        'extern "C" __global__ void k(int *x)\n{\n\tx[0] = first;\n\tx[1] =   second;\n}\n',
        name="two.cu",
    )
    assert text == (
        'the CUDA C++ does not compile: two.cu line 3: identifier "first" is '
        "undefined\n    x[0] = first;\n           ^\n"
        'line 4: identifier "second" is undefined\n    x[1] =   second;\n'
        "             ^"
    )


def test_many_errors_are_cut_off():
    text = explained("\n".join(f"__device__ int x{i} = nope{i};" for i in range(9)))
    assert text.count("undefined") == 5
    assert "(4 more errors" in text


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("#include <stdint.h>\n", "has no host headers"),
        ("__device__ int64_t x;", "long long"),
        ("#include <curand_kernel.h>\n", "install the wheel nvidia-curand"),
        ("#include <cublas.h>\n", "write the kernel yourself, or compute"),
        ('extern "C" { template <class T> __global__ void k() { } }', "close it before"),
        ("void f(); __global__ void k() { f(); }", "__device__"),
    ],
)
def test_common_mistakes_come_with_advice(source, advice):
    assert advice in explained(source)


def test_a_name_expression_that_means_nothing():
    text = explained("template <class T> __global__ void add(T *x) { }", names=("sub<float>",))
    assert "no sub" in text and "name expression" in text


def test_paths_that_exist_nowhere_are_not_shown():
    text = explained("__global__ void k() { nowhere; }", name="mine.cu")
    assert "cuda-" not in text and "mine.cu" in text


def test_warnings_are_of_the_source_not_of_cudas_headers():
    header = "/cuda/include/thing.hpp(7): warning #1-D: old\n  x\n  ^"
    mine = "kernel.cu(3): warning #177-D: unused\n  int x;\n      ^"
    remark = "Remark: The warnings can be suppressed"
    of_the_source = messages.of_the_source
    assert of_the_source(f"{header}\n\n{remark}\n\n", ["/cuda/include"]) == ""
    assert of_the_source(f"{header}\n\n{remark}\n\n{mine}\n\n", ["/cuda/include"]) == (
        f"{remark}\n\n{mine}\n"
    )
    assert of_the_source("", ["/cuda/include"]) == ""
    assert "unused" in compile_cuda('extern "C" __global__ void k() { int unused; }').log


# -- lines --------------------------------------------------------------------------------------


def test_two_sources_of_one_name_keep_their_own_lines():
    for number in (1, 2):
        source = f'extern "C" __global__ void k(int *x)\n{{ x[1] = {number}; }}'
        with pytest.raises(MemoryAccessError, match=rf"x\[1\] = {number};") as error:
            Module.from_cuda(source).launch("k", 1, 1, [np.zeros(1, np.int32)])
        assert error.value.location.line == 2


def test_lines_of_a_real_file_are_the_files(tmp_path):
    file = tmp_path / "kernel.cu"
    file.write_text('extern "C" __global__ void k(int *x)\n{\n    x[1] = 3;\n}\n')
    with pytest.raises(MemoryAccessError, match=r"x\[1\] = 3;") as error:
        Module.from_cuda(file.read_text(), name=str(file)).launch(
            "k", 1, 1, [np.zeros(1, np.int32)]
        )
    assert error.value.location.filename == str(file)


def test_lines_stay_known_when_the_cache_is_checked():
    path = source_path("first\nsecond\n", "thing.cu")
    linecache.checkcache()
    assert linecache.getline(path, 2) == "second\n"


# -- the types of parameters --------------------------------------------------------------------

TYPED = r"""
#include <cuda_fp16.h>
struct Pair { int a; double b; };
typedef const float *Values;
template <class T> __global__ void add(T *x, T y) { }
template <class... T> __global__ void none() { }
__global__ void twice(int) { }
__global__ void twice(float) { }
extern "C" __global__ void k(Values a, unsigned long long b, bool c, Pair d, Pair *e, __half *f,
                             const volatile short *g, void *h, float **i, char j) { }
"""


def test_the_compiler_tells_the_types_of_parameters():
    found = kernel_signature(TYPED, "k")
    assert [(one.pointer, one.kind, one.size) for one in found] == [
        (True, "f", 4),
        (False, "u", 8),
        (False, "b", 1),
        (False, "?", 16),
        (True, "?", 16),
        (True, "?", 2),
        (True, "i", 2),
        (True, "?", 0),
        (True, "?", 8),
        (False, "i", 1),
    ]
    assert str(found[0]) == "float *" and str(found[2]) == "bool"
    assert [str(one) for one in kernel_signature(TYPED, "add<double>")] == ["double *", "double"]
    assert kernel_signature(TYPED, "none<int>") == ()


def test_the_types_of_many_kernels_are_asked_once(monkeypatch):
    asked = []

    def counting(source, *rest, **options):
        asked.append(source)
        return compile_cuda(source, *rest, **options)

    monkeypatch.setattr("virtualgpu.compilers.signatures.compile_cuda", counting)
    kinds = ("float", "double", "int")
    module = Module.from_cuda(
        "".join(
            f'extern "C" __global__ void many{k}({kind} *x) {{ }}\n' for k, kind in enumerate(kinds)
        )
    )
    told = [str(module.signature(f"many{k}")[0]) for k in range(3)]
    assert told == [f"{kind} *" for kind in kinds]
    assert len(asked) == 1
    # One that the compiler cannot tell by its name does not hide the others.
    mixed = Module.from_cuda(
        '__global__ void hidden(int) { }\nextern "C" __global__ void seen(float *x) { }'
    )
    assert str(mixed.signature("seen")[0]) == "float *"
    assert mixed.signature(next(name for name in mixed.entries if name != "seen")) is None


@pytest.mark.parametrize("kernel", ["twice", "unknown", "_Z5twicei"])
def test_types_that_the_compiler_cannot_tell(kernel):
    assert kernel_signature(TYPED, kernel) is None


@pytest.mark.parametrize(
    ("declared", "dtype", "fits"),
    [
        ("float *", np.float32, True),
        ("float *", np.float64, False),
        ("double *", np.int64, False),
        ("int *", np.uint32, True),
        ("int *", np.float32, False),
        ("float *", np.complex64, True),
        ("double *", np.complex64, False),
        ("unsigned char *", np.float64, True),
        ("void *", np.float64, True),
        ("float4 *", np.float32, True),
        ("bool *", np.bool_, True),
        ("float *", np.float16, False),
        ("long *", np.int64, True),
        ("short *", np.int64, False),
        ("int *", [("x", "f8")], True),
    ],
)
def test_arrays_of_the_wrong_type_are_refused(declared, dtype, fits):
    module = Module.from_cuda(f'extern "C" __global__ void k({declared}x) {{ }}')
    if fits:
        module.launch("k", 1, 1, [np.zeros(4, dtype)])
        return
    with pytest.raises(
        LaunchError, match=f"argument 0 is an array of {np.dtype(dtype)}.*parameter is .*astype"
    ):
        module.launch("k", 1, 1, [np.zeros(4, dtype)])


def test_a_kernel_by_its_mangled_name_is_not_looked_at():
    module = Module.from_cuda("__global__ void k(float *x) { x[0] = 1; }")
    (entry,) = module.entries
    x = np.zeros(1)
    module.launch(entry, 1, 1, [x])
    assert x.view(np.float32)[0] == 1
    with pytest.raises(LaunchError, match=f"its mangled C\\+\\+ name is {entry}: write extern"):
        module.launch("k", 1, 1, [x])


# -- variables ----------------------------------------------------------------------------------

VARIABLES = r"""
namespace physics { __constant__ float weights[4]; }
__device__ int counter = 5;
__constant__ double unused;
extern "C" __global__ void scale(float *x)
{ x[threadIdx.x] *= physics::weights[threadIdx.x]; atomicAdd(&counter, 1); }
"""


def test_constant_memory_is_written_and_read():
    module = Module.from_cuda(VARIABLES, names=["&physics::weights", "&counter"])
    module.write_symbol("physics::weights", np.array([1, 10, 100, 1000], np.float32))
    x = np.ones(4, np.float32)
    module.launch("scale", 1, 4, [x])
    assert x.tolist() == [1, 10, 100, 1000]
    assert module.read_symbol("counter", np.int32).tolist() == [9]
    assert module.symbol("&physics::weights")[1] == 16
    module.write_symbol("physics::weights", np.zeros(2, np.float32))
    assert module.read_symbol("physics::weights", np.float32).tolist() == [0, 0, 100, 1000]


def test_variables_that_are_not_there():
    module = Module.from_cuda(VARIABLES)
    with pytest.raises(LinkError, match=r"no variable weights; the module has: .*counter"):
        module.symbol("weights")
    with pytest.raises(LaunchError, match="8 bytes for counter, which has only 4"):
        module.write_symbol("counter", np.zeros(1))


def test_two_modules_have_their_own_variables():
    one, other = (Module.from_cuda(VARIABLES) for _ in range(2))
    one.write_symbol("counter", np.array([1], np.int32))
    assert other.read_symbol("counter", np.int32)[0] == 5


def test_a_modules_memory_goes_with_it():
    memory = devices.current().memory
    before = memory.allocated
    module = Module.from_cuda(VARIABLES)
    module.symbol("counter")
    assert memory.allocated > before
    del module
    assert memory.allocated == before


# -- kernels as the driver sees them ------------------------------------------------------------

SHARED = r"""
extern __shared__ float pool[];
extern "C" __global__ void __launch_bounds__(256) k(float *x, int last)
{ __shared__ float fixed[8]; fixed[last % 8] = 1; pool[last] = 2; x[0] = pool[last];
  x[0] *= fixed[last % 7]; }
"""


def test_attributes_of_a_kernel():
    kernel = CudaFunction(Module.from_cuda(SHARED), "k")
    known = kernel.attributes
    assert known["shared_size_bytes"] == 32 and known["max_threads_per_block"] == 256
    assert known["max_dynamic_shared_size_bytes"] == 48 * 1024 - 32
    assert known["binary_version"] == 90 and 0 < known["num_regs"] <= 255


def test_arrays_of_fixed_size_have_48_kib():
    source = """extern "C" __global__ void k(float *x) {{ __shared__ float s[{0}];
        s[threadIdx.x] = 1; __syncthreads(); x[threadIdx.x] = s[{0} - 1 - threadIdx.x]; }}"""
    assert (
        CudaFunction(Module.from_cuda(source.format(12_288)), "k").attributes["shared_size_bytes"]
        == 49_152
    )
    few = "needs 49,156 bytes of static shared memory, but a block may use at most 49,152"
    with pytest.raises(LaunchError, match=few):
        CudaFunction(Module.from_cuda(source.format(12_289)), "k")


def test_more_shared_memory_must_be_asked_for():
    module = Module.from_cuda(SHARED)
    kernel, x = CudaFunction(module, "k"), devices.current().allocate(4)
    arguments = [module_argument(x), module_argument(14_000, 4)]
    with pytest.raises(
        LaunchError, match=r"60,004 bytes of dynamic shared memory .* whose limit is"
    ):
        kernel.launch((1,), (1,), arguments, 60_004)
    kernel.allow_dynamic(60_004)
    kernel.launch((1,), (1,), arguments, 60_004)
    assert devices.current().read(x, 4).view(np.float32)[0] == 2
    with pytest.raises(LaunchError, match="at most 232,416 in addition to the 32"):
        kernel.allow_dynamic(232_417)
    devices.current().free(x)


def module_argument(value: int, size: int = 8):
    from virtualgpu.cuda.kernel_arguments import Argument

    return Argument(value.to_bytes(size, "little"))


def test_python_keeps_its_bytes():
    """An empty log is one byte long, and Python has one object for each byte."""
    compile_cuda('extern "C" __global__ void nothing() {}')
    assert [one[0] for one in (b" ", b"\0", bytes([32]))] == [32, 0, 32]
    assert list(b"".join([b"a", b" " * 3])) == [97, 32, 32, 32]
