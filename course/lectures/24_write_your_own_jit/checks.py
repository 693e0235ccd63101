"""Checks and hints of "Write your own JIT"."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.cpp_trials import launched_cpp
from gpucourse.exercises.methods import without
from gpucourse.wording import is_not


@exercise(
    "walk",
    hints=(
        "The idea: keep a dictionary from variables to arrays. The inputs and the constants are in it "
        "at the start; each equation reads its operands from it and adds its results.",
        "The shape: `values = dict(zip(jaxpr.invars, arguments))`, the same for `constvars` and "
        "`closed.consts`; write a function `read(atom)` that returns `atom.val` for a Literal and "
        "`values[atom]` otherwise; then a loop over `jaxpr.eqns`, and `read` for each of "
        "`jaxpr.outvars`.",
    ),
)
def walk(interpret):
    """Literals, constants, several results and inputs that are outputs all agree with JAX."""
    import jax
    import jax.numpy as jnp

    table = np.array([3.0, 1.0, 2.0], np.float32)
    random = np.random.default_rng(231)
    programs = {
        "x * y + x": (lambda x, y: x * y + x, "which operands does each equation read, and where do its results go?"),
        "x - y": (lambda x, y: x - y, "pass the operands in the order in which the equation lists them"),
        "2 / x": (lambda x, y: 2 / x, "a Literal is not a variable: its value is `.val`"),
        "x + table": (lambda x, y: x + table, "what are `constvars` and `closed.consts` for?"),
        "x and x + y": (lambda x, y: (x, x + y), "an output may be an input"),
        "x and 7.0": (lambda x, y: (x, 7.0), "an output may be a Literal"),
        "two that are sorted together": (
            lambda x, y: jax.lax.sort((x, y), num_keys=1),
            "an equation with two results has two `outvars`, and `run` returns a list",
        ),
        "jax.jit of a function, twice": (
            lambda x, y: jax.jit(jnp.hypot)(x, y) * jax.jit(jnp.hypot)(y, x),
            "`run` also runs an inner jaxpr, so you need no special case",
        ),
    }
    for name, (function, look) in programs.items():
        x, y = (jnp.array(one, jnp.float32) for one in random.uniform(0.5, 9, (2, 3)))
        closed = jax.make_jaxpr(function)(x, y)

        def whole(first, *others, closed=closed):  # also of a copy
            return getattr(first, "eqns", None) == closed.eqns

        try:
            with without(interpret, *_interpreters(), when=whole,
                         message="JAX's own interpreter runs the jaxpr, not yours",
                         look="loop over `closed.jaxpr.eqns` and call `run` for each equation"):
                got = interpret(closed, x, y)
        except KeyError as error:
            require(False, f"for {name}, the dictionary lacks {_in_words(error.args[0], closed)}",
                    look=look)
        require(
            isinstance(got, list | tuple) and len(got) == len(closed.jaxpr.outvars),
            f"for {name}, the function returns {_briefly(got)}, not a list of "
            f"{len(closed.jaxpr.outvars)}",
            look="return one result for each of `jaxpr.outvars`",
        )
        for value, right in zip(got, jax.tree.leaves(function(x, y)), strict=True):
            require(
                np.shape(value) == np.shape(right) and np.allclose(value, right),
                f"for {name}, a result is {_briefly(value)}, not {_briefly(right)}",
                look=look,
            )


def _interpreters() -> list[tuple]:
    """Where JAX's own interpreter of jaxprs is found."""
    import jax.core
    import jax.extend.core
    from jax._src import core

    return [(owner, name) for owner in (jax.core, jax.extend.core, core)
            for name in ("eval_jaxpr", "jaxpr_as_fun")]


def _in_words(variable: object, closed) -> str:
    """Which variable of a jaxpr it is: printed alone, it has a number for a name."""
    if any(variable is one for one in closed.jaxpr.constvars):
        return "a constant, one of `constvars`"
    for equation in closed.jaxpr.eqns:
        for k, made in enumerate(equation.outvars):
            if made is variable:
                return f"result {k} of `{equation.primitive.name}`"
    return f"{variable}"


@exercise(
    "power",
    hints=(
        "The idea: compute squares. x², x⁴ and x⁸ cost one product each, and x¹¹ is x⁸ · x² · x, "
        "because the exponent in binary says which of them you need. A negative power is one "
        "divided by the power of `-y`.",
        'The shape: `text, square = "1", x`; while `y`: if `y % 2`, the text gets a factor '
        "`square`; `y //= 2`; and if there is something left, "
        '`square = name(f"{square} * {square}")`.',
    ),
)
def power(power):
    """Integer powers become as few products as squaring takes, with at most one division."""
    drawn = np.random.default_rng().integers(64, 90, 2).tolist()  # of seven digits in binary
    exponents = (2, 3, 1, 0, 5, 7, 8, 11, 16, 33, -1, -2, -3, -9, drawn[0], -drawn[1])
    lines = []
    for place, y in enumerate(exponents):
        texts = _texts_of(power, f"p{place}_", ("base", "x")[place % 2], y)
        whole = " ".join(texts)
        case = f"for x**{y}, the text is {' ; '.join(texts)!r}, which"
        called = re.search(r"\b[A-Za-z_]\w*(?=\s*\()", whole)
        require(
            not (called and called[0] not in ("float", "int")),
            f"{case} calls {called and called[0]}",
            look="use only products of x and of the variables that you have named",
        )
        products, divisions = whole.count("*"), whole.count("/")
        enough = max(abs(y).bit_length() - 1, 0) + max(abs(y).bit_count() - 1, 0)
        require(
            products <= max(enough, 0),
            f"{case} has {products} products; {enough} are enough",
            look="square repeatedly: compute x, x², x⁴ …, each from the one before, with `name`",
        )
        require(divisions <= (y < 0), f"{case} has {divisions} divisions",
                look="use one division, and only for exponents below 0")
        lines += [f"const float p{place}_{k} = {text};" for k, text in enumerate(texts[:-1])]
        lines.append(f"out[{len(exponents)} * i + {place}] = {texts[-1]};")
    source = ('extern "C" __global__ void powers(const float *in, float *out, int n)\n{\n'
              "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n) return;\n"
              "    const float x = in[i], base = x + 0.25f;\n    " + "\n    ".join(lines) + "\n}\n")
    x = np.array([1.5, -1.25, 0.75, -2.0, 1.0], np.float32)
    out = np.zeros((x.size, len(exponents)), np.float32)
    _, got, _ = launched_cpp(source, "powers", 1, 32, x, out, np.int32(x.size), seeds=())
    for place, y in enumerate(exponents):
        base = x + np.float32(0.25) * (1 - place % 2)
        right = base.astype(np.float64) ** y
        near = 1e-5 + abs(y) * 1e-7  # each product rounds
        k = int(np.argmax(~np.isclose(got[:, place], right, rtol=near, atol=0)))
        require(
            np.isclose(got[k, place], right[k], rtol=near, atol=0),
            f"{base[k]} ** {y} {is_not(got[k, place], right[k])}",
            look="which squares do the binary digits of the exponent select?",
        )


def _texts_of(power, prefix: str, x: str, y: int) -> list[str]:
    """The texts that ``power`` names, in order, and the one it returns."""
    texts: list[str] = []

    def name(text):
        require(isinstance(text, str), f"for x**{y}, `name` gets {_briefly(text)}",
                look='call `name("x * x")` with a string; it returns the name of a variable')
        if text not in texts:
            texts.append(text)
        return f"{prefix}{texts.index(text)}"

    text = power(name, x, y)
    require(isinstance(text, str), f"for x**{y}, the function returns {_briefly(text)}, not a string",
            look="return a string of C++, also for exponents of 0 and below")
    return [*texts, text]


@exercise(
    "broadcast",
    hints=(
        "The idea: go through the axes of the operand. Its axis `k` is axis `dimensions[k]` of the result, "
        "whose entry in `index` is the text that you need, except for an axis of length 1.",
        'The shape: `tuple("0" if extent == 1 else index[axis] for extent, axis in zip(shape, '
        "dimensions))`.",
    ),
)
def broadcast(broadcast_index):
    """Each element is the right one, for numbers, rows, columns, axes of length 1 and boxes."""
    cases = (
        ((3,), (2, 3), (1,)),
        ((), (2, 3), ()),
        ((2,), (2, 3), (0,)),
        ((2, 3), (2, 3), (0, 1)),
        ((2, 1), (2, 3), (0, 1)),
        ((1, 3), (4, 2, 3), (1, 2)),
        ((4, 3), (4, 2, 3), (0, 2)),
        ((1,), (4,), (0,)),
    )
    body = []
    for number, (shape, result, dimensions) in enumerate(cases):
        case = f"from shape {shape} to {result}, dimensions {dimensions},"
        names = tuple(f"{'ijk'[number % 3]}{axis}" for axis in range(len(result)))
        index = tuple(f"({name} + 0)" for name in names)  # after a slice, a text is no name
        try:
            inner = broadcast_index(index, shape, dimensions)
        except IndexError:
            require(False, f"{case} there is no such axis",
                    look=("`index` has the axes of the result, but `shape` and `dimensions` have those "
                "of the operand"))
        require(
            isinstance(inner, tuple) and all(isinstance(text, str) for text in inner),
            f"{case} the function returns {_briefly(inner)}, not a tuple of strings",
            look=("return a tuple: our compiler caches the results for each index, and a tuple "
                "can be a key"),
        )
        require(
            len(inner) == len(shape),
            f"{case} the function returns {len(inner)} strings: {inner}",
            look="return one for each axis of the operand",
        )
        axes = "".join(f"for (int {name} = 0; {name} < {extent}; ++{name}) "
                       for name, extent in zip(names, result, strict=True))
        address = " + ".join(f"({text}) * {math.prod(shape[k + 1:])}"
                             for k, text in enumerate(inner)) or "0"
        body.append(f"{axes}out[at++] = {address};  // {number}")
    source = ('extern "C" __global__ void addresses(int *out)\n{\n    int at = 0;\n    '
              + "\n    ".join(body) + "\n}\n")
    (out,) = launched_cpp(source, "addresses", 1, 1,
                          np.zeros(sum(math.prod(result) for _, result, _ in cases), np.int32),
                          seeds=())
    begin = 0
    for shape, result, dimensions in cases:
        got = out[begin : begin + math.prod(result)].reshape(result)
        begin += got.size
        padded = [1] * len(result)
        for extent, axis in zip(shape, dimensions, strict=True):
            padded[axis] = extent
        right = np.broadcast_to(np.arange(math.prod(shape)).reshape(padded), result)
        if wrong := np.argwhere(got != right).tolist():
            at = tuple(wrong[0])
            require(
                False,
                f"from shape {shape} to {result}, dimensions {dimensions}, element {at} is element "
                f"{got[at]} of the operand (in memory order), not {right[at]}",
                look=("axis k of the operand is axis `dimensions[k]` of the result, and an axis of "
                "length 1 has only element 0"),
            )


@exercise(
    "nested",
    hints=(
        "The idea: since section 2 you have a function that turns a jaxpr into text, with its own "
        "dictionary.",
        "The shape: `write(…, …, …)`, with the kernel, the inner closed jaxpr and the operands.",
    ),
)
def nested(build):
    """A jaxpr that is called twice gets two scopes, constants included, and a scan is not taken for a call."""
    import jax
    import jax.numpy as jnp

    table = np.array([3.0, -1.0, 2.0, 5.0], np.float32)
    plain = jax.jit(lambda x, y: x - 2 * y)
    deeper = jax.jit(lambda x, y: plain(y, x) * x)
    shifted = jax.jit(lambda x, y: (x - 2 * y, x + table))
    programs = {
        "a function that is called once": (plain, "which operand is which?"),
        "one with two results, which uses an array from outside": (
            shifted,
            "`closed.consts` belong to the inner jaxpr: do you pass the closed jaxpr to `write`?",
        ),
        "one that is called twice": (
            lambda x, y: plain(x, y) * plain(y, 3 * x),
            "the second call has other operands, so its variables have other values",
        ),
        "one within another": (lambda x, y: deeper(x, y) - plain(x, y), "each call needs its own scope"),
        "jax.nn.relu": (lambda x, y: jax.nn.relu(x) + y, "here a call contains another call"),
    }
    random = np.random.default_rng(234)
    for name, (function, look) in programs.items():
        x, y = random.uniform(-4, 9, (2, 4)).astype(np.float32)
        closed = jax.make_jaxpr(function)(x, y)
        try:
            built = build(closed)
        except KeyError as error:
            inner = next(found for equation in closed.eqns for word in ("jaxpr", "call_jaxpr")
                         if (found := equation.params.get(word)) is not None)
            require(False, f"for {name}, the inner dictionary lacks "
                    f"{_in_words(error.args[0], inner)}", look=look)
        except ValueError as error:  # zip's, about lengths
            require(False, f"for {name}, {error}",
                    look="return a list of all results, one for each of the equation's `outvars`")
        except TypeError as error:
            require("NoneType" not in str(error), f"for {name}, `inlined` returns None",
                    look="return the list of the results")
            raise
        outs = [np.zeros(result.shape, result.dtype) for result in built.results]
        given = [x, y, *map(np.asarray, built.constants)]
        entry = re.search(r"void (\w+)\(", built.source)[1]
        ran = launched_cpp(built.source, entry, 1, 32, *given, *outs, np.int32(4), seeds=())
        for got, right in zip(ran[len(given) :], jax.tree.leaves(function(x, y)), strict=False):
            require(
                np.allclose(got, right, rtol=1e-5),
                f"for {name}, the kernel computes {got}, not {np.asarray(right)}",
                look=look,
            )
    others = {
        "scan": lambda x: jax.lax.scan(lambda total, value: (total + value, total), 0.0, x)[1],
        "while": lambda x: jax.lax.while_loop(lambda x: x[0] < 9, lambda x: x * x + 1, x),
        "cond": lambda x: jax.lax.cond(x[0] < 9, lambda x: x + 1, lambda x: x - 1, x),
    }
    for name, function in others.items():
        # Where the condition is an element of an array, a compiler without slices stops at that.
        (equation,) = (one for one in jax.make_jaxpr(function)(jnp.ones(4)).eqns
                       if one.primitive.name == name)
        given = [jax.ShapeDtypeStruct(one.aval.shape, one.aval.dtype) for one in equation.invars]
        looped = jax.make_jaxpr(
            lambda *given, one=equation: one.primitive.bind(*given, **one.params)[-1])(*given)
        look = "inline only the primitives that `CALLS` lists, not `scan`, `while` or `cond`"
        try:
            build(looped)
        except NotImplementedError:
            continue
        except Exception as error:
            require(False, f"`build` treats a {name} as a call: {type(error).__name__}: {error}", look=look)
        require(False, f"`build` treats a {name} as a call", look=look)


@exercise(
    "key",
    hints=(
        "The idea: a jaxpr shows what JAX itself knows about an input. For example, `a:f32[3]` is a type and a shape. "
        "The tree says which input is which.",
        "The shape: `(tree, tuple((leaf.…, leaf.…, leaf.…) for leaf in leaves))`.",
    ),
)
def key(key_of):
    """The key is the same for other values, and differs for everything that changes the kernel."""
    import jax
    import jax.numpy as jnp

    alive = []  # so that no two have the same id

    def of(*arguments):
        leaves, tree = jax.tree.flatten(arguments)
        alive.append([jnp.asarray(leaf) for leaf in leaves])
        made = key_of(tree, alive[-1])
        try:
            hash(made)
        except TypeError as error:
            require(False, f"the key is not hashable: {error}", look=("use tuples instead of lists in the key"))
        return made

    three, four = np.ones(3, np.float32), np.ones(4, np.float32)
    same = {
        "the same arguments": ((three,), (three,)),
        "other values": ((three,), (2 * three,)),
        "another Python number": ((three, 2.0), (three, 3.0)),
        "a dictionary in another order": (({"a": three, "b": four},), ({"b": four, "a": three},)),
    }
    for what, (before, after) in same.items():
        require(
            of(*before) == of(*after),
            f"{what}: the key differs, so `my_jit` compiles again",
            look=("the key must not depend on the values, nor on which array it is: what does "
                "the kernel's source depend on?"),
        )
    square = np.ones((2, 6), np.float32)
    different = {
        "3 and 4 elements": ((three,), (four,), "the key needs the shape"),
        "(2, 6) and (3, 4), with the same number of elements": (
            (square,), (square.reshape(3, 4),), "the key needs the shape, not the size"),
        "(3, 4) and (4, 3)": (
            (square.reshape(3, 4),), (square.reshape(4, 3),), "the key needs the shape, with the order of its axes"),
        "float32 and int32": ((three,), (three.astype(np.int32),), "the key needs the type"),
        "float32 and float16": (
            (three,), (three.astype(np.float16),), "the key needs the full type, not only its kind or its size"),
        "three arguments, of which the second is longer": (
            (three, three, three), (three, four, three), "the key needs every leaf"),
        "arguments exchanged, (3, 4) and (4, 3)": (
            (three, four), (four, three), "the key needs to say which leaf has which shape"),
        "{'a': x} and {'b': x}": (({"a": three},), ({"b": three},), "the key needs the tree's structure"),
        "(x, x) and ((x, x),)": ((three, three), ((three, three),), "the key needs the tree's structure"),
        "2.0 and np.float32(2)": (
            (three, 2.0), (three, np.float32(2)), "a Python number is weakly typed: `.weak_type`"),
        "2.0 before np.float32(2), and after it": (
            (2.0, np.float32(2)), (np.float32(2), 2.0), "the key needs to say which leaf is weakly typed"),
    }
    for what, (before, after, look) in different.items():
        require(
            of(*before) != of(*after),
            f"{what}: both have the same key, so the second runs a kernel made for the first",
            look=look,
        )
    keys = [of(*before) for before in itertools.chain(
        (pair[0] for pair in same.values()), (pair[0] for pair in different.values()))]
    require(len(set(keys)) > 5, "nearly all keys are the same", look=("put the tree, the shapes and the types into the key"))


def _briefly(value: object) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."
