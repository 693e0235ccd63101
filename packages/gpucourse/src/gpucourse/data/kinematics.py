"""Formulas of the toy: from uniform random numbers to masses, momenta and decays.

Every distribution is inverted by hand from the integer stream of a bit generator, because
NumPy promises to keep that stream but not what ``Generator.normal`` and its kin make of it
(NEP 19).  All functions work on whole arrays in float64.
"""

from __future__ import annotations

import math

import numpy as np

from gpucourse.data.particles import MUON_MASS


def uniforms(stream: np.random.PCG64, n: int, columns: int) -> np.ndarray:
    """Return float64 strictly between 0 and 1 of shape (columns, n), event after event."""
    raw = stream.random_raw(n * columns).reshape(n, columns)
    # 52 bits and a half: 53 would round the largest value up to 1, whose log and tan end badly.
    return np.ascontiguousarray((((raw >> np.uint64(12)) + 0.5) * 2.0**-52).T)


def breit_wigner(u: np.ndarray, mass: float, width: float, low: float, high: float) -> np.ndarray:
    """Return masses [GeV] between low and high from the relativistic Breit-Wigner, inverted at u.

    ``dN/dm`` is proportional to ``m / ((m**2 - mass**2)**2 + mass**2 width**2)``: in m**2 a
    Cauchy law around mass**2 with half width mass * width.
    """
    centre, scale = mass**2, mass * width
    first, last = (math.atan((edge**2 - centre) / scale) for edge in (low, high))
    return np.sqrt(centre + scale * np.tan(first + u * (last - first)))


def falling(u: np.ndarray, scale: float, power: float, low: float, high: float) -> np.ndarray:
    """Return numbers from x / (1 + (x/scale)**2)**power between low and high, inverted at u."""
    k = power - 1.0
    above_low, above_high = ((1.0 + (edge / scale) ** 2) ** -k for edge in (low, high))
    return scale * np.sqrt((above_low - u * (above_low - above_high)) ** (-1.0 / k) - 1.0)


def power_law(u: np.ndarray, power: float, low: float, high: float) -> np.ndarray:
    """Return numbers from x**-power between low and high, by inversion at u."""
    k = power - 1.0
    first, last = low**-k, high**-k
    return (first - u * (first - last)) ** (-1.0 / k)


def normal_pairs(u1: np.ndarray, u2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays of independent standard normal numbers (Box and Muller, 1958)."""
    radius, angle = np.sqrt(-2.0 * np.log(u1)), 2.0 * math.pi * u2
    return radius * np.cos(angle), radius * np.sin(angle)


def poisson(u: np.ndarray, mean: float) -> np.ndarray:
    """Return integers from the Poisson law with this mean, by inversion at u."""
    terms = [math.exp(-mean)]
    while terms[-1] > 1e-18 or len(terms) <= mean:
        terms.append(terms[-1] * mean / len(terms))
    return np.searchsorted(np.cumsum(terms), u, side="right")


def decay_to_muons(
    mass: np.ndarray,
    pt: np.ndarray,
    rapidity: np.ndarray,
    u_phi: np.ndarray,
    u_cos: np.ndarray,
    u_azimuth: np.ndarray,
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
    """Return (pt, eta, phi) of two muons from parents of `mass`, `pt` [GeV] and `rapidity`.

    The parent's azimuth and the isotropic decay angles come from three uniform numbers.
    """
    phi = 2.0 * math.pi * u_phi
    transverse = np.sqrt(mass**2 + pt**2)
    energy = transverse * np.cosh(rapidity)
    parent = np.stack([pt * np.cos(phi), pt * np.sin(phi), transverse * np.sinh(rapidity)])

    momentum = np.sqrt(0.25 * mass**2 - MUON_MASS**2)
    cos, azimuth = 2.0 * u_cos - 1.0, 2.0 * math.pi * u_azimuth
    sin = np.sqrt((1.0 - cos) * (1.0 + cos))
    at_rest = momentum * np.stack([sin * np.cos(azimuth), sin * np.sin(azimuth), cos])

    # The boost to the frame where the parent has momentum P and energy E:
    # p -> p + P [(P.p) / (m (E + m)) + e / m], with e = m/2 for both muons.
    along = (parent * at_rest).sum(axis=0) / (mass * (energy + mass))
    return tuple(
        _pt_eta_phi(sign * at_rest + parent * (sign * along + 0.5)) for sign in (1.0, -1.0)
    )


def _pt_eta_phi(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    pt = np.hypot(p[0], p[1])
    return pt, np.arcsinh(p[2] / pt), np.arctan2(p[1], p[0])
