"""Programs of the host that are right, and programs that miss one synchronisation.

In a wrong one the line that the missing synchronisation belongs behind ends in ``# first``, and the
one before which it should stand in ``# second``.
"""

from __future__ import annotations

import cupy
import cupyx
import numpy as np
import pycuda.autoinit  # makes the context
import pycuda.driver as pycuda
from cuda import core
from numba import cuda
from pycuda.compiler import SourceModule

N = 64
TEXT = r"""
extern "C" __global__ void add(double *x, double value) { x[threadIdx.x] += value; }
extern "C" __global__ void move(const double *x, double *y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void count(double *x) { atomicAdd(x, 1.0); }
"""


@cuda.jit
def add(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += value


@cuda.jit
def move(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


@cuda.jit
def count(x):
    cuda.atomic.add(x, 0, 1.0)


def _arrays():
    return cuda.to_device(np.zeros(N)), cuda.to_device(np.zeros(N))


# -- numba.cuda ------------------------------------------------------------------------------------


def right_one_stream():
    x, y = _arrays()
    a = cuda.stream()
    add[1, N, a](x, 1)
    move[1, N, a](x, y)
    assert y.copy_to_host(stream=a)[0] == 1


def right_default_stream():
    x, y = _arrays()
    a = cuda.stream()
    add[1, N](x, 1)
    move[1, N, a](x, y)
    add[1, N](x, 1)
    assert y.copy_to_host()[0] == 1


def right_event():
    x, y = _arrays()
    a, b, ready = cuda.stream(), cuda.stream(), cuda.event()
    add[1, N, a](x, 1)
    ready.record(a)
    ready.wait(b)
    move[1, N, b](x, y)
    b.synchronize()


def right_event_through_a_third_stream():
    x, y = _arrays()
    a, b, c = cuda.stream(), cuda.stream(), cuda.stream()
    one, two = cuda.event(), cuda.event()
    add[1, N, a](x, 1)
    one.record(a)
    one.wait(b)
    two.record(b)
    two.wait(c)
    move[1, N, c](x, y)
    cuda.synchronize()


def right_host_between():
    x, y = _arrays()
    a, b = cuda.stream(), cuda.stream()
    add[1, N, a](x, 1)
    a.synchronize()
    move[1, N, b](x, y)
    cuda.synchronize()


def right_event_synchronised():
    x, y = _arrays()
    a, b, done = cuda.stream(), cuda.stream(), cuda.event()
    add[1, N, a](x, 1)
    done.record(a)
    done.synchronize()
    move[1, N, b](x, y)


def right_event_polled():
    x, y = _arrays()
    a, b, done = cuda.stream(), cuda.stream(), cuda.event()
    add[1, N, a](x, 1)
    done.record(a)
    while not done.query():
        pass
    move[1, N, b](x, y)


def right_halves():
    x, _ = _arrays()
    a, b = cuda.stream(), cuda.stream()
    add[1, N, a](x[: N // 2], 1)
    add[1, N, b](x[N // 2 :], 1)
    cuda.synchronize()


def right_two_readers():
    x, y = _arrays()
    a, b = cuda.stream(), cuda.stream()
    move[1, N, a](x, y)
    move[1, N, b](x, cuda.device_array(N))
    cuda.synchronize()


def right_atomics():
    x, _ = _arrays()
    a, b = cuda.stream(), cuda.stream()
    count[1, N, a](x)
    count[1, N, b](x)
    cuda.synchronize()


def right_pinned():
    host, a = cuda.pinned_array(N), cuda.stream()
    host[:] = 1
    x = cuda.to_device(host, stream=a)
    add[1, N, a](x, 1)
    x.copy_to_host(host, stream=a)
    a.synchronize()
    assert host.sum() == 2 * N


def right_ordinary_host_memory():
    x, _ = _arrays()
    a, host = cuda.stream(), np.zeros(N)
    add[1, N, a](x, 1)
    x.copy_to_host(host, stream=a)
    assert host[0] == 1


def right_mapped():
    host, a = cuda.mapped_array(N), cuda.stream()
    host[:] = 1
    add[1, N, a](host, 1)
    a.synchronize()
    assert host[3] == 2


def right_chunks():
    """Copies and kernels of three streams overlap; each chunk has a buffer of its own."""
    host = cuda.pinned_array(4 * N)
    host[:] = 1
    for k, stream in enumerate([cuda.stream() for _ in range(4)]):
        part = host[k * N : (k + 1) * N]
        x = cuda.to_device(part, stream=stream)
        add[1, N, stream](x, k)
        x.copy_to_host(part, stream=stream)
    cuda.synchronize()
    assert host.sum() == 4 * N + 6 * N


def right_memory_used_again():
    a, b = cuda.stream(), cuda.stream()
    x = cuda.device_array(N)
    add[1, N, a](x, 1)
    cuda.synchronize()
    del x
    add[1, N, b](cuda.device_array(N), 1)
    cuda.synchronize()


def wrong_single_threads():
    """Kernels in which nobody could race with another thread of the launch."""
    x, y = _arrays()
    a, b = cuda.stream(), cuda.stream()
    add[1, 1, a](x, 1)  # first
    move[1, 1, b](x, y)  # second
    cuda.synchronize()


def wrong_kernel_reads_too_early():
    x, y = _arrays()
    a, b = cuda.stream(), cuda.stream()
    add[1, N, a](x, 1)  # first
    move[1, N, b](x, y)  # second


def wrong_kernel_overwrites_too_early():
    x, y = _arrays()
    a, b = cuda.stream(), cuda.stream()
    move[1, N, a](x, y)  # first
    add[1, N, b](x, 1)  # second


def wrong_event_not_recorded():
    x, y = _arrays()
    a, b, ready = cuda.stream(), cuda.stream(), cuda.event()
    ready.wait(b)
    add[1, N, a](x, 1)  # first
    ready.record(a)
    move[1, N, b](x, y)  # second


def wrong_event_recorded_too_early():
    x, y = _arrays()
    a, b, ready = cuda.stream(), cuda.stream(), cuda.event()
    ready.record(a)
    add[1, N, a](x, 1)  # first
    ready.wait(b)
    move[1, N, b](x, y)  # second


def wrong_other_stream_synchronised():
    x, y = _arrays()
    a, b = cuda.stream(), cuda.stream()
    add[1, N, a](x, 1)  # first
    b.synchronize()
    move[1, N, b](x, y)  # second


def wrong_atomic_and_reader():
    x, y = _arrays()
    a, b = cuda.stream(), cuda.stream()
    count[1, N, a](x)  # first
    move[1, N, b](x, y)  # second


def wrong_overlapping_halves():
    x, _ = _arrays()
    a, b = cuda.stream(), cuda.stream()
    add[1, N, a](x[: N // 2 + 1], 1)  # first
    add[1, N, b](x[N // 2 :], 1)  # second


def wrong_host_reads_pinned():
    x, _ = _arrays()
    host, a = cuda.pinned_array(N), cuda.stream()
    x.copy_to_host(host, stream=a)  # first
    host.sum()  # second


def wrong_host_reads_a_part():
    x, _ = _arrays()
    host, a = cuda.pinned_array(N), cuda.stream()
    x.copy_to_host(host, stream=a)  # first
    print(host[:2])  # second


def wrong_host_overwrites_pinned():
    x, _ = _arrays()
    host, a = cuda.pinned_array(N), cuda.stream()
    host[:] = 1
    x.copy_to_device(host, stream=a)  # first
    host[:] = 2  # second


def wrong_host_reads_mapped():
    host, a = cuda.mapped_array(N), cuda.stream()
    host[:] = 1
    add[1, N, a](host, 1)  # first
    np.add(host, 1)  # second


def wrong_host_reads_managed_of_the_default_stream():
    host = cuda.managed_array(N)
    host[:] = 1
    add[1, N](host, 1)  # first
    float(host[0])  # second


def wrong_one_buffer_for_two_chunks():
    x = cuda.device_array(N)
    a, b = cuda.stream(), cuda.stream()
    x.copy_to_device(np.zeros(N), stream=a)
    add[1, N, a](x, 1)  # first
    x.copy_to_device(np.ones(N), stream=b)  # second
    cuda.synchronize()


# -- CuPy ------------------------------------------------------------------------------------------


def _cupy():
    module = cupy.RawModule(code=TEXT)
    return module.get_function("add"), module.get_function("move")


def right_cupy_events():
    add, move = _cupy()
    a, b = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    x, y = cupy.zeros(N), cupy.zeros(N)
    cupy.cuda.Device().synchronize()
    with a:
        add((1,), (N,), (x, 1.0))
        ready = a.record()
    with b:
        b.wait_event(ready)
        move((1,), (N,), (x, y))
        assert y.get()[0] == 1


def right_cupy_pinned():
    x = cupy.ones(N)
    host, a = cupyx.empty_pinned(N), cupy.cuda.Stream()
    x.get(stream=a, out=host, blocking=False)
    a.synchronize()
    assert host.sum() == N


def wrong_cupy_two_streams():
    add, move = _cupy()
    x, y = cupy.zeros(N), cupy.zeros(N)
    a, b = cupy.cuda.Stream(), cupy.cuda.Stream()
    with a:
        add((1,), (N,), (x, 1.0))  # first
    with b:
        move((1,), (N,), (x, y))  # second


def wrong_cupy_non_blocking_beside_the_default_stream():
    add, move = _cupy()
    x, y = cupy.zeros(N), cupy.zeros(N)
    cupy.cuda.Device().synchronize()
    a = cupy.cuda.Stream(non_blocking=True)
    add((1,), (N,), (x, 1.0))  # first
    with a:
        move((1,), (N,), (x, y))  # second


def wrong_cupy_copy_of_another_stream():
    add, _ = _cupy()
    x = cupy.zeros(N)
    a, b = cupy.cuda.Stream(), cupy.cuda.Stream()
    with a:
        add((1,), (N,), (x, 1.0))  # first
    x.get(stream=b)  # second


def wrong_cupy_expression_overwrites():
    _, move = _cupy()
    x, y = cupy.zeros(N), cupy.zeros(N)
    a, b = cupy.cuda.Stream(), cupy.cuda.Stream()
    with a:
        move((1,), (N,), (x, y))  # first
    with b:
        x += 1  # second


def wrong_cupy_pinned():
    x = cupy.ones(N)
    host, a = cupyx.empty_pinned(N), cupy.cuda.Stream()
    x.get(stream=a, out=host, blocking=False)  # first
    host.max()  # second


def wrong_per_thread_default_stream():
    """It waits for the legacy one, and for no other."""
    add, move = _cupy()
    x, y = cupy.zeros(N), cupy.zeros(N)
    a = cupy.cuda.Stream()
    with cupy.cuda.Stream.ptds:
        add((1,), (N,), (x, 1.0))  # first
    with a:
        move((1,), (N,), (x, y))  # second


def right_per_thread_beside_the_legacy_stream():
    add, move = _cupy()
    x, y = cupy.zeros(N), cupy.zeros(N)
    with cupy.cuda.Stream.ptds:
        add((1,), (N,), (x, 1.0))
    move((1,), (N,), (x, y))


# -- PyCUDA ----------------------------------------------------------------------------------------


def _pycuda():
    module = SourceModule(TEXT, no_extern_c=True)
    return (
        module.get_function("add"),
        pycuda.to_device(np.zeros(N)),
        pycuda.Stream(),
        pycuda.Stream(),
    )


def right_pycuda():
    add, x, a, b = _pycuda()
    host = pycuda.pagelocked_zeros(N, np.float64)
    add(x, np.float64(1), block=(N, 1, 1), stream=a)
    done = pycuda.Event().record(a)
    b.wait_for_event(done)
    pycuda.memcpy_dtoh_async(host, x, b)
    b.synchronize()
    assert host[0] == 1


def wrong_pycuda_copy():
    add, x, a, b = _pycuda()
    host = pycuda.pagelocked_empty(N, np.float64)
    add(x, np.float64(1), block=(N, 1, 1), stream=a)  # first
    pycuda.memcpy_dtoh_async(host, x, b)  # second
    b.synchronize()


def wrong_pycuda_host():
    _, x, a, _ = _pycuda()
    host = pycuda.pagelocked_empty(N, np.float64)
    pycuda.memcpy_dtoh_async(host, x, a)  # first
    host.tolist()  # second


# -- cuda.core -------------------------------------------------------------------------------------


def _core():
    device = core.Device()
    device.set_current()
    made = core.Program(TEXT, "c++").compile("cubin")
    a, b = device.create_stream(), device.create_stream()
    x, y = device.allocate(8 * N, stream=a), device.allocate(8 * N, stream=a)
    a.sync()
    return made, core.LaunchConfig(grid=1, block=N), a, b, x, y


def right_core():
    made, config, a, b, x, y = _core()
    x.fill(0, stream=a)
    core.launch(a, config, made.get_kernel("add"), x, np.float64(1))
    b.wait(a.record())
    core.launch(b, config, made.get_kernel("move"), x, y)
    b.sync()


def wrong_core():
    made, config, a, b, x, y = _core()
    x.fill(0, stream=a)
    a.sync()
    core.launch(a, config, made.get_kernel("add"), x, np.float64(1))  # first
    core.launch(b, config, made.get_kernel("move"), x, y)  # second
    b.sync()


def wrong_core_fill():
    made, config, a, b, x, _ = _core()
    x.fill(0, stream=a)  # first
    core.launch(b, config, made.get_kernel("add"), x, np.float64(1))  # second
    b.sync()


def wrong_core_default_stream():
    """The streams of cuda.core are non-blocking: they do not wait for the default one."""
    made, config, a, _, x, y = _core()
    default = core.Device().default_stream
    x.fill(0, stream=default)  # first
    core.launch(a, config, made.get_kernel("move"), x, y)  # second
    a.sync()


PROGRAMS = {
    name: value for name, value in list(globals().items()) if name.startswith(("right_", "wrong_"))
}
