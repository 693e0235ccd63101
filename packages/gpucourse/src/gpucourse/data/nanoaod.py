"""Muons in NanoAOD files: the ROOT layout in which CMS publishes its data for analysis.

A TTree "Events" with the branches nMuon, Muon_pt, Muon_eta, Muon_phi (float32) and Muon_charge
(int32), one list per event.  The bundled sample and the real collisions are both such files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np

from gpucourse.data.generator import jagged_muons

TREE = "Events"
COLUMNS = ("pt", "eta", "phi", "charge")


def read(path: Any, stop: int | None = None) -> ak.Array:
    """Read the events of a NanoAOD file, by path or open: ``N * {muons: var * {...}}``.

    Of a muon, pt [GeV], eta and phi [rad] are float32, charge is int32.  `stop` reads only the
    first so many events: the real file of `gpucourse.data.opendata` holds 61 million.  Raises
    ValueError if the file has no such tree and what uproot raises if it is no ROOT file.
    """
    import uproot  # half a second, and most of the course never opens a file

    with uproot.open(path) as file:
        if TREE not in file:
            raise ValueError(
                f"{path} holds no tree {TREE!r}, only {file.keys()}: it is not a NanoAOD file"
            )
        branches = file[TREE].arrays([f"Muon_{name}" for name in COLUMNS], entry_stop=stop)
    counts = ak.to_numpy(ak.num(branches["Muon_pt"]))
    flat = [ak.to_numpy(ak.flatten(branches[f"Muon_{name}"])) for name in COLUMNS]
    muons = jagged_muons(np.concatenate([[0], np.cumsum(counts)]), *flat)
    return ak.Array(ak.contents.RecordArray([muons], ["muons"]))


def write(path: str | os.PathLike[str], events: ak.Array) -> None:
    """Write `events` as a NanoAOD file, which appears complete or not at all."""
    import uproot

    part = Path(f"{path}.part")
    muons = ak.zip({name: events.muons[name] for name in COLUMNS})
    with uproot.recreate(part, compression=uproot.ZLIB(9)) as file:
        tree = file.mktree(TREE, {"Muon": muons.type.content}, title="muons, event by event")
        tree.extend({"Muon": muons})
    os.replace(part, path)
