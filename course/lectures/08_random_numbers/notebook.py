# %% [markdown] id="the-question-asked"
# ## Which of these errors is true?
#
# You can estimate π by throwing random points into a square, because a share of about π/4 of them falls inside the
# quarter circle. Here 4,096 threads throw 64 points each, 262,144 in all, so the estimate of π should be within about
# ±0.003. Run the cell. It repeats this five times, each time with a different seed.

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
# There is no error, no warning and no race, and each number is a perfectly good random number. Yet the estimates miss π
# by 14 to 142 times the error that they claim. **What is wrong with the 262,144 points?**

# %% [markdown] id="the-way" tags=["whole"]
# You will see how streams of random numbers go wrong, how to create good ones, and how to test them, because you cannot
# judge them by eye.

# %% [markdown] id="same-predict" tags=["predict"]
# ## 1. The same seed for all
#
# A generator is a machine that goes from one state to the next, always in the same way. *Predict:* if all threads have
# the same seed, how many different values are there among the 4,096 `hits`?

# %% id="same-guess"
predict("same",
        "4,096: each thread has its own points",
        "some hundreds: many are equal by chance",
        "one")

# %% id="same"
print("different values:", np.unique(hits).size)
print("spread of the threads' own estimates:", np.std(4 * hits / POINTS))

# %% [markdown] id="same-why" tags=["why"]
# There is only one, because every thread threw *the same* 64 points. So the true error is that of 64 points and not
# that of 262,144. If you computed the error from the differences between the threads, you would even claim ±0.

# %% [markdown] id="same-then"
# ### Exercise: an estimate with its error
#
# If the threads *are* independent, you can compute the error from the spread of their results, without any formula
# about circles. Write `estimate(hits, points)`, which returns π and its standard error. The standard error is the
# standard deviation of the threads' own estimates (`ddof=1`), divided by the square root of the number of threads.

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
# The estimate is bad. Small seeds have few bits set, and this generator needs several steps to spread them over the
# state. So the first numbers are all close to 0, and the second numbers form stripes. A generator promises much about
# the numbers *along* one stream, but nothing about numbers *across* streams with related seeds.
#
# If you skip the first thousand numbers, the estimate improves a little, but you still don't know whether it is right.
# It is better to hash the seeds, because a hash scrambles them until neighbours have nothing in common.

# %% [markdown] id="mix-predict" tags=["predict"]
# ## 3. Streams that are kept apart
#
# ![A generator is one long sequence of numbers; each thread takes a stretch of it. With the same seed in every thread
# all stretches are the same one: every thread computes the same numbers. With starts drawn at random or side by side,
# stretches may overlap: some numbers count twice. With streams that start a fixed long distance apart, 2 to the power
# of 64 numbers for xoroshiro128+, no stretch reaches the next.](../img/random_streams.svg)
#
# Numba includes the generator xoroshiro128+. `create_xoroshiro128p_states(threads, seed)` places the states of the
# threads 2⁶⁴ numbers apart, so that no thread ever reaches another thread's numbers. Each thread has a state in memory,
# and each draw advances this state.
#
# *Predict:* if you launch the kernel twice, do you get the same hits or different ones?

# %% id="xoroshiro-guess"
predict("xoroshiro", "the same: the seeds are the same", "different ones")

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
# You get different hits, because the first launch advanced the states, and they stayed in memory for the second launch.
# Here this is what you need, but it means that a result depends on all earlier launches. It also depends on *how many
# threads* there were, because thread 5's numbers belong to thread 5. With a different launch shape, other elements get
# these numbers.

# %% [markdown] id="counter-predict" tags=["predict"]
# ## 4. No state at all
#
# A **counter-based** generator has no state. It is a function `random(key, counter)` that scrambles its two arguments.
# Number 1,000,000 costs as much as number 0, and it doesn't matter which thread computes it. Philox and Threefry are
# generators of this kind that were made for GPUs. The next cell contains a small one, which uses the scrambling
# function of SplitMix64.
#
# *Predict:* three launches of different shapes fill an array. Do all three give the same numbers?

# %% id="counter-guess"
predict("counter", "the same", "different ones: each shape has different threads")

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
# repeat the results on any device and with any launch. You must only make sure of one thing: **never use a counter
# twice with the same key**.

# %% [markdown] id="counter-then"
# ### Exercise: points by counter
#
# Write the kernel `points`, which draws `x[i]` and `y[i]` for every `i` with `random(key, …)`, in a grid-stride loop.
# Every launch must give the same points, and no number may be used twice, so each point `i` needs two counters of its
# own.

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
# A test of randomness counts something whose distribution is known, and measures how far the counts are from what you
# expect. The simplest test sorts the numbers into bins. With $n$ numbers and $b$ bins, each bin should have about
# $e = n/b$ numbers, and
#
# $$\chi^2 = \sum_k \frac{(\text{count}_k - e)^2}{e}$$
#
# should be about $b - 1$, give or take $\sqrt{2(b-1)}$. So $z = (\chi^2 - (b - 1)) / \sqrt{2(b - 1)}$ should be at most a few units away from 0. A large negative $z$ is also a bad sign, because counts that are too even are not random.
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
# The next cell compares four methods, each of which gives 4,096 streams of 16 numbers. We test *along* the streams,
# using all numbers of 16 streams that are far apart, and *across* them, using the first number of every stream.
#
# *Predict:* the table is computed with your `chi_square_z`. Which of the four methods pass both tests?

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
# The last two methods pass both tests. In the first two, each stream looks perfect by itself, but the streams fail the
# test across. That is the direction in which a launch adds up its results.

# %% [markdown] id="autopsy-then"
# The next picture shows the scrambled seeds in the same way as the earlier picture showed the seeds side by side.

# %% id="scrambled-picture"
draw_streams(spread_out, "scrambled seeds")

# %% [markdown] id="scrambled-why"
# A passed test proves little, and a failed one may be chance. Among a hundred z-scores, one beyond 3 is no cause for
# alarm, but a z-score of several hundred is. Serious test suites, such as TestU01 and PractRand, run hundreds of tests
# on terabytes of numbers. xorshift64 itself fails some of them. So in your work use Philox, Threefry or a xoshiro
# generator, and test *how you use it*, that is, the streams.
#
# The last picture shows why this work pays off.

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
# With good streams, the error falls as 1/√N, so four times as many points halve the error. With the same seed in every
# thread, the error stays at that of 64 points. If an error does not fall as 1/√N, suspect the streams.

# %% [markdown] id="jax-text" tags=["predict"]
# ## 6. Keys in JAX
#
# JAX's generator is Threefry, which is also counter-based. You hold a key, `split` makes new keys from it, and
# `fold_in(key, i)` makes a new key for each number `i`. There is no state, so the order of the calls does not matter,
# and the same key gives the same numbers wherever you use it. If you use a key twice, you repeat the mistake of the
# counters, but JAX can check for it. *Predict:* does JAX complain while it compiles `point`, or when it has the
# numbers?

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
# JAX complains while it compiles, with `argument 0 is already consumed`. It records the operations of `point` before
# there are any numbers, and sees in them that a key is used twice. Without this check, x and y are equal, and every
# point is on the diagonal. The check is off by default, so turn it on while you develop.

# %% id="keys"
for_x, for_y = jax.random.split(jax.random.key(2026))
x, y = jax.random.uniform(for_x, THREADS * POINTS), jax.random.uniform(for_y, THREADS * POINTS)
print(f"π = {4 * float((x * x + y * y < 1).mean()):.4f} ± {expected_error:.4f}")

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - If every thread has the same seed, every thread draws the same numbers, so there are only as many different points
#   as one thread throws.
# - Seeds that are next to each other give related streams, so hash the seeds, or use streams that are a known distance
#   apart.
# - A counter-based generator has no state, so each number belongs to an element, for every launch and every device.
#   Never use a counter twice with the same key.
# - Test streams both along and across, and check that the error falls as 1/√N.
# - In JAX, use each key only once, and split it if you need more keys.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - Salmon and others, [Parallel random numbers: as easy as 1, 2, 3](https://doi.org/10.1145/2063384.2063405) (2011),
#   the paper on Philox and Threefry.
# - Blackman and Vigna, [Scrambled linear pseudorandom number generators](https://doi.org/10.1145/3460772), and
#   their [page on xoshiro and xoroshiro](https://prng.di.unimi.it).
# - The Numba-CUDA manual on [random number generation](https://nvidia.github.io/numba-cuda/user/random.html).
# - The JAX manual on [pseudorandom numbers](https://docs.jax.dev/en/latest/random-numbers.html), and [the design behind
#   them](https://docs.jax.dev/en/latest/jep/263-prng.html).
# - The NumPy manual on [parallel random number
#   generation](https://numpy.org/doc/stable/reference/random/parallel.html).

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
# *Ten minutes late:* leave out the exercise `chi-square`, and show the table that compares the four methods from
# `solutions/`.
#
# *Where people get stuck.* In `counter`, they take `i` and `i + 1`, and then neighbouring points share a number. Draw
# three points and their counters on the board. In `chi-square`, they make an extra bin for 1.0, but [0, 1) does not
# contain 1.0.
#
# *Frequent questions.* "Why not seed with the time?" Then nobody can repeat the result, and threads that start together
# get the same seed. "Is `np.random` on the host not enough?" It is enough for a few million numbers. More numbers take
# long to copy, because the link to the device has tens of times less bandwidth than the device's memory. "Can all
# threads have random seeds?" Yes, if the generator's period is long enough. If n streams of length L start at random
# positions in a period P, the chance of an overlap is about n²L/P. That is negligible for P = 2¹²⁸ but too large for P
# = 2³².
#
# *What goes wrong.* On a real GPU the numbers are the same, because they are integers. Only sums of floats may differ
# in the last digits.
