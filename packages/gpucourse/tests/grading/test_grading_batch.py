"""Many submissions: each gets one verdict, whatever happens to the process that grades it."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell

from gpucourse.grading.classes import batch
from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import fork_server
from gpucourse.grading.oracle import grader as grader_module
from gpucourse.grading.sandbox.levels import LIMITS, NAMESPACES, NONE, at_least
from gpucourse.grading.submission.ingest import Ingested
from gpucourse.grading.verdict import GRADED, INFRASTRUCTURE_FAULT, STUDENT_FAULT, Verdict
from grading_toy import submitted, toy, toy_notebook
from virtualgpu.compilers import cache

pytestmark = pytest.mark.slow

DOUBLE = "def double(values):\n    return values\n"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("course") / "source" / "ps1" / "toy.ipynb"
    path.parent.mkdir(parents=True)
    notebook = toy_notebook()
    notebook.cells.append(new_markdown_cell("Who likes `import vector` finds it there."))
    nbformat.write(notebook, path)
    return path


@pytest.fixture(scope="module")
def grader():
    with batch.Grader(limits=Limits(request_seconds=8, total_seconds=120), workers=2) as grader:
        yield grader


@pytest.mark.rehearsal
def test_a_class_with_wrong_and_hostile_submissions(grader, source):
    assignment = toy()
    wrong = "def double(values):\n    return values\n"
    work = {
        "honest": submitted(assignment),
        "wrong": submitted(assignment, double=wrong),
        "kills itself": submitted(assignment, double="import os\nos._exit(1)\n"),
        "endless": submitted(assignment, double="def double(v):\n    while True: pass\n"),
        "unreadable": Ingested(dict(assignment.starters), fault="not a notebook"),
        "copied from wrong": submitted(assignment, double=wrong),
    }
    work["copied from wrong"].notices.append("a remark of its own")
    seen = []
    jobs = [batch.Job(name, source, ingested) for name, ingested in work.items()]
    verdicts = grader.grade(jobs, lambda job, verdict: seen.append((job.student, verdict.earned)))
    assert [verdict.student for verdict in verdicts] == list(work)
    assert [verdict.earned for verdict in verdicts] == [5.0, 2.0, 2.0, 2.0, 0.0, 2.0]
    assert sorted(name for name, _ in seen) == sorted(work)
    assert verdicts[4].kind == STUDENT_FAULT
    assert {verdict.seed for verdict in verdicts} == {grader.seed}
    # Identical work is run once; what is said of the file itself stays each one's own.
    assert verdicts[1].tests == verdicts[5].tests
    assert verdicts[5].notices == ["a remark of its own"]


def test_an_oracle_runs_no_machine_code_from_disk(monkeypatch):
    """Other processes of the user write there; the cache is off before a test runs."""
    found = []

    def grade(*_, **__):
        found.append(cache.folder())
        return Verdict(INFRASTRUCTURE_FAULT, "toy.ipynb")

    monkeypatch.setattr(cache, "_off", False)
    monkeypatch.setattr(grader_module, "grade", grade)
    monkeypatch.setattr(batch.os, "setpgid", lambda *_: None)
    monkeypatch.setattr(batch, "confined", lambda connection, server: (server, ""))
    assert cache.folder() is not None
    answers, told = multiprocessing.Pipe(duplex=False)
    batch.grade_in_child(
        told, batch.Job("one", Path("toy.ipynb"), submitted(toy())), toy(), None, "5eed"
    )
    answers.close()
    assert found == [None]


def test_the_next_submission_runs_while_a_verdict_is_written(source, monkeypatch):
    """Writing takes as long as grading a small notebook; one after the other halves the rate."""
    began = []
    start = batch.Grader._start
    monkeypatch.setattr(
        batch.Grader,
        "_start",
        lambda grader, job, attempt: (began.append(job.student), start(grader, job, attempt))[1],
    )
    jobs = [
        batch.Job(f"s{n}", source, submitted(toy(), double=f"# {n}\n" + DOUBLE)) for n in range(4)
    ]
    at_each_verdict = []
    with batch.Grader(workers=1) as grader:
        grader.grade(jobs, lambda job, verdict: at_each_verdict.append(len(began)))
    assert at_each_verdict == [2, 3, 4, 4]


def test_what_the_course_imports_is_imported_before_the_forks(source):
    """JAX takes a second: not in each worker."""
    answer = "import sys\nif '{}' not in sys.modules: raise ValueError\n" + DOUBLE
    wanted = fork_server.heavy_imports([source, source / "missing"])
    assert wanted == ["vector"]
    with batch.Grader(workers=1, sources=[source]) as grader:
        there, absent = grader.grade(
            [
                batch.Job(name, source, submitted(toy(), double=answer.format(name)))
                for name in ("vector", "hist")
            ]
        )
    assert "ValueError" not in str(there.notices) and "ValueError" in str(absent.notices)


def test_imports_of_cells_that_only_show_something_cost_no_server(source, tmp_path):
    notebook = json.loads(source.read_text())
    shown = {"cell_type": "code", "metadata": {}, "source": "import matplotlib.pyplot"}
    assert fork_server.heavy_imports([_written(tmp_path, "a", notebook, shown)]) == ["vector"]
    graded = shown | {"metadata": {"nbgrader": {"locked": True}}}
    found = fork_server.heavy_imports([_written(tmp_path, "b", notebook, graded)])
    assert found == ["vector", "matplotlib.pyplot"]


def test_imports_of_assignments_without_work_cost_no_server(tmp_path):
    for name in ("one", "two"):
        _written(tmp_path / "source" / name, name, {"cells": []})
    assert {path.stem for path in fork_server.with_work(tmp_path)} == {"one", "two"}
    (tmp_path / "submitted" / "ann" / "two").mkdir(parents=True)
    assert [path.stem for path in fork_server.with_work(tmp_path)] == ["two"]


@pytest.mark.parametrize("content", ["", "[]", '{"cells": [3]}', '{"cells": [{"metadata": 1}]}'])
def test_a_file_that_is_no_notebook_imports_nothing(tmp_path, content):
    (tmp_path / "odd.ipynb").write_text(content)
    assert fork_server.heavy_imports([tmp_path / "odd.ipynb"]) == []


def _written(folder, name, notebook, *more):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.ipynb"
    path.write_text(json.dumps(notebook | {"cells": [*notebook["cells"], *more]}))
    return path


@pytest.mark.parametrize("disaster", ["die", "raise", "chatter"])
def test_threat_61_a_dead_oracle_is_retried_and_never_a_zero(
    grader, source, monkeypatch, disaster, tmp_path
):
    marker = tmp_path / "tried"
    monkeypatch.setattr(batch, "grade_in_child", Disaster(disaster, str(marker)))
    (verdict,) = grader.grade([batch.Job("alice", source, submitted(toy()))])
    assert verdict.kind == INFRASTRUCTURE_FAULT
    assert verdict.earned is None
    assert marker.read_text() == "x" * batch.ATTEMPTS


class Disaster:
    """Stands in for an oracle that fails; picklable, so that it reaches the child."""

    def __init__(self, kind: str, marker: str) -> None:
        self.kind, self.marker = kind, marker

    def __call__(self, connection, *_) -> None:
        import os

        with open(self.marker, "a") as file:
            file.write("x")
        if self.kind == "raise":
            # Without the traceback that multiprocessing would print.
            raise SystemExit(3)
        if self.kind == "chatter":
            connection.send_bytes(b"not a verdict")
        os._exit(9)


def test_threat_61_a_hung_oracle_is_stopped(source, monkeypatch):
    monkeypatch.setattr(batch, "grade_in_child", hang)
    monkeypatch.setattr(batch, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(batch, "ATTEMPTS", 1)
    with batch.Grader(limits=Limits(wall_seconds=0.5)) as grader:
        (verdict,) = grader.grade([batch.Job("alice", source, submitted(toy()))])
    assert verdict.kind == INFRASTRUCTURE_FAULT
    assert "in time" in verdict.reason


def hang(*_) -> None:
    import time

    time.sleep(60)


def test_other_peoples_work_needs_a_floor():
    assert at_least(NAMESPACES)
    assert not at_least(LIMITS)
    assert not at_least(NONE)
    with pytest.raises(batch.FloorError, match="bubblewrap"):
        batch.Grader(level=LIMITS).__enter__()


@pytest.mark.rehearsal
def test_one_may_grade_ones_own_work_anywhere(source):
    with batch.Grader(level=LIMITS, own_work=True, workers=1) as grader:
        assert grader.level in (LIMITS, NONE)
        (verdict,) = grader.grade([batch.Job("", source, submitted(toy()))])
    assert (verdict.kind, verdict.earned, verdict.isolation) == (GRADED, 5.0, grader.level)


def test_a_run_that_was_interrupted_goes_on_where_it_stopped(source, monkeypatch):
    """Verdicts are written one by one; what is there is not graded again."""
    root = source.parents[2]
    classroom = Classroom(root)
    assignment = toy()
    jobs = [
        batch.Job(name, source, submitted(assignment, double=f"double = '{name}'"))
        for name in ("a", "b", "c")
    ]

    class Interrupted:
        """A grader that is stopped after two submissions."""

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def grade(self, jobs, on_verdict):
            for job in jobs[:2]:
                on_verdict(
                    job,
                    Verdict(
                        GRADED,
                        "toy",
                        job.student,
                        assignment_digest=assignment.digest,
                        submission_digest=job.ingested.digest(assignment),
                    ),
                )
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        classroom.grade("ps1", jobs, Interrupted)
    assert [job.student for job in classroom.missing("ps1", jobs)] == ["c"]
    # Other tests, other work, or a fault of the grader's make a verdict unusable.
    changed = batch.Job("a", source, submitted(assignment, double="other"))
    assert classroom.missing("ps1", [changed]) == [changed]
    path = classroom.verdict_path("b", "ps1", "toy")
    fault = Verdict.read(path)
    fault.kind = INFRASTRUCTURE_FAULT
    fault.write(path)
    assert [job.student for job in classroom.missing("ps1", jobs)] == ["b", "c"]


@pytest.mark.parametrize("module", ["gpucourse.cli", "gpucourse.grading.oracle.fork_server"])
def test_commands_and_oracles_do_without_the_grammar_of_iris(module):
    """Where it is installed: conftest.py hides it from the tests."""
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\n"
            "sys.path[:] = [folder for folder in sys.path if not folder.endswith('/without')]\n"
            f"import {module}, nbformat\nprint('lark' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert loaded == "False\n"
    schemas = [path.read_text() for path in Path(nbformat.__file__).parent.glob("v*/*.json")]
    assert schemas and not any('"format": "iri' in schema for schema in schemas)


def test_as_many_at_a_time_as_a_container_lets_us_use(monkeypatch):
    monkeypatch.setattr(batch.processors, "usable", lambda: 3.5)
    assert batch.default_workers() == 3
