"""Kernels with ``assert``: in a file of their own, since pytest rewrites asserts in test files."""

from __future__ import annotations

from numba import cuda


@cuda.jit(debug=True, opt=False)
def asserting(x):
    i = cuda.grid(1)
    assert i < 3, "too big"
    x[i] = 1


@cuda.jit(debug=True, opt=False)
def raising(x):
    i = cuda.grid(1)
    if i == 2:
        raise ValueError("wrong")
    x[i] = 1


@cuda.jit
def not_checked(x):
    i = cuda.grid(1)
    assert i < 3, "not looked at without debug"
    x[i] = 1
