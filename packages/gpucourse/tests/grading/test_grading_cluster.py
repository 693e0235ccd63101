"""Grading on a Dask cluster: the same verdicts as here, and none lost with a worker."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import nbformat
import pytest
from rich.console import Console

from gpucourse.grading.classes import cluster, remote
from gpucourse.grading.classes.batch import Grader, Job
from gpucourse.grading.commands import grade_class
from gpucourse.grading.limits import Limits
from gpucourse.grading.sandbox.levels import SandboxError
from gpucourse.grading.verdict import GRADED, INFRASTRUCTURE_FAULT, Verdict
from grading_toy import submitted, toy, toy_notebook

# Dask warns of busy machines, and tells of the workers that are killed here on purpose.
pytestmark = pytest.mark.filterwarnings("ignore")
# Its workers, each with a grader of its own, take 30 s of processor time.
on_a_cluster = pytest.mark.rehearsal
SEED = "5eed" * 8


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("source") / "toy.ipynb"
    nbformat.write(toy_notebook(), path)
    return path


@pytest.fixture(scope="module")
def local_cluster():
    """Two workers, each a process that is started again when it dies."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        resources={"GPU": 1},
    ) as running:
        yield running


@pytest.fixture
def grader(local_cluster):
    limits = Limits(request_seconds=60, request_wall_seconds=300)
    with cluster.ClusterGrader(local_cluster.scheduler_address, seed=SEED, limits=limits) as grader:
        yield grader


def work(source: Path, count: int) -> list[Job]:
    """Right, wrong and hostile answers, no two alike."""
    kinds = (
        "return 2 * values + {n} * 0",
        "return values + {n}",
        "import os; os._exit({n})",
        "raise ValueError('{n}')",
    )
    return [
        Job(
            f"s{n}",
            source,
            submitted(toy(), double=f"def double(values):\n    {kinds[n % 4].format(n=n)}\n"),
        )
        for n in range(count)
    ]


def summary(verdict: Verdict) -> tuple:
    return (
        verdict.student,
        verdict.kind,
        verdict.seed,
        verdict.submission_digest,
        verdict.assignment_digest,
        verdict.notices,
        verdict.isolation,
        [(outcome.test, outcome.earned, outcome.reason) for outcome in verdict.tests],
    )


@on_a_cluster
def test_verdicts_are_those_of_this_machine(grader, source):
    jobs = work(source, 4)
    jobs.append(Job("copy of s1", source, jobs[1].ingested))
    seen = []
    remote = grader.grade(jobs, lambda job, verdict: seen.append(job.student))
    assert sorted(seen) == sorted(job.student for job in jobs)
    with Grader(limits=Limits(request_seconds=60, request_wall_seconds=300), workers=1) as here:
        here.seed = SEED
        local = here.grade(jobs)
    assert [summary(verdict) for verdict in remote] == [summary(verdict) for verdict in local]
    assert [verdict.earned for verdict in remote] == [5.0, 2.0, 2.0, 2.0, 2.0]


@on_a_cluster
def test_a_lost_workers_submissions_are_graded_by_another(grader, source, local_cluster):
    """A worker is killed as soon as the first verdict is there, with most work still to do."""
    jobs = work(source, 12)
    arrived = []

    def kill() -> None:
        worker = next(iter(local_cluster.workers.values()))
        os.kill(worker.process.pid, signal.SIGKILL)

    def on_verdict(job: Job, verdict: Verdict) -> None:
        if not arrived:
            threading.Thread(target=kill).start()
        arrived.append(job.student)

    verdicts = grader.grade(jobs, on_verdict)
    assert sorted(arrived) == sorted(job.student for job in jobs)
    assert {verdict.kind for verdict in verdicts} == {GRADED}
    assert [verdict.earned for verdict in verdicts] == [5.0, 2.0, 2.0, 2.0] * 3


@on_a_cluster
def test_each_submission_takes_a_gpu_where_workers_have_one(grader, local_cluster):
    assert grader._resources() == {"GPU": 1}


@on_a_cluster
def test_a_station_ends_with_the_worker_that_asked_it(source):
    import subprocess
    import sys

    process = subprocess.Popen(
        [sys.executable, "-m", "gpucourse.grading.classes.remote"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    (job,) = work(source, 1)
    described = remote.describe(job, SEED, Limits(), False)
    process.stdin.write(remote.order(source.read_text(), described) + "\n")
    process.stdin.flush()
    verdict = Verdict.from_json(json.loads(process.stdout.readline()))
    assert (verdict.student, verdict.earned) == ("s0", 5.0)
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_station_that_dies_is_somebody_elses_turn(monkeypatch):
    """Dask tries a task again that raised; the next one gets a new station."""
    import subprocess

    dead = subprocess.Popen(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    dead.wait()
    cluster._idle.put(dead)
    with pytest.raises(RuntimeError, match="has died"):
        cluster.grade_text("{}", "{}")
    assert cluster._idle.empty()
    dead.stdout.close()


@on_a_cluster
def test_what_the_cluster_fails_to_do_is_an_infrastructure_fault(grader, source):
    class Lost:
        def result(self):
            raise RuntimeError("KilledWorker")

    (job,) = work(source, 1)
    verdict = grader._verdict(Lost(), job)
    assert verdict.kind == INFRASTRUCTURE_FAULT
    assert verdict.earned is None
    assert "KilledWorker" in verdict.reason


def test_below_the_floor_a_station_grades_nothing(tmp_path, monkeypatch, source):
    from gpucourse.grading.classes.batch import FloorError

    def refuse(self):
        raise FloorError("install bubblewrap")

    monkeypatch.setattr(Grader, "__enter__", refuse)
    (job,) = work(source, 1)
    line = remote.order(source.read_text(), remote.describe(job, SEED, Limits(), False))
    verdict = Verdict.from_json(remote.Station(tmp_path).grade(line))
    assert verdict.kind == INFRASTRUCTURE_FAULT
    assert "bubblewrap" in verdict.reason


@on_a_cluster
def test_a_cluster_without_workers_is_told_of(grader):
    from distributed import LocalCluster

    told = []
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        cluster.ClusterGrader(empty.scheduler_address, tell=told.append),
    ):
        pass
    assert len(told) == 1
    assert f"dask worker {empty.scheduler_address} --nthreads 1" in told[0]
    with cluster.ClusterGrader(grader.address, tell=told.append):
        assert len(told) == 1


def test_without_a_scheduler_it_says_what_to_start(monkeypatch, tmp_path):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    began = time.monotonic()
    with pytest.raises(SandboxError, match="dask scheduler"):
        cluster.ClusterGrader("tcp://127.0.0.1:9").__enter__()
    assert time.monotonic() - began < 60


def test_the_class_command_takes_the_address(tmp_path):
    (tmp_path / "source" / "ps1").mkdir(parents=True)
    course = grade_class.Class(tmp_path, Console(quiet=True), scheduler="tcp://head:8786")
    grader = course.grader()
    assert isinstance(grader, cluster.ClusterGrader)
    assert grader.address == "tcp://head:8786"
