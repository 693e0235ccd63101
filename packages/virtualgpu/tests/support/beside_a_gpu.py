"""A process whose numba.cuda is not hooked, as on a machine with a GPU, and whose driver fails."""

from __future__ import annotations

import subprocess
import sys
import textwrap

START = """
import numpy as np
import virtualgpu
from numba import cuda
from virtualgpu.numba.reroute import reroute

@cuda.jit
def scale(values, factor, out):
    i = cuda.grid(1)
    if i < values.size:
        out[i] = values[i] * factor

@cuda.jit
def too_far(out):
    out[cuda.grid(1)] = 1.0

@cuda.jit
def add_all(values, total):
    total[0] += values[cuda.grid(1)]
"""


def run(body: str) -> str:
    code = "import os\nos.environ['NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS'] = '0'\n" + START
    done = subprocess.run(
        [sys.executable, "-c", code + textwrap.dedent(body)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

#: A kernel that iterates over Awkward Arrays, as on a machine where activate() found a GPU.
AWKWARD = """
import awkward as ak
from virtualgpu import activation

activation.gpu_is_present = lambda: True
assert not virtualgpu.activate()
ak.numba.register_and_check()

@cuda.jit(extensions=[ak.numba.cuda])
def totals(events, out):
    i = cuda.grid(1)
    if i < len(events):
        out[i] = 0
        for hit in events[i]:
            out[i] += hit.x * hit.y

events = ak.zip({"x": ak.Array([[1.0, 2.0], [], [3.0]]), "y": [[5, 6], [], [7]]})
"""
