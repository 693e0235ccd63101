"""Checks and hints of "JAX in depth"."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.compiled_loops import while_loops_end

TREES = {
    "a dictionary in a dictionary": {"rest": 0.5, "swing": {"size": 2.0, "period": -1.0}},
    "a tuple of arrays": (np.array([1.0, 2.0]), np.array([[3.0], [-4.0]])),
    "a list with None in it": [1.5, None, {"only": np.array([0.5, 0.25])}],
    "one number": 3.0,
}


@exercise(
    "descend",
    hints=(
        "The idea: `jax.grad(loss)(parameters)` is a tree of the same structure. So two trees go "
        "into `jax.tree.map`, leaf by leaf.",
        "The shape: `jax.tree.map(lambda value, slope: value - rate * slope, parameters, slopes)`.",
    ),
)
def descend(function):
    """Every leaf of every tree a step downhill."""
    import jax

    random = np.random.default_rng(131)
    for name, tree in TREES.items():
        tree = jax.tree.map(np.float32, tree)
        before, rate, middle = copy.deepcopy(tree), *map(float, random.uniform(0.1, 0.9, 2))
        called: list = []
        after = function(_counting(called, middle), tree, rate)
        require(len(called) <= 2, f"the loss of {name} was computed {len(called)} times",
                look="jax.grad gives all slopes from one call, without differences")
        _require_tree(after, jax.tree.map(lambda x, r=rate, m=middle: x - r * (x - m), before),
                      f"of {name} and with a rate of {rate:.3f}",
                      "each leaf less the rate times its slope: downhill, so minus")
        require(
            all(np.array_equal(a, b) for a, b in
                zip(jax.tree.leaves(tree), jax.tree.leaves(before), strict=True)),
            f"of {name}, the parameters themselves were changed",
            look="make a new tree by jax.tree.map: who called may need the old one",
        )


def _counting(called: list, middle: float = 1.0) -> Callable:
    """The bowl, which notes in ``called`` each time that Python runs it."""

    def loss(tree: Any) -> Any:
        called.append(1)
        return _bowl(tree, middle)

    return loss


def _bowl(tree: Any, middle: float = 1.0) -> Any:
    """Half the squared distance of all leaves from the middle: the slope is x - middle."""
    import jax
    import jax.numpy as jnp

    return sum(jnp.sum((leaf - middle) ** 2) for leaf in jax.tree.leaves(tree)) / 2


def _require_tree(found: Any, expected: Any, case: str, look: str, bound: float = 1e-4) -> None:
    """Require the structure of ``expected``, and its leaves within a relative ``bound``."""
    import jax

    structure, right = jax.tree.structure(found), jax.tree.structure(expected)
    require(structure == right, f"{case}, the answer has the structure {structure}, not {right}",
            look="the answer is a tree like the parameters")
    for (path, leaf), value in zip(jax.tree_util.tree_leaves_with_path(found),
                                   jax.tree.leaves(expected), strict=True):
        where = jax.tree_util.keystr(path) or "the number"
        require(np.shape(leaf) == np.shape(value),
                f"{case}, {where} has the shape {np.shape(leaf)}, not {np.shape(value)}", look=look)
        require(np.allclose(leaf, value, rtol=bound, atol=1e-6),
                f"{case}, {where} is {np.ravel(leaf)[0]:.6g}, not {np.ravel(value)[0]:.6g}",
                look=look)


@exercise(
    "history",
    hints=(
        "The idea: one iteration takes the parameters and gives two things: the parameters after a "
        "step, which go round, and the misfit before it, which is collected. "
        "`jax.value_and_grad(loss)` computes the misfit and the slopes together.",
        "The shape: `def body(parameters, _):` returns `(jax.tree.map(…), value)`; then "
        "`after, losses = jax.lax.scan(body, parameters, None, length=steps)`.",
    ),
)
def history(function):
    """The way down, misfit by misfit, from a loss that was traced once or twice."""
    import jax

    random = np.random.default_rng(132)
    for (name, tree), steps in zip(TREES.items(), (6, 40, 1, 3), strict=True):
        tree = jax.tree.map(np.float32, tree)
        called: list = []
        rate, middle = float(random.uniform(0.05, 0.2)), float(random.uniform(0.1, 0.9))
        loss = _counting(called, middle)
        case = f"after {steps} steps of {name}, with a rate of {rate:.3f}"
        after, losses = pair(function(loss, tree, rate, steps), "the parameters and the misfits",
                             "return after, losses")
        losses = np.asarray(losses)
        require(losses.shape == (steps,),
                f"{case}, the misfits have the shape {losses.shape}, not ({steps},)",
                look="what the body gives as its second result is stacked, one for each iteration")
        shrink = (1 - rate) ** np.arange(steps)
        right = float(_bowl(tree, middle)) * shrink**2
        k = int(np.argmax(~np.isclose(losses, right, rtol=1e-3, atol=1e-7)))
        require(np.isclose(losses[k], right[k], rtol=1e-3, atol=1e-7),
                f"{case}, misfit {k} is {losses[k]:.5g}, not {right[k]:.5g}",
                look="the misfit *before* each step; and do the parameters of one iteration go into "
                     "the next?")
        left = (1 - rate) ** steps
        _require_tree(after, jax.tree.map(lambda x, m=middle, s=left: m + (x - m) * s, tree), case,
                      "the parameters after the last step", 1e-3)
        require(len(called) <= max(4, steps // 4),
                f"right, but the loss was traced {len(called)} times for {steps} steps",
                look="jax.lax.scan traces its body once or twice, a Python loop each iteration")
    sizes = [len(str(jax.make_jaxpr(lambda x, n=n: function(_bowl, x, 0.1, n))(np.float32(3))))
             for n in (4, 40)]
    require(sizes[1] < 2 * sizes[0], "right, but the program grows with the number of steps: a "
            "Python loop was unrolled", look="jax.lax.scan is one loop, however many iterations it has")


@exercise(
    "errors",
    hints=(
        "The idea: `flat, as_tree = ravel_pytree(parameters)`, and a function of the flat array: "
        "`lambda flat: loss(as_tree(flat))`. Of that, take jax.hessian at `flat`.",
        "The shape: `jnp.sqrt(jnp.diag(jnp.linalg.inv(bends)))`, and `as_tree` of that. First "
        "invert, then take the diagonal.",
    ),
)
def errors(function):
    """The covariance's diagonal, with what the parameters share taken into account."""
    import jax.numpy as jnp

    x = np.linspace(0, 10, 30)  # far from centred: slope and offset are tied to each other
    design = np.stack([np.ones_like(x), x, x**2 / 10], axis=1)
    cases = (("a straight line", 2, {"line": (1.0, 0.5)}),
             ("a parabola", 3, {"bend": -0.3, "line": (1.0, 0.5)}))
    for name, count, tree in cases:
        def loss(tree, count=count):
            offset, slope = tree["line"]
            line = offset + slope * jnp.asarray(x, jnp.float32)
            if count == 3:
                line = line + tree["bend"] * jnp.asarray(design[:, 2], jnp.float32)
            return jnp.sum((line / 0.4) ** 2) / 2

        used = design[:, :count]
        sure = np.sqrt(np.diag(np.linalg.inv(used.T @ used / 0.4**2)))
        right = {"line": (sure[0], sure[1])} | ({"bend": sure[2]} if count == 3 else {})
        _require_tree(function(loss, tree), right, f"for {name}",
                      "the inverse of the whole Hessian first, then its diagonal, then the roots",
                      5e-3)


@exercise(
    "until",
    hints=(
        "The idea: the state has all that the decision needs: `(x, steps, change)`. The change is "
        "the largest of all elements, without its sign.",
        "The shape: `goes_on(state)` returns `(change > tolerance) & (steps < most)`, `body(state)` "
        "returns `(after, steps + 1, jnp.max(jnp.abs(after - x)))`, and `jax.lax.while_loop(goes_on, "
        "body, (x, jnp.int32(0), jnp.float32(jnp.inf)))`.",
    ),
)
def until(function):
    """So many steps as it takes, alone, compiled and mapped."""
    import jax
    import jax.numpy as jnp

    cases: tuple[tuple[str, Callable, Any, dict, int], ...] = (
        ("x/2, from 1", lambda x: x / 2, 1.0, {"tolerance": 1e-3}, 10),
        ("x/2, from -1", lambda x: x / 2, -1.0, {"tolerance": 1e-3}, 10),
        ("x/2, from 1 and 1024", lambda x: x / 2, [1.0, 1024.0], {"tolerance": 1e-3}, 20),
        ("-x, which never stands still", lambda x: -x, 1.0, {"most": 7}, 7),
        ("a function that stays where it is", lambda x: 1 * x, 3.0, {}, 1),
        ("(x + 5)/2, with at most 50 steps", lambda x: (x + 5) / 2, 1e9, {"tolerance": 0.0}, 50),
    )
    for name, step, start, options, count in cases:
        x = jnp.asarray(start, jnp.float32)
        compiled = jax.jit(lambda x, step=step, options=options: function(step, x, **options))
        with while_loops_end():
            found, steps = pair(compiled(x), "x and the number of steps", "return x, steps")
        right = x
        for _ in range(count):
            right = step(right)
        require(int(steps) == count, f"{name}: {int(steps)} steps, not {count}",
                look="it stops when the *largest* change, without its sign, is no more than the "
                     "tolerance, or when `most` steps are made; the last one counts")
        require(np.allclose(found, right, rtol=1e-5),
                f"{name}: after {count} steps x is {np.ravel(found)[0]:.6g}, not "
                f"{np.ravel(right)[0]:.6g}", look="x after the last step")
    mapped = jax.vmap(lambda x: function(lambda x: x / 2, x, tolerance=1e-3))
    _, steps = mapped(jnp.asarray([1.0, 1024.0], jnp.float32))
    require(np.array_equal(steps, [10, 20]),
            f"mapped over 1 and 1024, the steps are {np.asarray(steps).tolist()}, not [10, 20]",
            look="a while_loop, mapped, counts for each element by itself")
    computed: list = []

    def halved(x):
        jax.debug.callback(lambda _: computed.append(1), x)
        return x / 2

    jax.jit(lambda x: function(halved, x, tolerance=1e-3))(jnp.float32(1))[0].block_until_ready()
    jax.effects_barrier()
    require(len(computed) == 10, f"right, but {len(computed)} steps are computed where 10 are made",
            look="jax.lax.while_loop ends when its condition no longer holds; fori_loop goes on")
