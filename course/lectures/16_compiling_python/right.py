"""Right answers to the exercises of "Compiling Python" in other styles than the lecture's."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from numba import njit, prange, vectorize

from wrong_answers import other_styles

RIGHT, right = other_styles("16_compiling_python")


@right("count-window")
@njit(parallel=True)
def in_parallel(values, low, high):
    count = 0
    for i in prange(values.size):
        count += low < values[i] and values[i] < high
    return count


@njit
def inside(value, low, high):
    return not (value <= low or value >= high or value != value)


@right("count-window")
@njit
def a_while_and_a_helper(values, low, high):
    count = i = 0
    while i < len(values):
        if inside(values[i], low, high):
            count += 1
        i += 1
    return count


@njit
def those_inside(values, low, high):
    for value in values:
        if inside(value, low, high):
            yield value


@right("count-window")
@njit
def of_a_generator(values, low, high):
    return sum([1 for _ in those_inside(values, low, high)])


@njit
def newton(E, M, e):
    return (E - e * math.sin(E) - M) / (1 - e * math.cos(E))


@right("vectorize")
@vectorize(["float64(float64, float64)"])
def with_a_helper_and_a_break(M, e):
    E = math.pi
    for _ in range(500):
        step = newton(E, M, e)
        E = E - step
        if abs(step) < 1e-12:
            break
    return E


@njit
def solved(M, e):
    E = math.pi
    while True:
        step = newton(E, M, e)
        E -= step
        if -1e-12 < step < 1e-12:
            return E


@right("vectorize")
@vectorize
def by_a_function_of_its_own(M, e):
    return solved(M, e)


@right("vectorize")
@vectorize(["float64(float64, float64)"], target="parallel")
def on_all_cores(M, e):
    return solved(M, e)


@right("fresh-cuts")
@njit
def with_numpy(values, cut):
    return (values > cut).sum()


@right("fresh-cuts")
@njit
def by_indices(values, cut):
    n = 0
    for i in range(values.shape[0]):
        n += 1 if values[i] > cut else 0
    return n


@right("where")
def by_select(masses):
    return jnp.select([masses > 60, masses < 20], [masses * 1.02, 0.0], masses)


@right("where")
@jax.vmap
def for_one_mass(mass):
    return jax.lax.cond(mass < 20, lambda m: 0 * m,
                        lambda m: jnp.where(m > 60, m * jnp.float32(1.02), m), mass)
