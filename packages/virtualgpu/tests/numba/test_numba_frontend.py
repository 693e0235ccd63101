"""``numba.cuda`` on the virtual GPU: arrays, streams, events, memory that host and device share.

Numba's own dispatcher and compiler run; what is tested is that all they reach for answers as a
real GPU would. Kernels and what they may contain: test_numba_kernels.py. Above 500 lines: a short
test for each part of Numba's host API.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings

import numpy as np
import pytest

import virtualgpu
from fresh_python import in_fresh_python
from virtualgpu import devices

pytestmark = pytest.mark.usefixtures("active")


def release(cuda) -> None:
    """Free what Numba keeps for a while after its last user is gone."""
    gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()


@pytest.fixture(scope="module")
def add_one(cuda):
    @cuda.jit
    def add_one(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    return add_one


@pytest.fixture(scope="module")
def mark(cuda):
    """Writes 10 * row + column into a matrix."""

    @cuda.jit
    def mark(x):
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            x[i, j] = 10 * i + j

    return mark


# -- arrays on the device -------------------------------------------------------------------------


def test_to_device_and_back(cuda, add_one):
    host = np.arange(5.0)
    there = cuda.to_device(host)
    add_one[1, 32](there)
    assert there.copy_to_host().tolist() == [1, 2, 3, 4, 5]
    assert host.tolist() == [0, 1, 2, 3, 4]  # its copy changed, it did not
    assert (there.shape, there.size, there.ndim, there.dtype) == ((5,), 5, 1, np.float64)
    assert (there.nbytes, there.strides, there.is_c_contiguous()) == (40, (8,), True)
    assert len(there) == 5
    assert [int(value) for value in there] == [1, 2, 3, 4, 5]


def test_device_array_is_not_zero(cuda):
    """Unwritten memory is poison, which is the same on every run, and shows."""
    assert (cuda.device_array((2, 3), np.int16).copy_to_host() == -258).all()
    assert (cuda.device_array(3).copy_to_host() < -1e300).all()


@pytest.mark.parametrize("order", ["C", "F"])
def test_device_array_like(cuda, order):
    like = cuda.device_array_like(np.zeros((2, 3), np.float32, order=order))
    assert (like.shape, like.dtype) == ((2, 3), np.float32)
    assert like.strides == np.zeros((2, 3), np.float32, order=order).strides
    again = cuda.device_array_like(like)
    assert (again.shape, again.strides) == (like.shape, like.strides)


def test_copies_between_arrays(cuda):
    one, two, host = cuda.device_array(4), cuda.device_array(4), np.zeros(4)
    one.copy_to_device(np.arange(4.0))
    two.copy_to_device(one)
    assert two.copy_to_host(host) is host
    assert host.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="incompatible shape"):
        one.copy_to_device(np.arange(3.0))


SLICES = {
    "a part": np.s_[2:5],
    "every other": np.s_[::2],
    "a row": np.s_[1, :],
    "a column": np.s_[:, 2],
    "a block": np.s_[1:3, 2:5],
    "steps": np.s_[::2, 1::2],
    "one element": np.s_[2, 3],
    "one row": np.s_[1:2],
    "negative": np.s_[-1, -2],
}


@pytest.mark.parametrize("index", SLICES.values(), ids=SLICES)
def test_slices_are_views(cuda, index):
    host = np.arange(36.0).reshape(6, 6)
    there = cuda.to_device(host)
    part = there[index]
    if np.isscalar(part):
        assert part == host[index]
        return
    np.testing.assert_array_equal(part.copy_to_host(), host[index])
    there[index] = 7
    host[index] = 7
    np.testing.assert_array_equal(there.copy_to_host(), host)
    if not isinstance(index, tuple) and index.step is None:
        there[index] = cuda.to_device(np.full((len(part), 6), 3.0))
        assert (there.copy_to_host()[index] == 3).all()


def test_kernels_write_through_views(cuda, add_one):
    there = cuda.to_device(np.zeros((4, 6)))
    add_one[1, 32](there[:, 1])
    add_one[1, 32](there[2, ::2])
    add_one[1, 32](there[1])
    wanted = np.zeros((4, 6))
    wanted[:, 1] += 1
    wanted[2, ::2] += 1
    wanted[1] += 1
    np.testing.assert_array_equal(there.copy_to_host(), wanted)


def test_shapes_and_types_can_be_seen_otherwise(cuda):
    there = cuda.to_device(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert there.T.copy_to_host().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert there.reshape(3, 2).copy_to_host().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert there.ravel().copy_to_host().tolist() == [0, 1, 2, 3, 4, 5]
    assert there.view(np.int32).copy_to_host()[0, 1] == 0x3F800000
    assert [part.copy_to_host().tolist() for part in there.ravel().split(4)] == [
        [0, 1, 2, 3],
        [4, 5],
    ]


@pytest.mark.parametrize("order", ["C", "F"])
def test_both_orders_of_a_matrix(cuda, mark, order):
    host = np.zeros((3, 5), order=order)
    mark[1, (8, 8)](host)
    i, j = np.indices((3, 5))
    np.testing.assert_array_equal(host, 10 * i + j)
    there = cuda.to_device(np.zeros((3, 5), order=order))
    mark[1, (8, 8)](there)
    np.testing.assert_array_equal(there.copy_to_host(), 10 * i + j)


def test_zero_size_and_zero_dimensions(cuda, add_one):
    for empty in (np.zeros(0), np.zeros(0, np.float64)[::2]):
        add_one[1, 32](empty)
    assert cuda.to_device(np.zeros((0, 3))).copy_to_host().shape == (0, 3)
    assert cuda.device_array(0).copy_to_host().shape == (0,)
    add_one[1, 32](cuda.device_array(0))
    assert cuda.to_device(np.array(2.5)).copy_to_host() == 2.5


# -- arrays of the host ---------------------------------------------------------------------------


def test_host_arrays_come_back(add_one):
    x = np.arange(100, dtype=np.float64)
    with pytest.warns(Warning, match="Host array used in CUDA kernel"):
        add_one[4, 32](x)
    np.testing.assert_array_equal(x, np.arange(1, 101))


@pytest.mark.parametrize("part", [np.s_[:, 1], np.s_[2, ::-1], np.s_[::2, 3], np.s_[1, 1:4]])
def test_host_views_with_gaps(add_one, part):
    """Only the view's elements change, whatever lies between them."""
    x = np.arange(24.0).reshape(4, 6)
    wanted = x.copy()
    add_one[1, 32](x[part])
    wanted[part] += 1
    np.testing.assert_array_equal(x, wanted)


def test_read_only_arrays(cuda):
    from numba.core.errors import TypingError

    @cuda.jit
    def copy(x, y):
        i = cuda.grid(1)
        y[i] = x[i]

    x, y = np.arange(4.0), np.zeros(4)
    x.flags.writeable = False
    with pytest.raises(ValueError, match=r"cuda\.In"):
        copy[1, 4](x, y)
    copy[1, 4](cuda.In(x), y)
    assert y.tolist() == [0, 1, 2, 3]
    copy[1, 4](cuda.to_device(x), y)
    with pytest.raises(TypingError, match="readonly"):
        copy[1, 4](y, x)


def test_the_direction_of_an_argument(cuda):
    @cuda.jit
    def change(a, b, c):
        i = cuda.grid(1)
        b[i] = a[i] + c[i]
        a[i] = 100
        c[i] = 200

    a, b, c = np.arange(3.0), np.full(3, 5.0), np.ones(3)
    change[1, 3](cuda.In(a), cuda.Out(b), cuda.InOut(c))
    assert (a.tolist(), b.tolist(), c.tolist()) == ([0, 1, 2], [1, 2, 3], [200, 200, 200])


def test_a_copy_that_goes_only_in_is_poison_if_not_given(cuda):
    """``Out`` hands over memory that was never written."""

    @cuda.jit
    def peek(a, seen):
        seen[0] = a[0]

    seen = np.zeros(1, np.int32)
    peek[1, 1](cuda.Out(np.ones(1, np.int32)), seen)
    assert seen[0] == -16843010


# -- memory that host and device share ------------------------------------------------------------


def test_pinned(cuda, add_one):
    x = cuda.pinned_array(4, np.float64)
    x[:] = 2
    there = cuda.to_device(x)
    add_one[1, 4](there)
    there.copy_to_host(x)
    assert x.tolist() == [3] * 4
    assert cuda.pinned_array_like(x).shape == (4,)
    y = np.zeros(3)
    with cuda.pinned(y):
        add_one[1, 3](y)
    assert y.tolist() == [1] * 3


def test_mapped(cuda, add_one):
    x = cuda.mapped_array(4, np.float64)
    x[:] = 5
    add_one[1, 4](x)
    assert x.tolist() == [6] * 4
    x[0] = 10
    add_one[1, 4](x)
    assert x.tolist() == [11, 7, 7, 7]
    y = np.zeros(3)
    with cuda.mapped(y) as there:
        add_one[1, 3](there)
        assert y.tolist() == [1] * 3
        y[1] = 5
        add_one[1, 3](there)
    assert y.tolist() == [2, 6, 2]
    assert cuda.mapped_array_like(y).shape == (3,)


def test_managed(cuda, add_one):
    x = cuda.managed_array(5, np.float64)
    x[:] = np.arange(5)
    add_one[1, 5](x)
    cuda.synchronize()
    assert x.tolist() == [1, 2, 3, 4, 5]


def test_memory_comes_back(cuda, add_one):
    free = cuda.current_context().get_memory_info
    release(cuda)
    before = free().free
    there = cuda.to_device(np.zeros(1_000_000))
    assert free().free == before - 8_000_000
    del there
    add_one[1, 32](np.zeros(10))
    cuda.mapped_array(1000)
    with cuda.defer_cleanup():
        cuda.to_device(np.zeros(1000))
    release(cuda)
    assert free().free == before


def test_more_memory_than_there_is(cuda):
    from numba.cuda.cudadrv.driver import CudaAPIError

    with pytest.raises(CudaAPIError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        cuda.device_array(1 << 45, np.uint8)


def test_memset(cuda):
    from numba.cuda.cudadrv import driver

    there = cuda.to_device(np.ones(4, np.int32))
    driver.device_memset(there, 0, 8)
    assert there.copy_to_host().tolist() == [0, 0, 1, 1]


# -- the interface of CUDA arrays -----------------------------------------------------------------


class Foreign:
    """An array of another library: all one knows is its interface."""

    def __init__(self, there, **changed):
        self.there = there
        self.__cuda_array_interface__ = there.__cuda_array_interface__ | changed


def test_arrays_of_other_libraries(cuda, add_one):
    there = cuda.to_device(np.arange(6.0))
    add_one[1, 32](Foreign(there))
    assert there.copy_to_host().tolist() == [1, 2, 3, 4, 5, 6]
    add_one[1, 32](Foreign(there, shape=(3,), strides=(16,)))
    assert there.copy_to_host().tolist() == [2, 2, 4, 4, 6, 6]
    assert cuda.is_cuda_array(Foreign(there))
    assert not cuda.is_cuda_array(np.zeros(1))
    seen = cuda.as_cuda_array(Foreign(there))
    assert seen.copy_to_host().tolist() == [2, 2, 4, 4, 6, 6]
    interface = there.__cuda_array_interface__
    assert (interface["shape"], interface["typestr"], interface["version"]) == ((6,), "<f8", 3)
    assert cuda.from_cuda_array_interface(interface).copy_to_host()[0] == 2


def test_a_pointer_that_is_no_longer_valid(cuda, add_one):
    there = cuda.to_device(np.arange(6.0))
    interface = dict(there.__cuda_array_interface__)

    class Dangling:
        __cuda_array_interface__ = interface

    del there
    release(cuda)
    with pytest.raises(virtualgpu.VirtualGPUError, match="freed"):
        add_one[1, 6](Dangling())


# -- streams and events ---------------------------------------------------------------------------


def test_streams(cuda, add_one):
    stream = cuda.stream()
    there = cuda.to_device(np.zeros(4), stream=stream)
    add_one[1, 4, stream](there)
    host = there.copy_to_host(stream=stream)
    stream.synchronize()
    with stream.auto_synchronize():
        add_one[1, 4, stream](there)
    assert host.tolist() == [1] * 4
    assert there.copy_to_host().tolist() == [2] * 4
    for other in (
        cuda.default_stream(),
        cuda.legacy_default_stream(),
        cuda.per_thread_default_stream(),
        cuda.external_stream(7),
    ):
        add_one[1, 4, other](there)
    assert there.copy_to_host().tolist() == [6] * 4


def test_callbacks(cuda):
    seen = []
    stream = cuda.stream()
    stream.add_callback(lambda stream, status, argument: seen.append((status, argument)), "done")
    stream.synchronize()
    assert seen == [(0, "done")]

    async def wait():
        return await stream.async_done()

    asyncio.run(wait())


def test_times_are_not_invented(cuda, add_one):
    """NaN, and one warning, not one for each call."""
    start, end = cuda.event(), cuda.event()
    start.record()
    add_one[1, 4](cuda.device_array(4))
    end.record()
    end.synchronize()
    start.wait()
    assert end.query()
    from virtualgpu.numba import hooks

    hooks.API._warned = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        times = [cuda.event_elapsed_time(start, end), start.elapsed_time(end)]
    assert np.isnan(times).all()
    assert len(caught) == 1
    assert "no times" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_an_event_that_never_happened(cuda):
    from numba.cuda.cudadrv.driver import CudaAPIError

    start, never = cuda.event(), cuda.event(timing=False)
    start.record()
    with pytest.raises(CudaAPIError, match="INVALID_HANDLE"):
        cuda.event_elapsed_time(start, never)


def test_threads_of_the_host(cuda, add_one):
    """Launches from several threads do not disturb each other."""
    arrays = [cuda.to_device(np.zeros(100)) for _ in range(4)]

    def work(array):
        for _ in range(5):
            add_one[4, 32](array)

    threads = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((array.copy_to_host() == 5).all() for array in arrays)


# -- the device -----------------------------------------------------------------------------------


def test_the_device_says_what_it_is(cuda, capsys):
    gpu = cuda.get_current_device()
    assert cuda.is_available()
    assert len(cuda.gpus) == 1
    assert (gpu.id, gpu.name) == (0, "Virtual GPU (CPU)")
    assert gpu.compute_capability == (9, 0)
    assert gpu.COMPUTE_CAPABILITY_MAJOR == 9
    assert (gpu.WARP_SIZE, gpu.MAX_THREADS_PER_BLOCK) == (32, 1024)
    assert (gpu.MAX_GRID_DIM_X, gpu.MAX_GRID_DIM_Y) == (2**31 - 1, 65535)
    assert gpu.MAX_SHARED_MEMORY_PER_BLOCK == 48 * 1024
    assert gpu.CLOCK_RATE == 0  # there is no clock to have a rate
    assert gpu.MAXIMUM_TEXTURE2D_WIDTH == 0
    assert gpu.MULTIPROCESSOR_COUNT > 0
    info = cuda.current_context().get_memory_info()
    assert 0 < info.free <= info.total == devices.current().total_memory
    assert cuda.detect()
    assert "Virtual GPU (CPU)" in capsys.readouterr().out
    with pytest.raises(AttributeError):
        gpu.NO_SUCH_ATTRIBUTE  # noqa: B018


def test_devices_are_chosen_and_closed(cuda, add_one):
    cuda.select_device(0)
    with cuda.gpus[0]:
        there = cuda.to_device(np.zeros(2))
    add_one[1, 2](there)
    assert there.copy_to_host().tolist() == [1, 1]
    assert [gpu.id for gpu in cuda.list_devices()] == [0]
    with pytest.raises((IndexError, RuntimeError)):
        cuda.select_device(1)
    del there
    cuda.close()
    assert cuda.to_device(np.arange(3)).copy_to_host().tolist() == [0, 1, 2]


def test_a_launch_on_another_device(cuda, add_one):
    """Numba talks to whatever device is current."""
    with devices.use(virtualgpu.VirtualDevice(1 << 20)) as other:
        x = np.zeros(3)
        add_one[1, 3](x)
        assert x.tolist() == [1] * 3
        assert other.memory.allocated == 0


def test_occupancy(cuda, add_one):
    add_one[1, 3](cuda.to_device(np.zeros(3)))
    kernel = next(iter(add_one.overloads.values()))
    blocks = cuda.current_context().get_active_blocks_per_multiprocessor
    function = kernel._codelibrary.get_cufunc()
    assert blocks(function, 128, 0) == 16
    assert blocks(function, 1024, 0) == 2
    assert blocks(function, 32, 0) == 32
    assert blocks(function, 32, 100_000) == 2
    assert all(0 < count <= 255 for count in add_one.get_regs_per_thread().values())


def test_profiling_does_nothing(cuda):
    with cuda.profiling():
        cuda.profile_start()
        cuda.profile_stop()


def test_switching_off_and_on_again(cuda, add_one):
    from numba.cuda.cudadrv import driver

    virtualgpu.deactivate()
    assert not virtualgpu.is_active()
    assert "virtualgpu" not in type(driver.driver).__module__
    assert not any(
        "virtualgpu" in getattr(getattr(driver, name), "__module__", "")
        for name in ("ExperimentalDevice", "ExperimentalStream", "_Linker")
    )
    virtualgpu.activate(force=True)
    virtualgpu.activate(force=True)
    assert virtualgpu.is_active()
    x = np.zeros(3)
    add_one[1, 3](x)
    assert x.tolist() == [1] * 3


@pytest.mark.rehearsal
def test_the_first_compilation_imports_no_linear_algebra():
    """numba-cuda imports SciPy's to know that it is there."""
    assert in_fresh_python("""
import virtualgpu
virtualgpu.activate()
from numba import cuda
from importlib.util import find_spec

@cuda.jit
def one(values):
    values[0] = 1

values = cuda.device_array(1)
one[1, 1](values)
from numba.cuda.np import arraymath
told = arraymath._HAVE_BLAS == bool(find_spec("scipy"))
result = [values.copy_to_host()[0], "scipy.linalg" in sys.modules, told]
""") == [1, False, True]
