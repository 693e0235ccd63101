"""The tuned kernels: right at the edges of their tiles, what they were written for is in them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba import cuda, float32, float64, int32, types

import virtualgpu
from lab.benchmarks import gpu_lessons, gpu_tuned


@pytest.fixture(autouse=True)
def active():
    before = virtualgpu.is_active()
    virtualgpu.activate(force=True)
    yield
    if not before:
        virtualgpu.deactivate()


@pytest.mark.parametrize("make", [gpu_tuned.sum_eight, gpu_tuned.sum_vectors])
@pytest.mark.parametrize("size", [1, 5, 1023, 1024, 1025, 2048, 2051, 9000])
def test_a_sum_leaves_nothing_out(make, size):
    values, total = np.arange(1, size + 1, dtype=np.float32), np.zeros(1)
    with virtualgpu.check() as report:
        make()[2, gpu_tuned.SUM_THREADS](values, total)
    assert report.findings == [] and total[0] == size * (size + 1) / 2


@pytest.mark.parametrize("size", [1, 2047, 2048, 9001])
def test_a_histogram_counts_all(size):
    values = np.linspace(-1, 11, size)
    values[::100] = np.nan
    counts = np.zeros(12, np.int32)
    with virtualgpu.check() as report:
        gpu_tuned.fill_eight()[2, gpu_tuned.FILL_THREADS](values, 0.0, 10.0, 1.0, counts)
    assert report.findings == []
    inside = np.histogram(values[~np.isnan(values)], 10, (0, np.nextafter(10, 0)))[0]
    assert (counts[1:-1] == inside).all() and counts[0] == (values < 0).sum()
    assert counts.sum() == size


def ptx(kernel, *kinds) -> str:
    text, _ = cuda.compile_ptx(kernel.py_func, kinds, cc=(9, 0))
    return text


def test_loads_lie_apart_by_constants():
    """Then nothing is to be computed between them, and ptxas puts them in a row: eight at one
    address and constants, and four of 16 bytes."""
    eight = ptx(gpu_tuned.sum_eight(), float32[::1], float64[::1])
    (offsets,) = {
        tuple(re.findall(rf"ld\.global\.[fb]32 [^\n]*\[{at}\+(\d+)\]", eight))
        for at in re.findall(r"\[(%rd\d+)\+512\]", eight)[:1]
    }
    assert offsets[:7] == tuple(str(512 * k) for k in range(1, 8))
    vectors = ptx(gpu_tuned.sum_vectors(), float32[::1], float64[::1])
    assert len(re.findall(r"ld\.global\.v4\.[fb]32", vectors)) == 4


def test_a_step_of_the_picture_compares_in_32_bits_and_branches_once():
    text = ptx(gpu_tuned.stays_narrow(), float32[::1], float32[::1], int32, types.int32[:, ::1])
    loop = re.search(r"(\$L__BB\d+_\d+):[^\n]*\n((?:(?!\$L__BB)[^\n]*\n)*?)[^\n]*bra[^\n]*\1", text)
    assert loop and "fma.rn.f32" in loop[2]
    assert "setp.lt.s32" in loop[2] and "setp.lt.s64" not in loop[2] and "bra" not in loop[2]


def test_columns_of_32_words_are_conflicts_of_32():
    def turns(width):
        with virtualgpu.profile() as profile:
            gpu_lessons.column_sums(width)[1, (32, 8)](
                np.zeros((32, 32), np.float32), np.zeros((1, 8, 32), np.float32)
            )
        counts = profile.counters
        return counts.shared_load_wavefronts / counts.shared_load_requests

    assert (turns(33), turns(32)) == (1, 32)
