"""Collision events for the lessons: `dimuons` and its sources.

>>> from gpucourse.data import dimuons
>>> events = dimuons()  # the bundled sample: 50,000 events, no network
>>> more = dimuons(1_000_000, seed=7)  # as many as you like, fresh from the generator

The parts: `generator` makes events, `bundled` holds the sample that comes with the course,
`nanoaod` reads ROOT files, `masses` is the oracle for invariant masses, `particles` has the
constants and `opendata` fetches real collisions from the CERN Open Data portal (optional; no
lesson needs it).
"""

from __future__ import annotations

from typing import Any

import awkward as ak

from gpucourse.data.generator import NO_PROCESS, PROCESSES, generate
from gpucourse.data.masses import delta_phi, pair_mass, pair_masses
from gpucourse.data.nanoaod import read
from gpucourse.data.particles import MUON_MASS, Z_MASS, Z_WIDTH

__all__ = [
    "MUON_MASS",
    "NO_PROCESS",
    "PROCESSES",
    "Z_MASS",
    "Z_WIDTH",
    "delta_phi",
    "dimuons",
    "pair_mass",
    "pair_masses",
    "read",
]


def dimuons(events: int | None = None, seed: int = 1, **options: Any) -> ak.Array:
    """Return toy collision events: ``N * {muons: var * {pt, eta, phi, charge}}``.

    pt [GeV], eta (pseudorapidity, no unit) and phi [rad] are float32, charge is int32 (+1 or -1).
    An event has 0, 1, 2 or more muons, in no particular order. Some pairs come from a Z, a
    J/psi or an Upsilon.

    Without arguments, return the 50,000 events bundled with the course. With a number of events,
    return that many from the generator; the same `seed` gives the same events. `options` are those
    of `gpucourse.data.generator.generate` (fractions, background, resolution, truth, dtype), whose
    module also says which parts are physics and which are a toy.
    """
    if events is not None:
        return generate(events, seed, **options)
    if options or seed != 1:
        asked = ", ".join(["seed"] * (seed != 1) + list(options))
        raise ValueError(
            f"dimuons() without a number of events reads the bundled sample, which has no "
            f"choice of {asked}; say how many to generate, for example dimuons(10_000, {asked}=...)"
        )
    from gpucourse.data import bundled  # here, so that `python -m` may run it as a program

    return bundled.load()
