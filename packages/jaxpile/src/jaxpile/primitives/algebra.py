"""Small linear algebra: LU and Cholesky factors and triangular systems, column by column.

Each is a short JAX function of one matrix, mapped over the leading axes and translated in place.
There is no blocking, so they suit the small systems of a column, a cell or a fit.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from jaxpile.registry import translates


def factors(a):
    """Compute LU with row exchanges: both factors in one matrix, the pivots, and the row order."""
    rows, columns = a.shape
    row = jnp.arange(rows, dtype=jnp.int32)

    def step(k, state):
        a, pivots, order = state
        column = lax.dynamic_index_in_dim(a, k, 1, keepdims=False)
        pivot = jnp.argmax(jnp.where(row >= k, jnp.abs(column), -jnp.inf)).astype(jnp.int32)
        exchanged = jnp.where(row == k, pivot, jnp.where(row == pivot, k, row))
        a, order = a[exchanged], order[exchanged]
        column = lax.dynamic_index_in_dim(a, k, 1, keepdims=False)
        top = lax.dynamic_index_in_dim(a, k, 0, keepdims=False)
        by = jnp.where(row > k, column / top[k], 0)
        later = jnp.arange(columns) > k
        a = a - by[:, None] * jnp.where(later, top, 0)
        a = jnp.where((row[:, None] > k) & (jnp.arange(columns) == k), by[:, None], a)
        return a, pivots.at[k].set(pivot), order

    count = min(rows, columns)
    pivots = jnp.zeros(count, jnp.int32)
    return lax.fori_loop(jnp.int32(0), jnp.int32(count), step, (a, pivots, row))


@translates("lu")
def lu(driver, equation, a):
    return driver.traced(factors, len(a.shape) - 2, a)


@translates("lu_pivots_to_permutation")
def lu_pivots_to_permutation(driver, equation, pivots):
    size = equation.params["permutation_size"]

    def permuted(pivots):
        def step(k, order):
            other = pivots[k]
            return order.at[k].set(order[other]).at[other].set(order[k])

        return lax.fori_loop(0, pivots.shape[0], step, jnp.arange(size, dtype=jnp.int32))

    return driver.traced(permuted, len(pivots.shape) - 1, pivots)


def lower_factor(a):
    """Compute the Cholesky factor L of a symmetric matrix by columns, or NaN if there is none."""
    size = a.shape[0]
    row = jnp.arange(size)

    def step(k, factor):
        done = jnp.where(row < k, lax.dynamic_index_in_dim(factor, k, 0, keepdims=False), 0)
        rest = lax.dynamic_index_in_dim(a, k, 1, keepdims=False) - (factor * done).sum(1)
        return factor.at[:, k].set(jnp.where(row >= k, rest / jnp.sqrt(rest[k]), 0))

    factor = lax.fori_loop(0, size, step, jnp.zeros_like(a))
    # like LAPACK and JAX, return nothing of a matrix that is not positive definite
    whole = jnp.all(jnp.isfinite(jnp.diagonal(factor)))
    return jnp.where(whole, factor, jnp.where(row[:, None] >= row, jnp.nan, 0))


@translates("cholesky")
def cholesky(driver, equation, a):
    if a.dtype.kind == "c":
        raise driver.refuse(equation, "matrices of complex numbers")
    return driver.traced(lower_factor, len(a.shape) - 2, a)


@translates("triangular_solve")
def triangular_solve(driver, equation, a, b):
    params = equation.params
    if params["conjugate_a"] and a.dtype.kind == "c":
        raise driver.refuse(equation, "a conjugated matrix; conjugate the matrix beforehand")
    left, upper = params["left_side"], not params["lower"]
    flipped, unit = params["transpose_a"], params["unit_diagonal"]

    def solved(a, b):
        # x a = b is a' x' = b'
        if flipped == left:
            a = a.T
        backwards = upper != (flipped == left)
        b = b if left else b.T
        size = a.shape[0]

        def step(k, x):
            k = size - 1 - k if backwards else k
            done = jnp.arange(size) > k if backwards else jnp.arange(size) < k
            rest = x[k] - jnp.where(done, a[k], 0) @ jnp.where(done[:, None], x, 0)
            return x.at[k].set(rest if unit else rest / a[k, k])

        x = lax.fori_loop(0, size, step, b)
        return x if left else x.T

    return driver.traced(solved, len(a.shape) - 2, a, b)
