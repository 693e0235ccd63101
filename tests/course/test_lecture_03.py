"""What the text of "The walk" says is what its cells show."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gpucourse.views.results import common_clock, recorded

pytestmark = pytest.mark.rehearsal


@pytest.mark.parametrize("cell", ["pycuda", "cupy", "elementwise", "raw", "numba", "jax"])
def test_every_tool_gives_the_times_of_numpy(shown, cell: str):
    assert "same times: True" in shown[cell].text and "False" not in shown[cell].text


def test_solution_of_entered_is_the_negative_root(shown):
    names = shown["the-question"].names
    a, b, c = (names[name] for name in "abc")
    past = (-b - np.sqrt(b * b - 4 * a * c)) / (2 * a)
    assert (past < 0).all() and np.allclose(a * past**2 + b * past + c, 0)


def test_arrays_launch_nine_kernels_and_one_kernel_moves_32_bytes(shown):
    assert shown["nine"].text.count("\n") >= 9
    assert len(shown["elementwise"].names["launched"]) == 1
    assert re.findall(r"(\d+) bytes for each", shown["raw"].text) == ["32", "32"]
    assert re.findall(r"(\d+) bytes for each", shown["numba"].text) == ["32"]
    assert shown["copies"].text.rstrip().endswith("together 32")


def test_jax_writes_down_nine_operations_and_compiles_one_loop(shown):
    assert "9 operations written down, 1 loop compiled" in shown["jax"].text
    exact, by_differences = re.findall(r"-?\d+\.\d{4}", shown["jax-then"].text)
    assert exact == by_differences


def test_recorded_times_are_those_of_the_text():
    rows = recorded().of("quadratic.float64")
    clock = common_clock(*rows)
    took = {row.contender: row.median(clock) for row in rows}
    assert len(took) == 6 and "pycuda" not in took
    assert [f"{took[name]:.2f}" for name in ("cupy-arrays", "cupy-elementwise", "cupy-fuse")] == [
        "3.11",
        "0.48",
        "0.75",
    ]
    one_kernel = [took[name] for name in ("cpp", "cupy-elementwise", "numba", "jax")]
    assert (f"{min(one_kernel):.2f}", f"{max(one_kernel):.2f}") == ("0.48", "0.51")
