"""Every public call of :mod:`gpucourse`, twice in one process, as in a notebook that stays open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gpucourse
from gpucourse.publish import commands
from small_course import write_course

# A call of each name; what it needs stands above them.
CALLS = """
import warnings
warnings.simplefilter("ignore")
import virtualgpu
virtualgpu.activate()
import numpy as np
from numba import cuda
import gpucourse

@cuda.jit
def sums(x, total):
    tile = cuda.shared.array(8, np.float64)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    for step in (4, 2, 1):
        cuda.syncthreads()
        if t < step:
            tile[t] += tile[t + step]
    total[0] = tile[0]

x, total = np.arange(8.0), np.zeros(1)
launch = sums, 1, 8, x, total
calls = {
    "progress": lambda: gpucourse.progress(),
    "save": lambda: gpucourse.save(),
    "restore": lambda: gpucourse.restore(),
    "report": lambda: gpucourse.report(*launch),
    "memory": lambda: gpucourse.memory(*launch),
    "race": lambda: gpucourse.race(*launch),
    "timeline": lambda: gpucourse.timeline(*launch),
    "tree": lambda: gpucourse.tree(*launch),
    "beside": lambda: gpucourse.beside(gpucourse.memory(*launch)),
    "compare": lambda: gpucourse.compare({"a": np.sum, "b": np.add.reduce}, x),
}
"""
TWICE = """
for name, call in calls.items():
    print(name, *(type(call()).__name__ for _ in range(2)))
print(*(callable(getattr(gpucourse, name)) for name in gpucourse.VERBS for _ in range(2)))
"""


def test_each_public_call_answers_a_second_time(tmp_path: Path, monkeypatch):
    course = write_course(tmp_path / "course")
    monkeypatch.chdir(course)
    commands.build()
    environment = os.environ | {"XDG_DATA_HOME": str(tmp_path / "data")}
    done = subprocess.run(
        [sys.executable, "-c", CALLS + TWICE],
        cwd=course,
        text=True,
        env=environment,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    *answers, verbs = [line.split() for line in done.stdout.splitlines()]
    assert {name for name, *_ in answers} == {*gpucourse.VIEWS, *gpucourse.WORK}
    assert all(first == second for _, first, second in answers)
    assert verbs == ["True"] * 2 * len(gpucourse.VERBS)
