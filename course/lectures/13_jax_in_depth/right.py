"""Right answers to the exercises of "JAX in depth" in other styles than the lecture's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from wrong_answers import other_styles

RIGHT, right = other_styles("13_jax_in_depth")


@right("descend")
def as_a_flat_array(loss, parameters, rate):
    flat, as_tree = ravel_pytree(parameters)
    return as_tree(flat - rate * jax.grad(lambda flat: loss(as_tree(flat)))(flat))


@right("descend")
def leaf_by_leaf(loss, parameters, rate):
    leaves, structure = jax.tree.flatten(parameters)
    slopes = jax.tree.leaves(jax.grad(loss)(parameters))
    return jax.tree.unflatten(structure, [x - rate * s for x, s in zip(leaves, slopes, strict=True)])


@right("history")
def with_descend(loss, parameters, rate, steps):
    def body(now, _):
        return leaf_by_leaf(loss, now, rate), loss(now)

    return jax.lax.scan(body, parameters, length=steps)


@right("errors")
def by_solving(loss, parameters):
    flat, as_tree = ravel_pytree(parameters)
    bends = jax.jacfwd(jax.grad(lambda flat: loss(as_tree(flat))))(flat)
    return as_tree(jnp.linalg.solve(bends, jnp.eye(flat.size)).diagonal() ** 0.5)


@right("until")
def with_the_old_one_in_the_state(step, x, tolerance=1e-5, most=50):
    def goes_on(state):
        old, new, steps = state
        return (steps < most) & ((steps == 0) | (jnp.abs(new - old).max() > tolerance))

    _, x, steps = jax.lax.while_loop(
        goes_on, lambda state: (state[1], step(state[1]), state[2] + 1), (x, x, jnp.int32(0)))
    return x, steps
