"""Lines and branches of kernels in coverage.py's data, from what the threads reached."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from cuda_project import run
from warm_python import run_module

# Each line of a kernel says whether it runs ("-": no thread comes there), and each line with a
# branch how many of its two ways are taken.
KERNELS = """
import math

from numba import cuda, float64


@cuda.jit(device=True)
def clamp(x, low, high):
    if x < low:  # runs 1
        return low  # -
    if x > high:  # runs 2
        return high  # runs
    return x  # runs


@cuda.jit
def both_sides(a, out, flag):
    i = cuda.grid(1)  # runs
    if i >= out.size:  # runs 2
        return  # runs
    if flag:  # runs 1
        y = a[i] * 2  # runs
    else:
        x = a[i] + 1  # -
        y = x * 3  # -
    if a[i] > 100:  # runs 1
        z = 1.0  # -
    else:
        z = 2.0  # runs
    if y > 4:  # runs 2
        z += 1  # runs
    out[i] = clamp(y + z,  # runs
                   0.0, 10.0)


@cuda.jit
def loops(a, out):
    i = cuda.grid(1)  # runs
    total = 0.0  # runs
    for k in range(a.size):  # runs 2
        if a[k] < 0:  # runs 1
            continue  # -
        if a[k] == 2:  # runs 2
            continue  # runs
        if a[k] > 50:  # runs 1
            break  # -
        total += a[k]  # runs
    while total > 10000:  # runs 1
        total /= 2  # -
    for k in range(4):  # runs 2
        if k == 2:  # runs 2
            pass  # runs
        elif total == 5:  # runs 1
            total = math.sin(total)  # -
        else:
            total += 0  # runs
    for k in range(a.size):  # runs 2
        if a[k] == 99:  # runs 1
            a[k] = 5  # -
    if i < out.size:  # runs 2
        out[i] = total  # runs


@cuda.jit
def tree(a, out):
    s = cuda.shared.array(32, float64)  # runs
    t = cuda.threadIdx.x  # runs
    s[t] = a[t]  # runs
    cuda.syncthreads()  # runs
    half = 16  # runs
    while half > 0:  # runs 2
        if t < half:  # runs 2
            s[t] += s[t + half]  # runs
        cuda.syncthreads()  # runs
        half //= 2  # runs
    if t == 0:  # runs 2
        out[0] = s[0]  # runs
        if out[0] < 0:  # runs 1
            return  # -


@cuda.jit
def fails(a):
    i = cuda.grid(1)  # runs
    if i == 0:  # runs 2
        a[i] = 1  # runs
    a[i + 1000] = 1  # runs
    a[i] = 2  # -


@cuda.jit
def never(a):
    a[0] = 1  # -
"""

TESTS = """
import numpy as np
import pytest
from numba import cuda

import kernels
import virtualgpu


def test_both_sides():
    kernels.both_sides[2, 32](cuda.to_device(np.arange(40.0)), cuda.to_device(np.zeros(40)), True)


def test_loops():
    kernels.loops[1, 32](cuda.to_device(np.arange(10.0)), cuda.to_device(np.zeros(20)))


def test_tree():
    kernels.tree[1, 32](cuda.to_device(np.arange(32.0)), cuda.to_device(np.zeros(1)))


def test_fails():
    with pytest.raises(virtualgpu.MemoryAccessError):
        kernels.fails[1, 32](cuda.to_device(np.zeros(32)))
"""
FILES = {"kernels.py": KERNELS, "test_kernels.py": TESTS}
PLUGINS = ("--virtual-gpu", "-p", "pytest_cov", "--cov=kernels", "--cov-report=json")


def expected(text: str) -> tuple[set[int], set[int], dict[int, int]]:
    """Return the lines that run, those that do not, and the ways taken from lines with branches."""
    ran, missing, ways = set(), set(), {}
    for number, line in enumerate(text.splitlines(), 1):
        if said := re.search(r"# (runs|-)(?: (\d))?$", line):
            (ran if said[1] == "runs" else missing).add(number)
            if said[2]:
                ways[number] = int(said[2])
    return ran, missing, ways


def measured(folder: Path, name: str) -> dict:
    return json.loads((folder / "coverage.json").read_text())["files"][name]


def agrees(found: dict, text: str) -> None:
    ran, missing, ways = expected(text)
    assert set(found["missing_lines"]) == missing
    assert ran <= set(found["executed_lines"])
    if "executed_branches" in found:
        taken = [start for start, _ in found["executed_branches"]]
        assert {line: taken.count(line) for line in ways} == ways


@pytest.mark.parametrize(
    "options",
    [
        (),
        # The same lines and branches as from xdist's worker.
        pytest.param(("--cov-branch",), marks=pytest.mark.rehearsal),
        ("--cov-branch", "-p", "xdist", "-n1"),
    ],
)
def test_lines_that_threads_reached_count(tmp_path: Path, options: tuple[str, ...]):
    ran = run(tmp_path, *PLUGINS, *options, files=FILES)
    assert ran.status == 0, ran.text
    agrees(measured(tmp_path, "kernels.py"), KERNELS)


@pytest.mark.parametrize("unchecked", [(), ("--virtual-gpu-unchecked",)])
def test_native_code_tells_the_same(tmp_path: Path, unchecked: tuple[str, ...]):
    ran = run(
        tmp_path, *PLUGINS, "--cov-branch", *unchecked, files=FILES, VIRTUALGPU_NATIVE="always"
    )
    assert ran.status == 0, ran.text
    agrees(measured(tmp_path, "kernels.py"), KERNELS)


TILES = """
import cuda.tile as ct
import numpy as np
from numba import cuda


@ct.kernel
def add(a, b, tile: ct.Constant[int], mode: int):
    at = ct.bid(0)  # runs
    x = ct.load(a, (at,), (tile,))  # runs
    if mode > 2:  # runs
        x = x * 2  # runs
    else:
        x = x + 5  # -
    for k in range(mode):  # runs
        x = x + 1  # runs
        if k == 100:  # runs
            x = x - 1  # -
    if tile > 100:  # runs
        x = x + 9  # -
    ct.store(b, (at,), x)  # runs


def launch():
    one = cuda.to_device(np.ones(64, np.float32))
    ct.launch(cuda.default_stream(), (4,), add, (one, cuda.device_array_like(one), 16, 3))
"""
SCRIPT = """
import virtualgpu

virtualgpu.activate(force=True)

import tiles

tiles.launch()
"""


def test_coverage_run_measures_tiles(tmp_path: Path):
    (tmp_path / "tiles.py").write_text(TILES)
    (tmp_path / "script.py").write_text(SCRIPT)
    for arguments in (["run", "--branch", "--source=.", "script.py"], ["json"]):
        ran = run_module("coverage", arguments, tmp_path, os.environ)
        assert ran.returncode == 0, ran.stderr
    agrees(measured(tmp_path, "tiles.py"), TILES)


def test_a_file_that_is_not_measured_stays_out(tmp_path: Path):
    ran = run(
        tmp_path, *PLUGINS[:3], "--cov=test_kernels", "--cov-report=json", "-k", "tree", files=FILES
    )
    assert ran.status == 0, ran.text
    assert list(json.loads((tmp_path / "coverage.json").read_text())["files"]) == [
        "test_kernels.py"
    ]
