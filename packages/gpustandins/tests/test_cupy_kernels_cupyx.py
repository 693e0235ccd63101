"""``cupyx`` of the stand-in: times of the host alone, scatter, pinned memory, what is missing."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def cupyx(cp):
    import cupyx

    return cupyx


def test_a_benchmark_has_no_times_of_a_gpu(cp, cupyx):
    from cupyx.profiler import benchmark

    calls = []

    def work(x, more=0):
        calls.append(more)
        return x + 1

    result = benchmark(work, (cp.ones(3),), {"more": 2}, n_repeat=5, n_warmup=2)
    assert len(calls) == 7 and set(calls) == {2}
    assert result.cpu_times.shape == (5,) and (result.cpu_times > 0).all()
    assert result.gpu_times.shape == (1, 5) and np.isnan(result.gpu_times).all()
    assert "nan us" in str(result) and "no times" in str(result) and "work" in str(result)
    assert "nan" not in result.to_str()


def test_a_benchmark_ends_when_its_time_is_up(cp, cupyx, monkeypatch):
    from cupyx import profiler

    clock = iter(range(100_000))
    monkeypatch.setattr(profiler.time, "perf_counter", lambda: next(clock))
    assert profiler.benchmark(int, n_warmup=0).cpu_times.size < 100
    assert profiler.benchmark(int, n_warmup=0, max_duration=4).cpu_times.size == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"func": 3}, "callable"),
        ({"args": [1]}, "tuple"),
        ({"kwargs": ()}, "dict"),
        ({"n_repeat": 1.5}, "integer"),
        ({"name": 3}, "string"),
        ({"devices": [0]}, "tuple"),
        ({"max_duration": "1"}, "seconds"),
    ],
)
def test_a_benchmark_refuses_nonsense(cupyx, given, words):
    from cupyx.profiler import benchmark

    with pytest.raises(ValueError, match=words):
        benchmark(**({"func": int, "n_repeat": 1} | given))


def test_time_ranges(cupyx):
    from cupyx.profiler import profile, time_range

    @time_range()
    def three():
        return 3

    with time_range("outer", color_id=1), profile():
        assert three() == 3 and three.__name__ == "three"
    with pytest.raises(ValueError, match="color_id or argb_color"):
        time_range("x", color_id=1, argb_color=2)
    with pytest.raises(ValueError, match="message"), time_range():
        pass


def test_scatter_counts_repeated_indices(cp, cupyx):
    for function, expected in (
        ("scatter_add", [4, 1, 6]),
        ("scatter_max", [3, 1, 5]),
        ("scatter_min", [1, 1, 1]),
    ):
        x = cp.ones(3, np.float32)
        getattr(cupyx, function)(x, cp.asarray([0, 2, 0]), cp.asarray([0, 5, 3], np.float32))
        if function == "scatter_min":
            expected = [0, 1, 1]
        assert x.get().tolist() == expected


def test_reciprocal_square_roots(cp, cupyx):
    np.testing.assert_allclose(cupyx.rsqrt(cp.asarray([1, 4, 16])).get(), [1, 0.5, 0.25])
    assert cupyx.rsqrt(cp.ones(2, np.float32)).dtype == np.float32
    out = cp.zeros(1)
    assert cupyx.rsqrt(cp.full(1, 4.0), out) is out and out.get()[0] == 0.5


def test_pinned_arrays_are_the_hosts(cp, cupyx):
    assert cupyx.zeros_pinned((2, 3), np.int32).tolist() == [[0] * 3] * 2
    like = cupyx.empty_like_pinned(np.zeros((2, 3), np.float32, order="F"))
    assert isinstance(like, np.ndarray) and like.dtype == np.float32 and like.flags.f_contiguous
    assert cupyx.zeros_like_pinned(cp.ones(3), dtype=int).tolist() == [0, 0, 0]
    assert cupyx.empty_pinned(0).size == 0


def test_what_is_missing_names_what_to_use(cupyx):
    from cupyx import jit

    with pytest.raises(NotImplementedError, match=r"jit\.thrust.*numba\.cuda\.jit.*RawKernel"):
        _ = jit.thrust
    with pytest.raises(NotImplementedError, match=r"cupyx\.tools is not in .* use pip"):
        _ = cupyx.tools
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = cupyx.nothing
    with pytest.raises(ModuleNotFoundError, match=r"has no module cupyx\.tools"):
        __import__("cupyx.tools")
    assert not hasattr(cupyx, "tools")
