"""What the text of "Compiling Python" says is what its cells show, times apart."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.rehearsal


def test_the_first_call_compiles_and_the_answer_stays(shown):
    answers = {line.split(" GeV")[0] for line in shown["the-question"].text.splitlines()}
    assert len(answers) == 1
    assert len(shown["the-question"].names["mass_around_z"].signatures) == 3  # by the end


def test_types_and_layout_compile_again_lengths_do_not(shown):
    lines = shown["types"].text.splitlines()
    assert ["again" in line for line in lines] == [True, False, True]


def test_numpy_makes_nine_arrays_as_the_jaxpr_has_nine_lines(shown):
    assert shown["passes"].text.startswith("9 arrays of 104,912 bytes")
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown["below-jax"].text)
    assert len(re.findall(r"^ +\w:f32\[13114\] = ", text, re.MULTILINE)) == 9
    assert "after fusing: 1 step in place of nine" in text
    assert "stablehlo.multiply" in text


def test_the_ufunc_broadcasts(shown):
    assert shown["vectorize"].names["back_to_back"].shape == (2, 6)
    assert "same masses: True" in shown["vectorize"].text


def test_a_sum_over_prange_is_right_and_a_histogram_never_counts_too_much(shown):
    by_numba, by_numpy = re.findall(r"([\d,]+) GeV", shown["prange"].text)
    assert by_numba == by_numpy
    assert min(shown["prange"].names["missing"]) >= 0


def test_a_dictionary_is_refused_and_a_named_tuple_is_not(shown):
    assert "Cannot determine Numba type of <class 'dict'>" in str(shown["refuses"].error)
    assert shown["named-tuple"].text == "True\n"


def test_a_global_is_stale_and_in_jax_for_some_lengths_only(shown):
    found = re.findall(r"([\d.]+): (\d+)", shown["stale"].text)
    assert len({number for _, number in found[:2]}) == 1
    jax, jnp = shown["jax"].names["jax"], shown["jax"].names["jnp"]
    scope = {"jnp": jnp, "cut": 60.0}
    count = jax.jit(eval("lambda values: jnp.sum(values > cut)", scope))
    values = jnp.array([50.0, 70.0, 90.0])
    first = count(values)
    scope["cut"] = 85.0
    assert (first, count(values), count(values[1:])) == (2, 2, 1)


def test_jax_runs_python_once(shown):
    assert shown["jax"].text.count("Python is running") == 1
    assert "same masses: True" in shown["jax"].text


def test_tracing_has_no_values(shown):
    assert "depends on the value of the argument mass" in str(shown["branch"].error)
    assert "must be concrete" in str(shown["mask"].error)


def test_llvm_multiplies(shown):
    assert "fmul" in shown["below-llvm"].text


def test_five_ways_do_the_same_work_in_the_same_precision(shown):
    names = shown["five-ways-timed"].names  # the cell itself compares the results and their dtype
    assert {values.size for values in names["coefficients"]} == {1_000_000}
    assert list(names["best_ms"]) == ["Python", "NumPy", "Numba", "Numba, parallel", "JAX"]
    assert set(names["way"].__code__.co_names) >= {"block_until_ready"}
    assert not names["jax"].config.jax_enable_x64


def test_python_is_the_slowest_by_far_and_only_the_compilers_compile(shown):
    best, compiling = (shown["five-ways-timed"].names[name] for name in ("best_ms", "compile_ms"))
    assert best["Python"] > 5 * max(ms for name, ms in best.items() if name != "Python")
    assert compiling["Python"] == compiling["NumPy"] == 0
    # "If you need the roots once, NumPy is done before the others have compiled."
    assert all(compiling[name] > best["NumPy"] for name in ("Numba", "Numba, parallel", "JAX"))


def test_published_times_are_told_apart_from_those_of_this_computer(shown):
    assert shown["five-ways-timed"].names["PUBLISHED"] == {
        "NumPy": 22.3,
        "Numba": 6.86,
        "Numba, parallel": 1.98,
        "JAX": 2.24,
    }
    row = next(line for line in shown["five-ways-timed"].text.splitlines() if line[:5] == "NumPy")
    assert row.split()[-2:] == ["22.30", "4.46"]
