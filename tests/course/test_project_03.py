"""Project 3: its claims about the generator, its model and its fit; right and wrong answers."""

from __future__ import annotations

import math

import awkward as ak
import hist
import numpy as np
import pytest
import vector

from gpucourse.course.regions import SOLUTION, unwrap_regions
from gpucourse.data import Z_MASS, Z_WIDTH, dimuons, kinematics, pair_masses
from gpucourse.grading.sandbox import cells

# What people get wrong: each kind has to be among the known-wrong answers.
KINDS = {
    "same-sign pair",
    "only the first two muons",
    "degrees for radians",
    "η for θ",
    "missing pair → NaN in the histogram",
    "missing pair → 0",
    "correct but uncoalesced",
    "grid smaller than the data",
    "out of bounds",
    "missing barrier",
    "return in a grid-stride loop",
    "index past the end of an event",
    "empty events left out",
    "NaN hides a good pair",
    "correct but with one global atomic per event",
    "events without a pair dropped",
    "resolution left out",
    "correlations left out of the errors",
    "not converged",
    "hard-coded output",
    "one thread does everything",
    "one thread of each block does everything",
    "NumPy in place of JAX",
    "a loop of Python in place of arrays",
    "a check by what is to be checked",
    "threads that look busy",
    "one lane does its warp's work",
    "a constant that the text gives away",
    "the course's own result",
}


@pytest.fixture(scope="module")
def setup(project) -> dict:
    """`events_of`, `reference`, `histogram_of` and what else every test leans on."""
    return project.setup()


@pytest.fixture(scope="module")
def solved(project, setup) -> dict:
    """The set-up with the reference answers that need no device."""
    namespace = dict(setup)
    for cell in project.assignment.solutions:
        if cell.grade_id in ("expected-counts", "nll", "uncertainties", "fit", "nearest-on-cpu"):
            cells.run(unwrap_regions(cell.source, SOLUTION), cell.grade_id, namespace)
    return namespace


# --- what the text says of the events -------------------------------------------------------------


def test_the_events_are_as_the_text_says():
    events = dimuons()
    counts = ak.num(events.muons)
    assert 0.2 < np.mean(counts == 0) < 0.25  # "one event in five has no muon"
    assert round(float(np.mean(counts)), 1) == 1.4
    assert set(range(6)) <= set(counts.to_list())


def test_leaving_out_the_muons_mass_costs_what_the_text_says():
    muons = dimuons().muons
    with_mass, without = ak.flatten(pair_masses(muons)), ak.flatten(pair_masses(muons, mass=0.0))
    at_the_z = (with_mass > 80) & (with_mass < 100)
    assert float(np.mean((with_mass - without)[at_the_z])) == pytest.approx(0.3e-3, abs=0.05e-3)


def test_events_by_hand_have_the_form_of_generated_ones(setup):
    """Another form would be another kernel: a compilation more for each test."""
    generated = dimuons(10, seed=1)
    for made in (
        setup["events_of"]([(3.0, 0.0, 0.0, 1)], []),
        setup["events_of"]([], []),
        setup["clear_events"](50, 1, 60.0, 120.0, 60),
        generated[3:],
    ):
        assert made.layout.form == generated.layout.form
    by_hand = setup["events_of"]([(3.0, 0.5, 1.0, 1), (4.0, -0.5, 2.0, -1)], [])
    assert by_hand.muons.pt.to_list() == [[3.0, 4.0], []]
    assert by_hand.muons.charge.to_list() == [[1, -1], []]


def test_reference_agrees_with_vector(setup, solved):
    vector.register_awkward()
    sample = dimuons(3000, seed=5, background=1.0)
    expected = setup["reference"](sample, setup["nearest"])
    np.testing.assert_allclose(solved["nearest_on_cpu"](sample), expected, rtol=1e-6)
    firsts = setup["reference"](sample, setup["first"])
    assert np.array_equal(np.isnan(firsts), np.isnan(expected))
    several = [len(masses) for masses in pair_masses(sample.muons).to_list()]
    assert max(several) >= 4 and not np.array_equal(firsts, expected, equal_nan=True)


@pytest.mark.parametrize("threads", [64, 72, 75, 77, 90])
def test_equal_shares_are_equal_in_strides_and_in_chunks(setup, threads):
    """A thread's muons, those of all its events; the launch that is drawn has any number of
    threads, and with 4 k + 3 of them each thread once had events of one kind alone."""
    counts = ak.to_numpy(ak.num(setup["equal_shares"](threads, np.random.default_rng(1)).muons))
    even = counts[: len(counts) // threads * threads]
    for shares in (even.reshape(-1, threads).sum(axis=0), even.reshape(threads, -1).sum(axis=1)):
        assert shares.max() < 1.1 * shares.mean()


def test_in_clear_events_rounding_decides_nothing(setup):
    sample = setup["clear_events"](2000, 7, 20.0, 110.0, 90)
    assert 1500 < len(sample) < 2000
    exact = setup["reference"](sample, setup["nearest"])
    counts = setup["histogram_of"](exact, 20.0, 110.0, 90)
    for sign in (1, -1):
        moved = setup["histogram_of"](exact + sign * 2e-3, 20.0, 110.0, 90)
        np.testing.assert_array_equal(counts, moved)


def test_histogram_is_the_one_of_hist_without_nan(setup):
    rng = np.random.default_rng(3)
    masses = rng.uniform(50, 130, 5000)
    masses[::7] = math.nan
    trusted = hist.Hist(hist.axis.Regular(60, 60.0, 120.0)).fill(masses[~np.isnan(masses)])
    np.testing.assert_array_equal(
        setup["histogram_of"](masses, 60.0, 120.0, 60), trusted.values(flow=True)
    )


# --- the model and the fit ------------------------------------------------------------------------


@pytest.mark.rehearsal
def test_the_model_is_what_the_generator_does(setup, solved):
    """Two million masses drawn as the generator draws them, against expected_counts."""
    u = np.random.default_rng(11).uniform(0, 1, (3, 2_000_000))
    true = kinematics.breit_wigner(u[0], Z_MASS, Z_WIDTH, 1.0, 1e4)
    g, _ = kinematics.normal_pairs(u[1], u[2])
    counts, _ = np.histogram(true * np.exp(setup["SIGMA"] * g), setup["EDGES"])
    expected = np.asarray(
        solved["expected_counts"](np.array([Z_MASS, Z_WIDTH, 1.0, 0.0]), setup["EDGES"])
    )
    # The arctan goes on below a mass of 0, which takes 0.9% from the sum.
    assert 0.008 < 1 - u.shape[1] * expected.sum() / counts.sum() < 0.01
    expected = expected * (counts.sum() / expected.sum())
    chi2 = np.sum((counts - expected) ** 2 / expected)
    assert abs(chi2 - 120) < 5 * math.sqrt(2 * 120)


def test_24_nodes_are_enough(setup, solved, monkeypatch):
    parameters = np.array([Z_MASS, 2.0, 1e4, 0.0])
    with_24 = np.asarray(solved["expected_counts"](parameters, setup["EDGES"]))
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    monkeypatch.setitem(solved, "NODES", nodes)
    monkeypatch.setitem(solved, "WEIGHTS", weights / weights.sum())
    with_100 = np.asarray(solved["expected_counts"](parameters, setup["EDGES"]))
    assert np.abs(with_24 - with_100).max() < 0.01  # of up to 1,200 counts


def test_the_shares_that_the_tests_name(setup, solved):
    peak = solved["expected_counts"](np.array([91.25, 2.5, 1.0, 0.0]), setup["EDGES"])
    assert round(float(peak.sum()), 3) == 0.973 and round(float(peak[62]), 3) == 0.106
    function = solved["expected_counts"]
    for sigma, share in ((1e-9, 0.126), (2 * setup["SIGMA"], 0.082)):
        other = type(function)(function.__code__, dict(solved, SIGMA=sigma))
        assert round(float(other(np.array([91.25, 2.5, 1.0, 0.0]), setup["EDGES"])[62]), 3) == share


@pytest.mark.rehearsal
def test_the_fit_is_unbiased_and_its_errors_are_right(solved):
    """100 histograms from the model itself: pulls of mean 0 and width 1."""
    truth = np.array([Z_MASS, Z_WIDTH, 9000.0, 350.0])
    expected = np.asarray(solved["expected_counts"](truth, solved["EDGES"]))
    rng = np.random.default_rng(2)
    pulls = []
    for _ in range(100):
        counts = rng.poisson(expected).astype(float)
        estimate, errors = solved["fit"](solved["EDGES"], counts)
        pulls.append((np.asarray(estimate) - truth) / np.asarray(errors))
    assert np.abs(np.mean(pulls, axis=0)).max() < 4 / math.sqrt(100)
    assert np.abs(np.std(pulls, axis=0) - 1).max() < 4 / math.sqrt(200)


def test_the_bundled_sample_gives_mass_and_width_back(setup, solved):
    masses = solved["nearest_on_cpu"](dimuons())
    counts = setup["histogram_of"](masses, 60.0, 120.0, 120)[1:-1]
    estimate, errors = map(np.asarray, solved["fit"](setup["EDGES"], counts.astype(float)))
    assert errors[:2] == pytest.approx([0.0224, 0.0475], rel=0.01)
    assert (np.abs(estimate[:2] - [Z_MASS, Z_WIDTH]) < errors[:2]).all()


# --- right and wrong answers ----------------------------------------------------------------------


def test_wrong_answers_cover_what_people_get_wrong(project):
    project.check_entries(KINDS)
