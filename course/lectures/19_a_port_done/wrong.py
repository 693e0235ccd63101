"""Wrong answers to the exercises of "A port, done", with what the check must say of each."""

from __future__ import annotations

from functools import partial

import numpy as np

from wrong_answers import collection, swap

WRONG, wrong = collection("19_a_port_done")

from gpucourse.exercises.checks import load_lesson

import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
from numba import cuda

CHECKS = load_lesson("19_a_port_done").exercises["test"].function.__globals__
THE_LOOP, observe = CHECKS["_loop"], CHECKS["_small"]
PIXELS = 64
close = partial(np.allclose, rtol=1e-9, atol=1e-9, equal_nan=True)

# --- test ---------------------------------------------------------------------------------------


def ordinary(seed=1):
    """Nine sweeps with many good samples each, and unequal weights."""
    signal, good, pixels, starts, stops, weights = observe(9, 60, seed)
    long = stops - starts > 12
    good[:] = True
    good[:, ::7] = False
    signal = np.where(np.isnan(signal), 1.0, signal)
    return signal, good, pixels, starts[long], stops[long], weights


def comparing(cases, results=slice(None), kept=True):
    """A test of these cases that looks at some of the results."""

    def passes(port):
        for data in cases:
            given = [array.copy() for array in data]
            found, expected = port(*given)[results], THE_LOOP(*data)[results]
            if kept and not np.array_equal(given[0], data[0], equal_nan=True):
                return False
            if not all(map(close, found, expected)):
                return False
        return True

    return passes


with_single = ordinary(2)
with_single[1][0, with_single[3][1]:with_single[4][1] - 1] = False
with_single[1][0, with_single[4][1] - 1] = True
without = ordinary(3)
without[1][0, without[3][1]:without[4][1]] = False

wrong("test", "your test accepts a port that divides by zero in a sweep without", "ordinary sweeps only")(
    comparing([ordinary(), ordinary(4)]))
wrong("test", "accepts a port that computes a slope of NaN.*single", "none without, none with one")(
    comparing([ordinary(), without]))
wrong("test", "accepts a port that stops at a sweep of length zero", "no empty sweep")(
    comparing([ordinary(), without, with_single]))
wrong("test", "computes the right map, but returns the signal unchanged", "looks at the map alone")(
    comparing([observe()], slice(1, 3)))
wrong("test", "changes its input signal", "arguments are not looked at")(
    comparing([observe()], kept=False))


@wrong("test", "rejects a port that does the same as the loop.*is there a NaN")
def to_the_bit(port):
    data = observe()
    return all(map(np.array_equal, port(*data), THE_LOOP(*data)))  # NaN differs from NaN


@wrong("test", "the test returns None")
def says_nothing(port):
    port(*observe())


@wrong("test", "your test accepts a port that includes the sample at `stop`")
def always_content(port):
    return True


def first_two_pass(port, heard=[]):  # noqa: B006
    heard.append(port(*observe()))
    return len(heard) <= 2


wrong("test", "when it is tried once more", "the first two ports pass")(first_two_pass)

# --- fit ----------------------------------------------------------------------------------------


def lines_by(y, good, xp, *, mask=True, guard=True, keep=True, over_all=False):
    t = xp.arange(y.shape[-1])
    y = xp.where(good, y, 0.0) if mask else y * good
    ok = xp.ones_like(good) if over_all else good
    add = partial(xp.sum, axis=-1, keepdims=keep)
    n, st, stt, sy, sty = add(ok), add(ok * t), add(ok * t * t), add(y), add(t * y)
    low = 1 if guard else 0
    slope = (n * sty - st * sy) / xp.maximum(n * stt - st**2, low)
    return (sy - slope * st) / xp.maximum(n, low) + slope * t


wrong("fit", "the line at .* is nan.*replace NaN before", "a product with the mask")(
    lambda y, good, xp=np: lines_by(y, good, xp, mask=False))
wrong("fit", "invalid value|divide by zero|is nan", "divides by zero")(
    lambda y, good, xp=np: lines_by(y, good, xp, guard=False))
wrong("fit", "sums run over only the good samples", "bad samples count as zeros")(
    lambda y, good, xp=np: lines_by(y, good, xp, over_all=True))
wrong("fit", "shape|broadcast", "the last axis is lost")(
    lambda y, good, xp=np: lines_by(y, good, xp, keep=False))


@wrong("fit", "good samples, the line at")
def level_lines(y, good, xp=np):
    y = xp.where(good, y, 0.0)
    mean = y.sum(-1, keepdims=True) / xp.maximum(good.sum(-1, keepdims=True), 1)
    return mean + xp.zeros(y.shape)


@wrong("fit", "the program grows with the number of rows.*all rows at once")
def row_by_row(y, good, xp=np):
    if y.ndim == 1 or not len(y):
        return lines_by(y, good, xp)
    return xp.stack([row_by_row(*one, xp) for one in zip(y, good, strict=True)])


@wrong("fit", "in NumPy, the function returns an? .*not a NumPy array.*functions of xp")
def jax_for_both(y, good, xp=np):
    return lines_by(y, good, jnp)


@wrong("fit", "calls back into Python: the host computes")
def numpy_for_both(y, good, xp=np):
    if xp is np:
        return lines_by(y, good, np)
    return jax.pure_callback(lambda *given: lines_by(*map(np.asarray, given), np),
                             jax.ShapeDtypeStruct(y.shape, y.dtype), y, good)


@wrong("fit", "one element comes after the other, in a loop.*all rows at once")
def row_by_row_in_a_loop(y, good, xp=np):
    if xp is np or y.ndim == 1:
        return lines_by(y, good, xp)
    return jax.lax.map(lambda row: row_by_row_in_a_loop(*row, jnp), (y, good))


@wrong("fit", "the function changes its input arrays")
def clears_what_is_bad(y, good, xp=np):
    if xp is np:
        y[~good] = 0
    return lines_by(y, good, xp)


# --- jax ----------------------------------------------------------------------------------------


def map_by(stop=True, replace=False, weighted=True, flags=True, clean=True, zeros=True):
    @partial(jax.jit, static_argnames="longest")
    def jax_map(signal, good, pixels, starts, stops, weights, longest):
        positions = starts[:, None] + jnp.arange(longest)
        inside = positions < stops[:, None]
        ok = good[:, positions] if flags else jnp.broadcast_to(inside, (2, *inside.shape))
        ok = ok & inside if stop else ok
        y = signal[:, positions]
        line = jnp.where(ok, lines_by(y, ok, jnp), 0.0)
        weight = jnp.where(ok, weights[:, None, None] if weighted else 1.0, 0.0)
        rest = jnp.where(ok, y - line, 0.0) if zeros else y - line
        seen = pixels[:, positions]
        cleaned = signal
        if clean:
            there = signal.at[:, positions]
            cleaned = there.set(y - line) if replace else there.add(-line)
        sky = jnp.zeros(PIXELS).at[seen].add(weight * rest)
        return cleaned, sky, jnp.zeros(PIXELS).at[seen].add(weight)

    return jax_map


wrong("jax", "`fit_lines`.*not right yet", "the fit is not written")(swap(
    "    line = (sum_y - slope * sum_t) / xp.maximum(n, 1) + slope * t\n", ""))
wrong("jax", "the cleaned signal.*is", "padding is fitted")(map_by(stop=False))
wrong("jax", "the cleaned signal.*is", "set instead of add")(map_by(replace=True))
wrong("jax", r"sky\[\d+\] is", "weights are left out")(map_by(weighted=False))
wrong("jax", "the cleaned signal.*is nan|sky.*is nan", "bad samples are taken")(map_by(flags=False))
wrong("jax", "the cleaned signal.*is", "the signal stays as it was")(map_by(clean=False))
wrong("jax", r"sky\[\d+\] is nan", "NaN times zero")(map_by(zeros=False))


@wrong("jax", "the program grows with the number of sweeps.*all rows")
@partial(jax.jit, static_argnames="longest")
def sweep_by_sweep(signal, good, pixels, starts, stops, weights, longest):
    cleaned, sky, hits = signal, jnp.zeros(PIXELS), jnp.zeros(PIXELS)
    for k in range(starts.size):
        one, two, three = map_by()(signal, good, pixels, starts[k:k + 1], stops[k:k + 1], weights,
                                   longest=longest)
        cleaned = cleaned + jnp.where(jnp.isnan(signal), 0.0, one - signal)
        sky, hits = sky + two, hits + three
    return cleaned, sky, hits


@wrong("jax", "one element comes after the other, in a loop.*all rows")
@partial(jax.jit, static_argnames="longest")
def one_sweep_at_a_time(signal, good, pixels, starts, stops, weights, longest):
    def body(k, state):
        cleaned, sky, hits = state
        one, two, three = map_by()(signal, good, pixels, starts[k][None], stops[k][None], weights,
                                   longest=longest)
        return cleaned + jnp.where(jnp.isnan(signal), 0.0, one - signal), sky + two, hits + three

    empty = jnp.zeros(PIXELS)
    return jax.lax.fori_loop(0, starts.size, body, (signal, empty, empty))


@wrong("jax", "the program makes an array of .*not longer ones")
@partial(jax.jit, static_argnames="longest")
def rows_as_long_as_the_signal(signal, good, pixels, starts, stops, weights, longest):
    return map_by()(signal, good, pixels, starts, stops, weights, longest=signal.shape[1])


@wrong("jax", "the cleaned signal has the shape|the cleaned signal.*is")
@partial(jax.jit, static_argnames="longest")
def two_detectors(signal, good, pixels, starts, stops, weights, longest):
    return map_by()(signal[:2], good[:2], pixels[:2], starts, stops, weights[:2], longest=longest)


# --- cuda ---------------------------------------------------------------------------------------


def kernel_by(atomic=True, inclusive=0, skip=True, weighted=True, single=True, alone=False,
              detectors=0, size=0, spoils=False):
    @cuda.jit
    def map_kernel(signal, good, pixels, starts, stops, weights, sky, hits):
        me, step = cuda.grid(1), cuda.gridsize(1)
        if size:
            me = cuda.blockIdx.x * size + cuda.threadIdx.x
        sweeps = (detectors or signal.shape[0]) * starts.size
        if alone:
            step = 1
            if me > 0:
                return
        elif me >= sweeps:
            return
        for which in range(me, sweeps, step):
            d, k = which // starts.size, which % starts.size
            first, last = starts[k], min(stops[k] + inclusive, signal.shape[1])
            n = st = stt = 0
            sy = sty = 0.0
            for s in range(first, last):
                if good[d, s] or not skip:
                    t = s - first
                    n += 1
                    st += t
                    stt += t * t
                    sy += signal[d, s]
                    sty += t * signal[d, s]
            if n > 0:
                determinant = n * stt - st * st
                slope = 0.0
                if determinant > 0 or not single:
                    slope = (n * sty - st * sy) / determinant
                offset = (sy - slope * st) / n
                for s in range(first, last):
                    if good[d, s] or not skip:
                        signal[d, s] -= offset + slope * (s - first)
                        weight = weights[d] if weighted else 1.0
                        if atomic:
                            cuda.atomic.add(sky, pixels[d, s], weight * signal[d, s])
                            cuda.atomic.add(hits, pixels[d, s], weight)
                        else:
                            sky[pixels[d, s]] += weight * signal[d, s]
                            hits[pixels[d, s]] += weight
                        if spoils:
                            good[d, s] = False

    return map_kernel


wrong("cuda", "race: ", "no atomics")(kernel_by(atomic=False))
wrong("cuda", "race: |the cleaned signal.*is", "the stop is included")(kernel_by(inclusive=1))
wrong("cuda", "is nan", "bad samples are taken, by a thread")(kernel_by(skip=False))
wrong("cuda", r"sky\[\d+\] is", "weights are left out, by a thread")(kernel_by(weighted=False))
wrong("cuda", "is nan|ZeroDivision", "one sample makes 0/0")(kernel_by(single=False))
wrong("cuda", "the work is not shared.*let each thread take one sweep", "one thread does it all")(
    kernel_by(alone=True))
wrong("cuda", r"the cleaned signal.*is", "two detectors")(kernel_by(detectors=2))
wrong("cuda", r"the cleaned signal.*is|race: ", "blocks of 64")(kernel_by(size=64))
wrong("cuda", "the kernel changes an input array", "marks what it has seen")(
    kernel_by(spoils=True))
wrong("cuda", "not a kernel", "a plain function")(lambda *arrays: None)


@wrong("test", "your test accepts a port that includes the sample at `stop`")
def asks_what_it_is(port):
    return not isinstance(port, partial)


def calls_back(signal, good, pixels, starts, stops, weights, *, longest):
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in (signal.shape, (64,), (64,))]
    return jax.pure_callback(lambda *data: THE_LOOP(*map(np.asarray, data)), shapes, signal, good,
                             pixels, starts, stops, weights)


wrong("jax", "calls back into Python|TracerArrayConversionError", "the old loop")(calls_back)
