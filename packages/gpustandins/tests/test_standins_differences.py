"""Where the stand-ins for CuPy and PyCUDA differ from the originals, each shown once.

``lab.pages.standins_differences`` lists them, and docs/standins.md shows the list.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("cp")


def test_events_have_no_times(cp):
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    cp.zeros(10) + 1
    end.record()
    end.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the first time, it says so
        assert math.isnan(cp.cuda.get_elapsed_time(start, end))


def test_benchmark_has_no_gpu_times(cp):
    from cupyx.profiler import benchmark

    result = benchmark(lambda: cp.zeros(10) + 1, n_repeat=3, n_warmup=1)
    assert (result.cpu_times > 0).all()
    assert np.isnan(result.gpu_times).all()


def test_random_numbers_are_of_another_stream(cp):
    drawn = []
    for _ in range(2):
        cp.random.seed(7)
        drawn.append(cp.random.uniform(5, 10, 10_000).get())
    assert (drawn[0] == drawn[1]).all()
    assert drawn[0].mean() == pytest.approx(7.5, abs=0.05)
    assert drawn[0].std() == pytest.approx(5 / math.sqrt(12), abs=0.05)


def test_sums_round_as_on_the_host(cp):
    values = np.random.default_rng(1).random(100_001).astype(np.float32)
    assert float(cp.asarray(values).sum()) == float(values.sum())
    assert float(cp.asarray(values).sum()) != float(np.cumsum(values)[-1])


def test_work_is_done_when_the_call_returns(cp):
    with cp.cuda.Stream(non_blocking=True):
        values = cp.arange(5) * 2
    with cp.cuda.Stream(non_blocking=True):
        assert (values + 1).get().tolist() == [1, 3, 5, 7, 9]


def test_fresh_memory_is_poisoned(cp):
    assert cp.empty(3, cp.int32).get().tolist() == [-16843010] * 3


def test_sources_are_for_the_device_alone(cp):
    import pycuda.autoinit  # noqa: F401
    from pycuda.compiler import SourceModule
    from pycuda.driver import CompileError

    with pytest.raises(CompileError):
        SourceModule("#include <vector>\nstd::vector<int> on_the_host;")


def test_pycuda_events_have_no_times(cp):
    import pycuda.autoinit  # noqa: F401
    from pycuda.driver import Event

    start, end = Event(), Event()
    start.record()
    end.record()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert math.isnan(start.time_till(end))
