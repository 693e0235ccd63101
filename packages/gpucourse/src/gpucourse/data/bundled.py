"""The sample that comes with the course: 50,000 toy events in ``dimuons.root`` beside this file.

It is what `gpucourse.data.generator` makes from the seed below.  To make it again after a
change to the generator::

    python -m gpucourse.data.bundled

A file that already holds the right events is left alone, because ROOT files carry the time and
a random identifier and so differ in every writing.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

import awkward as ak

from gpucourse.data.generator import generate
from gpucourse.data.nanoaod import read, write

EVENTS = 50_000
SEED = 911_879  # the Z's mass in units of 100 keV; any number would be as good
FILENAME = "dimuons.root"


def load() -> ak.Array:
    """Load the bundled events, ``50000 * {muons: var * {pt, eta, phi, charge}}``; no network."""
    with as_file(files("gpucourse.data") / FILENAME) as path:
        return read(path)


def make() -> ak.Array:
    """Generate the events that the bundled file must hold."""
    return generate(EVENTS, SEED)


def main(directory: Path) -> None:
    """Write the bundled file into `directory`, unless it contains the right events already."""
    path = directory / FILENAME
    events = make()
    if path.exists() and ak.array_equal(read(path), events):
        print(f"{FILENAME} holds what the generator makes: nothing to do")
        return
    write(path, events)
    print(f"{FILENAME}: {len(events):,} events, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(Path(__file__).parent)
