"""Lessons on numba-cuda's successor: the same cells, the same checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpucourse.course.problems import Problem
from gpucourse.course.registry import load_course
from gpucourse.publish.notebooks import successor

ROOT = Path(__file__).parents[2]
LECTURE = "12_thinking_in_warps"
ITS_OWN = "(solution) the check 'warp-max' refuses the solution: the largest of warp 0 is …"


def test_it_lists_lessons_of_the_course():
    course = load_course(ROOT)
    assert [course.lesson(id).id for id in successor.lessons(ROOT)] == successor.lessons(ROOT)


def test_what_is_known_to_come_out_otherwise_is_all_that_may():
    known, new = (Problem(Path("course"), 1, text) for text in (ITS_OWN, "(starter) else"))
    assert successor.unexpected(ROOT, LECTURE, [known]) == []
    assert successor.unexpected(ROOT, LECTURE, [known, new]) == [new]
    assert successor.unexpected(ROOT, "07_trees_and_barriers", [known]) == [known]
    [gone] = successor.unexpected(ROOT, LECTURE, [])
    assert "no longer finds" in str(gone) and "'warp-max'" in str(gone)


@pytest.mark.rehearsal
@pytest.mark.skipif(
    sys.platform != "linux",
    reason="numba-cuda-mlir reaches the virtual GPU through the driver's library: Linux alone",
)
def test_a_lecture_runs_on_numba_cuda_mlir():
    """Only there the check 'warp-max' refuses the solution."""
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUALGPU_NUMBA"}
    ran = subprocess.run(
        [sys.executable, "-m", "gpucourse", "check", "--successor", LECTURE],
        cwd=ROOT,
        text=True,
        capture_output=True,
        env=environment,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 rehearsed on numba-cuda-mlir 0." in ran.stdout


def test_one_that_is_not_listed_is_told():
    ran = subprocess.run(
        [sys.executable, "-m", "gpucourse", "check", "--successor", "03_z_mass"],
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    assert ran.returncode == 1
    assert ran.stdout.startswith("course/successor.toml does not list 03_z_mass; it lists: 06_")
