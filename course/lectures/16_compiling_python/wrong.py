"""Wrong answers to the exercises of "Compiling Python", with what the check must say of each."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from numba import jit, njit, vectorize

from wrong_answers import collection, swap

WRONG, wrong = collection("16_compiling_python")

# --- count-window -------------------------------------------------------------------------------


@wrong("count-window", "this is a function that Numba does not compile")
def not_compiled(values, low, high):
    return sum(low < value < high for value in values)


wrong("count-window", "the edges 80 and 100 are counted too", "edges too")(
    swap("< value < ", "<= value <= "))
wrong("count-window", "lie between 80 and 100; your function counts .*NaN", "counts nan")(
    swap("count = 0", "count = values.size"),
    swap("low < value < high:\n            count +", "value <= low or value >= high:\n            count -"))
wrong("count-window", r"lie between -?[\d.]+ and -?[\d.]+; your function counts", "leaves out the last")(
    swap("value in values:\n        if low < value", "i in range(values.size - 1):\n        if low < values[i]"))


wrong("count-window", r"lie between -?[\d.]+ and -?[\d.]+; your function counts|counted too", "the window of the example")(
    swap("low < value < high", "80 < value < 100"))
wrong("count-window", "the count is right, but there is no loop over", "an array expression")(
    swap("count = 0\n    for value in values:\n        if low < value < high:\n            count += 1\n"
         "    return count", "return np.sum((values > low) & (values < high))"))

wrong("count-window", "there is no loop over the values", "a loop for show")(
    swap("    count = 0\n    for value in values:\n        if low < value < high:\n            count += 1\n"
         "    return count",
         "    count = np.sum((values > low) & (values < high))\n    for _ in range(1):\n        pass\n"
         "    return count"))
wrong("count-window", r"lie between -?[\d.]+ and -?[\d.]+; your function counts", "whole numbers alone")(
    swap("low < value < high", "low < int(value) < high"))
wrong("count-window", "your function has changed its input `values`", "sorts them")(
    swap("count = 0", "values.sort()\n    count = 0"))


@wrong("count-window", "Python runs the function")
@jit(forceobj=True)
def left_to_python(values, low, high):
    count = 0
    for value in values:
        count += low < value < high
    return count


# --- vectorize ----------------------------------------------------------------------------------


def newton(E, M, e):
    return (E - e * math.sin(E) - M) / (1 - e * math.cos(E))


compiled_newton = njit(newton)


@wrong("vectorize", "not a ufunc.*@vectorize")
@njit
def of_two_numbers(M, e):
    E = math.pi
    for _ in range(60):
        E -= compiled_newton(E, M, e)
    return E


@wrong("vectorize", "e = 0.9,.*until the step is smaller")
@vectorize
def too_few_turns(M, e):
    E = math.pi
    for _ in range(5):
        E -= compiled_newton(E, M, e)
    return E


@wrong("vectorize", "until the step is smaller")
@vectorize
def one_turn(M, e):
    return math.pi - compiled_newton(math.pi, M, e)


wrong("vectorize", "the signs in the step", "of the other side")(
    swap("- e * math.sin(E) - M) / (1 -", "+ e * math.sin(E) - M) / (1 +"))


@wrong("vectorize", "E is")
@vectorize
def the_orbit_of_the_example(M, e):
    E = math.pi
    for _ in range(60):
        E -= compiled_newton(E, M, 0.2)
    return E


@wrong("vectorize", "M = 0.10 and e = 0.2, E is 0.104720")
@vectorize
def a_circle(M, e):
    return M


@wrong("vectorize", "takes 1 number, not two")
@vectorize
def of_the_time_alone(M):
    return M


@wrong("vectorize", "a comet takes the same number of iterations everywhere")
@vectorize
def as_many_as_the_orbit_is_long(M, e):
    E = math.pi
    for _ in range(int(10 + 100 * e)):
        E -= (E - e * math.sin(E) - M) / (1 - e * math.cos(E))
    return E


@wrong("vectorize", "none cannot be represented.*without returning a value")
@vectorize
def forgets_to_return(M, e):
    E = math.pi
    E -= (E - e * math.sin(E) - M) / (1 - e * math.cos(E))


# --- fresh-cuts ---------------------------------------------------------------------------------

cut = 60.0


@wrong("fresh-cuts", "the answer is .* each time.*the global one")
@njit
def still_global(values, ignored):
    return np.sum(values > cut)


@wrong("fresh-cuts", "that Numba does not compile")
def numpy_alone(values, cut):
    return np.sum(values > cut)


@wrong("fresh-cuts", "above. means|lie above")
@njit
def below_instead(values, cut):
    return np.sum(values < cut)


@wrong("fresh-cuts", "that Numba does not compile")
def compiled_in_each_call(values, cut):
    @njit
    def count(values):
        return np.sum(values > cut)

    return count(values)


@wrong("fresh-cuts", "above. means `>`")
@njit
def the_cut_itself_too(values, cut):
    return np.sum(values >= cut)


@wrong("fresh-cuts", "your function has changed its input `values`")
@njit
def less_the_cut(values, cut):
    values -= cut
    count = np.sum(values > 0)
    values += cut
    return count


# --- where --------------------------------------------------------------------------------------


@wrong("where", "truth value of an array|TracerBoolConversionError")
def asks_with_if(masses):
    if masses > 60:
        return 1.02 * masses
    return masses


@wrong("where", "TracerArrayConversionError")
def where_of_numpy(masses):
    return np.where(masses > 60, 1.02 * masses, np.where(masses < 20, 0, masses))


@wrong("where", "NonConcreteBooleanIndexError|result of shape")
def picks_by_mask(masses):
    return 1.02 * masses[masses > 60]


@wrong("where", "becomes .*, not 0")
def forgets_the_light_ones(masses):
    return jnp.where(masses > 60, 1.02 * masses, masses)


@wrong("where", "a mass of (60|20) becomes")
def edges_too_much(masses):
    return jnp.where(masses >= 60, 1.02 * masses, jnp.where(masses <= 20, 0, masses))


@wrong("where", "result of shape")
def adds_them_up(masses):
    return jnp.sum(jnp.where(masses > 60, 1.02 * masses, masses))


@wrong("vectorize", "the Earth takes as many iterations as a comet")
@vectorize
def two_hundred_rounds_for_everybody(M, e):
    E = math.pi
    for _ in range(200):
        E -= (E - e * math.sin(E) - M) / (1 - e * math.cos(E))
    return E


@wrong("where", "one element comes after the other, in a loop")
def one_mass_at_a_time(masses):
    def light(mass):
        return jax.lax.cond(mass < 20, lambda m: 0 * m, lambda m: m, mass)

    return jax.lax.map(
        lambda mass: jax.lax.cond(mass > 60, lambda m: 1.02 * m, light, mass), masses)


@wrong("where", "a mass of .* becomes")
def right_for_those_of_the_example(masses):
    return jnp.where((masses > 60) & (masses < 100), 1.02 * masses, jnp.where(masses < 20, 0, masses))


@wrong("where", "calls back into Python: the host computes")
def numpy_called_back(masses):
    def by_numpy(masses):
        corrected = np.where(masses > 60, np.float32(1.02) * masses, masses)
        return np.where(masses < 20, np.float32(0), corrected)

    return jax.pure_callback(by_numpy, jax.ShapeDtypeStruct(masses.shape, masses.dtype), masses)
