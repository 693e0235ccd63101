"""The bundled ROOT file: what is in it, and that it is what the generator makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

import gpucourse.data
from gpucourse.data import bundled, dimuons, nanoaod

FILE = Path(gpucourse.data.__file__).with_name("dimuons.root")


def test_the_file_holds_what_the_generator_makes() -> None:
    """The last bit of sin and log differs between processors; float32 hides nearly all of it."""
    read, made = dimuons(), bundled.make()
    assert read.layout.form == made.layout.form
    assert ak.array_equal(ak.num(read.muons), ak.num(made.muons))
    ours, theirs = ak.flatten(read.muons), ak.flatten(made.muons)
    assert ak.array_equal(ours.charge, theirs.charge)
    for field in ("pt", "eta", "phi"):
        a, b = ak.to_numpy(ours[field]), ak.to_numpy(theirs[field])
        np.testing.assert_array_max_ulp(a, b, maxulp=1)
        assert np.count_nonzero(a != b) <= 5


def test_size_and_branches() -> None:
    assert FILE.stat().st_size < 2_000_000
    with uproot.open(FILE) as file:
        tree = file["Events"]
        assert tree.num_entries == bundled.EVENTS == 50_000
        assert tree.typenames() == {
            "nMuon": "int32_t",
            "Muon_pt": "float[]",
            "Muon_eta": "float[]",
            "Muon_phi": "float[]",
            "Muon_charge": "int32_t[]",
        }


def test_no_network_and_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def forbidden(*args: object) -> None:
        raise AssertionError("dimuons() opened a connection")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    monkeypatch.setattr(socket, "getaddrinfo", forbidden)
    assert ak.array_equal(dimuons(), dimuons())


def test_reading_in_part() -> None:
    assert ak.array_equal(nanoaod.read(FILE, stop=10), dimuons()[:10])
    assert len(nanoaod.read(FILE, stop=0)) == 0


def test_writing_and_reading_back(tmp_path: Path) -> None:
    path = tmp_path / "some.root"
    events = dimuons(1000, seed=31, background=3.0)
    nanoaod.write(path, events)
    assert ak.array_equal(nanoaod.read(path), events)
    assert [file.name for file in tmp_path.iterdir()] == ["some.root"]


def test_a_root_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other.root"
    with uproot.recreate(path) as file:
        file["histogram"] = np.histogram([1.0, 2.0])
    with pytest.raises(ValueError, match=r"holds no tree 'Events', only .*histogram"):
        nanoaod.read(path)


def test_the_command_writes_only_what_has_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundled.main(tmp_path)
    path = tmp_path / FILE.name
    assert "50,000 events" in capsys.readouterr().out
    assert ak.array_equal(nanoaod.read(path), bundled.make())
    before = path.read_bytes()
    bundled.main(tmp_path)
    assert "nothing to do" in capsys.readouterr().out
    assert path.read_bytes() == before
    nanoaod.write(path, dimuons(10))
    bundled.main(tmp_path)
    assert len(nanoaod.read(path)) == 50_000


def test_the_module_runs_as_a_program() -> None:
    command = [sys.executable, "-W", "error", "-m", "gpucourse.data.bundled"]
    before = FILE.read_bytes()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        FILE.write_bytes(before)  # a stale file must go on failing
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "dimuons.root holds what the generator makes: nothing to do\n"
