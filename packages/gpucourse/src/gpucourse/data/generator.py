"""A toy of what a muon detector at the LHC records: events with none to many muons.

`generate` draws, for every event, at most one *hard process* and a few *background muons*.

Physical
    * Masses and widths are the Particle Data Group's (`gpucourse.data.particles`).  The mass of
      a resonance follows the relativistic Breit-Wigner of fixed width, a Cauchy law in m**2::

          dN/dm  proportional to  m / ((m**2 - M**2)**2 + M**2 Gamma**2)

    * The kinematics are exact: the parent gets a transverse momentum and a rapidity, decays
      into two muons of the muon's mass in its rest frame, and these are boosted.  Without
      smearing the mass of the pair is the mass that was drawn, to about 1e-12 of itself.
    * The two muons of a decay have opposite charge.

Toy
    * The numbers of Z, J/psi, ... are chosen so that 50,000 events show every peak, and the
      continuum falls more slowly than the real one, so that it reaches beyond the Z.
    * dN/dpt of a parent is pt / (1 + (pt/p0)**2)**n: the right shape with round numbers.  The
      mass of the continuum has the same law, with p0 = 2 GeV and n = 1.5: it falls as m**-2.
      The parent's rapidity is flat within +-3; its decay is isotropic (a real Z is polarised).
    * The PDG quotes the Z for a width that grows with m**2; put into the fixed-width formula,
      the same numbers describe a peak 34 MeV away from nature's.  Nothing radiates photons and
      the Z does not interfere with the photon.
    * Background muons have a falling pt, flat eta and phi and a random charge.  They stand for
      decays of heavy quarks; nothing ties one to another.
    * The detector multiplies pt by exp(resolution * g), g normal, and leaves the angles alone.
      A pair's mass is then blurred by exactly resolution / sqrt(2) in its logarithm (for
      massless muons), alike at every pt and eta; a real one is worse at high pt and high eta.
    * A muon is seen if its measured pt is above 3 GeV and |eta| < 2.4, else it is lost; there
      is no trigger and no efficiency.

Reproducible
    The same arguments give the same events, and the first n of them do not depend on how many
    are asked for.  All randomness is the integer stream of ``PCG64``, which NumPy promises to
    keep, turned into numbers here; the distributions of ``Generator``, which NumPy may change
    (NEP 19), are not used. The only difference left is the last bit of NumPy's sin, log, ... which
    may differ between processors and NumPy builds. Rounding to float32 hides that in all but about
    one number in 10**8: the 4.2 million numbers of a million events came out the same with NumPy
    2.0, 2.2, 2.3 and 2.4, Python 3.11-3.13, with and without AVX-512, where float64 did not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import awkward as ak
import numpy as np

from gpucourse.data import kinematics, particles

PT_MIN = 3.0  # GeV
ETA_MAX = 2.4
RAPIDITY_MAX = 3.0
PARENT_PT_MAX = 500.0  # GeV: with |y| < 3 the energy stays below half of the LHC's 13 TeV
BACKGROUND_PT_MAX = 200.0  # GeV
BACKGROUND_POWER = 4.0  # dN/dpt = pt**-4
CONTINUUM_SCALE, CONTINUUM_POWER = 2.0, 1.5  # GeV; dN/dm = m / (1 + (m/scale)**2)**power
RESOLUTION = 0.01
BACKGROUND = 0.45

# Events are made this many at a time so that a million need 0.2 GB rather than 0.4 GB.
_CHUNK = 65_536


@dataclass(frozen=True)
class Process:
    """One source of muon pairs; `width` is None for the continuum.

    mass, width, low and high (the range of masses drawn) and pt_scale (p0) in GeV; pt_power is
    n.  `fraction` is the share of events that have this process.
    """

    name: str
    fraction: float
    mass: float | None
    width: float | None
    low: float
    high: float
    pt_scale: float
    pt_power: float


def _resonance(
    name: str, fraction: float, mass: float, width: float, scale: float, power: float
) -> Process:
    # 80 widths either side hold 99.6% of a Cauchy law; 1 GeV keeps the Z's above two muons.
    low, high = max(1.0, mass - 80.0 * width), mass + 80.0 * width
    return Process(name, fraction, mass, width, low, high, scale, power)


PROCESSES = (
    _resonance("Z", 0.30, particles.Z_MASS, particles.Z_WIDTH, 12.0, 2.0),
    Process("continuum", 0.26, None, None, 0.25, 300.0, 8.0, 2.0),
    _resonance("J/psi", 0.16, particles.JPSI_MASS, particles.JPSI_WIDTH, 8.0, 2.5),
    _resonance("Upsilon(1S)", 0.060, particles.UPSILON_1S_MASS, particles.UPSILON_1S_WIDTH, 8, 2.5),
    _resonance("Upsilon(2S)", 0.020, particles.UPSILON_2S_MASS, particles.UPSILON_2S_WIDTH, 8, 2.5),
    _resonance("Upsilon(3S)", 0.014, particles.UPSILON_3S_MASS, particles.UPSILON_3S_WIDTH, 8, 2.5),
)
NO_PROCESS = len(PROCESSES)
"""The value of ``truth.process`` in events without a hard process."""


def generate(
    events: int,
    seed: int = 1,
    *,
    fractions: Mapping[str, float] | None = None,
    background: float = BACKGROUND,
    resolution: float = RESOLUTION,
    truth: bool = False,
    dtype: Any = np.float32,
) -> ak.Array:
    """Generate `events` toy events: ``events * {muons: var * {pt, eta, phi, charge}}``.

    pt [GeV], eta and phi [rad, in -pi..pi] are `dtype` (float32, as in real NanoAOD, or
    float64); charge is int32, +1 or -1.  The muons of an event are in no particular order.

    fractions: the share of events with each process, by name in `PROCESSES`; what is missing
        from 1 has none.  ``{"Z": 1.0}`` makes nothing but Z.  None: the mixture of `PROCESSES`.
    background: mean number of background muons per event (Poisson).
    resolution: relative resolution of pt; 0 measures exactly.
    truth: adds a record ``truth`` to each event: process (uint8, index into `PROCESSES`, or
        `NO_PROCESS`), mass, pt [GeV] and rapidity of the parent (float64, NaN without one) and
        the indices plus and minus (int32) of its muons in ``muons``, -1 where one was lost.

    The module's docstring says what is physical, what is a toy and what is reproducible.
    Raises ValueError for arguments that make no sense.
    """
    events, seed = _whole("events", events), _whole("seed", seed)
    _check_range("background", background, 50.0)
    _check_range("resolution", resolution, 1.0)
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype is {dtype}; it must be float32 or float64")
    shares = _shares(fractions)
    first, second = (np.random.PCG64(child) for child in np.random.SeedSequence(seed).spawn(2))
    chunks = [
        _chunk(min(_CHUNK, events - start), first, second, shares, background, resolution)
        for start in range(0, max(events, 1), _CHUNK)
    ]
    columns = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    record = {
        "muons": jagged_muons(
            np.concatenate([[0], np.cumsum(columns["count"])]),
            columns["pt"].astype(dtype),
            columns["eta"].astype(dtype),
            columns["phi"].astype(dtype),
            columns["charge"].astype(np.int32),
        )
    }
    if truth:
        names = ("process", "mass", "parent_pt", "rapidity", "plus", "minus")
        fields = [ak.contents.NumpyArray(columns[name]) for name in names]
        record["truth"] = ak.contents.RecordArray(
            fields, ["process", "mass", "pt", "rapidity", "plus", "minus"]
        )
    return ak.Array(ak.contents.RecordArray(list(record.values()), list(record)))


def jagged_muons(
    offsets: np.ndarray, pt: np.ndarray, eta: np.ndarray, phi: np.ndarray, charge: np.ndarray
) -> ak.contents.Content:
    """Return the layout of ``events.muons``: one list per event over flat columns.

    offsets: int64, one more than there are events; the columns are as long as offsets[-1]. All
    code that returns events calls this function, because the type of a compiled kernel depends on
    the layout and not only on the values.
    """
    columns = [ak.contents.NumpyArray(np.ascontiguousarray(c)) for c in (pt, eta, phi, charge)]
    record = ak.contents.RecordArray(columns, ["pt", "eta", "phi", "charge"])
    return ak.contents.ListOffsetArray(ak.index.Index64(offsets.astype(np.int64)), record)


def _chunk(
    n: int,
    hard_stream: np.random.PCG64,
    background_stream: np.random.PCG64,
    shares: np.ndarray,
    background: float,
    resolution: float,
) -> dict[str, np.ndarray]:
    """Return the next `n` events as flat columns: per event (count and truth) and per muon."""
    u = kinematics.uniforms(hard_stream, n, 12)
    process, mass, parent_pt, rapidity = _hard_processes(u[0:4], shares)
    hard = np.flatnonzero(process != NO_PROCESS)
    pairs = kinematics.decay_to_muons(mass[hard], parent_pt[hard], rapidity[hard], *u[4:7, hard])
    smears = [np.exp(resolution * g) for g in kinematics.normal_pairs(u[7, hard], u[8, hard])]

    extra = kinematics.poisson(u[9], background)
    v = kinematics.uniforms(background_stream, int(extra.sum()), 5)
    extra_pt = kinematics.power_law(v[0], BACKGROUND_POWER, PT_MIN, BACKGROUND_PT_MAX)

    event = np.concatenate([hard, hard, np.repeat(np.arange(n), extra)])
    order_key = np.concatenate([u[10, hard], u[11, hard], v[4]])
    pt = np.concatenate([pairs[0][0] * smears[0], pairs[1][0] * smears[1], extra_pt])
    eta = np.concatenate([pairs[0][1], pairs[1][1], ETA_MAX * (2.0 * v[1] - 1.0)])
    phi = np.concatenate([pairs[0][2], pairs[1][2], math.pi * (2.0 * v[2] - 1.0)])
    ones = np.ones(len(hard))
    charge = np.concatenate([ones, -ones, np.where(v[3] < 0.5, -1.0, 1.0)])

    seen = np.flatnonzero((pt > PT_MIN) & (np.abs(eta) < ETA_MAX))
    # Half the key keeps the sum below the next event's number, also after rounding.
    seen = seen[np.argsort(event[seen] + 0.5 * order_key[seen], kind="stable")]
    count = np.bincount(event[seen], minlength=n)
    first = np.concatenate([[0], np.cumsum(count)])
    place = np.full(len(event), -1, dtype=np.int32)
    place[seen] = np.arange(len(seen)) - first[event[seen]]
    plus, minus = np.full(n, -1, dtype=np.int32), np.full(n, -1, dtype=np.int32)
    plus[hard], minus[hard] = place[: len(hard)], place[len(hard) : 2 * len(hard)]
    return {
        "count": count,
        "pt": pt[seen],
        "eta": eta[seen],
        "phi": phi[seen],
        "charge": charge[seen],
        "process": process,
        "mass": mass,
        "parent_pt": parent_pt,
        "rapidity": rapidity,
        "plus": plus,
        "minus": minus,
    }


def _hard_processes(u: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, ...]:
    """Process (uint8), mass, pt [GeV] and rapidity of each event's parent; NaN where none."""
    process = np.searchsorted(np.cumsum(shares), u[0], side="right").astype(np.uint8)
    mass, pt, rapidity = (np.full(len(process), np.nan) for _ in range(3))
    for index, source in enumerate(PROCESSES):
        chosen = np.flatnonzero(process == index)
        mass[chosen] = _draw_mass(source, u[1, chosen])
        pt[chosen] = kinematics.falling(
            u[2, chosen], source.pt_scale, source.pt_power, 0.0, PARENT_PT_MAX
        )
        rapidity[chosen] = RAPIDITY_MAX * (2.0 * u[3, chosen] - 1.0)
    return process, mass, pt, rapidity


def _draw_mass(process: Process, u: np.ndarray) -> np.ndarray:
    low, high = process.low, process.high
    if process.width is None:
        return kinematics.falling(u, CONTINUUM_SCALE, CONTINUUM_POWER, low, high)
    assert process.mass is not None
    return kinematics.breit_wigner(u, process.mass, process.width, low, high)


def _shares(fractions: Mapping[str, float] | None) -> np.ndarray:
    """Return the share of each of PROCESSES, in their order."""
    if fractions is None:
        return np.array([process.fraction for process in PROCESSES])
    names = [process.name for process in PROCESSES]
    unknown = sorted(set(fractions) - set(names))
    if unknown:
        raise ValueError(f"fractions names {unknown}, but the processes are {names}")
    shares = np.array([float(fractions.get(name, 0.0)) for name in names])
    if not (shares >= 0.0).all() or shares.sum() > 1.0 + 1e-12:
        raise ValueError(
            f"fractions are {dict(fractions)}; each must be 0 or more and their sum at most 1"
        )
    return shares


def _whole(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; it must be a whole number") from None
    if number < 0:
        raise ValueError(f"{name} is {number}; it must be 0 or more")
    return number


def _check_range(name: str, value: float, most: float) -> None:
    if not 0.0 <= value <= most:
        raise ValueError(f"{name} is {value}; it must be between 0 and {most:g}")
