"""Checks and hints of "Programming in blocks"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.methods import equations, require_no_callback, without
from gpucourse.exercises.waiting import trial
from gpucourse.wording import a_or_an, is_not, number
from gpucourse.wording import many

TILE = 16
#: One step of what a number is rounded or cut to, relative to it: of float32, and of TF32, as which
#: tensor cores multiply float32 from Ampere on unless JAX is told otherwise.
FLOAT32, TF32 = 2.0**-23, 2.0**-10


@exercise(
    "masked-sum",
    hints=(
        "The idea: which indices among *all* values does this block have? They begin at its number multiplied by "
        "its size. The values with indices below `n` exist.",
        "The shape: `place = pl.program_id(0) * size + jnp.arange(size)`, and "
        "the sum of `jnp.where(place < n, x_ref[...], 0.0)`.",
    ),
)
def masked_sum(kernel):
    """Each block's sum has only the values that exist."""
    random = np.random.default_rng(161)
    for n, block in ((1000, 256), (256, 256), (257, 256), (1, 64), (129, 64)):
        values = random.uniform(1, 2, n).astype(np.float32) * random.choice([-1, 1], n).astype(np.float32)
        case = f"with {many(n, 'value')} in blocks of {block}"
        with _noted(case):
            got = _in_blocks(partial(kernel, n=n), values, block)
        right, sizes = ([one[k:k + block].sum(dtype=np.float64) for k in range(0, n, block)]
                        for one in (values, abs(values)))
        bad = ~(abs(got - right) <= block * FLOAT32 * np.array(sizes))  # in any order of adding
        k = int(np.argmax(bad))
        require(
            not np.isnan(got[k]),
            f"{case}, the sum of block {k} is nan",
            look=("the last block extends beyond the end, where the values are nan. nan times "
                "0 is nan, so leave them out with `where`"),
        )
        require(
            not bad[k],
            f"{case}, the sum of block {k} {is_not(got[k], right[k])}",
            look=("which indices does this block have among all values, and which of them are "
                "below n?"),
        )
    values[3] = np.nan  # a value that exists: the sum has to show it
    require(
        np.isnan(_in_blocks(partial(kernel, n=n), values, block)[0]),
        "the sums are right, but a nan *among the values* is ignored: on a GPU the elements beyond the end can hold "
        "anything, so you cannot recognise them by nan",
        look="use the index of an element, not its value, to decide whether it exists",
    )
    require(
        not _multiplies_by_a_mask(partial(_in_blocks, partial(kernel, n=n), fetch=False), values),
        "the sums are right here, because XLA turns the multiplication by a mask into a selection. A GPU multiplies, and "
        "nan times 0 is nan",
        look="leave out the elements that don't exist with `where`, not with a multiplication",
    )
    _require_whole_block(*(partial(_in_blocks, partial(kernel, n=n), values, block, fetch=False)
                           for block in (32, 128)),
                         look=("make a mask for the whole block, and compute the `.sum()` of the elements that it "
                "leaves"))


@contextmanager
def _noted(case: str) -> Iterator[None]:
    """An error within says in which case it came up: the shape of a block is not always the same."""
    try:
        yield
    except Exception as error:
        error.add_note(case)
        raise


def _in_blocks(kernel: Callable, values: np.ndarray, block: int = 64, *, fetch: bool = True):
    from jax.experimental import pallas as pl

    blocks = pl.cdiv(values.size, block)
    return _called(kernel, (blocks,), [pl.BlockSpec((block,), lambda i: (i,))],
                   pl.BlockSpec((1,), lambda i: (i,)), (blocks,), values, fetch=fetch)


def _require_whole_block(small: Callable, large: Callable, *, look: str) -> None:
    """Require that a kernel says what becomes of its whole block at once: without loops, and in
    nearly as many operations for a block with four times the side (a tree has some more)."""
    programs = _equations(small), _equations(large)
    names = {equation.primitive.name for equation in programs[0]}
    require(not names & {"scan", "while"} and len(programs[1]) < 2 * len(programs[0]),
            "the result is right, but the kernel computes one part of the block after the other, in a "
            "loop: use one operation for the whole block, which the compiler shares among threads",
            look=look)


def _multiplies_by_a_mask(function: Callable, *arrays: np.ndarray) -> bool:
    """Whether a kernel multiplies by what was a truth value before."""
    masks = set()
    for equation in _equations(function, *arrays):
        name = equation.primitive.name
        if name == "convert_element_type" and equation.invars[0].aval.dtype == bool:
            masks.update(map(id, equation.outvars))
        elif name == "mul" and any(id(atom) in masks for atom in equation.invars):
            return True
    return False


@exercise(
    "softmax",
    hints=(
        "The idea: put -inf where no column exists, because it is never the largest, and its "
        "exponential is 0. Do everything else row by row, with axis 1 and keepdims.",
        "The shape: `exists = jnp.arange(scores_ref.shape[1]) < kinds`, `scores = "
        "jnp.where(exists, scores_ref[...], -jnp.inf)`, `powers = jnp.exp(scores - "
        "scores.max(axis=1, keepdims=True))`, and divide by their sum.",
    ),
)
def softmax(kernel):
    """Every row holds probabilities, for large scores and small ones."""
    import jax
    import jax.scipy.special
    from jax.experimental import pallas as pl

    random = np.random.default_rng(162)
    for kinds, columns, shift, name in ((10, 16, 0, "ordinary scores"), (16, 16, 0, "16 kinds"),
                                        (5, 8, -300, "scores near -300"),
                                        (10, 16, 200, "scores near 200"),
                                        (1, 8, 0, "one kind")):
        scores = (random.normal(0, 2, (13, kinds)) + shift).astype(np.float32)
        scores[:4] -= shift  # rows of one block need not be alike
        rows = pl.BlockSpec((8, columns), lambda i: (i, 0))
        run = partial(_called, partial(kernel, kinds=kinds), (2,), [rows], rows, scores.shape)
        with _noted(f"in blocks of 8 rows and {many(columns, 'column')}"):
            got = run(scores)
        powers = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
        right = powers / powers.sum(axis=1, keepdims=True)
        bad = ~np.isclose(got, right, rtol=1e-4, atol=1e-6)
        if not bad.any():
            with without(kernel, (jax.nn, "softmax"), (jax.nn, "log_softmax"),
                         (jax.scipy.special, "softmax"), (jax.scipy.special, "log_softmax"),
                         message="the result is right, but JAX's own softmax does the work",
                         look="compute the maximum, the exponentials and their sum yourself"):
                run(scores)
            continue
        row = int(np.argmax(bad.any(axis=1)))
        look = "which columns exist, and along which axis do you take the maximum and the sum?"
        if np.isnan(got[row]).any():
            look = ("nan comes from columns that don't exist, from inf/inf (from scores above 88, subtract "
                    "the largest score of their row), or from 0/0 (is the largest score one of this "
                    "row, and does it exist?)")
        require(False, f"with {name}, the first element of row {row} "
                       f"{is_not(got[row, 0], right[row, 0])}; the row adds up to {number(got[row].sum())}", look=look)
    kinds, rows = 10, pl.BlockSpec((8, 16), lambda i: (i, 0))
    scores = random.normal(0, 2, (13, kinds)).astype(np.float32)
    scores[5, 3] = np.nan  # a score that exists: its row has to show it
    got = _called(partial(kernel, kinds=kinds), (2,), [rows], rows, scores.shape, scores)
    require(np.isnan(got[5]).all(), "the result is right, but a nan *among the scores* is ignored: on a GPU the "
                                    "columns that don't exist can hold anything, so you cannot recognise "
                                    "them by nan",
            look=("use the column, `jnp.arange(…) < kinds`, not the value, to decide whether an "
                "element exists"))
    blocks = [pl.BlockSpec((side, side), lambda i: (i, 0)) for side in (8, 32)]
    _require_whole_block(*(partial(_called, partial(kernel, kinds=kinds), (2,), [block], block,
                                   scores.shape, scores, fetch=False) for block in blocks),
                         look=("work on all rows at once: compute maximum and sum along axis 1, with "
                "keepdims=True"))


@exercise(
    "product",
    hints=(
        "The idea: iteration `t` of the loop multiplies the t-th tile of A's strip (all rows, columns from "
        "t · TILE on) by the t-th tile of B's strip, and adds the product to the sums.",
        "The shape: `def step(turn, sums):` with `part = pl.ds(turn * TILE, TILE)` and `return "
        "sums + jnp.dot(a_ref[:, part], b_ref[part, :])`; then `sums = jax.lax.fori_loop(0, "
        "a_ref.shape[1] // TILE, step, sums)`.",
    ),
)
def product(kernel):
    """The product is right for all shapes, and the kernel uses nothing larger than a tile at a time."""
    for n, k, m in ((32, 48, 32), (16, 16, 16), (40, 160, 33)):
        random = np.random.default_rng(163)
        a, b = (random.normal(0, 1, shape).astype(np.float32) for shape in ((n, k), (k, m)))
        _require_product(_product(kernel, a, b, np.float32), a, b)
    _require_types(_require_tiles(kernel, np.float32), "float32", "multiply the tiles as they were read, without converting them")


@exercise(
    "mixed",
    hints=(
        "The idea: use your `product_block`, but request the product of two tiles in float32, and begin "
        "the sums as float32. Convert nothing to 16 bits before the last line.",
        "The shape: `sums = jnp.zeros((TILE, TILE), jnp.float32)`, and in the loop `sums + "
        "jnp.dot(a_ref[:, part], b_ref[part, :], preferred_element_type=jnp.float32)`.",
    ),
)
def mixed(kernel):
    """Tiles have 16 bits, sums have 32, and the only error is that of the inputs."""
    random = np.random.default_rng(164)
    for k in (32, 4096):
        a, b = (random.uniform(0, 1, shape).astype(np.float16) for shape in ((16, k), (k, 20)))
        _require_product(_product(kernel, a, b, np.float32), a, b)
        _require_product(_product(kernel, a, b, np.float16), a, b)
    _require_types(
        _require_tiles(kernel, np.float16), "float16",
        "a tensor core takes tiles of 16 bits: pass the tiles to jnp.dot as they were read, and set the type "
        "of the sums with preferred_element_type")


def _require_product(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Require the product of two matrices, as exact as tensor cores make it.

    They cut both factors of float32 to TF32, and each of the sums to float32; the result is rounded
    to its own type. All of it relative to what the terms add up to without their signs.
    """
    from_a, from_b = a.astype(np.float64), b.astype(np.float64)
    right, scale = from_a @ from_b, np.abs(from_a) @ np.abs(from_b)
    bound = (2 * TF32 * (a.dtype == np.float32) + a.shape[1] * FLOAT32
             + float(np.finfo(got.dtype).eps))
    error = np.abs(got.astype(np.float64) - right) / scale
    worst = np.argmax(np.nan_to_num(error, nan=np.inf))
    i, j = map(int, np.unravel_index(worst, error.shape))
    require(
        error[i, j] < bound,
        f"{a.shape} times {b.shape} of {a.dtype.name} into {got.dtype.name}: element {(i, j)} "
        f"{is_not(got[i, j], right[i, j])}",
        look=("do all tiles of the strips take part, and is each product added to the "
             "earlier ones? In which type?"),
    )


def _require_tiles(kernel: Callable, dtype: type) -> list:
    """The equations of a kernel: none makes more than a tile, and what it multiplies are tiles."""
    a, b = np.ones((32, 64), dtype), np.ones((64, 32), dtype)
    equations = _equations(partial(_product, kernel, dtype=np.float32, fetch=False), a, b)
    sizes = [atom.aval.shape for equation in equations for atom in equation.outvars]
    largest = max(sizes, key=lambda shape: np.prod(shape, dtype=int))
    require(
        np.prod(largest, dtype=int) <= TILE * TILE,
        f"the product is right, but the kernel holds a value of shape {largest} at once, and a tile is "
        f"{(TILE, TILE)}",
        look=("read the strips one tile at a time, with pl.ds in a loop, because no chip "
             "can hold a long strip"),
    )
    factors = [atom.aval.shape for equation in equations
               if equation.primitive.name == "dot_general" for atom in equation.invars]
    require(
        set(factors) == {(TILE, TILE)},
        f"the product is right, but the kernel multiplies {factors or 'something other than tiles with jnp.dot'}, not two tiles",
        look="use jnp.dot of a tile of A and a tile of B, which a tensor core can compute",
    )
    return equations


def _require_types(equations: list, taken: str, look: str) -> None:
    """Require tiles to be multiplied as ``taken``, and added up in float32: values cannot tell, for
    a product of float32 is as exact as one of 16 bits on a tensor core."""
    products = [one for one in equations if one.primitive.name == "dot_general"]
    takes = {str(atom.aval.dtype) for one in products for atom in one.invars}
    require(takes == {taken}, f"the product is right, but the tiles are multiplied as {_listed(takes)}", look=look)
    sums = {str(atom.aval.dtype) for one in equations
            if one.primitive.name in ("add", "dot_general")
            for atom in one.outvars
            if atom.aval.shape == (TILE, TILE) and "float" in str(atom.aval.dtype)}
    require(sums == {"float32"}, f"the values are right, but the tile products and sums have the type {_listed(sums)}; "
            "all of them should be float32", look=("check preferred_element_type of the product, and the type of the initial "
                "sums"))


def _listed(names: set[str]) -> str:
    return " and ".join(sorted(names))


def _equations(function: Callable, *arrays: np.ndarray) -> list:
    """What the one kernel that a function calls was traced to. Fails the check if it writes to what
    it is given, or has the host compute."""
    import jax

    (call,) = (equation for equation in _inner(jax.make_jaxpr(function)(*arrays).jaxpr)
               if equation.primitive.name == "pallas_call")
    kernel = call.params["jaxpr"]
    found = list(_inner(kernel))
    require_no_callback([one.primitive.name for one in found], "use jnp operations on the blocks that you read")
    written = [effect.input_index for effect in kernel.effects
               if type(effect).__name__ in ("WriteEffect", "AccumEffect")]
    require(not written or min(written) >= len(call.invars), "the result is right, but the kernel writes into an array "
                                                             "that is an input", look="`x = ref[...]` gives you a copy that you may change; only "
            "the last of the kernel's refs is for results")
    return found


def _inner(jaxpr: object) -> Iterator:
    """Equations of a jaxpr and of those in it, calls of kernels as they stand."""
    return equations(jaxpr, lambda equation: equation.primitive.name != "pallas_call")


def _product(kernel: Callable, a: np.ndarray, b: np.ndarray, dtype: type, *, fetch: bool = True):
    from jax.experimental import pallas as pl

    (n, k), m = a.shape, b.shape[1]
    return _called(kernel, (pl.cdiv(n, TILE), pl.cdiv(m, TILE)),
                   [pl.BlockSpec((TILE, k), lambda i, j: (i, 0)),
                    pl.BlockSpec((k, TILE), lambda i, j: (0, j))],
                   pl.BlockSpec((TILE, TILE), lambda i, j: (i, j)), (n, m), a, b, dtype=dtype,
                   fetch=fetch)


@exercise(
    "to-half",
    hints=(
        "The idea: divide by a power of two for which the largest value becomes a few thousand. "
        "`np.frexp(x)[1]` is the e with x between 2**(e-1) and 2**e.",
        "The shape: `factor = 2.0 ** (np.frexp(largest)[1] - 12)` where `largest` isn't 0, and "
        "`(values / factor).astype(np.float16)`.",
    ),
)
def to_half(function):
    """All values are in range and exact to 11 bits, from the smallest to the largest."""
    random = np.random.default_rng()
    for size, name in ((1.0, "values near 1"), (1e12, "energies in eV"),
                       (1.7e-27, "masses in kg"), (-3e5, "negative values"), (65_519.0, "65,519"),
                       *((size, f"values near {size:.2g}") for size in 10 ** random.uniform(-30, 30, 3))):
        values = random.uniform(0.1, 1, 50) * size
        values[7], values[8] = size, 0.0
        halves, factor = _halves(function, values, name)
        require(np.isfinite(halves).all(), f"{name}: {np.count_nonzero(~np.isfinite(halves))} of "
                "50 halves aren't finite", look=("is the largest value, divided by the factor, below 65,504?"))
        largest = float(np.abs(halves).max())
        require(1024 <= largest <= 65_504, f"{name}: the largest half is {number(largest)}, not "
                "between 1,024 and 65,504", look="which power of two is near the largest value?")
        require(np.frexp(factor)[0] == 0.5, f"{name}: the factor {number(factor, 6)} is not a power of two, "
                "so that scaling also rounds", look=("compute the factor as 2.0 to the power of a whole number"))
        off = np.abs(halves.astype(np.float64) * factor - values) / np.abs(values).max()
        require(off.max() <= 2**-11, f"{name}: a value comes back changed by {off.max():.1%} of the "
                "largest one", look="check that half * factor gives the values back")
    halves, factor = _halves(function, np.zeros(4), "zeros")
    require(factor == 1 and not halves.any(), f"zeros have the factor {factor}, not 1",
            look="which exponent does 0 have, and what factor does that give?")


@exercise(
    "tile-sums",
    hints=(
        "The idea: load tile i with zeros in place of elements beyond the end, and store its sum as a "
        "tile of one element.",
        "The shape: `ct.load(x, (i,), (size,), padding_mode=ct.PaddingMode.ZERO)`, `ct.sum`, and "
        "`.reshape((1,))` before `ct.store(sums, (i,), ...)`.",
    ),
)
def tile_sums(kernel):
    """Each tile's sum has only the values that exist."""
    random = np.random.default_rng(166)
    for n, size in ((1000, 256), (64, 64), (130, 64), (1, 16)):
        values = random.uniform(1, 2, n).astype(np.float32)
        blocks = -(-n // size)
        got, launch = _tiled(kernel, (blocks,), (blocks,), values, size)
        right = [values[k:k + size].sum(dtype=np.float64) for k in range(0, n, size)]
        bad = ~np.isclose(got, right, rtol=size * FLOAT32)
        k = int(np.argmax(bad))
        require(not bad[k], f"with {many(n, 'value')} in tiles of {size}, the sum of tile {k} "
                f"{is_not(got[k], right[k])}", look="which tile does block i load, how long "
                "is it, and where does its sum go?")
        _require_shared(launch, 4 * size, 4, "let block i load tile i, and no other")


@exercise(
    "tile-product",
    hints=(
        "The idea: loop along the strips. Iteration k multiplies tile (i, k) of A by tile (k, j) of B "
        "and adds the product to the sums. Zeros beyond the edge do not change the sums.",
        "The shape: in the loop `left = ct.load(a, (i, k), (TILE, TILE), "
        "padding_mode=ct.PaddingMode.ZERO)`, the same for `right`, `sums = ct.mma(left, right, "
        "sums)`.",
    ),
)
def tile_product(kernel):
    """The product is right for all shapes, with tiles of 16 bits and sums of 32."""
    for n, k, m in ((16, 16, 16), (32, 48, 16), (20, 200, 33)):
        random = np.random.default_rng(167)
        a, b = (random.uniform(0, 1, shape).astype(np.float16) for shape in ((n, k), (k, m)))
        grid = (-(-n // TILE), -(-m // TILE))
        got, launch = _tiled(kernel, grid, (n, m), a, b, last=True)
        _require_product(got, a, b)
        _require_shared(launch, 2 * 2 * k * TILE, 4 * TILE * TILE, "let block (i, j) compute tile (i, j)")
        types = launch.products
        require(set(types) == {"f16"}, "the product is right, but the tiles are multiplied as "
                f"{_listed(set(types)) or 'rows and columns, without ct.mma'}",
                look="a tensor core takes tiles of 16 bits: pass the tiles to ct.mma as they were loaded")


def _require_shared(launch: object, loaded: int, stored: int, look: str) -> None:
    """Require that no block of a launch over tiles loads or stores more bytes than its share."""
    for most, of_a_block, verb in zip((loaded, stored), launch.bytes_by_block.T, ("loads", "stores"),
                                      strict=True):
        require(of_a_block.max() <= most, "the result is right, but the blocks don't share the work: one of them "
                f"{verb} {many(int(of_a_block.max()), 'byte')}, and {most:,} are enough", look=look)


def _tiled(kernel: object, grid: tuple, shape: tuple, *arguments: object, last: bool = False
           ) -> tuple[np.ndarray, object]:
    """What a kernel of cuTile's stores to an array of this shape, its last argument or its second;
    and what it did."""
    import cuda.tile as ct
    import cupy as cp

    require(isinstance(kernel, ct.kernel), f"this is {a_or_an(type(kernel).__name__)}, not a kernel",
            look="write @ct.kernel above it, and pass its name to check without parentheses")
    trial(f"the kernel on a grid of {grid}")
    given = [cp.asarray(one) if isinstance(one, np.ndarray) else one for one in arguments]
    result = cp.full(shape, -1, np.float32)
    given.insert(len(given) if last else 1, result)
    with virtualgpu.check() as report, virtualgpu.profile() as profile:
        ct.launch(cp.cuda.get_current_stream(), grid, kernel, tuple(given))
    if report.findings:
        found = report.findings[0]
        words = {"memory": "does each load set with padding_mode which values are beyond the edge, and "
                           "is each index counted in tiles?",
                 "race": "to which block does the tile belong?"}
        require(False, f"on a grid of {grid}: {found}", look=words.get(found.kind))
    for one, before in zip((one for one in given if one is not result), arguments, strict=True):
        require(not isinstance(before, np.ndarray) or np.array_equal(one.get(), before),
                f"on a grid of {grid}, the kernel changes an array that is an input",
                look="into which array does each ct.store go?")
    return result.get(), profile.launches[-1]


def _halves(function: Callable, values: np.ndarray, name: str) -> tuple[np.ndarray, float]:
    before = values.copy()
    with np.errstate(all="ignore"):  # what overflows is told below
        answer = function(values)
    halves, factor = pair(answer, "a float16 array and a factor", "return both")
    halves = np.asarray(halves)
    require(np.array_equal(before, values), f"{name}: your function has changed its input values",
            look="make a new array instead of changing the input")
    require(halves.dtype == np.float16, f"{name}: the array is {halves.dtype}, not float16",
            look="convert with .astype(np.float16) as the last step")
    return halves, float(factor)


def _called(kernel: Callable, grid: tuple, specs: list, spec: object, shape: tuple,
            *arrays: np.ndarray, dtype: type = np.float32, fetch: bool = True):
    """What a kernel makes of arrays in interpret mode; on the host if ``fetch``."""
    import jax
    from jax.experimental import pallas as pl

    require(callable(kernel), f"this is {a_or_an(type(kernel).__name__)}, not a function",
            look="pass the name of the function without parentheses")
    trial(f"the kernel on a grid of {grid}, in interpret mode")
    made = pl.pallas_call(kernel, grid=grid, in_specs=specs, out_specs=spec, interpret=True,
                          out_shape=jax.ShapeDtypeStruct(shape, dtype))(*arrays)
    return np.asarray(made) if fetch else made
