"""On a machine with a GPU a check launches on the virtual one: a kernel that never ends would hang
the learner's GPU, and nothing but a restart would free it. CuPy and PyCUDA launch on the real one
all the same: their checks say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from conftest import REPOSITORY
from gpucourse.course.registry import Lecture, load_course
from lecture_cells import OWN_PROCESS

pytestmark = pytest.mark.slow

COURSE = load_course(REPOSITORY)
LECTURES = [
    lesson.id
    for lesson in COURSE.lessons
    if isinstance(lesson, Lecture) and not COURSE.puzzles(lesson)
]
#: Lecture 23's solution needs what the cells before it register: taken by itself it isn't right.
WHOLE = {"nested"}


@pytest.mark.rehearsal
@pytest.mark.parametrize("lecture", LECTURES)
def test_no_check_launches_an_answer_on_a_real_gpu(lecture):
    code = REPOSITORY / "tests" / "support" / "checks_beside_a_gpu.py"
    found = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(
        [sys.executable, code, lecture],
        capture_output=True,
        text=True,
        env=os.environ | found | OWN_PROCESS.get(lecture, {}),
    )
    assert ran.returncode == 0, ran.stderr[-8000:]
    said = [json.loads(line) for line in ran.stdout.splitlines()]
    assert said
    assert [one for one in said if one["launched"]] == []
    assert [one for one in said if one["unstopped"] and not one["warned"]] == []
    assert [one for one in said if not one["passed"] and one["exercise"] not in WHOLE] == []
