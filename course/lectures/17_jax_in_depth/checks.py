"""Checks and hints of "JAX in depth"."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.compiled_loops import while_loops_end
from gpucourse.exercises.host_side import HOST, with_other_values
from gpucourse.exercises.methods import primitives
from gpucourse.exercises.trials import INSTRUCTIONS, require_shared, watched
from gpucourse.wording import a_or_an, is_not, many

TREES = {
    "a dictionary in a dictionary": {"rest": 0.5, "swing": {"size": 2.0, "period": -1.0}},
    "a tuple of arrays": (np.array([1.0, 2.0]), np.array([[3.0], [-4.0]])),
    "a list with None in it": [1.5, None, {"only": np.array([0.5, 0.25])}],
    "one number": 3.0,
}


@exercise(
    "descend",
    hints=(
        "The idea: `jax.grad(loss)(parameters)` is a tree of the same structure. So pass both trees "
        "to `jax.tree.map`, which works leaf by leaf.",
        "The shape: `jax.tree.map(lambda value, slope: value - rate * slope, parameters, slopes)`.",
    ),
)
def descend(function):
    """Every leaf of every tree takes a step downhill."""
    import jax

    random = np.random.default_rng(131)
    for name, tree in TREES.items():
        tree = jax.tree.map(np.float32, tree)
        before, rate, middle = copy.deepcopy(tree), *map(float, random.uniform(0.1, 0.9, 2))
        called: list = []
        after = function(_counting(called, middle), tree, rate)
        require(len(called) <= 2, f"for {name}, the loss was computed {many(len(called), 'time')}",
                look="use jax.grad: one call returns all derivatives, without differences")
        _require_tree(after, jax.tree.map(lambda x, r=rate, m=middle: x - r * (x - m), before),
                      f"for {name} and with a rate of {rate:.3f}",
                      "subtract from each leaf the rate times its derivative, because the step goes downhill")
        require(
            all(np.array_equal(a, b) for a, b in
                zip(jax.tree.leaves(tree), jax.tree.leaves(before), strict=True)),
            f"for {name}, your function has changed its input `parameters`",
            look="make a new tree with jax.tree.map, because the caller may need the old one",
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
            look="return a tree of the same structure as the parameters")
    for (path, leaf), value in zip(jax.tree_util.tree_leaves_with_path(found),
                                   jax.tree.leaves(expected), strict=True):
        where = jax.tree_util.keystr(path) or "the number"
        require(np.shape(leaf) == np.shape(value),
                f"{case}, {where} has the shape {np.shape(leaf)}, not {np.shape(value)}", look=look)
        require(np.allclose(leaf, value, rtol=bound, atol=1e-6),
                f"{case}, {where} {is_not(np.ravel(leaf)[0], np.ravel(value)[0])}",
                look=look)


@exercise(
    "history",
    hints=(
        "The idea: one iteration takes the parameters and returns two things: the parameters after a step, "
        "which are the new carry, and the misfit before the step, which `scan` collects. `jax.value_and_grad(loss)` "
        "computes the misfit and the slopes together.",
        "The shape: `def body(parameters, _):` returns `(jax.tree.map(…), value)`; then "
        "`after, losses = jax.lax.scan(body, parameters, None, length=steps)`.",
    ),
)
def history(function):
    """All parameters and misfits are right, from a loss that was traced once or twice."""
    import jax

    random = np.random.default_rng(132)
    for (name, tree), steps in zip(TREES.items(), (6, 40, 1, 3), strict=True):
        tree = jax.tree.map(np.float32, tree)
        called: list = []
        rate, middle = float(random.uniform(0.05, 0.2)), float(random.uniform(0.1, 0.9))
        loss = _counting(called, middle)
        case = f"after {many(steps, 'step')} of {name}, with a rate of {rate:.3f}"
        after, losses = pair(function(loss, tree, rate, steps), "the parameters and the misfits",
                             "return after, losses")
        losses = np.asarray(losses)
        require(losses.shape == (steps,),
                f"{case}, the misfits have the shape {losses.shape}, not ({steps},)",
                look="jax.lax.scan stacks the second result of the body, one for each iteration")
        shrink = (1 - rate) ** np.arange(steps)
        right = float(_bowl(tree, middle)) * shrink**2
        k = int(np.argmax(~np.isclose(losses, right, rtol=1e-3, atol=1e-7)))
        require(np.isclose(losses[k], right[k], rtol=1e-3, atol=1e-7),
                f"{case}, misfit {k} {is_not(losses[k], right[k])}",
                look=("store the misfit *before* each step; and do the parameters of one iteration "
                "go into the next?"))
        left = (1 - rate) ** steps
        _require_tree(after, jax.tree.map(lambda x, m=middle, s=left: m + (x - m) * s, tree), case,
                      "return the parameters after the last step", 1e-3)
        require(len(called) <= max(4, steps // 4),
                f"the results are right, but the loss was traced {many(len(called), 'time')} for {many(steps, 'step')}",
                look=("use jax.lax.scan, which traces its body once or twice; a Python loop traces "
                "every iteration"))
    sizes = [len(str(jax.make_jaxpr(lambda x, n=n: function(_bowl, x, 0.1, n))(np.float32(3))))
             for n in (4, 40)]
    require(sizes[1] < 2 * sizes[0], "the results are right, but the program grows with the number of steps: a Python loop was unrolled", look=("use jax.lax.scan, which makes one loop for any number of iterations"))


@exercise(
    "errors",
    hints=(
        "The idea: call `flat, as_tree = ravel_pytree(parameters)`, and write a function of the flat array, "
        "`lambda flat: loss(as_tree(flat))`. Compute its jax.hessian at `flat`.",
        "The shape: pass `jnp.sqrt(jnp.diag(jnp.linalg.inv(bends)))` to `as_tree`. First "
        "invert, then take the diagonal.",
    ),
)
def errors(function):
    """The errors come from the covariance's diagonal, which accounts for correlated parameters."""
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
                      ("invert the whole Hessian, take the diagonal of the inverse, then take the "
                "square roots"),
                      5e-3)
    at = float(np.random.default_rng(133).uniform(0.2, 0.9))
    _require_tree(function(lambda tree: 3 * jnp.exp(2 * tree["only"]), {"only": at}),
                  {"only": (12 * np.exp(2 * at)) ** -0.5}, f"for 3 exp(2x) at x = {at:.3f}",
                  "compute the Hessian with jax.hessian, at the parameters that are given", 5e-3)


@exercise(
    "until",
    hints=(
        "The idea: the state holds everything that the condition needs, `(x, steps, change)`. The change is the "
        "largest absolute change of any element.",
        "The shape: `goes_on(state)` returns `(change > tolerance) & (steps < most)`, `body(state)` "
        "returns `(after, steps + 1, jnp.max(jnp.abs(after - x)))`, and `jax.lax.while_loop(goes_on, "
        "body, (x, jnp.int32(0), jnp.float32(jnp.inf)))`.",
    ),
)
def until(function):
    """The loop makes as many steps as it needs, alone, compiled and mapped."""
    import jax
    import jax.numpy as jnp

    cases: tuple[tuple[str, Callable, Any, dict, int], ...] = (
        ("x/2, from 1", lambda x: x / 2, 1.0, {"tolerance": 1e-3}, 10),
        ("x/2, from -1", lambda x: x / 2, -1.0, {"tolerance": 1e-3}, 10),
        ("x/2, from 1 and 1024", lambda x: x / 2, [1.0, 1024.0], {"tolerance": 1e-3}, 20),
        ("x/2, from a hundred ones", lambda x: x / 2, [1.0] * 100, {"tolerance": 1e-3}, 10),
        ("x/2, from 1, with a tolerance of 1/8", lambda x: x / 2, 1.0, {"tolerance": 0.125}, 3),
        ("x/2, from 1, with the default tolerance", lambda x: x / 2, 1.0, {}, 17),
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
        require(int(steps) == count, f"{name}: {many(int(steps), 'step')}, not {count}",
                look=("the loop stops when the *largest* absolute change is no more than the "
                "tolerance, or after `most` steps; the last step counts"))
        require(np.allclose(found, right, rtol=1e-5),
                f"{name}: after {many(count, 'step')} x "
                f"{is_not(np.ravel(found)[0], np.ravel(right)[0])}", look=("return x after the last step"))
    mapped = jax.vmap(lambda x: function(lambda x: x / 2, x, tolerance=1e-3))
    _, steps = mapped(jnp.asarray([1.0, 1024.0], jnp.float32))
    require(np.array_equal(steps, [10, 20]),
            f"mapped over 1 and 1024, the steps are {np.asarray(steps).tolist()}, not [10, 20]",
            look=("a while_loop under vmap keeps a separate count for each element: return "
                "that count"))
    computed: list = []

    def halved(x):
        jax.debug.callback(lambda _: computed.append(1), x)
        return x / 2

    jax.jit(lambda x: function(halved, x, tolerance=1e-3))(jnp.float32(1))[0].block_until_ready()
    jax.effects_barrier()
    require(len(computed) == 10, f"the answer is right, but {many(len(computed), 'step')} are computed, and 10 are enough",
            look=("use jax.lax.while_loop, which ends when its condition no longer holds; "
                "fori_loop doesn't stop early"))


#: What an exponential is called in a jaxpr, and what one can be made of.
EXPONENTIALS = {"exp", "exp2", "expm1", "pow", "logistic", "tanh", "sinh", "cosh"}
IN_THE_KERNEL = "`fade` calls the kernel with jax.pure_callback, and `forward` calls `fade`"


@exercise(
    "own-gradient",
    hints=(
        "The idea: `kept` is a tuple of what `backward` needs, and `backward` gets it unchanged. Each "
        "derivative contains `g`, element by element. For a single number that affects all elements, sum "
        "over the elements.",
        "The shape: `kept = t, decay, faded`; then `t, decay, faded = kept`, `by_t = -g * faded / "
        "decay` and `by_decay = jnp.sum(g * faded * t) / decay**2`.",
    ),
)
def own_gradient(fade):
    """The kernel computes the forward pass and your rule the backward pass, for every shape and type."""
    # What JAX logs of a kernel that fails, the check says in fewer words.
    with mock.patch.object(logging.getLogger("jax._src.callback"), "disabled", True):
        _own_gradient(fade)


def _own_gradient(fade: Callable) -> None:
    import jax
    from jax.test_util import check_grads

    require(callable(fade), f"this is {a_or_an(type(fade).__name__)}, not a function",
            look="pass the name `fade` without parentheses")
    random = np.random.default_rng(136)
    length, *sides = map(int, random.integers((65, 3, 20), (190, 9, 40)))
    for shape, dtype in (((length,), np.float32), (tuple(sides), np.float32), ((), np.float32),
                         ((length + 3,), np.float64)):
        with _doubles(dtype == np.float64):
            t, decay = (jax.numpy.asarray(random.uniform(low, high, size), dtype)
                        for low, high, size in ((0, 60, shape), (5, 50, ())))
            g = jax.numpy.asarray(random.normal(0, 1, shape), dtype)
            case = f"for t of shape {shape}, {dtype.__name__}"
            _require_rule(fade, t, decay)
            _require_faded(fade, t, decay, case)
            _require_slopes(fade, t, decay, g, case)
    with _doubles(True):
        try:
            check_grads(fade, (t, decay), order=1, modes=["rev"])
        except AssertionError as error:
            require(False, f"check_grads finds that the rule is wrong: {str(error).strip().splitlines()[-1]}",
                    look=("compare the derivatives of the rule with the change of the values when t and decay change a "
                "little"))
    _require_kernels(fade)


@contextmanager
def _doubles(wanted: bool) -> Iterator[None]:
    """JAX with float64, or without; JAX 0.7 has no ``jax.enable_x64`` yet."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", wanted)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def _require_rule(fade: Callable, t: Any, decay: Any) -> None:
    found = primitives(fade, t, decay)
    require(found["custom_vjp_call"], "the jaxpr of fade has no custom derivative rule in it",
            look=("write @jax.custom_vjp above the function, and fade.defvjp(forward, "
                "backward) below it"))
    require(not EXPONENTIALS & found.keys(), "JAX computes the exponential, not the kernel",
            look=IN_THE_KERNEL)


def _require_faded(fade: Callable, t: Any, decay: Any, case: str) -> None:
    """What comes out of the kernel, alone and compiled, and when the device gets other values."""
    import jax

    for how, function in (("", fade), (", compiled by jit", jax.jit(fade))):
        (found,) = watched(lambda f=function: [np.asarray(f(t, decay))], (1,), f"fade {case}")
        require(found.shape == t.shape and found.dtype == t.dtype,
                f"{case}{how}, the answer has the shape {found.shape} and is {found.dtype.name}",
                look="promise pure_callback the shape and type of this t")
        _require_near(found, np.exp(-np.asarray(t, np.float64) / float(decay)), 1.0,
                      f"{case}{how}", "exp(-t / decay)", "faded")
    if t.ndim == 1:
        others = np.random.default_rng(137).uniform(0, 60, t.shape).astype(t.dtype)
        # The kernel may also get what JAX has divided.
        pairs = [(np.asarray(t / by), np.asarray(others / by)) for by in (1, decay, -decay)]
        swapped = with_other_values(lambda: np.asarray(fade(t, decay)), pairs, case, IN_THE_KERNEL)
        right = np.exp(-others.astype(np.float64) / float(decay))
        require(swapped is None or np.allclose(swapped, right, rtol=1e-3),
                f"{case}, the answer is right, but {HOST}", look=IN_THE_KERNEL)


def _require_slopes(fade: Callable, t: Any, decay: Any, g: Any, case: str) -> None:
    """The derivatives of what JAX would differentiate, had it the formula."""
    import jax
    import jax.numpy as jnp

    def formula(t: Any, decay: Any) -> Any:
        return jnp.exp(-t / decay)

    with _doubles(True):
        exact = jax.vjp(formula, *(jnp.asarray(one, float) for one in (t, decay)))[1]
        right, sizes, ones = (exact(jnp.asarray(one, float)) for one in (g, abs(g), jnp.ones_like(g)))
    found = jax.vjp(fade, t, decay)[1](g)
    for name, slope, expected, size, unit in zip(("t", "decay"), found, right, sizes, ones,
                                                 strict=True):
        look = {"t": "for each element, the derivative is -faded / decay times g",
                "decay": "the derivative is the sum of faded * t / decay**2 times g over all elements"}[name]
        if np.allclose(slope, unit, rtol=1e-3) and not np.allclose(g, 1):
            look = "this is the derivative of the plain sum: multiply each element by its `g` first"
        _require_near(np.asarray(slope), np.asarray(expected), np.abs(size),
                      f"{case}, with a g that is drawn at random", look, f"the slope by {name}")
    names = primitives(lambda t, decay, g: jax.vjp(fade, t, decay)[1](g), t, decay, g)
    require(not EXPONENTIALS & names.keys(), "the derivatives are right, but JAX computes an "
            "exponential a second time", look=("let `forward` store `faded`, which the kernel computed, in `kept`"))


def _require_near(found: np.ndarray, right: np.ndarray, size: Any, case: str, look: str,
                  what: str) -> None:
    """Require as many digits as the type has, of the largest that a sum's terms could make."""
    bound = (3e-5 if found.dtype == np.float32 else 1e-12) * size
    bad = ~(np.abs(found - right) <= bound)
    k = int(np.argmax(bad))
    require(not bad.any(), f"{case}, {what} {is_not(np.ravel(found)[k], np.ravel(right)[k])}" + (f", at element {k}" if found.size > 1 else ""), look=look)


def _require_kernels(fade: Callable) -> None:
    """Each call of the host launches a kernel, whose threads share the elements."""
    import jax
    import jax.numpy as jnp

    count = 2000
    t, decay = jnp.linspace(0, 60, count), jnp.float32(20)

    def slopes(t: Any, decay: Any) -> Any:
        return jax.vjp(fade, t, decay)[1](t)

    calls = primitives(slopes, t, decay)["pure_callback"]
    with virtualgpu.profile() as profile:
        jax.block_until_ready(slopes(t, decay))
    require(len(profile.launches) >= max(calls, 1),
            f"the results are right, but the forward and the backward pass make {many(calls, 'call')} of the host and "
            f"{many(len(profile.launches), 'launch', 'launches')}", look=IN_THE_KERNEL)
    for one in profile.launches:
        look = ("launch as many threads as there are elements: the size of t determines the "
               "number of blocks")
        busy = one.counters.threads_at_work
        require(busy >= count // 32, f"the results are right, but only {many(busy, 'thread')} of the launch work on {count:,} elements",
                look=look)
        require_shared(one.counters, one.grid, one.block, count, look)
        require_shared(one.counters, one.grid, one.block, count, look, instructions=INSTRUCTIONS)
