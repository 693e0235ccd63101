"""The benchmark's parent: every row is kept, whatever becomes of the process that measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import gpu_bench_workers as workers
from lab.benchmarks import gpu_aims, gpu_cub, gpu_provenance, gpu_run, gpu_work, report
from lab.benchmarks.gpu_worker import GROUPS, Task, tasks

pytestmark = pytest.mark.rehearsal

TODO = [Task("one", 8), Task("two", 8), Task("three", 8)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a worker under the parent; returns the document as it was written."""
    monkeypatch.setattr(gpu_run, "SILENCE", 15.0)

    def running(worker, minutes: float = 5.0) -> dict:
        path = tmp_path / "new" / "gpu_bench.json"
        with (tmp_path / "log").open("w") as log:
            document = gpu_run.run(TODO, False, minutes, path, Console(file=log), work=worker)
        written = json.loads(path.read_text())
        assert written == document
        assert list(path.parent.iterdir()) == [path], "no part of a file is left behind"
        return document

    return running


def outcomes(document: dict) -> dict[str, str]:
    return {row["id"]: row.get("error", "right") for row in document["rows"]}


ALL_RIGHT = {
    f"{group}/{contender}/8": "right" for group in ("one", "two", "three") for contender in "ab"
}


def test_all_rows_with_where_they_come_from(run, tmp_path: Path) -> None:
    document = run(workers.good)
    assert outcomes(document) == ALL_RIGHT
    assert document["gpu"]["name"] == "made up" and document["versions"]["numpy"]
    assert document["left_out"] == [] and document["date"].startswith("20")
    assert document["machine"]["processor"] and "gpu" not in document["machine"]
    text = (tmp_path / "new" / "gpu_bench.json").read_text()
    assert sum(line.startswith('  {"id"') for line in text.splitlines()) == 6
    assert "one/a/8: 2 ms (call, 3 samples)" in (tmp_path / "log").read_text()


def test_a_crash_costs_its_contender_and_no_other(run) -> None:
    found = outcomes(run(workers.dies_making))
    assert found == {**ALL_RIGHT, "two/b/8": "the process ended with status 11"}


def test_a_broken_device_costs_its_contender_and_no_other(run) -> None:
    found = outcomes(run(workers.breaks_the_device))
    assert found == {**ALL_RIGHT, "two/b/8": "CUDARuntimeError: illegal address"}


def test_a_hang_costs_its_group(run) -> None:
    found = outcomes(run(workers.hangs_timing))
    assert found == {
        **{id: right for id, right in ALL_RIGHT.items() if "two" not in id},
        "two/timing/8": "no sign of life for 15 s",
    }


def test_workers_that_cannot_start_are_not_started_for_ever(run) -> None:
    document = run(workers.never_starts)
    assert outcomes(document) == {
        "machine/start/0": "the process ended with status 1 before its next group"
    }
    assert document["left_out"] == ["one/8", "two/8", "three/8"]


def test_a_gpu_that_refuses_is_a_row_that_says_so(run) -> None:
    document = run(workers.is_refused)
    assert outcomes(document) == {"machine/start/0": workers.BUSY}
    assert document["left_out"] == ["one/8", "two/8", "three/8"]


def test_a_gpu_that_is_lost_leaves_what_was_done_and_why_no_more(run) -> None:
    document = run(workers.loses_the_gpu)
    assert outcomes(document) == {
        "one/a/8": "right",
        "one/b/8": "right",
        "two/a/8": "the device could not be used any more: CUDARuntimeError: "
        "cudaErrorECCUncorrectable",
        "machine/start/0": workers.BUSY,
    }
    assert document["left_out"] == ["two/8", "three/8"]


def test_what_there_was_no_time_for_is_listed(run) -> None:
    document = run(workers.stops_early, minutes=0.08)
    assert outcomes(document) == {"one/a/8": "right"}
    assert document["left_out"] == ["two/8", "three/8"]


def test_a_second_call_goes_on_where_time_was_up(tmp_path: Path, monkeypatch) -> None:
    path, quiet = tmp_path / "gpu_bench.json", Console(quiet=True)
    gpu_run.run(TODO, False, 0.08, path, quiet, work=workers.stops_early)
    before = gpu_run.earlier(path, "made up", None)
    assert before is not None and before["left_out"] == ["two/8", "three/8"]
    document = gpu_run.run(TODO, False, 5.0, path, quiet, work=workers.good, before=before)
    assert outcomes(document) == {id: right for id, right in ALL_RIGHT.items() if id != "one/b/8"}
    assert document["left_out"] == [] and document["minutes"] > before["minutes"] > 0
    assert gpu_run.earlier(path, "made up", None) == document
    assert gpu_run.earlier(path, "another", None) is None
    assert gpu_run.earlier(tmp_path / "none.json", "made up", None) is None
    monkeypatch.setattr(gpu_run, "source", lambda: "changed")
    assert gpu_run.earlier(path, "made up", None) is None


def test_the_most_valuable_comes_first() -> None:
    order = [task.group for task in tasks(GROUPS, trial=False)]
    assert order[:4] == ["copy", "quadratic.float64", "reduction", "histogram.peaks"]
    assert len({(task.group, task.size) for task in tasks(GROUPS, trial=False)}) == len(order)


def test_versions_are_those_installed() -> None:
    found = report.versions(gpu_provenance.PACKAGES)
    assert {"numpy", "numba", "numba-cuda", "jax"} <= set(found)
    assert all(value[0].isdigit() for value in found.values())


# -- the command ------------------------------------------------------------------------------


def bench(repository: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-m", "lab.benchmarks.gpu_bench", *options],
        cwd=repository,
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )


def test_without_a_gpu_nothing_is_measured_and_nothing_written(repository: Path, tmp_path: Path):
    path = tmp_path / "gpu_bench.json"
    ran = bench(repository, "--results", str(path))
    assert ran.returncode == 2 and ran.stdout.startswith("Nothing measured: ")
    assert "the virtual GPU has no times" in ran.stdout and not path.exists()


def test_a_trial_checks_and_has_no_times(repository: Path, tmp_path: Path) -> None:
    ran = bench(
        repository,
        "--try",
        "--only",
        "lesson.turning",
        "--only",
        "reduction",
        "--results",
        str(tmp_path / "none.json"),
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "lesson.turning/tiled/96: right" in ran.stdout
    assert "untried: reduction/cub/1009: CUB compiled by nvcc needs a GPU" in ran.stdout
    assert "nothing was timed or written" in ran.stdout
    assert " ms" not in ran.stdout and not list(tmp_path.iterdir())


def test_a_group_that_does_not_exist(repository: Path) -> None:
    ran = bench(repository, "--try", "--only", "quadrature")
    assert ran.returncode == 2
    assert ran.stdout.startswith("No group's name begins like this. The groups are copy, ")


def test_the_aims_of_no_run(repository: Path, tmp_path: Path) -> None:
    ran = bench(repository, "--aims", "--results", str(tmp_path / "none.json"))
    assert ran.returncode == 0 and "not been measured on a GPU" in ran.stdout
    aims = [line.rstrip() for line in ran.stdout.splitlines() if " 0.9" in line]
    assert aims and all(line.endswith(gpu_aims.UNKNOWN) for line in aims)


# -- CUB by nvcc ------------------------------------------------------------------------------


def test_cub_is_asked_for_its_scratch_memory_first() -> None:
    """As CUB asks for it; and its CUDA errors are raised, not ignored."""
    gpu_work.prepare(virtual=True)
    calls = []

    def histogram(scratch, size, answer):
        calls.append((bool(scratch), size._obj.value, answer))
        if scratch is None:
            size._obj.value = 512
        return 0 if len(calls) < 3 else 700

    call = gpu_cub.with_scratch(histogram, 42)
    call()
    assert calls == [(False, 0, 42), (True, 512, 42)]
    with pytest.raises(RuntimeError, match="CUB reports CUDA error 700"):
        call()


def test_the_compiler_is_found_or_told_to_be_missing(monkeypatch: pytest.MonkeyPatch, tmp_path):
    compiler = tmp_path / "bin" / "nvcc"
    compiler.parent.mkdir()
    compiler.touch()
    monkeypatch.setattr(gpu_cub.shutil, "which", lambda name: None)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert gpu_cub.nvcc() == str(compiler)
    monkeypatch.setattr(gpu_cub, "needs_gpu", lambda what: None)
    with pytest.raises(RuntimeError, match="there is no nvcc"):
        gpu_cub.library()
