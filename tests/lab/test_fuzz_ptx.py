"""A sample of the fuzzer's cases; ``make evidence`` runs a million (lab/evidence/fuzz)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rehearsal

CASES = 400


def fuzz(repository: Path, results: Path, *options: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(repository)}
    return subprocess.run(
        [sys.executable, "-m", "lab.evidence.fuzz", "--results", str(results), *options],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def sample(repository, tmp_path_factory) -> tuple[subprocess.CompletedProcess, Path]:
    results = tmp_path_factory.mktemp("fuzz") / "results" / "fuzz.json"
    options = ("--cases", str(CASES), "--jobs", "1", "--chunk", str(CASES))
    return fuzz(repository, results, *options), results


def test_no_case_hangs_crashes_or_writes_outside(sample):
    done, results = sample
    assert done.returncode == 0, done.stderr
    record = json.loads(results.read_text())
    assert (record["cases"], record["failed"], record["failures"]) == (CASES, 0, {})


def test_the_sample_reaches_the_whole_machine(sample):
    """Kernels that run to their end, and most of the ways in which one can fail."""
    outcomes = json.loads(sample[1].read_text())["outcomes"]
    assert sum(outcomes.values()) == CASES
    assert outcomes["ok"] >= 8
    assert {
        "PTXSyntaxError",
        "MemoryAccessError",
        "BudgetExceeded",
        "UnsupportedInstruction",
        "BarrierError",
        "LaunchError",
    } <= set(outcomes)


def test_a_run_goes_on_where_it_stopped(repository, sample, tmp_path):
    """Chunks that are done are not run again; the totals are those of one run."""
    results = tmp_path / "fuzz.json"
    for cases in (5, 10, 10):
        fuzz(repository, results, "--cases", str(cases), "--jobs", "1", "--chunk", "5")
        record = json.loads(results.read_text())
        assert record["cases"] == cases
    assert record["chunks_done"] == [[0, 2]]


@pytest.mark.rehearsal
def test_what_failed_is_tried_again(repository, sample, tmp_path):
    """After a mend; a case that fails no more counts as what it is now."""
    results = tmp_path / "fuzz.json"
    fuzz(repository, results, "--cases", "10", "--jobs", "1", "--chunk", "5")
    good = json.loads(results.read_text())
    failures = {str(number): "an error of the machine" for number in range(10)}
    results.write_text(json.dumps(good | {"failures": failures, "outcomes": {"FAILED": 10}}))
    assert fuzz(repository, results, "--cases", "10", "--jobs", "1", "--chunk", "5").returncode == 0
    again = json.loads(results.read_text())
    assert (again["failures"], again["outcomes"]) == ({}, good["outcomes"])


@pytest.mark.rehearsal
@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        ("raise KeyError('a bug')", "KeyError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("import time; time.sleep(3600)", "no end after"),
        ("self.memory._bytes[self.memory.starts[0] - BASE - 1] = 1", "outside every allocation"),
    ],
)
def test_the_fuzzer_sees_what_it_is_there_to_see(repository, tmp_path, fault, seen):
    """A fault planted in the device's launch is found, and the cases after it still run."""
    (tmp_path / "sitecustomize.py").write_text(f"""
import sys
if "lab.evidence.fuzz.worker" in " ".join(sys.orig_argv):
    from virtualgpu.devices import VirtualDevice
    from virtualgpu.memory.mapping import BASE
    whole = VirtualDevice.launch
    done = []
    def launch(self, *arguments):
        done.append(1)
        if len(done) == 3:
            {fault}
        return whole(self, *arguments)
    VirtualDevice.launch = launch
""")
    results = tmp_path / "fuzz.json"
    environment = os.environ | {
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{repository}",
        "FUZZ_PATIENCE": "4",
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "lab.evidence.fuzz",
            "--results",
            str(results),
            "--cases",
            "12",
            "--jobs",
            "1",
        ],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    record = json.loads(results.read_text())
    assert done.returncode == 1
    assert record["cases"] == 12
    assert record["failed"] >= 1
    assert seen in next(iter(record["failures"].values()))
