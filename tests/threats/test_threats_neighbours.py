"""Rows 21 to 32 of the list of threats: the host and the other submissions."""

from __future__ import annotations

import site
from functools import partial
from pathlib import Path

import nbformat
import psutil
import pytest

from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.sandbox.wire import within
from threats import Attempt, Course, each_attempt, holds, rows
from threats_neighbours import ATTEMPTS, SCRIPT

pytest_plugins = ("threats_fixtures",)

pytestmark = pytest.mark.rehearsal


attempts = partial(each_attempt, ATTEMPTS)


@attempts(21)
def test_threat_21_reading_or_spoiling_others_work(attempt, threat_course, protecting):
    victim = threat_course.root / "submitted" / "a-victim" / "host"
    before = {path.name: path.read_bytes() for path in victim.iterdir()}
    holds(attempt, threat_course, protecting)
    assert {path.name: path.read_bytes() for path in victim.iterdir()} == before


def test_threat_22_planting_for_the_next_student(threat_course, protecting):
    plant, reap = rows(ATTEMPTS, 22)
    holds(plant, threat_course, protecting)
    try:
        holds(reap, threat_course, protecting)
        for folder in site.getsitepackages():
            assert not Path(folder, "planted_7f3a.pth").exists()
    finally:
        for folder in site.getsitepackages():
            Path(folder, "planted_7f3a.pth").unlink(missing_ok=True)


@attempts(23)
def test_threat_23_orphans_and_threads(attempt, threat_course, protecting):
    holds(attempt, threat_course, protecting)
    left = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "orphan-7f3a" in (process.info["cmdline"] or [])
    ]
    for process in left:
        process.kill()
    assert not left


@attempts(24)
def test_threat_24_fork_bomb(attempt, threat_course, protecting):
    holds(attempt, threat_course, protecting)


@attempts(25)
def test_threat_25_memory_bomb(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(26, ["deaf", "slow-drip"])
def test_threat_26_endless_loops_and_a_total_budget(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(27)
def test_threat_27_endless_output(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    assert len(verdict.to_json()) < 10_000


@attempts(28)
def test_threat_28_full_disk(attempt, threat_course, protecting):
    holds(attempt, threat_course, protecting)


@attempts(29)
def test_threat_29_secrets_in_the_environment(attempt, threat_course, protecting, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    holds(attempt, threat_course, protecting)


@attempts(30)
def test_threat_30_magics_are_reported_and_not_run(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    assert any(
        "not Python" in notice or "runs nothing in it" in notice for notice in verdict.notices
    )


@attempts(31)
def test_threat_31_html_and_script(attempt, threat_course, server):
    """The feedback page itself: packages/gpucourse/tests/grading/test_grading_nbgrader.py."""
    verdict = holds(attempt, threat_course, server)
    assert SCRIPT not in verdict.to_json()
    rebuilt = threat_course.root / "rebuilt" / attempt.name / "host" / "host.ipynb"
    assert page_of(rebuilt).count(SCRIPT) == 0


def page_of(path: Path) -> str:
    """Feedback as :mod:`gpucourse.grading.nbgrader.feedback` makes it of a notebook."""
    from nbconvert import HTMLExporter

    from gpucourse.grading.nbgrader.feedback import HideTests

    notebook, _ = HideTests().preprocess(nbformat.read(path, as_version=4), {})
    return HTMLExporter(template_name="classic").from_notebook_node(notebook)[0]


@attempts(32)
def test_threat_32_tracing_and_the_parents_memory(attempt, threat_course, protecting):
    holds(attempt, threat_course, protecting)


LOOK_AROUND = """import os
others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
alone = not os.path.exists("mine") and not others
def double(values):
    return 2 * values if alone else values
"""


def test_threat_21_workers_do_not_see_each_other(threat_course: Course, protecting):
    """Two workers of one fork server, at the same time."""
    job = threat_course.ingest(Attempt(21, "alone", "", {"double": LOOK_AROUND}))
    # grade() keeps its alarm in the main thread; the other submission waits in a worker here.
    worker = protecting.spawn()
    try:
        worker.wire.send(
            {"nonce": "1", "do": "define", "cell": "a", "source": 'open("mine", "w").write("x")'}
        )
        answer, _ = worker.wire.receive(within(60))
        assert "error" not in answer
        verdict = grade(job.assignment, job.ingested, protecting, "00" * 16)
    finally:
        worker.kill()
    assert verdict.earned == 5.0, verdict.to_json()


STARTS_MANY = """import threading, time
threading.stack_size(1 << 16)
def double(values):
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait, daemon=True) for _ in range(@)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    stop.set()
    return 2 * values
"""


def test_threat_83_threads_beyond_the_limit(threat_course, protecting):
    """Also as root, for whom the system's own limit does not hold; their stacks are small."""
    many = Attempt(
        83,
        "many-threads",
        "starts 1,000 threads",
        {"double": STARTS_MANY.replace("@", "1000")},
        says="thread",
        honest={"double": STARTS_MANY.replace("@", "20").replace("(2)", "(0.3)")},
    )
    reason = holds(many, threat_course, protecting).first_reason()
    assert "too many threads" in reason or "raises RuntimeError" in reason
