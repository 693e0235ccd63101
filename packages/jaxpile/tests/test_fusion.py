"""How many loops and buffers a program becomes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxpile
from jaxpile.expressions import dims_of, linear, var
from jaxpile.fusion import apart, own_place
from jaxpile.primitives import default_registry
from jaxpile.program import Nest, walk
from jaxpile.stages import program_of

X = np.linspace(0, 1, 1000)


def made(function, *args):
    """The number of loop nests and of temporary buffers."""
    lowered = jaxpile.jit(function).lower(*args)
    program = program_of(lowered.jaxpr, default_registry(), "f")
    return (
        sum(isinstance(item, Nest) for item in walk(program.steps)),
        sum(b.kind == "temp" for b in program.buffers),
    )


def density(s, t, p):
    """A polynomial of the structure of an equation of state."""
    root = jnp.sqrt(s)
    top = 999.8 + t * (6.8e-2 + t * (-9.1e-3 + t * 1e-4)) + s * (0.82 + root * (-5.7e-3 + t * 1e-4))
    bulk = 19652.0 + t * (148.4 + t * -2.3) + p * (3.2 + t * 1.4e-3)
    return top / (1 - p / bulk)


def test_an_equation_of_state_is_one_loop():
    assert made(density, X, X, X) == (1, 0)


def test_views_cost_nothing():
    assert made(lambda x: jnp.sin(x.reshape(10, 100).T[::2, ::-1]) + 1, X) == (1, 0)
    assert made(lambda x: jnp.broadcast_to(x[:, None] * 2, (1000, 4)), X) == (1, 0)


def test_several_outputs_of_one_extent_share_a_loop():
    assert made(lambda x: (jnp.sin(x), jnp.cos(x) + 1, x * 2), X) == (1, 0)


def test_parts_of_an_array_that_never_meet_are_written_in_one_loop():
    def columns(x, step):
        y = jnp.zeros((1000, 4))
        for k in range(4):
            y = y.at[:: 1 if step else -1, k].set(jnp.sin(x + k))
        return y

    assert made(lambda x: columns(x, True), X) == (2, 0)
    np.testing.assert_allclose(jaxpile.jit(columns, static_argnums=1)(X, True), columns(X, True))
    np.testing.assert_allclose(jaxpile.jit(columns, static_argnums=1)(X, False), columns(X, False))


def test_parts_that_meet_are_written_one_after_the_other():
    def overlapping(x):
        return jnp.zeros((1001, 2)).at[:-1, 0].set(jnp.sin(x)).at[1:, 0].set(jnp.cos(x))

    def turned(x):
        y = jnp.zeros(2000).at[::2].set(jnp.sin(x))
        return y.at[1::2].set(y[::2] + y[1::2] + jnp.roll(y, 2)[::2])

    assert made(overlapping, X) == (3, 0)
    for function in (overlapping, turned):
        np.testing.assert_allclose(jaxpile.jit(function)(X), function(X), rtol=1e-14)


def test_a_place_is_its_own_where_no_two_indices_share_it():
    i, k = dims_of((6, 5))
    ranges, turn = ((0, 6), (0, 5)), var("t", 0, 9)
    for terms, own in (
        (((i, 5), (k, 1)), True),
        (((i, 40), (k, 4)), True),
        (((i, 1), (k, 6)), True),
        (((i, -5), (k, 1)), True),
        (((i, 5), (k, 1), (turn, 30)), True),
        (((i, 4), (k, 1)), False),
        (((i, 1), (k, 5)), False),
        (((i, 5),), False),
        (((i, 1), (k, 1)), False),
    ):
        place = linear(terms, 3)
        assert own_place(place, ranges) == own, terms
    at = linear([(i, 40), (k, 4)], 3)
    assert apart(at, linear([(at, 1)], 1)) and apart(at, linear([(at, 1)], -3))
    assert not apart(at, linear([(at, 1)], 8)) and not apart(at, linear([(at, 1), (turn, 1)]))
    assert not apart(at, linear([(i, 40), (k, 8)], 2))


def test_cheap_stencils_are_recomputed():
    assert made(lambda x: (x * 2)[1:] - (x * 2)[:-1], X) == (1, 0)


def test_dear_values_wanted_twice_are_kept():
    def f(x):
        y = jnp.sin(jnp.exp(x))
        return y[1:] - y[:-1]

    assert made(f, X) == (2, 1)


def test_concatenations_are_split_at_their_borders():
    assert made(lambda x: jnp.concatenate([x, x * 2]) + 1, X) == (2, 0)


def test_updates_of_a_carry_happen_in_place():
    def f(x):
        return lax.fori_loop(1, 1000, lambda k, y: y.at[k].set(y[k - 1] + 1), x)

    lowered = jaxpile.jit(f).lower(X)
    program = program_of(lowered.jaxpr, default_registry(), "f")
    assert [b.size for b in program.buffers if b.kind == "temp" and b.size > 1] == []


def test_equal_work_is_done_once():
    text = jaxpile.jit(lambda x: jnp.exp(x) + 1 / jnp.exp(x)).lower(X).as_text("python")
    assert text.count("np.exp") == 1


def test_long_programs_become_several_loops():
    def f(x):
        for k in range(240):
            x = jnp.sin(x) + k
        return x

    loops, buffers = made(f, X)
    assert 3 <= loops <= 5 and buffers == loops - 1
