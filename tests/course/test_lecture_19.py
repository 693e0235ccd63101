"""What the text of "A port, done" says is what its cells show."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytestmark = pytest.mark.rehearsal


def test_a_second_call_adds_the_same_again_and_the_signal_has_changed(shown):
    text = shown["twice"].text
    assert set(re.findall(r"\d\.\d*", text)) == {"2."}
    assert "signal changed: True" in text


def test_three_samples_in_one_pixel_leave_one(shown):
    assert "sky[seen] += rest:     [0. 1. 1. 0.]" in shown["lost"].text
    assert "[0. 1. 3. 0.]" in shown["lost"].text


def test_every_port_does_what_the_loop_does(shown):
    for cell in ("numpy", "jax", "cuda"):
        assert "the night: True - your test: True" in shown[cell].text
    assert "the night: True" in shown["fastest"].text


def test_jax_refuses_to_change_an_array(shown):
    assert re.search(r"TypeError: .*\.at\[", str(shown["mutable"].error), re.DOTALL)


def test_half_of_the_rectangle_is_padding(shown):
    assert 0.45 < shown["rectangle"].names["inside"].mean() < 0.6


def test_each_night_is_traced_and_rounded_up_once_for_both(shown):
    lines = shown["nights"].text.splitlines()
    assert [int(re.search(r"times traced so far: (\d+)", line)[1]) for line in lines] == [
        1,
        2,
        1,
        1,
    ]
    assert all("True" in line for line in lines[2:])


def test_without_atomics_the_map_has_a_race(shown):
    text = shown["atomics"].text
    assert "1 launch: 1 finding\n1. race: " in text
    assert "(sky[21] of 64)" in text
    assert "at the same line" in text


def test_lanes_wait_and_read_far_apart(shown):
    lost, moved, enough = re.findall(r"[\d,]+(?=%|,? where| would)", shown["cuda-picture"].text)
    assert int(lost) > 20
    assert int(moved.replace(",", "")) > 3 * int(enough.replace(",", ""))


def test_on_this_processor_the_compiled_loop_is_ahead(shown):
    steps = shown["fastest"].names["steps"]
    assert steps["the loop, Numba"][1] < min(steps[name][1] for name in ("NumPy", "JAX"))
    assert steps["Numba CUDA"][1] is None, "a virtual GPU has no clock"
    assert steps["the loop, Numba"][1] < steps["the loop, Python"][1] / 10


def test_the_map_looks_like_the_sky(shown):
    names = shown["the-map"].names
    seen = names["sky"] / names["hits"]
    assert np.corrcoef(seen, names["SKY"])[0, 1] > 0.9
