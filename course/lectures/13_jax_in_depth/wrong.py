"""Wrong answers to the exercises of "JAX in depth", with what the check must say of each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from wrong_answers import collection

WRONG, wrong = collection("13_jax_in_depth")

# --- descend ------------------------------------------------------------------------------------


@wrong("descend", "a dictionary in a dictionary|unsupported operand|TypeError")
def key_by_key(loss, parameters, rate):
    slopes = jax.grad(loss)(parameters)
    return {key: parameters[key] - rate * slopes[key] for key in parameters}


@wrong("descend", "downhill, so minus")
def uphill(loss, parameters, rate):
    return jax.tree.map(lambda x, slope: x + rate * slope, parameters, jax.grad(loss)(parameters))


@wrong("descend", "downhill, so minus")
def without_rate(loss, parameters, rate):
    return jax.tree.map(lambda x, slope: x - slope, parameters, jax.grad(loss)(parameters))


@wrong("descend", "has the structure")
def a_list_of_leaves(loss, parameters, rate):
    slopes = jax.tree.leaves(jax.grad(loss)(parameters))
    return [x - rate * s for x, s in zip(jax.tree.leaves(parameters), slopes, strict=True)]


@wrong("descend", "the parameters themselves were changed")
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


wrong("errors", "for a straight line.*the inverse of the whole Hessian first", "diagonal first")(
    by(lambda bends: 1 / jnp.sqrt(jnp.diag(bends))))
wrong("errors", "then the roots", "variances")(by(lambda bends: jnp.diag(jnp.linalg.inv(bends))))
wrong("errors", "then the roots", "no inverse")(by(lambda bends: jnp.sqrt(jnp.diag(bends))))


@wrong("errors", "has the structure")
def flat_errors(loss, parameters):
    flat, as_tree = ravel_pytree(parameters)
    bends = jax.hessian(lambda flat: loss(as_tree(flat)))(flat)
    return jnp.sqrt(jnp.diag(jnp.linalg.inv(bends)))


@wrong("errors", "TypeError|has the structure|jaxtype|shape|list")
def hessian_of_the_tree(loss, parameters):
    return jnp.sqrt(jnp.diag(jnp.linalg.inv(jax.hessian(loss)(parameters))))


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


wrong("until", "from -1: 1 steps|without its sign", "signed change")(
    looping(lambda after, x: jnp.max(x - after)))
wrong("until", "from 1 and 1024: 10 steps, not 20", "smallest change")(
    looping(lambda after, x: jnp.min(jnp.abs(after - x))))
wrong("until", "from 1: 11 steps, not 10", "counts from one")(looping(first=1))
wrong("until", "never stands still: 500 steps, not 7", "no bound")(looping(bound=False))
wrong("until", "x/2, from 1: 50 steps|x after the last step", "never moves")(looping(late=True))


@wrong("until", "50 steps are computed where 10 are made.*while_loop ends")
def all_of_them_and_a_mask(step, x, tolerance=1e-5, most=50):
    def body(_, state):
        x, steps, going = state
        after = step(x)
        still = going & (jnp.max(jnp.abs(after - x)) > tolerance)
        return jnp.where(going, after, x), steps + going, still

    state = (x, jnp.int32(0), jnp.bool_(True))
    return jax.lax.fori_loop(0, most, body, state)[:2]
