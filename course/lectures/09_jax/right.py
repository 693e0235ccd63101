"""Right answers to the exercises of "JAX" in other styles than the lecture's."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from wrong_answers import other_styles

RIGHT, right = other_styles("09_jax")


@right("pad")
def by_a_choice(values, n):
    return jnp.where(jnp.arange(len(values)) < n, values, 0.0).sum() / n


@right("pad")
def the_mean_of_where(values, n):
    return values.mean(where=jnp.arange(values.shape[0]) < n)


@right("at-add")
def by_bincount(metres, bins):
    inside = (metres >= 0) & (metres < bins)
    return jnp.bincount(jnp.where(inside, metres, bins).astype(jnp.int32), length=bins)


@right("at-add")
@partial(jax.jit, static_argnames="bins")
def drops_what_is_outside(metres, bins):
    k = jnp.floor(metres).astype(jnp.int32)
    k = jnp.where(k < 0, bins, k)
    return jnp.zeros(bins, jnp.int32).at[k].add(1, mode="drop")


def distance(angle, speed):
    return speed**2 * jnp.sin(2 * angle) / 9.81


def columns_first(angles, speeds):
    return jax.vmap(jax.vmap(distance, in_axes=(0, None)), in_axes=(None, 0),
                    out_axes=1)(angles, speeds)


@jax.jit
def a_function_of_one_angle(angles, speeds):
    return jax.vmap(lambda angle: jax.vmap(partial(distance, angle))(speeds))(angles)


right("vmap")(columns_first, distance)
right("vmap")(a_function_of_one_angle, distance)


def by_jvp(target, speed):
    def newton(angle, _):
        metres, slope = jax.jvp(lambda a: distance(a, speed), (angle,), (jnp.float32(1),))
        return angle + (target - metres) / slope, None

    return jax.lax.scan(newton, jnp.float32(0.3), length=12)[0]


def twelve_lines(target, speed):
    angle = jnp.float32(0.3)
    slope = jax.grad(lambda a: (distance(a, speed) - target))
    for _ in range(12):
        angle = angle - (distance(angle, speed) - target) / slope(angle)
    return angle


right("aim")(by_jvp, distance)
right("aim")(twelve_lines, distance)
