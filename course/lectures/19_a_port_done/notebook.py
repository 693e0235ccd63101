# %% [markdown] id="the-question-asked"
# ## Port forty lines for a telescope
#
# A telescope sweeps back and forth across the sky, while its detectors drift. Before the program adds a sweep to the
# map, it fits a straight line to the sweep and subtracts the line. The loop that does this was written in C++ long ago.
# It is right, but it runs on one core, and you've been asked to bring it to the GPU. Run the cell to see the data,
# which are simulated so that we know the true sky.

# %% id="the-question"
# %load_ext gpucourse
import time
from functools import partial

import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.system.device import device
from gpucourse.views.picture import COLOURS, Picture, canvas

check, hint, predict = lesson("19_a_port_done")
PIXELS = 64  # of the map: a strip around the sky
SKY = 3 * np.sin(np.arange(PIXELS) ** 1.5 / 9)  # what the telescope should find


def observe(detectors, sweeps, shortest, longest, seed=17):
    """An observation: (signal, good, pixels, starts, stops, weights), as the loop takes them."""
    random = np.random.default_rng(seed)
    lengths = random.integers(shortest, longest + 1, sweeps)
    stops = np.cumsum(lengths + random.integers(5, 40, sweeps))  # between sweeps it turns round
    samples = int(stops.max(initial=0)) + 20
    pixels = abs((np.arange(samples) + random.integers(0, 9, (detectors, 1))) * 7 // 10 % 126 - 63)
    drift = np.cumsum(random.normal(0, 0.02, (detectors, samples)), axis=1)
    signal = SKY[pixels] + 8 * drift + random.normal(0, 1, (detectors, samples))
    good = random.random((detectors, samples)) > 0.03
    signal[~good] = np.nan  # a cosmic ray, a glitch: no number at all
    return signal, good, pixels, stops - lengths, stops, random.uniform(0.5, 2.0, detectors)


night = observe(8, 40, 30, 400)
signal, good, pixels, starts, stops, weights = night
figure, axes = canvas(9, 2.4)
axes.plot(signal[0, :1500], ".", markersize=2, color=COLOURS[5])
for first, last in zip(starts, stops, strict=True):
    axes.axvspan(first, last, color=COLOURS[1], alpha=0.3)
axes.set(xlim=(0, 1500), xlabel="sample", ylabel="signal of detector 0")
Picture(figure, f"The signal of one detector drifts up and down. Coloured: {starts.size} sweeps of "
                f"{(stops - starts).min()} to {(stops - starts).max()} samples, with gaps between them.")

# %% [markdown] id="loop-text"
# The sweeps differ in length, and some samples are missing. Here is the loop in Python, line by line as it was in C++.

# %% id="loop"
def make_map(signal, good, pixels, starts, stops, weights, sky, hits):
    """Take a line from each sweep of signal; add the rest to sky and its weight to hits."""
    for d in range(signal.shape[0]):
        for k in range(starts.size):
            first = starts[k]
            last = stops[k]
            # what the line needs: offset + slope * t, with t = 0 at the sweep's first sample
            n = 0
            sum_t = 0
            sum_tt = 0
            sum_y = 0.0
            sum_ty = 0.0
            for s in range(first, last):
                if good[d, s]:
                    t = s - first
                    y = signal[d, s]
                    n += 1
                    sum_t += t
                    sum_tt += t * t
                    sum_y += y
                    sum_ty += t * y
            # nothing to fit
            if n == 0:
                continue
            # one sample has no slope
            slope = 0.0
            determinant = n * sum_tt - sum_t * sum_t
            if determinant > 0:
                slope = (n * sum_ty - sum_t * sum_y) / determinant
            offset = (sum_y - slope * sum_t) / n
            # take the line away, and put the rest on the map
            for s in range(first, last):
                if good[d, s]:
                    t = s - first
                    signal[d, s] -= offset + slope * t
                    rest = signal[d, s]
                    pixel = pixels[d, s]
                    sky[pixel] += weights[d] * rest
                    hits[pixel] += weights[d]

# %% id="by-loop"
def by_loop(signal, good, pixels, starts, stops, weights, loop=make_map):
    """(cleaned signal, sky, hits); what it is given stays as it is."""
    cleaned, sky, hits = signal.copy(), np.zeros(PIXELS), np.zeros(PIXELS)
    loop(cleaned, good, pixels, starts, stops, weights, sky, hits)
    return cleaned, sky, hits


# %% [markdown] id="question-stands"
# **How do you rewrite this loop so that you can trust the new map?** You take small steps, and test each one.

# %% [markdown] id="twice-predict" tags=["predict"]
# ## 1. The test comes first
#
# *Predict:* what is in `sky` and `hits` after a second call of `make_map` with the same arrays?

# %% id="twice-guess"
predict("twice", "the same: both are overwritten", "twice as much, both", "twice the hits, and a different sky")

# %% id="twice"
arrays = [array.copy() for array in night]
sky, hits = np.zeros(PIXELS), np.zeros(PIXELS)
make_map(*arrays, sky, hits)
once = sky.copy(), hits.copy()
make_map(*arrays, sky, hits)
print("sky:  ", np.round(sky[:4] / once[0][:4], 6), "times what it was")
print("hits: ", np.round(hits[:4] / once[1][:4], 6), "times what they were")
print("signal changed:", not np.array_equal(arrays[0], night[0], equal_nan=True))

# %% [markdown] id="twice-why" tags=["why"]
# They hold twice as much, because the loop *adds* to the map, so that several nights can go into one map. It also
# changes the signal in place. But after the first call each sweep has lost its line, so the second fit gives a line of
# zero and changes nothing. So there are **three** results to compare, and one of them is an argument.

# %% [markdown] id="same-text"
# `same` compares all three results of a port with those of the loop, to about nine digits, and `so_far` plots our
# progress.

# %% id="same"
def same(port, data):
    """Whether a port agrees with the loop on one observation, and leaves it as it was."""
    given = [array.copy() for array in data]
    results = [np.asarray(result) for result in port(*given)]
    kept = all(map(partial(np.array_equal, equal_nan=True), given, data))
    return kept and all(np.allclose(ours, theirs, rtol=1e-9, atol=1e-9, equal_nan=True)
                        for ours, theirs in zip(results, by_loop(*data), strict=True))


def lines(function):
    """Lines of a function that Python does something with."""
    code = getattr(function, "__code__", function)
    inner = [part for part in code.co_consts if hasattr(part, "co_lines")]
    return len({line for *_, line in code.co_lines() if line}) + sum(map(lines, inner))


def milliseconds(run, best_of=3):
    took = []
    for _ in range(best_of):
        start = time.perf_counter()
        run()
        took.append(1e3 * (time.perf_counter() - start))
    return min(took)


steps = {}


def so_far(name, ms, *functions):
    """Note a step, and draw all so far; ms is None for what ran on no clock."""
    steps[name] = sum(map(lines, functions)), ms
    figure, (left, right) = canvas(9, 0.9 + 0.35 * len(steps), columns=2)
    left.barh(list(steps), [count for count, _ in steps.values()], color=COLOURS[0])
    right.barh(list(steps), [ms or 0 for _, ms in steps.values()], color=COLOURS[1])
    left.set(xlabel="lines")
    right.set(xlabel="ms for the night, measured here", xscale="log", yticklabels=[])
    left.invert_yaxis()
    right.invert_yaxis()
    return Picture(figure, "; ".join(f"{name}: {count} lines, {f'{ms:.3g} ms' if ms else 'no time'}"
                                     for name, (count, ms) in steps.items()) + ".")


# %% id="step-loop"
so_far("the loop, Python", milliseconds(lambda: by_loop(*night), best_of=1), make_map)

# %% [markdown] id="test-task"
# ### Exercise: write a good test
#
# In our night, every sweep has at least two good samples, and none has length zero. So a port that fails for other
# sweeps would go unnoticed. Write `passes(port)`, which returns true if the port gives the same results as the loop,
# and false otherwise. One case is given, and you add the others, with small observations from `observe`, whose arrays
# you may change. The check tries ports with one mistake each.

# %% id="test-exercise" tags=["exercise"]
def passes(port):
    cases = [observe(2, 5, 20, 60, seed=1)]
    ### BEGIN SOLUTION
    signal, good, pixels, starts, stops, weights = observe(2, 5, 20, 60, seed=2)
    good[0, starts[1]:stops[1]] = False  # a sweep without a good sample
    good[1, starts[2]:stops[2] - 1] = False  # one with a single good sample, its last
    good[1, stops[2] - 1] = True
    signal = np.where(np.isnan(signal), 0.0, signal)  # (so that the new good one is a number)
    stops[3] = starts[3]  # an empty one
    cases.append((signal, good, pixels, starts, stops, weights))
    ### END SOLUTION
    return all(same(port, case) for case in cases)


# %% id="test-check"
check("test", passes)

# %% [markdown] id="lost-predict" tags=["predict"]
# ## 2. NumPy: the loop over samples disappears
#
# The task is modelled on the real port of the telescope software [TOAST](https://github.com/hpc4cmb/toast), which you
# may have met in "One problem, every tool". We port the loop to NumPy first and then to JAX, and separately to Numba
# CUDA.
#
# In NumPy a whole sweep is one array, for all detectors together. Adding it to the map looks just as easy, with
# `sky[pixels] += rest`. *Predict:* if three samples of 1.0 are in pixel 2, what does that pixel hold after this line?

# %% id="lost-guess"
predict("lost", "3.0", "1.0", "an error: an index comes twice")

# %% id="lost"
seen, rest = np.array([2, 2, 2, 1]), np.ones(4)
sky = np.zeros(4)
sky[seen] += rest
print("sky[seen] += rest:    ", sky)
print("np.bincount(seen, …): ", np.bincount(seen, rest, minlength=4))

# %% [markdown] id="lost-why" tags=["why"]
# It holds 1.0, because NumPy loads all four elements of `sky[seen]`, adds to them, and stores all four, and the last
# store to pixel 2 overwrites the others. It is the lost update from "Numba CUDA", without any threads. `np.bincount`
# adds every sample, and so does `np.add.at`. A test with few samples and many pixels would never have noticed the
# mistake.

# %% [markdown] id="fit-task"
# ### Exercise: all lines at once
#
# Write `fit_lines(y, good, xp)`. It fits a line to the good samples along the *last* axis, and returns the value of the
# line at every sample, in an array of the shape of `y`. There may be any number of axes before the last. Where `good`
# is false, `y` may be NaN, and NaN times 0 is still NaN. If there is no good sample, the line is 0 everywhere. If there
# is one, the line has the value of that sample everywhere. `xp` is NumPy now, and will be JAX later.

# %% id="fit-exercise" tags=["exercise"]
def fit_lines(y, good, xp=np):
    """The line through the good samples along the last axis, at every sample."""
    line = xp.zeros(y.shape)
    ### BEGIN SOLUTION
    t = xp.arange(y.shape[-1])
    y = xp.where(good, y, 0.0)
    add = partial(xp.sum, axis=-1, keepdims=True)
    n, sum_t, sum_tt, sum_y, sum_ty = add(good), add(good * t), add(good * t * t), add(y), add(t * y)
    # Both divisors are whole numbers; where one is 0, so is what it divides.
    slope = (n * sum_ty - sum_t * sum_y) / xp.maximum(n * sum_tt - sum_t**2, 1)
    line = (sum_y - slope * sum_t) / xp.maximum(n, 1) + slope * t
    ### END SOLUTION
    return line


# %% id="fit-check"
check("fit", fit_lines)

# %% id="numpy"
def by_numpy(signal, good, pixels, starts, stops, weights):
    cleaned, sky, hits = signal.copy(), np.zeros(PIXELS), np.zeros(PIXELS)
    weight = np.broadcast_to(weights[:, None], signal.shape)
    for first, last in zip(starts, stops, strict=True):
        sweep = np.s_[:, first:last]
        ok = good[sweep]
        cleaned[sweep] -= np.where(ok, fit_lines(signal[sweep], ok), 0.0)
        sky += np.bincount(pixels[sweep][ok], (weight[sweep] * cleaned[sweep])[ok], PIXELS)
        hits += np.bincount(pixels[sweep][ok], weight[sweep][ok], PIXELS)
    return cleaned, sky, hits


print("the night:", same(by_numpy, night), "- your test:", passes(by_numpy))
so_far("NumPy", milliseconds(lambda: by_numpy(*night)), by_numpy, fit_lines)

# %% [markdown] id="mutable-text"
# ## 3. JAX: one shape for all
#
# Two obstacles remain: JAX would unroll the loop over sweeps, and compile every length separately, and the loop changes
# its arguments, which the next cell tries with a JAX array.

# %% id="mutable" raises="TypeError"
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)  # the loop computes in double precision, so the port does
jnp.asarray(signal)[0, 0] -= 1.0

# %% [markdown] id="mutable-why"
# The message tells you to use `.at[…]`, which returns a new array. The people who ported TOAST wrapped JAX's arrays in
# a small class that behaves as if its array could be changed. They put the sweeps into a rectangle with one row for
# each sweep. All rows are as long as the longest sweep, and a mask marks the elements past the end of a sweep.

# %% [markdown] id="rectangle-predict" tags=["predict"]
# Our sweeps have 30 to 400 samples, every length equally likely. *Predict:* how much of the rectangle contains samples
# of a sweep?

# %% id="rectangle-guess"
predict("rectangle", "a tenth", "about half", "nearly all of it")

# %% id="rectangle"
longest = int((stops - starts).max())
inside = starts[:, None] + np.arange(longest) < stops[:, None]
figure, axes = canvas(9, 2.2)
axes.imshow(inside, aspect="auto", cmap="Blues", vmax=1.5, interpolation="nearest")
axes.set(xlabel="sample of the sweep", ylabel="sweep")
Picture(figure, f"A rectangle of {starts.size} rows and {longest} columns; {inside.mean():.0%} of it, at the left of each row, "
                "is a sample of a sweep. The rest is padding.")

# %% [markdown] id="rectangle-why" tags=["why"]
# About half of it does, but all of it is loaded, fitted and added, so the work on masked elements is wasted. A single
# sweep of 4,000 samples would reduce the useful part to less than a tenth. In that case you would sort the sweeps into
# two or three rectangles, or use another method, such as `jax.ops.segment_sum`.

# %% [markdown] id="jax-task"
# ### Exercise: the rectangle
#
# Complete `jax_map`. The array `positions` is given, and may contain indices beyond the end of a sweep, and even beyond
# the end of the signal. Make the mask, call `fit_lines`, and return the cleaned signal, the sky and the hits. An
# element of the signal may appear *twice* in `positions`, as the padding of one sweep and as a sample of the next, and
# `.at[…].set` doesn't promise which of the two comes last. If an index is past the end of the array, JAX reads the last
# element instead, and `.at[…].add` ignores it.

# %% id="jax-exercise" tags=["exercise"]
traced = []


@partial(jax.jit, static_argnames="longest")
def jax_map(signal, good, pixels, starts, stops, weights, longest):
    traced.append(longest)  # Python: it runs while JAX traces, and only then
    positions = starts[:, None] + jnp.arange(longest)  # a row for each sweep
    cleaned, sky, hits = signal, jnp.zeros(PIXELS), jnp.zeros(PIXELS)
    ### BEGIN SOLUTION
    ok = good[:, positions] & (positions < stops[:, None])
    y = signal[:, positions]  # detectors, sweeps, samples
    line = jnp.where(ok, fit_lines(y, ok, jnp), 0.0)
    weight = jnp.where(ok, weights[:, None, None], 0.0)
    cleaned = signal.at[:, positions].add(-line)
    sky = sky.at[pixels[:, positions]].add(weight * jnp.where(ok, y - line, 0.0))
    hits = hits.at[pixels[:, positions]].add(weight)
    ### END SOLUTION
    return cleaned, sky, hits


# %% id="jax-check"
check("jax", jax_map)

# %% id="jax"
def by_jax(signal, good, pixels, starts, stops, weights):
    longest = int((stops - starts).max(initial=0))
    return jax.block_until_ready(jax_map(signal, good, pixels, starts, stops, weights, longest))


print("the night:", same(by_jax, night), "- your test:", passes(by_jax))
so_far("JAX", milliseconds(lambda: by_jax(*night)), jax_map.__wrapped__, fit_lines, by_jax)

# %% [markdown] id="nights-predict" tags=["predict"]
# The measured time excludes compiling, because the line above had already compiled the program. *Predict:* how often
# does JAX trace and compile again for two more nights, which have different sweeps?

# %% id="nights-guess"
predict("nights", "never: the code is the same", "once for each night", "once for each sweep")

# %% id="nights"
nights = [observe(8, 40, 30, 400, seed) for seed in (18, 19)]
traced.clear()
for data in nights:
    start = time.perf_counter()
    by_jax(*data)
    print(f"signal {data[0].shape}: times traced so far: {len(traced)}; {time.perf_counter() - start:.2f} s on this machine")


def rounded_up(signal, good, pixels, starts, stops, weights, samples=2**14):
    """The same observation in one shape for all nights: bad samples at the end of each detector."""
    more = ((0, 0), (0, samples - signal.shape[1]))
    return (np.pad(signal, more), np.pad(good, more), np.pad(pixels, more), starts, stops, weights)


traced.clear()
for data in nights:
    _, sky, _ = jax_map(*rounded_up(*data), longest=512)
    print("rounded up:", np.allclose(sky, by_loop(*data)[1]), f"- times traced so far: {len(traced)}")

# %% [markdown] id="nights-why" tags=["why"]
# It compiles once for each night, because a different number of samples is a different shape, which needs another
# program. If you pad every night to one size, JAX compiles only once, but the program works on more padding. So a port
# to JAX needs **sizes that don't change**.

# %% [markdown] id="atomics-predict" tags=["predict"]
# ## 4. Numba CUDA: the loop, once for each sweep
#
# With CUDA you keep only the inner loops. The two outer `for` loops disappear, because each *thread* takes one sweep of
# one detector, which needs no padding and no mask.
#
# *Predict:* which lines of the loop need an atomic?

# %% id="atomics-guess"
predict("atomics",
        "none: each thread has its own sweep",
        "those that add to sky and to hits",
        "all that write: signal, sky and hits")

# %% id="atomics"
from numba import cuda


@cuda.jit
def adds_without_asking(rest, pixels, stops, sky):
    k = cuda.grid(1)
    if k < stops.size:
        for s in range(stops[k] - 30, stops[k]):
            sky[pixels[s]] += rest[s]


with virtualgpu.check() as report:
    adds_without_asking[1, 64](cuda.to_device(np.ones(signal.shape[1])), cuda.to_device(pixels[0]),
                               cuda.to_device(stops), cuda.to_device(np.zeros(PIXELS)))
print(report)

# %% [markdown] id="atomics-why" tags=["why"]
# The lines that add to `sky` and `hits` need atomics, because two sweeps may contain the same pixel, and `+=` loses
# updates. The samples of a sweep belong to a single thread, so the kernel can change the signal in place, as the loop
# does.

# %% [markdown] id="cuda-task"
# ### Exercise: the kernel
#
# Write the kernel, which is the body of the two outer loops, for sweep `k` of detector `d`. You can copy most of it
# from `make_map`, but think about what replaces `continue`.

# %% id="cuda-exercise" tags=["exercise"]
@cuda.jit
def map_kernel(signal, good, pixels, starts, stops, weights, sky, hits):
    me = cuda.grid(1)
    if me >= signal.shape[0] * starts.size:
        return
    d, k = me // starts.size, me % starts.size
    ### BEGIN SOLUTION
    first, last = starts[k], stops[k]
    n = sum_t = sum_tt = 0
    sum_y = sum_ty = 0.0
    for s in range(first, last):
        if good[d, s]:
            t = s - first
            n += 1
            sum_t += t
            sum_tt += t * t
            sum_y += signal[d, s]
            sum_ty += t * signal[d, s]
    if n == 0:
        return
    slope = 0.0
    determinant = n * sum_tt - sum_t * sum_t
    if determinant > 0:
        slope = (n * sum_ty - sum_t * sum_y) / determinant
    offset = (sum_y - slope * sum_t) / n
    for s in range(first, last):
        if good[d, s]:
            signal[d, s] -= offset + slope * (s - first)
            cuda.atomic.add(sky, pixels[d, s], weights[d] * signal[d, s])
            cuda.atomic.add(hits, pixels[d, s], weights[d])
    ### END SOLUTION


# %% id="cuda-check"
check("cuda", map_kernel)

# %% id="cuda"
def by_cuda(signal, good, pixels, starts, stops, weights):
    results = [cuda.to_device(array) for array in (signal, np.zeros(PIXELS), np.zeros(PIXELS))]
    inputs = [cuda.to_device(array) for array in (good, pixels, starts, stops, weights)]
    blocks = max(1, (signal.shape[0] * starts.size + 63) // 64)
    map_kernel[blocks, 64](results[0], *inputs, *results[1:])
    return [result.copy_to_host() for result in results]


print("the night:", same(by_cuda, night), "- your test:", passes(by_cuda))
so_far("Numba CUDA", None if device().virtual else milliseconds(lambda: by_cuda(*night)),
       map_kernel.py_func, by_cuda)

# %% [markdown] id="cuda-then"
# Without a GPU, the last bar has no time, because a virtual GPU has no clock. But the virtual GPU counts, and the next
# cell shows two warps of that kernel, in which pale lanes are waiting.

# %% id="cuda-picture"
with virtualgpu.profile() as profile:
    by_cuda(*night)
counts = profile.counters
print(f"lanes with nothing to do: {counts.lanes_lost / (32 * counts.warp_instructions):.0%}; sectors moved: "
      f"{counts.global_load_sectors:,}, where {counts.global_load_ideal_sectors:,} would do")
import gpucourse

few = observe(2, 32, 5, 40)
gpucourse.timeline(map_kernel, 1, 64, *few, np.zeros(PIXELS), np.zeros(PIXELS), steps=60)

# %% [markdown] id="cuda-picture-why"
# Uneven sweeps have a price here as well, because a warp iterates until its longest sweep is done. Also, each lane
# reads its own sweep from the start to the end, so neighbouring lanes read elements that are far apart. A *block* for
# each sweep solves both problems, because its threads read adjacent samples and add up their sums in shared memory.
# "Thinking in warps" shows the counts for such a kernel. So with CUDA you need to know more, and write more.

# %% [markdown] id="fastest-predict" tags=["predict"]
# ## 5. Gains and losses
#
# To be fair, we also time the *old loop itself*, compiled with `numba.njit`, which is close to what the C++ was.
# *Predict:* which is the fastest on this machine's processor?

# %% id="fastest-guess"
predict("fastest", "NumPy", "JAX", "the old loop, compiled")

# %% id="fastest"
from numba import njit

compiled = njit(make_map)
print("the night:", same(partial(by_loop, loop=compiled), night))
so_far("the loop, Numba", milliseconds(lambda: by_loop(*night, loop=compiled)), make_map)

# %% [markdown] id="fastest-why" tags=["why"]
# It is most likely the old loop, because it makes no intermediate arrays and has no padding, and its data fit into a
# core's caches. On a CPU a port can easily be slower. So compare a port with the *compiled* loop and not with the loop
# in Python, or any port will look fast.

# %% [markdown] id="gained-text"
# A port can still be worth it, because it runs on a machine that the loop can't use. The authors of a port of 13 TOAST
# kernels report up to 45 times the speed of the optimised C++, for the best kernel, and 7 times fewer lines. They
# compare JAX on the GPUs of the supercomputer Perlmutter with C++ on its CPUs (N. Demeure, slides of NERSC, 2024). The
# pictures above show your numbers of lines, and on a machine with a GPU also your times.
#
# | | NumPy | JAX | Numba CUDA |
# |---|---|---|---|
# | gained | short; you can check it by eye | the same code on CPU, GPU and TPU; derivatives | the loop, nearly unchanged; no padding |
# | lost | one core; intermediate arrays | fixed sizes, padding; nothing changes in place | NVIDIA GPUs only; you have to avoid races |
# | found on the way | the update that `+=` loses | elements that appear twice | the same two lines need atomics |
#
# The library did not make these steps safe, but your test, `passes`, did.

# %% id="the-map"
cleaned, sky, hits = by_numpy(*night)
figure, axes = canvas(9, 2.6)
axes.plot(SKY - SKY.mean(), color="0.5", label="the true sky, without its mean")
axes.plot(sky / np.maximum(hits, 1e-9), "o", markersize=4, color=COLOURS[6], label="the map, from one night")
axes.set(xlabel="pixel", ylabel="signal")
axes.legend(fontsize=8)
Picture(figure, f"The map of {PIXELS} pixels, beside the true sky; they are correlated by "
                f"{np.corrcoef(sky / np.maximum(hits, 1e-9), SKY)[0, 1]:.2f}.")

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - Before you port, write a test that fails for a wrong port. It must compare all results, including arguments that are
#   changed, and cover the edge cases.
# - Port to NumPy first, because it is short, it runs at once, and most of it is JAX already.
# - For uneven intervals, use a rectangle and a mask in JAX, and a thread or a block for each interval in CUDA. In both
#   cases the longest interval sets the cost.
# - If an element appears twice, adding to it loses updates in NumPy, in JAX's `set` and between threads. Use
#   `bincount`, `.at[…].add` and atomics.
# - Compare with the best program that you had, compiled, on data of realistic size, and count the lines that somebody
#   will have to read.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - [TOAST](https://github.com/hpc4cmb/toast), and N. Demeure et al.,
#   [the study of its port](https://cug.org/proceedings/cug2023_proceedings/cug2023_doi/papers_pages/pap107.html) (CUG 2023).
# - JAX: [arrays that don't change](https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html),
#   [segment_sum](https://docs.jax.dev/en/latest/_autosummary/jax.ops.segment_sum.html) for sums over uneven groups.
# - NumPy: [bincount](https://numpy.org/doc/stable/reference/generated/numpy.bincount.html) and
#   [ufunc.at](https://numpy.org/doc/stable/reference/generated/numpy.ufunc.at.html).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 50 minutes
#
# | minutes | what |
# |---|---|
# | 0-6 | the question; read the loop aloud, one person for each commented part |
# | 6-16 | section 1; collect cases for `test` on the board before anybody types |
# | 16-25 | section 2, with `fit` |
# | 25-36 | section 3, with `jax` |
# | 36-45 | section 4; `cuda` is mostly copying |
# | 45-50 | section 5; a vote before the cell |
#
# *Ten minutes late:* give the solution of `jax`, and leave out the nights. *Ten minutes early:* ask for a block for
# each sweep.
#
# *Where people get stuck.* In `test` they change `good` and forget that the signal there is NaN. In `fit` they write
# `y * good`. In `jax` they use `.at[].set`, which lets the padding of one sweep overwrite the samples of the next. In
# `cuda` they write `continue`, but a thread has only one sweep, so it must `return`.
#
# *Frequent questions.* "Why not port straight to CUDA?" You can, with the same test. But the NumPy version shows what
# the loop means, and you keep it as a slow reference that is right. "Are nine digits enough?" Yes, if only the order of
# the additions differs. Ask how much the last digit of a result matters, and write the answer down.
