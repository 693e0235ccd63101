"""A process whose numba.cuda is not hooked, as on a machine with a GPU, and whose driver fails."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import tempfile
import textwrap
from functools import cache
from pathlib import Path

START = """
import numpy as np
import virtualgpu
from numba import cuda
from virtualgpu.numba.beside_gpu import reroute

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


# Every body runs in a fork of one process that has imported all this, which takes 2 s.
SERVE = """
import json
import os
import sys
import traceback

for line in sys.stdin:
    body, folder = json.loads(line)
    child = os.fork()
    if child == 0:
        for number in (1, 2):
            os.dup2(os.open(f"{folder}/{number}", os.O_WRONLY | os.O_CREAT), number)
        status = 1
        try:
            exec(body, {name: globals()[name] for name in
                        ("np", "virtualgpu", "cuda", "reroute", "scale", "too_far", "add_all")})
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@cache
def _server() -> subprocess.Popen:
    code = "import os\nos.environ['NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS'] = '0'\n" + START + SERVE
    process = subprocess.Popen(
        [sys.executable, "-c", code], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(process.communicate)  # no more input: it ends
    return process


def run(body: str) -> str:
    """Run Python there; what it printed. A body that raises, or ends its process, fails."""
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        server.stdin.write(json.dumps([textwrap.dedent(body), folder]) + "\n")
        server.stdin.flush()
        status = server.stdout.readline()
        assert status == "0\n", Path(folder, "2").read_text()
        return Path(folder, "1").read_text()


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
