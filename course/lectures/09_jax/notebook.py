# %% [markdown] id="the-question-asked"
# ## At what angle must I throw?
#
# A ball flies through air that slows it down. There is no formula for where it lands, so a function for *one* ball
# steps through its flight. Run the cell, which throws a thousand balls and computes how the distance changes with the
# angle.

# %% id="the-question"
# %load_ext gpucourse
import jax
import jax.numpy as jnp
import numpy as np
from gpucourse import lesson
from gpucourse.views.picture import COLOURS, Picture, canvas

check, hint, predict = lesson("09_jax")
DT, DRAG, GRAVITY = 0.02, 0.02, 9.81  # s, 1/m, m/s²


def advance(state):
    """One step of 0.02 s: state is x, y [m] and their speeds [m/s]; on the ground it stays."""
    x, y, vx, vy = state
    speed = jnp.sqrt(vx * vx + vy * vy)
    moved = jnp.array([x + DT * vx, y + DT * vy,
                       vx - DT * DRAG * speed * vx, vy - DT * (GRAVITY + DRAG * speed * vy)])
    below = moved[1] < 0
    part = jnp.where(below, y / jnp.where(below, y - moved[1], 1.0), 1.0)  # stop at the ground
    landed = (y <= 0) & (vy < 0)
    return jnp.where(landed, state, state + part * (moved - state))


def distance(angle, speed):
    """Where a ball comes down [m], thrown at an angle [rad] with a speed [m/s]."""
    start = jnp.array([0.0, 0.0, speed * jnp.cos(angle), speed * jnp.sin(angle)])
    return jax.lax.fori_loop(0, 300, lambda _, state: advance(state), start)[0]


angles = jnp.linspace(0.05, 1.5, 1000)
metres = jax.jit(jax.vmap(distance, (0, None)))(angles, 30.0)
slopes = jax.jit(jax.vmap(jax.grad(distance), (0, None)))(angles, 30.0)
best = int(jnp.argmax(metres))
print(f"farthest: {metres[best]:.2f} m at {np.degrees(angles[best]):.1f}°;",
      f"there the slope is {slopes[best]:+.2f} m/rad")

# %% id="the-picture"
figure, axes = canvas(8, 2.8)
degrees = np.degrees(angles)
axes.plot(degrees, metres, color=COLOURS[5], label="distance [m]")
axes.plot(degrees, slopes, color=COLOURS[6], linestyle="--", label="its derivative [m/rad]")
axes.axhline(0, color="0.7", linewidth=0.8)
axes.set(xlabel="angle [degrees]", xlim=(0, 90))
axes.legend()
Picture(figure, f"Distance against the angle of the throw: it rises to {metres[best]:.0f} m at "
                f"{degrees[best]:.0f} degrees and falls to {metres[-1]:.0f} m at 86 degrees. Its "
                "derivative falls, with wiggles for flat throws, and is zero where the distance is "
                "largest.")

# %% [markdown] id="the-question-stands"
# The code has no loop over the thousand angles, and no formula for the derivative. **How did `distance`, a function of
# two numbers, become one of arrays, and where did its derivative come from?**

# %% [markdown] id="trace-predict" tags=["predict"]
# ## 1. Functions in, functions out
#
# `jax.jit`, `jax.vmap` and `jax.grad` take a function and return another. All three begin by **tracing** your function.
# They call it with placeholders that have a shape and a type but no value, record each operation, and transform that
# list.
#
# Here is a function that counts how often it runs. *Predict:* which of these calls make it trace again?

# %% id="trace-guess"
predict("trace",
        "all of them: each value is another",
        "30.0, and each array",
        "30.0, the whole number, the first array of 3, the array of 4")

# %% id="trace"
traced = 0


@jax.jit
def energy(mass, speed):
    global traced
    traced += 1  # Python runs this line, and so only while tracing
    return mass * speed**2 / 2


for what, speed in {
    "30.0, a Python number": 30.0,
    "12.5, another": 12.5,
    "12, a whole one": 12,
    "an array of 3": jnp.ones(3),
    "another array of 3": jnp.zeros(3),
    "an array of 4": jnp.ones(4),
    "3 by NumPy, float64": np.ones(3),
}.items():
    before = traced
    energy(0.145, speed)
    print(f"{what:24}", "traced and compiled" if traced > before else "known already")

# %% [markdown] id="trace-why" tags=["why"]
# Those with a *new type or a new shape* do, and a new trace means a new compilation, which takes from a tenth of a
# second to minutes. A new value needs neither.

# %% [markdown] id="trace-then"
# So a program whose arrays have a new length each time compiles each time. The remedy is to *pad*, that is, to give all
# arrays the same length, and to say how many elements count.

# %% [markdown] id="pad-task"
# ### Exercise: one shape for all
#
# Write `masked_mean(values, n)`, the mean of the first `n` elements of `values`. The array has a fixed length, and the
# elements after the first `n` are garbage. `n` is a traced number of at least 1, so `values[:n]` has no shape, but
# `jnp.arange` and `where` help. The check counts how often JAX compiles it.

# %% id="pad-exercise" tags=["exercise"]
def masked_mean(values, n):
    result = None
    ### BEGIN SOLUTION
    counts = jnp.arange(values.size) < n
    result = jnp.sum(values, where=counts) / n
    ### END SOLUTION
    return result


# %% id="pad-check"
check("pad", masked_mean)

# %% [markdown] id="tracing-picture"
# ![Four stages from left to right. Your Python function is traced into a jaxpr, a list of three
# operations with types and shapes; after that there is no Python any more, and the value of a
# global is a number in the list. XLA fuses the list into one loop, and a division by 2 is now
# a product with 0.5. LLVM compiles the loop for a CPU or a GPU. All of it happens at the first
# call with new types, shapes or static values; every other call goes straight to the machine
# code.](../img/tracing.svg)
#
# The last array was no new type, because JAX converts NumPy's `float64` to `float32`, unless you set
# `jax.config.update("jax_enable_x64", True)` at the start. The wiggles in the first picture come from the steps of 0.02
# s, of which a flat throw has few, because JAX differentiates the function exactly as written.
#
# The list is called a **jaxpr**, and `jax.make_jaxpr(function)(…)` shows it. When you wonder what JAX made of a
# function, look there.

# %% [markdown] id="stale-predict" tags=["predict"]
# The next function reads a global, which changes between two calls. *Predict:* what is in the function's jaxpr, after
# the change?

# %% id="stale-guess"
predict("stale", "the name `slowing`: it's looked up at each call", "0.02", "0.5")

# %% id="stale"
slowing = 0.02


@jax.jit
def slowed(speed):
    return speed - slowing * speed


print("before:", slowed(jnp.ones(3)))
slowing = 0.5
print("after: ", slowed(jnp.ones(3)))
print(jax.make_jaxpr(slowed)(jnp.ones(3)))

# %% [markdown] id="stale-why" tags=["why"]
# It contains 0.02, to `float32`'s precision, which is a number like the 2.0 in the picture. While tracing, Python
# looked up `slowing`, and the list holds its value but not its name. A new shape would be traced again and see 0.5. So
# pass as an **argument** whatever may change.

# %% [markdown] id="static-predict" tags=["predict"]
# Some arguments *should* be built in, for example a number of steps, a method, or a flag that an `if` tests. These are
# **static**, and JAX compiles once for each of their values. *Predict:* what about a static list of weights?

# %% id="static-guess"
predict("static",
        "fine: it is built in, like a number",
        "an error",
        "fine, but it compiles at each call")

# %% id="static" raises="ValueError"
from functools import partial


@partial(jax.jit, static_argnames="weights")
def weighted(values, weights):
    return sum(weight * values for weight in weights)


print("a tuple:", weighted(jnp.ones(2), (0.25, 0.5)))
print("a list: ", weighted(jnp.ones(2), [0.25, 0.5]))

# %% [markdown] id="static-why" tags=["why"]
# It is an error, `Non-hashable static arguments are not supported`, because JAX looks up compiled functions by their
# static values, as in a dictionary. A list might change, so it can't be a key. Use a tuple, and use static
# arguments only for a few values, because each one means another compilation.

# %% [markdown] id="at-predict" tags=["predict"]
# ## 2. Arrays that do not change
#
# A list of operations has no place for "and then change it". *Predict:* what does this assignment to an element do?

# %% id="immutable-guess"
predict("immutable", "it changes one element", "it makes a new array called landed", "an error")

# %% id="immutable" raises="TypeError"
landed = jnp.zeros(5)
landed[2] = 1.0

# %% [markdown] id="immutable-why" tags=["why"]
# JAX refuses, and tells you what to write instead: `landed = landed.at[2].set(1.0)` makes a *new* array. Inside `jit`,
# the compiler sees when the old one is no longer needed, and writes in place. Besides `set` there are `add`,
# `multiply`, `min` and `max`.

# %% [markdown] id="at-index-predict" tags=["predict"]
# *Predict:* with the same index three times, how much is added? And with index 100 of an array of five?

# %% id="at-guess"
predict("at", "once; and an error", "three times; and an error", "three times; and no error")

# %% id="at"
same = jnp.array([0, 0, 0])
print("NumPy, +=:        ", end="")
by_numpy = np.zeros(5)
by_numpy[np.array([0, 0, 0])] += 1
print(by_numpy)
print("JAX, .at[].add(): ", jnp.zeros(5).at[same].add(1))
print("read beyond the end: ", jnp.arange(5.0)[100])
print("write beyond the end:", jnp.arange(5.0).at[100].set(-1))

# %% [markdown] id="at-why" tags=["why"]
# `.at[…].add` counts every index, even one that occurs three times, on a GPU by atomics, whereas NumPy's `+=` writes
# once. And an index out of bounds is **no error**. Compiled code can't raise, so reading returns the *last* element and
# writing does nothing, both without a word. To make it visible, write `.at[i].get(mode="fill", fill_value=jnp.nan)`.
# Negative indices count from the end, as in NumPy.

# %% [markdown] id="at-task"
# ### Exercise: where they come down
#
# Write `landing_counts(metres, bins)`, which counts how many values fall into each of `bins` bins of one metre, from 0
# on. Bin `k` counts `k <= metres < k + 1`, and `bins` is static. Values outside all bins aren't counted. Use
# `.at[…].add` instead of a loop.

# %% id="at-exercise" tags=["exercise"]
@partial(jax.jit, static_argnames="bins")
def landing_counts(metres, bins):
    counts = jnp.zeros(bins, jnp.int32)
    ### BEGIN SOLUTION
    inside = (metres >= 0) & (metres < bins)
    k = jnp.where(inside, metres, 0).astype(jnp.int32)
    counts = counts.at[k].add(inside.astype(jnp.int32))
    ### END SOLUTION
    return counts


# %% id="at-check"
check("at-add", landing_counts)

# %% id="landed-picture"
counts = landing_counts(metres, 50)
figure, axes = canvas(8, 2.2)
axes.stairs(counts, range(51), fill=True, color=COLOURS[0])
axes.set(xlabel="where the ball comes down [m]", ylabel="of 1,000 throws")
Picture(figure, f"How many of the thousand throws of the first cell come down in each metre, counted by your function: "
                f"{int(counts.sum()):,} in all, and most of them, {int(counts.max())}, in metre {int(counts.argmax())}.")

# %% [markdown] id="landed-why"
# The thousand angles are evenly spaced, but the landing places are not. Near the farthest throw the angle hardly
# matters, so many throws land there.

# %% [markdown] id="loops-predict" tags=["predict"]
# ## 3. Loops and choices
#
# Tracing runs a Python `for` and records what happens in it. *Predict:* how long is the list of
# operations for 100 steps of a Python loop, and for 100 steps of `jax.lax.fori_loop`?

# %% id="loops-guess"
predict("loops",
        "equally long: both do the same",
        "100 bodies for Python's, one for fori_loop",
        "one body for both")

# %% id="loops"
def with_python_loop(state, steps):
    for _ in range(steps):
        state = advance(state)
    return state


def with_fori_loop(state, steps):
    return jax.lax.fori_loop(0, steps, lambda _, state: advance(state), state)


state = jnp.array([0.0, 0.0, 20.0, 20.0])
for steps in (1, 10, 100):
    lines = [
        len(str(jax.make_jaxpr(partial(f, steps=steps))(state)).splitlines())
        for f in (with_python_loop, with_fori_loop)
    ]
    print(f"{steps:4} steps: {lines[0]:6,} lines with a Python loop, {lines[1]} with fori_loop")

# %% [markdown] id="loops-why" tags=["why"]
# A Python loop is *unrolled*, so a hundred steps are a hundred copies of the body to compile, and compile time grows
# with them. Short loops over a fixed number are fine. For long loops, use `fori_loop` if the number of iterations is
# known, `scan` if you also want to collect a result of each, and `while_loop` to iterate until a condition is false,
# which has no reverse-mode derivative.

# %% [markdown] id="where-trap-predict" tags=["predict"]
# For a choice there are `jnp.where`, which computes **both** sides and selects, and `jax.lax.cond`, which runs one of
# two functions. Under `vmap`, `cond` becomes `where`, because the lanes of a GPU take the same path anyway. But `where`
# has a trap. *Predict:* what is the derivative of this function at 0?

# %% id="where-trap-guess"
predict("where-trap", "0", "infinite", "nan")

# %% id="where-trap"
def root(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


def root_safely(x):
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


for function in (root, root_safely):
    print(f"{function.__name__:12} at 0: value {function(0.0)}, slope {jax.grad(function)(0.0)}")

# %% [markdown] id="where-trap-why" tags=["why"]
# It is `nan`, although the value is right. Both sides are computed, the derivative of the square root at 0 is infinite,
# and the derivative of "not selected" is 0, so the result is infinity times zero. So replace bad values *before* the
# operation, with a second `where`, as `root_safely` does. You will find that `advance` above does the same for its
# division.

# %% [markdown] id="vmap-text"
# ## 4. One becomes many: vmap
#
# `jax.vmap(function, in_axes)` maps a function over an axis of its arguments. With `(0, None)` it takes the first
# argument along its axis 0, and the second the same for all. It doesn't loop, because each operation in the list
# becomes one on arrays with one more axis.
#
# ### Exercise: a table of throws
#
# Write `table(angles, speeds)`, the distance for every angle (rows) with every speed (columns), from `distance` alone,
# without a loop and without reshaping. One `vmap` gives a row or a column, so map that again.

# %% id="vmap-exercise" tags=["exercise"]
def table(angles, speeds):
    result = None
    ### BEGIN SOLUTION
    over_speeds = jax.vmap(distance, (None, 0))
    result = jax.vmap(over_speeds, (0, None))(angles, speeds)
    ### END SOLUTION
    return result


# %% id="vmap-check"
check("vmap", table, distance)

# %% [markdown] id="keys-predict" tags=["predict"]
# ## 5. Randomness
#
# No two throws are exactly alike, so we need random numbers. *Predict:* are the two on the first line equal?

# %% id="keys-guess"
predict("keys", "no: each call draws a new number", "yes")

# %% id="keys"
key = jax.random.key(1)
print(jax.random.normal(key), jax.random.normal(key))
for_angle, for_speed = jax.random.split(key)
print(jax.random.normal(for_angle), jax.random.normal(for_speed))

thrown = 0.6 + 0.05 * jax.random.normal(for_angle, 2000)
speeds = 30 + jax.random.normal(for_speed, 2000)
came_down = jax.jit(jax.vmap(distance))(thrown, speeds)
print(f"{came_down.mean():.2f} m on average, spread {came_down.std():.2f} m")

# %% [markdown] id="keys-why" tags=["why"]
# They are equal, because JAX has no hidden generator with a changing state, which a traced function couldn't have. All
# randomness comes from the **key**, and the same key gives the same numbers, everywhere and every time. So never use a
# key twice: `split` it, use the parts, and don't use the original again, for the reasons in "Random numbers in
# parallel".

# %% [markdown] id="grad-text"
# ## 6. Derivatives
#
# For a function `f` that returns one number, `jax.grad(f)` is its exact derivative with respect to its first argument,
# without finite differences, and at the cost of a few calls of `f`, however many inputs there are. `jax.value_and_grad`
# returns both, and `jax.jacfwd` and `jax.hessian` return what their names say.
#
# ### Exercise: hit the target
#
# Write `aim(target, speed)`, the flat angle at which the ball comes down at `target`. Start at 0.3 rad and take twelve
# Newton steps, each to `angle - (distance - target) / slope`. The check tries targets between 15 and 38 m, many at a
# time by `vmap`.

# %% id="grad-exercise" tags=["exercise"]
def aim(target, speed):
    angle = jnp.float32(0.3)
    ### BEGIN SOLUTION
    value_and_slope = jax.value_and_grad(distance)

    def newton(_, angle):
        metres, slope = value_and_slope(angle, speed)
        return angle - (metres - target) / slope

    angle = jax.lax.fori_loop(0, 12, newton, angle)
    ### END SOLUTION
    return angle


# %% id="grad-check"
check("aim", aim, distance)

# %% id="flights"
@jax.jit
def flight(angle, speed):
    """Where the ball is after each of 300 steps: two arrays."""
    start = jnp.array([0.0, 0.0, speed * jnp.cos(angle), speed * jnp.sin(angle)])
    return jax.lax.scan(lambda state, _: (advance(state), (state[0], state[1])), start, None, length=300)[1]


figure, axes = canvas(8, 2.2)
misses = {}
for k, target in enumerate((15.0, 25.0, 35.0)):
    aimed = aim(target, 30.0)
    axes.plot(*flight(aimed, 30.0), color=COLOURS[k])
    axes.plot(target, 0, "^", color=COLOURS[k], markersize=9)
    misses[target] = f"{abs(float(distance(aimed, 30.0)) - target):.2f} m"
axes.set(xlabel="distance [m]", ylabel="height [m]", ylim=(-0.6, None))
Picture(figure, "Three flights that begin at the angles which your aim gives, and their targets as triangles on the ground. Missed: " +
                ", ".join(f"the target at {target:.0f} m by {miss}" for target, miss in misses.items()) + ".")

# %% [markdown] id="donate-predict" tags=["predict"]
# ## 7. Habits that make it fast
#
# If Python moves a thousand balls step by step, each call makes a new array. If you no longer need the old one,
# **donate** it, and its memory becomes the result's. *Predict:* what is in `balls` after the call?

# %% id="donate-guess"
predict("donate",
        "the balls before the step",
        "the balls after the step",
        "nothing: the array is deleted")

# %% id="donate" raises="RuntimeError"
step_all = jax.jit(jax.vmap(advance), donate_argnums=0)

balls = jnp.tile(state, (1000, 1))
moved = step_all(balls)
print("memory of the old array given away:", balls.is_deleted())
balls + 1

# %% [markdown] id="donate-why" tags=["why"]
# It has nothing, and the error is `Array has been deleted`. Write `balls = step_all(balls)`, and no name refers to the
# old one any more.

# %% [markdown] id="habits-predict" tags=["predict"]
# These are the habits, in order of what they usually gain.
#
# 1. **Compile a large part in one `jit`**, because each call from Python costs some microseconds, and fusing stops
#    where a compiled function ends.
# 2. **Use few shapes.** Count the traces, as above, or let `jax.config.update("jax_log_compiles", True)` list them.
# 3. **Keep data on the device**, because `float(x)`, `np.asarray(x)`, `print(x)` and `if x > 0` each wait for the
#    result and copy it to the host.
# 4. **Put loops inside** the compiled function, with `fori_loop` or `scan` in place of a thousand calls.
# 5. **Measure the result.** A call returns before the work is done, so use `block_until_ready()`, and don't time the
#    first call.
#
# Here are ten balls, with each step on its own without `jit`, with each step in a call of a compiled function, and with
# all steps in one compiled loop. *Predict:* by what factors do the times of the three differ?

# %% id="habits-guess"
predict("habits", "not at all: the steps are the same", "by two or three", "by tens to thousands")

# %% id="habits"
import time


def without_jit(balls, steps):
    for _ in range(steps):
        balls = jax.vmap(advance)(balls)
    return balls


def a_call_for_each(balls, steps):
    for _ in range(steps):
        balls = step_all(balls)
    return balls


@jax.jit
def one_call(balls, steps):
    return jax.lax.fori_loop(0, steps, lambda _, balls: jax.vmap(advance)(balls), balls)


per_step = {}
for function, steps in ((without_jit, 10), (a_call_for_each, 300), (one_call, 300)):
    best = np.inf
    for _ in range(4):  # the first one compiles
        balls = jnp.tile(state, (10, 1)).block_until_ready()
        start = time.perf_counter()
        function(balls, steps).block_until_ready()
        best = min(best, time.perf_counter() - start)
    per_step[function.__name__] = 1e6 * best / steps
    print(f"{function.__name__:16}{1e6 * best / steps:12,.2f} microseconds a step, on",
          jax.devices()[0].platform.upper())

# %% [markdown] id="habits-why" tags=["why"]
# They differ by factors of ten to thousands. Without `jit`, each step runs in Python, which starts each operation
# separately. With ten balls, a compiled call is mostly overhead. With ten thousand balls the last two come close to
# each other, because then each call has enough work.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - JAX traces a function once for each set of types, shapes and static values, and compiles the list of
#   operations. A new shape means compiling again, so pad arrays to one length and mask the rest.
# - Arrays do not change, so `.at[…].set` and `.add` return new ones. An index out of bounds is no error.
# - Python loops are unrolled, but `fori_loop`, `scan` and `while_loop` are not. `where` computes both sides, and a bad
#   value on the unused side spoils the derivative.
# - `vmap` turns a function of one into a function of many, `grad` into its derivative, and they compose.
# - Use a random key once, donate what you no longer need, and wait for the result before you stop the clock.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - JAX: [how to think in it](https://docs.jax.dev/en/latest/notebooks/thinking_in_jax.html),
#   [the sharp bits](https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html),
#   [control flow](https://docs.jax.dev/en/latest/control-flow.html),
#   [automatic vectorisation](https://docs.jax.dev/en/latest/automatic-vectorization.html),
#   [derivatives](https://docs.jax.dev/en/latest/automatic-differentiation.html).
# - The [derivative of `where`](https://docs.jax.dev/en/latest/faq.html#gradients-contain-nan-where-using-where)
#   in JAX's own questions and answers.
# - Libraries built on JAX, such as [Optax](https://optax.readthedocs.io) for optimisers,
#   [Diffrax](https://docs.kidger.site/diffrax/) for differential equations, and
#   [Equinox](https://docs.kidger.site/equinox/) for models.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 50 minutes
#
# | minutes | what |
# |---|---|
# | 0-4 | the question; let people guess the angle |
# | 4-17 | section 1; `pad` in pairs |
# | 17-26 | section 2; `at-add` |
# | 26-36 | sections 3 and 4; `vmap` is short; don't skip it |
# | 36-44 | sections 5 and 6; `aim` |
# | 44-50 | section 7 |
#
# *Ten minutes late:* show only the list of section 7, and stop the exercise `pad` after its first hint.
#
# *Where people get stuck.* In `pad` they write `values[:n]`, and the message says that slices need fixed sizes. In
# `at-add`, -0.3 becomes 0 when truncated to an integer. JAX drops values beyond the last bin, but an index below the
# first counts from the end. In `aim`, `for` also works, but takes a while to compile.
#
# *Frequent questions.* "Why not PyTorch?" PyTorch offers much of this in `torch.func` and `torch.compile`. JAX is the
# smaller language, and functions without side effects are easier to reason about. The lesson "PyTorch as a neighbour"
# combines kernels with PyTorch. "Where does it run?" It runs on the device that `jax.devices()` shows, and the same
# code runs on CPU, GPU and TPU. "Why is the derivative not quite smooth?" The flight is computed in steps of 0.02 s.
#
# *What goes wrong.* A cell that counts traces prints other numbers when it is run a second time, because the function
# is compiled already. Run the cell that defines it as well.
