"""One submission in the sandbox: honest work, mistakes, and what the student is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpucourse.course.projects import PACKAGES
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.sandbox.levels import BUBBLEWRAP, NAMESPACES, Sandbox, SandboxError
from gpucourse.grading.verdict import GRADED, STUDENT_FAULT
from grading_toy import answers, submitted, toy

SEED = "5eed" * 8


@pytest.fixture(scope="module", params=[BUBBLEWRAP, NAMESPACES])
def server(request):
    """A fork server at each level that is good enough for a class."""
    try:
        with Sandbox(
            limits=Limits(request_seconds=60.0, request_wall_seconds=300.0), level=request.param
        ) as sandbox:
            yield sandbox.server
    except SandboxError as error:
        pytest.skip(f"UNTESTED HERE: isolation level {request.param}: {error}")


@pytest.fixture
def verdict(server):
    """Grade the toy with some cells replaced."""
    assignment = toy()
    return lambda **changed: grade(assignment, submitted(assignment, **changed), server, SEED)


def reason(verdict) -> str:
    """Full points for `total`, none for `double`; why."""
    assert verdict.kind == GRADED
    assert [outcome.earned for outcome in verdict.tests] == [0.0, 2.0]
    return verdict.tests[0].reason


def test_honest_work_gets_full_marks_and_the_verdict_says_where_it_ran(verdict, server):
    honest = verdict()
    assert (honest.earned, honest.points, honest.first_reason()) == (5.0, 5.0, "")
    assert honest.isolation == server.level
    assert honest.seed == SEED


def test_a_starter_is_a_fault_with_advice(verdict):
    starter = verdict(**toy().starters)
    assert starter.kind == STUDENT_FAULT
    assert starter.earned == 0.0
    assert "no solution" in starter.reason


def test_a_worker_may_start_few_processes(verdict):
    head, body = answers(toy())["double"].split("\n", 1)
    looks = (
        "    from resource import RLIMIT_NPROC, getrlimit\n"
        f"    assert getrlimit(RLIMIT_NPROC)[1] <= {Limits().threads}\n"
    )
    assert verdict(double=f"{head}\n{looks}{body}").earned == 5.0


def test_a_worker_keeps_no_machine_code(verdict):
    """What it left on disk, another process might run."""
    answer = answers(toy())["double"]
    head, body = answer.split("\n", 1)
    looks = (
        "    from virtualgpu.compilers import cache\n"
        "    assert cache.folder() is None, cache.folder()\n"
    )
    assert verdict(double=f"{head}\n{looks}{body}").earned == 5.0


def test_a_syntax_error_costs_its_own_cell(verdict):
    told = reason(verdict(double="def double(values)\n    return 1\n"))
    assert "syntax error" in told
    assert "cell 'double', line 1" in told


@pytest.mark.parametrize(
    "lower",
    [
        "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))",
        "os.sched_setparam(0, os.sched_param(0))",
        "os.nice(19)",
        "os.setpriority(os.PRIO_PROCESS, 0, 19)",
    ],
)
def test_threat_97_a_worker_does_not_give_its_turns_away(verdict, lower):
    """Threads that others always come before take minutes for a second that is charged."""
    answer = answers(toy())["double"]
    told = verdict(double=f"import os\n{lower}\n{answer}")
    assert "PermissionError" in reason(told)


def test_threat_28_files_without_a_byte_are_bounded_too(verdict):
    # Each takes a kilobyte of the kernel's memory, which is no process's.
    many = "import os\nfor n in range(30_000):\n    os.close(os.open(f'{n}', os.O_CREAT))\n"
    verdict = verdict(double=f"{many}def double(values):\n    return 2 * values\n")
    assert "No space left" in reason(verdict)


def test_magics_are_reported(verdict):
    notices = verdict(double="!ls\n" + answers(toy())["double"]).notices
    assert any("not Python" in notice and "!ls" in notice for notice in notices)


def test_a_helper_outside_the_answer_cells_is_named(server):
    assignment = toy()
    ingested = submitted(assignment, double="def double(values):\n    return helper(values)\n")
    ingested.strays["helper"] = "cell 2"
    told = reason(grade(assignment, ingested, server, SEED))
    for word in ("'helper'", "cell 2", "not graded"):
        assert word in told


def test_the_verdict_names_no_path_of_the_machine(verdict):
    text = verdict(double="def double(values):\n    return values.nothing\n").to_json()
    assert str(Path.home()) not in text
    assert json.loads(text)["kind"] == GRADED


WHERE = """
import sys
sys.path.append({tests!r})
from grading_toy import submitted, toy
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.sandbox.levels import Sandbox

answer = "import gpucourse; raise ValueError(gpucourse.__file__)"
with Sandbox() as sandbox:
    print(grade(toy(), submitted(toy(), double=answer), sandbox.server, "{seed}").notices)
"""


@pytest.mark.rehearsal
def test_a_worker_has_the_packages_of_the_grader_wherever_they_come_from(tmp_path, repository):
    """A checkout on PYTHONPATH would else be graded with by the package that is installed."""
    for package in PACKAGES:
        shutil.copytree(
            repository / package / "src",
            tmp_path / "src",
            dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    script = tmp_path / "where.py"
    script.write_text(
        WHERE.format(tests=str(repository / "packages/gpucourse/tests/support"), seed=SEED)
    )
    ran = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")},
    )
    assert str(tmp_path / "src" / "gpucourse") in ran.stdout, ran.stdout + ran.stderr


def test_many_folders_can_be_hidden(server):
    """As beside a course in a folder with a thousand others: more than one message's 32 kB."""
    others = tuple(f"/nowhere/{'x' * 100}{number}" for number in range(1000))
    worker = replace(server, covered=(*server.covered, *others)).spawn()
    worker.kill()
    assert worker.namespaces


LOOK = """
import pathlib
def double(values):
    seen = []
    for path in sorted(pathlib.Path({course!r}).glob("*/*/*.*")):
        try:
            seen += [path.name] if path.read_bytes() else []
        except OSError:
            pass
    if set(seen) == {{"checks.py", "predictions.toml"}}:
        raise LookupError
    raise PermissionError
"""


def test_of_a_project_a_worker_can_read_the_hints_and_no_answer(verdict, repository):
    """They lie in one folder with the hidden tests and the answers."""
    told = reason(verdict(double=LOOK.format(course=str(repository / "course"))))
    assert "raises LookupError" in told
