"""Kernels that tests of views, trials and verbs look at: good ones and bad ones."""

from __future__ import annotations

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, float32  # noqa: E402


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]


@cuda.jit
def double(values, out):
    i = cuda.grid(1)
    if i < values.size:
        out[i] = 2 * values[i]


@cuda.jit
def double_unguarded(values, out):
    out[cuda.grid(1)] = 2 * values[cuda.grid(1)]


@cuda.jit
def add_racing(values, total):
    i = cuda.grid(1)
    if i < values.size:
        total[0] += values[i]


@cuda.jit
def strided(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i * 32 % x.size]


@cuda.jit
def unguarded(x):
    i = cuda.grid(1)
    x[i] *= 2


@cuda.jit
def block_sum(x, total):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(total, 0, s[0])


@cuda.jit
def no_barrier(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[63 - t]


@cuda.jit
def lose_updates(total):
    total[0] += 1


@cuda.jit
def by_columns(x, out):
    s = cuda.shared.array((32, 32), float32)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    s[i, j] = x[j, i]
    cuda.syncthreads()
    out[j, i] = s[j, i]


@cuda.jit
def odd_and_even(x, out):
    i = cuda.grid(1)
    if i < x.size:
        if i % 2:
            out[i] = x[i] * 2
        else:
            out[i] = x[i] / (x[i] + 3)


@cuda.jit(device=True)
def weight(value):
    return value * value + 1


@cuda.jit
def weighted(x, out):
    i = cuda.grid(1)
    out[i] = weight(x[i])


#: A kernel without source: what `exec` makes has no file to show.
_space = {"cuda": cuda}
exec("@cuda.jit\ndef sourceless(x):\n    x[cuda.grid(1)] += 1\n", _space)
sourceless = _space["sourceless"]
