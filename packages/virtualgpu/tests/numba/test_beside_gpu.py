"""Launches on the virtual GPU beside a real one.

Run in a process of its own whose numba.cuda is not hooked: as on a machine with a GPU, except that
any use of the driver fails here, so the tests also show that none is made.
"""

from __future__ import annotations

import pytest

import virtualgpu
from beside_a_gpu import run
from virtualgpu.numba.beside_gpu import reroute

pytestmark = pytest.mark.slow


def test_arrays_come_back_and_numba_is_left_as_it_was():
    run("""
        from numba.cuda.dispatcher import CUDADispatcher
        before = CUDADispatcher.call
        values, out = np.arange(100.0), np.zeros(100)
        with reroute():
            scale[2, 64](values, 3, out)
            scale[2, 64](values[:0], 3.5, out[:0])
            assert CUDADispatcher.call is not before
        assert np.array_equal(out, 3 * values)
        assert CUDADispatcher.call is before
        assert not virtualgpu.is_active()
    """)


def test_views_of_arrays_are_updated_in_place():
    run("""
        values, out = np.arange(20.0)[::2], np.zeros((10, 2))
        with reroute():
            scale[1, 32](values, 2.0, out[:, 1])
        assert np.array_equal(out[:, 1], 2 * values) and not out[:, 0].any()
    """)


def test_kernels_are_compiled_once_for_each_type():
    run("""
        from virtualgpu.numba import beside_gpu as module
        with reroute():
            for dtype in (np.float32, np.float64, np.float32):
                values = np.ones(4, dtype)
                scale[1, 4](values, 2.0, values)
                assert values.dtype == dtype and (values == 2).all()
        assert len(module._compiled[scale]) == 2
    """)


def test_an_illegal_address_names_the_line_and_the_next_launch_is_well():
    run("""
        out = np.zeros(100)
        with reroute():
            try:
                too_far[2, 64](out)
            except virtualgpu.errors.MemoryAccessError as error:
                assert error.location.kernel == "too_far"
                assert error.location.thread == (36, 0, 0), error.location
            else:
                raise SystemExit("no error")
            scale[2, 64](np.ones(100), 2.0, out)
        assert (out == 2).all()
    """)


def test_the_call_is_given_back_after_an_error():
    run("""
        from numba.cuda.dispatcher import CUDADispatcher
        before = CUDADispatcher.call
        try:
            with reroute():
                scale[1, 1](object(), 1, 2)
        except TypeError as error:
            assert "object cannot be passed to a kernel" in str(error)
        else:
            raise SystemExit("no error")
        assert CUDADispatcher.call is before
    """)


def test_where_the_virtual_gpu_is_active_nothing_changes():
    virtualgpu.activate(force=True)
    from numba.cuda.dispatcher import CUDADispatcher

    before = CUDADispatcher.call
    with reroute():
        assert CUDADispatcher.call is before


def test_instruments_see_launches_beside_a_real_gpu():
    said = run("""
        total = np.zeros(1)
        values = np.ones(64)
        with virtualgpu.check() as report:
            add_all[1, 64](values, total)
        assert not report.ok and report.findings[0].kind == "race"
        assert report.launches == 1
        with virtualgpu.profile() as profile:
            add_all[1, 64](values, total)
        assert profile.launches[0].counters.global_stores == 64
        with virtualgpu.schedule(1):
            add_all[1, 64](values, total)
        assert total[0] > 0
    """)
    assert said == ""


def test_strided_arrays_keep_their_layout_and_the_same_array_twice_is_one():
    run("""
        from virtualgpu.devices.real.machine_array import MachineArray
        from virtualgpu import devices as device

        @cuda.jit
        def add(a, b, out):
            i, j = cuda.grid(2)
            if i < out.shape[0] and j < out.shape[1]:
                out[i, j] = a[i, j] + b[i, j]

        x = np.arange(48.0).reshape(6, 8)
        out = np.zeros((3, 4), order="F")
        with virtualgpu.profile() as profile:
            add[(1, 1), (8, 8)](x[::2, ::2], x.T[:3, :4], out)
            assert np.array_equal(out, x[::2, ::2] + x.T[:3, :4])
            values = np.arange(64.0)
            scale[1, 64](values, 2.0, values)
            assert np.array_equal(values, 2 * np.arange(64.0))
        wide = np.zeros((1024, 2), np.float32)
        there = MachineArray(wide[:, 0], device.current())
        with virtualgpu.profile() as profile:
            scale[8, 128](there, 2.0, there)
        assert profile.counters.global_load_sectors == 2 * 128  # every second number
        assert (there.copy_to_host() == 0).all() and there.strides == (8,)
    """)


def test_tuples_complex_numbers_and_waiting_blocks():
    run("""
        from collections import namedtuple
        from types import SimpleNamespace
        from numba.cuda import dispatcher
        # grid.sync() is a device function, and those ask which GPU there is.
        dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=(9, 0))
        Box = namedtuple("Box", "low high")

        @cuda.jit(fastmath=True)
        def fill(box, pair, factor, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = (box.low[i] + box.high + pair[1]) * factor

        @cuda.jit
        def all_wait(x, y):
            grid = cuda.cg.this_grid()
            x[cuda.grid(1)] = 1
            grid.sync()
            y[cuda.grid(1)] = 1 + x[x.size - 1 - cuda.grid(1)]

        out = np.zeros(8, np.complex128)
        x, y = np.zeros(64), np.zeros(64)
        with reroute():
            fill[1, 32](Box(np.arange(8.0), 2.0), (1, 3), 1 + 2j, out)
            all_wait[2, 32](x, y)
        assert np.array_equal(out, (np.arange(8) + 5) * (1 + 2j)) and (y == 2).all()
    """)


def test_instruments_keep_their_documentation():
    for instrument in (virtualgpu.check, virtualgpu.profile, virtualgpu.schedule):
        assert instrument.__doc__ and "with" in instrument.__doc__


def test_what_is_timed_goes_to_the_real_gpu_inside_of_it_too():
    run("""
        from numba.cuda.dispatcher import CUDADispatcher
        from virtualgpu.numba.beside_gpu import without_reroute

        before = CUDADispatcher.call
        with without_reroute():
            assert CUDADispatcher.call is before
        with reroute(), virtualgpu.profile():
            inside = CUDADispatcher.call
            with without_reroute():
                assert CUDADispatcher.call is before
                with virtualgpu.check():
                    assert CUDADispatcher.call is inside
                assert CUDADispatcher.call is before
            assert CUDADispatcher.call is inside
        assert CUDADispatcher.call is before
    """)
