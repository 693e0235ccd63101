"""Project 1: its specification against a trusted library, its known-wrong answers, fresh seeds."""

from __future__ import annotations

import math

import hist
import numpy as np
import pytest

from project_class import ProjectClass

# What people get wrong: each kind has to be among the known-wrong answers.
KINDS = {
    "race", "missing barrier", "out of bounds", "divergent barrier", "power-of-two only",
    "off-by-one bin", "everything in bin 0", "NaN put in bin 0", "last edge", "hard-coded size",
    "NumPy in place of a kernel", "one block only", "shared histogram not zeroed",
    "uninitialised private rows", "correct but with one global atomic per event",
    "correct but uncoalesced", "changes its input", "endless loop",
    "histogram not zeroed between runs", "negative weights", "sums in float32",
    "one thread does everything", "one thread of each block does everything",
    "one thread of each warp does everything", "threads take turns at a barrier",
    "NumPy, then a kernel that copies",
}


# Right answers that go about it in other ways than ours.
ANOTHER = {
    "bin-index": """@cuda.jit(device=True)
def bin_index(value, low, high, bins):
    if math.isnan(value) or value >= high:
        return bins + 1
    elif value < low:
        return 0
    width = (high - low) / bins
    return int(math.floor((value - low) / width)) + 1


@cuda.jit
def find_slots(values, low, high, bins, slots):
    i = cuda.grid(1)
    if i < values.size:
        slots[i] = bin_index(values[i], low, high, bins)
""",
    "fill-private": """@cuda.jit
def fill_private(values, low, high, rows):
    me = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    R = rows.shape[0]
    if me >= R:
        return
    rows[me] = 0
    i = me
    while i < len(values):
        b = bin_index(values[i], low, high, rows.shape[1] - 2)
        rows[me, b] = rows[me, b] + 1
        i += R
""",
    "merge-rows": """@cuda.jit
def merge_rows(rows, counts):
    s = cuda.shared.array(1024, dtype=np.int32)
    t = cuda.threadIdx.x
    T = cuda.blockDim.x
    s[t] = 0
    for r in range(t, rows.shape[0], T):
        s[t] += rows[r, cuda.blockIdx.x]
    p = 1
    while p < T:
        p *= 2
    cuda.syncthreads()
    while p > 1:
        p //= 2
        if t < p and t + p < T:
            s[t] += s[t + p]
        cuda.syncthreads()
    if t == 0:
        counts[cuda.blockIdx.x] = s[0]
""",
    "fill-shared": """@cuda.jit
def fill_shared(values, low, high, counts):
    h = cuda.shared.array(MAX_SLOTS, np.int32)
    if cuda.threadIdx.x == 0:
        for k in range(counts.size):
            h[k] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < values.size:
        cuda.atomic.add(h, bin_index(values[i], low, high, counts.size - 2), 1)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        for k in range(counts.size):
            cuda.atomic.add(counts, k, h[k])
""",
    # Without values nothing is launched: zeros are right.
    "histogram": """def histogram(values, low, high, bins):
    d = cuda.to_device(np.ascontiguousarray(values))
    out = cuda.to_device(np.zeros(bins + 2, dtype=np.int32))
    n = 128
    blocks = (len(values) + n - 1) // n
    if blocks == 0:
        pass
    elif bins + 2 > MAX_SLOTS:
        fill_atomic[blocks, n](d, low, high, out)
    else:
        fill_shared[blocks, n](d, low, high, out)
    cuda.synchronize()
    return out.copy_to_host()
""",
    "fill-weighted": """@cuda.jit
def fill_weighted(values, weights, low, high, sums):
    w = cuda.shared.array(MAX_SLOTS, float64)
    w2 = cuda.shared.array(MAX_SLOTS, float64)
    if cuda.threadIdx.x == 0:
        for k in range(sums.shape[1]):
            w[k] = w2[k] = 0.0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < len(values):
        k = bin_index(values[i], low, high, sums.shape[1] - 2)
        cuda.atomic.add(w, k, weights[i])
        cuda.atomic.add(w2, k, weights[i] ** 2)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, sums.shape[1], cuda.blockDim.x):
        cuda.atomic.add(sums, (0, k), w[k])
        cuda.atomic.add(sums, (1, k), w2[k])
""",
    # A copy for each lane, and the last launch in one block.
    "golf-kernels": """@cuda.jit
def fill_lanes(values, low, high, slots, rows):
    mine = cuda.shared.array((32, 257), int32)
    for k in range(cuda.threadIdx.x, 32 * 257, cuda.blockDim.x):
        mine[k // 257, k % 257] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        slot = bin_index(values[i], low, high, slots - 2)
        cuda.atomic.add(mine, (cuda.threadIdx.x % 32, slot), 1)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        n = 0
        for lane in range(32):
            n += mine[lane, k]
        rows[cuda.blockIdx.x * slots + k] = n


@cuda.jit
def fold(rows, slots, counts):
    for k in range(cuda.threadIdx.x, slots, cuda.blockDim.x):
        n = 0
        for first in range(0, rows.size, slots):
            n += rows[first + k]
        counts[k] = n
""",
    "histogram-golf": """def histogram_golf(values, low, high, bins):
    slots = bins + 2
    rows = cuda.device_array(20 * slots, np.int32)
    counts = cuda.device_array(slots, np.int32)
    fill_lanes[20, 512](cuda.to_device(values), low, high, slots, rows)
    fold[1, 256](rows, slots, counts)
    return counts.copy_to_host()
""",
    "predict-turns": """def predict_turns(values, low, high, bins):
    slots = np.searchsorted(np.linspace(low, high, bins + 1), values, side="right")
    pad = np.full(-(-len(slots) // 32) * 32, -1)
    pad[: len(slots)] = slots
    total = 0
    for warp in pad.reshape(-1, 32):
        warp = warp[warp >= 0]
        total += max(np.count_nonzero(warp == s) for s in warp)
    return total
""",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> ProjectClass:
    return ProjectClass("01_fill_a_histogram", tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def setup(project) -> dict:
    """`reference` and `values_in`, which every test leans on."""
    return project.setup()


# --- the specification ----------------------------------------------------------------------------


RANGES = [(0.0, 16.0, 8), (-8.0, 8.0, 64), (-0.5, 0.5, 1)]


@pytest.mark.parametrize(("low", "high", "bins"), RANGES)
def test_reference_is_the_rule_of_hist_and_root(setup, low, high, bins):
    edges = np.linspace(low, high, bins + 1)
    between = np.random.default_rng(1).uniform(low - 1, high + 1, 999)
    odd = [-math.inf, math.inf, math.nan, -math.nan, 1e300, -1e300]
    values = np.concatenate([edges, between, odd])
    counts = setup["reference"](values, low, high, bins)
    assert counts.dtype == np.int32
    trusted = hist.Hist(hist.axis.Regular(bins, low, high)).fill(values)
    np.testing.assert_array_equal(counts, trusted.values(flow=True))
    assert counts.sum() == values.size


def test_numpy_differs_from_the_rule_as_the_text_says(setup):
    values = [-1.0, 0.0, 16.0, 17.0]
    counts = setup["reference"](values, 0.0, 16.0, 8)
    assert list(counts) == [1, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert list(np.histogram(values, 8, (0.0, 16.0))[0]) == [1, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("low", "high", "bins"), [(0.0, 10.0, 10), (60.0, 120.0, 101), (-1e6, 1e3, 3)]
)
def test_values_are_where_they_were_asked_to_be(setup, low, high, bins):
    rng = np.random.default_rng(2)
    wanted = rng.integers(0, bins + 2, 10_000)
    values = setup["values_in"](wanted, low, high, bins, rng)
    edges = np.linspace(low, high, bins + 1)
    np.testing.assert_array_equal(np.searchsorted(edges, values, side="right"), wanted)
    # Far from every edge: no way to round the position can part two right answers.
    distance = np.abs(values[:, None] - edges).min(axis=1)
    assert distance.min() > 0.009 * (high - low) / bins


def test_reference_of_nothing_is_zeros(setup):
    assert list(setup["reference"](np.zeros(0), 0.0, 1.0, 3)) == [0] * 5


# --- known-wrong answers --------------------------------------------------------------------------


def test_wrong_answers_cover_what_people_get_wrong(project):
    project.check_entries(KINDS)


def test_points_add_up(project):
    project.check_points()


@pytest.mark.slow
def test_wrong_answers_are_rejected_for_their_reasons(project):
    """A sample; `make demo` grades them all."""
    assert project.outcomes(project.sample_of_wrong(4)) == []


@pytest.mark.slow
def test_right_answers_have_full_marks_whatever_the_seed(project):
    """A sample; `python -m evidence.project_seeds` takes 200 seeds."""
    people = [project.right("solution"), project.right("another", ANOTHER)]
    assert project.outcomes(people, seeds=["5e" * 16]) == []
