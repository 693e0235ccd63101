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


@right("history")
def into_a_row_of_zeros(loss, parameters, rate, steps):
    def turn(k, state):
        now, losses = state
        value, slopes = jax.value_and_grad(loss)(now)
        return jax.tree.map(lambda x, s: x - rate * s, now, slopes), losses.at[k].set(value)

    return jax.lax.fori_loop(0, steps, turn, (parameters, jnp.zeros(steps)))


@right("errors")
def by_solving(loss, parameters):
    flat, as_tree = ravel_pytree(parameters)
    bends = jax.jacfwd(jax.grad(lambda flat: loss(as_tree(flat))))(flat)
    return as_tree(jnp.linalg.solve(bends, jnp.eye(flat.size)).diagonal() ** 0.5)


@right("errors")
def by_cholesky(loss, parameters):
    flat, as_tree = ravel_pytree(parameters)
    slopes = jax.grad(lambda flat: loss(as_tree(flat)))
    bends = jax.vmap(lambda way: jax.jvp(slopes, (flat,), (way,))[1])(jnp.eye(len(flat)))
    root = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(bends), jnp.eye(len(flat)),
                                             lower=True)
    return as_tree(jnp.linalg.norm(root, axis=0))


@right("until")
def with_the_old_one_in_the_state(step, x, tolerance=1e-5, most=50):
    def goes_on(state):
        old, new, steps = state
        return (steps < most) & ((steps == 0) | (jnp.abs(new - old).max() > tolerance))

    _, x, steps = jax.lax.while_loop(
        goes_on, lambda state: (state[1], step(state[1]), state[2] + 1), (x, x, jnp.int32(0)))
    return x, steps


@right("until")
def counting_down(step, x, tolerance=1e-5, most=50):
    def once_more(state):
        after = step(state["x"])
        return {"x": after, "left": state["left"] - 1,
                "moves": jnp.any(jnp.abs(after - state["x"]) > tolerance)}

    end = jax.lax.while_loop(lambda state: jnp.logical_and(state["moves"], state["left"] > 0),
                             once_more, {"x": x, "left": most, "moves": True})
    return end["x"], most - end["left"]
