"""What the text of "JAX: arrays, compiled" says is what its cells show, times apart."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = pytest.mark.rehearsal


def test_the_derivative_is_that_of_differences_and_vanishes_at_the_best_angle(shown):
    names = shown["the-question"].names
    angles, metres, slopes = (np.asarray(names[name]) for name in ("angles", "metres", "slopes"))
    by_differences = np.gradient(metres, angles)
    # Made of steps of 0.02 s, the distance has small kinks: there, differences miss.
    assert np.median(np.abs(by_differences - slopes)) < 0.1
    assert (np.diff(slopes[::50]) < 0).all()  # but for the wiggles
    assert 35 < np.degrees(angles[names["best"]]) < 42
    assert abs(slopes[names["best"]]) < 0.5


def test_types_and_shapes_trace_again_values_do_not(shown):
    lines = shown["trace"].text.splitlines()
    assert ["traced" in line for line in lines] == [True, False, True, True, False, True, False]


def test_what_fails_says_what_the_text_says(shown):
    assert "Non-hashable static arguments are not supported" in str(shown["static"].error)
    assert "a tuple" in shown["static"].text and "a list" not in shown["static"].text
    assert ".at[idx].set(y)" in str(shown["immutable"].error)
    assert "Array has been deleted" in str(shown["donate"].error)


def test_indices_come_often_and_out_of_bounds_are_quiet(shown):
    numpy, jax, read, write = shown["at"].text.splitlines()
    assert numpy.endswith("[1. 0. 0. 0. 0.]")
    assert jax.endswith("[3. 0. 0. 0. 0.]")
    assert read.endswith(" 4.0")
    assert write.endswith("[0. 1. 2. 3. 4.]")


def test_python_loops_are_unrolled(shown):
    rows = re.findall(r"([\d,]+) lines .* (\d+) with", shown["loops"].text)
    python = [int(row[0].replace(",", "")) for row in rows]
    assert python[2] > 9 * python[1] > 30 * python[0]
    assert len({row[1] for row in rows}) == 1


def test_where_spoils_the_derivative_unless_bad_values_are_kept_out(shown):
    lines = shown["where-trap"].text.splitlines()
    assert [line.split()[-1] for line in lines] == ["nan", "0.0"]


def test_the_same_key_gives_the_same_number(shown):
    same, split = (line.split() for line in shown["keys"].text.splitlines()[:2])
    assert same[0] == same[1]
    assert split[0] != split[1]


def test_a_changed_global_is_not_in_the_jaxpr(shown):
    before, after, *jaxpr = shown["stale"].text.splitlines()
    assert before.split()[1:] == after.split()[1:] == ["[0.98", "0.98", "0.98]"]
    assert "mul 0.01999999" in "".join(jaxpr) and "0.5" not in "".join(jaxpr)


def test_the_picture_of_tracing_is_what_jax_makes_of_the_energy():
    def energy(mass, speed):
        return mass * speed**2 / 2

    example = 1.0, jnp.ones(3)
    names = [equation.primitive.name for equation in jax.make_jaxpr(energy)(*example).eqns]
    assert [name for name in names if name != "convert_element_type"] == [
        "integer_pow",
        "mul",
        "div",
    ]
    compiled = jax.jit(energy).lower(*example).compile().as_text()
    assert len(re.findall(r"^%?\w*fus\w+ \(|^%fused", compiled, re.MULTILINE)) == 1
    assert "constant(0.5)" in compiled and " divide(" not in compiled
