"""Checks and hints of "Compiling Python: Numba and JAX on the CPU"."""

from __future__ import annotations

import math

import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.compiled_loops import ended
from gpucourse.exercises.methods import as_python, lines_run, require_all_at_once
from gpucourse.exercises.trials import LENGTHS
from gpucourse.wording import a_or_an
from gpucourse.wording import many


@exercise(
    "count-window",
    hints=(
        "The idea: you need a counter, a loop over the values, and an `if`. In Python you can chain "
        "comparisons, and Numba compiles them.",
        "The shape: put `@njit` above `def count_window(values, low, high):`, and inside it "
        "`count = 0`, the loop, `if low < value < high:`, and `return count`.",
    ),
)
def count_window(count):
    """The count is right for every length, edge and type, and the loop is compiled."""
    _require_compiled(count)
    random, low, high = np.random.default_rng(41), 80.0, 100.0
    for dtype in (np.float64, np.float32):
        for n in (*LENGTHS, int(random.integers(1100, 2000))):
            middle = (low + high) / 2
            values = random.uniform(middle - 30, middle + 30, n).astype(dtype)
            if n > 2:
                values[n // 2] = np.nan
                values[[0, -1]] = low, high
            before = values.copy()
            got = ended(count, values, low, high)
            expected = ((values > low) & (values < high)).sum()
            closed = ((values >= low) & (values <= high)).sum()
            case = f"with {n} {np.dtype(dtype).name} values"
            require(
                got == expected or got != closed,
                f"{case}, the edges {low:g} and {high:g} are counted too",
                look='"strictly between" excludes the edges: is it `<` or `<=`?',
            )
            require(
                got == expected,
                f"{case}, {expected} lie between {low:g} and {high:g}; your function counts {got}",
                look="which values does the loop see, and what does it do with NaN?",
            )
            _require_as_given(values, before, case)
            low = float(random.integers(-800, 800)) / 8
            high = low + float(random.integers(40, 200)) / 8
    few, more = (lines_run(as_python(count), np.ones(n), 0.0, 2.0) for n in (10, 210))
    require(more - few >= 200, "the count is right, but there is no loop over the values: NumPy's operations first make "
                               "arrays of truth values", look=("write `for value in values:` with a counter, which Numba compiles"))


@exercise(
    "vectorize",
    hints=(
        "The idea: write a function of two numbers, with a `while`. `@vectorize` above it adds the loop "
        "over elements.",
        "The shape: `E, step = math.pi, 1.0`, then `while abs(step) >= 1e-12:`, with the step and "
        "the subtraction in it; return E.",
    ),
)
def vectorize(kepler):
    """This is a ufunc: each element iterates until it has converged, and arrays broadcast."""
    from numba.np.ufunc.dufunc import DUFunc

    require(
        isinstance(kepler, DUFunc | np.ufunc),
        f"this is {a_or_an(type(kepler).__name__)}, not a ufunc",
        look="write @vectorize above the function, instead of @njit or nothing",
    )
    require(
        kepler.nin == 2,
        f"the function takes {many(kepler.nin, 'number')}, not two",
        look="begin the function with `def kepler(M, e):`",
    )
    drawn = np.random.default_rng(45).uniform(0.01, 0.99, 3)
    times = np.linspace(0, 2 * math.pi, 61)
    for e in (np.array([0.0, 0.2, 0.9, 0.99]), drawn):
        table = ended(kepler, times, e[:, None])
        require(
            table.shape == (len(e), 61) and table.dtype == np.float64,
            f"61 times for {len(e)} orbits give a result of shape {table.shape} and {table.dtype}",
            look="let the function take two numbers and return one, in double precision",
        )
        wrong = abs(table - e[:, None] * np.sin(table) - times)
        for k, i in np.ndindex(table.shape):
            require(
                wrong[k, i] < 1e-10,
                f"for M = {times[i]:.2f} and e = {e[k]:.6g}, E is {table[k, i]:.6f}, and E - e sin(E) is "
                f"{table[k, i] - e[k] * math.sin(table[k, i]):.6f}",
                look="check the signs in the step, and go on until the step is smaller than 1e-12",
            )
    if not hasattr(getattr(kepler, "_dispatcher", None), "py_func"):
        return  # compiled for another target, which keeps no function of Python
    easy, hard = (lines_run(as_python(kepler), *orbit) for orbit in ((math.pi, 0.0), (0.02, 0.99)))
    look = "use `while`: stop as soon as a step is smaller than 1e-12"
    require(easy < hard, f"the angles are right, but the Earth takes as many iterations as a comet: {many(easy, 'line')} of "
            "Python each", look=look)
    times = (0.02, 0.5, 1.0, 2.0, 3.0)
    require(len({lines_run(as_python(kepler), M, 0.99) for M in times}) > 1,
            f"the angles are right, but a comet takes the same number of iterations everywhere on its orbit: {many(hard, 'line')} of Python "
            "each", look=look)


@exercise(
    "fresh-cuts",
    hints=(
        "The idea: compiled code reads an argument in each call. A global is read only once, while compiling.",
        "The shape: the function from above with `cut` as its second argument.",
    ),
)
def fresh_cuts(count):
    """Each cut gives its own answer, from one compiled function."""
    _require_compiled(count)
    values = np.random.default_rng(42).uniform(-120, 120, 2003)
    values[:3] = 30.0, 85.0, 60.0
    before = values.copy()
    drawn = map(float, np.random.default_rng(44).uniform(-50, 110, 4))
    got = {cut: int(ended(count, values, cut)) for cut in (30.0, 85.0, 60.0, *drawn, 30.0)}
    for cut, number in got.items():
        expected = int((values > cut).sum())
        require(
            number == expected or len(set(got.values())) > 1,
            f"for the cuts {', '.join(map(str, got))} the answer is {number} each time",
            look="does the function use the cut that you pass, or the global one?",
        )
        require(
            number == expected,
            f"{expected} of the values lie above {cut}; your function counts {number}",
            look='"above" means `>`, and every value counts once',
        )
    _require_as_given(values, before, "for seven cuts")
    signature = [one for one in count.signatures if len(one) == 2]
    require(
        len({one[1] for one in signature}) == len(signature),
        f"the answers are right, but there are {len(signature)} compiled versions",
        look=("make sure that all cuts have the same type, because Numba compiles one "
             "version for each type"),
    )


@exercise(
    "where",
    hints=(
        "The idea: use no `if`. Compute the corrected mass of every element, and let `jnp.where` choose "
        "between it and the original mass. Do the same once more for the masses below 20.",
        "The shape: `jnp.where(masses > 60, 1.02 * masses, masses)`, and pass its result to "
        "`jnp.where(masses < 20, 0, …)`.",
    ),
)
def where(corrected):
    """JAX compiles the function, and it is right for every length and at the edges."""
    import jax
    import jax.numpy as jnp

    require(callable(corrected), f"this is {a_or_an(type(corrected).__name__)}, not a function")
    random = np.random.default_rng(43)
    for n in LENGTHS:
        masses = random.uniform(0, 250, n).astype(np.float32)
        edges = random.choice([19.99, 20.0, 40.0, 60.0, 60.01], n // 2)
        masses[: n // 2] = edges  # 20 and 60 themselves, and just beside them
        got = jax.jit(corrected)(jnp.asarray(masses))
        require(got is not None, "the function returns None", look=("does the function return `result`?"))
        require(
            got.shape == masses.shape,
            f"{n} masses give a result of shape {got.shape}",
            look="return one value for each mass, in the same order",
        )
        expected = np.where(masses > 60, np.float32(1.02) * masses, masses)
        expected = np.where(masses < 20, 0, expected)
        wrong = np.flatnonzero(~np.isclose(got, expected, rtol=1e-5))
        if len(wrong):
            k = wrong[0]
            require(
                False,
                f"a mass of {masses[k]:g} becomes {got[k]:g}, not {expected[k]:g}",
                look=("is this mass above 60, below 20, or in between? (60 and 20 themselves do "
                "not change)"),
            )
    require_all_at_once(corrected, jnp.ones(64), look=("use `jnp.where`, which chooses for all masses at once"))


def _require_as_given(values, before, case):
    require(
        np.array_equal(values, before, equal_nan=True),
        f"{case}, the answer is right, but your function has changed its input `values`",
        look="`values[…] = …`, `values -= …` and `values.sort()` change the caller's array",
    )


def _require_compiled(function):
    require(
        hasattr(function, "py_func") and hasattr(function, "signatures"),
        f"this is {a_or_an(type(function).__name__)} that Numba does not compile",
        look="write @njit above the function",
    )
    require(
        not hasattr(function, "forall"),
        "this is a kernel for a GPU",
        look="use @njit instead of @cuda.jit",
    )
    require(
        not function.targetoptions.get("forceobj"),
        "Numba has compiled nothing here: with forceobj, Python runs the function",
        look="write @njit above the function",
    )
