"""``pycuda.driver``, ``pycuda.compiler`` and ``pycuda.tools`` of the stand-in.

Above 500 lines: a short test for each thing that PyCUDA documents of them.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import virtualgpu
from virtualgpu.errors import LaunchError, MemoryAccessError

SOURCE = r"""
#include <stdio.h>
#include <math.h>

__constant__ float weights[4];
__device__ int counter = 5;

__global__ void increment(int *data)
{
    data[threadIdx.x]++;
}
__global__ void scale(float *x, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
__global__ void weigh(float *x) { x[threadIdx.x] *= weights[threadIdx.x]; atomicAdd(&counter, 1); }
__global__ void reverse(int *x)
{
    extern __shared__ int tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
__global__ void racy(int *x) { x[0] += 1; }
__global__ void fails() { assert(false); }
__global__ void three(char a, double b, short c, double *out)
{ out[0] = a; out[1] = b; out[2] = c; }
"""


@pytest.fixture(scope="module")
def drv() -> Iterator:
    was_active = virtualgpu.is_active()
    virtualgpu.activate()
    import pycuda.autoinit
    import pycuda.driver

    yield pycuda.driver
    if not was_active:
        virtualgpu.deactivate()


@pytest.fixture(scope="module")
def module(drv):
    from pycuda.compiler import SourceModule

    return SourceModule(SOURCE)


@pytest.fixture
def no_context(drv) -> Iterator[None]:
    """As before ``pycuda.autoinit``, also after a lesson that took the primary context."""
    import pycuda.autoinit

    contexts = [pycuda.autoinit.context]
    if (primary := sys.modules.get("pycuda.autoprimaryctx")) is not None:
        contexts.append(primary.context)
    for context in contexts:
        context.detach()
    yield
    for context in contexts:
        context.push()


# -- launching ----------------------------------------------------------------------------------


def test_in_and_out(drv, module):
    increment = module.get_function("increment")
    data = np.arange(1024, dtype=np.int32)
    increment(drv.InOut(data), block=(1024, 1, 1))
    np.testing.assert_array_equal(data, np.arange(1, 1025))
    untouched = np.zeros(4, np.int32)
    increment(drv.In(untouched), block=(4, 1, 1))
    assert not untouched.any()
    fresh = np.zeros(4, np.int32)
    increment(drv.Out(fresh), block=(4, 1, 1))
    assert (fresh == np.frombuffer(b"\xfe" * 4, np.int32)[0] + 1).all()  # never written


def test_device_memory_and_numbers(drv, module):
    x = np.arange(100, dtype=np.float32)
    on_device = drv.mem_alloc(x.nbytes)
    drv.memcpy_htod(on_device, x)
    module.get_function("scale")(
        on_device, np.float32(3), np.int32(50), grid=(4, 1), block=(32, 1, 1)
    )
    back = np.empty_like(x)
    drv.memcpy_dtoh(back, on_device)
    np.testing.assert_array_equal(back, np.where(x < 50, 3 * x, x))


def test_parameters_of_unequal_sizes(drv, module):
    out = np.zeros(3)
    module.get_function("three")(
        np.int8(-1), np.float64(2.5), np.int16(-3), drv.InOut(out), block=(1, 1, 1)
    )
    assert out.tolist() == [-1, 2.5, -3]


def test_shared_memory(drv, module):
    x = np.arange(64, dtype=np.int32)
    module.get_function("reverse")(drv.InOut(x), block=(64, 1, 1), shared=256)
    np.testing.assert_array_equal(x, np.arange(64)[::-1])


def test_more_than_48_kib_of_shared_memory_must_be_asked_for(drv, module):
    reverse, x = module.get_function("reverse"), np.arange(4, dtype=np.int32)
    with pytest.raises(drv.LogicError, match=r"invalid argument.*\n.*Request more before"):
        reverse(drv.InOut(x), block=(4, 1, 1), shared=60_000)
    reverse.set_attribute(drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 60_000)
    reverse(drv.InOut(x), block=(4, 1, 1), shared=60_000)
    assert x.tolist() == [3, 2, 1, 0]


def test_constant_memory_and_variables(drv, module):
    address, nbytes = module.get_global("weights")
    drv.memcpy_htod(address, np.array([1, 2, 3, 4], np.float32))
    x = np.ones(4, np.float32)
    module.get_function("weigh")(drv.InOut(x), block=(4, 1, 1))
    assert (nbytes, x.tolist()) == (16, [1, 2, 3, 4])
    counter = drv.from_device(module.get_global("counter")[0], (1,), np.int32)
    assert counter[0] == 9


def test_prepared_calls(drv, module):
    scale = module.get_function("scale").prepare("Pfi")
    x = drv.to_device(np.ones(4, np.float32))
    scale.prepared_call((1, 1), (4, 1, 1), x, 2.0, 4)
    scale.prepared_async_call((1,), (4, 1, 1), drv.Stream(), int(x), 2.0, 4)
    with pytest.warns(UserWarning, match="no times"):
        assert math.isnan(scale.prepared_timed_call((1, 1), (4, 1, 1), x, 2.0, 4)())
    assert drv.from_device(x, (4,), np.float32).tolist() == [8] * 4
    by_type = module.get_function("scale").prepare([np.intp, np.float32, np.dtype(np.int32)])
    by_type.prepared_call((1, 1), (4, 1, 1), int(x), 0.5, 4)
    with pytest.raises(struct.error, match="exactly 3"):
        scale.prepared_call((1, 1), (4, 1, 1), x)
    with pytest.raises(struct.error, match="not an integer"):
        scale.prepared_call((1, 1), (4, 1, 1), x, 2.0, 4.5)
    with pytest.raises(drv.LogicError, match="before prepare"):
        module.get_function("increment").prepared_call((1, 1), (4, 1, 1), x)


def test_arrays_of_numba_and_cupy(drv, module):
    import cupy
    from numba import cuda

    increment = module.get_function("increment")
    for array in (cupy.arange(4, dtype=np.int32), cuda.to_device(np.arange(4, dtype=np.int32))):
        increment(array, block=(4, 1, 1))
        back = array.get() if hasattr(array, "get") else array.copy_to_host()
        assert back.tolist() == [1, 2, 3, 4]


def test_pointers_of_ones_own(drv, module):
    class Mine(drv.PointerHolderBase):
        def get_pointer(self):
            return int(memory) + 4

    memory = drv.to_device(np.zeros(2, np.int32))
    module.get_function("increment")(Mine(), block=(1, 1, 1))
    drv.memset_d32(Mine(), int(drv.from_device(Mine(), 1, np.int32)[0]) + 1, 1)
    assert drv.from_device(memory, 2, np.int32).tolist() == [0, 2]
    with pytest.raises(NotImplementedError, match="get_pointer"):
        int(drv.PointerHolderBase())


def test_check_and_profile_see_launches(drv, module):
    x = drv.to_device(np.zeros(1, np.int32))
    with virtualgpu.profile() as profile, virtualgpu.check() as report:
        module.get_function("racy")(x, block=(32, 1, 1))
    assert profile.launches[0].kernel == "racy"
    line = next(i for i, text in enumerate(SOURCE.splitlines(), 1) if "racy" in text)
    (race, *_) = report.of_kind("race")
    assert race.line == line and "x[0] += 1" in str(race)


def test_no_times(drv, module):
    x = drv.to_device(np.zeros(1, np.int32))
    with pytest.warns(UserWarning, match="time_kernel returns nan"):
        assert math.isnan(module.get_function("racy")(x, block=(1, 1, 1), time_kernel=True))
    start, end = drv.Event(), drv.Event()
    with pytest.raises(drv.LogicError, match="record both"):
        end.time_since(start)
    stream = drv.Stream()
    assert start.record(stream) is start
    end.record().synchronize()
    stream.synchronize()
    assert end.query() and stream.is_done()
    with pytest.warns(UserWarning, match="no times"):
        assert math.isnan(end.time_since(start)) and math.isnan(start.time_till(end))


# -- what goes wrong ----------------------------------------------------------------------------


def test_python_numbers_are_refused(drv, module):
    x = drv.mem_alloc(4)
    for position, arguments in enumerate(
        ([1, np.float32(1), np.int32(1)], [x, 2.0, np.int32(1)], [x, np.float32(1), True])
    ):
        with pytest.raises(TypeError, match=rf"parameter #{position} \(0-based\).*numpy\.int32"):
            module.get_function("scale")(*arguments, block=(1, 1, 1))


def test_blocks_and_keywords(drv, module):
    increment = module.get_function("increment")
    x = drv.mem_alloc(4)
    with pytest.raises(ValueError, match="must specify block size"):
        increment(x)
    with pytest.raises(TypeError, match="tuples"):
        increment(x, block=32)
    for grid, block, words in [
        ((4 / 2, 1), (1, 1, 1), r"grid=\(2\.0, 1\) contains float.*only Python.s int.*//"),
        ((1, 1), (np.int32(1), 1, 1), r"block=.* contains numpy\.int32.*int\(\.\.\.\)"),
        ((1, 1), (32, 1), r"block=\(32, 1\) has 2 numbers: pass three"),
        ((1, 1, 1, 1), (1, 1, 1), "grid=.* has 4 numbers"),
    ]:
        with pytest.raises(TypeError, match=words):
            increment(x, grid=grid, block=block)
    with pytest.raises(TypeError, match="nothing"):
        increment(x, block=(1, 1, 1), nothing=1)
    with pytest.raises(drv.LogicError, match="2048 threads in a block") as error:
        increment(x, block=(2048, 1, 1))
    assert isinstance(error.value, LaunchError)


def test_out_of_bounds(drv, module):
    with pytest.raises(drv.LogicError, match="illegal memory access") as error:
        module.get_function("increment")(drv.InOut(np.zeros(31, np.int32)), block=(32, 1, 1))
    assert isinstance(error.value, MemoryAccessError)
    assert error.value.location.thread == (31, 0, 0)
    assert "data[threadIdx.x]++" in str(error.value)


def test_failed_asserts(drv, module):
    with pytest.raises(drv.LaunchError, match=r"unspecified launch failure.*\n.*assert"):
        module.get_function("fails")(block=(1, 1, 1))


def test_arguments_that_do_not_fit_are_findings(drv, module):
    scale, x = module.get_function("scale"), drv.to_device(np.ones(8, np.float32))
    with virtualgpu.check() as report:
        scale(drv.InOut(np.ones(8)), np.float32(1), np.int32(8), block=(8, 1, 1))
        with pytest.raises(
            drv.LogicError, match=r"takes 3 arguments of \[8, 4, 4\] bytes, but the 2"
        ):
            scale(x, np.float32(1), block=(8, 1, 1))
    assert [finding.message for finding in report.of_kind("arguments")] == [
        "argument 0 of scale is an array of float64; the kernel's parameter is float *",
        "scale takes 3 arguments and was given 2",
    ]


def test_a_number_too_wide_moves_those_after_it(drv, module):
    """PyCUDA packs arguments one after the other; only check() looks at them."""
    out = np.zeros(3)
    with virtualgpu.check() as report:
        module.get_function("three")(
            np.int64(7), np.float64(2.5), np.int16(3), drv.InOut(out), block=(1, 1, 1)
        )
    assert out.tolist() == [7, 2.5, 3]  # the double is aligned to 8 anyway
    assert report.ok or report.of_kind("arguments")
    shifted = np.ones(4, np.float32)
    with virtualgpu.check() as report:
        module.get_function("scale")(
            drv.InOut(shifted), np.float64(3), np.int32(4), block=(4, 1, 1)
        )
    assert shifted.tolist() != [3] * 4
    assert "float64; the kernel's parameter is float" in str(report)


def test_names_that_are_not_there(drv, module):
    with pytest.raises(drv.LogicError, match="cuModuleGetFunction failed: named symbol not found"):
        module.get_function("nothing")
    with pytest.raises(drv.LogicError, match="cuModuleGetGlobal failed: named symbol not found"):
        module.get_global("nothing")
    with pytest.raises(NotImplementedError, match="PyCUDA has no texture objects"):
        module.get_texref("nothing")
    with pytest.raises(NotImplementedError, match="has removed texture references"):
        module.get_function("racy")(drv.mem_alloc(4), block=(1, 1, 1), texrefs=[1])


# -- compiling ----------------------------------------------------------------------------------


def test_a_compile_error_has_line_caret_and_log(drv):
    from pycuda.compiler import SourceModule

    with pytest.raises(drv.CompileError) as error:
        SourceModule("\n__global__ void k(int *x)\n{\n  *x = y;\n}")
    text = str(error.value)
    assert 'kernel.cu line 4: identifier "y" is undefined\n    *x = y;\n         ^' in text
    assert "kernel.cu(4): error" in error.value.stderr and error.value.command_line[0] == "nvrtc"
    assert isinstance(error.value, drv.Error)


def test_mangled_names_and_templates(drv):
    from pycuda.compiler import SourceModule

    source = (
        "template <class T> __device__ T two() { return 2; }\n"
        "{} __global__ void k(float *x) {{ *x = two<float>(); }}".replace("{}", "%s")
    )
    source = source.replace("{{", "{").replace("}}", "}")
    with pytest.raises(drv.CompileError, match="templates cannot be inside"):
        SourceModule(source % "")
    plain = SourceModule(source % "", no_extern_c=True)
    with pytest.raises(drv.LogicError, match='write extern "C"'):
        plain.get_function("k")
    x = np.zeros(1, np.float32)
    module = SourceModule(source % 'extern "C"', no_extern_c=True)
    module.get_function("k")(drv.InOut(x), block=(1, 1, 1))
    assert x[0] == 2


def test_options_of_nvcc(drv, tmp_path):
    from pycuda.compiler import SourceModule, compile, nvrtc_options

    assert nvrtc_options(
        ["-O3", "-Xcompiler", "-fPIC", "--ptxas-options=-v", "-DN=3", "-use_fast_math"]
    ) == ["-DN=3", "-use_fast_math"]
    (tmp_path / "mine.h").write_text("#define M 39\n")
    x = np.zeros(1, np.int32)
    SourceModule(
        '#include "mine.h"\n__global__ void k(int *x) { *x = N + M; }',
        options=["-O3", "-DN=3"],
        include_dirs=[str(tmp_path)],
        arch="sm_80",
    ).get_function("k")(drv.InOut(x), block=(1, 1, 1))
    assert x[0] == 42
    ptx = compile("__global__ void k() { }")
    assert ptx.startswith(b"//")
    drv.module_from_buffer(ptx).get_function("k")(block=(1, 1, 1))
    file = tmp_path / "k.ptx"
    file.write_bytes(ptx)
    drv.module_from_file(str(file)).get_function("k")
    with pytest.raises(NotImplementedError, match="machine code"):
        drv.module_from_buffer(b"\x7fELF")


def test_warnings_of_the_compiler(drv):
    from pycuda.compiler import SourceModule

    with pytest.warns(UserWarning, match="said the following:\n.*never referenced"):
        SourceModule("__global__ void k(int *x) { int unused; }")


# -- memory -------------------------------------------------------------------------------------


def test_memory_is_counted_and_freed(drv):
    free, total = drv.mem_get_info()
    kept = drv.mem_alloc(1 << 20)
    assert drv.mem_get_info() == (free - (1 << 20), total)
    kept.free()
    assert drv.mem_get_info()[0] == free
    with pytest.raises(drv.LogicError, match="already freed"):
        kept.free()
    kept = drv.mem_alloc(1 << 20)
    del kept
    assert drv.mem_get_info()[0] == free
    with pytest.raises(drv.MemoryError, match="out of memory"):
        drv.mem_alloc(1 << 60)
    with pytest.raises(MemoryError):
        drv.mem_alloc(1 << 60)
    with pytest.raises(drv.LogicError, match="0 bytes"):
        drv.mem_alloc(0)


def test_copies(drv):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    here, there = drv.to_device(x), drv.mem_alloc_like(x)
    drv.memcpy_dtod(there, here, x.nbytes)
    np.testing.assert_array_equal(drv.from_device_like(there, x), x)
    drv.memcpy_htod_async(there, np.asfortranarray(x), drv.Stream())
    assert drv.from_device(there, (3, 2), np.float32).T.tolist() == x.tolist()
    drv.memset_d32(there, 7, 6)
    assert drv.from_device(there, 6, np.int32).tolist() == [7] * 6
    drv.memset_d8(int(there) + 4, 255, 4)
    assert drv.from_device(there, 6, np.int32).tolist() == [7, -1, 7, 7, 7, 7]
    drv.memset_d16(there, 1, 2)
    assert drv.from_device(there, 2, np.int16).tolist() == [1, 1]
    allocation, pitch = drv.mem_alloc_pitch(100, 3, 4)
    assert pitch % 512 == 0 and allocation.nbytes == 3 * pitch
    drv.memcpy_htod(there, b"1234")
    assert drv.from_device(there, 4, np.uint8).tobytes() == b"1234"


def test_bad_copies(drv):
    x = drv.mem_alloc(8)
    with pytest.raises(ValueError, match="contiguous"):
        drv.memcpy_htod(x, np.zeros((4, 4), np.int8)[:, ::2])
    with pytest.raises(drv.LogicError, match="cuMemcpyHtoD failed: invalid argument"):
        drv.memcpy_htod(x, np.zeros(9, np.int8))
    with pytest.raises(drv.LogicError, match="cuMemcpyDtoH failed: invalid argument"):
        drv.memcpy_dtoh(np.zeros(4, np.int8), 1234)
    constant = np.zeros(4, np.int8)
    constant.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        drv.memcpy_dtoh(constant, x)
    with pytest.raises(TypeError, match="could not determine array length"):
        drv.In([1, 2]).get_device_alloc()


def test_host_arrays(drv, module):
    for make in (drv.pagelocked_zeros, drv.aligned_zeros, drv.managed_zeros):
        array = make((2, 3), np.float32, order="F")
        assert array.shape == (2, 3) and array.flags.f_contiguous and not array.any()
    assert drv.aligned_empty(3, np.float64).ctypes.data % 4096 == 0
    like = drv.pagelocked_zeros_like(np.ones((2, 2), np.int16))
    assert like.dtype == np.int16 and like.tolist() == [[0, 0], [0, 0]]
    assert isinstance(like.base, drv.HostAllocation)
    shared = drv.managed_empty(4, np.int32)
    shared[:] = range(4)
    module.get_function("increment")(shared, block=(4, 1, 1))
    drv.Context.synchronize()
    assert shared.tolist() == [1, 2, 3, 4] and isinstance(shared.base, drv.ManagedAllocation)
    registered = np.zeros(3)
    assert drv.register_host_memory(registered) is registered


def test_pools(drv):
    from pycuda.tools import DeviceMemoryPool, PageLockedMemoryPool

    pool = DeviceMemoryPool()
    one = pool.allocate(1024)
    address = int(one)
    assert (pool.active_blocks, pool.held_blocks) == (1, 0)
    del one
    assert (pool.active_blocks, pool.held_blocks, pool.managed_bytes) == (0, 1, 1024)
    again = pool.allocate(1024)
    assert int(again) == address
    again.free()
    pool.stop_holding()
    assert pool.held_blocks == 0
    assert PageLockedMemoryPool().allocate((2,), np.int32).shape == (2,)


# -- devices and contexts -----------------------------------------------------------------------


def test_the_device_says_what_it_is(drv):
    assert drv.Device.count() == 1
    device = drv.Device(0)
    assert device.name() == "Virtual GPU (CPU)" and device.compute_capability() == (9, 0)
    assert device.max_threads_per_block == 1024
    assert device.get_attribute(drv.device_attribute.WARP_SIZE) == 32
    attributes = device.get_attributes()
    assert attributes[drv.device_attribute.MAX_BLOCK_DIM_Z] == 64
    assert device.total_memory() == drv.mem_get_info()[1]
    assert drv.Context.get_device() == device
    assert drv.get_version() >= (12, 0, 0)
    with pytest.raises(drv.LogicError, match="invalid device ordinal"):
        drv.Device(1)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = device.nothing


def test_the_current_context_is_on_top(drv, no_context):
    assert drv.Context.get_current() is None
    context = drv.Device(0).make_context(drv.ctx_flags.BLOCKING_SYNC & drv.ctx_flags.FLAGS_MASK)
    assert drv.Context.get_current() is context
    context.pop()
    assert drv.Context.get_current() is None


@pytest.mark.parametrize(
    "use",
    [
        lambda drv: drv.mem_alloc(4),
        lambda drv: drv.Stream(),
        lambda drv: drv.Event(),
        lambda drv: drv.mem_get_info(),
        lambda drv: drv.Context.synchronize(),
        lambda drv: drv.memcpy_htod(4096, b"1"),
        lambda drv: drv.Context.get_device(),
        lambda drv: drv.Context.pop(),
        lambda drv: drv.managed_empty(3, np.int8),
        lambda drv: __import__("pycuda.compiler").compiler.SourceModule(""),
    ],
)
def test_without_a_context_nothing_works(drv, no_context, use):
    with pytest.raises(drv.LogicError, match="invalid device context"):
        use(drv)


def test_contexts_nest(drv):
    from pycuda.tools import make_default_context, mark_cuda_test

    context = make_default_context()
    context.pop()
    context.push()
    context.detach()
    assert mark_cuda_test(lambda: drv.Context.get_device().count())() == 1
    drv.mem_alloc(4)


def test_attributes_of_a_function(drv, module):
    scale = module.get_function("scale")
    assert scale.max_threads_per_block == 1024 and scale.num_regs > 0
    assert scale.get_attribute(drv.function_attribute.SHARED_SIZE_BYTES) == 0
    scale.set_cache_config(drv.func_cache.PREFER_L1)
    with pytest.raises(AttributeError):
        _ = scale.nothing
    with pytest.raises(drv.LogicError):
        scale.set_attribute(drv.function_attribute.NUM_REGS, 3)


def test_what_is_missing_names_what_to_use(drv):
    import pycuda.compiler

    words = r"driver\.Memcpy2D is .* use a copy for each row"
    with pytest.raises(NotImplementedError, match=words):
        _ = drv.Memcpy2D
    with pytest.raises(NotImplementedError, match="DynamicSourceModule"):
        _ = pycuda.compiler.DynamicSourceModule
    with pytest.raises(ModuleNotFoundError, match=r"has no module pycuda\.gl"):
        __import__("pycuda.gl")
    with pytest.raises(
        AttributeError, match=r"pycuda\.driver\.nothing is not in PyCUDA's stand-in"
    ):
        _ = drv.nothing
    assert not hasattr(drv, "Memcpy2D")


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        ("tools", "bitlog2", "use int.bit_length"),
        ("tools", "PageLockedAllocator", "use pycuda.driver.pagelocked_empty"),
        ("curandom", "get_curand_version", "NumPy draws the numbers"),
        ("elementwise", "get_axpbyz_kernel", "is not in PyCUDA's stand-in"),
        ("characterize", "sizeof", "is not in PyCUDA's stand-in"),
    ],
)
def test_each_module_names_what_it_lacks(drv, module, name, instead):
    with pytest.raises(ImportError, match=rf"pycuda\.{module}\.{name} .*{instead}"):
        exec(f"from pycuda.{module} import {name}", {})


def test_a_pool_names_what_it_lacks(drv):
    from pycuda.tools import DeviceMemoryPool

    pool = DeviceMemoryPool()
    for name in ("bin_number", "alloc_size"):
        with pytest.raises(NotImplementedError, match=rf"DeviceMemoryPool\.{name} is not in"):
            getattr(pool, name)


def test_types_and_occupancy(drv):
    from pycuda import tools

    assert tools.dtype_to_ctype(np.float32) == "float"
    assert tools.dtype_to_ctype(np.complex128) == "pycuda::complex<double>"
    with pytest.raises(ValueError, match="unable to map"):
        tools.dtype_to_ctype([("q", "f4")])
    tools.get_or_register_dtype("point", np.dtype([("q", "f4")]))
    assert tools.dtype_to_ctype([("q", "f4")]) == "point"
    assert isinstance(tools.parse_c_arg("const unsigned int *__restrict__ x"), tools.VectorArg)
    parsed = tools.parse_c_arg("long long n")
    assert (parsed.name, parsed.dtype, parsed.struct_char) == ("n", np.int64, "q")
    for bad in ("nothing x", "x", ""):
        with pytest.raises(ValueError, match=r"unknown type|simple declarations"):
            tools.parse_c_arg(bad)
    record = tools.OccupancyRecord(tools.DeviceData(), 256, shared_mem=16384)
    assert (record.tb_per_mp, record.limited_by, record.occupancy) == (3, "smem", 0.375)
    with pytest.raises(ValueError, match="too many threads"):
        tools.OccupancyRecord(tools.DeviceData(), 2048)


def test_no_python_object_gets_onto_the_device_or_is_made_of_its_bytes(drv):
    from pycuda import gpuarray

    objects = np.array([None, None])
    refused = pytest.raises(TypeError, match="addresses of Python objects")
    there = drv.mem_alloc(16)
    for attempt in (
        lambda: drv.to_device(objects),
        lambda: drv.memcpy_htod(there, objects),
        lambda: drv.memcpy_dtoh(objects, there),
        lambda: drv.from_device(there, 2, object),
        lambda: drv.from_device_like(there, objects),
        lambda: drv.pagelocked_empty(2, object),
        lambda: drv.managed_empty(2, object),
        lambda: gpuarray.to_gpu(objects),
        lambda: gpuarray.empty(2, object),
    ):
        with refused:
            attempt()
    assert objects.tolist() == [None, None]
    drv.memcpy_htod(there, np.arange(2))
    assert drv.from_device(there, 2, np.int64).tolist() == [0, 1]


def test_names_that_are_missing_say_what_to_use():
    """A bare AttributeError looked like a typing mistake."""
    import pycuda.autoinit  # noqa: F401
    import pycuda.driver as drv
    from pycuda.compiler import SourceModule

    function = SourceModule("__global__ void f() {}").get_function("f")
    for owner, names in (
        (
            drv.Context,
            "attach get_limit set_limit get_shared_config set_shared_config "
            "enable_peer_access disable_peer_access",
        ),
        (drv.Device(0), "can_access_peer uuid"),
        (drv.Event(), "ipc_handle"),
        (drv.Stream(), "begin_capture"),
        (
            drv,
            "limit shared_config array_format address_mode filter_mode memory_type "
            "initialize_profiler",
        ),
        (function, "param_set set_block_shape launch launch_grid"),
    ):
        for name in names.split():
            assert not hasattr(owner, name)
            with pytest.raises(NotImplementedError, match=rf"driver\.(\w+\.)?{name} .* use "):
                getattr(owner, name)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = function.nothing_of_this_name


def test_device_memory_where_a_pointer_was_prepared_as_an_integer(drv, module):
    x = drv.to_device(np.ones(4, np.float32))
    scale = module.get_function("scale").prepare([np.intp, np.float32, np.int32])
    scale.prepared_call((1, 1), (4, 1, 1), x, 2.0, np.int64(3))
    assert drv.from_device(x, (4,), np.float32).tolist() == [2, 2, 2, 1]
    with pytest.raises(struct.error, match="not an integer"):
        scale.prepared_call((1, 1), (4, 1, 1), x, 2.0, np.ones(2))


def test_a_struct_for_a_dtype(drv):
    from pycuda.elementwise import ElementwiseKernel
    from pycuda.gpuarray import empty, to_gpu
    from pycuda.tools import get_or_register_dtype, match_dtype_to_c_struct

    plain = np.dtype([("charge", np.int8), ("p", np.float64, 3), ("id", np.int32)])
    device = drv.Context.get_device()
    hit, declaration = match_dtype_to_c_struct(device, "hit_struct", plain)
    assert [hit.fields[name][1] for name in ("charge", "p", "id")] == [0, 8, 32]
    assert hit.itemsize == 40 and "double p[3];" in declaration
    hits = np.zeros(2, get_or_register_dtype("hit_struct", hit))
    hits["charge"], hits["p"], hits["id"] = [-1, 1], [[1, 2, 3], [4, 5, 6]], [10, 20]
    energy = ElementwiseKernel(
        "hit_struct *hit, double *sum",
        "sum[i] = hit[i].charge * (hit[i].p[0] + hit[i].p[2]) + hit[i].id",
        preamble=declaration,
    )
    sums = empty(2, np.float64)
    energy(to_gpu(hits), sums)
    assert sums.get().tolist() == [6, 30]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from pycuda.driver import Memcpy2D", "use a copy for each row"),
        ("from pycuda.compiler import DynamicModule", "use SourceModule"),
        ("from cupyx.jit import cub", "use @numba.cuda.jit"),
        ("from cudf import cut", "apply the pandas function"),
    ],
)
def test_imports_of_what_is_missing_say_what_to_use(drv, line, words):
    with pytest.raises(ImportError, match=words):
        exec(line, {})


def test_types_that_nvcc_takes_from_the_host(drv):
    from pycuda.compiler import SourceModule

    source = """
        %s
        __global__ void add(uint *x, const ushort a, const ulong b) { x[threadIdx.x] += a + b; }
    """
    for own in ("", "typedef unsigned int uint;", "#define uint unsigned int"):
        x = np.zeros(4, np.uint32)
        function = SourceModule(source % own).get_function("add")
        function(drv.InOut(x), np.uint16(1), np.uint64(2), block=(4, 1, 1))
        assert x.tolist() == [3, 3, 3, 3]
