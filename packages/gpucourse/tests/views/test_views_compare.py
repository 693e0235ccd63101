"""Comparisons: who agrees, what has a time, what has counts, and what was recorded elsewhere."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda

import kernels_to_see as kernels
from gpucourse import compare, report
from gpucourse.system.device import DeviceInfo
from gpucourse.views.launch import compare as compare_view
from gpucourse.views.launch import costs, real_gpu
from gpucourse.views.launch import report as report_view

X = np.arange(1000, dtype=np.float32)
H200 = DeviceInfo("NVIDIA H200", False, (9, 0), 150 * 10**9, "570.86.15", "12.8")


def on_gpu(x):
    total = cuda.to_device(np.zeros(1, np.float32))
    kernels.block_sum[16, 64](cuda.to_device(x), total)
    return total.copy_to_host()[0]


def changes_its_input(x):
    x *= 0
    return np.float32(X.sum())


def test_times_where_time_is_real_and_counts_where_it_is_virtual():
    view = compare({"NumPy": np.sum, "kernel": on_gpu}, X)
    here, kernel = view.results
    assert here.seconds > 0 and here.counters is None and here.launches == 0
    assert kernel.seconds is None and kernel.launches == 1
    assert kernel.counters.atomics == 16
    assert all(result.agrees for result in view.results)
    assert "No GPU times are recorded" in view.text
    assert "Times are from this machine's processor: NumPy." in view.text
    assert view.markup.count('role="img"') == 1 and "all agree" in view.markup


def test_what_differs_or_fails_is_told():
    view = compare(
        {
            "right": lambda x: x * 2,
            "one off": lambda x: np.where(x == 7, 0, x * 2),
            "short": lambda x: x[1:],
            "broken": lambda x: x.nothing,
            "two": lambda x: (x, x),
            "same": lambda x: [2 * v for v in x.tolist()],
        },
        X,
    )
    troubles = {result.name: result.trouble for result in view.results}
    assert troubles == {
        "right": "",
        "same": "",
        "one off": "element 7 is 0, not 14 (1 of 1,000 differ)",
        "short": "has shape (999,), not (1000,)",
        "broken": "AttributeError: 'numpy.ndarray' object has no attribute 'nothing'",
        "two": "returns 2 values, not 1",
    }
    assert "2 of 6 agree" in view.markup and "✗ one off" in view.text


def test_arguments_are_copied_for_each():
    x = X.copy()
    view = compare({"greedy": changes_its_input, "NumPy": np.sum}, x)
    assert (x == X).all() and all(result.agrees for result in view.results)


def test_array_libraries_without_a_gpu_have_no_time():
    import cupy

    view = compare({"NumPy": np.sum, "CuPy": lambda x: cupy.asarray(x).sum()}, X)
    assert view.results[1].agrees
    assert view.results[1].seconds is None and view.results[1].launches >= 1


def test_recorded_times_are_shown_with_their_machine(tmp_path):
    path = tmp_path / "sums.json"
    path.write_text(
        json.dumps(
            {
                "machine": "NVIDIA H200",
                "date": "2026-01-02",
                "versions": {"numba-cuda": "0.30.4"},
                "seconds": {"kernel": 2e-6},
            }
        )
    )
    view = compare({"NumPy": np.sum, "kernel": on_gpu}, X, recorded=path)
    assert "2 µs" in view.text
    assert "Recorded on NVIDIA H200, 2026-01-02; numba-cuda 0.30.4." in view.text
    assert "No times of a GPU" not in view.text
    with pytest.raises(RuntimeError, match="only on a machine with a GPU"):
        view.save(tmp_path / "mine.json")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([np.sum], "takes a dict of functions"),
        ({}, "takes a dict"),
        ({"k": kernels.copy}, "'k' is a kernel, which needs brackets"),
        ({"k": 3}, "'k' is an int. Pass a function"),
    ],
)
def test_what_is_no_implementation_is_told(given, message):
    with pytest.raises(TypeError, match=message):
        compare(given, X)


def test_a_figures_parts_are_its_own():
    one, two = (compare({"NumPy": np.sum, "kernel": on_gpu}, x).markup for x in (X, X[:500]))
    assert "<metadata>" not in one and "#000000" not in one and "currentColor" in one
    assert len(one) < 60_000 and one != two


# -- a machine with a GPU, whose part the virtual one plays ------------------------------------


@pytest.fixture
def beside_a_gpu(monkeypatch):
    """As if there were an H200: its events are the virtual GPU's, with a time made up."""
    for module in (compare_view, costs, real_gpu, report_view):
        monkeypatch.setattr(module, "device", lambda: H200)
    monkeypatch.setattr("gpucourse.system.device.device", lambda: H200)
    monkeypatch.setattr(cuda, "event_elapsed_time", lambda start, stop: 0.25)


def test_beside_a_gpu_a_card_says_which_figure_is_from_where(beside_a_gpu):
    x = np.ones(64, np.float32)
    text = str(report(kernels.unguarded, 2, 32, x))
    assert "0.25 ms on the NVIDIA H200 (CUDA events, median of 21 launches" in text
    assert "Counts are from the virtual GPU" in text
    assert (x == 1).all()


def test_a_kernel_that_faults_is_not_run_on_the_gpu(beside_a_gpu, monkeypatch):
    monkeypatch.setattr(real_gpu, "milliseconds", None)  # calling it would raise
    text = str(report(kernels.unguarded, 4, 32, np.ones(100, np.float32)))
    assert "Not run on the NVIDIA H200, because the launch fails." in text


def test_beside_a_gpu_launches_of_a_cell_are_repeated_on_copies(beside_a_gpu):
    x = cuda.to_device(np.ones(64, np.float32))
    watched = real_gpu.WatchedOnGPU()
    with watched:
        kernels.unguarded[2, 32](x)
    kernels.unguarded[2, 32](x)  # no longer watched
    text = watched.view().text
    assert text.count("unguarded[2, 32]") == 1 and "0.25 ms on the NVIDIA H200" in text
    assert (x.copy_to_host() == 4).all()


def test_beside_a_gpu_everything_has_a_time_and_can_be_kept(beside_a_gpu, tmp_path):
    view = compare({"NumPy": np.sum, "kernel": on_gpu}, X)
    assert [result.trouble for result in view.results] == ["", ""]
    assert all(result.seconds > 0 for result in view.results)
    view.save(tmp_path / "sums.json")
    kept = costs.Recorded.read(tmp_path / "sums.json")
    assert kept.machine.startswith("NVIDIA H200") and kept.seconds.keys() == {"NumPy", "kernel"}
    assert "numpy" in kept.versions


def test_a_raw_kernel_of_a_real_gpu_is_compiled_anew():
    from gpucourse.views.launch.runs import _compiled_anew

    code = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
    run = _compiled_anew(SimpleNamespace(code=code, options=(), name="twice"))
    x = np.ones(32, np.float32)
    run((1, 1, 1), (32, 1, 1), (x,))
    assert (x == 2).all()
