"""The toy generator: kinematics, distributions, shape and reproducibility."""

from __future__ import annotations

import hashlib

import awkward as ak
import numpy as np
import pytest

from gpucourse.data import (
    MUON_MASS,
    NO_PROCESS,
    PROCESSES,
    Z_MASS,
    Z_WIDTH,
    dimuons,
    kinematics,
    pair_mass,
    pair_masses,
)
from gpucourse.data.generator import ETA_MAX, PT_MIN

RAW_DIGEST = "978b4609a3cb6123ed6c909cce785961f3ff8614d538c4e6553e610fc6548aba"
NAMES = [process.name for process in PROCESSES]


@pytest.fixture(scope="module")
def mixture() -> ak.Array:
    return dimuons(200_000, seed=21, truth=True)


@pytest.fixture(scope="module")
def exact_z() -> ak.Array:
    """Nothing but Z, measured without error, in float64."""
    return dimuons(
        100_000,
        seed=22,
        fractions={"Z": 1.0},
        background=0.0,
        resolution=0.0,
        truth=True,
        dtype=np.float64,
    )


def true_pairs(events: ak.Array) -> tuple[ak.Array, np.ndarray, np.ndarray]:
    """Events with both muons of the hard process seen; and the pt, eta, phi of these two."""
    whole = events[(events.truth.plus >= 0) & (events.truth.minus >= 0)]
    row = np.arange(len(whole))
    plus = whole.muons[row, ak.to_numpy(whole.truth.plus)]
    minus = whole.muons[row, ak.to_numpy(whole.truth.minus)]
    assert ak.all(plus.charge == 1)
    assert ak.all(minus.charge == -1)
    return whole, *(
        np.stack([ak.to_numpy(m[f]) for f in ("pt", "eta", "phi")]) for m in (plus, minus)
    )


def distance(values: np.ndarray, cumulative: np.ndarray) -> float:
    """Kolmogorov's D * sqrt(n) of sorted values; above 2.5 once in 270,000 (2 exp(-2 * 6.25))."""
    n = len(values)
    assert (np.diff(values) >= 0).all()
    steps = np.arange(n + 1) / n
    below, above = np.abs(cumulative - steps[:-1]), np.abs(cumulative - steps[1:])
    return float(max(below.max(), above.max()) * np.sqrt(n))


def test_shape_and_types(mixture: ak.Array) -> None:
    events = dimuons(10)
    record = "{pt: float32, eta: float32, phi: float32, charge: int32}"
    assert str(events.type) == f"10 * {{muons: var * {record}}}"
    truth = "process: uint8, mass: float64, pt: float64, rapidity: float64, plus: int32, minus: int"
    assert truth in str(mixture.type)
    assert "pt: float64, eta: float64" in str(dimuons(10, dtype=np.float64).type)


def test_events_have_none_to_many_muons(mixture: ak.Array) -> None:
    share = np.bincount(ak.to_numpy(ak.num(mixture.muons))) / len(mixture)
    assert (share[:5] > [0.1, 0.2, 0.2, 0.1, 0.01]).all()
    assert len(share) > 5


def test_muons_are_inside_the_detector(mixture: ak.Array) -> None:
    muons = ak.flatten(mixture.muons)
    assert ak.min(muons.pt) >= np.float32(PT_MIN)
    assert ak.max(abs(muons.eta)) <= np.float32(ETA_MAX)
    assert ak.max(abs(muons.phi)) <= np.float32(np.pi)
    assert set(np.unique(muons.charge).tolist()) == {-1, 1}
    for field in ("pt", "eta", "phi"):
        assert ak.all(np.isfinite(muons[field]))


def test_wrong_pairs_are_there_to_be_chosen(mixture: ak.Array) -> None:
    """Lessons rely on it: first-two, same-sign and nearest-Z must all differ."""
    many = mixture[ak.num(mixture.muons) >= 3]
    first_two = many.muons.charge[:, 0] * many.muons.charge[:, 1]
    assert 0.3 < ak.mean(first_two > 0) < 0.5
    assert ak.mean(ak.num(pair_masses(mixture.muons, "same")) > 0) > 0.1
    # No order: the first muon is the hardest one no more often than chance.
    hardest_first = ak.mean(ak.argmax(many.muons.pt, axis=1) == 0)
    assert hardest_first == pytest.approx(ak.mean(1 / ak.num(many.muons)), abs=0.015)


def test_processes_come_in_their_shares(mixture: ak.Array) -> None:
    count = np.bincount(ak.to_numpy(mixture.truth.process), minlength=NO_PROCESS + 1)
    expected = np.array([process.fraction for process in PROCESSES])
    expected = np.append(expected, 1 - expected.sum()) * len(mixture)
    assert (np.abs(count - expected) < 5 * np.sqrt(expected)).all()


def test_truth_where_there_is_no_process(mixture: ak.Array) -> None:
    none = mixture.truth[mixture.truth.process == NO_PROCESS]
    assert ak.all(np.isnan(none.mass))
    assert ak.all(np.isnan(none.pt))
    assert ak.all(np.isnan(none.rapidity))
    assert set(np.unique(none.plus).tolist()) == set(np.unique(none.minus).tolist()) == {-1}


@pytest.mark.parametrize("name", NAMES)
def test_the_decay_conserves_everything(name: str) -> None:
    events = dimuons(
        20_000, seed=23, fractions={name: 1.0}, resolution=0, truth=True, dtype=np.float64
    )
    whole, plus, minus = true_pairs(events)
    assert len(whole) > 1000
    np.testing.assert_allclose(pair_mass(*plus, *minus), whole.truth.mass, rtol=1e-11)
    (px, py, pz, e), (qx, qy, qz, f) = (
        (
            pt * np.cos(phi),
            pt * np.sin(phi),
            pt * np.sinh(eta),
            np.sqrt((pt * np.cosh(eta)) ** 2 + MUON_MASS**2),
        )
        for pt, eta, phi in (plus, minus)
    )
    np.testing.assert_allclose(np.hypot(px + qx, py + qy), whole.truth.pt, rtol=1e-9, atol=1e-9)
    rapidity = 0.5 * np.log((e + f + pz + qz) / (e + f - pz - qz))
    np.testing.assert_allclose(rapidity, whole.truth.rapidity, atol=1e-9)


def test_the_z_is_a_breit_wigner(exact_z: ak.Array) -> None:
    z = PROCESSES[NAMES.index("Z")]

    def angle(mass: np.ndarray) -> np.ndarray:
        return np.arctan((mass**2 - Z_MASS**2) / (Z_MASS * Z_WIDTH))

    # 2 million are enough to see a shift of 10 MeV in the mass or 40 MeV in the width.
    u = kinematics.uniforms(np.random.PCG64(26), 2_000_000, 1)[0]
    many = kinematics.breit_wigner(u, z.mass, z.width, z.low, z.high)
    for mass in (np.sort(many), np.sort(ak.to_numpy(exact_z.truth.mass))):
        cumulative = (angle(mass) - angle(z.low)) / (angle(z.high) - angle(z.low))
        assert distance(mass, cumulative) < 2.5


def test_parents_have_the_falling_pt() -> None:
    u = kinematics.uniforms(np.random.PCG64(27), 200_000, 1)[0]
    pt = np.sort(kinematics.falling(u, 12.0, 2.0, 5.0, 80.0))
    assert 5.0 < pt[0] < pt[-1] < 80.0
    below = 1 - 1 / (1 + (np.append(pt, [5.0, 80.0]) / 12.0) ** 2)  # n = 2 integrates to this
    assert distance(pt, (below[:-2] - below[-2]) / (below[-1] - below[-2])) < 2.5


def test_background_falls_as_a_power() -> None:
    u = kinematics.uniforms(np.random.PCG64(28), 200_000, 1)[0]
    pt = np.sort(kinematics.power_law(u, 4.0, 3.0, 200.0))
    assert distance(pt, (1 - (3.0 / pt) ** 3) / (1 - (3.0 / 200.0) ** 3)) < 2.5


def test_the_decay_is_isotropic(exact_z: ak.Array) -> None:
    # Before any cut: straight from the kinematics, for parents at rest.
    u = kinematics.uniforms(np.random.PCG64(24), 50_000, 3)
    nothing = np.zeros(50_000)
    (pt, eta, phi), (pt2, eta2, _) = kinematics.decay_to_muons(
        nothing + Z_MASS, nothing, nothing, *u
    )
    cosine = np.sort(np.tanh(eta))
    assert distance(cosine, (cosine + 1) / 2) < 2.5
    assert distance(np.sort(phi), (np.sort(phi) + np.pi) / (2 * np.pi)) < 2.5
    np.testing.assert_allclose(pt, pt2, rtol=1e-12)
    np.testing.assert_allclose(eta, -eta2, atol=1e-12)


def test_smearing_blurs_the_mass_by_its_share(exact_z: ak.Array) -> None:
    options = {"fractions": {"Z": 1.0}, "background": 0.0, "truth": True, "dtype": np.float64}
    events = dimuons(100_000, seed=22, resolution=0.02, **options)
    whole, plus, minus = true_pairs(events)
    blur = np.log(pair_mass(*plus, *minus) / ak.to_numpy(whole.truth.mass))
    n = len(blur)
    assert abs(blur.mean()) < 5 * blur.std() / np.sqrt(n)
    assert blur.std() == pytest.approx(0.02 / np.sqrt(2), rel=5 / np.sqrt(2 * n))
    # The resolution changes the measurement, not the collisions.
    assert ak.array_equal(events.truth.mass, exact_z.truth.mass)


QUIET = {  # GeV: where the spectrum has no peak, either side of one
    "J/psi": [(2.7, 2.95), (3.25, 3.5)],
    "Upsilon(1S)": [(8.6, 9.1), (10.8, 11.3)],
    "Upsilon(2S)": [(8.6, 9.1), (10.8, 11.3)],
    "Upsilon(3S)": [(8.6, 9.1), (10.8, 11.3)],
    "Z": [(70.0, 80.0), (105.0, 115.0)],
}


@pytest.mark.parametrize("name", QUIET)
def test_each_peak_stands_out_of_the_bundled_sample(name: str) -> None:
    mass = ak.to_numpy(ak.flatten(pair_masses(dimuons().muons)))
    per_gev = np.mean(
        [((low < mass) & (mass < high)).sum() / (high - low) for low, high in QUIET[name]]
    )
    process = PROCESSES[NAMES.index(name)]
    reach = 2 * 0.01 / np.sqrt(2) * process.mass + process.width / 2
    background = 2 * reach * per_gev
    peak = (np.abs(mass - process.mass) < reach).sum()
    assert peak - background > 7 * np.sqrt(background)


@pytest.mark.parametrize("seed", [0, 1, 2**64 + 1])
def test_the_first_events_do_not_depend_on_how_many(seed: int) -> None:
    # 70,000 is more than one chunk.
    long = dimuons(70_000, seed, truth=True)
    assert ak.array_equal(long[:1000], dimuons(1000, seed, truth=True), equal_nan=True)
    assert ak.array_equal(long[:66_000], dimuons(66_000, seed, truth=True), equal_nan=True)
    assert not ak.array_equal(dimuons(1000, seed), dimuons(1000, seed + 1))


def test_the_stream_is_the_one_numpy_promises() -> None:
    """The exact integers, so that a change of the stream is told from a change of our code."""
    child = np.random.SeedSequence(1).spawn(2)[0]
    raw = np.random.PCG64(child).random_raw(1000)
    assert hashlib.sha256(raw.astype("<u8").tobytes()).hexdigest() == RAW_DIGEST
    u = kinematics.uniforms(np.random.PCG64(child), 500, 2)
    np.testing.assert_array_equal(u[1] * 2.0**52 - 0.5, raw[1::2] >> np.uint64(12))
    assert ((u > 0) & (u < 1)).all()


def test_the_largest_random_integer_stays_below_one() -> None:
    class Extremes:
        def random_raw(self, n: int) -> np.ndarray:
            return np.resize(np.array([0, 2**64 - 1], dtype=np.uint64), n)

    low, high = kinematics.uniforms(Extremes(), 1, 2)[:, 0]
    assert 0.0 < low < high < 1.0
    z = PROCESSES[NAMES.index("Z")]
    masses = kinematics.breit_wigner(np.array([low, high]), z.mass, z.width, z.low, z.high)
    np.testing.assert_allclose(masses, [z.low, z.high], rtol=1e-6)
    assert kinematics.poisson(np.array([low, high]), 0.45).tolist() == [0, 13]


def test_poisson_has_its_mean_and_variance() -> None:
    count = kinematics.poisson(kinematics.uniforms(np.random.PCG64(25), 100_000, 1)[0], 2.5)
    assert count.mean() == pytest.approx(2.5, abs=5 * np.sqrt(2.5 / 100_000))
    assert count.var() == pytest.approx(2.5, rel=0.03)


def test_no_events() -> None:
    events = dimuons(0, truth=True)
    assert len(events) == 0
    assert events.type.content == dimuons(3, truth=True).type.content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"events": -1}, "events is -1; it must be 0 or more"),
        ({"events": 2.5}, "events is 2.5; it must be a whole number"),
        ({"events": 10, "seed": None}, "seed is None; it must be a whole number"),
        ({"events": 10, "background": -0.1}, "background is -0.1; it must be between 0 and 50"),
        ({"events": 10, "resolution": float("nan")}, "resolution is nan"),
        ({"events": 10, "dtype": np.int32}, "dtype is int32"),
        ({"events": 10, "fractions": {"Higgs": 0.1}}, "the processes are \\['Z', 'continuum'"),
        ({"events": 10, "fractions": {"Z": 0.7, "J/psi": 0.4}}, "their sum at most 1"),
        ({"seed": 3}, r"dimuons\(10_000, seed=\.\.\.\)"),
        ({"truth": True}, r"dimuons\(10_000, truth=\.\.\.\)"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dimuons(**arguments)
