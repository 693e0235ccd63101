"""Checks and hints of "JAX: arrays, compiled"."""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.compiled_loops import while_loops_end
from gpucourse.exercises.methods import primitives, require_all_at_once
from gpucourse.wording import a_or_an, is_not
from gpucourse.wording import many


@exercise(
    "pad",
    hints=(
        "The idea: find the elements that count. If you compare the index of every element with `n`, you get "
        "an array of True and False of fixed length.",
        "The shape: `counts = jnp.arange(values.size) < n`, then `jnp.sum(values, where=counts)`, "
        "divided by the number of elements that count.",
    ),
)
def pad(mean):
    """The mean is right for every n and any garbage, with one compilation for each length."""
    import jax

    traced, compiled = _counting(mean)
    random = np.random.default_rng(81)
    for n, length in ((5, 64), (1, 64), (31, 64), (64, 64), (63, 64), (20, 48)):
        for rubbish in (1e6, np.nan):
            values = random.uniform(0, 50, length).astype(np.float32)
            values[n:] = rubbish
            got = np.asarray(compiled(jax.numpy.asarray(values), n))
            case = f"with n = {n} of {length} elements"
            require(got.shape == (), f"{case}, the result has the shape {got.shape}")
            right = np.float32(values[:n].mean(dtype=np.float64))
            # XLA may turn a product with a mask into a selection and so hide the mistake, so also
            # run without it.
            with jax.disable_jit():
                plain = np.asarray(mean(jax.numpy.asarray(values), n))
            require(
                not (np.isnan(got) or np.isnan(plain)) or np.isnan(right),
                f"{case} and nan after them, the mean is nan",
                look=("nan times 0 is nan, so leave elements out with `where` instead of "
                "multiplying them by 0"),
            )
            require(
                np.isclose(got, right, rtol=1e-4),
                f"{case}, the mean {is_not(got, right)}",
                look="add only the first n elements, and divide the sum by n",
            )
    require(
        len(traced) == 2,
        f"the means are right, but JAX compiled {many(len(traced), 'time')} for arrays of two lengths",
        look="treat `n` as an ordinary argument",
    )
    require_all_at_once(mean, jax.numpy.ones(64), 5,
                        look=("use `jnp.sum(values, where=…)`, which adds up all elements that count at once"))


@exercise(
    "at-add",
    hints=(
        "The idea: the bin is the value rounded down to a whole number. Make sure that values outside add "
        "nothing, whatever their bin is.",
        "The shape: `inside = (metres >= 0) & (metres < bins)`. A value outside may have the bin 0, "
        "because you add `inside` as a number, with `counts.at[k].add(inside.astype(jnp.int32))`.",
    ),
)
def at_add(landing_counts):
    """Every value is in its bin, and no value outside all bins was counted."""
    import jax
    import jax.numpy as jnp

    require(callable(landing_counts), f"this is {a_or_an(type(landing_counts).__name__)}, not a function")
    compiled = jax.jit(landing_counts, static_argnums=1)  # even without the decorator
    random = np.random.default_rng(82)
    for bins in (7, 1, 40):
        for n in (129, 0, 1, 33):
            metres = random.uniform(-3, bins + 3, n).astype(np.float32)
            metres[: n // 3] = random.integers(-2, bins + 2, n // 3)
            got = np.asarray(compiled(jnp.asarray(metres), bins))
            inside = metres[(metres >= 0) & (metres < bins)]
            expected = np.bincount(inside.astype(int), minlength=bins)
            case = f"with {many(n, 'value')} in {many(bins, 'bin')}"
            require(
                got.shape == (bins,),
                f"{case}, the result has the shape {got.shape}",
                look="`counts` has one element per bin",
            )
            k = int(np.argmax(got != expected))
            if got[k] == expected[k]:
                continue
            below = np.count_nonzero((metres < 0) & (metres > -bins))
            surplus = int(got.sum() - expected.sum())
            where = (
                "find the bin of values below 0 and beyond the last bin. -0.3 truncated to a whole "
                "number is 0, and index -1 is the last bin"
                if below and surplus > 0
                else "bin k counts values from k up to, but not including, k + 1, and one index may occur often"
            )
            require(
                False, f"{case}, bin {k} has {got[k]} instead of {expected[k]}", look=where
            )
    look = "use `counts.at[k].add(…)`, where k is an array of bins"
    found = require_all_at_once(landing_counts, jnp.ones(64), 7, static=(1,), look=look)
    require(found["scatter-add"] + found["scatter_add"], "right, but nothing is added at an index, "
            "because every bin looks at every value", look=look)


@exercise(
    "vmap",
    hints=(
        "The idea: first make a function of one angle and many speeds, with `vmap` over only the second "
        "argument. Then apply `vmap` to that function, over the first argument.",
        "The shape: `jax.vmap(jax.vmap(distance, (None, 0)), (0, None))(angles, speeds)`.",
    ),
)
def vmap(table, distance):
    """Rows are angles and columns are speeds, and the table was computed without a loop."""
    import jax
    import jax.numpy as jnp

    traced, _ = _counting(distance)
    names = getattr(table, "__globals__", {})
    original = names.get("distance")

    def counted(angle, speed):
        traced.append((np.shape(angle), np.shape(speed)))
        return distance(angle, speed)

    each = jax.jit(distance)
    for rows, columns in ((3, 5), (4, 4)):
        angles, speeds = jnp.linspace(0.2, 1.2, rows), jnp.linspace(10, 30, columns)
        expected = np.array([[each(angle, speed) for speed in speeds] for angle in angles])
        traced.clear()
        try:
            if original is not None:
                names["distance"] = counted
            got = np.asarray(table(angles, speeds))
        finally:
            if original is not None:
                names["distance"] = original
        case = f"{rows} angles and {columns} speeds"
        require(
            got.shape == (rows, columns),
            f"{case} give a result of shape {got.shape}, not {(rows, columns)}",
            look="the axis of the outer vmap comes first in the result, so the outer vmap must map the angles",
        )
        require(
            np.allclose(got, expected, rtol=1e-4),
            f"{case}: row 0, column 1 {is_not(got[0, 1], expected[0, 1], 'm')}",
            look="the angles belong to the rows, the speeds to the columns",
        )
        require(
            len(traced) <= 2,
            f"the table is right, but `distance` was called {many(len(traced), 'time')}",
            look="use no loop, because jax.vmap calls the function once for all elements",
        )
    own = primitives(distance, 0.5, 20.0)
    require_all_at_once(table, angles, speeds, allowed=own["scan"] + own["while"],
                        look=("apply jax.vmap to the result of jax.vmap, so that each operation works on "
                "the whole table"))


@exercise(
    "aim",
    hints=(
        "The idea: `jax.value_and_grad(distance)` gives the distance and its derivative at an angle. One "
        "Newton step moves the angle by the missing distance, divided by the derivative.",
        "The shape: write a function `newton(_, angle)` that returns `angle - (metres - target) / "
        "slope`, and call `jax.lax.fori_loop(0, 12, newton, angle)`.",
    ),
)
def aim(aim, distance):
    """Every target is hit to within a centimetre, with the flatter of the two possible throws."""
    import jax
    import jax.numpy as jnp

    targets = jnp.linspace(15.0, 38.0, 24)
    with _asked_for_slopes(aim, distance) as slopes, while_loops_end():
        angles = jax.jit(jax.vmap(aim, (0, None)))(targets, 30.0)
    require(
        angles.shape == targets.shape,
        f"24 targets give angles of shape {angles.shape}",
        look="let the function take one target and return one angle",
    )
    missed = np.abs(np.asarray(jax.vmap(distance, (0, None))(angles, 30.0) - targets))
    worst = int(np.argmax(np.nan_to_num(missed, nan=np.inf)))
    require(
        missed[worst] < 0.01,
        f"aimed at {targets[worst]:.1f} m, the ball comes down {missed[worst]:.2f} m away",
        look=("each of the twelve steps subtracts the error divided by the derivative, so check "
             "that yours has the right sign"),
    )
    require(
        float(angles.max()) < 0.75,
        f"the target is hit, but with a steep throw of {float(angles.max()):.2f} rad",
        look="start the search at 0.3 rad",
    )
    slower = float(distance(jax.jit(aim)(12.0, 20.0), 20.0))
    require(
        abs(slower - 12.0) < 0.01,
        f"with 20 m/s and a target at 12 m, the ball comes down at {slower:.2f} m",
        look="use the speed that the function is given",
    )
    require(slopes, "every target is hit, but nothing computes the derivative of `distance`",
            look="take Newton steps with `jax.grad(distance)` or `jax.value_and_grad(distance)`")


@contextmanager
def _asked_for_slopes(aim, distance):
    """Yield a list that grows when a derivative of `distance` is taken by its notebook name."""
    import jax

    slopes = []
    noting = jax.custom_jvp(distance)

    @noting.defjvp
    def _slope(values, steps):
        slopes.append(True)
        return jax.jvp(distance, values, steps)

    scope = getattr(getattr(aim, "__wrapped__", aim), "__globals__", {})
    known = [name for name, value in scope.items() if value is distance]
    if not known:  # then no derivative can be observed
        slopes.append(True)
    with mock.patch.dict(scope, dict.fromkeys(known, noting)):
        yield slopes


def _counting(function):
    """Return a list that grows each time JAX traces the function, and the compiled function."""
    import jax

    traced = []
    require(callable(function), f"this is {a_or_an(type(function).__name__)}, not a function")

    def traces(*arguments):
        traced.append(arguments)
        result = function(*arguments)
        require(result is not None, "the function returns None", look=("end the function with a `return`"))
        return result

    return traced, jax.jit(traces)
