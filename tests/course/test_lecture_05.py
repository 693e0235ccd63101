"""What the text of "CuPy: NumPy on the device" says is what its cells show."""

from __future__ import annotations

import re

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import load_lesson


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
    launched = shown["launches"].names["launched"]
    assert len(launched) == 9 and launched.exact
    assert launched.names[1].startswith("cupy_square")
    assert "together 22: 176 bytes" in shown["launches"].text
    # What stands in where a real GPU keeps no list is what is counted here.
    assert shown["launches"].names["arrays"] == [2, 2, 2, 3, 3, 2, 3, 2, 3]
    names = shown["fused"].names
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


def test_the_kernel_without_a_guard_is_caught_and_the_other_agrees(shown):
    names = shown["raw"].names
    cp = names["cp"]
    text = str(
        names["gpucourse"].report(
            cp.RawKernel(names["UNGUARDED"], "wall"), 8, 128, *names["few"], cp.zeros(1000)
        )
    )
    assert "bad address" in text and "(23 more threads do the same)" in text
    assert shown["raw-guarded"].text == "the same times: True\n"


def test_wrong_types_run_and_are_named(shown):
    text = shown["raw-types"].text
    assert text.count("is an array of float32; the kernel's parameter is double *") == 3
    # c / a, read as doubles, are -1 times the same garbage: (-1 + √5) / 2 of float32's ulp.
    assert not np.allclose(
        shown["raw-types"].names["d_out"].get(),
        (-1 + np.sqrt(5)) / 2 * np.ones(5),
        rtol=0,
        atol=1e-9,
    )


def test_the_picture_of_gaps_has_33_pieces(shown):
    names = shown["raw-memory"].names
    with virtualgpu.profile() as profile:
        names["gaps"]((1,), (64,), (names["in_order"], names["cp"].zeros(63), np.int32(64)))
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
