"""``cupy.RawKernel`` and ``cupy.RawModule`` of the stand-in."""

from __future__ import annotations

import contextlib
import io
import pickle
import re

import numpy as np
import pytest

import virtualgpu
from virtualgpu.errors import LaunchError, MemoryAccessError, TrapError

QUADRATIC = r"""
extern "C" __global__ void
greater_root(const double *a, const double *b, const double *c, double *out, int n)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) out[i] = (-b[i] + sqrt(b[i] * b[i] - 4 * a[i] * c[i])) / (2 * a[i]);
}
"""


@pytest.fixture(scope="module")
def root(cp):
    return cp.RawKernel(QUADRATIC, "greater_root")


def coefficients(cp, n: int = 1000) -> tuple:
    random = np.random.default_rng(1)
    return tuple(
        cp.asarray(random.uniform(low, high, n)) for low, high in ((5, 10), (10, 20), (-0.1, 0.1))
    )


def kernel(cp, parameters: str, body: str, **more):
    return cp.RawKernel(f'extern "C" __global__ void k({parameters}) {{ {body} }}', "k", **more)


# -- launching ----------------------------------------------------------------------------------


def test_a_kernel_on_arrays(cp, root):
    a, b, c = coefficients(cp)
    out = cp.empty_like(a)
    root((8,), (128,), (a, b, c, out, 1000))
    a, b, c = a.get(), b.get(), c.get()
    np.testing.assert_allclose(out.get(), (-b + np.sqrt(b * b - 4 * a * c)) / (2 * a), rtol=1e-10)


def test_check_and_profile_see_it(cp, root):
    a, b, c = coefficients(cp)
    out = cp.empty_like(a)
    with virtualgpu.check() as report, virtualgpu.profile() as profile:
        root((8,), (128,), (a, b, c, out, np.int32(1000)))
    assert report.ok, report
    assert profile.launches[0].kernel == "greater_root"


def test_it_is_recorded_as_a_launch(cp, root):
    a, b, c = coefficients(cp, 10)
    with virtualgpu.launches() as launched:
        root((1,), (32,), (a, b, c, cp.empty_like(a), 10))
    assert launched.names == ["greater_root"] and launched.exact
    assert launched[0].details["grid"] == (1, 1, 1)


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("long long", 1 << 40, 1 << 40),
        ("int", 7, 7),
        ("double", 2.5, 2.5),
        ("bool", True, 1),
        ("float", np.float32(1.5), 1.5),
        ("short", np.int16(-3), -3),
        ("unsigned char", np.uint8(200), 200),
    ],
)
def test_numbers_go_by_their_own_width(cp, declared, value, expected):
    out = cp.zeros(1)
    kernel(cp, f"{declared} x, double *out", "*out = x;")((1,), (1,), (value, out))
    assert out.get()[0] == expected


def test_complex_numbers_structures_and_none(cp):
    out = cp.zeros(4)
    code = "out[0] = z.x; out[1] = z.y; out[2] = p.b; out[3] = nothing == 0;"
    pair = np.zeros(1, np.dtype([("a", "i4"), ("b", "f8")], align=True))
    pair["b"] = 9
    source = (
        'struct Pair { int a; double b; };\nextern "C" __global__ void '
        f"k(double2 z, Pair p, float *nothing, double *out) {{ {code} }}"
    )
    cp.RawKernel(source, "k")((1,), (1,), (1 + 2j, pair[0], None, out))
    assert out.get().tolist() == [1, 2, 9, 1]


def test_arrays_of_numba_become_arguments_and_the_other_way_round(cp):
    from numba import cuda

    twice = kernel(cp, "float *x", "x[threadIdx.x] *= 2;")
    of_numba = cuda.to_device(np.arange(4, dtype=np.float32))
    with pytest.raises(TypeError, match=r"Unsupported type .*DeviceNDArray.*cupy\.asarray"):
        twice((1,), (4,), (of_numba,))  # as CuPy does
    twice((1,), (4,), (cp.asarray(of_numba),))
    assert of_numba.copy_to_host().tolist() == [0, 2, 4, 6]

    @cuda.jit
    def add_one(x):
        x[cuda.threadIdx.x] += 1

    of_cupy = cp.arange(4, dtype=np.float32)
    add_one[1, 4](of_cupy)
    twice((1,), (4,), (of_cupy,))
    assert of_cupy.get().tolist() == [2, 4, 6, 8]


def test_parts_of_arrays_and_pointers(cp):
    whole = cp.zeros(8, np.int32)
    one = kernel(cp, "int *x", "x[0] = 1;")
    one((1,), (1,), (whole[3:],))
    one((1,), (1,), (whole.data + 4,))
    assert whole.get().tolist() == [0, 1, 0, 1, 0, 0, 0, 0]


def test_shared_memory_and_streams(cp):
    reverse = kernel(
        cp,
        "int *x",
        "extern __shared__ int t[]; t[threadIdx.x] = x[threadIdx.x]; "
        "__syncthreads(); x[threadIdx.x] = t[31 - threadIdx.x];",
    )
    x = cp.arange(32, dtype=np.int32)
    with cp.cuda.Stream():
        reverse((1,), (32,), (x,), shared_mem=128)
    assert x.get().tolist() == list(range(32))[::-1]


def test_more_than_48_kib_of_shared_memory_must_be_asked_for(cp):
    fill = kernel(cp, "int *x", "extern __shared__ int t[]; t[15000] = 3; x[0] = t[15000];")
    x = cp.zeros(1, np.int32)
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        fill((1,), (1,), (x,), shared_mem=60_004)
    fill.max_dynamic_shared_size_bytes = 60_004
    fill((1,), (1,), (x,), shared_mem=60_004)
    assert x.get()[0] == 3 and fill.attributes["max_dynamic_shared_size_bytes"] == 60_004


def test_a_grid_that_waits_for_itself(cp):
    source = r"""
    #include <cooperative_groups.h>
    extern "C" __global__ void k(int *count, int *out) {
        atomicAdd(count, 1);
        cooperative_groups::this_grid().sync();
        out[blockIdx.x * blockDim.x + threadIdx.x] = *count;
    }"""
    count, out = cp.zeros(1, np.int32), cp.zeros(64, np.int32)
    cp.RawKernel(source, "k", enable_cooperative_groups=True)((2,), (32,), (count, out))
    assert (out.get() == 64).all()


# -- options, attributes, compiling -------------------------------------------------------------


def test_options(cp):
    out = cp.zeros(1, np.int32)
    kernel(cp, "int *x", "*x = N;", options=("-DN=42", "--std=c++17"))((1,), (1,), (out,))
    assert out.get()[0] == 42


def test_host_headers_with_nvcc_or_jitify(cp):
    source = '#include <cstdint>\nextern "C" __global__ void k(std::int32_t *x) { *x = 1; }'
    for more in ({"backend": "nvcc"}, {"jitify": True}):
        cp.RawKernel(source, "k", **more).compile()
    with pytest.raises(cp.cuda.compiler.CompileException, match="no host headers"):
        cp.RawKernel(source, "k").compile()


def test_attributes(cp, root):
    known = root.attributes
    assert known["max_threads_per_block"] == 1024 and known["binary_version"] == 90
    assert root.num_regs == known["num_regs"] > 0
    with pytest.raises(AttributeError, match="not writable"):
        root.num_regs = 3
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = root.nothing


def test_pickling_and_warnings(cp, root):
    again = pickle.loads(pickle.dumps(root))
    assert (again.code, again.name) == (root.code, root.name)
    log = io.StringIO()
    kernel(cp, "int *x", "int unused; *x = 1;").compile(log_stream=log)
    assert "unused" in log.getvalue()


def test_an_error_in_the_source_has_line_and_caret(cp):
    with pytest.raises(cp.cuda.compiler.CompileException) as error:
        cp.RawKernel('extern "C" __global__ void k(int *x)\n{\n  *x = y;\n}', "k").compile()
    text = str(error.value)
    assert 'k.cu line 3: identifier "y" is undefined\n    *x = y;\n         ^' in text
    dumped = io.StringIO()
    error.value.dump(dumped)
    assert "3   *x = y;" in dumped.getvalue()


# -- what goes wrong ----------------------------------------------------------------------------


def test_out_of_bounds_names_the_line(cp):
    bad = cp.RawKernel('extern "C" __global__ void k(int *x)\n{\n  x[threadIdx.x] = 1;\n}', "k")
    with pytest.raises(RuntimeError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as error:
        bad((1,), (32,), (cp.zeros(31, np.int32),))
    assert isinstance(error.value, cp.cuda.driver.CUDADriverError | MemoryAccessError)
    assert isinstance(error.value, MemoryAccessError)
    assert error.value.location.line == 3 and error.value.location.thread == (31, 0, 0)
    assert "x[threadIdx.x] = 1;" in str(error.value)


def test_races_name_the_line_of_the_string(cp):
    racy = cp.RawKernel('extern "C" __global__ void k(int *x)\n{\n  x[0] += 1;\n}', "k")
    with virtualgpu.check() as report:
        racy((1,), (32,), (cp.zeros(1, np.int32),))
    found = report.of_kind("race")
    assert found and found[0].line == 3 and "x[0] += 1;" in str(found[0])


def test_other_failures(cp):
    with pytest.raises(RuntimeError, match="CUDA_ERROR_ASSERT"):
        kernel(cp, "", "assert(false);")((1,), (1,), ())
    with pytest.raises(RuntimeError, match="CUDA_ERROR_LAUNCH_FAILED") as error:
        kernel(cp, "", "__trap();")((1,), (1,), ())
    assert isinstance(error.value, TrapError)
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE") as error:
        kernel(cp, "", "")((1,), (2048,), ())
    assert isinstance(error.value, LaunchError)
    with pytest.raises(RuntimeError, match=r"CUDA_ERROR_NOT_FOUND.*\n.*no kernel other"):
        cp.RawKernel('extern "C" __global__ void k() { }', "other").compile()
    with pytest.raises(RuntimeError, match='write extern "C"'):
        cp.RawKernel("__global__ void k() { }", "k").compile()


@pytest.mark.parametrize("bad", [[1], "1", np.zeros(3), (1, 2), object()])
def test_arguments_that_cupy_refuses(cp, bad):
    with pytest.raises(TypeError, match=r"Unsupported type|numpy\.ndarray of shape \(3,\)"):
        kernel(cp, "int *x", "")((1,), (1,), (bad,))


def test_grids_are_tuples(cp):
    with pytest.raises(TypeError, match=r"expected tuple, got int\): write \(1,\)"):
        kernel(cp, "", "")(1, (1,), ())
    with pytest.raises(TypeError, match="expected tuple, got list"):
        cp.RawKernel("", "k", ["-DN"])


# -- arguments that do not fit ------------------------------------------------------------------


def findings(run) -> list[str]:
    with virtualgpu.check() as report, contextlib.suppress(RuntimeError):
        run()
    return [finding.message for finding in report.of_kind("arguments")]


def test_too_few_arguments_are_an_error_and_a_finding(cp, root):
    a, b, c = coefficients(cp, 4)
    with pytest.raises(RuntimeError, match="takes 5 arguments and was given 3"):
        root((1,), (4,), (a, b, c))
    assert findings(lambda: root((1,), (4,), (a, b, c))) == [
        "greater_root takes 5 arguments and was given 3"
    ]


def test_too_many_arguments_pass_as_in_cupy_and_are_a_finding(cp, root):
    a, b, c = coefficients(cp, 4)
    out = cp.zeros(4)
    run = lambda: root((1,), (4,), (a, b, c, out, 4, 5))  # noqa: E731
    run()
    assert out.get().all()
    assert findings(run) == ["greater_root takes 5 arguments and was given 6"]


def test_an_array_of_another_type_is_a_finding(cp, root):
    a, b, c = coefficients(cp, 4)
    run = lambda: root((1,), (2,), (a.astype(np.float32), b, c, cp.zeros(4), 2))  # noqa: E731
    run()
    assert findings(run) == [
        "argument 0 of greater_root is an array of float32; the kernel's parameter is double *"
    ]


@pytest.mark.parametrize(
    ("declared", "value", "words"),
    [
        ("float", 1.5, "a number of type float64; the kernel's parameter is float"),
        ("float", 1, "a number of type int64; the kernel's parameter is float"),
        ("long long", np.int32(1), "a number of type int32; .* is long long"),
        ("int", 1 << 40, "a number of type int64; .* is int"),
        ("int", 7, None),
        ("int", -7, None),
        ("bool", True, None),
        ("unsigned", 7, None),
        ("double", np.float64(1), None),
        ("float *", 3.5, "float64; .* is float \\*"),
    ],
)
def test_numbers_that_do_not_fit_are_findings(cp, declared, value, words):
    found = findings(lambda: kernel(cp, f"{declared} x", "")((1,), (1,), (value,)))
    if words is None:
        assert found == []
    else:
        (message,) = found
        assert re.search(words, message)


def test_a_narrow_number_brings_poison_not_zeros(cp):
    out = cp.zeros(1, np.int64)
    kernel(cp, "long long x, long long *out", "*out = x;")((1,), (1,), (np.int32(1), out))
    assert out.get()[0] == np.frombuffer(b"\1\0\0\0\xfe\xfe\xfe\xfe", np.int64)[0]


def test_findings_say_where_the_kernel_is(cp, root):
    with virtualgpu.check() as report, pytest.raises(RuntimeError):
        root((1,), (4,), ())
    (finding,) = report.findings
    assert (finding.kind, finding.kernel, finding.line) == ("arguments", "greater_root", 3)
    assert "1 finding" in str(report)


# -- modules ------------------------------------------------------------------------------------

MODULE = r"""
__constant__ float weights[4];
__device__ int calls;
template <class T> __global__ void scale(T *x) { x[threadIdx.x] *= weights[threadIdx.x % 4]; }
extern "C" __global__ void count() { atomicAdd(&calls, 1); }
extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }
"""


@pytest.fixture
def module(cp):
    return cp.RawModule(code=MODULE, name_expressions=("scale<float>", "scale<double>"))


def test_templates_and_constant_memory(cp, module):
    weights = cp.ndarray((4,), np.float32, module.get_global("weights"))
    weights[...] = cp.asarray([1, 10, 100, 1000], dtype=np.float32)
    for name, dtype in (("scale<float>", np.float32), ("scale<double>", np.float64)):
        x = cp.ones(4, dtype)
        module.get_function(name)((1,), (4,), (x,))
        assert x.get().tolist() == [1, 10, 100, 1000]


def test_kernels_of_a_module_share_its_variables(cp, module):
    calls = cp.ndarray((1,), np.int32, module.get_global("calls"))
    calls[...] = 0
    module.get_function("count")((3,), (2,), ())
    cp.RawModule(code=MODULE, name_expressions=("scale<float>", "scale<double>")).get_function(
        "count"
    )((1,), (1,), ())
    assert calls.get()[0] == 7
    with pytest.raises(RuntimeError, match=r"CUDA_ERROR_NOT_FOUND.*\n.*no variable nothing"):
        module.get_global("nothing")
    with pytest.raises(RuntimeError, match=r"the module has: .*scale<float>"):
        module.get_function("scale<int>")


def test_modules_from_files(cp, module, tmp_path):
    ptx = tmp_path / "module.ptx"
    ptx.write_text(module.module.texts[0])
    x = cp.ones(2, np.float32)
    cp.RawModule(path=str(ptx)).get_function("twice")((1,), (2,), (x,))
    assert x.get().tolist() == [2, 2]
    cubin = tmp_path / "module.cubin"
    cubin.write_bytes(b"\x7fELF")
    with pytest.raises(NotImplementedError, match="machine code"):
        cp.RawModule(path=str(cubin)).get_function("twice")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"code": "", "path": ""},
        {"path": "x.ptx", "name_expressions": ["k"]},
        {"code": "", "backend": "nvcc", "name_expressions": ["k"]},
        {"code": "", "options": ["-DN"]},
    ],
)
def test_modules_that_make_no_sense(cp, given):
    with pytest.raises((TypeError, ValueError)):
        cp.RawModule(**given)


@pytest.mark.parametrize(
    "options",
    [
        ("-std=c++14",),
        *(pytest.param(one, marks=pytest.mark.rehearsal) for one in ((), ("--std=c++11",))),
    ],
)
def test_complex_numbers_by_cupys_header(cp, options):
    source = (
        '#include <cupy/complex.cuh>\nextern "C" __global__ void '
        "k(complex<float> *z) { z[threadIdx.x] = z[threadIdx.x] * 2 + 1.0f; }"
    )
    z = cp.asarray([1 + 2j, 3j], dtype=np.complex64)
    cp.RawKernel(source, "k", options)((1,), (2,), (z,))
    assert z.get().tolist() == [3 + 4j, 1 + 6j]


def test_nvcc_knows_the_short_names_of_types_and_nvrtc_does_not(cp):
    code = """extern "C" __global__ void k(uint *out)
{
    ushort s = 3;
    ulong l = 4;
    uint i = threadIdx.x;
    out[i] = i + s + l;
}"""
    out = cp.zeros(4, cp.uint32)
    cp.RawModule(code=code, backend="nvcc").get_function("k")((1,), (4,), (out,))
    assert out.get().tolist() == [7, 8, 9, 10]
    with pytest.raises(cp.cuda.compiler.CompileException):
        cp.RawModule(code=code).get_function("k")


@pytest.mark.parametrize("name", ["ctxGetDevice", "driverGetVersion", "get_build_version"])
def test_what_the_driver_module_lacks_is_named(cp, name):
    with pytest.raises(
        NotImplementedError, match=rf"cupy\.cuda\.driver\.{name} is not in .*use cupy"
    ):
        getattr(cp.cuda.driver, name)
