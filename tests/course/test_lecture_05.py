"""What the text of "CuPy: NumPy on the device" says is what its cells show."""

from __future__ import annotations

import re

import numpy as np
import pytest

import virtualgpu
from gpucourse.exercises.checks import load_lesson

pytestmark = pytest.mark.rehearsal


def test_one_function_serves_both(shown):
    cell = shown["the-question"]
    assert "agree: True" in cell.text
    names = cell.names
    # A straight line, followed for that long, is at the wall.
    x = names["x"] + names["vx"] * names["times"]
    y = names["y"] + names["vy"] * names["times"]
    assert np.allclose(np.hypot(x, y), names["RADIUS"])
    assert np.allclose(
        np.sqrt(names["vx"] ** 2 + names["vy"] ** 2 + names["vz"] ** 2), names["LIGHT"]
    )


def test_mixing_and_implicit_conversion_are_refused(shown):
    assert str(shown["mixing"].error) == "Unsupported type <class 'numpy.ndarray'>"
    text = shown["crossings"].text
    assert "np.sqrt(x) is an array of cupy" in text
    assert re.search(r"np.asarray\(x\) +is refused: Implicit conversion", text)
    assert text.count("gives") == 6


def test_the_histogram_is_that_of_the_times(shown):
    names = shown["histogram"].names
    counts, _ = np.histogram(names["times"], 100, (3, 13))
    assert counts.tolist() == names["counts"].tolist()
    assert round(names["peak"], 1) == 3.7  # straight at the wall: 1.1 m at 0.3 m/ns


def test_where_cupy_differs_from_numpy(shown):
    lines = re.findall(r"^(.{18}) (numpy|cupy) +(.*)$", shown["differences"].text, re.MULTILINE)
    by_line = {}
    for line, library, answer in lines:
        by_line.setdefault(line.strip(), {})[library] = answer
    assert by_line["layers.sum()"] == {"numpy": "np.int64(6)", "cupy": "array(6)"}
    assert all(answer.startswith("IndexError") for answer in by_line["layers[7]"].values())
    wraps = by_line["layers[[1, 7]]"]
    assert wraps["numpy"].startswith("IndexError") and wraps["cupy"] == "array([1, 3])"
    assert "Error" in by_line["sum([1, 2])"]["cupy"]
    assert "Error" in by_line["array(['barrel'])"]["cupy"]


def test_the_formula_needs_seven_arrays_at_once(shown):
    held = re.findall(r"in use: (\d\.\d) arrays, held by the pool: (\d\.\d)", shown["pool"].text)
    assert held == [("3.0", "3.0"), ("4.0", "7.0"), ("3.0", "7.0"), ("3.0", "3.0")]
    error = str(shown["out-of-memory"].error)
    asked, had, limit = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) bytes", error))
    assert had == 6 * asked and had < limit < had + asked


def test_nine_kernels_move_176_bytes_and_one_32(shown):
    names = shown["fused"].names
    with virtualgpu.launches() as nine:
        names["time_to_wall"](names["d_a"], names["d_b"], names["d_c"])
    assert len(nine) == 9 and nine.exact
    assert sum(one.details["dtypes"].count("float64") for one in nine) == 22 == 176 / 8
    assert len(names["launched"]) == 1 and names["fused_bytes"] == 32
    assert "the same times: True" in shown["fused"].text
    assert 176 / 32 == 5.5


def test_one_letter_is_one_type(shown):
    assert "the same times: True" in shown["elementwise"].text
    assert "(2, 3) in float32" in shown["elementwise"].text
    error = str(shown["mismatch"].error)
    assert "float32" in error and "float64" in error


def test_a_reduction_of_ones_own_is_one_kernel(shown):
    names = shown["reduction"].names
    assert len(names["in_steps"]) == 3 and len(names["at_once"]) == 1
    assert "agree: True  along an axis: [1. 1. 1.]" in shown["reduction"].text


def test_the_picture_of_begins_has_33_pieces(shown):
    names = shown["raw-memory"].names
    with virtualgpu.profile() as profile:
        begin = names["cp"].zeros(64, np.int8)
        names["begins"]((1,), (64,), (names["in_order"], 0.01, begin, np.int32(64)))
    assert profile.counters.global_load_sectors == 33


def test_arrays_are_shared_and_not_copied(shown):
    lines = shown["interchange"].text.splitlines()
    names = shown["interchange"].names
    assert np.allclose(names["d_few"].get(), 1000 * names["times"][:3])
    assert lines[1] == "Numba sees [103.7 104.1]"
    assert lines[2] == lines[3]


def test_no_gpu_times_are_made_up(shown):
    assert shown["measuring"].text.count("nan s: no GPU ran") == 2
    nine, one = re.findall(r"at least (\d\.\d\d) ms", shown["bound"].text)
    assert float(nine) == round(176e7 / 3.35e12 * 1e3, 2)
    assert float(one) == round(32e7 / 3.35e12 * 1e3, 2)


def test_infinity_by_cudas_name_is_accepted(shown):
    cp = shown["reduction-exercise"].names["cp"]
    first = cp.ReductionKernel(
        "float64 time, int8 lid",
        "float64 first",
        "lid ? time : CUDART_INF",
        "min(a, b)",
        "first = a",
        "CUDART_INF",
        "first_at_lid",
    )
    outcome = load_lesson("05_cupy").outcome("reduction", first)
    assert outcome.passed, outcome.message
