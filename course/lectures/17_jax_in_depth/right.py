"""Right answers to the exercises of "JAX in depth" in other styles than the lecture's."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numba import cuda

from wrong_answers import other_styles

RIGHT, right = other_styles("17_jax_in_depth")


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


# --- own-gradient: each with a kernel of its own ------------------------------------------------


@cuda.jit
def fade_striding(t, rate, out):
    for i in range(cuda.grid(1), t.shape[0], cuda.gridsize(1)):
        out[i] = math.exp(t[i] * rate)


@cuda.jit
def slopes_kernel(t, faded, g, decay, by_t, by_decay):
    """The slope by each t; those by decay are added up by atomics."""
    i = cuda.grid(1)
    if i < t.size:
        by_t[i] = -g[i] * faded[i] / decay
        cuda.atomic.add(by_decay, 0, g[i] * faded[i] * t[i] / (decay * decay))


def device_fade(t, decay):
    t, decay = np.asarray(t), np.asarray(decay)
    out = np.empty(t.size, t.dtype)
    fade_striding[4, 32](cuda.In(t.ravel()), t.dtype.type(-1 / decay), cuda.Out(out))
    return out.reshape(t.shape)


def device_slopes(t, faded, g, decay):
    flat = [cuda.to_device(np.asarray(one).ravel()) for one in (t, faded, g)]
    by_t, by_decay = cuda.device_array_like(flat[0]), cuda.to_device(np.zeros(1, t.dtype))
    slopes_kernel[(t.size + 63) // 64, 64](*flat, np.asarray(decay)[()], by_t, by_decay)
    return by_t.copy_to_host().reshape(t.shape), by_decay.copy_to_host()[0]


def of_kernel(t, decay):
    return jax.pure_callback(device_fade, jax.typeof(t), t, decay)


@jax.custom_vjp
def back_by_a_kernel(t, decay):
    return of_kernel(t, decay)


def _with_kept_ones(t, decay):
    faded = of_kernel(t, decay)
    return faded, {"t": t, "decay": decay, "faded": faded}


def _by_atomics(kept, g):
    t, decay = kept["t"], kept["decay"]
    return jax.pure_callback(device_slopes, (jax.typeof(t), jax.typeof(decay)), t, kept["faded"],
                             g, decay)


back_by_a_kernel.defvjp(_with_kept_ones, _by_atomics)
right("own-gradient", "back by a kernel with atomics")(back_by_a_kernel)


@right("own-gradient", "worked out again by the kernel, and kept nowhere")
@jax.jit
@jax.custom_vjp
def kept_nowhere(t, decay):
    return of_kernel(t, decay)


def _again(kept, g):
    t, decay = kept
    by_t = -g * of_kernel(t, decay) / decay
    return by_t, -jnp.vdot(by_t, t) / decay


kept_nowhere.__wrapped__.defvjp(lambda t, decay: (of_kernel(t, decay), (t, decay)), _again)


@right("own-gradient", "a rule for t/decay alone, the rest left to JAX")
def of_the_quotient(t, decay):
    return _fade_one(t / decay)


@jax.custom_vjp
def _fade_one(x):
    return of_kernel(x, jnp.ones((), x.dtype))


def _forward_one(x):
    faded = _fade_one(x)
    return faded, faded


_fade_one.defvjp(_forward_one, lambda faded, g: (-g * faded,))
