"""Awkward Arrays in Numba kernels without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import awkward as ak
import numpy as np
import pytest

import virtualgpu
from awkward_events import MUONS, NESTED, dimuon_masses


def launch(kernel, events: ak.Array) -> list:
    """The kernel's output: one float64 per event, NaN beforehand."""
    import cupy

    out = cupy.asarray(np.full(len(events), np.nan))
    with virtualgpu.check() as report:
        kernel[1, 32](events, out)
    assert report.ok, report
    return out.get().tolist()


SUMS = [77.75, 0.0, 12.5, 80.0]


def jit(function):
    from numba import cuda

    return cuda.jit(extensions=[ak.numba.cuda])(function)


def test_by_index(events: ak.Array):
    from numba import cuda

    @jit
    def kernel(events, out):
        i = cuda.grid(1)
        if i < len(events):
            out[i] = 0
            for j in range(len(events[i])):
                out[i] += events[i][j].pt

    assert launch(kernel, events) == SUMS


def test_by_iteration(events: ak.Array):
    from numba import cuda

    @jit
    def kernel(events, out):
        i = cuda.grid(1)
        if i < len(events):
            total = 0.0
            for muon in events[i]:
                total += muon.pt
            out[i] = total

    assert launch(kernel, events) == SUMS


def test_by_enumerate(events: ak.Array):
    from numba import cuda

    @jit
    def kernel(events, out):
        i = cuda.grid(1)
        if i < len(events):
            out[i] = 0
            for j, muon in enumerate(events[i]):
                out[i] += (j + 1) * muon["pt"]

    assert launch(kernel, events) == [119.0, 0.0, 12.5, 100.0]


def test_over_slices(events: ak.Array):
    from numba import cuda

    @jit
    def kernel(events, out):
        i = cuda.grid(1)
        if i < len(events):
            pairs = 0
            for j, one in enumerate(events[i]):
                for other in events[i][j + 1 :]:
                    if one.charge != other.charge:
                        pairs += 1
            out[i] = pairs

    assert launch(kernel, events) == [2, 0, 0, 1]


def test_lists_of_records_in_records():
    """The masses of opposite pairs, the largest of each event: a whole analysis in one kernel."""
    from math import cos, cosh, sqrt

    from numba import cuda

    @jit
    def kernel(events, out):
        i = cuda.grid(1)
        if i < len(events):
            largest = -1.0
            muons = events[i].muons
            for j in range(len(muons)):
                one = muons[j]
                for other in muons[j + 1 :]:
                    if one.charge * other.charge < 0:
                        mass = sqrt(
                            2
                            * one.pt
                            * other.pt
                            * (cosh(one.eta - other.eta) - cos(one.phi - other.phi))
                        )
                        largest = max(largest, mass)
            out[i] = largest if len(muons) else -events[i].met

    events = ak.Array(NESTED)
    results = launch(kernel, ak.to_backend(events, "cuda"))
    assert results == pytest.approx([dimuon_masses(events)[0, 0], -3.0, -1.0], rel=1e-14)


def test_vectors_have_their_properties_in_kernels():
    import vector
    from numba import cuda

    vector.register_awkward()

    @jit
    def kernel(events, out):
        i = cuda.grid(1)
        if i < len(events):
            out[i] = 0
            for muon in events[i]:
                out[i] += muon.px

    muons = ak.with_name(ak.Array(NESTED).muons, "Momentum4D")
    assert launch(kernel, ak.to_backend(muons, "cuda")) == pytest.approx(
        ak.sum(muons.px, axis=1).to_list(), rel=1e-14
    )


@pytest.mark.parametrize(
    "lists",
    [
        [[[1.0, 2.0], []], [[3.0]], []],
        [[1.0, None], [2.0], []],
        [[True], [False, True], []],
        np.arange(6.0).reshape(3, 2),
    ],
    ids=["lists of lists", "missing values", "booleans", "regular"],
)
def test_iteration_over_other_lists(lists):
    from numba import cuda

    @jit
    def kernel(lists, out):
        i = cuda.grid(1)
        if i < len(lists):
            count = 0
            for _ in lists[i]:
                count += 1
            out[i] = count

    array = ak.Array(lists)
    assert launch(kernel, ak.to_backend(array, "cuda")) == ak.num(array).to_list()


def test_jagged_numbers(events: ak.Array):
    from numba import cuda

    @jit
    def kernel(lists, out):
        i = cuda.grid(1)
        if i < len(lists):
            out[i] = 0
            for x in lists[i]:
                out[i] += x

    assert launch(kernel, events.pt) == SUMS


def test_an_array_on_the_cpu_backend_is_refused(events: ak.Array):
    from numba import cuda
    from numba.core.errors import NumbaTypeError

    @jit
    def kernel(events, out):
        out[0] = len(events)

    with pytest.raises(NumbaTypeError, match=r'ak\.to_backend\(array, backend="cuda"\)'):
        kernel[1, 1](ak.Array(MUONS), cuda.device_array(1))


def in_fresh_python(before: str) -> subprocess.CompletedProcess:
    """A kernel that iterates, and a sum, in a program that has done nothing but ``before``."""
    code = (
        f"import virtualgpu; virtualgpu.activate()\n{before}\n"
        "import awkward as ak, cupy\n"
        "from numba import cuda\n"
        "ak.numba.register_and_check()\n"
        "@cuda.jit(extensions=[ak.numba.cuda])\n"
        "def kernel(array, out):\n"
        "    for x in array[0]:\n"
        "        out[0] += x\n"
        "array = ak.to_backend(ak.Array([[1.0, 2.5], [4.0]]), 'cuda')\n"
        "out = cupy.zeros(1)\n"
        "kernel[1, 1](array, out)\n"
        "print(out.get().tolist(), ak.sum(array, axis=1).to_list(), 'gpucourse' in sys.modules)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )


def test_activate_is_all_that_is_needed():
    ran = in_fresh_python("")
    assert ran.stdout.split("\n")[0] == "[3.5] [3.5, 4.0] False", ran.stderr


@pytest.mark.rehearsal
def test_iteration_needs_the_mend():
    """Where this fails numba-cuda or Awkward no longer needs it: remove ``mend_iteration``."""
    ran = in_fresh_python("from virtualgpu.awkward import kernels; kernels.stop_waiting()")
    assert ran.returncode == 1
    assert "No definition for lowering iternext" in ran.stderr
