"""Checks and hints of "Compiling Python: Numba and JAX on the CPU"."""

from __future__ import annotations

import math

import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.compiled_loops import ended
from gpucourse.exercises.methods import as_python, has_loop, lines_run, require_all_at_once
from gpucourse.exercises.trials import LENGTHS
from virtualgpu.api import a_or_an
from virtualgpu.api import many


@exercise(
    "count-window",
    hints=(
        "The idea: a counter, a loop over the values, an `if`. Python lets you chain "
        "comparisons, and so does Numba.",
        "The shape: `@njit` above `def count_window(values, low, high):`; inside, `count = 0`, "
        "the loop, `if low < value < high:`, and `return count`.",
    ),
)
def count_window(count):
    """Right for every length, edge and type, and compiled."""
    _require_compiled(count)
    random, low, high = np.random.default_rng(41), 80.0, 100.0
    for dtype in (np.float64, np.float32):
        for n in LENGTHS:
            values = random.integers(70, 110, n).astype(dtype)
            if n > 2:
                values[n // 2] = np.nan
            got = ended(count, values, low, high)
            expected = ((values > low) & (values < high)).sum()
            closed = ((values >= low) & (values <= high)).sum()
            case = f"with {n} {np.dtype(dtype).name} values"
            require(
                got == expected or got != closed,
                f"{case}, the edges {low:g} and {high:g} are counted too",
                look="strictly between: `<` or `<=`?",
            )
            require(
                got == expected,
                f"{case}, {expected} lie between {low:g} and {high:g}; yours are {got}",
                look="which values does the loop see, and what does it do with NaN?",
            )
            low = float(random.integers(72, 90))
            high = low + float(random.integers(5, 25))
    require(has_loop(count), "right, but without a loop: NumPy's operations make arrays of truth "
            "values first", look="`for value in values:`, with a counter: Numba compiles it")


@exercise(
    "vectorize",
    hints=(
        "The idea: write it for two numbers, with a `while`. `@vectorize` above it makes the loop "
        "over elements.",
        "The shape: `E, step = math.pi, 1.0`, then `while abs(step) >= 1e-12:`, with the step and "
        "the subtraction in it; return E.",
    ),
)
def vectorize(kepler):
    """A ufunc: each element goes round until it has converged, and it broadcasts."""
    from numba.np.ufunc.dufunc import DUFunc

    require(
        isinstance(kepler, DUFunc | np.ufunc),
        f"this is {a_or_an(type(kepler).__name__)}, not a ufunc",
        look="@vectorize above the function, instead of @njit or nothing",
    )
    times, e = np.linspace(0, 2 * math.pi, 61), np.array([0.0, 0.2, 0.9, 0.99])
    table = ended(kepler, times, e[:, None])
    require(
        table.shape == (4, 61),
        f"61 times for 4 orbits give a result of shape {table.shape}",
        look="the function takes two numbers",
    )
    wrong = abs(table - e[:, None] * np.sin(table) - times)
    for k, i in np.ndindex(table.shape):
        require(
            wrong[k, i] < 1e-10,
            f"for M = {times[i]:.2f} and e = {e[k]}, E is {table[k, i]:.6f}, and E - e sin(E) is "
            f"{table[k, i] - e[k] * math.sin(table[k, i]):.6f}",
            look="the signs of the step; and go on until it is smaller than 1e-12",
        )
    easy, hard = (lines_run(as_python(kepler), *orbit) for orbit in ((math.pi, 0.0), (0.02, 0.99)))
    require(easy < hard, f"right, but the Earth takes as many rounds as a comet: {many(easy, 'line')} of "
            "Python each", look="`while`: go on until a step is smaller than 1e-12, and no longer")


@exercise(
    "fresh-cuts",
    hints=(
        "The idea: an argument is looked at in each call, a global only while compiling.",
        "The shape: the function from above with `cut` as its second argument.",
    ),
)
def fresh_cuts(count):
    """Each cut got its own answer, from one compiled function."""
    _require_compiled(count)
    values = np.random.default_rng(42).uniform(0, 120, 1009)
    drawn = map(float, np.random.default_rng(44).uniform(10, 110, 4))
    got = {cut: int(ended(count, values, cut)) for cut in (30.0, 85.0, 60.0, *drawn, 30.0)}
    for cut, number in got.items():
        expected = int((values > cut).sum())
        require(
            number == expected or len(set(got.values())) > 1,
            f"for the cuts {', '.join(map(str, got))} the answer is {number} each time",
            look="does the function use the cut that it is given, or the global one?",
        )
        require(
            number == expected,
            f"{expected} of the values lie above {cut}; yours are {number}",
            look="above is `>`, and every value counts once",
        )
    signature = [one for one in count.signatures if len(one) == 2]
    require(
        len({one[1] for one in signature}) == len(signature),
        f"the answers are right, but there are {len(signature)} compiled versions",
        look="one type of cut needs one version",
    )


@exercise(
    "where",
    hints=(
        "The idea: no `if`. Compute the corrected mass of all, and let `jnp.where` choose between "
        "it and the mass as it was; then once more for those below 20.",
        "The shape: `jnp.where(masses > 60, 1.02 * masses, masses)`, and its result into "
        "`jnp.where(masses < 20, 0, …)`.",
    ),
)
def where(corrected):
    """Compiled by JAX, and right for every length, also for edges."""
    import jax
    import jax.numpy as jnp

    require(callable(corrected), f"this is {a_or_an(type(corrected).__name__)}, not a function")
    random = np.random.default_rng(43)
    for n in LENGTHS:
        masses = random.choice([5.0, 19.5, 20.0, 40.0, 60.0, 60.5, 91.0], n).astype(np.float32)
        got = jax.jit(corrected)(jnp.asarray(masses))
        require(got is not None, "the function returns None", look="what is `result`?")
        require(
            got.shape == masses.shape,
            f"{n} masses give a result of shape {got.shape}",
            look="every mass keeps its place",
        )
        expected = np.where(masses > 60, np.float32(1.02) * masses, masses)
        expected = np.where(masses < 20, 0, expected)
        wrong = np.flatnonzero(~np.isclose(got, expected, rtol=1e-5))
        if len(wrong):
            k = wrong[0]
            require(
                False,
                f"a mass of {masses[k]:g} becomes {got[k]:g}, not {expected[k]:g}",
                look="above 60, below 20, or in between (60 and 20 themselves stay)?",
            )
    require_all_at_once(corrected, jnp.ones(64), look="`jnp.where` chooses for all of them at once")


def _require_compiled(function):
    require(
        hasattr(function, "py_func") and hasattr(function, "signatures"),
        f"this is {a_or_an(type(function).__name__)} that Numba has not seen",
        look="@njit above the function",
    )
    require(
        not hasattr(function, "forall"),
        "this is a kernel for a GPU",
        look="@njit, not @cuda.jit",
    )
