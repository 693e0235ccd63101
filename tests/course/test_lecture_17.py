"""What the text of "JAX in depth" says is what its cells show; other right answers pass."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from wrong_answers import answers_of

WRONG = answers_of("17_jax_in_depth")

pytestmark = pytest.mark.rehearsal


def test_none_is_no_leaf_and_keys_are_sorted(shown):
    assert shown["leaves"].names["leaves"] == [0.1, 0.2, 7, 3.0]
    # JAX 0.12 names the branch of the tree too.
    assert "decay" in str(shown["two-trees"].error)


def test_a_carry_keeps_its_shape_and_what_is_collected_is_stacked(shown):
    said = str(shown["grow"].error)
    assert "carry input and carry output must have equal types" in said
    assert "float32[0]" in said and "float32[1]" in said
    assert shown["cumsum"].text == "at the end: 6.0   all of them: [3. 4. 6.]\n"
    with pytest.raises(TypeError, match=r"int32.*float32"):
        jax.lax.scan(lambda total, x: (total + x, None), jnp.int32(0), jnp.array([0.5]))


def test_a_descent_crawls_because_the_misfit_bends_unevenly(shown):
    names = shown["crawl"].names
    losses, true, walked = names["losses"], names["true"], names["walked"]
    assert losses[300] < losses[0] / 4 and losses[-1] > 1.02 * names["loss"](true)
    decay = [one["swing"]["decay"] for one in (names["guess"], walked, true)]
    assert abs(decay[1] - decay[0]) < 0.1 * (decay[2] - decay[0]), "hardly moved"
    flat, as_tree = ravel_pytree(true)
    bends = np.diag(jax.hessian(lambda flat: names["loss"](as_tree(flat)))(flat))
    of = as_tree(bends)["swing"]
    assert of["period"] > 1e4 * of["decay"]


def test_the_period_shows_most_after_one_decay_time(shown):
    assert shown["sensitive"].names["largest"] == pytest.approx(40, abs=2.5)


def test_a_mapped_loop_goes_on_for_the_slowest(shown):
    computed = [int(n) for n in re.findall(r"steps computed: (\d+)", shown["slowest"].text)]
    assert computed == [1, 5, 16, 48]


def test_mapped_cond_selects_and_its_slope_is_right(shown):
    one, mapped, slope = shown["cond"].text.splitlines()
    assert one.split()[-1] == "cond" and "cond" not in mapped.split()
    assert mapped.split()[-1] == "select_n" and slope.endswith("[0.   0.25]")


def test_derivatives_of_loops_are_as_the_table_says():
    def halve(x, n):
        return jax.lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] / 2, s[1] + 1), (x, 0))[0]

    with pytest.raises(ValueError, match="Reverse-mode"):
        jax.grad(halve)(1.0, 3)
    assert jax.jacfwd(halve)(1.0, 3) == 0.125
    fixed = lambda x: jax.lax.fori_loop(0, 3, lambda _, x: x / 2, x)  # noqa: E731
    assert jax.grad(fixed)(1.0) == 0.125
    with pytest.raises(ValueError, match="Reverse-mode"):
        jax.jit(jax.grad(lambda x, n: jax.lax.fori_loop(0, n, lambda _, x: x / 2, x)))(1.0, 3)


def test_five_hundred_fits_spread_as_one_hessian_says(shown):
    rows = re.findall(r"([\d.]+) ± ([\d.]+) +500 fits spread by ([\d.]+)", shown["fits"].text)
    assert len(rows) == 5
    for _, error, spread in rows:
        assert float(spread) == pytest.approx(float(error), rel=0.15)
    by_name = dict(zip(("rest", "decay", "period", "phase", "size"), rows, strict=True))
    assert 0.005 < float(by_name["period"][1]) < 0.05
    assert 1 < float(by_name["decay"][1]) < 4


def test_a_callback_has_no_derivative_and_a_wrong_rule_is_believed(shown):
    assert "compiled program, as jnp: True" in shown["own-kernel"].text
    assert "Pure callbacks do not support JVP" in str(shown["own-kernel"].error)
    assert "the slope at 3: 9.0" in shown["own-rule"].text


def test_a_derivative_through_the_kernel_is_the_formulas_and_takes_one_launch(shown):
    rows = re.findall(r"slope by the decay +(-?[\d.]+), launches (\d+)", shown["own-fit"].text)
    (by_jnp, none), (by_kernel, one) = rows
    assert float(by_kernel) == pytest.approx(float(by_jnp), rel=1e-3)
    assert (none, one) == ("0", "1")
    assert shown["own-fit"].text.endswith("mapped: launches 50\n")


def test_the_second_derivative_of_a_rule_is_backwards_twice(shown):
    names = shown["own-fit"].names
    t, fade, by_kernel = names["t"], names["fade"], names["by_kernel"]

    def total(decay, fade=fade):
        return fade(t, decay).sum()

    exact = jax.hessian(lambda decay: jnp.exp(-t / decay).sum())(40.0)
    assert jax.jacrev(jax.jacrev(total))(40.0) == pytest.approx(float(exact), rel=1e-3)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.hessian(total)(40.0)

    @jax.custom_vjp
    def without(t, decay):
        return by_kernel(t, decay)

    def forward(t, decay):
        faded = by_kernel(t, decay)
        return faded, (t, decay, faded)

    without.defvjp(forward, names["backward"])
    with pytest.raises(ValueError, match="do not support JVP"):
        jax.jacrev(jax.jacrev(lambda decay: total(decay, without)))(40.0)


def test_other_right_answers_are_accepted(lesson):
    def descend(loss, parameters, rate):
        flat, as_tree = ravel_pytree(parameters)
        return as_tree(flat - rate * jax.grad(lambda flat: loss(as_tree(flat)))(flat))

    def history(loss, parameters, rate, steps):
        def turn(k, state):
            parameters, losses = state
            losses = losses.at[k].set(loss(parameters))
            return descend(loss, parameters, rate), losses

        return jax.lax.fori_loop(0, steps, turn, (parameters, jnp.zeros(steps)))

    def errors(loss, parameters):
        flat, as_tree = ravel_pytree(parameters)
        bends = jax.jacfwd(jax.jacrev(lambda flat: loss(as_tree(flat))))(flat)
        return as_tree(jnp.linalg.inv(bends).diagonal() ** 0.5)

    for name, answer in (
        ("descend", descend),
        ("history", history),
        ("errors", errors),
        ("until", WRONG.looping()),
    ):
        outcome = lesson.outcome(name, answer)
        assert outcome.passed, f"{name}: {outcome}"
