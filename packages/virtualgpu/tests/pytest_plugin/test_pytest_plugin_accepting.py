"""Findings that a project accepts, in a test or for all of them, with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuda_project import INI, KERNELS, line_of, run
from virtualgpu.accepting import read, split
from virtualgpu.errors import Location
from virtualgpu.findings import Finding

READS = line_of(KERNELS, "out[t] = s[63 - t]")
TESTS = """
import numpy as np
import pytest
from numba import cuda
from kernels import turned


@cuda.jit
def lost(x):
    x[0] += 1


def turn():
    turned[1, 64](np.zeros(64, np.float32), np.zeros(64, np.float32))


@pytest.mark.virtual_gpu_accept("kernels.py:READS: a teaching example")
def test_line():
    turn()
    turn()


@pytest.mark.virtual_gpu_accept("other: unknown", "turned: a teaching example")
def test_kernel():
    turn()


@pytest.mark.virtual_gpu_accept("kernels.py:READS: a teaching example")
def test_more_than_that():
    turn()
    lost[1, 64](np.zeros(1))


def test_none():
    turn()
""".replace("READS", str(READS))
FILES = {"kernels.py": KERNELS, "test_kernels.py": TESTS}


def test_a_marker_accepts_a_line_or_a_kernel_and_nothing_else(tmp_path: Path):
    ran = run(tmp_path, "--virtual-gpu", files=FILES)
    assert ran.outcomes == {
        "line": "PASSED",
        "kernel": "PASSED",
        "more_than_that": "FAILED",
        "none": "FAILED",
    }, ran.text
    lines = [line for line in ran.text.splitlines() if line.startswith("virtual GPU: ")]
    assert (
        "virtual GPU: test_kernels.py::test_kernel: other is accepted (unknown) and was not "
        "found: remove this entry"
    ) in lines
    assert any(
        line.startswith(f"virtual GPU: accepted at kernels.py:{READS}, ")
        and line.endswith(" times: a teaching example")
        for line in lines
    ), lines
    assert lines[-1] == "virtual GPU: 6 launches checked, 2 findings"


def test_entries_of_the_configuration_accept_in_every_test(tmp_path: Path):
    (tmp_path / "pytest.ini").write_text(
        INI + f"virtual_gpu_accept =\n    kernels.py:{READS}: a teaching example\n"
        "    gone.py:7: mended since\n"
    )
    ran = run(
        tmp_path, "--virtual-gpu", "--virtual-gpu-accept", "lost: counts roughly", files=FILES
    )
    assert set(ran.outcomes.values()) == {"PASSED"}, ran.text
    assert "accepted and not found in this run: gone.py:7 (mended since)" in ran.text
    assert "virtual GPU: accepted at lost, " in ran.text
    assert ran.text.splitlines()[-1] == "virtual GPU: 6 launches checked, 0 findings"


def test_an_entry_without_a_reason_is_a_usage_error(tmp_path: Path):
    ran = run(tmp_path, "--virtual-gpu", "--virtual-gpu-accept", "kernels.py:9", files=FILES)
    assert ran.status == pytest.ExitCode.USAGE_ERROR
    assert "'kernels.py:9' is not an entry: file.py:LINE: reason, or kernel: reason" in ran.text


@pytest.mark.parametrize(
    ("entry", "covered"),
    [
        ("k.py:9: x", True),
        ("src/k.py:9: x", True),
        ("k.py:4: the other line", True),
        ("kernel: x", True),
        ("k.py:8: x", False),
        ("lib/k.py:9: x", False),
        ("kern: x", False),
        ("other.py:9: x", False),
    ],
)
def test_what_an_entry_covers(entry: str, covered: bool):
    found = Finding(
        "race",
        "race: …",
        "kernel",
        "/p/src/k.py",
        9,
        count=3,
        other=Location("kernel", "/p/src/k.py", 4),
    )
    left, needed = split([found], read([entry]))
    assert (left == []) == covered == (list(needed.values()) == [3])


@pytest.mark.rehearsal
def test_several_orders_as_a_number(tmp_path: Path):
    ran = run(tmp_path, "--virtual-gpu", "--virtual-gpu-orders=3", "-k", "test_line", files=FILES)
    assert set(ran.outcomes) == {"line[seed0]", "line[seed1]", "line[seed2]"}, ran.text
    both = run(tmp_path, "--virtual-gpu", "--virtual-gpu-orders=3", "--virtual-gpu-seed=1")
    assert both.status == pytest.ExitCode.USAGE_ERROR and "pass only one" in both.text


@pytest.mark.rehearsal
def test_a_run_that_checks_nothing_says_so(tmp_path: Path):
    ran = run(tmp_path, "--virtual-gpu", "--virtual-gpu-unchecked", "-k", "none", files=FILES)
    assert ran.outcomes == {"none": "PASSED"}, ran.text
    assert ran.text.splitlines()[-1] == (
        "virtual GPU: kernels ran unchecked (--virtual-gpu-unchecked), so nothing was looked for"
    )
