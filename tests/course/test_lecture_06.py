"""What the text of "Numba CUDA" says is what its cells show."""

from __future__ import annotations

import re

import numpy as np

from virtualgpu.errors import LaunchError


def test_the_gpu_gives_what_python_gives(shown):
    names = shown["the-question"].names
    by_python = [names["pair_mass"](*row) for row in zip(*names["columns"], strict=True)]
    assert names["mass"].size == 13_114 == len(by_python)
    # In float32 the two cosines of a light pair cancel: only its last digits differ.
    assert np.allclose(names["mass"], by_python, rtol=1e-4, atol=0.05)
    assert 103 * 128 - 13_114 == 70
    assert shown["the-spectrum"].names["peaks"] == [3, 9, 91]


def test_a_kernel_returns_nothing(shown):
    assert "No conversion from float32 to none" in str(shown["kernel-returns"].error)
    assert "Unknown attribute 'append'" in str(shown["what-does-not-compile"].error)


def test_every_launch_of_a_grid_stride_loop_is_right(shown):
    assert shown["launch-ways"].text.count("True") == 3


def test_a_host_array_is_copied_both_ways_and_numba_says_so(shown):
    values, *warnings = shown["copies"].text.splitlines()
    assert values == "[2. 4. 6. 8.]"
    assert any("copy overhead" in warning for warning in warnings)


def test_types_and_layout_decide_what_is_compiled(shown):
    lines = [line for line in shown["types"].text.splitlines() if "apart" in line]
    assert [line.rsplit(": ")[1] for line in lines] == [
        "compiled",
        "known already",
        "known already",
        "compiled",
    ]
    assert shown["types"].text.count("'A'") == 1


def test_one_constant_makes_the_arithmetic_double(shown):
    body = shown["pipeline"].text
    assert [name for name in ("cvt.f64.f32", "mul.f64", "cvt.rn.f32.f64") if name not in body] == []
    assert "$L__BB0_2;" in body and "ret;" in body  # from the guard's branch to the end


def test_the_wrong_order_of_indices_moves_four_times_as_much(shown):
    rows, columns = (int(n) for n in re.findall(r"moved: (\d+)", shown["x-is-the-column"].text))
    assert columns == 4 * rows
    assert shown["x-is-the-column"].text.count("right: True") == 2


def test_a_block_of_2048_threads_is_refused(shown):
    error = shown["too-large"].error
    assert isinstance(error, LaunchError)
    assert "1024" in str(error)


def test_ufuncs_are_as_numpy_and_stay_on_the_device(shown):
    assert shown["ufunc"].text == "as NumPy: True   both on the device: True\n"
