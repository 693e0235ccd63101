# %% [markdown] id="the-question-asked"
# ## The same call, four times
#
# The function below is a plain Python loop with one decorator. It computes the masses of 13,114 pairs of simulated
# muons, and adds up those that are near the mass of the Z boson. We call it four times with the same data, and time
# each call on this computer's processor. All times that this lecture measures are measured there.

# %% id="the-question"
# %load_ext gpucourse
import math
import time

import awkward as ak
import numpy as np
from gpucourse import lesson
from gpucourse.data import dimuons
from gpucourse.views.picture import COLOURS, Picture, canvas
from numba import njit

check, hint, predict = lesson("16_compiling_python")

muons = dimuons().muons
two = muons[ak.num(muons.pt) == 2]
pairs = two[two.charge[:, 0] != two.charge[:, 1]]
columns = [
    ak.to_numpy(pairs[name][:, k]).astype(np.float64)
    for k in (0, 1)
    for name in ("pt", "eta", "phi")
]


@njit
def mass_around_z(pt1, eta1, phi1, pt2, eta2, phi2):
    total = 0.0
    for i in range(pt1.size):
        angles = math.cosh(eta1[i] - eta2[i]) - math.cos(phi1[i] - phi2[i])
        mass = math.sqrt(2 * pt1[i] * pt2[i] * angles)
        if 80 < mass < 100:
            total += mass
    return total


numba_ms = []
for _ in range(4):
    start = time.perf_counter()
    total = mass_around_z(*columns)
    numba_ms.append(1000 * (time.perf_counter() - start))
    print(f"{total:,.1f} GeV in {numba_ms[-1]:10.3f} ms")

# %% [markdown] id="the-question-stands"
# The answer is the same each time, but the first call took a thousand times as long as the others, or more. **What
# happened in the first call, and what can go wrong because it happens only once?**

# %% [markdown] id="first-call-predict" tags=["predict"]
# ## 1. Compile once, run often
#
# `@njit` (*no-Python JIT*) doesn't look at your function until you call it. Then Numba infers the type of every
# variable from the types of the arguments, and LLVM compiles the function to machine code *just in time*. The next call
# with the same types runs that code.
#
# *Predict:* if the loop runs as plain Python, which is what `py_func` gives, does it take less time than the first
# call, or more?

# %% id="first-call-guess"
predict("first-call", "less than the first call", "more than the first call")

# %% id="first-call"
start = time.perf_counter()
mass_around_z.py_func(*columns)
python_ms = 1000 * (time.perf_counter() - start)
print(f"plain Python {python_ms:8.1f} ms")
print(f"first call   {numba_ms[0]:8.1f} ms: compiles, then runs")
print(f"later calls  {min(numba_ms[1:]):8.1f} ms")
print("compiled for", mass_around_z.signatures)

# %% [markdown] id="first-call-why" tags=["why"]
# It most likely takes less, because compiling takes longer than one pass in Python over thirteen thousand pairs. From
# the second call on, the compiled code is much faster, so **never time the first call**.

# %% [markdown] id="types-predict" tags=["predict"]
# *Predict:* we call the function with `float32` arrays, with arrays of half the length, and with arrays of every second
# element. For which of these does Numba compile it again?

# %% id="types-guess"
predict("types",
        "all three",
        "float32 and every second element",
        "only float32",
        "none: Python doesn't care for types")

# %% id="types"
for what, arguments in {
    "float32": [column.astype(np.float32) for column in columns],
    "half the length": [column[:6557] for column in columns],
    "every second": [column[::2] for column in columns],
}.items():
    before = len(mass_around_z.signatures)
    mass_around_z(*arguments)
    again = len(mass_around_z.signatures) > before
    print(f"{what:16} {'compiled again' if again else 'known already'}")

# %% [markdown] id="types-why" tags=["why"]
# It compiles again for `float32` and for every second element. The type of an array consists of the type of its
# elements, its number of dimensions, and whether it is contiguous in memory, but not of its length.

# %% [markdown] id="count-window-task"
# ### Exercise: count in a window
#
# Write `count_window`, a loop that Numba compiles and that counts the values strictly between `low` and `high`, and it
# must not count NaN. If you are stuck, call `hint("count-window")`.

# %% id="count-window-exercise" tags=["exercise"]
count_window = None
### BEGIN SOLUTION
@njit
def count_window(values, low, high):
    count = 0
    for value in values:
        if low < value < high:
            count += 1
    return count
### END SOLUTION


# %% id="count-window-check"
check("count-window", count_window)

# %% [markdown] id="passes-predict" tags=["predict"]
# ## 2. One pass instead of nine
#
# With `@njit(cache=True)`, Numba keeps the compiled code on disk for the next session. NumPy needs no compiler, because
# each of its operations is compiled code already. *Predict:* how many arrays does the expression in `masses_by_numpy`
# create, and how many bytes do they take for 13,114 pairs?

# %% id="passes-guess"
predict("passes", "one, 105 kB", "four, 420 kB", "nine, about 944 kB")

# %% id="passes"
class Counted(np.ndarray):
    """An array that counts the arrays which NumPy makes out of it."""

    made = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        Counted.made += 1
        plain = [one.view(np.ndarray) if isinstance(one, Counted) else one for one in inputs]
        return getattr(ufunc, method)(*plain, **kwargs).view(Counted)


def masses_by_numpy(pt1, eta1, phi1, pt2, eta2, phi2):
    return np.sqrt(2 * pt1 * pt2 * (np.cosh(eta1 - eta2) - np.cos(phi1 - phi2)))


masses = np.asarray(masses_by_numpy(*(column.view(Counted) for column in columns)))
print(f"{Counted.made} arrays of {masses.nbytes:,} bytes")

# %% [markdown] id="passes-why" tags=["why"]
# It creates nine arrays, of which you need only the last. NumPy writes each array to memory, and the next operation
# reads it again. For large arrays these transfers take most of the time, not the arithmetic. A loop makes one pass, and
# keeps the nine numbers of each pair in registers. Doing several operations in one pass is called **fusing** them.

# %% [markdown] id="passes-then"
# Where a loop isn't convenient, use `@vectorize`. It turns a function of single numbers into a NumPy function, called a
# *ufunc*, which loops over arrays, broadcasts them and accepts `out=`.

# %% id="vectorize"
from numba import vectorize


@vectorize
def pair_mass(pt1, eta1, phi1, pt2, eta2, phi2):
    return math.sqrt(2 * pt1 * pt2 * (math.cosh(eta1 - eta2) - math.cos(phi1 - phi2)))


print("same masses:", np.allclose(pair_mass(*columns), masses))
back_to_back = pair_mass(np.linspace(10, 60, 6), 0, 0, np.array([[30], [45]]), 0, math.pi)
print("a table of two rows and six columns, in GeV:", back_to_back, sep="\n")

# %% [markdown] id="vectorize-task"
# ### Exercise: a different number of iterations for each element
#
# NumPy's operations are a poor fit if each element needs its own *loop*. The position of a planet on its orbit is an
# example. The angle `E` follows from the time `M` (2π is a year) and the eccentricity `e` by Kepler's equation,
# `E - e * sin(E) = M`, but no formula solves it. So use Newton's method, which starts with `E = π`, subtracts
# `(E - e * sin(E) - M) / (1 - e * cos(E))`, and repeats this until a step is smaller than 1e-12. A comet takes more
# iterations than the Earth.
#
# Write `kepler(M, e)` for single numbers with `@vectorize`, for `M` from 0 to 2π and `e` from 0 to 0.99.

# %% id="vectorize-exercise" tags=["exercise"]
kepler = None
### BEGIN SOLUTION
@vectorize
def kepler(M, e):
    E, step = math.pi, 1.0
    while abs(step) >= 1e-12:
        step = (E - e * math.sin(E) - M) / (1 - e * math.cos(E))
        E -= step
    return E
### END SOLUTION


# %% id="vectorize-check"
check("vectorize", kepler)

# %% id="orbits"
times = np.linspace(0, 2 * math.pi, 40, endpoint=False)
e = np.array([[0.0167], [0.6], [0.967]])  # of the Earth, of a comet, of Halley's comet
E = kepler(times, e) if kepler else times + 0 * e  # three orbits in one call
x, y = np.cos(E) - e, np.sqrt(1 - e**2) * np.sin(E)
figure, axes = canvas(8, 2.6)
for k, name in enumerate(("0.0167", "0.6", "0.967")):
    axes.plot(x[k], y[k], "o", color=COLOURS[k], markersize=4, label=f"e = {name}")
axes.plot(0, 0, "*", color="0.4", markersize=10)
axes.set(xlabel="x, in halves of the long axis", ylabel="y", aspect="equal")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
far = np.mean(np.hypot(x, y) > 1, axis=1)
Picture(figure, "Three orbits around one sun, each with 40 dots at equal intervals of time. Farther from it than half the long axis are " +
        ", ".join(f"{part:.0%} of the dots for e = {one:g}" for part, one in zip(far, e[:, 0], strict=True)) + ".")

# %% [markdown] id="orbits-why"
# Until you have written `kepler`, the dots are evenly spaced in angle. With it, they are close together far from the
# sun, where a comet is slow.

# %% [markdown] id="prange-predict" tags=["predict"]
# ## 3. All the cores
#
# With `@njit(parallel=True)`, Numba divides a loop over `prange` among threads, with one thread for each core. It
# doesn't check whether that is safe for your loop.
#
# *Predict:* in which of these two functions do the threads interfere with each other?

# %% id="prange-guess"
predict("prange", "in the sum: all add to one total", "in the histogram", "in both")

# %% id="prange"
import numba
from numba import prange


@njit(parallel=True)
def sum_in_parallel(values):
    total = 0.0
    for i in prange(values.size):
        total += values[i]
    return total


@njit(parallel=True)
def histogram_in_parallel(values, counts):
    for i in prange(values.size):
        counts[int(values[i]) % counts.size] += 1


many = np.tile(masses, 400)
print(f"{numba.get_num_threads()} threads, {many.size:,} values")
print(f"sum:        {sum_in_parallel(many):,.0f} GeV; NumPy: {many.sum():,.0f} GeV")
missing = []
for _ in range(10):
    counts = np.zeros(4, np.int64)
    histogram_in_parallel(many, counts)
    missing.append(int(many.size - counts.sum()))
print("histogram:  values not counted, in ten runs:", *missing)

# %% [markdown] id="prange-why" tags=["why"]
# They interfere only in the histogram, because Numba recognises `total += …` as a *reduction*, gives each thread its
# own total, and adds the totals at the end. But `counts[…] += 1` takes three steps, load, add and store, and a thread
# may load a number that another thread is about to change. Then one count is lost, because of a
# [race](06_numba_cuda.ipynb#8-races) on the CPU. You see it only if two threads happen to run at the same time. So it
# never shows on one core, it may not show in every run, and the number of lost counts varies. A GPU runs thousands of
# threads instead of a few, so races are far more likely there.

# %% [markdown] id="refuses-predict" tags=["predict"]
# ## 4. What cannot be compiled
#
# Machine code needs a type for every variable. The function below uses a dictionary of cuts, as you might have one in
# an analysis. *Predict:* does Numba compile it, run it slowly, or raise an error?

# %% id="refuses-guess"
predict("refuses", "it compiles it", "it runs it slowly", "it raises an error")

# %% id="refuses" raises="TypingError"
@njit
def passes(pt, eta, cuts):
    return pt > cuts["pt"] and abs(eta) < cuts["eta"]


passes(45.0, 1.2, {"pt": 25.0, "eta": 2.4})

# %% [markdown] id="refuses-why" tags=["why"]
# Numba raises an error, which ends in `Cannot determine Numba type of <class 'dict'>`. In other programs there may be a
# long list of Numba's internal functions above this line, so read such messages from the end. A Python dictionary may
# hold anything, so its values have no fixed type. Nor do lists of mixed types, objects of your own classes, and most
# objects from libraries. Numba compiles numbers, tuples, NumPy arrays, most of NumPy's functions, and strings to some
# extent, as [the list](https://numba.readthedocs.io/en/stable/reference/pysupported.html) says. In place of a
# dictionary, people usually pass a named tuple, because its fields have names *and* types.

# %% id="named-tuple"
from typing import NamedTuple


class Cuts(NamedTuple):
    pt: float
    eta: float


@njit
def passes(pt, eta, cuts):
    return pt > cuts.pt and abs(eta) < cuts.eta


print(passes(45.0, 1.2, Cuts(pt=25.0, eta=2.4)))

# %% [markdown] id="stale-predict" tags=["predict"]
# The next function compiles, but one of its answers may surprise you. *Predict:* which two numbers does it return?

# %% id="stale-guess"
predict("stale",
        "two different numbers, both right",
        "the same number twice",
        "an error at the second call")

# %% id="stale"
cut = 60.0


@njit
def count_heavy(values):
    return np.sum(values > cut)


print(f"above {cut}:", count_heavy(masses), "and NumPy says", np.sum(masses > cut))
cut = 85.0
print(f"above {cut}:", count_heavy(masses), "and NumPy says", np.sum(masses > cut))

# %% [markdown] id="stale-why" tags=["why"]
# It returns the same number twice, because Numba read the global `cut` while compiling, built its value into the
# machine code as a constant, and never looks at the name again. JAX does the same, as [you saw in a
# jaxpr](09_jax.ipynb#1-functions-in-functions-out). Neither of them gives you an error or a warning.

# %% [markdown] id="stale-then"
# ### Exercise: fresh cuts
#
# Write `count_above(values, cut)` so that it always uses the cut that it is *given*. Numba must compile it only once,
# however often the cut changes.

# %% id="stale-exercise" tags=["exercise"]
count_above = None
### BEGIN SOLUTION
@njit
def count_above(values, cut):
    return np.sum(values > cut)
### END SOLUTION


# %% id="stale-check"
check("fresh-cuts", count_above)

# %% [markdown] id="jax-text"
# ## 5. JAX: another way to compile
#
# Numba reads your *code*, whereas JAX *runs* it once, with placeholders, and
# [traces](09_jax.ipynb#1-functions-in-functions-out) the operations into a jaxpr. The compiler XLA then fuses these
# operations and generates machine code, for this processor or for a GPU.

# %% id="jax"
import jax
import jax.numpy as jnp


@jax.jit
def masses_by_jax(pt1, eta1, phi1, pt2, eta2, phi2):
    print("  (Python is running this line)")
    return jnp.sqrt(2 * pt1 * pt2 * (jnp.cosh(eta1 - eta2) - jnp.cos(phi1 - phi2)))


on_device = [jnp.asarray(column, jnp.float32) for column in columns]
jax_ms = []
for _ in range(4):
    start = time.perf_counter()
    by_jax = masses_by_jax(*on_device).block_until_ready()  # a call returns before it is done
    jax_ms.append(1000 * (time.perf_counter() - start))
print("same masses:", np.allclose(by_jax, masses, rtol=1e-3, atol=0.05))

# %% [markdown] id="jax-predict" tags=["predict"]
# There were four calls, but Python ran the function *once*. The `print` happens while JAX traces the function, and the
# compiled code contains no `print`. The next cell plots the times of four calls with both compilers. *Predict:* what
# does the picture look like?

# %% id="calls-picture-guess"
predict("calls-picture",
        "a high first bar for both, then low ones",
        "a high first bar for Numba only",
        "all bars the same height")

# %% id="calls-picture"
figure, axes = canvas(7, 2.6)
numbers = np.arange(4)
axes.bar(numbers - 0.2, numba_ms, 0.38, color=COLOURS[5], label="Numba: adds up, one thread")
axes.bar(numbers + 0.2, jax_ms, 0.38, color=COLOURS[1], label="JAX: makes an array")
axes.axhline(python_ms, color="0.5", linestyle="--", label="plain Python")
axes.set(yscale="log", ylabel="time [ms]", xticks=numbers,
         xticklabels=["first call", "second", "third", "fourth"])
axes.legend(ncols=3, loc="upper right", fontsize=8)
axes.set_ylim(top=20 * max(*numba_ms, *jax_ms))
Picture(figure, "Times of four calls on this processor, on a logarithmic scale: with Numba "
                + ", ".join(f"{t:.2g}" for t in numba_ms) + " ms, with JAX "
                + ", ".join(f"{t:.2g}" for t in jax_ms)
                + f" ms; plain Python takes {python_ms:.2g} ms.")

# %% [markdown] id="calls-picture-why" tags=["why"]
# The scale is logarithmic, and for both compilers the first call is far above the others, because Numba and XLA compile
# in it. The later calls reuse the compiled code, and Python doesn't run the function again.

# %% [markdown] id="below-text"
# ## 6. What they compiled
#
# Numba and JAX can both show you what they compiled. In JAX's jaxpr, each of the nine lines is one operation on whole
# arrays. Below the jaxpr you see what XLA makes of it.

# %% id="below-jax"
print(jax.make_jaxpr(masses_by_jax.__wrapped__)(*on_device))
lowered = masses_by_jax.lower(*on_device)
print("\nStableHLO, the first lines that compute:")
print(*[line for line in lowered.as_text().splitlines() if "stablehlo." in line][:3], sep="\n")
entry = lowered.compile().as_text().split("ENTRY")[1].splitlines()
steps = [line.strip() for line in entry if " = " in line and "parameter(" not in line]
print(f"\nwhat runs, after fusing: {len(steps)} step in place of nine")
print(*[step.split("(")[0] + "(…)" for step in steps], sep="\n")

# %% [markdown] id="below-numba"
# Nine operations became one *fusion*, with one pass over the data, as in the loop that Numba compiled.
#
# The next cell shows Numba's code. Numba and JAX both generate LLVM IR, as Clang and Rust do. In it, `fmul` multiplies
# floats, and a type such as `<4 x double>` is four numbers that the processor handles in one instruction.

# %% id="below-llvm"
@njit
def weighted(values, weight):
    out = np.empty_like(values)
    for i in range(values.size):
        out[i] = weight * values[i]
    return out


weighted(masses, 2.0)
(llvm,) = weighted.inspect_llvm().values()
print(f"{len(llvm.splitlines())} lines of LLVM IR, of which these multiply:")
print(*sorted({line.split(" = ")[1].strip() for line in llvm.splitlines() if "fmul" in line})[:4],
      sep="\n")

# %% [markdown] id="branch-predict" tags=["predict"]
# ## 7. What JAX cannot trace
#
# During tracing there are no values yet. *Predict:* what happens at this `if`?

# %% id="branch-guess"
predict("branch", "it takes the branch that is right", "it computes both sides", "an error")

# %% id="branch" raises="TracerBoolConversionError"
@jax.jit
def correction(mass):
    if mass > 60:
        return 1.02 * mass
    return mass


correction(91.2)

# %% [markdown] id="branch-why" tags=["why"]
# It is an error, `TracerBoolConversionError`. The `if` has to know whether `mass` is above 60, but `mass` is a
# placeholder without a value. The message shows which function was traced, which line needed the value, and on which
# argument the value depends. Numba compiles the same function without an error, because it reads the *code*, and the
# `if` is part of that.

# %% [markdown] id="mask-predict" tags=["predict"]
# *Predict:* what happens in this function, which has no `if`?

# %% id="mask-guess"
predict("mask",
        "the sum of those above 60",
        "an error",
        "the sum of all, with zeros for the others")

# %% id="mask" raises="NonConcreteBooleanIndexError"
@jax.jit
def sum_of_heavy(masses):
    return jnp.sum(masses[masses > 60])


sum_of_heavy(by_jax)

# %% [markdown] id="mask-why" tags=["why"]
# It is an error, because the *length* of `masses[masses > 60]` depends on the values, and every array in a jaxpr has a
# fixed shape. For this and for the `if` there is the same remedy: **compute for all elements, then select**.
# `jnp.where(condition, a, b)` takes `a` where the condition is true and `b` elsewhere, element by element.
# `jnp.sum(x, where=condition)` adds only the elements for which it is true.

# %% [markdown] id="where-task"
# ### Exercise: compute for all, then select
#
# Write `corrected(masses)` so that `jax.jit` can compile it. It multiplies masses above 60 by 1.02, sets those below 20
# to 0, and leaves the rest unchanged, in a result of the shape of `masses`.

# %% id="where-exercise" tags=["exercise"]
def corrected(masses):
    result = None
    ### BEGIN SOLUTION
    result = jnp.where(masses > 60, 1.02 * masses, masses)
    result = jnp.where(masses < 20, 0, result)
    ### END SOLUTION
    return result


# %% id="where-check"
check("where", corrected)

# %% [markdown] id="jax-stale-text"
# With JAX, the trap of section 4 has a variant. JAX treats an array of a different length as a different type, so it
# traces again and then uses the new value of the global. Such a program is wrong only for the lengths that it had
# compiled before. So **pass everything that a compiled function needs as an argument.**

# %% [markdown] id="five-ways-predict" tags=["predict"]
# ## 8. One formula, five ways
#
# You now know five ways to compute the same thing. Here we compare how fast they find a point where a parabola crosses
# zero. They use the formula from school, for a million parabolas, in `float64`.
#
# A fair comparison has three rules. First, all programs do the same work in the same precision, so we have to ask JAX
# for `float64`. Second, compile time is listed separately, as the difference between the first call and the best later
# one. Third, the clock stops when the result exists. JAX returns earlier than that, so its call ends in
# `block_until_ready()`.
#
# *Predict:* in which order do the five finish, and how many times as long as NumPy does plain Python take, about three,
# thirty or a thousand?

# %% id="five-ways-guess"
predict("five-ways",
        "Python, NumPy, Numba, then the others; about three times",
        "Python, NumPy, Numba, then the others; about thirty times",
        "Python, NumPy, Numba, then the others; about a thousand times",
        "the compiled ones all take the same time")

# %% id="five-ways"
count = 1_000_000
random = np.random.default_rng(4)
coefficients = [random.uniform(*ends, count) for ends in ((5, 10), (10, 20), (-0.1, 0.1))]


def roots_in_python(a, b, c):
    return [(-q + math.sqrt(q**2 - 4 * p * r)) / (2 * p) for p, q, r in zip(a, b, c, strict=True)]


def roots_by_numpy(a, b, c):
    return (-b + np.sqrt(b**2 - 4 * a * c)) / (2 * a)


def in_a_loop(a, b, c):
    roots = np.empty_like(a)
    for i in prange(a.size):  # without parallel=True, prange is range
        roots[i] = (-b[i] + math.sqrt(b[i] ** 2 - 4 * a[i] * c[i])) / (2 * a[i])
    return roots


@jax.jit
def roots_by_jax(a, b, c):
    return (-b + jnp.sqrt(b**2 - 4 * a * c)) / (2 * a)


# %% id="five-ways-timed"
jax.config.update("jax_enable_x64", True)
ways = {  # the function, and its arguments in its own kind of numbers: making those is not timed
    "Python": (roots_in_python, [values.tolist() for values in coefficients]),
    "NumPy": (roots_by_numpy, coefficients),
    "Numba": (njit(in_a_loop), coefficients),
    "Numba, parallel": (njit(parallel=True)(in_a_loop), coefficients),
    "JAX": (lambda *abc: roots_by_jax(*abc).block_until_ready(), [*map(jnp.asarray, coefficients)]),
}
best_ms, compile_ms = {}, {}
for name, (way, arguments) in ways.items():
    times = []
    for _ in range(6):
        start = time.perf_counter()
        roots = way(*arguments)
        times.append(1000 * (time.perf_counter() - start))
    best_ms[name] = min(times[1:])
    compile_ms[name] = times[0] - best_ms[name] if name not in ("Python", "NumPy") else 0.0
    assert np.allclose(roots, roots_by_numpy(*coefficients)) and np.asarray(roots).dtype == np.float64
jax.config.update("jax_enable_x64", False)  # as before

PUBLISHED = {"NumPy": 22.3, "Numba": 6.86, "Numba, parallel": 1.98, "JAX": 2.24}  # ms for 5 million
print(f"{'':16}{'compile ms':>12}{'best ms':>10}{'ns each':>10}{'published: ms for 5 million':>30}{'ns each':>9}")
for name, ms in best_ms.items():
    there = f"{PUBLISHED[name]:30.2f}{PUBLISHED[name] / 5:9.2f}" if name in PUBLISHED else ""
    print(f"{name:16}{compile_ms[name]:12.1f}{ms:10.2f}{ms * 1e6 / count:10.2f}{there}")

# %% id="five-ways-picture"
figure, axes = canvas(8, 2.8)
rows = np.arange(len(best_ms))
axes.barh(rows - 0.19, [ms * 1e6 / count for ms in best_ms.values()], 0.36, color=COLOURS[5],
          label=f"this computer, {numba.get_num_threads()} threads, measured now")
axes.barh([k + 0.19 for k, name in enumerate(best_ms) if name in PUBLISHED],
          [ms / 5 for ms in PUBLISHED.values()], 0.36, color=COLOURS[1], label="published: a Mac")
axes.set(xscale="log", xlim=(0.1, None), xlabel="time for each root [ns]", yticks=rows, yticklabels=best_ms)
axes.invert_yaxis()
axes.legend(fontsize=8)
Picture(figure, "Time for each root, on a logarithmic scale. On this computer: "
                + ", ".join(f"{name} {ms * 1e6 / count:.2g} ns" for name, ms in best_ms.items())
                + ". Published: " + ", ".join(f"{name} {ms / 5:.2g} ns" for name, ms in PUBLISHED.items()) + ".")

# %% [markdown] id="five-ways-why" tags=["why"]
# The orange bars are from a tutorial notebook, "JIT-compilation with Numba and JAX": 22.3 ms with NumPy, 6.86 ms with
# Numba, 1.98 ms with Numba in parallel and 2.24 ms with JAX, for five million roots. The tutorial doesn't name its
# processor, but its error messages show that it ran on a Mac. So compare bars of the same colour only.
#
# - **Python** creates an object for every number and looks up every operation. It usually takes some tens of times as
#   long as NumPy.
# - **NumPy** has compiled loops, but there are nine of them, and each writes a whole array that the next one reads
#   again.
# - **Numba** makes one pass with no arrays in between, on one core.
# - **Numba with `parallel=True`** divides that pass among the cores. **JAX** fuses and divides it without being told to.
#
# The last two are usually close together, and they gain less than a factor of the number of cores, because they do so
# little arithmetic that they wait for memory. With a single core, or while other programs are busy, `parallel=True`
# gains nothing. Look at the first column as well: if you need the roots only once, NumPy is done before the others have
# compiled.
#
# The lesson "CuPy: NumPy on the device" computes the same formula on a GPU, with recorded times in its last section.

# %% [markdown] id="which-text"
# ## 9. Numba or JAX?
#
# | | Numba | JAX |
# |---|---|---|
# | you write | loops and `if`, number by number | arrays, no `if` on values |
# | it compiles | your code, once per set of types | what your code does, once per set of types *and shapes* |
# | use it when | elements take different paths, or the algorithm builds a data structure | the work is array operations; you want derivatives |
# | on a GPU | as kernels that you write (`numba.cuda`) | the same code, unchanged |
# | refuses | untyped Python, with a `TypingError` | values that decide a shape or a branch, with a tracer error |
# | accepts silently | races in `prange`; stale globals | stale globals; a `print` that runs once |

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - A just-in-time compiler compiles at the first call with new types, and later calls reuse the code. So never time the
#   first call, unless you want to know the compile time.
# - Fused operations need one pass over the data instead of one for each operation, and no intermediate arrays.
# - Numba reads your code and needs a type for every variable. JAX runs your code once on placeholders without values,
#   and needs a shape for every array.
# - A global is compiled in as a constant. Anything that may change should be an argument.
# - `prange` assumes that the iterations of the loop are independent, and doesn't check it.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - Numba: [a five-minute guide](https://numba.readthedocs.io/en/stable/user/5minguide.html),
#   [parallel loops](https://numba.readthedocs.io/en/stable/user/parallel.html),
#   [ufuncs](https://numba.readthedocs.io/en/stable/user/vectorize.html),
#   [when it refuses](https://numba.readthedocs.io/en/stable/user/troubleshoot.html).
# - JAX: [just-in-time compilation](https://docs.jax.dev/en/latest/jit-compilation.html), [the sharp
#   bits](https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html),
#   [errors](https://docs.jax.dev/en/latest/errors.html) one by one,
#   [jaxprs](https://docs.jax.dev/en/latest/jaxpr.html).
# - The intermediate languages between your code and machine code, [StableHLO](https://openxla.org/stablehlo) and [LLVM
#   IR](https://llvm.org/docs/LangRef.html).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 60 minutes
#
# | minutes | what |
# |---|---|
# | 0-5 | the question; everyone writes down what they think the first call does |
# | 5-16 | section 1 and `count-window` |
# | 16-27 | sections 2 and 3; `vectorize` alone |
# | 27-38 | section 4; `fresh-cuts` in pairs |
# | 38-53 | sections 5 to 7; if only one exercise fits, `where` |
# | 53-60 | section 8; take bets on the order before running the cell |
#
# *Ten minutes late:* skip section 6, and everything in section 3 except its prediction.
#
# *Where people get stuck.* They put `@njit` above `kepler` and don't understand why the check fails. A ufunc
# broadcasts, but a compiled function of single numbers doesn't. In `where`, they write `if` again, or `np.where`, which
# needs values.
#
# *Frequent questions.* "Is Numba as fast as C?" Usually it is, because LLVM compiles both. "Why is my JAX slower than
# NumPy?" Each call costs some microseconds, which matters for small arrays. To time a call, wait for it with
# `block_until_ready()`. "Why do the digits differ?" JAX computes in `float32` by default.
#
# *What goes wrong.* On a computer with one core, `prange` loses no counts, so tell the room why. Times differ from run
# to run and between computers, and only the orders of magnitude matter here.
