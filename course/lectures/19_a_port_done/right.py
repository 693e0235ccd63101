"""Right answers to the exercises of "A port, done" in other styles than the lecture's."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from gpucourse.exercises.checks import load_lesson
from wrong_answers import other_styles

import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
from numba import cuda

RIGHT, right = other_styles("19_a_port_done")
THE_LOOP = load_lesson("19_a_port_done").exercises["test"].function.__globals__["_loop"]
PIXELS = 64

# --- test ---------------------------------------------------------------------------------------


def by_hand(lengths, gap=2, bad=()):
    """An observation of one detector, with sweeps of these lengths and these samples bad."""
    starts = np.cumsum([gap, *(length + gap for length in lengths[:-1])])
    stops = starts + lengths
    samples = stops[-1] + gap
    good = np.ones((1, samples), bool)
    good[0, list(bad)] = False
    signal = np.where(good, np.cos(np.arange(samples) ** 2.0), np.nan)
    return signal, good, np.arange(samples)[None] % 3, starts, stops, np.array([1.5])


@right("test")
def small_cases_by_hand(port):
    cases = {
        "ordinary": by_hand([9, 4, 7], bad=[3]),
        "no good sample": by_hand([3, 5], bad=[2, 3, 4]),
        "one sample": by_hand([1, 6]),
        "one of three is good": by_hand([4, 3, 4], bad=[8, 10]),
        "no sample at all": by_hand([4, 0, 5]),
    }
    failed = [name for name, case in cases.items() if differs(port, case)]
    return not failed


def differs(port, night):
    """Whether a result is another than the loop's, or something given was changed."""
    try:
        given = [np.copy(array) for array in night]
        for one, expected in zip(port(*given), THE_LOOP(*night), strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-8, atol=1e-8)
        for one, before in zip(given, night, strict=True):
            np.testing.assert_array_equal(one, before)
    except AssertionError:
        return True
    return False


@right("test")
def many_at_random(port):
    random = np.random.default_rng(5)
    for _ in range(30):
        lengths = random.integers(0, 5, 6)
        bad = np.flatnonzero(random.random(lengths.sum() + 14) < 0.4)
        if differs(port, by_hand(lengths, bad=bad)):
            return False
    return True


# --- fit ----------------------------------------------------------------------------------------


@right("fit")
def around_the_middle(y, good, xp=np):
    def mean(values):
        return xp.where(good, values, 0).sum(-1, keepdims=True) / n

    n = xp.maximum(good.sum(-1, keepdims=True), 1)
    t = xp.arange(y.shape[-1]) * xp.ones(y.shape)
    t = t - mean(t)
    spread = mean(t * t)
    slope = mean(t * (y - mean(y))) / xp.where(spread > 0, spread, 1)
    return mean(y) + slope * t


@right("fit")
def by_einsum(y, good, xp=np):
    y, ones = xp.where(good, y, 0.0), xp.where(good, 1.0, 0.0)
    t = xp.arange(1.0 * y.shape[-1])
    n, st, stt = (xp.einsum("...t,t->...", ones, t**power) for power in (0, 1, 2))
    sy, sty = (xp.einsum("...t,t->...", y, t**power) for power in (0, 1))
    determinant = n * stt - st * st
    two, some = determinant > 0, n > 0
    slope = xp.where(two, (n * sty - st * sy) / xp.where(two, determinant, 1.0), 0.0)
    offset = xp.where(some, (sy - slope * st) / xp.where(some, n, 1.0), 0.0)
    return offset[..., None] + slope[..., None] * t


# --- jax ----------------------------------------------------------------------------------------


@right("jax")
@partial(jax.jit, static_argnames="longest")
def by_segments(signal, good, pixels, starts, stops, weights, longest):
    where = starts[:, None] + jnp.arange(longest)
    where = jnp.where(where < stops[:, None], where, signal.shape[1])
    y = jnp.take(signal, where, axis=1, mode="fill", fill_value=0.0)
    ok = jnp.take(good, where, axis=1, mode="fill", fill_value=False)
    seen = jnp.take(pixels, where, axis=1, mode="fill", fill_value=0)
    rest = jnp.where(ok, y - around_the_middle(y, ok, jnp), 0.0)
    weight = ok * weights[:, None, None]
    # What lies past a sweep's end is written past the signal's end, which drops it.
    cleaned = signal.at[:, where].set(jnp.where(ok, rest, y), mode="drop")
    sky, hits = (jax.ops.segment_sum(one.ravel(), seen.ravel(), PIXELS)
                 for one in (weight * rest, weight))
    return cleaned, sky, hits


def of_a_detector(signal, good, pixels, weight, where, inside):
    ok = good[where] & inside
    line = jnp.where(ok, by_einsum(signal[where], ok, jnp), 0)
    rest = jnp.where(ok, signal[where] - line, 0)
    return (signal.at[where].subtract(line),
            jnp.bincount(pixels[where].ravel(), weight * rest.ravel(), length=PIXELS),
            jnp.bincount(pixels[where].ravel(), weight * ok.ravel(), length=PIXELS))


@right("jax")
@partial(jax.jit, static_argnames="longest")
def by_vmap_over_detectors(signal, good, pixels, starts, stops, weights, longest):
    where = jnp.add.outer(starts, jnp.arange(longest))
    every = jax.vmap(of_a_detector, in_axes=(0, 0, 0, 0, None, None))
    cleaned, sky, hits = every(signal, good, pixels, weights, where, where < stops[:, None])
    return cleaned, sky.sum(axis=0), hits.sum(axis=0)


@right("jax")
@partial(jax.jit, static_argnums=6)
def by_vmap_over_sweeps(signal, good, pixels, starts, stops, weights, longest):
    signal_, good_, pixels_ = (jnp.pad(one, ((0, 0), (0, longest))) for one in (signal, good, pixels))

    def of_a_sweep(first, last):
        y, ok, seen = (jax.lax.dynamic_slice_in_dim(one, first, longest, axis=1)
                       for one in (signal_, good_, pixels_))
        ok &= first + jnp.arange(longest) < last
        line = jnp.where(ok, around_the_middle(y, ok, jnp), 0)
        return ok, line, jnp.where(ok, y - line, 0), seen

    ok, line, rest, seen = jax.vmap(of_a_sweep)(starts, stops)
    positions = starts[:, None] + jnp.arange(longest)
    weight = ok * weights[:, None]
    return (signal_.at[:, positions].add(-jnp.moveaxis(line, 1, 0))[:, :signal.shape[1]],
            jnp.zeros(PIXELS).at[seen].add(weight * rest), jnp.zeros(PIXELS).at[seen].add(weight))


@right("jax")
@partial(jax.jit, static_argnames="longest")
def without_a_rectangle(signal, good, pixels, starts, stops, weights, longest):
    # Every sample finds its sweep: the last that begins before it, an empty one before others.
    order = jnp.lexsort((stops, starts))
    starts, stops, at = starts[order], stops[order], jnp.arange(signal.shape[1])
    k = jnp.maximum(jnp.searchsorted(starts, at, side="right") - 1, 0)
    ok = good & (starts[k] <= at) & (at < stops[k])
    age, y = at - starts[k], jnp.where(ok, signal, 0)

    def total(values):
        return jax.vmap(lambda one: jax.ops.segment_sum(one, k, starts.size))(values)[:, k]

    n, t, tt, sy, ty = map(total, (1.0 * ok, 1.0 * ok * age, 1.0 * ok * age**2, y, y * age))
    slope = (n * ty - t * sy) / jnp.maximum(n * tt - t * t, 1)
    line = jnp.where(ok, (sy - slope * t) / jnp.maximum(n, 1) + slope * age, 0)
    weight = ok * weights[:, None]
    return (signal - line, jnp.zeros(PIXELS).at[pixels].add(weight * (y - line)),
            jnp.zeros(PIXELS).at[pixels].add(weight))


# --- cuda ---------------------------------------------------------------------------------------


@cuda.jit(device=True)
def fitted(y, good, first, last):
    """(offset, slope) of the line, its time counted from the sweep's first sample."""
    n, t_mean, y_mean, tt, ty = 0, 0.0, 0.0, 0.0, 0.0
    for s in range(first, last):
        if good[s]:
            n += 1
            dt, dy = s - first - t_mean, y[s] - y_mean
            t_mean += dt / n
            y_mean += dy / n
            tt += dt * (s - first - t_mean)
            ty += dt * (y[s] - y_mean)
    slope = ty / tt if tt > 0 else 0.0
    return y_mean - slope * t_mean, slope


@right("cuda")
@cuda.jit
def as_the_means_go_along(signal, good, pixels, starts, stops, weights, sky, hits):
    me = cuda.grid(1)
    if me < signal.shape[0] * starts.size:
        d, k = divmod(me, starts.size)
        offset, slope = fitted(signal[d], good[d], starts[k], stops[k])
        for s in range(starts[k], stops[k]):
            if good[d, s]:
                rest = signal[d, s] - (offset + slope * (s - starts[k]))
                signal[d, s] = rest
                cuda.atomic.add(sky, pixels[d, s], weights[d] * rest)
                cuda.atomic.add(hits, pixels[d, s], weights[d])


@right("cuda")
@cuda.jit
def sweep_first_and_strides(signal, good, pixels, starts, stops, weights, sky, hits):
    detectors = len(weights)
    for me in range(cuda.grid(1), detectors * len(starts), cuda.gridsize(1)):
        k, d = me // detectors, me % detectors
        n = t = tt = 0.0
        y = ty = 0.0
        s = starts[k]
        while s < stops[k]:
            if good[d, s]:
                age = s - starts[k]
                n, t, tt, y, ty = (n + 1, t + age, tt + age**2, y + signal[d, s],
                                   ty + age * signal[d, s])
            s += 1
        below = n * tt - t * t
        slope = (n * ty - t * y) / below if below > 0 else 0
        offset = (y - slope * t) / n if n > 0 else math.nan
        while s > starts[k]:
            s -= 1
            if not good[d, s]:
                continue
            signal[d, s] -= offset + slope * (s - starts[k])
            cuda.atomic.add(sky, pixels[d, s], signal[d, s] * weights[d])
            cuda.atomic.add(hits, pixels[d, s], weights[d])


@right("cuda")
@cuda.jit
def a_map_of_each_block(signal, good, pixels, starts, stops, weights, sky, hits):
    part = cuda.shared.array((2, PIXELS), np.float64)
    for p in range(cuda.threadIdx.x, PIXELS, cuda.blockDim.x):
        part[0, p] = part[1, p] = 0
    cuda.syncthreads()
    me = cuda.grid(1)
    if me < signal.shape[0] * starts.size:
        d, k = divmod(me, starts.size)
        offset, slope = fitted(signal[d], good[d], starts[k], stops[k])
        for s in range(starts[k], stops[k]):
            if good[d, s]:
                signal[d, s] -= offset + slope * (s - starts[k])
                cuda.atomic.add(part, (0, pixels[d, s]), weights[d] * signal[d, s])
                cuda.atomic.add(part, (1, pixels[d, s]), weights[d])
    cuda.syncthreads()
    for p in range(cuda.threadIdx.x, PIXELS, cuda.blockDim.x):
        cuda.atomic.add(sky, p, part[0, p])
        cuda.atomic.add(hits, p, part[1, p])
