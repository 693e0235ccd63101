"""The teaching kernels in CUDA C++ run, are told where they are wrong, and are refused in words."""

from __future__ import annotations

import numpy as np
import pytest

from lab.evidence import cuda_samples
from lab.evidence.samples.sample import Samples, outcome

FEW = {
    "elements": ["vector addition", "polynomial from constant memory"],
    "reductions": ["reduction 4: the last warp by shuffles", "threadfence reduction"],
    "scans": ["scan with look-back"],
    "sorting": ["bitonic sort"],
    "matrices": ["matrix product by tiles"],
    "grids": ["heat equation"],
    "images": [
        "image rotated by an interpolating texture that wraps",
        "blurred image, from a texture that clamps to a surface",
    ],
    "together": ["halves of a warp swap in two branches"],
    "language": ["printf", "assert that fails"],
}


@pytest.mark.parametrize(("room", "name"), [(r, n) for r, names in FEW.items() for n in names])
def test_some_of_them_are_right(room, name):
    assert outcome(cuda_samples.SAMPLES[room][name]) == "right"


@pytest.mark.parametrize(
    "sample",
    [sample for sample in cuda_samples.SAMPLES["language"].values() if sample.refused],
    ids=lambda sample: sample.name,
)
def test_what_the_machine_lacks_is_refused_with_its_sentence(sample):
    assert outcome(sample) == "refused"


ADD = r"""
extern "C" __global__ void add(int *x) { x[threadIdx.x] += 1; }
extern "C" __global__ void race(int *x) { x[0] = threadIdx.x; }"""


@pytest.mark.parametrize(
    ("kernel", "wanted", "words"),
    [
        ("add", 2, "result 0: 40 wrong"),
        ("race", 1, "race"),
        ("gone", 1, "gone"),
    ],
)
def test_a_sample_that_is_wrong_is_told(kernel, wanted, words):
    samples = Samples()

    @samples.add("wrong", ADD)
    def check(k):
        x = np.zeros(40, np.int32)
        k(kernel, 1, 40, x)
        yield x, np.full(40, wanted)

    assert words in outcome(samples["wrong"])
