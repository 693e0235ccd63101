"""NVIDIA's own ``cuda.core`` on the virtual GPU: compiled code that calls ``libcuda.so.1``."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import virtualgpu
from fresh_python import in_fresh_python
from virtualgpu.driver import library

SOURCE = r"""
template <class T> __global__ void saxpy(T a, const T *x, const T *y, T *out, size_t n)
{
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
extern "C" __global__ void past_the_end(float *x, int n)
{
    x[threadIdx.x + n] = 1;
}
extern "C" __global__ void race(int *x)
{
    x[0] = threadIdx.x;
}
extern "C" __global__ void reverse(int *x)
{
    extern __shared__ int tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
"""


pytestmark = [
    pytest.mark.skipif(not library.is_possible(), reason="Linux on x86-64 alone"),
    pytest.mark.usefixtures("active"),
]


@pytest.fixture
def core(active):
    import cuda.core

    return cuda.core


@pytest.fixture
def device(core):
    found = core.Device(0)
    found.set_current()
    return found


@pytest.fixture
def stream(device):
    made = device.create_stream()
    yield made
    made.close()


@pytest.fixture
def module(core, device):
    program = core.Program(SOURCE, "c++", core.ProgramOptions(name="examples.cu", std="c++17"))
    return program.compile("cubin", name_expressions=["saxpy<float>", "saxpy<double>"])


def on_device(core, device, stream, values):
    """A buffer that holds the bytes of ``values``."""
    host = core.LegacyPinnedMemoryResource().allocate(values.nbytes, stream=stream)
    np.from_dlpack(host).view(values.dtype)[:] = values
    made = device.allocate(values.nbytes, stream=stream)
    made.copy_from(host, stream=stream)
    return made


def on_host(core, buffer, dtype, stream):
    host = core.LegacyPinnedMemoryResource().allocate(buffer.size, stream=stream)
    buffer.copy_to(host, stream=stream)
    stream.sync()
    return np.from_dlpack(host).view(dtype).copy()


@pytest.mark.parametrize(("name", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_an_instance_of_a_template(core, device, stream, module, name, dtype):
    kernel = module.get_kernel(f"saxpy<{name}>")
    x = np.linspace(0, 1, 1000, dtype=dtype)
    there = [on_device(core, device, stream, one) for one in (x, x * 3, np.zeros_like(x))]
    core.launch(
        stream, core.LaunchConfig(grid=4, block=256), kernel, dtype(10), *there, np.uint64(x.size)
    )
    np.testing.assert_allclose(on_host(core, there[2], dtype, stream), 10 * x + x * 3, rtol=1e-6)
    for one in there:
        one.close(stream)


def test_ptx_and_its_attributes(core, device, stream):
    made = core.Program(SOURCE, "c++", core.ProgramOptions(arch="sm_90")).compile("ptx")
    assert made.code.startswith(b"//") and made.code_type == "ptx"
    kernel = made.get_kernel("reverse")
    assert kernel.num_arguments == 1
    assert [(one.offset, one.size) for one in kernel.arguments_info] == [(0, 8)]
    assert kernel.attributes.max_threads_per_block == 1024
    assert kernel.occupancy.max_active_blocks_per_multiprocessor(256, 0) == 8
    x = on_device(core, device, stream, np.arange(64, dtype=np.int32))
    core.launch(stream, core.LaunchConfig(grid=1, block=64, shmem_size=256), kernel, x)
    assert on_host(core, x, np.int32, stream).tolist() == list(range(63, -1, -1))


@pytest.mark.filterwarnings("ignore:cuda.bindings.nvjitlink is not available:RuntimeWarning")
def test_ptx_text_is_linked(core, device, stream):
    halves = [
        core.Program(text, "c++", core.ProgramOptions(relocatable_device_code=True)).compile("ptx")
        for text in (
            'extern __device__ int seven(); extern "C" __global__ void f(int *x) { *x = seven(); }',
            "__device__ int seven() { return 7; }",
        )
    ]
    linked = core.Linker(*halves, options=core.LinkerOptions(arch="sm_90")).link("cubin")
    x = device.allocate(4, stream=stream)
    core.launch(stream, core.LaunchConfig(grid=1, block=1), linked.get_kernel("f"), x)
    assert on_host(core, x, np.int32, stream).tolist() == [7]


LTO = (
    'extern __device__ int seven(); extern "C" __global__ void f(int *x) { *x = seven(); }',
    "__device__ int seven() { return 7; }",
)


def lto_ir(core, *texts):
    options = core.ProgramOptions(
        arch="sm_90", relocatable_device_code=True, link_time_optimization=True
    )
    return [core.Program(text, "c++", options).compile("ltoir") for text in texts]


def link(core, *parts, to="cubin"):
    options = core.LinkerOptions(
        arch="sm_90", link_time_optimization=True, ptx=True if to == "ptx" else None
    )
    return core.Linker(*parts, options=options).link(to)


def test_lto_ir_is_linked_without_a_gpu(core, device, stream):
    linked = link(core, *lto_ir(core, *LTO))
    x = device.allocate(4, stream=stream)
    core.launch(stream, core.LaunchConfig(grid=1, block=1), linked.get_kernel("f"), x)
    assert on_host(core, x, np.int32, stream).tolist() == [7]
    read = link(core, *lto_ir(core, *LTO), to="ptx")
    assert read.code_type == "ptx"
    assert b".visible .entry f(" in read.code and b"call" not in read.code, "optimised as one"


def test_lto_ir_calls_what_is_ptx(core, device, stream):
    seven = core.Program(LTO[1], "c++", core.ProgramOptions(relocatable_device_code=True)).compile(
        "ptx"
    )
    linked = link(core, *lto_ir(core, LTO[0]), seven)
    x = device.allocate(4, stream=stream)
    core.launch(stream, core.LaunchConfig(grid=1, block=1), linked.get_kernel("f"), x)
    assert on_host(core, x, np.int32, stream).tolist() == [7]


def test_lto_ir_that_lacks_a_function_or_is_none(core, device, stream):
    linked = link(core, *lto_ir(core, LTO[0]))
    x = device.allocate(4, stream=stream)
    with pytest.raises(Exception, match="seven"):
        core.launch(stream, core.LaunchConfig(grid=1, block=1), linked.get_kernel("f"), x)
    with pytest.raises(virtualgpu.LinkError, match="nvJitLink"):
        link(core, core.ObjectCode.from_ltoir(b"not LTO-IR at all"))


@pytest.mark.filterwarnings("ignore:the virtual GPU has no times:UserWarning")
def test_events_have_no_time(core, device, stream, module):
    timing = core.EventOptions(timing_enabled=True)
    start = stream.record(options=timing)
    end = stream.record(options=timing)
    end.sync()
    assert end.is_done
    assert np.isnan(end - start)


def test_a_pool_counts_what_it_gave(core, device, stream):
    pool = core.DeviceMemoryResource(device, core.DeviceMemoryResourceOptions(max_size=4096))
    a = pool.allocate(1000, stream=stream)
    assert pool.attributes.used_mem_current == 1000
    with pytest.raises(Exception, match=r"5,000 bytes requested from a pool that may hold 4,096"):
        pool.allocate(5000, stream=stream)
    a.fill(7, stream=stream)
    assert (on_host(core, a, np.uint8, stream) == 7).all()
    a.close(stream)
    assert (pool.attributes.used_mem_current, pool.attributes.used_mem_high) == (0, 1000)


def test_what_has_one_address_on_host_and_device_is_refused(core, device):
    with pytest.raises(Exception, match="Use DeviceMemoryResource"):
        core.ManagedMemoryResource(
            core.ManagedMemoryResourceOptions(preferred_location=device.device_id)
        )


def test_an_illegal_address_names_line_block_and_thread(core, device, stream, module):
    x = device.allocate(40, stream=stream)
    with pytest.raises(Exception, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        core.launch(
            stream, core.LaunchConfig(grid=1, block=32), module.get_kernel("past_the_end"), x, 0
        )
    said = str(caught.value)
    assert "kernel past_the_end, examples.cu line 9, thread 10 of block 0" in said
    assert "x[threadIdx.x + n] = 1;" in said


def test_a_failed_call_keeps_nothing_of_its_caller(core, device, stream, module):
    class Array(np.ndarray):
        """Weak references to it are possible."""

    def fails() -> weakref.ref:
        mine = np.zeros(3).view(Array)
        kernel, one = module.get_kernel("past_the_end"), core.LaunchConfig(grid=1, block=1)
        with pytest.raises(Exception, match="far from every array"):
            core.launch(stream, one, kernel, 0, np.int32(1 << 20))
        return weakref.ref(mine)

    gone = fails()
    gc.collect()
    assert gone() is None


def test_the_checkers_watch(core, device, stream, module):
    x = device.allocate(4, stream=stream)
    with virtualgpu.check() as report:
        core.launch(stream, core.LaunchConfig(grid=1, block=32), module.get_kernel("race"), x)
    assert [(one.kind, one.line) for one in report.findings] == [("race", 13)]


def test_a_launch_counts_its_arguments(core, device, stream, module):
    with pytest.raises(TypeError, match=r"takes 2 arguments and was given 1\. A GPU would read"):
        core.launch(
            stream, core.LaunchConfig(grid=1, block=1), module.get_kernel("past_the_end"), 1
        )


def test_names_that_are_not_there(core, device, module):
    with pytest.raises(Exception, match=r"no kernel nothing; the module has: .*saxpy<float>"):
        module.get_kernel("nothing")
    with pytest.raises(ValueError, match="got 3"):
        core.Device(3)


def test_code_that_does_not_compile(core, device):
    from cuda.core._utils.cuda_utils import NVRTCError

    with pytest.raises(NVRTCError, match=r'line 2: identifier "y" is undefined'):
        core.Program(
            "__global__ void f(int *x) {\n  x[0] = y; }",
            "c++",
            core.ProgramOptions(name="wrong.cu"),
        ).compile("cubin")


def test_machine_code_of_a_real_gpu_is_refused(core, device):
    with pytest.raises(Exception, match=r"machine code of a real GPU.*compile to 'ptx'"):
        core.ObjectCode.from_cubin(b"\x7fELF" + bytes(60)).get_kernel("f")


def test_what_the_driver_lacks_says_its_name(core, device):
    from cuda.bindings import driver

    (code, *_) = driver.cuGraphCreate(0)
    assert code == driver.CUresult.CUDA_ERROR_NOT_SUPPORTED
    assert driver.cuGetErrorString(code)[1].startswith(b"cuGraphCreate is not in the virtual GPU's")


def test_host_memory_that_kernels_reach(core, device, stream):
    """Page-locked and mapped: allocated so, and an array registered so (which has two addresses
    here)."""
    from cuda.bindings import driver

    kernel = (
        core.Program('extern "C" __global__ void twice(int *x) { x[threadIdx.x] *= 2; }', "c++")
        .compile("ptx")
        .get_kernel("twice")
    )
    error, made = driver.cuMemHostAlloc(128, driver.CU_MEMHOSTALLOC_DEVICEMAP)
    assert error == 0
    own = np.arange(32, dtype=np.int32)
    (error,) = driver.cuMemHostRegister(own.ctypes.data, 128, driver.CU_MEMHOSTREGISTER_DEVICEMAP)
    assert error == 0
    seen = np.ctypeslib.as_array((ctypes.c_int32 * 32).from_address(int(made)))
    for host, array in ((made, seen), (own.ctypes.data, own)):
        array[:] = range(32)
        error, there = driver.cuMemHostGetDevicePointer(host, 0)
        assert error == 0 and (int(there) != int(host) or array is seen)
        core.launch(stream, core.LaunchConfig(grid=1, block=32), kernel, int(there))
        stream.sync()
        assert array.tolist() == list(range(0, 64, 2))
    assert driver.cuMemHostUnregister(own.ctypes.data)[0] == 0 == driver.cuMemFreeHost(made)[0]
    code, _ = driver.cuMemHostGetDevicePointer(made, 0)
    assert code == driver.CUresult.CUDA_ERROR_INVALID_VALUE
    assert b"CU_MEMHOSTALLOC_DEVICEMAP" in driver.cuGetErrorString(code)[1]


def test_switched_off_there_is_no_device(core, device):
    from cuda.bindings import driver

    virtualgpu.deactivate()
    try:
        assert driver.cuInit(0)[0] == driver.CUresult.CUDA_ERROR_NO_DEVICE
        assert core.Program.compile.__qualname__ == "Program.compile"
    finally:
        virtualgpu.activate(force=True)


PROGRAM = """
import virtualgpu
virtualgpu.activate(force=True)
from cuda.core import Device, LaunchConfig, Program, launch
device = Device(1)
device.set_current()
stream = device.create_stream()
kernel = Program('extern "C" __global__ void f(int *x) { x[threadIdx.x] = threadIdx.x; }',
                 "c++").compile("cubin").get_kernel("f")
there = device.allocate(128, stream=stream)
launch(stream, LaunchConfig(grid=1, block=32), kernel, there)
assert there.device_id == 1 and stream.device.device_id == 1
Device(0).set_current()
here = Device(0).allocate(128, stream=Device(0).default_stream)
here.copy_from(there, stream=stream)
try:
    launch(Device(0).default_stream, LaunchConfig(grid=1, block=32), kernel, there)
except Exception as error:
    print(str(error).splitlines()[0])
kept_to_the_end = [stream, here, there, kernel]
"""


def test_two_devices_and_an_end_without_a_crash():
    import os

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=os.environ | {"VIRTUALGPU_DEVICES": "2"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "in an array of 128 bytes on device 1, and this is device 0" in done.stdout


SWITCHED = """
import virtualgpu
virtualgpu.activate(force=True)
virtualgpu.deactivate()
from cuda.bindings import driver
print(int(driver.cuInit(0)[0]))
virtualgpu.activate(force=True)
print(int(driver.cuInit(0)[0]))
"""


@pytest.mark.rehearsal
def test_functions_are_found_while_the_driver_is_switched_off():
    """cuda.bindings looks them up once, at its first call."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SWITCHED],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.split() == ["100", "0"], done.stderr


LATE = """
import sys
import virtualgpu
virtualgpu.activate(force=True)
from cuda.core import Device
device = Device(0)
device.set_current()
sys.kept = [device.allocate(100, stream=device.default_stream) for _ in range(2)]
virtualgpu.deactivate()
sys.kept.pop()
"""


def test_what_is_freed_without_the_driver_or_without_python_is_freed_in_silence():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LATE], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_drivers_own_wait_for_the_device_is_heard(device, stream):
    from cuda.bindings import driver

    bytes_, other = device.allocate(8, stream=stream), device.create_stream()
    for waited in (True, False):
        with virtualgpu.check(streams=True) as report:
            driver.cuMemsetD8Async(bytes_.handle, 1, 8, stream.handle)
            if waited:
                driver.cuCtxSynchronize()
            driver.cuMemsetD8Async(bytes_.handle, 2, 8, other.handle)
        assert bool(report.of_kind("stream")) is not waited, str(report)


CLUSTER = r"""
extern "C" __global__ void around(int *x)
{
    __shared__ int mine;
    mine = blockIdx.x;
    __cluster_barrier_arrive(); __cluster_barrier_wait();
    unsigned size = __clusterSizeInBlocks(), next = (__clusterRelativeBlockRank() + 1) % size;
    x[blockIdx.x] = *static_cast<int *>(__cluster_map_shared_rank(&mine, next));
    __cluster_barrier_arrive(); __cluster_barrier_wait();
}
"""


def test_a_launch_in_clusters(core, device, stream):
    """The grid counts clusters: two of four blocks."""
    options = core.ProgramOptions(std="c++17", arch="sm_90")
    kernel = core.Program(CLUSTER, "c++", options).compile("ptx").get_kernel("around")
    x = on_device(core, device, stream, np.zeros(8, np.int32))
    core.launch(stream, core.LaunchConfig(grid=2, cluster=4, block=1), kernel, x)
    assert on_host(core, x, np.int32, stream).tolist() == [1, 2, 3, 0, 5, 6, 7, 4]


@pytest.mark.parametrize("end", ["target", "origin"])
def test_a_copy_to_or_from_a_null_pointer_is_refused(device, end):
    from cuda.bindings import driver

    here = np.zeros(2)
    places = {"target": here.ctypes.data, "origin": here.ctypes.data, end: 0}
    (code,) = driver.cuMemcpy(places["target"], places["origin"], here.nbytes)
    assert code == driver.CUresult.CUDA_ERROR_INVALID_VALUE
    assert b"a null pointer" in driver.cuGetErrorString(code)[1]


def test_cuda_core_alone_finds_the_device_where_activation_waits():
    assert in_fresh_python("""
from virtualgpu import activation
activation.activate_later()
from cuda.core import Device
Device(0).set_current()
result = [Device(0).name, "numba" in sys.modules and "numba.cuda" in sys.modules]
""") == ["Virtual GPU (CPU)", False]
