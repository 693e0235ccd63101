"""Wrong answers to the exercises of "JAX", with what the check must say of each."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from wrong_answers import collection, swap

WRONG, wrong = collection("09_jax")

# --- pad ----------------------------------------------------------------------------------------


@wrong("pad", "slice|Array slice indices must have static|[Cc]oncrete|start/stop/step")
def slices(values, n):
    return jnp.mean(values[:n])


@wrong("pad", "add only the first n elements")
def lets_rubbish_in(values, n):
    return jnp.mean(values) * values.size / n


@wrong("pad", "divide the sum by n")
def divides_by_the_length(values, n):
    return jnp.sum(values, where=jnp.arange(values.size) < n) / values.size


@wrong("pad", "add only the first n elements")
def one_too_many(values, n):
    return jnp.sum(jnp.where(jnp.arange(values.size) <= n, jnp.nan_to_num(values), 0)) / n


@wrong("pad", "nan times 0 is nan")
def multiplies_by_a_mask(values, n):
    return jnp.sum(values * (jnp.arange(values.size) < n)) / n


@wrong("pad", "the function returns None")
def nothing(values, n):
    pass


@wrong("pad", "one element comes after the other")
def one_element_after_the_other(values, n):
    return jax.lax.fori_loop(0, n, lambda i, total: total + values[i], jnp.float32(0)) / n


@wrong("pad", "add only the first n elements")
def five_as_in_the_example(values, n):
    return jnp.sum(values[:5]) / 5

# --- at-add -------------------------------------------------------------------------------------


@wrong("at-add", "beyond the last bin|may occur often")
@partial(jax.jit, static_argnames="bins")
def cuts_and_hopes(metres, bins):
    return jnp.zeros(bins, jnp.int32).at[metres.astype(jnp.int32)].add(1)


@wrong("at-add", "beyond the last bin|may occur often")
@partial(jax.jit, static_argnames="bins")
def clips_into_the_edges(metres, bins):
    k = jnp.clip(jnp.floor(metres), 0, bins - 1).astype(jnp.int32)
    return jnp.zeros(bins, jnp.int32).at[k].add(1)


@wrong("at-add", "shape|bins")
@partial(jax.jit, static_argnames="bins")
def always_twelve_bins(metres, bins):
    inside = (metres >= 0) & (metres < 12)
    k = jnp.where(inside, metres, 12).astype(jnp.int32)
    return jnp.zeros(12, jnp.int32).at[k].add(1, mode="drop")


@wrong("at-add", "may occur often")
@partial(jax.jit, static_argnames="bins")
def set_instead_of_add(metres, bins):
    inside = (metres >= 0) & (metres < bins)
    k = jnp.where(inside, metres, bins).astype(jnp.int32)
    return jnp.zeros(bins, jnp.int32).at[k].set(1)


@wrong("at-add", "TracerArrayConversionError")
def counts_with_numpy(metres, bins):
    metres = np.asarray(metres)
    inside = metres[(metres >= 0) & (metres < bins)]
    return np.bincount(inside.astype(int), minlength=bins)


@wrong("at-add", "has the shape")
@partial(jax.jit, static_argnames="bins")
def one_bin_more(metres, bins):
    return jnp.histogram(metres, bins + 1, (0, bins + 1))[0].astype(jnp.int32)


@wrong("at-add", "every bin looks at every value")
@partial(jax.jit, static_argnames="bins")
def every_bin_looks_at_every_value(metres, bins):
    return jnp.sum(jnp.floor(metres)[:, None] == jnp.arange(bins), axis=0)


@wrong("at-add", "one element comes after the other")
@partial(jax.jit, static_argnames="bins")
def one_value_after_the_other(metres, bins):
    def add(counts, value):
        k = jnp.floor(value).astype(jnp.int32)
        return counts.at[jnp.where((k >= 0) & (k < bins), k, bins)].add(1), None

    return jax.lax.scan(add, jnp.zeros(bins, jnp.int32), metres)[0]

# --- vmap and aim: a flight without drag, which has a formula ------------------------------------


def distance(angle, speed):
    return speed**2 * jnp.sin(2 * angle) / 9.81


def turned(angles, speeds):
    return jax.vmap(jax.vmap(distance, (0, None)), (None, 0))(angles, speeds)


def in_loops(angles, speeds):
    return jnp.array([[distance(angle, speed) for speed in speeds] for angle in angles])


def both_at_once(angles, speeds):
    n = min(len(angles), len(speeds))
    return jax.vmap(distance)(angles[:n], speeds[:n])


wrong("vmap", r"of shape \(5, 3\), not \(3, 5\)")(turned, distance)
wrong("vmap", "was called 15 times.*no loop")(in_loops, distance)
wrong("vmap", r"of shape \(3,\)")(both_at_once, distance)


def stays(target, speed):
    return jnp.float32(0.3) + 0 * target


def wrong_sign(target, speed):
    def newton(_, angle):
        return angle + (distance(angle, speed) - target) / jax.grad(distance)(angle, speed)

    return jax.lax.fori_loop(0, 12, newton, jnp.float32(0.3))


def one_step(target, speed):
    angle = jnp.float32(0.3)
    return angle - (distance(angle, speed) - target) / jax.grad(distance)(angle, speed)


def steep(target, speed):
    def newton(_, angle):
        return angle - (distance(angle, speed) - target) / jax.grad(distance)(angle, speed)

    return jax.lax.fori_loop(0, 12, newton, jnp.float32(1.3))


def always_thirty(target, speed):
    def newton(_, angle):
        return angle - (distance(angle, 30.0) - target) / jax.grad(distance)(angle, 30.0)

    return jax.lax.fori_loop(0, 12, newton, jnp.float32(0.3))


def asks_with_while(target, speed):
    angle = 0.3
    while abs(distance(angle, speed) - target) > 1e-3:
        angle -= (distance(angle, speed) - target) / jax.grad(distance)(angle, speed)
    return angle


wrong("aim", "comes down .* m away")(stays, distance)
wrong("aim", "m away.*right sign")(wrong_sign, distance)
wrong("aim", "m away")(one_step, distance)
wrong("aim", "a steep throw")(steep, distance)
wrong("aim", "the speed that the function is given")(always_thirty, distance)
wrong("aim", "TracerBoolConversionError|[Bb]oolean")(asks_with_while, distance)


def in_loops_of_jax(angles, speeds):
    return jax.lax.map(
        lambda angle: jax.lax.map(lambda speed: distance(angle, speed), speeds), angles)


def halves(target, speed):
    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        short = distance(middle, speed) < target
        return jnp.where(short, middle, low), jnp.where(short, high, middle)

    low, high = jax.lax.fori_loop(0, 24, halve, (jnp.float32(0.02), jnp.float32(0.7)))
    return (low + high) / 2


def by_the_formula(target, speed):
    return jnp.arcsin(9.81 * target / speed**2) / 2


wrong("vmap", "one element comes after the other")(in_loops_of_jax, distance)
wrong("aim", "nothing computes the derivative")(halves, distance)
wrong("aim", "nothing computes the derivative")(by_the_formula, distance)


wrong("pad", "shape|size|broadcast", "made for 64 elements")(
    swap("jnp.arange(values.size) < n", "jnp.arange(64) < n"))
