"""The mass oracle against arithmetic of 120 digits."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pytest

from gpucourse.data import (
    MUON_MASS,
    delta_phi,
    dimuons,
    pair_mass,
    pair_masses,
)

ACCURACY = 2e-15  # what the docstring promises
TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194988918461563281257")


def sine_and_cosine(x: Decimal) -> tuple[Decimal, Decimal]:
    """By their power series; for |x| < 7 the terms vanish long before the 150th."""
    term, sine, cosine = Decimal(1), Decimal(0), Decimal(0)
    for n in range(150):
        if n % 2:
            sine += term if n % 4 == 1 else -term
        else:
            cosine += term if n % 4 == 0 else -term
        term = term * x / (n + 1)
    return sine, cosine


def momentum(pt: float, eta: float, phi: float, mass: float) -> tuple[Decimal, ...]:
    """(E, px, py, pz) of the floats, which are taken to be exact."""
    sine, cosine = sine_and_cosine(Decimal(phi))
    grown = Decimal(eta).exp()
    p = [Decimal(pt) * factor for factor in (cosine, sine, (grown - 1 / grown) / 2)]
    return (sum((x * x for x in p), Decimal(mass) ** 2).sqrt(), *p)


def exact_mass(first: np.ndarray, second: np.ndarray, mass: float) -> Decimal:
    """(E1 + E2)**2 - |p1 + p2|**2 as the textbook has it, with digits to waste."""
    with localcontext() as context:
        context.prec = 120
        pair = zip(momentum(*first, mass), momentum(*second, mass), strict=True)
        energy, *p = (a + b for a, b in pair)
        return (energy * energy - sum(x * x for x in p)).sqrt()


def hard_pairs() -> tuple[np.ndarray, np.ndarray]:
    """Two arrays (600, 3) of pt, eta, phi: wide, close, very close and across +-pi."""
    random = np.random.Generator(np.random.PCG64(11))
    n = 600
    first = np.stack(
        [10.0 ** random.uniform(-3, 4, n), random.uniform(-10, 10, n), random.uniform(-3.1, 3.1, n)]
    )
    second = np.stack(
        [10.0 ** random.uniform(-3, 4, n), random.uniform(-10, 10, n), random.uniform(-3.1, 3.1, n)]
    )
    close = slice(150, 450)
    apart = 10.0 ** random.uniform(-12, 0, (2, 300)) * random.choice([-1.0, 1.0], (2, 300))
    second[1:, close] = np.clip(first[1:, close] + apart, -np.pi, np.pi)
    second[1, close] = first[1, close] + apart[0]
    edge = slice(300, 600)
    first[2, edge] = np.pi - 10.0 ** random.uniform(-14, 0, 300)
    second[2, edge] = -np.pi + 10.0 ** random.uniform(-14, 0, 300)
    return first.T, second.T


@pytest.mark.parametrize("mass", [MUON_MASS, 0.0])
def test_accuracy_against_120_digits(mass: float) -> None:
    first, second = hard_pairs()
    ours = pair_mass(*first.T, *second.T, mass=mass)
    exact = [exact_mass(a, b, mass) for a, b in zip(first, second, strict=True)]
    errors = [abs(Decimal(float(m)) / e - 1) for m, e in zip(ours, exact, strict=True)]
    assert max(errors) < ACCURACY


def test_the_textbook_formula_would_not_do() -> None:
    # Two muons of 50 GeV, 1e-6 apart: the mass is 0.2113 GeV, and the float64 sum has no digit
    # of the opening angle left.
    pt, eta, phi = 50.0, 2.0, 1.0
    energy = np.hypot(pt * np.cosh(eta), MUON_MASS) + np.hypot(pt * np.cosh(eta + 1e-6), MUON_MASS)
    p = pt * np.array([2 * np.cos(phi), 2 * np.sin(phi), np.sinh(eta) + np.sinh(eta + 1e-6)])
    textbook = energy**2 - p @ p
    exact = float(exact_mass(np.array([pt, eta, phi]), np.array([pt, eta + 1e-6, phi]), MUON_MASS))
    assert abs(pair_mass(pt, eta, phi, pt, eta + 1e-6, phi) / exact - 1) < ACCURACY
    assert abs(np.sqrt(textbook) / exact - 1) > 1e-12


def test_known_masses() -> None:
    assert pair_mass(45.6, 0.0, 0.0, 45.6, 0.0, np.pi) == pytest.approx(
        2 * np.hypot(45.6, MUON_MASS), rel=ACCURACY
    )
    # Parallel muons of equal momentum are at rest relative to each other.
    assert pair_mass(30.0, 1.5, 0.3, 30.0, 1.5, 0.3) == pytest.approx(2 * MUON_MASS, rel=ACCURACY)
    assert pair_mass(30.0, 1.5, 0.3, 30.0, 1.5, 0.3, mass=0.0) == 0.0


def test_delta_phi_across_the_cut() -> None:
    first = np.array([np.pi, -np.pi, 3.0, -3.0, 0.5, 3.141592653589])
    second = np.array([-np.pi, np.pi, -3.0, 3.0, -0.5, -3.141592653589])
    found = delta_phi(first, second)
    with localcontext() as context:
        context.prec = 60
        for a, b, ours in zip(first, second, found, strict=True):
            difference = Decimal(float(a)) - Decimal(float(b))
            exact = difference - TWO_PI * round(difference / TWO_PI)
            assert abs(Decimal(float(ours)) / exact - 1) < Decimal("3e-16")
    assert (np.abs(found) <= np.pi).all()


def test_float32_is_widened_before_it_is_used() -> None:
    muon = np.array([25.0, 1.3, -0.7, 31.0, 1.31, -0.69], dtype=np.float32)
    assert pair_mass(*muon).dtype == np.float64
    assert pair_mass(*muon) == pair_mass(*(float(x) for x in muon))


def test_nan_in_nan_out() -> None:
    assert np.isnan(pair_mass(np.nan, 0.0, 0.0, 1.0, 0.0, 0.0))
    assert np.isnan(pair_mass([3.0, 3.0], [0.0, 0.0], [np.nan, 1.0], 4.0, 0.0, 0.0)).tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("charges", "wanted"), [("opposite", {-1}), ("same", {1}), ("any", {-1, 1})]
)
def test_pairs_of_events(charges: str, wanted: set[int]) -> None:
    muons = dimuons(500, seed=3).muons
    found = pair_masses(muons, charges)
    assert str(found.type) == "500 * var * float64"
    for event, masses in zip(muons.to_list(), found.to_list(), strict=True):
        expected = [
            pair_mass(a["pt"], a["eta"], a["phi"], b["pt"], b["eta"], b["phi"])
            for a, b in itertools.combinations(event, 2)
            if a["charge"] * b["charge"] in wanted
        ]
        np.testing.assert_allclose(masses, expected, rtol=1e-15)


def test_pairs_with_an_unknown_choice() -> None:
    with pytest.raises(ValueError, match='choose "opposite", "same" or "any"'):
        pair_masses(dimuons(2).muons, "both")
