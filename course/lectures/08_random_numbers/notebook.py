# %% [markdown] id="the-question-asked"
# ## Which of these errors is true?
#
# Throw points into a square and count those inside the quarter circle, whose share of all points is about π/4. Here
# 4,096 threads throw 64 points each, 262,144 in all, so the estimate of π should be within about ±0.003. Run the cell,
# which does this five times, each time with a different seed.

# %% id="the-question"
# %load_ext gpucourse
import math

import numpy as np
from gpucourse import lesson
from gpucourse.views.picture import COLOURS, Picture, canvas
from numba import cuda, uint64

check, hint, predict = lesson("08_random_numbers")
THREADS, POINTS = 4096, 64


@cuda.jit(device=True)
def step(state):
    """The next state of the generator xorshift64 (Marsaglia 2003); it must not be 0."""
    state ^= state << uint64(13)
    state ^= state >> uint64(7)
    state ^= state << uint64(17)
    return state


@cuda.jit(device=True)
def uniform(state):
    """A number in [0, 1) from the upper 53 bits of the state."""
    return (state >> uint64(11)) * (1 / 9007199254740992)  # 2**53


# %% id="the-kernel"
@cuda.jit
def throw(seeds, hits):
    i = cuda.grid(1)
    if i < seeds.size:
        state = seeds[i]
        inside = 0
        for _ in range(POINTS):
            state = step(state)
            x = uniform(state)
            state = step(state)
            y = uniform(state)
            if x * x + y * y < 1:
                inside += 1
        hits[i] = inside


def hits_of(seeds):
    """How many points each thread had inside."""
    d_hits = cuda.device_array(seeds.size, np.int64)
    throw[(seeds.size + 127) // 128, 128](cuda.to_device(seeds), d_hits)
    return d_hits.copy_to_host()


# %% id="the-estimates"
expected_error = math.sqrt(math.pi * (4 - math.pi) / (THREADS * POINTS))
same_seed = np.random.default_rng(7).integers(1, 2**63, 5, np.uint64)
for seed in same_seed:
    hits = hits_of(np.full(THREADS, seed, np.uint64))
    pi = 4 * hits.sum() / (THREADS * POINTS)
    print(f"π = {pi:.4f} ± {expected_error:.4f}; off by {abs(pi - math.pi) / expected_error:6.1f} errors")

# %% [markdown] id="the-question-stands"
# There is no error, no warning and no race, and each number is a fine random number. Yet the estimates miss π by 14 to
# 142 times the error that they claim. **Where did 262,144 points go?**

# %% [markdown] id="the-way" tags=["whole"]
# You will see how streams of random numbers go wrong, how to make good ones, and how to test them, because looking at
# them isn't enough.

# %% [markdown] id="same-predict" tags=["predict"]
# ## 1. The same seed for all
#
# A generator is a machine that goes from one state to the next, always in the same way. *Predict:* with
# one seed for all threads, how many different values are there among the 4,096 `hits`?

# %% id="same-guess"
predict("same",
        "4,096: each thread has its own points",
        "some hundred: many are equal by chance",
        "one")

# %% id="same"
print("different values:", np.unique(hits).size)
print("spread of the threads' own estimates:", np.std(4 * hits / POINTS))

# %% [markdown] id="same-why" tags=["why"]
# There is only one, because every thread threw *the same* 64 points. So the true error is that of 64 points and not of
# 262,144. If you took the spread between the threads as your error, you would even claim ±0.

# %% [markdown] id="same-then"
# ### Exercise: an estimate with its error
#
# If threads *are* independent, the spread of their results gives the error, without any formula about circles. Write
# `estimate(hits, points)`, which returns π and its standard error. This is the standard deviation of the threads' own
# estimates (`ddof=1`), divided by the square root of their number.

# %% id="estimate-exercise" tags=["exercise"]
def estimate(hits, points):
    """(π, its standard error) from the hits of independent threads with `points` points each."""
    pi, error = None, None
    ### BEGIN SOLUTION
    each = 4 * hits / points
    pi = each.mean()
    error = each.std(ddof=1) / math.sqrt(hits.size)
    ### END SOLUTION
    return pi, error


# %% id="estimate-check"
check("estimate", estimate)

# %% [markdown] id="neighbours-predict" tags=["predict"]
# ## 2. Seeds side by side
#
# Now each thread gets its own seed, which is its number plus one. *Predict:* is the estimate good or bad this time?

# %% id="neighbours-guess"
predict("neighbours", "good: no two states are alike", "bad")

# %% id="neighbours"
side_by_side = np.arange(1, THREADS + 1, dtype=np.uint64)


@cuda.jit
def first_numbers(seeds, out):
    """The first out.shape[1] numbers of each thread."""
    i = cuda.grid(1)
    if i < seeds.size:
        state = seeds[i]
        for k in range(out.shape[1]):
            state = step(state)
            out[i, k] = uniform(state)


def numbers_of(seeds, count):
    out = cuda.device_array((seeds.size, count))
    first_numbers[(seeds.size + 127) // 128, 128](cuda.to_device(seeds), out)
    return out.copy_to_host()


hits = hits_of(side_by_side)
pi = 4 * hits.sum() / (THREADS * POINTS)
print(f"π = {pi:.4f}; off by {(pi - math.pi) / expected_error:+.1f} errors")
print("first numbers of threads 0 to 3:", numbers_of(side_by_side, 1)[:4, 0])

# %% id="neighbours-picture"
def draw_streams(seeds, title):
    """Number 3 against number 2 of each thread, and number 3 against the thread."""
    numbers = numbers_of(seeds, 3)
    figure, (left, right) = canvas(9, 3, columns=2)
    left.plot(numbers[:, 1], numbers[:, 2], ".", markersize=2, color=COLOURS[5])
    left.set(xlabel="second number", ylabel="third number", title=title)
    right.plot(numbers[:, 2], ".", markersize=2, color=COLOURS[6])
    right.set(xlabel="thread", ylabel="third number")
    taken = np.unique((numbers[:, 1] * 64).astype(int)).size
    return Picture(figure, f"{title}: the second and third number of {len(seeds)} threads. The second "
                           f"numbers lie in {taken} of 64 stripes. On the right, the third number of "
                           "each thread.")


draw_streams(side_by_side, "seeds 1, 2, 3, …")

# %% [markdown] id="neighbours-why" tags=["why"]
# The estimate is bad, because small seeds have few bits set, and this generator needs several steps to spread them. So
# the first numbers are all close to 0, and the second ones come in stripes. A generator promises much about the numbers
# *along* one stream, and nothing about numbers *across* streams with related seeds.
#
# Skipping the first thousand numbers helps a little and proves nothing. A hash is better, because it
# scrambles the seeds until neighbours have nothing in common.

# %% [markdown] id="mix-predict" tags=["predict"]
# ## 3. Streams that are kept apart
#
# ![A generator is one long sequence of numbers; each thread takes a stretch of it. With the same seed in every
# thread all stretches are the same one: every thread computes the same numbers. With starts drawn at random or
# side by side, stretches may overlap: some numbers count twice. With streams that are kept a fixed long way
# apart, 2 to the power of 64 numbers for xoroshiro128+, no stretch reaches the next.](../img/random_streams.svg)
#
# Numba includes xoroshiro128+, whose states `create_xoroshiro128p_states(threads, seed)` places 2⁶⁴ numbers apart, so
# that no thread ever reaches another's numbers. Each thread has a state in memory, and each draw advances it.
#
# *Predict:* if the kernel is launched twice, does it find the same hits, or others?

# %% id="xoroshiro-guess"
predict("xoroshiro", "the same: the seeds are the same", "others")

# %% id="xoroshiro"
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float64


@cuda.jit
def throw_with_states(states, hits):
    i = cuda.grid(1)
    if i < hits.size:
        inside = 0
        for _ in range(POINTS):
            x = xoroshiro128p_uniform_float64(states, i)
            y = xoroshiro128p_uniform_float64(states, i)
            if x * x + y * y < 1:
                inside += 1
        hits[i] = inside


states = create_xoroshiro128p_states(THREADS, seed=2026)
for launch in (1, 2):
    d_hits = cuda.device_array(THREADS, np.int64)
    throw_with_states[THREADS // 128, 128](states, d_hits)
    hits = d_hits.copy_to_host()
    print(f"launch {launch}: {hits[:8]} …  π = {4 * hits.mean() / POINTS:.4f} ± {expected_error:.4f}")

# %% [markdown] id="xoroshiro-why" tags=["why"]
# It finds others, because the states advanced and stayed in memory for the next launch. You need that here, but it
# means that a result depends on all launches before it, and on *how many threads* there were, because thread 5's
# numbers belong to thread 5. With another launch shape, other elements get them.

# %% [markdown] id="counter-predict" tags=["predict"]
# ## 4. No state at all
#
# A **counter-based** generator has no state, because it is a function `random(key, counter)` that scrambles its two
# arguments. Number 1,000,000 costs as much as number 0, and it doesn't matter which thread asks. Philox and Threefry
# are such generators, made for GPUs. Here is a small one of the same kind, the scrambling function of SplitMix64.
#
# *Predict:* if three launches of different shapes fill an array, do all three give the same numbers?

# %% id="counter-guess"
predict("counter", "the same", "others: each shape has other threads")

# %% id="counter"
@cuda.jit(device=True)
def random(key, counter):
    """A number in [0, 1) that depends on key and counter alone (both uint64)."""
    z = uint64(key) + uint64(counter + 1) * uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return uniform(z ^ (z >> uint64(31)))


@cuda.jit
def fill(key, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = random(key, i)


def filled(blocks, threads, key=2026, n=100_000):
    out = cuda.device_array(n)
    fill[blocks, threads](np.uint64(key), out)
    return out.copy_to_host()


reference = filled(32, 128)
for blocks, threads in ((1, 96), (200, 64), (64, 256)):
    print(f"[{blocks}, {threads}]: the same numbers:", np.array_equal(filled(blocks, threads), reference))

# %% [markdown] id="counter-why" tags=["why"]
# All three give the same numbers, bit for bit, because a number belongs to the *element* and not to the thread. You can
# repeat the results on any device and with any launch. You must make sure of one thing: **never use a counter twice with the same key**.

# %% [markdown] id="counter-then"
# ### Exercise: points by counter
#
# Write the kernel `points`, which draws `x[i]` and `y[i]` for every `i` from `random(key, …)`, in a grid-stride loop.
# Every launch must give the same points and use no number twice, so point `i` needs two counters of its own.

# %% id="counter-exercise" tags=["exercise"]
@cuda.jit
def points(key, x, y):
    ### BEGIN SOLUTION
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = random(key, 2 * i)
        y[i] = random(key, 2 * i + 1)
    ### END SOLUTION


# %% id="counter-check"
check("counter", points)

# %% [markdown] id="tests-text"
# ## 5. Test them
#
# A test of randomness counts something whose distribution is known, and measures how far off it is. The simplest test sorts
# the numbers into bins. With $n$ numbers and $b$ bins, each should have $e = n/b$, and
#
# $$\chi^2 = \sum_k \frac{(\text{count}_k - e)^2}{e}$$
#
# should be about $b - 1$, give or take $\sqrt{2(b-1)}$. So $z = (\chi^2 - (b - 1)) / \sqrt{2(b - 1)}$ should be a few
# units at most, *on either side*, because counts that are too even are not random either.
#
# ### Exercise: how far off?
#
# Write `chi_square_z(values, bins)`, which returns $z$ for values in [0, 1).

# %% id="chi-exercise" tags=["exercise"]
def chi_square_z(values, bins):
    z = None
    ### BEGIN SOLUTION
    counts = np.bincount((values * bins).astype(int), minlength=bins)
    each = values.size / bins
    chi_square = ((counts - each) ** 2 / each).sum()
    z = (chi_square - (bins - 1)) / math.sqrt(2 * (bins - 1))
    ### END SOLUTION
    return z


# %% id="chi-check"
check("chi-square", chi_square_z)

# %% [markdown] id="autopsy-predict" tags=["predict"]
# Each of these four methods gives 4,096 streams of 16 numbers. We test *along* the streams, with all numbers of 16
# streams that are far apart, and *across* them, with the first number of all streams.
#
# *Predict:* which of the four pass both, in the table that your `chi_square_z` makes?

# %% id="autopsy-guess"
predict("autopsy", "all four", "the last only", "the last two")

# %% id="autopsy"
def zs(numbers):
    """z along streams and across them, in 16 bins."""
    tests = (numbers[::256].ravel(), numbers[:, 0])
    answers = [chi_square_z(values, 16) for values in tests]
    return [math.nan if z is None else z for z in answers]


spread_out = (filled(32, 128, n=THREADS) * 2**63).astype(np.uint64) | np.uint64(1)
specimens = {
    "the same seed": numbers_of(np.full(THREADS, same_seed[0], np.uint64), 16),
    "seeds 1, 2, 3, …": numbers_of(side_by_side, 16),
    "scrambled seeds": numbers_of(spread_out, 16),
    "by counter": filled(32, 128, n=THREADS * 16).reshape(THREADS, 16),
}
print(f"{'':20}{'z along':>10}{'z across':>10}")
for name, numbers in specimens.items():
    along, across = zs(numbers)
    print(f"{name:20}{along:10.1f}{across:10.1f}")

# %% [markdown] id="autopsy-why" tags=["why"]
# The last two pass both tests. In the first two each stream looks perfect by itself, but they fail across streams,
# which is the direction in which a launch adds up.

# %% [markdown] id="autopsy-then"
# Here are the scrambled seeds, drawn like those before.

# %% id="scrambled-picture"
draw_streams(spread_out, "scrambled seeds")

# %% [markdown] id="scrambled-why"
# A passed test proves little, because among a hundred z-scores one beyond 3 is no cause for alarm, but one of several
# hundred is. Serious test suites, such as TestU01 and PractRand, run hundreds of tests on terabytes. xorshift64 itself
# fails some of them, so in your work use Philox, Threefry or a xoshiro, and test *how you use it*, that is, the
# streams.
#
# Here is the reason for all this work.

# %% id="convergence"
sizes = 4 ** np.arange(1, 6)  # threads
good_seeds = (filled(32, 128, n=8 * 4096) * 2**63).astype(np.uint64) | np.uint64(1)
errors = {"scrambled seeds": [], "the same seed": []}
for n in sizes:
    runs = good_seeds.reshape(32, -1)[:, :n]
    for name, seeds in (("scrambled seeds", runs), ("the same seed", runs[:, :1].repeat(n, 1))):
        misses = [4 * hits_of(np.ascontiguousarray(run)).mean() / POINTS - math.pi for run in seeds]
        errors[name].append(np.sqrt(np.mean(np.square(misses))))
figure, axes = canvas(7, 3)
for (name, error), colour in zip(errors.items(), (COLOURS[5], COLOURS[6]), strict=True):
    axes.loglog(sizes * POINTS, error, "o-", color=colour, label=name)
expected = np.sqrt(math.pi * (4 - math.pi) / (sizes * POINTS))
axes.loglog(sizes * POINTS, expected, "--", color="0.5", label="1/√N")
axes.set(xlabel="points", ylabel="typical error of π")
axes.legend()
Picture(figure, "Typical error of π over 32 runs against the number of points, both on logarithmic "
                f"scales: with scrambled seeds it falls from {errors['scrambled seeds'][0]:.3f} to "
                f"{errors['scrambled seeds'][-1]:.4f}, along the line 1/√N; with the same seed it "
                f"stays at about {np.mean(errors['the same seed']):.2f}.")

# %% [markdown] id="convergence-why"
# With good streams, the error falls as 1/√N, so four times the points give half the error. With the same seed it stays
# at the error of 64 points. When an error does not fall as 1/√N, suspect the streams.

# %% [markdown] id="jax-text" tags=["predict"]
# ## 6. Keys in JAX
#
# JAX's generator is Threefry, which is also counter-based. You hold a key, `split` makes new keys, and
# `fold_in(key, i)` makes one for each number `i`. There is no state and so no order, and the same key gives the same
# numbers wherever you use it. Using a key twice is the old mistake in a new form, which JAX can look out for.
# *Predict:* does it complain while it compiles `point`, or when it has the numbers?

# %% id="key-reuse-guess"
predict("key-reuse", "while it compiles", "when it has the numbers")

# %% id="key-reuse" raises="KeyReuseError"
import jax


@jax.jit
def point(key):
    return jax.random.uniform(key), jax.random.uniform(key)


print("not watched:", *point(jax.random.key(2026)))
with jax.debug_key_reuse(True):
    point(jax.random.key(2026))

# %% [markdown] id="key-reuse-why" tags=["why"]
# JAX complains while it compiles, with `argument 0 is already consumed`, because it sees in the list of operations that a
# key is used twice, before there is any number. Without the watch, x and y are equal, and every point is on the diagonal. The watch is off unless
# you ask for it, so ask for it while you develop.

# %% id="keys"
for_x, for_y = jax.random.split(jax.random.key(2026))
x, y = jax.random.uniform(for_x, THREADS * POINTS), jax.random.uniform(for_y, THREADS * POINTS)
print(f"π = {4 * float((x * x + y * y < 1).mean()):.4f} ± {expected_error:.4f}")

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - The same seed in every thread means the same numbers in every thread, so there are only as many different points as
#   one thread throws.
# - Seeds side by side give related streams, so scramble the seeds, or keep streams a known distance apart.
# - A counter-based generator has no state, so a number belongs to an element, for every launch and every device, if you
#   never use a counter twice.
# - Test streams along and across, and check that the error falls as 1/√N.
# - In JAX, use each key once, and split it if you need more.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - Salmon and others, [Parallel random numbers: as easy as 1, 2, 3](https://doi.org/10.1145/2063384.2063405) of 2011,
#   on Philox and Threefry.
# - Blackman and Vigna, [Scrambled linear pseudorandom number generators](https://doi.org/10.1145/3460772), and
#   their [page on xoshiro and xoroshiro](https://prng.di.unimi.it).
# - Numba-CUDA: [random number generation](https://nvidia.github.io/numba-cuda/user/random.html).
# - JAX: [pseudorandom numbers](https://docs.jax.dev/en/latest/random-numbers.html), and
#   [the design behind them](https://docs.jax.dev/en/latest/jep/263-prng.html).
# - NumPy: [parallel random number generation](https://numpy.org/doc/stable/reference/random/parallel.html).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 40 minutes
#
# | minutes | what |
# |---|---|
# | 0-4 | the question; ask for guesses before section 1 |
# | 4-13 | sections 1 and 2; `estimate` alone |
# | 13-25 | sections 3 and 4; `counter` in pairs |
# | 25-36 | section 5; `chi-square` |
# | 36-40 | section 6 |
#
# *Ten minutes late:* leave out the exercise `chi-square`, and show the table of the autopsy from `solutions/`.
#
# *Where people get stuck.* In `counter`, they take `i` and `i + 1`, and then two points share a number. Draw three points
# and their counters on the board. In `chi-square`, they give 1.0 its own bin, but [0, 1) has no 1.0.
#
# *Frequent questions.* "Why not seed with the time?" Then nobody can repeat the result, and threads that start together
# get the same seed. "Is `np.random` on the host not enough?" It is enough for a few million numbers. More numbers take
# long to copy, because the link to the device has tens of times less bandwidth than the device's memory. "Can all
# threads have random seeds?" If n streams of length L start in a period P, the chance of an overlap is about n²L/P.
# That is negligible for 2¹²⁸ and too much for 2³².
#
# *What goes wrong.* On a real GPU the numbers are the same, because they are integers. Only sums of floats may differ
# in the last digits.
