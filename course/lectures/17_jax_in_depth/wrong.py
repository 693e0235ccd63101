"""Wrong answers to the exercises of "JAX in depth", with what the check must say of each."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from wrong_answers import collection, of_the_lecture, swap

WRONG, wrong = collection("17_jax_in_depth")

# --- descend ------------------------------------------------------------------------------------


@wrong("descend", "a dictionary in a dictionary|unsupported operand|TypeError")
def key_by_key(loss, parameters, rate):
    slopes = jax.grad(loss)(parameters)
    return {key: parameters[key] - rate * slopes[key] for key in parameters}


@wrong("descend", "because the step goes downhill")
def uphill(loss, parameters, rate):
    return jax.tree.map(lambda x, slope: x + rate * slope, parameters, jax.grad(loss)(parameters))


@wrong("descend", "because the step goes downhill")
def without_rate(loss, parameters, rate):
    return jax.tree.map(lambda x, slope: x - slope, parameters, jax.grad(loss)(parameters))


@wrong("descend", "has the structure")
def a_list_of_leaves(loss, parameters, rate):
    slopes = jax.tree.leaves(jax.grad(loss)(parameters))
    return [x - rate * s for x, s in zip(jax.tree.leaves(parameters), slopes, strict=True)]


@wrong("descend", "has changed its input `parameters`")
def in_place(loss, parameters, rate):
    after = jax.tree.map(lambda x, s: x - rate * s, parameters, jax.grad(loss)(parameters))
    if isinstance(parameters, dict):
        parameters.update(after)
    return after


@wrong("descend", "was computed 6 times.*without differences")
def by_differences(loss, parameters, rate):
    flat, as_tree = ravel_pytree(parameters)
    shifts = 1e-3 * jnp.eye(flat.size)
    slopes = [(loss(as_tree(flat + by)) - loss(as_tree(flat - by))) / 2e-3 for by in shifts]
    return as_tree(flat - rate * jnp.array(slopes))


# --- history ------------------------------------------------------------------------------------


def descending(collected):
    """A scan that collects something else."""

    def history(loss, parameters, rate, steps):
        def body(old, _):
            value, slopes = jax.value_and_grad(loss)(old)
            new = jax.tree.map(lambda x, slope: x - rate * slope, old, slopes)
            return (old if collected == "stays" else new), collected_of(new, value, loss)

        def collected_of(new, value, loss):
            return loss(new) if collected == "after" else value

        return jax.lax.scan(body, parameters, None, length=steps)

    return history


wrong("history", r"misfit \*before\* each step|before", "misfit after the step")(
    descending("after"))
wrong("history", "do the parameters of one iteration go into the next", "parameters that stay")(
    descending("stays"))


@wrong("history", "the loss was traced 6 times for 6 steps")
def python_loop(loss, parameters, rate, steps):
    losses = []
    for _ in range(steps):
        value, slopes = jax.value_and_grad(loss)(parameters)
        losses.append(value)
        parameters = jax.tree.map(lambda x, slope: x - rate * slope, parameters, slopes)
    return parameters, jnp.stack(losses)


@wrong("history", "the program grows with the number of steps")
def python_loop_over_compiled_steps(loss, parameters, rate, steps):
    return python_loop(jax.jit(loss), parameters, rate, steps)


@wrong("history", r"have the shape \(\)")
def the_last_only(loss, parameters, rate, steps):
    after, losses = descending("value")(loss, parameters, rate, steps)
    return after, losses[-1]


# --- errors -------------------------------------------------------------------------------------


def by(what):
    def errors(loss, parameters):
        flat, as_tree = ravel_pytree(parameters)
        return as_tree(what(jax.hessian(lambda flat: loss(as_tree(flat)))(flat)))

    return errors


wrong("errors", "for a straight line.*invert the whole Hessian", "diagonal first")(
    by(lambda bends: 1 / jnp.sqrt(jnp.diag(bends))))
wrong("errors", "then take the square roots", "variances")(by(lambda bends: jnp.diag(jnp.linalg.inv(bends))))
wrong("errors", "then take the square roots", "no inverse")(by(lambda bends: jnp.sqrt(jnp.diag(bends))))


@wrong("errors", "has the structure")
def flat_errors(loss, parameters):
    flat, as_tree = ravel_pytree(parameters)
    bends = jax.hessian(lambda flat: loss(as_tree(flat)))(flat)
    return jnp.sqrt(jnp.diag(jnp.linalg.inv(bends)))


@wrong("errors", "TypeError|has the structure|jaxtype|shape|list")
def hessian_of_the_tree(loss, parameters):
    return jnp.sqrt(jnp.diag(jnp.linalg.inv(jax.hessian(loss)(parameters))))


wrong("errors", r"for 3 exp\(2x\) at x = .*at the parameters that are given", "the Hessian at zero")(
    swap("loss(as_tree(flat)))(flat)", "loss(as_tree(flat)))(0 * flat)"))


# --- until --------------------------------------------------------------------------------------


@wrong("until", "TracerBoolConversionError|[Bb]oolean")
def python_while(step, x, tolerance=1e-5, most=50):
    steps, change = 0, jnp.inf
    while change > tolerance and steps < most:
        after = step(x)
        change, x, steps = jnp.max(jnp.abs(after - x)), after, steps + 1
    return x, steps


def looping(change=lambda after, x: jnp.max(jnp.abs(after - x)), first=0, bound=True, late=False):
    """A right loop with one thing different."""

    def until(step, x, tolerance=1e-5, most=50):
        def goes_on(state):
            going = state[2] > tolerance
            return going & (state[1] < (most if bound else 500))

        def body(state):
            x, steps, _ = state
            after = step(x)
            return (x if late else after), steps + 1, change(after, x)

        state = (x, jnp.int32(first), jnp.float32(jnp.inf))
        return jax.lax.while_loop(goes_on, body, state)[:2]

    return until


wrong("until", "from -1: 1 step,|absolute change", "signed change")(
    looping(lambda after, x: jnp.max(x - after)))
wrong("until", "from 1 and 1024: 10 steps, not 20", "smallest change")(
    looping(lambda after, x: jnp.min(jnp.abs(after - x))))
wrong("until", "from 1: 11 steps, not 10", "counts from one")(looping(first=1))
wrong("until", "with a tolerance of 1/8: 4 steps, not 3", "equal is not enough")(
    swap("change > tolerance", "change >= tolerance"))
wrong("until", "a hundred ones: 14 steps, not 10", "length of the change")(
    looping(lambda after, x: jnp.linalg.norm(jnp.ravel(after - x))))
wrong("until", "with the default tolerance: 7 steps, not 17", "another default")(
    swap("def until(step, x, tolerance=1e-5", "def until(step, x, tolerance=1e-2"))
wrong("until", "never stands still: 500 steps, not 7", "no bound")(looping(bound=False))
wrong("until", "x/2, from 1: 50 steps|x after the last step", "never moves")(looping(late=True))


@wrong("until", "50 steps are computed, and 10 are enough.*while_loop, which ends")
def all_of_them_and_a_mask(step, x, tolerance=1e-5, most=50):
    def body(_, state):
        x, steps, going = state
        after = step(x)
        still = going & (jnp.max(jnp.abs(after - x)) > tolerance)
        return jnp.where(going, after, x), steps + going, still

    state = (x, jnp.int32(0), jnp.bool_(True))
    return jax.lax.fori_loop(0, most, body, state)[:2]

# --- own-gradient -------------------------------------------------------------------------------

own = partial(wrong, "own-gradient")

own("this is the derivative of the plain sum", "g is left out")(
    swap("-g * faded / decay", "-faded / decay"),
    swap("jnp.sum(g * faded * t)", "jnp.sum(faded * t)"))
own("slope by decay is .*faded \\* t / decay\\*\\*2 times g", "g is left out of the sum")(
    swap("jnp.sum(g * faded * t)", "g.sum() * jnp.sum(faded * t)"))
own("slope by t is .*-faded / decay times g", "the sign is lost")(
    swap("-g * faded / decay", "g * faded / decay"))
own("slope by decay is .*over all elements", "decay once")(
    swap("/ decay**2", "/ decay"))
own("slope by decay is .*over all elements", "mean for sum")(
    swap("jnp.sum(g * faded * t)", "jnp.mean(g * faded * t)"))
own("Custom VJP bwd rule must produce", "no sum")(swap("jnp.sum(g * faded * t)", "g * faded * t"))
own("slope by t is -?0, not", "decay alone")(swap("return by_t, by_decay", "return None, by_decay"))
own("slope by decay is 0", "decay is no argument")(
    swap("return by_t, by_decay", "return by_t, None"))
own("slope by t is .*-faded / decay times g", "t is kept for faded")(
    swap("kept = t, decay, faded", "kept = t, decay, t"))
own("slope by t is .*-faded / decay times g", "worked out again absolute change")(
    swap("t, decay, faded = kept", "t, decay, _ = kept\n    faded = by_kernel(-t, decay)"))
own("computes an exponential a second time.*faded.*in `kept`", "forgotten and worked out by JAX")(
    swap("kept = t, decay, faded", "kept = t, decay"),
    swap("t, decay, faded = kept", "t, decay = kept\n    faded = jnp.exp(-t / decay)"))
own("computes an exponential a second time", "JAX's derivative of the formula")(
    swap("-g * faded / decay", "jax.vjp(lambda t, d: jnp.exp(-t / d), t, decay)[1](g)[0]"))
own("computes an exponential a second time", "the kernel for the value alone")(
    swap("faded = fade(t, decay)", "faded = jnp.exp(-t / decay)"))
own("JAX computes the exponential, not the kernel", "no kernel at all")(
    swap("return by_kernel(t, decay)", "return jnp.exp(-t / decay)"))
own("faded is .*, not .*exp\\(-t / decay\\)", "40 built in")(
    swap("math.exp(-t[i] / decay)", "math.exp(-t[i] / 40)"))
own("illegal address: the thread reads t.*guard the index", "no guard")(swap("if i < t.size:", "if True:"))
own("only 1 thread of the launch work on 2,000 elements", "one thread")(
    swap("if i < t.size:", "for i in range(t.size):"),
    swap("    i = cuda.grid(1)\n", ""),
    swap("fade_kernel[-(-t.size // 128), 128]", "fade_kernel[1, 1]"))
own("your busiest thread makes .* instructions", "each thread walks through all")(
    swap("if i < t.size:", "for k in range(t.size):\n        if k == i:"),
    swap("        out[i] = math.exp(-t[i] / decay)", "            out[i] = math.exp(-t[i] / decay)"))
own(r"Expected: \(200,\), Actual: \(188,\)", "200 angles, as in the example")(
    swap("jax.ShapeDtypeStruct(t.shape, t.dtype)", "jax.ShapeDtypeStruct((200,), t.dtype)"))
own("Expected: float32, Actual: float64", "float32 alone")(
    swap("jax.ShapeDtypeStruct(t.shape, t.dtype)", "jax.ShapeDtypeStruct(t.shape, jnp.float32)"))
own(r"Expected: \(3, 32\), Actual: \(96,\)", "rows only")(swap(".reshape(t.shape)", ""))
own("No VJP defined", "no rule is given")(
    swap("fade.defvjp(forward, backward)", "fade = jax.custom_vjp(by_kernel)"))


@own("no custom derivative rule in it.*@jax.custom_vjp above the function")
def no_custom_vjp(t, decay):
    return of_the_lecture("17_jax_in_depth", "by_kernel")(t, decay)


def on_the_host(t, decay, show=None):
    """A rule whose values are NumPy's; ``show`` may launch the kernel beside."""

    def numpy_s(t, decay):
        if show:
            show(t, decay)
        return np.exp(-np.asarray(t) / np.asarray(decay))

    promised = jax.ShapeDtypeStruct(t.shape, t.dtype)
    return jax.pure_callback(numpy_s, promised, t, decay)


def ruled(value, faded_again=None):
    """The right rule for a function, with what it keeps or, on the way back, with another."""

    @jax.custom_vjp
    def fade(t, decay):
        return value(t, decay)

    def forward(t, decay):
        faded = fade(t, decay)
        return faded, (t, decay, faded)

    def backward(kept, g):
        t, decay, faded = kept
        faded = faded_again(t, decay) if faded_again else faded
        return -g * faded / decay, jnp.sum(g * faded * t) / decay**2

    fade.defvjp(forward, backward)
    return fade


own("computed on the host, not by a kernel", "NumPy")(ruled(on_the_host))
own("computed on the host, not by a kernel", "NumPy, and a launch for show")(
    ruled(lambda t, decay: on_the_host(
        t, decay, of_the_lecture("17_jax_in_depth", "launch"))))
own("make 2 calls of the host and 1 launch", "back on the host")(
    ruled(lambda t, decay: of_the_lecture("17_jax_in_depth", "by_kernel")(t, decay), on_the_host))


@own("slope by t is .*-faded / decay times g")
@jax.custom_vjp
def by_differences(t, decay):
    return of_the_lecture("17_jax_in_depth", "by_kernel")(t, decay)


def differences(kept, g):
    t, decay = kept
    step = 1e-2
    by_t, by_decay = ((by_differences(t + a, decay + b) - by_differences(t - a, decay - b)) / (2 * step)
                      for a, b in ((step, 0), (0, step)))
    return g * by_t, jnp.sum(g * by_decay)


by_differences.defvjp(lambda t, decay: (by_differences(t, decay), (t, decay)), differences)
