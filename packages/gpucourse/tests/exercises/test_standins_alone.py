"""A notebook without numba.cuda: the stand-ins alone send launches to the virtual GPU."""

from __future__ import annotations

import os
import subprocess
import sys

BEGIN = """
import sys
import numpy as np
import virtualgpu
assert not virtualgpu.answers()
virtualgpu.activation.use_standins()
assert virtualgpu.answers() and not virtualgpu.is_active()
"""

LAUNCH = '''
from gpucourse.grading.contract import Launch, PropertyFailed
from gpucourse.grading.testing.notebook_judge import NotebookJudge

def source(target):
    return f"""extern "C" __global__ void kernel(const int *x, int *out) {{
        atomicAdd(out, 1); {target}; }}"""

def launched(text):
    out = np.zeros(1, np.int32)
    arrays = np.arange(32, dtype=np.int32), out
    return NotebookJudge(dict).launch_source(
        text, Launch("kernel", (1, 1, 1), (32, 1, 1), arrays, schedules=0))

assert launched(source("")).counters.global_atomics == 32
try:
    launched(source("out[0] = x[threadIdx.x]"))
except PropertyFailed as failed:
    assert "race" in str(failed), failed
else:
    raise AssertionError("a race was not searched for")
assert not virtualgpu.is_active()
'''

EXCHANGE = """
import pycuda.autoinit
from pycuda import driver
from pycuda.compiler import SourceModule
from gpucourse.exercises.host_side import with_other_values
from gpucourse.exercises.checks import CheckFailed

twice = SourceModule(
    "__global__ void twice(double *x) { x[threadIdx.x] *= 2; }").get_function("twice")
x, others = np.random.default_rng(1).normal(size=(2, 40))

def by_kernel():
    y = x.copy()
    twice(driver.InOut(y), block=(40, 1, 1), grid=(1, 1))
    return y

assert (with_other_values(by_kernel, [(x, others)], "for x", "") == 2 * others).all()
try:
    with_other_values(lambda: 2 * x, [(x, others)], "for x", "")
except CheckFailed as failed:
    assert "on the host" in str(failed), failed
else:
    raise AssertionError("work of the host was taken for a kernel's")
assert not virtualgpu.is_active()
"""


def run(program: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert ran.returncode == 0, ran.stderr


def test_a_launched_source_is_counted_and_searched_for_races():
    run(LAUNCH)


def test_values_are_exchanged_on_their_way_to_the_device():
    run(EXCHANGE)
