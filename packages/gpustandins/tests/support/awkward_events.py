"""Events of muons, and the masses of their pairs, for the tests of Awkward Arrays."""

from __future__ import annotations

import awkward as ak
import numpy as np

MUONS = [
    [{"pt": 41.5, "charge": 1}, {"pt": 31.25, "charge": -1}, {"pt": 5.0, "charge": 1}],
    [],
    [{"pt": 12.5, "charge": -1}],
    [{"pt": 60.0, "charge": -1}, {"pt": 20.0, "charge": 1}],
]

NESTED = [
    {
        "met": 10.0,
        "muons": [
            {"pt": 45.0, "eta": 0.5, "phi": 0.25, "mass": 0.105, "charge": 1},
            {"pt": 44.0, "eta": -0.25, "phi": -2.75, "mass": 0.105, "charge": -1},
        ],
    },
    {"met": 3.0, "muons": []},
    {"met": 1.5, "muons": [{"pt": 5.0, "eta": 1.5, "phi": -1.0, "mass": 0.105, "charge": -1}]},
]


def dimuon_masses(events: ak.Array) -> ak.Array:
    """Invariant masses of all pairs, massless muons."""
    one, other = ak.unzip(ak.combinations(events.muons, 2))
    return np.sqrt(
        2 * one.pt * other.pt * (np.cosh(one.eta - other.eta) - np.cos(one.phi - other.phi))
    )
