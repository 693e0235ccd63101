"""Project 1: its specification against a trusted library, its known-wrong answers, fresh seeds."""

from __future__ import annotations

import json
import math
import random
import runpy
from collections import Counter

import hist
import numpy as np
import pytest
from conftest import REPOSITORY

from gpucourse.build.notebooks import project_source
from gpucourse.build.registry import load_course
from gpucourse.build.source import read_source
from gpucourse.grading import cells
from gpucourse.grading.assignment import SETUP, Assignment
from gpucourse.grading.batch import Grader, Job
from gpucourse.grading.demo import Expected, mismatch, solved, wrong_answers
from gpucourse.grading.ingest import ingest_cells
from gpucourse.grading.limits import Limits

ID = "01_fill_a_histogram"
COURSE = load_course(REPOSITORY)
SOURCE = read_source(COURSE, COURSE.lesson(ID))
WRONG = REPOSITORY / "course" / "projects" / ID / "wrong.py"

# What people get wrong: each kind has to be among the known-wrong answers.
KINDS = {
    "race", "missing barrier", "out of bounds", "divergent barrier", "power-of-two only",
    "off-by-one bin", "everything in bin 0", "NaN put in bin 0", "last edge", "hard-coded size",
    "NumPy in place of a kernel", "one block only", "shared histogram not zeroed",
    "uninitialised private rows", "correct but with one global atomic per event",
    "correct but uncoalesced", "changes its input", "endless loop",
    "histogram not zeroed between runs",
}  # fmt: skip


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
    "histogram": """def histogram(values, low, high, bins):
    d = cuda.to_device(np.ascontiguousarray(values))
    out = cuda.to_device(np.zeros(bins + 2, dtype=np.int32))
    n = 128
    blocks = (len(values) + n - 1) // n or 1
    if bins + 2 > MAX_SLOTS:
        fill_atomic[blocks, n](d, low, high, out)
    else:
        fill_shared[blocks, n](d, low, high, out)
    cuda.synchronize()
    return out.copy_to_host()
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
}  # fmt: skip


@pytest.fixture(scope="module")
def assignment() -> Assignment:
    return Assignment(ID, project_source(COURSE, SOURCE))


@pytest.fixture(scope="module")
def setup(assignment) -> dict:
    """What the set-up cells define: `reference` and `values_in`, which every test leans on."""
    namespace = {"__name__": "__main__"}
    for cell in assignment.having(SETUP):
        cells.run(cell.source, cell.grade_id, namespace)
    return namespace


@pytest.fixture(scope="module")
def source_path(assignment, tmp_path_factory):
    """The instructor's notebook as a file, as the grader reads it."""
    path = tmp_path_factory.mktemp("source") / f"{ID}.ipynb"
    path.write_text(json.dumps(assignment.notebook), encoding="utf-8")
    return path


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


def test_wrong_answers_cover_what_people_get_wrong(assignment):
    entries = runpy.run_path(str(WRONG))["WRONG"]
    names = Counter(entry["name"] for entry in entries)
    assert len(entries) >= 14 and max(names.values()) == 1
    assert KINDS - {entry["kind"] for entry in entries} == set()
    # Every test earns its place: some wrong answer fails there and nowhere before.
    order = [cell.grade_id for cell in assignment.tests]
    assert {min(entry["fails"], key=order.index) for entry in entries} == set(order)
    for entry in entries:
        assert entry["fails"] == sorted(entry["fails"], key=order.index), entry["name"]


def test_points_add_up(assignment):
    assert sum(cell.points for cell in assignment.tests) == COURSE.lesson(ID).points


@pytest.mark.slow
def test_wrong_answers_are_rejected_for_their_reasons(assignment, source_path):
    """A sample, one of each test cell at least; `make demo` grades them all."""
    everyone = wrong_answers(assignment, WRONG)
    random.Random(1).shuffle(everyone)
    sample = list({person.fails[0]: person for person in everyone}.values())
    assert len(sample) == len(assignment.tests)
    assert outcomes(sample, assignment, source_path) == []


@pytest.mark.slow
def test_right_answers_have_full_marks_whatever_the_seed(assignment, source_path):
    solution = Expected("solution", json.dumps(solved(assignment)), (), "")
    another = Expected("another", json.dumps(solved(assignment, ANOTHER)), (), "")
    for _ in range(2):  # each Grader draws a seed of its own
        assert outcomes([solution, another], assignment, source_path) == []


def outcomes(people: list[Expected], assignment: Assignment, source_path) -> list[str]:
    """Grade them together; what did not come out as expected, in words."""
    told = []
    everyone = {person.student: person for person in people}

    def judge(job, verdict):
        if bad := mismatch(everyone[job.student], assignment, verdict, verdict.earned):
            told.append(f"{job.student} (seed {verdict.seed}): {bad}")

    with Grader(own_work=True) as grader:
        grader.grade([
            Job(person.student, source_path, ingest_cells(
                json.loads(person.content)["cells"], assignment, Limits()))
            for person in people
        ], judge)  # fmt: skip
    return told
