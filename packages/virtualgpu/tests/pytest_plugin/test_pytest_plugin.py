"""``pytest --virtual-gpu`` in a project of its own: what fails, where, and in which words."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from cuda_project import KERNELS, Ran, line_of, run

READS = line_of(KERNELS, "out[t] = s[63 - t]")
WRITES = line_of(KERNELS, "s[t] = x[t]")
TOO_FAR = line_of(KERNELS, "out[cuda.grid(1) + 1] = 1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="module")
def ran(folder) -> Ran:
    return run(
        folder,
        "--virtual-gpu",
        "--virtual-gpu-require",
        "--junitxml=junit.xml",
        new=True,
        GITHUB_ACTIONS="true",
        GITHUB_WORKSPACE=str(folder),
    )


def summary(ran: Ran, name: str) -> str:
    """What the short summary says of a test."""
    (line,) = (
        line
        for line in ran.text.splitlines()
        if line.startswith(("FAILED ", "ERROR ")) and f"::test_{name} - " in line
    )
    return line.partition(" - ")[2]


def failure(ran: Ran, name: str) -> str:
    """What is printed of a failure."""
    return ran.text.split(f" test_{name} ___")[1].split("\n___")[0].split("\n===")[0]


def test_what_fails(ran: Ran):
    """In conftest.py a GPU is found, a kernel is declared with a signature and launched."""
    assert ran.outcomes == {
        "right": "PASSED",
        "right_by_luck": "FAILED",
        "on_purpose": "PASSED",
        "wrong_anyway": "FAILED",
        "error_is_expected": "PASSED",
        "wrong_after_an_expected_error": "FAILED",
        "grid_too_large": "FAILED",
        "error_is_not_expected": "FAILED",
        "never_ends": "FAILED",
        "orders[seed1]": "PASSED",
        "orders[seed2]": "PASSED",
        "known": "XFAIL",
        "before": "ERROR",
        "after": "ERROR",
    }, ran.text
    assert ran.status == 1


def test_the_failure_names_both_lines(ran: Ran):
    told = failure(ran, "right_by_luck")
    assert "virtual GPU, 1 launch: 1 finding" in told
    assert "race: thread" in told
    assert "s[t] = x[t]" in told
    assert "out[t] = s[63 - t]" in told


def test_a_failure_of_the_test_itself_shows_the_report_beside(ran: Ran):
    told = failure(ran, "wrong_anyway")
    assert "assert (out == x).all()" in told
    assert "virtual GPU" in told
    assert "race: thread" in told


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("right_by_luck", "race at kernels.py:{race} (turned)"),
        ("wrong_anyway", "race at kernels.py:{race} (turned); AssertionError: assert"),
        ("error_is_not_expected", "memory at kernels.py:{memory} (too_far): "),
        ("wrong_after_an_expected_error", "AssertionError: assert not 'right'"),
        ("grid_too_large", "LaunchError: 2048 threads in a block"),
        ("never_ends", "BudgetExceeded at kernels.py:"),
        ("before", "race at kernels.py:{race} (turned)"),
        ("after", "race at kernels.py:{race} (turned)"),
    ],
)
def test_short_summaries_begin_with_kind_and_line(ran: Ran, name: str, begins: str):
    lines = {WRITES, READS}
    assert any(
        summary(ran, name).startswith(begins.format(race=race, memory=TOO_FAR)) for race in lines
    ), summary(ran, name)


def test_fixtures_are_watched_before_and_after(ran: Ran):
    assert "ERROR at setup of test_before" in ran.text
    assert "ERROR at teardown of test_after" in ran.text


def test_tracebacks_hide_what_is_not_the_project_s(ran: Ran):
    told = failure(ran, "error_is_not_expected")
    assert "too_far[1, 64](np.zeros(64, np.int32))" in told
    assert "dispatcher" not in told and "hooks.py" not in told and "site-packages" not in told
    assert len(told.splitlines()) <= 20, told


def test_an_endless_kernel_is_told_how_to_have_more_time(ran: Ran):
    assert "@pytest.mark.virtual_gpu_time_limit(seconds)" in failure(ran, "never_ends")


STANDING_STILL = """
import numpy as np
from numba import cuda


@cuda.jit
def waiting(x):
    while x[0] == 0:
        pass


def test_waiting():
    waiting[1, 1](cuda.to_device(np.zeros(1)))
"""


def test_a_kernel_that_never_ends_shows_its_own_lines(tmp_path: Path):
    ran = run(tmp_path, "--virtual-gpu", files={"test_kernels.py": STANDING_STILL})
    told = ran.text
    assert summary(ran, "waiting").startswith("EndlessError at test_kernels.py:")
    assert "EndlessError: the kernel never ends" in told and "while x[0] == 0:" in told
    assert "virtualgpu.EndlessError" in told  # by its public name
    assert "another exception occurred" not in told and "launch.py" not in told


def test_the_header_says_what_runs_the_kernels(ran: Ran):
    assert "virtual GPU: kernels run on the CPU, every launch checked; a launch may use 10 s" in (
        ran.text
    )


def test_the_last_line_counts(ran: Ran):
    """One launch in conftest.py, and one in each test that launches but the unchecked one."""
    assert ran.text.splitlines()[-1] == (
        "virtual GPU: 10 launches checked, 4 findings, told 7 times"
    )


def test_github_marks_the_line_of_the_kernel(ran: Ran):
    marks = [line for line in ran.text.splitlines() if line.startswith("::error ")]
    assert len(marks) == 4, marks
    assert marks[0].startswith(
        (
            f"::error file=kernels.py,line={READS},title=race::race: thread",
            f"::error file=kernels.py,line={WRITES},title=race::race: thread",
        )
    )
    assert marks[1].startswith("::error title=LaunchError::2048 threads in a block")
    assert marks[2].startswith(f"::error file=kernels.py,line={TOO_FAR},title=memory::illegal")
    assert ",title=BudgetExceeded::the kernel ran for 0.2 s" in marks[3]


def test_junit_has_the_whole_report(ran: Ran, folder):
    cases = {
        case.get("name"): case for case in ElementTree.parse(folder / "junit.xml").iter("testcase")
    }
    failed = cases["test_right_by_luck"].find("failure")
    assert failed.get("message").startswith("race at kernels.py:")
    assert "out[t] = s[63 - t]" in failed.text
    assert cases["test_before"].find("error") is not None
