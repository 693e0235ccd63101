"""Whether an answer's numbers come from the device: other values are there than the host handed."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu

virtualgpu.activate(force=True)

import cupy as cp  # noqa: E402

from gpucourse.exercises.checks import CheckFailed  # noqa: E402
from gpucourse.exercises.host_side import with_other_values  # noqa: E402

VALUES, OTHERS = np.random.default_rng(1).uniform(0, 1, (2, 1009))
twice = cp.RawKernel(
    'extern "C" __global__ void twice(double *x, int n)'
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }",
    "twice",
)


def by_kernel(d_values: cp.ndarray) -> cp.ndarray:
    twice((8,), (128,), (d_values, np.int32(d_values.size)))
    return d_values


def into_an_array() -> np.ndarray:
    out = np.empty_like(VALUES)
    by_kernel(cp.asarray(VALUES)).get(out=out)
    return out


@pytest.mark.parametrize(
    "answer",
    [
        lambda: by_kernel(cp.asarray(VALUES)).get(),
        lambda: cp.asnumpy(by_kernel(cp.asarray(VALUES))),
        lambda: np.array(by_kernel(cp.asarray(VALUES)).tolist()),
        into_an_array,
    ],
    ids=["get", "asnumpy", "tolist", "get into an array"],
)
def test_what_a_kernel_made_follows_the_device(answer):
    assert np.allclose(with_other_values(answer, [(VALUES, OTHERS)], "", ""), 2 * OTHERS)


@pytest.mark.parametrize(
    "fetch",
    [
        lambda d_values: d_values.get(),
        cp.asnumpy,
        lambda d_values: np.array(d_values.tolist()),
        lambda d_values: np.frombuffer(d_values.tobytes()),
    ],
    ids=["get", "asnumpy", "tolist", "tobytes"],
)
@pytest.mark.parametrize("launched", ["before", "afterwards"])
def test_values_that_are_fetched_as_they_were_are_those_that_the_host_has(fetch, launched):
    def answer() -> np.ndarray:
        d_values, decoy = cp.asarray(VALUES), cp.ones(4)
        if launched == "before":
            by_kernel(decoy)
        fetched = fetch(d_values)
        if launched == "afterwards":
            by_kernel(decoy)
        return 2 * fetched

    assert np.allclose(with_other_values(answer, [(VALUES, OTHERS)], "", ""), 2 * VALUES)


def test_values_that_no_kernel_gets_are_noticed():
    with pytest.raises(CheckFailed, match="computed on the host"):
        with_other_values(lambda: 2 * VALUES, [(VALUES, OTHERS)], "for 1,009 values", "")
