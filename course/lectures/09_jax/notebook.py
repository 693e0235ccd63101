# %% [markdown] id="the-question-asked"
# ## At what angle must I throw?
#
# A ball flies through air that slows it down. No formula says where it lands, so a function for *one* ball computes its
# flight step by step. Run the cell. It throws a thousand balls and computes the derivative of the distance with respect
# to the angle.

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
# two numbers, become a function of arrays, and where did its derivative come from?**

# %% [markdown] id="trace-predict" tags=["predict"]
# ## 1. Functions in, functions out
#
# `jax.jit`, `jax.vmap` and `jax.grad` take a function and return a new one. All three begin by **tracing** your
# function. They call it with placeholders that have a shape and a type but no value, record each operation in a list,
# and transform that list.
#
# The next function counts how often it runs. *Predict:* which of these calls make JAX trace it again?

# %% id="trace-guess"
predict("trace",
        "all of them: each value is different",
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
# The calls with a *new type or a new shape* do. A new trace means a new compilation, which takes from a tenth of a
# second to minutes. For a new value, JAX needs neither.

# %% [markdown] id="trace-then"
# So a program whose arrays have a new length each time compiles each time. You can avoid this if you *pad* the arrays,
# that is, give all of them the same length and also pass the number of elements that count.

# %% [markdown] id="pad-task"
# ### Exercise: one shape for all
#
# Write `masked_mean(values, n)`, which returns the mean of the first `n` elements of `values`. The array has a fixed
# length, and the elements after the first `n` are garbage. `n` is a traced number of at least 1. A slice `values[:n]`
# would have no fixed shape, but you can use `jnp.arange` and `where`. The check counts how often JAX compiles the
# function.

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
# ![Four stages from left to right. Your Python function is traced into a jaxpr, a list of three operations with types
# and shapes; after that there is no Python any more, and the value of a global is a number in the list. XLA fuses the
# list into one loop, and a division by 2 is now a product with 0.5. LLVM compiles the loop for a CPU or a GPU. All of
# this happens at the first call with new types, shapes or static values, and every other call runs the machine code
# directly.](../img/tracing.svg)
#
# The last array did not have a new type, because JAX converts NumPy's `float64` to `float32`, unless you set
# `jax.config.update("jax_enable_x64", True)` at the start. JAX differentiates the function exactly as it is written. So
# the wiggles in the first picture come from the steps of 0.02 s, of which a flat throw has only a few.
#
# The list of operations is called a **jaxpr**, and `jax.make_jaxpr(function)(…)` shows it. Look at the jaxpr when you
# want to know what JAX made of a function.

# %% [markdown] id="stale-predict" tags=["predict"]
# The next function reads a global variable, which changes between two calls. *Predict:* what is in the function's jaxpr
# after the change?

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
# It contains the number 0.02, in `float32` precision, just as the jaxpr in the picture contains the number 2.0. While
# JAX traced the function, Python looked up `slowing`, so the list holds the value of the variable but not its name.
# Only a new trace, for example for a new shape, would use 0.5. So pass everything that may change as an **argument**.

# %% [markdown] id="static-predict" tags=["predict"]
# Some arguments *should* become part of the compiled code, for example a number of steps, a method, or a flag that an
# `if` tests. These are **static** arguments, and JAX compiles the function once for each of their values. *Predict:*
# what happens if a static argument is a list of weights?

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
# You get the error `Non-hashable static arguments are not supported`. JAX finds compiled functions by their static
# values, as in a dictionary, and a list cannot be a key because it might change, so use a tuple. Make an argument
# static only if it has few different values, because each value means another compilation.

# %% [markdown] id="at-predict" tags=["predict"]
# ## 2. Arrays that do not change
#
# A list of operations cannot contain a change to an existing array. *Predict:* what happens in this assignment to an
# element?

# %% id="immutable-guess"
predict("immutable", "it changes one element", "it makes a new array called landed", "an error")

# %% id="immutable" raises="TypeError"
landed = jnp.zeros(5)
landed[2] = 1.0

# %% [markdown] id="immutable-why" tags=["why"]
# JAX raises an error that tells you what to write instead, which is `landed = landed.at[2].set(1.0)`. This makes a
# *new* array. Inside `jit`, the compiler sees when the old array is no longer needed, and writes the result in place.
# Besides `set` there are also `add`, `multiply`, `min` and `max`.

# %% [markdown] id="at-index-predict" tags=["predict"]
# *Predict:* if the same index occurs three times, how often is the value added? And what happens with index 100 of an
# array of five elements?

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
# `.at[…].add` adds once for every index, even for one that occurs three times, and on a GPU it uses atomics for this.
# NumPy's `+=` adds only once. An index out of bounds is **no error**, because compiled code can't raise one. A read
# returns the *last* element and a write does nothing, both without a message. To notice such an index, write
# `.at[i].get(mode="fill", fill_value=jnp.nan)`. Negative indices count from the end, as in NumPy.

# %% [markdown] id="at-task"
# ### Exercise: where they come down
#
# Write `landing_counts(metres, bins)`, which counts how many values fall into each of `bins` bins of one metre, from 0
# on. Bin `k` counts `k <= metres < k + 1`, and `bins` is static. Values outside all bins are not counted. Use
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
# The thousand angles are evenly spaced, but the landing points are not. Near the farthest throw, the distance hardly
# depends on the angle, so many throws land there.

# %% [markdown] id="loops-predict" tags=["predict"]
# ## 3. Loops and choices
#
# Tracing runs a Python `for` loop and records the operations of every iteration. *Predict:* how long is the list of
# operations for 100 steps of a Python loop, and for 100 steps of `jax.lax.fori_loop`?

# %% id="loops-guess"
predict("loops",
        "equally long: both do the same",
        "100 bodies for the Python loop, one for fori_loop",
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
# A Python loop is *unrolled*, so a hundred steps become a hundred copies of the body, and the compile time grows with
# their number. Short loops with a fixed number of iterations are fine. For long loops, use `fori_loop` if the number of
# iterations is known, `scan` if you also want to collect a result of each iteration, and `while_loop` to iterate until
# a condition is false. Only `while_loop` has no reverse-mode derivative.

# %% [markdown] id="where-trap-predict" tags=["predict"]
# For a choice you can use `jnp.where`, which computes **both** sides and selects one, or `jax.lax.cond`, which runs one
# of two functions. Under `vmap`, `cond` becomes `where`, because all elements are computed by the same operations. But
# `where` has a trap. *Predict:* what is the derivative of this function at 0?

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
# It is `nan`, although the value is right. Both sides are computed, and the derivative of the square root at 0 is
# infinite. It is multiplied by 0, because the root was not selected, and infinity times zero is `nan`. So replace bad
# values *before* the operation, with a second `where`, as `root_safely` does. The function `advance` at the top of this
# lecture does the same for its division.

# %% [markdown] id="vmap-text"
# ## 4. One becomes many: vmap
#
# `jax.vmap(function, in_axes)` maps a function over an axis of its arguments. With `(0, None)` it maps over axis 0 of
# the first argument and passes the whole second argument every time. It doesn't loop, because each operation in the
# list becomes an operation on arrays with one more axis.
#
# ### Exercise: a table of throws
#
# Write `table(angles, speeds)`, which returns the distance for every angle (rows) and every speed (columns). Use only
# `distance`, without a loop and without reshaping. One `vmap` gives a row or a column, so apply `vmap` to the result
# again.

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
# No two throws are exactly alike, so we need random numbers. *Predict:* are the two numbers on the first line equal?

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
# They are equal. JAX has no hidden generator with a changing state, because a traced function couldn't change it. All
# randomness comes from the **key**, and the same key gives the same numbers, everywhere and every time. So never use a
# key twice. `split` it, use the parts, and don't use the original again. The lecture "Random numbers in parallel"
# explains why.

# %% [markdown] id="grad-text"
# ## 6. Derivatives
#
# For a function `f` that returns one number, `jax.grad(f)` is its exact derivative with respect to its first argument.
# It doesn't use finite differences, and it costs as much as a few calls of `f`, however many inputs there are.
# `jax.value_and_grad` returns both the value and the derivative, `jax.jacfwd` returns the Jacobian matrix and
# `jax.hessian` the Hessian matrix.
#
# ### Exercise: hit the target
#
# Write `aim(target, speed)`, which returns the flat angle at which the ball lands at `target`. Start at 0.3 rad and
# take twelve Newton steps, each of which changes the angle to `angle - (distance - target) / slope`. The check tries
# targets between 15 and 38 m, many at a time with `vmap`.

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
# If Python moves a thousand balls step by step, each call makes a new array. If you no longer need the old array,
# **donate** it, and JAX uses its memory for the result. *Predict:* what is in `balls` after the call?

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
# The array `balls` is deleted, and reading it raises the error `Array has been deleted`. If you write
# `balls = step_all(balls)`, no name refers to the old array any more.

# %% [markdown] id="habits-predict" tags=["predict"]
# These are the habits, in the order of how much they usually gain.
#
# 1. **Compile a large part of the program in one `jit`**, because each call from Python takes some microseconds, and
#    JAX can fuse operations only within a compiled function.
# 2. **Use few shapes.** Count the traces, as above, or let `jax.config.update("jax_log_compiles", True)` list them.
# 3. **Keep data on the device**, because `float(x)`, `np.asarray(x)`, `print(x)` and `if x > 0` each wait for the
#    result and copy it to the host.
# 4. **Put loops inside** the compiled function, with `fori_loop` or `scan`, instead of calling it a thousand times.
# 5. **Measure until the result is there.** A call returns before the work is done, so use `block_until_ready()`, and
#    don't time the first call.
#
# The next cell moves ten balls in three ways. In the first, each step runs without `jit`. In the second, each step is a
# call of a compiled function, and in the third, all steps are in one compiled loop. *Predict:* by what factors do the
# three times differ?

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
# They differ by factors of ten to thousands. Without `jit`, Python runs each step and starts each operation separately.
# With ten balls, a compiled call is mostly overhead. With ten thousand balls the last two ways take similar times,
# because then each call has enough work.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - JAX traces a function once for each set of types, shapes and static values, and compiles the list of operations. A
#   new shape means a new compilation, so pad arrays to one length and mask the elements that don't count.
# - Arrays do not change, so `.at[…].set` and `.at[…].add` return new ones. An index out of bounds is no error.
# - Python loops are unrolled, but `fori_loop`, `scan` and `while_loop` are not. `where` computes both sides, and a bad
#   value on the side that is not selected spoils the derivative.
# - `vmap` turns a function of one element into a function of many, and `grad` turns a function into its derivative, and
#   you can combine them.
# - Use each random key only once, donate the arrays that you no longer need, and wait for the result before you stop
#   the clock.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - The JAX manual on [how to think in JAX](https://docs.jax.dev/en/latest/notebooks/thinking_in_jax.html), [the sharp
#   bits](https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html), [control
#   flow](https://docs.jax.dev/en/latest/control-flow.html), [automatic
#   vectorisation](https://docs.jax.dev/en/latest/automatic-vectorization.html) and
#   [derivatives](https://docs.jax.dev/en/latest/automatic-differentiation.html).
# - JAX's frequent questions on the [derivative of
#   `where`](https://docs.jax.dev/en/latest/faq.html#gradients-contain-nan-where-using-where).
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
# *Ten minutes late:* show only the list of section 7, and give the solution of `pad` after its first hint.
#
# *Where people get stuck.* In `pad` they write `values[:n]`, and the message says that slices need fixed sizes. In
# `at-add`, -0.3 becomes 0 when it is truncated to an integer. JAX drops values beyond the last bin, but a negative
# index counts from the end. In `aim`, a Python `for` loop also works, but takes a while to compile.
#
# *Frequent questions.* "Why not PyTorch?" PyTorch offers much of this in `torch.func` and `torch.compile`. JAX is the
# smaller language, and functions without side effects are easier to reason about. The lesson "PyTorch as a neighbour"
# combines kernels with PyTorch. "Where does it run?" It runs on the devices that `jax.devices()` lists, and the same
# code runs on CPU, GPU and TPU. "Why is the derivative not quite smooth?" The flight is computed in steps of 0.02 s.
#
# *What goes wrong.* If you run a cell that counts traces for a second time, it prints different numbers, because the
# function is already compiled. Also run the cell that defines the function.
