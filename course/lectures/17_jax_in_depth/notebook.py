# %% [markdown] id="the-question-asked"
# ## How precisely do you know the period?
#
# A torsion pendulum, which is a mirror on a thin wire, swings until it comes to rest. We have 200 angles from one
# minute, each with an error of 0.2 mrad. They are simulated, so that we know what a fit should find. Five numbers
# describe the motion: the rest position, the amplitude, the decay time, the period and the phase.

# %% id="the-question"
# %load_ext gpucourse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from gpucourse import lesson
from gpucourse.views.picture import COLOURS, Picture, canvas
from jax.flatten_util import ravel_pytree

check, hint, predict = lesson("17_jax_in_depth")

NOISE = 0.2  # mrad
true = {"rest": 0.5, "swing": {"size": 3.0, "decay": 40.0, "period": 7.0, "phase": 0.4}}
guess = {"rest": 0.0, "swing": {"size": 2.5, "decay": 30.0, "period": 7.05, "phase": 0.2}}


def angle(parameters, t):
    """Of the pendulum [mrad], at time t [s]."""
    swing = parameters["swing"]
    fading = swing["size"] * jnp.exp(-t / swing["decay"])
    return parameters["rest"] + fading * jnp.cos(2 * jnp.pi * t / swing["period"] + swing["phase"])


def misfit(parameters, t, angles):
    """Minus the logarithm of the likelihood, but for a constant."""
    return jnp.sum(((angles - angle(parameters, t)) / NOISE) ** 2) / 2


t = jnp.linspace(0, 60, 200)
angles = angle(true, t) + NOISE * jax.random.normal(jax.random.key(18), t.shape)
loss = partial(misfit, t=t, angles=angles)

print(f"misfit of the guess: {loss(guess):,.0f}, of the truth: {loss(true):.0f}")
print("its derivative:", jax.tree.map(lambda value: f"{value:,.0f}", jax.grad(loss)(guess)))

# %% [markdown] id="the-question-stands"
# Our `parameters` are a dictionary with another dictionary in it, and as the last line shows, so is the derivative.
# From here, a few lines of code give the best five numbers and their errors. **How does JAX handle nested data
# structures, and loops whose number of iterations isn't known in advance?**

# %% [markdown] id="leaves-predict" tags=["predict"]
# ## 1. Trees
#
# A **pytree** is any nesting of tuples, lists, dictionaries and `None`. Anything else in it is a **leaf**. All
# transformations of JAX take and return trees. *Predict:* how many leaves does the tree in the next cell have, and in
# what order?

# %% id="leaves-guess"
predict("leaves",
        "five: 3.0, None, 0.1, 0.2, 7",
        "four, in the order in which they're written: 3.0, 0.1, 0.2, 7",
        "four, by the names of their keys: 0.1, 0.2, 7, 3.0")

# %% id="leaves"
tree = {"size": 3.0, "note": None, "fit": {"errors": (0.1, 0.2), "steps": 7}}
leaves, structure = jax.tree.flatten(tree)
print(leaves)
print(structure)

# %% [markdown] id="leaves-why" tags=["why"]
# It has four leaves, because `None` is a tree without leaves. JAX sorts a dictionary's keys, so the order in which you
# wrote them doesn't matter. The **structure** of a tree is part of its type, so `jit` traces again if a key is added or
# renamed, or if a list takes the place of a tuple.

# %% [markdown] id="two-trees-text"
# `jax.tree.map(f, tree, …)` applies a function leaf by leaf. If you pass several trees, they must have the same
# structure. The next cell passes two that differ.

# %% id="two-trees" raises="ValueError"
jax.tree.map(lambda value, slope: value - 0.1 * slope, guess, {"rest": 1.0, "swing": {"size": 1.0}})

# %% [markdown] id="two-trees-why"
# Begin with the *key path* in the message. It says that under `['swing']` one tree has four keys and the other has one.

# %% [markdown] id="descend-task"
# ### Exercise: one step downhill
#
# Write `descend(loss, parameters, rate)`, which returns the parameters after one step of gradient descent. The step
# subtracts from each leaf `rate` times its derivative, and must work for any tree. If you are stuck, call
# `hint("descend")`.

# %% id="descend-exercise" tags=["exercise"]
def descend(loss, parameters, rate):
    after = parameters
    ### BEGIN SOLUTION
    slopes = jax.grad(loss)(parameters)
    after = jax.tree.map(lambda value, slope: value - rate * slope, parameters, slopes)
    ### END SOLUTION
    return after

# %% id="descend-check"
check("descend", descend)

# %% [markdown] id="grow-predict" tags=["predict"]
# ## 2. Loops that remember: `scan`
#
# `fori_loop` returns only the final state, but to see *how* a descent proceeds, we need the misfit after each step. A
# first idea is to collect the misfits as in NumPy, by appending to an array that is part of the loop's state.
# `jax.lax.scan(body, carry, xs)` calls `carry, y = body(carry, x)` for each `x`. *Predict:* what does the next cell
# give?

# %% id="grow-guess"
predict("grow", "an array of 3 numbers", "only the last number: the others are overwritten", "an error: the carry changes its shape")

# %% id="grow" raises="TypeError"
def collect(seen, x):
    return jnp.append(seen, x), None


jax.lax.scan(collect, jnp.zeros(0), jnp.array([3.0, 1.0, 2.0]))

# %% [markdown] id="grow-why" tags=["why"]
# It fails with `carry input and carry output must have equal types`, because `float32[0]` went in and `float32[1]` came
# out. JAX traces the body *once* for all iterations, so the carry must keep its shape and type. A sum that starts as
# `jnp.int32(0)` and adds 0.5 fails for the same reason. To *collect* values, return them as the second result, `y`, and
# `scan` stacks them.

# %% id="cumsum"
total, sums = jax.lax.scan(lambda total, x: (total + x, total + x), 0.0, jnp.array([3.0, 1.0, 2.0]))
print("at the end:", total, "  all of them:", sums)

# %% [markdown] id="history-task"
# ### Exercise: a descent with its history
#
# Write `history(loss, parameters, rate, steps)`, which returns the parameters after `steps` steps, and an array with
# the misfit *before* each step. The tree of parameters is the carry, because a carry may be any tree. `xs` may be
# `None` if you pass `length=steps`. The check counts how often `loss` is traced.

# %% id="history-exercise" tags=["exercise"]
def history(loss, parameters, rate, steps):
    after, losses = parameters, jnp.full(steps, loss(parameters))
    ### BEGIN SOLUTION
    def body(parameters, _):
        value, slopes = jax.value_and_grad(loss)(parameters)
        return jax.tree.map(lambda old, slope: old - rate * slope, parameters, slopes), value

    after, losses = jax.lax.scan(body, parameters, None, length=steps)
    ### END SOLUTION
    return after, losses

# %% id="history-check"
check("history", history)

# %% id="crawl"
walked, losses = jax.jit(history, static_argnums=(0, 3))(loss, guess, 2e-6, 3000)
figure, axes = canvas(8, 2.6)
axes.plot(losses, color=COLOURS[5])
axes.axhline(loss(true), color="0.5", linestyle=":", label="at the truth")
axes.set(xlabel="step", ylabel="misfit", yscale="log")
axes.legend()
for name, value in walked["swing"].items():
    print(f"{name:7} guess {guess['swing'][name]:6.3f}   after 3,000 steps {value:6.3f}   true {true['swing'][name]:6.3f}")
Picture(figure, f"The misfit against the steps of a descent: from {losses[0]:,.0f} it falls to {losses[300]:,.0f} in 300 steps and "
                f"is at {losses[-1]:,.0f} after 3,000; at the true parameters it is {loss(true):,.0f}.")

# %% [markdown] id="crawl-why"
# The descent is fast at first, but then becomes very slow. The decay time has hardly moved, because the misfit curves
# tens of thousands of times less along the decay time than along the period. So a step that suits the period is far too
# small for the decay time. The descent does not use *the curvature of the misfit*.

# %% [markdown] id="hessian-text" tags=["predict"]
# ## 3. Second derivatives, and the gradient of each element
#
# The derivative of a function is again a function, so you can differentiate it again. For a function of one number,
# write `jax.grad(jax.grad(f))`. For several numbers, `jax.hessian(f)` returns the second derivatives for all pairs. For
# a tree, the result would be a tree of trees, so flatten the tree first. `ravel_pytree(tree)` returns a flat array, and
# the function that rebuilds the tree from it.
#
# The inverse of the Hessian of `misfit` at the best fit is the **covariance** of the parameters, and the square roots
# of its diagonal are their errors. To see what a *single* measurement contributes, take `jax.grad` of `angle` and not
# of the sum. `jax.vmap(jax.grad(angle), (None, 0))(parameters, t)` is a tree with one array for each parameter.
# *Predict:* which of the angles tell you most about the period?

# %% id="sensitive-guess"
predict("sensitive",
        "the first ones: the swings are largest",
        "those around one decay time, 40 s",
        "all about equally")

# %% id="sensitive"
slopes = jax.vmap(jax.grad(angle), (None, 0))(true, t)
figure, axes = canvas(8, 2.6)
for k, (name, unit) in enumerate({"size": "1", "period": "mrad/s", "decay": "mrad/s"}.items()):
    axes.plot(t, slopes["swing"][name], color=COLOURS[k], label=f"by the {name} [{unit}]")
axes.set(xlabel="time [s]", ylabel="slope of the angle")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
largest = float(t[jnp.argmax(jnp.abs(slopes["swing"]["period"]))])
Picture(figure, f"Derivatives of the angle against time. By the size: largest at the start. By the period: grows from 0 to its largest "
                f"at {largest:.0f} s, then falls slowly. By the decay: below {float(jnp.abs(slopes['swing']['decay']).max()):.2f} everywhere.")

# %% [markdown] id="sensitive-why" tags=["why"]
# The angles around 40 s tell you most. The effect of an error in the period grows with time, but it becomes harder to
# see as the swings die away, and t·exp(-t/40 s) is largest at 40 s. So a derivative can tell you something about an
# *experiment*, namely when to measure, and nobody had to derive a formula for it.
#
# `vmap(grad(f))` differs from `grad` of a sum. The first returns one gradient for each element, and the second returns
# one gradient for the sum of all elements.

# %% [markdown] id="errors-task"
# ### Exercise: the errors of a fit
#
# Write `errors(loss, parameters)`, which returns a tree like `parameters` with the error of each parameter. Flatten the
# parameters, compute the Hessian of the loss as a function of the flat array, invert it, take the square roots of the
# diagonal, and rebuild a tree.

# %% id="errors-exercise" tags=["exercise"]
def errors(loss, parameters):
    result = parameters
    ### BEGIN SOLUTION
    flat, as_tree = ravel_pytree(parameters)
    bends = jax.hessian(lambda flat: loss(as_tree(flat)))(flat)
    result = as_tree(jnp.sqrt(jnp.diag(jnp.linalg.inv(bends))))
    ### END SOLUTION
    return result

# %% id="errors-check"
check("errors", errors)

# %% [markdown] id="newton-text"
# ## 4. Loop until a condition holds: `while_loop` and `cond`
#
# With the Hessian you can step to the point where the misfit *would* have its minimum if it were a parabola. This is
# Newton's step. A few such steps are enough, but how many depends on the data. So the loop has to end when a condition
# holds, which `jax.lax.while_loop(goes_on, body, state)` can do.

# %% [markdown] id="until-task"
# ### Exercise: until nothing changes
#
# Write `until(step, x, tolerance=1e-5, most=50)`, which repeats `x = step(x)` until no element changes by more than
# `tolerance`, or until it has made `most` steps. Return `x` and the number of steps. The state is a tuple of the array,
# the number of steps, and the last change, which is `jnp.inf` at the start.

# %% id="until-exercise" tags=["exercise"]
def until(step, x, tolerance=1e-5, most=50):
    steps = jnp.int32(0)
    ### BEGIN SOLUTION
    def goes_on(state):
        _, steps, change = state
        return (change > tolerance) & (steps < most)

    def body(state):
        x, steps, _ = state
        after = step(x)
        return after, steps + 1, jnp.max(jnp.abs(after - x))

    x, steps, _ = jax.lax.while_loop(goes_on, body, (x, jnp.int32(0), jnp.float32(jnp.inf)))
    ### END SOLUTION
    return x, steps

# %% id="until-check"
check("until", until)

# %% [markdown] id="slowest-predict" tags=["predict"]
# Newton's method needs 1, 5 and 16 steps for the square roots of three numbers. Now we compute all three roots at once,
# with `vmap`. *Predict:* how many steps does it compute in total?

# %% id="slowest-guess"
predict("slowest", "22: each as many as it needs", "16: each step computes all three at once", "48: all three continue until the last is done")

# %% id="slowest"
computed = 0


def count(_):
    global computed
    computed += 1


def square_root(a):
    def goes_on(state):
        x, before = state
        return jnp.abs(x - before) > 1e-6 * a

    def body(state):
        x, _ = state
        jax.debug.callback(count, x)  # in compiled code too, for each element
        return (x + a / x) / 2, x

    return jax.lax.while_loop(goes_on, body, (jnp.float32(1), jnp.float32(jnp.inf)))[0]


for inputs in (1.0, 2.0, 1e8, jnp.array([1.0, 2.0, 1e8])):
    computed = 0
    roots = jax.vmap(square_root)(inputs) if jnp.ndim(inputs) else square_root(inputs)
    jax.effects_barrier()  # until all callbacks have been called
    print(f"the root of {inputs}: {roots}, steps computed: {computed}")

# %% [markdown] id="slowest-why" tags=["why"]
# It computes 48 steps, because a mapped loop iterates until the *slowest* element is done. The other elements keep
# their values, but their steps are still computed, as in a warp with one busy lane. So sort the elements by the work
# that they need, or give all of them the same number of iterations.

# %% id="cond"
def safe_root(x):
    return jax.lax.cond(x > 0, jnp.sqrt, jnp.zeros_like, x)


for name, function, example in (("one", safe_root, 2.0), ("mapped", jax.vmap(safe_root), jnp.ones(3))):
    operations = [equation.primitive.name for equation in jax.make_jaxpr(function)(example).eqns]
    print(f"{name:7}", *operations)
print("its slopes at 0 and 4, mapped:", jax.vmap(jax.grad(safe_root))(jnp.array([0.0, 4.0])))

# %% [markdown] id="cond-why"
# `cond` runs one of two functions. Under `vmap` the `cond` disappears: both sides are computed, and a `select_n` at the
# end chooses. The derivative at 0 is right all the same, because here JAX keeps the bad values out of the derivative.
# With `where` you have to do that yourself, as "JAX: arrays, compiled" shows.
#
# | | number of iterations | collects | derivative |
# |---|---|---|---|
# | `fori_loop` | known | nothing | backwards only if the number is fixed while tracing |
# | `scan` | known | yes | forwards and backwards |
# | `while_loop` | unknown; it ends when its condition is false | nothing | forwards only (`jax.jacfwd`, `jax.jvp`) |
# | `cond`, `switch` | one branch | | of the branch that was taken |
#
# The backward pass needs the values of every iteration again, in reverse order, and `while_loop` can't know how many to
# keep.

# %% [markdown] id="fits-text"
# Now we combine these in a fit, which repeats Newton's step until nothing changes. We fit 500 data sets, each with
# different noise, by applying `vmap` to the function that fits one.

# %% id="fits"
def fit(angles):
    """(Five parameters as a flat array, the number of steps) for one series of angles."""
    flat, as_tree = ravel_pytree(guess)

    def newton(flat):
        def function(flat):
            return misfit(as_tree(flat), t, angles)

        bends = jax.hessian(function)(flat)
        return flat - jnp.linalg.solve(bends, jax.grad(function)(flat))

    return until(newton, flat, tolerance=1e-3)


_, as_tree = ravel_pytree(guess)
noise = NOISE * jax.random.normal(jax.random.key(500), (500, t.size))
found, steps = jax.jit(jax.vmap(fit))(angle(true, t) + noise)
best = as_tree(fit(angles)[0])
named = jax.tree_util.tree_leaves_with_path(best)
sure = jax.tree.leaves(errors(loss, best))
for (path, value), error, spread in zip(named, sure, found.std(axis=0), strict=True):
    print(f"{jax.tree_util.keystr(path):20}{value:8.3f} ± {error:.3f}   500 fits spread by {spread:.3f}")
print("steps of the 500 fits:", np.unique(np.asarray(steps)))

# %% id="fits-picture"
periods = np.asarray(jax.vmap(as_tree)(found)["swing"]["period"])
error = float(errors(loss, best)["swing"]["period"])
figure, axes = canvas(8, 2.4)
axes.hist(periods, bins=30, color=COLOURS[0])
axes.axvline(true["swing"]["period"], color=COLOURS[6], label="true")
axes.axvspan(periods.mean() - error, periods.mean() + error, color="0.5", alpha=0.3, label="± the error from one Hessian")
axes.set(xlabel="period [s]", ylabel="of 500 fits")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
within = np.mean(abs(periods - periods.mean()) < error)
Picture(figure, f"Histogram of the periods that 500 fits find, around {periods.mean():.3f} s; the true one is {true['swing']['period']} s. "
                f"Of the fits, {within:.0%} lie within one error of their mean.")

# %% [markdown] id="fits-why"
# So you know the period to a hundredth of a second, and the decay time to a second or two. The errors from *one*
# Hessian agree with the spread of 500 repetitions of the experiment. If your numbers don't agree, look at `until` and
# `errors` again.

# %% [markdown] id="place-text"
# ## 5. Which device holds an array
#
# An array has a list of the devices that hold it. `jax.device_put(tree, device)` copies a whole tree to a device, and
# results that you compute from it stay on that device. If you pass a *sharding* in place of the device, JAX cuts each
# leaf among several devices, and a compiled function then runs on all of them. "More than one GPU" does this with eight
# virtual devices on your CPU.

# %% id="place"
there = jax.device_put({"t": t, "angles": angles}, jax.devices()[0])
print({name: str(array.sharding) for name, array in there.items()})
print("computed from it:", *misfit(guess, **there).devices())

# %% [markdown] id="further" tags=["further"]
# The lesson ends here. Section 6 goes **further** and calls a CUDA kernel from JAX, and defines its derivative.
# [PyTorch as a neighbour](25_pytorch_as_a_neighbour.ipynb) does the same with PyTorch.

# %% [markdown] id="own-kernel-text" tags=["predict"]
# ## 6. Your own kernel inside JAX
#
# Some functions already exist as kernels, for example in a library, and are hard to write with `jnp`.
# `jax.pure_callback(function, promised, *arguments)` calls such a kernel from a JAX program, compiled or not.
# `function` gets the arguments, and returns an array of the promised shape and type. The kernel below computes
# exp(-t/decay), with a thread for each t. *Predict:* what happens if you apply `jax.grad` to it?

# %% id="own-kernel-guess"
predict("own-kernel",
        "the right derivative: JAX also traces the kernel",
        "0: to JAX it's a constant",
        "an error: JAX can't see what the kernel computes")

# %% id="own-kernel" raises="ValueError"
import math

from numba import cuda

launches = 0


@cuda.jit
def fade_kernel(t, decay, out):
    i = cuda.grid(1)
    if i < t.size:
        out[i] = math.exp(-t[i] / decay)


def launch(t, decay):
    """exp(-t / decay) of an array of any shape, on the host before and after."""
    global launches
    launches += 1
    t = np.asarray(t)
    d_out = cuda.device_array(t.size, t.dtype)
    fade_kernel[-(-t.size // 128), 128](cuda.to_device(t.ravel()), np.asarray(decay)[()], d_out)
    return d_out.copy_to_host().reshape(t.shape)


def by_kernel(t, decay):
    promised = jax.ShapeDtypeStruct(t.shape, t.dtype)
    return jax.pure_callback(launch, promised, t, decay, vmap_method="sequential")


print("in a compiled program, as jnp:", np.allclose(jax.jit(by_kernel)(t, 40.0), jnp.exp(-t / 40.0)))
jax.grad(lambda decay: by_kernel(t, decay).sum())(40.0)

# %% [markdown] id="own-kernel-why" tags=["why"]
# JAX raises `Pure callbacks do not support JVP`. The jaxpr has just *one* equation for the call, `pure_callback`, with
# the shapes of inputs and outputs. JAX can't see what the callback computes, so it can't differentiate it, fuse it, or
# check that it is pure. *You* promise that the function is pure, because JAX may call it twice, or never if the result
# isn't used.

# %% [markdown] id="own-kernel-price"
# The price of such a call is that the program waits for Python, and that the arrays pass through the host. If JAX runs
# on a GPU, it copies the arrays to the host for the call and back afterwards, and Numba copies them to the GPU and back
# once more.
#
# JAX's [foreign function interface](https://docs.jax.dev/en/latest/ffi.html) avoids these copies, because it passes
# JAX's own device pointers and stream to a C++ function. It needs a compiler, and a library for each platform, so this
# course doesn't run it. With Pallas, the subject of "Programming in blocks", you write the kernel in JAX itself. All
# three need the next step, because JAX can't differentiate any of these kernels on its own.

# %% [markdown] id="own-rule-text" tags=["predict"]
# `jax.custom_vjp` lets you define the derivative yourself, in two functions. `forward` returns the value, and
# everything that the backward pass will need. `backward(kept, g)` gets these stored values, and `g`, which is the
# derivative of the final number with respect to the value that `forward` returned. It returns a tuple with a derivative
# for each argument. The rule below has a mistake, because the derivative of x² is 2x and not 3x. *Predict:* what does
# `jax.grad` give at 3?

# %% id="own-rule-guess"
predict("own-rule",
        "6.0: JAX sees that it's x * x",
        "9.0: what the rule says",
        "an error: the rule doesn't fit the function")

# %% id="own-rule" raises="AssertionError"
from jax.test_util import check_grads


@jax.custom_vjp
def square(x):
    return x * x


square.defvjp(lambda x: (square(x), x), lambda x, g: (3 * x * g,))
print("the slope at 3:", jax.grad(square)(3.0))
check_grads(square, (jnp.array(3.0),), order=1, modes=["rev"])

# %% [markdown] id="own-rule-why" tags=["why"]
# It gives 9.0, because JAX never compares the rule with the function. You have to do that yourself, with `check_grads`,
# which compares the rule with differences of the function's values, and here finds the mistake. Run it for each rule
# that you write.

# %% [markdown] id="own-gradient-task"
# ### Exercise: a gradient for the kernel
#
# Complete the rule of `fade`, whose derivative with respect to each `t` is -faded/decay, and its derivative with
# respect to `decay` is faded·t/decay². `t` has any shape and is `float32` or `float64`, and `decay` is one number,
# which all elements share. The kernel has already computed the exponential, so keep its result.

# %% id="own-gradient-exercise" tags=["exercise"]
@jax.custom_vjp
def fade(t, decay):
    return by_kernel(t, decay)


def forward(t, decay):
    faded = fade(t, decay)
    kept = None
    ### BEGIN SOLUTION
    kept = t, decay, faded
    ### END SOLUTION
    return faded, kept


def backward(kept, g):
    by_t = by_decay = None  # to JAX: zero
    ### BEGIN SOLUTION
    t, decay, faded = kept
    by_t = -g * faded / decay
    by_decay = jnp.sum(g * faded * t) / decay**2
    ### END SOLUTION
    return by_t, by_decay


fade.defvjp(forward, backward)

# %% id="own-gradient-check"
check("own-gradient", fade)

# %% id="own-fit"
def loss_by_kernel(parameters):
    swing = parameters["swing"]
    wave = jnp.cos(2 * jnp.pi * t / swing["period"] + swing["phase"])
    found = parameters["rest"] + swing["size"] * fade(t, swing["decay"]) * wave
    return jnp.sum(((angles - found) / NOISE) ** 2) / 2


for name, function in (("jnp", loss), ("the kernel", loss_by_kernel)):
    before = launches
    slope = float(jax.grad(function)(guess)["swing"]["decay"])
    print(f"the misfit by {name:11} slope by the decay {slope:8.3f}, launches {launches - before}")
before = launches
jax.vmap(fade, (None, 0))(t, jnp.linspace(20, 60, 50)).block_until_ready()
print("50 decays, mapped: launches", launches - before)

# %% [markdown] id="own-fit-why"
# The gradient is the same, and it took one launch, because the backward pass needs none. Under `vmap`,
# `vmap_method="sequential"` launches the kernel once for each element. With `"broadcast_all"` and a kernel for a whole
# table, one launch would be enough. `jax.hessian` of this misfit fails, because it uses forward mode over reverse mode,
# and a `custom_vjp` rule defines no forward mode. (`jax.custom_jvp` would.) `jax.jacrev(jax.jacrev(…))` works, because
# `forward` calls `fade`, which has a rule, and not `by_kernel`.

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - Nested dictionaries, tuples and lists are trees, which JAX functions take, return and differentiate. `jax.tree.map`
#   works leaf by leaf, and the structure is part of the type.
# - The carry of a loop keeps its shape and type, and `scan` stacks the values that you collect.
# - The inverse Hessian of minus the log-likelihood is the covariance of a fit, and `vmap(grad(f))` gives a gradient for
#   each element.
# - `while_loop` ends when a condition holds. Under `vmap` it iterates until the slowest element is done, and it has no
#   reverse-mode derivative. `cond` runs one branch, but under `vmap` it runs both.
# - JAX can't see what `pure_callback` calls, so you define its derivative with `custom_vjp`. JAX never checks your
#   rule, so test it with `check_grads`.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - JAX: [pytrees](https://docs.jax.dev/en/latest/pytrees.html), [control
#   flow](https://docs.jax.dev/en/latest/control-flow.html), [advanced
#   derivatives](https://docs.jax.dev/en/latest/advanced-autodiff.html), [sharded
#   computation](https://docs.jax.dev/en/latest/sharded-computation.html).
# - Your own kernels: [callbacks](https://docs.jax.dev/en/latest/external-callbacks.html), [custom derivative
#   rules](https://docs.jax.dev/en/latest/notebooks/Custom_derivative_rules_for_Python_code.html),
#   [`check_grads`](https://docs.jax.dev/en/latest/_autosummary/jax.test_util.check_grads.html).
# - [The autodiff cookbook](https://docs.jax.dev/en/latest/notebooks/autodiff_cookbook.html) shows how to multiply a
#   Hessian by a vector without computing the Hessian.
# - For your own work, use [Optimistix](https://docs.kidger.site/optimistix/) to minimise, to find roots and for least
#   squares, and [Optax](https://optax.readthedocs.io) for gradient descent.

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 40 minutes
#
# | minutes | what |
# |---|---|
# | 0-3 | the question; let people guess the error of the period |
# | 3-11 | section 1; `descend` |
# | 11-20 | section 2; `history` in pairs |
# | 20-28 | section 3; collect guesses before the picture; `errors` |
# | 28-39 | section 4; `until`, then the 500 fits |
# | 39-40 | section 5 |
#
# Section 6 takes another 15 minutes: collect guesses before both errors, and give `own-gradient` to pairs.
#
# *Ten minutes late:* give `errors` from the solution, and leave out section 5. *Ten minutes early:* fit with a guess of
# 8 s for the period, for which Newton's steps diverge. Ask why, and what would help.
#
# *Where people get stuck.* In `descend` they loop over the dictionary's keys, which fails at the nested dictionary. In
# `history` they call `losses.append`. In `until` they write `and` in place of `&`, but a traced value can't be
# converted to `bool`. In `errors` they take 1 over the square root of the Hessian's diagonal, which ignores that
# parameters are correlated. In `own-gradient` they forget `g`. Then the derivative is right for the sum of all
# elements, for which `g` is 1, and for nothing else. If they forget the sum, JAX reports it, because a derivative must
# have the shape of its argument.
#
# *Frequent questions.* "Why not `scipy.optimize`?" For a single fit, it is a good choice, with the gradient from JAX.
# But it cannot do five hundred fits at once. "Can I use my own class as a tree?" Yes, with
# `jax.tree_util.register_dataclass`. "Is the Hessian expensive?" It costs as much as one gradient for each parameter,
# so it is cheap for five parameters and too expensive for a million.
