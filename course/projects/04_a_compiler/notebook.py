# %% [markdown] id="question"
# ## What does `jax.jit` do?
#
# `jax.jit` calls your Python function once with stand-ins for the arrays, and records every operation in a list, the
# *jaxpr*. It compiles the list to machine code, which the next call reuses. In this project you write such a compiler.
# It turns a jaxpr into CUDA C++, with one kernel for a whole function.
#
# | step | you write | result |
# |---|---|---|
# | 1 | `interpret` | a jaxpr, computed equation by equation |
# | 2 | `scalar`, `formula` | numbers and operations as C++ |
# | 3 | `elementwise`, `kernel_of` | one kernel for many operations |
# | 4 | six views | slices, transposes and others, without a copy |
# | 5 | `reduction` | sums, maxima and minima |
# | 6 | `jit` | trees of arrays, a cache, derivatives |
# | 7 | nothing | the density of sea water in one launch |
#
# **Steps 1 to 7 are the project**. They take three and a half hours and give 39 points. Steps 8 to 10 go further. They
# give 21 points, for windows, loops, and two larger programs about the ocean.

# %% [markdown] id="how-it-works"
# ## How this works
#
# Replace `YOUR CODE HERE` and the `raise` below it, run the cell, then run the test cells that follow. [How the
# projects work](../../docs/projects.md) has the details: hints, tests, and how to grade yourself. You will write about
# 100 lines, and you need no GPU.

# %% id="start" role="setup"
# %load_ext gpucourse
import math
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from gpucourse import (
    call, expect, expect_close, expect_equal, expect_parallel, launch_source, launches, secret_rng,
    unwritten,
)
from gpucourse.adapters.cuda_text import loaded
from gpucourse.exercises.checks import project

jax.config.update("jax_enable_x64", True)  # both float32 and float64, each as it was asked for
hint = project("04_a_compiler")


class Unsupported(Exception):
    """Exception for a primitive without a rule; its text is the name of the primitive."""

# %% [markdown] id="jaxprs"
# ## What a jaxpr is made of
#
# `jax.make_jaxpr(f)(*args)` returns a *closed* jaxpr. It holds the equations, `closed.jaxpr`, and
# the arrays that the function uses from outside, `closed.consts`.

# %% id="a-jaxpr"
table = np.array([1.0, 10.0, 100.0])


def example(x, y):
    return jnp.where(x > 0.5, x * y, table), y


closed = jax.make_jaxpr(example)(np.ones(3), np.ones(3))
print(closed)
for equation in closed.jaxpr.eqns:
    print(equation.primitive.name, equation.invars, "→", equation.outvars, list(equation.params))

# %% [markdown] id="jaxprs-read"
# In the output, the `constvars` (there is one) stand for `closed.consts`, and `invars` for the arguments. An equation
# has a *primitive* (`equation.primitive.name`), operands (`invars`), results (`outvars`) and parameters. An operand is
# a variable or a *literal*, which is a number in the equation itself. For a literal, `isinstance(operand, Literal)` is
# true, and `operand.val` is the value.
#
# - `jnp.where` becomes an equation `jit`, which is a call. Its parameter is another jaxpr, with its own variables.
# - The function's results, `jaxpr.outvars`, may be computed values, unchanged inputs, or literals.
# - A result that is never used is called `_`, but is a variable like the others.

# %% [markdown] id="a-branch-predict" tags=["predict"]
# ### Predict: a Python branch
#
# Take `def f(x): return x + 1 if x.shape[0] > 2 else x - 1`. How many equations does the jaxpr of `f` have for an
# `x` of three numbers, and where is the `if`?

# %% id="a-branch-guess"
from gpucourse.exercises.predictions import predictions

predict = predictions("04_a_compiler")
predict("a-branch",
        "two, and the if is an equation cond",
        "one, and the if is nowhere",
        "three: the comparison is one too")

# %% id="a-branch"
print(jax.make_jaxpr(lambda x: x + 1 if x.shape[0] > 2 else x - 1)(np.ones(3)))

# %% [markdown] id="a-branch-why" tags=["why"]
# It has one equation, because Python's `if` ran while JAX traced the function, so it left nothing in the jaxpr.

# %% [markdown] id="step-1"
# ## 1. An interpreter
#
# `interpret(jaxpr, consts, args, rules)` computes the results of a jaxpr and returns them as a list.
# It looks up the meaning of each operation in a table of **rules**:
#
# - `rules[name](equation, *values)` is the result of an equation whose primitive is called `name`, or a list
#   of results if `equation.primitive.multiple_results`.
# - `rules["literal"](literal)` is the value of a literal.
# - If there is no rule for a primitive, `raise Unsupported(name)`.
# - If `inner(equation)` is not None, the equation is a call. Interpret that closed jaxpr with the values
#   of the operands.
#
# With NumPy's rules, `interpret` computes numbers. With rules that return text, it is a compiler. So it must not depend
# on what the values are.
#
# Hints: `hint("interpret")`.

# %% id="function-of" role="setup"
def function_of(program):
    """Return the function `f` that a program, given as text, defines."""
    namespace = {"jax": jax, "jnp": jnp, "lax": jax.lax, "np": np}
    exec(program, namespace)
    return namespace["f"]

# %% id="for-interpreters" role="setup"
from jax.extend.core import Literal

CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # what the jaxpr of a call is called, by primitive
LOOPS = ("scan", "while", "cond")


def inner(equation):
    """Return the closed jaxpr that an equation calls, or None if it is not a call."""
    if equation.primitive.name in LOOPS:
        return None
    return next((equation.params[key] for key in CALLS if hasattr(equation.params.get(key), "consts")),
                None)


NUMPY = {
    "literal": lambda literal: literal.val,
    "add": lambda equation, x, y: np.add(x, y), "sub": lambda equation, x, y: np.subtract(x, y),
    "mul": lambda equation, x, y: np.multiply(x, y), "neg": lambda equation, x: np.negative(x),
    "sin": lambda equation, x: np.sin(x), "max": lambda equation, x, y: np.maximum(x, y),
    "split": lambda equation, x: np.split(x, np.cumsum(equation.params["sizes"])[:-1],
                                          equation.params["axis"]),
}
#
WORDS = {
    "literal": lambda literal: f"{float(literal.val):g}",
    **{name: lambda equation, *words: f"{equation.primitive.name}({', '.join(words)})"
       for name in ("add", "sub", "mul", "neg", "sin", "max")},
}
TABLES = {"numpy": NUMPY, "words": WORDS}


def interpreted(program, types, values, table):
    """Return the results of the learner's `interpret` for a program, with one of the tables."""
    closed = jax.make_jaxpr(function_of(program))(*types)
    consts = [f"const{n}" for n in range(len(closed.consts))] if table == "words" else closed.consts
    try:
        return interpret(closed.jaxpr, list(consts), list(values), TABLES[table])
    except Unsupported as refused:
        return {"refused": str(refused)}

# %% id="interpret" role="solution"
def interpret(jaxpr, consts, args, rules):
    """Return the results of a jaxpr as a list, computed with rules for its primitives.

    consts and args are the values of jaxpr.constvars and jaxpr.invars. Raises Unsupported.
    """
    ### BEGIN SOLUTION
    # A dictionary of its own for each call: an inner jaxpr that is called twice has the same
    # variables both times.
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def value(atom):
        return rules["literal"](atom) if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        values = [value(atom) for atom in equation.invars]
        name, called = equation.primitive.name, inner(equation)
        if called is not None:
            results = interpret(called.jaxpr, called.consts, values, rules)
        elif name in rules:
            results = rules[name](equation, *values)
            if not equation.primitive.multiple_results:
                results = [results]
        else:
            raise Unsupported(name)
        known.update(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]
    ### END SOLUTION

# %% id="test-interpret" role="test" points=6 starter="NotImplementedError"
one, two = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])
found = call("interpreted", "def f(x, y): return (x + y) * 2 - jnp.sin(x)", [one, two], [one, two],
             "numpy", where="host")
expect_close(found, [(one + two) * 2 - np.sin(one)], "four equations in a row come out wrong")
found = call("interpreted", "def f(x, y): return y, x, 3.0, x - y", [one, two], ["x", "y"], "words",
             where="host")
expect(found == ["y", "x", "3", "sub(x, y)"],
       "results that are an input or a literal are wrong, or not in order")
found = call("interpreted", "table = np.arange(3.0)\ndef f(x): return x * table", [one], ["x"],
             "words", where="host")
expect(found == ["mul(x, const0)"], "the values of jaxpr.constvars are not the constants")
TWICE = "g = jax.jit(lambda x, y: x - y)\ndef f(x, y): return g(x, y) * g(y, x)"
found = call("interpreted", TWICE, [one, two], ["x", "y"], "words", where="host")
expect(found == ["mul(sub(x, y), sub(y, x))"],
       "a function that is called twice has the values of one call in the other")
found = call("interpreted", "def f(x): return jnp.tan(x)", [one], [one], "numpy", where="host")
expect(found == {"refused": "tan"}, "a primitive without a rule is not refused with Unsupported(name)")
### BEGIN HIDDEN TESTS
rng = secret_rng()
a, b = (round(float(number), 3) for number in rng.uniform(2, 9, 2))
first, second = rng.normal(size=(2, 6))
found = call("interpreted", f"def f(x, y):\n  unused, low, high = jnp.split(x * {a}, [1, 4])\n  "
             f"return high, low, jnp.maximum(x, {b} - y)",
             [first, second], [first, second], "numpy", where="host")
expected = [(first * a)[4:], (first * a)[1:4], np.maximum(first, b - second)]
expect(len(found) == 3, "wrong when an equation has several results")
for got, wanted in zip(found, expected, strict=True):
    expect_close(got, wanted, "wrong when an equation has several results")
NESTED = f"""
h = jax.jit(lambda x: x * {a})
g = jax.jit(lambda x, y: h(x) + h(h(y)))
@jax.custom_jvp
def k(x): return x - {b}
k.defjvp(lambda values, changes: (k(*values), changes[0]))
def f(x, y):
    return g(y, k(x)), k(g(x, x))
"""
found = call("interpreted", NESTED, [first, second], ["p", "q"], "words", where="host")
expect(found == [
    f"add(mul(q, {a:g}), mul(mul(sub(p, {b:g}), {a:g}), {a:g}))",
    f"sub(add(mul(p, {a:g}), mul(mul(p, {a:g}), {a:g})), {b:g})"],
    "calls inside calls are wrong")
found = call("interpreted", f"g = jax.jit(lambda x: jnp.cos(x) + {a})\ndef f(x): return g(x)", [first],
             ["x"], "words", where="host")
expect(found == {"refused": "cos"}, "a primitive in a function that is called is not refused")
### END HIDDEN TESTS

# %% [markdown] id="one-letter-predict" tags=["predict"]
# ### Predict: one letter
#
# `x` is an array of float32. C++ code computes 0.1 x once as `x * 0.1f` and once as `x * 0.1`, and stores both results
# as float. How many of a thousand results differ?

# %% id="one-letter-guess"
predict("one-letter", "none: both are rounded to float in the end", "all of them", "between a tenth and a half of them")

# %% id="one-letter"
multiply = """extern "C" __global__ void kernel(const float *x, float *f, float *d) {
    int i = threadIdx.x;
    f[i] = x[i] * 0.1f;
    d[i] = x[i] * 0.1;
}"""
x = np.random.default_rng(2).uniform(1, 2, 1000).astype(np.float32)
as_float, as_double = np.empty_like(x), np.empty_like(x)
loaded(multiply, "kernel")((1, 1, 1), (1000, 1, 1), [x, as_float, as_double])
print(f"{(as_float != as_double).sum()} of 1,000 differ, by {np.abs(as_float / as_double - 1).max():.1e} at most")

# %% [markdown] id="one-letter-why" tags=["why"]
# Between a tenth and a half of them differ, in the last digit. `0.1` is a double, so `x` is converted to double, the
# product is computed with twice the digits, and the result is rounded once. `0.1f` is a slightly different number, and
# its product is rounded to float. JAX computes the product with `0.1f`. If a compiler forgets this one letter, its
# results are right to six digits and wrong in the seventh.

# %% [markdown] id="step-2"
# ## 2. Numbers and operations as text
#
# The rules that return C++ need two functions that return text.
#
# `scalar(value, dtype)` returns a number as a C++ expression *of exactly this type*. `0.1` is a double in C++, and
# `float * double` is computed in double, so a float32 constant is `0.1f`. `TYPES` has the C++ types. The header at the
# start of each kernel defines `NAN` and `INFINITY`. Take care with −∞, with `1` for a float, and with the lowest int64.
# Its digits without the minus sign are too large for a literal, so write `(-9223372036854775807ll - 1)`.
#
# `formula(name, texts, dtype, params)` returns the C++ expression of an elementwise operation. The operands are already
# C++ expressions, and `dtype` is the type of the result. `TEMPLATES` has the operations that are straightforward in
# C++. You write those for which C++ and JAX differ:
#
# | primitive | JAX means | C++ |
# |---|---|---|
# | `select_n(which, case0, case1)` | `case0` where `which` is **False** | `?:` has the two cases in the opposite order |
# | `max`, `min` | NaN if one operand is NaN | `fmax` returns the other operand |
# | `integer_pow`, `params["y"]` | x multiplied by itself; y may be negative or 0 | `pow` is slow, and not for integers |
# | `convert_element_type` | conversion to `dtype`; to bool, true if not 0 | a cast |
# | `clamp(low, x, high)` | x, or the bound that x exceeds | |
# | `div` | of integers: rounds towards zero, −7 / 2 is −3 | the same |
#
# For any other name, `raise Unsupported(name)`.
#
# Hints: `hint("scalar")`, `hint("formula")`.

# %% id="for-text" role="setup"
TYPES = {"bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
         "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
         "uint64": "unsigned long long", "float32": "float", "float64": "double"}
HEADER = """#define INFINITY __longlong_as_double(0x7ff0000000000000ll)
#define NAN __longlong_as_double(0x7ff8000000000000ll)
"""
TEMPLATES = {
    "add": "({} + {})", "add_any": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "neg": "(-{})",
    "eq": "({} == {})", "ne": "({} != {})", "lt": "({} < {})", "le": "({} <= {})", "gt": "({} > {})",
    "ge": "({} >= {})", "and": "({} & {})", "or": "({} | {})", "abs": "abs({})", "sqrt": "sqrt({})",
    "exp": "exp({})", "log": "log({})", "sin": "sin({})", "cos": "cos({})", "tanh": "tanh({})",
    "floor": "floor({})", "square": "({0} * {0})", "copy": "{}", "stop_gradient": "{}",
}
YOURS = ("select_n", "max", "min", "integer_pow", "convert_element_type", "clamp", "div")

# %% id="texts" role="setup"
def texts_of(rows):
    """Return the results of the learner's `scalar` and `formula`, for rows of arguments."""
    found = []
    for name, *rest in rows:
        if name == "scalar":
            value, dtype = rest
            found.append(scalar(np.dtype(dtype).type(value), np.dtype(dtype)))
        else:
            texts, dtype, params = rest
            try:
                found.append(formula(name, texts, np.dtype(dtype), params))
            except Unsupported as refused:
                found.append(f"refused: {refused}")
    return found


def evaluated(texts, dtypes, **inputs):
    """Compute C++ expressions on the inputs, with a thread for each element; return an array for each."""
    outputs = [unwritten(len(next(iter(inputs.values()))), dtype) for dtype in dtypes]
    takes = [f"const {TYPES[array.dtype.name]}* {name}_" for name, array in inputs.items()]
    takes += [f"{TYPES[array.dtype.name]}* out{n}" for n, array in enumerate(outputs)]
    lines = [f"const {TYPES[array.dtype.name]} {name} = {name}_[i];" for name, array in inputs.items()]
    # With auto, an expression of the wrong type changes what is computed from it.
    lines += [f"{{ auto result = {text}; out{n}[i] = result; }}" for n, text in enumerate(texts)]
    source = (HEADER + f"extern \"C\" __global__ void kernel({', '.join(takes)}) {{\n"
              "int i = threadIdx.x;\n" + "\n".join(lines) + "\n}\n")
    for array in inputs.values():
        array.setflags(write=False)
    launch_source(source, "kernel", 1, len(outputs[0]), *inputs.values(), *outputs, schedules=0)
    return outputs

# %% id="scalar" role="solution"
def scalar(value, dtype):
    """A number (a NumPy scalar of this dtype) as a C++ expression of exactly this type."""
    ### BEGIN SOLUTION
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        if dtype == np.int64 and value == np.iinfo(np.int64).min:
            return "(-9223372036854775807ll - 1)"
        return f"(({TYPES[dtype.name]}){int(value)}{'ull' if dtype.kind == 'u' else 'll'})"
    if math.isnan(value):
        text = "NAN"
    elif math.isinf(value):
        text = "INFINITY" if value > 0 else "-INFINITY"
    else:
        text = repr(float(value))  # has a point or an exponent, and every digit that matters
    return f"(({TYPES[dtype.name]}){text})"
    ### END SOLUTION

# %% id="test-scalar" role="test" points=2 starter="NotImplementedError"
def expect_scalars(rows, otherwise):
    """Each value, multiplied by a one of its own type, must come back."""
    texts = call("texts_of", [["scalar", np.array(value, dtype)[()], dtype] for value, dtype in rows],
                 where="host")
    dtypes = [dtype for _, dtype in rows]
    ones = {f"one_{dtype}": np.ones(1, dtype) for dtype in set(dtypes)}
    found = evaluated([f"{text} {'&' if dtype == 'bool' else '*'} one_{dtype}"
                       for text, dtype in zip(texts, dtypes, strict=True)], dtypes, **ones)
    for got, (value, dtype) in zip(found, rows, strict=True):
        expect_equal(got, np.array([value], dtype), f"{otherwise} ({dtype})")

expect_scalars([(3, "int32"), (-7, "int64"), (True, "bool"), (False, "bool"), (2.5, "float64"),
                (1.0, "float64"), (1e300, "float64"), (0.1, "float32")], "a number is wrong")
tenth, one = call("texts_of", [["scalar", 0.1, "float32"], ["scalar", 1, "int64"]], where="host")
product, shifted = evaluated([f"{tenth} * x", f"{one} << n"], ["float64", "int64"],
                             x=np.array([3.0], np.float32), n=np.array([40], np.int32))
expect_equal(product, [np.float32(0.1) * np.float32(3.0)],
             "a float32 is written as a double: what it is multiplied with is computed in double")
expect_equal(shifted, [1 << 40], "an int64 is written as an int of 32 bits")
### BEGIN HIDDEN TESTS
rng = secret_rng()
expect_scalars([(float(value), dtype) for dtype in ("float32", "float64")
                for value in (*rng.normal(size=3), *(10.0 ** rng.integers(-30, 30, 3)))],
               "digits are lost")
expect_scalars([(np.nan, "float64"), (np.inf, "float64"), (-np.inf, "float64"), (np.nan, "float32"),
                (-np.inf, "float32")], "NaN or an infinity is wrong")
expect_scalars([(np.iinfo(np.int64).min, "int64"), (np.iinfo(np.int64).max, "int64"),
                (np.iinfo(np.uint64).max, "uint64"), (np.iinfo(np.uint32).max, "uint32"),
                (int(rng.integers(1 << 40)), "int64"), (np.iinfo(np.int32).min, "int32")],
               "a large or low number is wrong")
### END HIDDEN TESTS

# %% id="formula" role="solution"
def formula(name, texts, dtype, params):
    """The C++ expression of an elementwise primitive on operands that are C++ expressions.

    texts are names of variables; dtype is that of the result. Raises Unsupported.
    """
    if name in TEMPLATES:
        return TEMPLATES[name].format(*texts)
    ### BEGIN SOLUTION
    kind = TYPES[dtype.name]
    if name == "select_n" and len(texts) == 3:
        return "({0} ? {2} : {1})".format(*texts)
    if name in ("max", "min"):
        # The second is taken only where a comparison says so: x != x asks for NaN.
        return "({0} {sign} {1} || {0} != {0} ? {0} : {1})".format(
            *texts, sign=">" if name == "max" else "<")
    if name == "integer_pow":
        power = " * ".join([f"({kind})1", *texts * abs(params["y"])])
        return f"({power})" if params["y"] >= 0 else f"(({kind})1 / ({power}))"
    if name == "convert_element_type":
        return f"({texts[0]} != 0)" if dtype.kind == "b" else f"(({kind}){texts[0]})"
    if name == "clamp":
        return "({1} < {0} ? {0} : {1} > {2} ? {2} : {1})".format(*texts)
    if name == "div":
        return "({} / {})".format(*texts)
    raise Unsupported(name)
    ### END SOLUTION

# %% id="test-formula" role="test" points=5 starter="NotImplementedError"
def expect_formulas(rows, **inputs):
    """Formulas on arrays: rows of a primitive, its operands, parameters, and the expected result."""
    texts = call("texts_of", [[name, operands.split(), expected.dtype.name, params]
                              for name, operands, params, expected, _ in rows], where="host")
    for text, (name, *_) in zip(texts, rows, strict=True):
        expect(isinstance(text, str) and not text.startswith("refused: "),
               f"`formula` has no C++ for {name} yet: it {'raises Unsupported' if text else 'returns None'}")
    found = evaluated(texts, [expected.dtype for _, _, _, expected, _ in rows], **inputs)
    for got, (_, _, _, expected, otherwise) in zip(found, rows, strict=True):
        expect_equal(got, expected, otherwise)

x, y = np.array([1.0, 5.0, np.nan, 2.0]), np.array([3.0, -4.0, 7.0, np.nan])
n, m = np.array([-7, 7, 7, 1], np.int32), np.array([2, 2, -2, 5], np.int32)
which = np.array([True, False, True, False])
expect_formulas([
    ("select_n", "which x y", {}, np.where(which, y, x),
     "select_n is read backwards: the first case is for False"),
    ("max", "x y", {}, np.maximum(x, y), "max loses a NaN, which JAX keeps"),
    ("integer_pow", "x", {"y": 3}, x * x * x, "x**3 is wrong"),
    ("integer_pow", "x", {"y": -2}, 1 / (x * x), "x**-2 is wrong"),
    ("div", "n m", {}, np.array([-3, 3, -3, 0], np.int32), "whole numbers are not divided towards zero"),
    ], which=which, x=x, y=y, n=n, m=m)
low, high, value = np.array([-2.0, -2.0, -2.0]), np.array([3.0, 3.0, 3.0]), np.array([-5.0, 7.0, 0.25])
expect_formulas([
    ("clamp", "low value high", {}, np.array([-2.0, 3.0, 0.25]), "clamp is wrong"),
    ("convert_element_type", "value", {}, np.array([-5, 7, 0]), "a cast to an integer is wrong"),
    ("convert_element_type", "zero", {}, np.array([False, True, False]),
     "a cast to bool does not test for “not 0”")],
    low=low, high=high, value=value, zero=np.array([0.0, 0.25, 0.0]))
expect(call("texts_of", [["erf_inv", ["x"], "float64", {}]], where="host") == ["refused: erf_inv"],
       "a primitive that is not in the table is not refused")
### BEGIN HIDDEN TESTS
rng = secret_rng()
x, y = rng.normal(size=(2, 8)) * 100
x[rng.integers(8)] = y[rng.integers(8)] = np.nan
n, m = rng.integers(-99, 99, (2, 8))
m[m == 0] = 1
which = rng.integers(0, 2, 8) == 1
expect_formulas([
    ("min", "x y", {}, np.minimum(x, y), "min is wrong, or loses a NaN"),
    ("max", "y x", {}, np.maximum(x, y), "max is wrong, or loses a NaN"),
    ("max", "n m", {}, np.maximum(n, m), "max of whole numbers is wrong"),
    ("min", "n m", {}, np.minimum(n, m), "min of whole numbers is wrong"),
    ("div", "n m", {}, np.trunc(n / m).astype(int), "whole numbers are not divided towards zero"),
    ("div", "x y", {}, x / y, "floats are not divided as floats"),
    ("integer_pow", "y", {"y": 0}, np.ones(8), "x**0 is not 1"),
    ("integer_pow", "n", {"y": 5}, n**5, "a power of whole numbers is wrong"),
    ("convert_element_type", "z", {}, np.trunc(n / 7).astype(np.int32), "a cast to an integer is wrong"),
    ("convert_element_type", "k", {}, n % 4 != 0, "a cast to bool is wrong for whole numbers"),
    ("convert_element_type", "z", {}, (n / 7).astype(np.float32), "a cast to float32 is wrong"),
    ("select_n", "which n m", {}, np.where(which, m, n), "select_n is wrong"),
    ("clamp", "low n high", {}, np.clip(n, -20, 30), "clamp is wrong")],
    x=x, y=y, n=n, m=m, which=which, z=n / 7, k=n % 4, low=np.full(8, -20), high=np.full(8, 30))
### END HIDDEN TESTS

# %% [markdown] id="step-3"
# ## 3. One kernel for a whole function
#
# If each operation were a kernel, it would write its result to memory, and the next kernel would read it again. So here
# an array is not memory but **a function of its index**: `Array(shape, dtype, element)`. `element(code, index)` returns
# the C++ expression of the element at `index`, which is a list of C++ expressions, one for each axis. The sum of two
# arrays is another such function. The kernel computes nothing until an element is requested.
#
# `code` is the kernel as written so far (`Code`, below). Always get elements with `code.get(x, index)`, which writes
# `double v7 = …;` and returns `"v7"`. A second request for the same element of the same array returns the same name.
# This keeps the text short for programs such as `y = x + x; z = y + y; …`.
#
# - `elementwise(equation, *operands)` is the rule for all primitives that `formula` knows. It returns an `Array` with
#   the type and shape of `equation.outvars[0].aval`. An operand has the result's shape, or no axes, or some axes of
#   length 1. `fitted(index, operand.shape)` is the operand's index.
# - `kernel_of(closed)` returns the text, which is `HEADER` and then `extern "C" __global__ void kernel(…)`. The kernel
#   takes a pointer for each constant, input and result, *in this order*, with `const` for those that it only reads.
#   Thread n computes the n-th element of each result, if there is one. There may be more threads than elements.
#
# `stored("in0", aval)` is the Array in memory at the pointer `in0`. `unravel("thread", shape)` is the index of the n-th
# element, and `ravel(index, shape)` is its inverse. You choose the names of pointers. Do not use JAX's own names for
# variables, because after `dn`, `ie` and `oq` come `do`, `if` and `or`, which are keywords of C++.
#
# The work of the busiest thread is counted. In a kernel with one array as input and one as result, it may make at most
# 4 loads and stores.
#
# <details>
# <summary>What the tests count</summary>
#
# The limit of 4 is for a single element. The grader also launches such a kernel with a single thread for a single
# element. In a launch with many threads, the busiest may do 1.5 times the work of that thread. With more arrays, and in
# the following steps, the busiest thread may make four times the loads and stores that its elements need, and run four
# times the instructions.
#
# </details>
#
# Hints: `hint("elementwise")`, `hint("kernel-of")`.

# %% id="arrays" role="setup"
@dataclass(frozen=True, eq=False)
class Array:
    """An array as a function of its index: element(code, index) is a C++ expression."""

    shape: tuple
    dtype: np.dtype
    element: Callable

# %% id="code" role="setup"
class Code:
    """Writer of the lines of a kernel, from top to bottom."""

    def __init__(self):
        self.lines, self.known, self.count = [], [{}], 0

    def line(self, text):
        self.lines.append("    " * len(self.known) + text)

    def let(self, dtype, text):
        """Declare a variable of this type with the initial value `text`, and return its name."""
        self.count += 1
        self.line(f"{TYPES[np.dtype(dtype).name]} v{self.count} = {text};")
        return f"v{self.count}"

    def get(self, array, index):
        """Return the variable that holds an element, computed once in each block and the blocks inside it."""
        key = array, tuple(index)
        for known in self.known:
            if key in known:
                return known[key]
        name = self.let(array.dtype, array.element(self, list(index)))
        self.known[-1][key] = name
        return name

    @contextmanager
    def block(self, head):
        """Put the lines written inside `with code.block("if (…)"):` in braces, with their own variables."""
        self.line(head + " {")
        self.known.append({})
        yield
        self.known.pop()
        self.line("}")

    @contextmanager
    def loop(self, times):
        """Write a loop: in `with code.loop("12") as n:`, n is the name of a counter that starts at 0."""
        self.count += 1
        with self.block(f"for (long long n{self.count} = 0; n{self.count} < {times}; ++n{self.count})"):
            yield f"n{self.count}"

# %% id="indices" role="setup"
def ravel(index, shape):
    """Return the position in memory of the element at an index, as a C++ expression."""
    text = "0"
    for axis, length in zip(index, shape, strict=True):
        text = axis if text == "0" else f"({text} * {length} + {axis})"
    return text


def unravel(place, shape):
    """Return the index of the element at a position in memory: a C++ expression for each axis."""
    index, stride = [], math.prod(shape)
    for number, length in enumerate(shape):
        stride //= max(length, 1)
        text = place if stride == 1 else f"({place} / {stride})"
        index.append(text if number == 0 else f"({text} % {length})")
    return index


def fitted(index, shape):
    """Return the index of an operand of this shape, given the result's: a scalar has the index [],
    and along an axis of length 1 the index is "0"."""
    return ["0" if length == 1 else i for i, length in zip(index, shape, strict=True)] if shape else []


def stored(pointer, aval):
    """Return the Array of this type and shape in memory at a pointer."""
    return Array(aval.shape, aval.dtype, lambda code, index: f"{pointer}[{ravel(index, aval.shape)}]")

# %% id="rules" role="setup"
def literal(atom):
    """Return the Array of a literal: the rule for literals."""
    value = np.asarray(atom.val, atom.aval.dtype)[()]
    return Array((), atom.aval.dtype, lambda code, index: scalar(value, atom.aval.dtype))


RULES = {"literal": literal}


def rule(*names):
    """Register the function below `@rule("slice")` as the rule of this primitive."""
    def register(function):
        RULES.update(dict.fromkeys(names, function))
        return function
    return register

# %% id="programs" role="setup"
def compiled_text(program, *types):
    """Return the text that `kernel_of` makes of a program, and the program's constants."""
    closed = jax.make_jaxpr(function_of(program))(*types)
    try:
        return kernel_of(closed), [np.asarray(value) for value in closed.consts]
    except Unsupported as refused:
        return {"refused": str(refused)}, []


@cache
def by_jax(program):
    # The result has to be right, not fast, and this option halves the time that XLA takes to compile.
    return jax.jit(function_of(program), compiler_options={"xla_backend_optimization_level": 0})


def source_of(program, *args):
    """Return the CUDA C++ that your compiler makes of a program for such arguments."""
    return call("compiled_text", program, *map(np.zeros_like, args), where="host")[0]

# %% id="one-each" role="setup"
def length(name, least):
    """Draw a length from `least` to a quarter more, anew for each grading, so that nobody knows it before."""
    return int(secret_rng(name).integers(least, least + least // 4 + 1))


def expect_one_each(launched, busiest):
    """Require that no thread makes more accesses or runs more instructions than these two numbers."""
    if launched.counters is not None:  # a real GPU does not tell
        accesses, instructions = busiest
        expect(launched.counters.busiest_accesses <= accesses
               and launched.counters.busiest_instructions <= instructions,
               "one thread does the work of many: each has an element of every result to compute, and no more")

# %% id="comparing" role="setup"
def computed(program, *args, schedules=0):
    """Return what the kernel writes, what jax.jit returns (two lists of arrays), and the launch."""
    source, consts = call("compiled_text", program, *map(np.zeros_like, args), where="host")
    expect(isinstance(source, str), f"refuses '{source['refused']}'" if isinstance(source, dict)
           and "refused" in source else "the compiler returned no text")
    results = jax.tree.leaves(by_jax(program)(*args))
    expected = [np.asarray(result) for result in results]
    outputs = [unwritten(array.shape, array.dtype) for array in expected]
    inputs = [np.array(array) for array in (*consts, *args)]
    for array in inputs:
        array.setflags(write=False)
    most = max(array.size for array in outputs)
    launched = launch_source(source, "kernel", most // 128 + 1, 128, *inputs, *outputs,
                             schedules=schedules)
    return outputs, expected, launched


def same(program, *args, otherwise, schedules=0, busiest=None):
    """Require the results of jax.jit from the kernel: integers exactly, floats up to rounding.

    otherwise is the message if they differ, or a list with one for each result. busiest has the accesses and
    instructions that a thread may make, if the test counts them.
    """
    outputs, expected, launched = computed(program, *args, schedules=schedules)
    most = max(array.size for array in expected)
    if launched.counters is not None:  # a real GPU does not tell
        expect(launched.counters.threads_at_work >= most, "some threads do the work of others: each "
               "has an element of every result to compute and to store, if there is one for it")
    if busiest:
        expect_one_each(launched, busiest)
    reasons = [otherwise] * len(outputs) if isinstance(otherwise, str) else otherwise
    # One size for all results, because a small one may be the difference of numbers as large as another.
    size = max(np.abs(array[np.isfinite(array)]).max(initial=0) if array.dtype.kind == "f" else 0
               for array in expected)
    for got, wanted, otherwise in zip(outputs, expected, reasons, strict=True):
        if wanted.dtype.kind == "f":
            step = 40 * np.finfo(wanted.dtype).eps
            expect_close(got, wanted, otherwise, rtol=step, atol=step * size)
        else:
            expect_equal(got, wanted, otherwise)
    return launched

# %% id="some-arrays" role="setup"
ten, row, square = np.arange(10.0), np.arange(4.0), np.arange(12.0).reshape(3, 4)

# %% id="elementwise" role="solution"
@rule(*TEMPLATES, *YOURS)
def elementwise(equation, *operands):
    """Return the Array of an elementwise equation. An operand may be a scalar."""
    ### BEGIN SOLUTION
    aval = equation.outvars[0].aval

    def element(code, index):
        texts = [code.get(operand, fitted(index, operand.shape)) for operand in operands]
        return formula(equation.primitive.name, texts, aval.dtype, equation.params)

    return Array(aval.shape, aval.dtype, element)
    ### END SOLUTION

# %% id="kernel-of" role="solution"
def kernel_of(closed):
    """Return CUDA C++ with one kernel, called kernel, for a closed jaxpr. Raises Unsupported."""
    ### BEGIN SOLUTION
    jaxpr = closed.jaxpr
    given = [*jaxpr.constvars, *jaxpr.invars]
    takes = [f"const {TYPES[v.aval.dtype.name]}* in{n}" for n, v in enumerate(given)]
    takes += [f"{TYPES[v.aval.dtype.name]}* out{n}" for n, v in enumerate(jaxpr.outvars)]
    arrays = [stored(f"in{n}", v.aval) for n, v in enumerate(given)]
    split = len(jaxpr.constvars)
    results = interpret(jaxpr, arrays[:split], arrays[split:], RULES)
    code = Code()
    code.line("const long long thread = blockIdx.x * (long long)blockDim.x + threadIdx.x;")
    for n, (array, variable) in enumerate(zip(results, jaxpr.outvars, strict=True)):
        shape = variable.aval.shape
        with code.block(f"if (thread < {math.prod(shape)})"):
            code.line(f"out{n}[thread] = {code.get(array, unravel('thread', shape))};")
    body = "\n".join(code.lines)
    return f"{HEADER}extern \"C\" __global__ void kernel({', '.join(takes)}) {{\n{body}\n}}\n"
    ### END SOLUTION

# %% id="test-kernel" role="test" points=6 starter="NotImplementedError"
x, y, n = np.linspace(-2, 2, 7), np.linspace(5, 6, 7), np.arange(7, dtype=np.int32)
same("def f(x, y): return x * y + jnp.sin(x)", x, y,
     otherwise="three operations on two arrays come out wrong")
columns, most = length("columns", 30), length("most", 501)
launched = same("def f(x): return x / 3 - 1", np.ones((5, columns)),
                otherwise="wrong for two axes, or several blocks")
expect_parallel(launched, 5 * columns, rounds=0)
same("def f(x, y): return x * y + jnp.exp(x), x - y", np.linspace(-2, 2, most), np.linspace(5, 6, most),
     busiest=(24, 320), otherwise="two results of hundreds of elements come out wrong")
same("table = np.arange(7.0)\ndef f(x, y, n): return y, x + table, 2.0, jnp.where(n > 3, x, -x), n * 2, n > 3",
     x, y, n, otherwise=[
         "a result that is an input is wrong", "an array that the function uses from outside is wrong",
         "a result that is a literal is wrong", *["wrong when types are mixed"] * 3])
long = "def f(x):\n" + "  x = x + x\n" * 14 + "  return x"
expect(len(source_of(long, x)) < 20_000,
       "an operand that is used twice is computed twice: the text doubles with each operation")
expect(source_of("def f(x): return jnp.sort(x)", x) == {"refused": "sort"},
       "a primitive without a rule is not refused")
### BEGIN HIDDEN TESTS
# Beside a thread that has one element and is alone: two elements are too many for one of several.
rng, columns = secret_rng(), length("other columns", 30)
program, one, many = "def f(x): return x / 7 - 3", rng.normal(size=1), rng.normal(size=(5, columns))
first = launch_source(source_of(program, one), "kernel", 1, 1, one, unwritten(1, np.float64), schedules=0)
launched = launch_source(source_of(program, many), "kernel", 2, 128, many,
                         unwritten(many.shape, np.float64), schedules=0)
expect_parallel(launched, many.size, rounds=0, alone=(first, 1))
same("def f(x): return x * 2", rng.normal(size=33), schedules=1,
     otherwise="wrong for another number of elements")
same("def f(x, y): return y * y, 2 * y", rng.normal(size=5), np.array(rng.normal()),
     otherwise="wrong with an argument without axes")
a, b = rng.normal(size=2).round(3)
letters = ", ".join(f"x{n}" for n in range(130))
same(f"def f({letters}): return x0 + x118 * x117 + {a} * x129 - x44",
     *(rng.normal(size=9) for _ in range(130)), otherwise="wrong with 130 arguments")
same("def f(x): return jnp.isnan(x), x == x", np.array([np.nan, 1.0, np.inf]),
     otherwise="NaN is taken for equal to itself")
# Programs that grow by chance: each line takes two values that are there already.
for name in ("float64", "float32"):
    rng, lines = secret_rng(name), ["v0, v1, v2 = x, y, z * 0.5"]
    choices = ("{0} + {1}", "{0} - {1} * 0.25", "{0} * {1}", "jnp.maximum({0}, {1})", "jnp.tanh({0})",
               "jnp.where({0} < {1}, {0}, {1})", "{0} / (2 + {1}**2)", "jnp.exp(-abs({0}))",
               "jnp.clip({0}, -{2}, {2})", "({0} > {1}).astype({0}.dtype)", "(2 + abs({0}))**-2 * {2}")
    for n, chosen in enumerate(rng.permutation(len(choices)), 3):
        one, two = rng.integers(0, n, 2)
        text = choices[chosen].format(f"v{one}", f"v{two}", round(float(rng.uniform(1, 2)), 2))
        lines.append(f"v{n} = jnp.clip({text}, -50, 50)")
    program = "def f(x, y, z):\n  " + "\n  ".join(lines) + "\n  return " + " + ".join(
        f"v{n}" for n in range(3, 3 + len(choices)))
    shape = (int(rng.integers(1, 9)), int(rng.integers(1, 30)))
    same(program, *rng.uniform(0.5, 2, (3, *shape)).astype(name),
         otherwise="a longer program comes out wrong")
same(f"def f(x): return x * {a}", rng.normal(size=9).astype(np.float32),
     otherwise="a constant is not of the type of what it is multiplied with")
### END HIDDEN TESTS

# %% [markdown] id="views-picture-predict" tags=["predict"]
# ### Predict: four views in a row
#
# `x` has three rows of four, with the numbers 0 to 11. `x.T[::-1, 1:]` transposes it, turns it upside down and drops
# its first column. Which number is at `[0, 0]` of the result?

# %% id="views-picture-guess"
predict("views-picture", "4", "7", "11")

# %% id="views-picture"
import matplotlib.pyplot as plt

from gpucourse.views.picture import COLOURS, INK, Picture, canvas


def draw_views(x, views):
    """Draw each view of `x` as squares with the colour and the number of the element that they show."""
    figure, columns = canvas(8, 2.2, len(views))
    for axes, (name, view) in zip(columns, views.items(), strict=True):
        for place, number in np.ndenumerate(view):
            row, column = (0, *place)[-2:]
            axes.add_patch(plt.Rectangle((column, row), 1, 1, fc=COLOURS[int(number) // 4], ec=INK))
            axes.text(column + 0.5, row + 0.5, int(number), ha="center", va="center", color=INK)
        axes.set(xlim=(0, 4), ylim=(4, 0), aspect="equal", title=name)
        axes.axis("off")
    words = "; ".join(f"{name} is {np.asarray(view).tolist()}" for name, view in views.items())
    return Picture(figure, f"Squares with the numbers of the elements that they show: {words}.")


x = np.arange(12).reshape(3, 4)
draw_views(x, {"x": x, "x.T": x.T, "x.T[::-1]": x.T[::-1], "x.T[::-1, 1:]": x.T[::-1, 1:]})

# %% [markdown] id="views-picture-why" tags=["why"]
# The number is 7. Read the expression from its end. `[0, 0]` of the slice is `[0, 1]` of the reversed array, which is
# `[3, 1]` of the transposed array, which is `[1, 3]` of `x`. Each step translated an index, and no number was copied.
# The rule of a view has to write only this translation.

# %% [markdown] id="step-4"
# ## 4. Views
#
# The element of a transposed array at `[i, j]` is the element of the array at `[j, i]`. Nothing is computed or copied,
# because the rule of a view only translates an index. Write the rules of six kinds of views:
#
# | primitive | parameters | the operand's index |
# |---|---|---|
# | `broadcast_in_dim` | `broadcast_dimensions` | its axis d is the result's axis `broadcast_dimensions[d]`; an axis of length 1 always has the index `"0"` |
# | `transpose` | `permutation` | the result's axis n is its axis `permutation[n]` |
# | `slice` | `start_indices`, `strides` (None: all 1) | start + index · stride |
# | `rev` | `dimensions` | counted from the other end along these dimensions |
# | `reshape`, `squeeze`, `expand_dims` | | that of the element at the same position in memory: `unravel(ravel(…))` |
# | `concatenate` | `dimension` | an index into the one operand that contains the element |
#
# `concatenate` is different, because only the thread knows which operand to read. An expression `a ? b : c` does not
# work, because `code.get` writes the loads of both operands before the expression, and one of them would be outside its
# array. Declare a variable with `code.let`, and set it in a `code.block("if (…)")` for each operand.
#
# Hints: `hint("views")`, `hint("concatenate")`.

# %% id="views" role="solution"
@rule("broadcast_in_dim", "transpose", "slice", "rev", "reshape", "squeeze", "expand_dims")
def view(equation, operand):
    """Return the Array of a view: the operand's elements, with a translated index."""
    name, params, aval = equation.primitive.name, equation.params, equation.outvars[0].aval

    def index_of(index):
        """Return the operand's index, given the result's."""
        ### BEGIN SOLUTION
        if name == "broadcast_in_dim":
            return ["0" if length == 1 else index[axis] for length, axis in
                    zip(operand.shape, params["broadcast_dimensions"], strict=True)]
        if name == "transpose":
            return [index[params["permutation"].index(axis)] for axis in range(len(index))]
        if name == "slice":
            strides = params["strides"] or [1] * len(index)
            return [f"({start} + {i} * {step})" for i, start, step in
                    zip(index, params["start_indices"], strides, strict=True)]
        if name == "rev":
            return [f"({length - 1} - {i})" if axis in params["dimensions"] else i
                    for axis, (i, length) in enumerate(zip(index, operand.shape, strict=True))]
        return unravel(ravel(index, aval.shape), operand.shape)
        ### END SOLUTION

    return Array(aval.shape, aval.dtype, lambda code, index: code.get(operand, index_of(index)))

# %% id="concatenate" role="solution"
@rule("concatenate")
def concatenate(equation, *operands):
    """Return the Array of the operands, one after the other along an axis."""
    axis, aval = equation.params["dimension"], equation.outvars[0].aval

    def element(code, index):
        ### BEGIN SOLUTION
        result, begin = code.let(aval.dtype, "0"), 0
        for operand in operands:
            end = begin + operand.shape[axis]
            with code.block(f"if ({index[axis]} >= {begin} && {index[axis]} < {end})"):
                inside = [*index[:axis], f"({index[axis]} - {begin})", *index[axis + 1:]]
                code.line(f"{result} = {code.get(operand, inside)};")
            begin = end
        return result
        ### END SOLUTION

    return Array(aval.shape, aval.dtype, element)


@rule("iota")
def iota(equation):
    """Return the Array 0, 1, 2, … along an axis. (This rule is given.)"""
    aval = equation.outvars[0].aval
    return Array(aval.shape, aval.dtype, lambda code, index: index[equation.params["dimension"]])

# %% id="test-views" role="test" points=5 starter="NotImplementedError"
same("def f(x, y, z): return x + y, x * z[:, None], 1 + jnp.ones_like(x)", square, row, np.arange(3.0),
     otherwise=["a broadcast along the first axis is wrong", "a broadcast along the last axis is wrong",
                "a broadcast of a literal is wrong"])
same("def f(x, y): return x.T, jnp.transpose(y, (1, 2, 0))", square, np.arange(27.0).reshape(3, 3, 3),
     otherwise=["a transpose is wrong", "axes are permuted the other way round"])
# x[1:, ::2] in words that an older JAX, too, makes a slice and not a gather
same("def f(x): return lax.slice_in_dim(x[1:], 0, None, 2, axis=1), x[::-1]", square,
     otherwise=["a slice is wrong", "a reversal is wrong"])
same("def f(x): return x.reshape(2, 6), x[1]", square,
     otherwise=["a reshape is wrong", "a row of a matrix is wrong"])
same("def f(x, y): return x[1:] - x[:-1], 2 * x[:, :1] + y", square, row,
     otherwise="views inside of an expression are wrong")
columns = length("columns", 31)
same("def f(x, y): return x[1:] - x[:-1], 2 * x[:, :1] + y", np.arange(20.0 * columns).reshape(20, -1),
     np.arange(1.0 * columns),
     busiest=(24, 320), otherwise="views of a larger array are wrong")
### BEGIN HIDDEN TESTS
rng = secret_rng()
low, high, step = int(rng.integers(0, 4)), int(rng.integers(9, 12)), int(rng.integers(2, 4))
cube = rng.normal(size=(4, 12, 5))
same(f"def f(x): return lax.slice_in_dim(x[..., ::-1], {low}, {high}, {step}, 1), x[::-1, :, 1:4] * 2", cube,
     otherwise="a slice of three axes is wrong")
same("def f(x): return [jnp.transpose(x, order)[1] for order in ((2, 0, 1), (1, 2, 0), (0, 2, 1))]", cube,
     otherwise="a transpose is wrong")
same("def f(x, y): return (x[None] + y[:, None, None]).reshape(-1, 5), y.reshape(1, 3, 1) * x[:3][None]",
     cube[:, 0], rng.normal(size=3), otherwise="broadcasts of several axes are wrong")
same("def f(x): return lax.slice_in_dim(x.reshape(6, 2, 20).T.reshape(-1), 0, None, 7)", cube,
     otherwise="views of views are wrong")
### END HIDDEN TESTS

# %% id="test-concatenate" role="test" points=3 starter="NotImplementedError"
same("def f(x, y): return jnp.concatenate([x, y])", np.arange(3.0), np.arange(40.0, 45.0), schedules=1,
     otherwise="two concatenated arrays are wrong")
same("def f(x, y): return jnp.concatenate([x, y[:, :1], x * 2], axis=1)", square, square,
     otherwise="wrong along the second axis, or with three arrays")
n = length("longer", 201)
same("def f(x, y): return jnp.concatenate([x, y, x * y])", np.arange(1.0 * n), np.arange(n, 2.0 * n),
     busiest=(16, 240), otherwise="wrong for longer arrays")
### BEGIN HIDDEN TESTS
rng = secret_rng()
n, m = (int(length) for length in rng.integers(2, 60, 2))
same(f"def f(x, y): return jnp.concatenate([x[{n // 2}:], y, jnp.zeros(2), x[:1] * y[-1:]])",
     rng.normal(size=n), rng.normal(size=m), otherwise="wrong for views and expressions")
same("def f(x, y): return jnp.roll(x, 5, axis=0) - jnp.concatenate([y[:, None], y[:, None] ** 2], axis=1)",
     rng.normal(size=(n, 2)), rng.normal(size=n), otherwise="roll, which concatenates, is wrong")
### END HIDDEN TESTS

# %% [markdown] id="step-6"
# ## 5. Reductions
#
# One thread computes an element of a sum along an axis, with a loop over that axis. `reduction` is the rule of
# `reduce_sum`, `reduce_max`, `reduce_min`, `reduce_prod`, `reduce_and` and `reduce_or`. The parameter `axes` lists the
# axes that disappear. The operand's index is the result's, with the loop variables inserted at these axes. `REDUCTIONS`
# has the starting value and the formula that combines two elements. Use your own `formula`, because its `max` keeps
# NaN.
#
# Each thread computes its sum without help from others. For a few long sums, the tree of “Trees and barriers” would be
# faster, but for the sum of each row of a matrix, one thread for each row is the usual choice.
#
# Hints: `hint("reduction")`.

# %% id="for-reductions" role="setup"
def lowest(dtype):
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min


def highest(dtype):
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


#
REDUCTIONS = {
    "reduce_sum": (lambda dtype: 0, "add"), "reduce_prod": (lambda dtype: 1, "mul"),
    "reduce_max": (lowest, "max"), "reduce_min": (highest, "min"),
    "reduce_and": (lambda dtype: True, "and"), "reduce_or": (lambda dtype: False, "or"),
}

# %% id="reduction" role="solution"
@rule(*REDUCTIONS)
def reduction(equation, operand):
    """Return the Array of a reduction along equation.params["axes"]."""
    aval, axes = equation.outvars[0].aval, equation.params["axes"]
    begin, combine = REDUCTIONS[equation.primitive.name]

    def element(code, index):
        ### BEGIN SOLUTION
        total = code.let(aval.dtype, scalar(aval.dtype.type(begin(aval.dtype)), aval.dtype))
        kept = iter(index)
        with code.loop(math.prod(operand.shape[axis] for axis in axes)) as number:
            along = dict(zip(axes, unravel(number, [operand.shape[axis] for axis in axes]),
                             strict=True))
            value = code.get(operand, [along[axis] if axis in along else next(kept)
                                       for axis in range(len(operand.shape))])
            code.line(f"{total} = {formula(combine, [total, value], aval.dtype, {})};")
        return total
        ### END SOLUTION

    return Array(aval.shape, aval.dtype, element)

# %% id="test-reduction" role="test" points=4 starter="NotImplementedError"
same("def f(x): return x.sum(), x.sum(axis=0), x.sum(axis=1)", square, otherwise="a sum is wrong")
same("def f(x): return x.max(axis=1), x.min(axis=0)", -1 - square,
     otherwise="the largest of negative numbers is wrong, or the least")
same("def f(x): return x.max()", np.array([1.0, np.nan, 3.0]), otherwise="max loses a NaN")
same("def f(x): return x.sum(), x.prod()", np.zeros(0), otherwise="the sum or product of no elements is wrong")
same("def f(x): return x.sum(axis=1), x.max(axis=1)", np.arange(8.0 * length("rows", 301)).reshape(-1, 8),
     busiest=(72, 800),
     otherwise="the sums of many rows are wrong")
### BEGIN HIDDEN TESTS
rng = secret_rng()
cube = rng.normal(size=tuple(int(length) for length in rng.integers(2, 7, 3)))
same("def f(x): return x.sum(axis=(0, 2)), x.max(axis=1), x.prod(axis=2), x.min(axis=(1, 2)), x.mean()",
     cube, otherwise="wrong for several axes")
whole = rng.integers(-99, 99, (4, 9)).astype(np.int32)
same("def f(x): return x.max(axis=0), x.min(), x.sum(axis=1), (x > 50).any(axis=1), (x > -99).all()", whole,
     otherwise="wrong for whole numbers or truth values")
same("""def f(x):
  shifted = jnp.exp(x - x.max(axis=1, keepdims=True))
  return shifted / shifted.sum(axis=1, keepdims=True)""", rng.normal(size=(5, 8)).astype(np.float32),
     otherwise="softmax, a reduction inside of an expression, is wrong", schedules=1)
### END HIDDEN TESTS

# %% [markdown] id="traced-predict" tags=["predict"]
# ### Predict: how often does Python run?
#
# The function below prints a line whenever Python runs it. It is called with `jax.jit` five times: with three ones,
# three twos, four ones, three ones in float32, and three ones again. How many lines are printed?

# %% id="traced-guess"
predict("traced", "1", "3", "5")

# %% id="traced"
@jax.jit
def spoken(x):
    print("Python runs, for", jax.typeof(x))
    return 2 * x


for x in (np.ones(3), 2 * np.ones(3), np.ones(4), np.ones(3, np.float32), np.ones(3)):
    spoken(x)

# %% [markdown] id="traced-why" tags=["why"]
# It prints three lines, one for each combination of shape and type. The compiled code does not depend on the values, so
# the second and the last call reuse the code of the first. A `print` in a jitted function shows when JAX traces it, not
# when you call it.

# %% [markdown] id="step-8"
# ## 6. `jit`
#
# Only the decorator is still missing. `jit(function)` returns a function that takes and returns *trees*, which are
# tuples, lists and dictionaries of arrays. `jax.tree.flatten` turns a tree into a list of arrays, and
# `jax.tree.unflatten` rebuilds it.
#
# - The first call traces (`jax.make_jaxpr(function, return_shape=True)(*args)`), compiles with `kernel_of` and stores
#   the result. Another call **with the same key** must neither trace nor compile again. The key must contain everything
#   on which the text depends: the tree of the arguments, and the shape, dtype and weak type of each array. All three
#   are in `jax.typeof(leaf)`.
# - `run(text, inputs, avals)` launches the kernel in a text. The inputs are the constants and the arguments, and the
#   avals are the types of the results (`closed.out_avals`). Each call must make only one launch.
# - If JAX itself is tracing (in `jax.grad`, `jax.vmap` or `jax.jit`), the arguments are not numbers, and
#   `isinstance(leaf, jax.core.Tracer)` is true. In that case just call the function, so that JAX sees its operations.
#
# Hints: `hint("jit")`.

# %% id="running" role="setup"
def run(text, inputs, avals):
    """Launch the kernel in a text on these inputs, and return its results as JAX arrays."""
    results = [np.empty(aval.shape, aval.dtype) for aval in avals]
    most = max((array.size for array in results), default=0)
    loaded(text, "kernel")((most // 128 + 1,), (128,), [*map(np.asarray, inputs), *results])
    return [jnp.asarray(array) for array in results]


def session(program, calls):
    """Return the results of a program's function under the learner's jit, for each of these calls."""
    function = jit(function_of(program))
    return [jax.tree.map(np.asarray, function(*args)) for args in calls]


def compilations(program, calls):
    """Return the number of times that such calls call `kernel_of`."""
    made, compiler = [], kernel_of

    def counted(closed):
        made.append(closed)
        return compiler(closed)

    globals()["kernel_of"] = counted
    try:
        session(program, calls)
    finally:
        globals()["kernel_of"] = compiler
    return len(made)


def once(program, *args):
    """Return the result of a single call."""
    return session(program, [args])[0]


def transformed(program, *args):
    """Return the results of JAX's transformations of a function f that the learner's jit made."""
    namespace = {"jax": jax, "jnp": jnp, "lax": jax.lax, "np": np, "jit": jit}
    exec(program, namespace)
    return jax.tree.map(np.asarray, namespace["g"](*args))

# %% id="jit" role="solution"
def jit(function):
    """Return the function, compiled once for each tree, shape and type of its arguments."""
    ### BEGIN SOLUTION
    made = {}

    def compiled(*args):
        leaves, tree = jax.tree.flatten(args)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return function(*args)
        key = tree, *map(jax.typeof, leaves)
        if key not in made:
            closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
            made[key] = kernel_of(closed), closed, jax.tree.structure(shapes)
        text, closed, results = made[key]
        leaves = [np.asarray(leaf, aval.dtype)
                  for leaf, aval in zip(leaves, closed.in_avals, strict=True)]
        return jax.tree.unflatten(results, run(text, [*closed.consts, *leaves], closed.out_avals))

    return compiled
    ### END SOLUTION

# %% id="test-jit" role="test" points=6 starter="NotImplementedError"
# Counts its traces, and returns them in its result: whoever traces again computes something else.
COUNTED = "traces = []\ndef f(x):\n  traces.append(1)\n  return x * 10 + len(traces)"
three = np.arange(3.0)
found = call("session", COUNTED, [[three], [three + 1], [three * 2]])
expect_equal(found[0], three * 10 + 1, "the first call is wrong")
expect_equal(found[1], three * 10 + 11, "a call with other numbers of the same type is traced again")
found = call("session", COUNTED, [[three], [np.arange(3, dtype=np.float32)], [np.arange(4.0)], [three]])
expect(found[1].dtype == np.float32,
       "what was compiled for one type is used for another: the cache's key lacks the dtype")
expect_equal(found[2], np.arange(4.0) * 10 + 3, "wrong, or not traced, for another shape")
expect_equal(found[3], three * 10 + 1, "what was compiled first is forgotten")
made = call("compilations", COUNTED, [[three], [three + 1], [three]], where="host")
expect(made > 0, "what is launched does not come from kernel_of")
expect(made == 1, "three calls with the same types compile more than once")
expect(call("compilations", COUNTED, [[three], [np.arange(4.0)], [three]], where="host") == 2,
       "what was compiled first is forgotten")
TREE = "def f(p, x): return {'sum': p['a'] * x + p['b'], 'both': (x, [p['b']])}"
found = call("once", TREE, {"a": three, "b": three + 5}, three)
expect(isinstance(found, dict) and set(found) == {"sum", "both"}, "a dictionary does not come back as one")
call("once", "def f(x, y): return x * y, x + y", np.ones(500), np.ones(500), schedules=0)
for launched in launches():
    expect_one_each(launched, (16, 200))
expect_equal(found["sum"], three * three + three + 5, "a tree of arguments comes out wrong")
GRADIENT = "f = jit(lambda x: (x * x * x).sum())\ng = jax.grad(f)"
expect_close(call("transformed", GRADIENT, three, where="host"), 3 * three**2,
             "jax.grad of a compiled function is wrong")
### BEGIN HIDDEN TESTS
rng = secret_rng()
x, y = rng.normal(size=(2, 9))
KEYS = "traces = []\ndef f(p):\n  traces.append(1)\n  " \
       "return (p['a'] if isinstance(p, dict) else p[0]) * 2 + len(traces)"
found = call("session", KEYS, [[{"a": x}], [(x,)], [[x]], [{"a": y}], [(y,)]])
for got, wanted in zip(found, (x * 2 + 1, x * 2 + 2, x * 2 + 3, y * 2 + 1, y * 2 + 2), strict=True):
    expect_close(got, wanted, "trees of another kind are taken for each other, or traced again")
found = call("session", "def f(x, n): return x * n, n", [[x, 2], [x, 2.5], [x, 7]])
for got, n in zip(found, (2, 2.5, 7), strict=True):
    expect_close(got[0], x * n, "numbers of Python as arguments come out wrong")
expect(np.asarray(found[0][1]).dtype == np.int64, "a whole number does not come back as one")
a = round(float(rng.uniform(1, 2)), 3)
found = call("once", f"table = np.arange(9.0)\ndef f(x): return jnp.roll(x, 1) * table + {a}", x,
             exchanged=[(x, y)])
expect_close(found, np.roll(y, 1) * np.arange(9.0) + a,
             "the result is not computed by the kernel, or the constants are wrong")
found = call("transformed", f"f = jit(lambda x, y: jnp.sin(x) * y + {a})\ng = jax.vmap(jax.grad(f), (0, None))",
             x, np.float64(a), where="host")
expect_close(found, np.cos(x) * a, "vmap of grad of a compiled function is wrong")
### END HIDDEN TESTS

# %% [markdown] id="step-9"
# ## 7. The density of sea water
#
# UNESCO's equation of state, EOS-80, gives the density of sea water for salinity, temperature and pressure, in some 150
# operations on three arrays. Ocean models contain it. With NumPy each operation is a pass over memory. With your
# compiler there is one launch, in which each warp reads memory three times, once for each argument. The test counts
# these reads in the launch whose values it compares, and the grader replaces the arguments on their way to the device.
#
# There is nothing to write here. If a test fails, its message names the step to correct.

# %% id="the-ocean" role="setup"
# Fofonoff and Millard (1983), UNESCO technical papers in marine science 44; pressure in bar.
SEA_WATER = """
def poly(x, *coefficients):
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total

def f(s, t, p):
    root = jnp.sqrt(s)
    surface = (poly(t, 999.842594, 6.793952e-2, -9.095290e-3, 1.001685e-4, -1.120083e-6, 6.536332e-9)
               + s * (poly(t, 8.24493e-1, -4.0899e-3, 7.6438e-5, -8.2467e-7, 5.3875e-9)
                      + root * poly(t, -5.72466e-3, 1.0227e-4, -1.6546e-6) + s * 4.8314e-4))
    bulk = (poly(t, 19652.21, 148.4206, -2.327105, 1.360477e-2, -5.155288e-5)
            + s * (poly(t, 54.6746, -0.603459, 1.09987e-2, -6.1670e-5)
                   + root * poly(t, 7.944e-2, 1.6483e-2, -5.3009e-4)))
    linear = (poly(t, 3.239908, 1.43713e-3, 1.16092e-4, -5.77905e-7)
              + s * (poly(t, 2.2838e-3, -1.0981e-5, -1.6078e-6) + root * 1.91075e-4))
    quadratic = (poly(t, 8.50935e-5, -6.12293e-6, 5.2787e-8)
                 + s * poly(t, -9.9348e-7, 2.0816e-8, 9.1697e-10))
    return surface / (1 - p / (bulk + p * (linear + p * quadratic)))
"""

# %% id="test-ocean" role="test" points=2 starter="NotImplementedError"
# Fofonoff and Millard's own check values.
salinity, temperature, pressure = np.array([[0.0, 35.0, 35.0], [5.0, 5.0, 25.0], [0.0, 0.0, 1000.0]])
density = call("once", SEA_WATER, salinity, temperature, pressure)
expect_close(density, [999.96675, 1027.67547, 1062.53817], "the density of sea water is wrong", rtol=1e-8)
rng = secret_rng("sea")
n = length("sea", 1025)
water = [rng.uniform(low, high, n) for low, high in ((0, 40), (0, 30), (0, 1000))]
call("once", SEA_WATER, *water, schedules=0)
expect(len(launches()) == 1, "the density is not computed in one launch: a kernel for each operation?")
# Counted where the values are compared: no load that is there for the count alone.
counted = same(SEA_WATER, *water, busiest=(16, 400), otherwise="the density of sea water is wrong").counters
if counted is not None:  # a real GPU does not tell
    expect(counted.global_load_requests == 3 * math.ceil(n / 32),
           "an argument is read more than once by a thread, or less")
### BEGIN HIDDEN TESTS
rng = secret_rng("hidden")
water = [rng.uniform(low, high, (7, 11)) for low, high in ((0, 40), (0, 30), (0, 1000))]
same(SEA_WATER, *water, otherwise="the density of sea water is wrong")
others = [rng.uniform(low, high, (7, 11)) for low, high in ((0, 40), (0, 30), (0, 1000))]
found = call("once", SEA_WATER, *water, schedules=0, exchanged=list(zip(water, others, strict=True)))
expect_close(found, by_jax(SEA_WATER)(*others), "the density is not that of the arguments that are on "
             "the device: your kernel has to compute it, not copy what the host computed", rtol=1e-9)
### END HIDDEN TESTS

# %% [markdown] id="your-kernel"
# ## Your kernel beside XLA's
#
# The next cell shows what `jax.jit` makes of the same program, and then your kernel. XLA's program is one *fusion*, and
# your kernel fuses the operations in the same way.

# %% id="beside-xla"
water = [jnp.ones(4), jnp.ones(4), jnp.ones(4)]
hlo = jax.jit(function_of(SEA_WATER)).lower(*water).compile().as_text()
print(hlo[hlo.index("ENTRY"):][:600])
try:
    print(source_of(SEA_WATER, *map(np.asarray, water))[:1200])
except NotImplementedError:
    print("Your kernel appears here once you have written everything.")

# %% [markdown] id="further" tags=["further"]
# The project ends here: your compiler makes one kernel of a real formula. The steps from here on go **further**, and each has
# points of its own. Do them now, or go on with the next lesson and come back later.

# %% [markdown] id="step-5"
# ## 8. Windows
#
# If `i` is known only at run time, `x[i:i + 3]` is a `dynamic_slice`. Its operands are the array and, for each axis, a
# scalar that says where the window begins. If a window would extend beyond the end, it is **moved back** until it fits,
# because JAX clamps the beginning to `0 … length - size`. The sizes, `slice_sizes`, are those of the result.
#
# `x.at[i].set(y)` and `x.at[i].add(y)` are `scatter` and `scatter-add`. They take an array of beginnings and an array
# of updates, with one window for each beginning. JAX's arrays never change, so the result is a new array. Its elements
# are those of the operand, except where a window covers them. **Let each thread compute one element of the result.**
# Then no two threads write to the same element, even if an index is repeated. Loop over all windows, and if one covers
# the element, set the element to the update or add it. Ignore a window that is not completely inside the array, because
# JAX does not move windows here.
#
# `windows(equation, operand, indices, updates)` unpacks JAX's arguments. `count` is the number of windows, and `sizes`
# has a number for each axis of the operand. `start(code, number)` returns where window `number` begins, as an
# expression for each axis, and `update(code, number, offsets)` returns the element of the updates at these offsets in
# the window.
#
# Hints: `hint("dynamic-slice")`, `hint("scatter")`.

# %% id="for-windows" role="setup"
class windows:
    """The windows of a scatter. Raises Unsupported for kinds that this compiler can't translate."""

    def __init__(self, equation, operand, indices, updates):
        numbers = equation.params["dimension_numbers"]
        mode = equation.params["mode"]
        if numbers.operand_batching_dims or mode == jax.lax.GatherScatterMode.CLIP:
            raise Unsupported(equation.primitive.name)
        self.indices, self.updates, self.numbers = indices, updates, numbers
        self.axes = len(operand.shape)
        inserted = numbers.inserted_window_dims
        self.inside = dict(zip([axis for axis in range(self.axes) if axis not in inserted],
                               numbers.update_window_dims, strict=True))
        self.sizes = [updates.shape[self.inside[axis]] if axis in self.inside else 1
                      for axis in range(self.axes)]
        self.shape = indices.shape[:-1]
        self.count = math.prod(self.shape)

    def start(self, code, number):
        """Return the beginning of a window: an expression for each axis of the operand."""
        start, at = ["0"] * self.axes, unravel(number, self.shape)
        for place, axis in enumerate(self.numbers.scatter_dims_to_operand_dims):
            start[axis] = code.get(self.indices, [*at, str(place)])
        return start

    def update(self, code, number, offsets):
        """Return the element of the updates at these offsets in a window."""
        index = [""] * len(self.updates.shape)
        for axis, there in self.inside.items():
            index[there] = offsets[axis]
        rest = iter(unravel(number, self.shape))
        return code.get(self.updates, [text or next(rest) for text in index])

# %% id="dynamic-slice" role="solution"
@rule("dynamic_slice")
def dynamic_slice(equation, operand, *begin):
    """Return the Array of a window into an array; begin has a scalar for each axis."""
    aval = equation.outvars[0].aval

    def element(code, index):
        ### BEGIN SOLUTION
        inside = []
        for i, start, length, size in zip(index, begin, operand.shape, aval.shape, strict=True):
            first = f"(long long){code.get(start, [])}"
            clamped = f"({first} < 0 ? 0 : {first} > {length - size} ? {length - size} : {first})"
            inside.append(f"({i} + {clamped})")
        return code.get(operand, inside)
        ### END SOLUTION

    return Array(aval.shape, aval.dtype, element)

# %% id="test-dynamic-slice" role="test" points=3 starter="NotImplementedError"
WINDOW = "def f(x, i): return lax.dynamic_slice(x, (i,), (3,))"
same(WINDOW, ten, np.array(4), otherwise="a window in the middle is wrong")
same(WINDOW, ten, np.array(9), otherwise="a window that reaches beyond the end is not moved back")
same("def f(x, i): return x[i]", ten, np.array(-2), otherwise="x[-2] is wrong")
same(WINDOW.replace("3", str(length("wide", 301))), np.arange(400.0), np.array(70), busiest=(12, 200),
     otherwise="a wide window is wrong")
### BEGIN HIDDEN TESTS
rng = secret_rng()
table = rng.normal(size=(9, 14))
for i, j in ((int(rng.integers(3)), int(rng.integers(3))), (8, 13), (-100, 100)):
    same("def f(x, i, j): return lax.dynamic_slice(x * 2, (i, j + 1), (4, 5)) + 1", table,
         np.array(i, np.int32), np.array(j, np.int32),
         otherwise="a window of two axes is wrong, or not moved to where it fits")
### END HIDDEN TESTS

# %% id="scatter" role="solution"
@rule("scatter", "scatter-add", "scatter_add")
def scatter(equation, operand, indices, updates):
    """Return the Array of the operand with the updates set in its windows, or added to them."""
    aval, add = equation.outvars[0].aval, "add" in equation.primitive.name
    window = windows(equation, operand, indices, updates)

    def element(code, index):
        ### BEGIN SOLUTION
        result = code.let(aval.dtype, code.get(operand, index))
        with code.loop(window.count) as number:
            offsets, conditions = [], []
            for i, start, size, length in zip(index, window.start(code, number), window.sizes,
                                              operand.shape, strict=True):
                offsets.append(f"({i} - {start})")
                conditions.append(f"{start} >= 0 && {start} <= {length - size} "
                                  f"&& {i} >= {start} && {i} < {start} + {size}")
            with code.block(f"if ({' && '.join(conditions)})"):
                update = window.update(code, number, offsets)
                code.line(f"{result} {'+=' if add else '='} {update};")
        return result
        ### END SOLUTION

    return Array(aval.shape, aval.dtype, element)

# %% id="test-scatter" role="test" points=5 starter="NotImplementedError"
same("def f(x): return x.at[2].set(7.0), x", ten, schedules=1,
     otherwise="one element that is set comes out wrong, or the others, or the input")
same("def f(x, y): return x.at[3:6].add(y)", ten, np.array([1.0, 10.0, 100.0]),
     otherwise="a window that is added to comes out wrong")
same("def f(x, i): return x.at[i].add(1.0)", np.zeros(5), np.array([1, 3, 1, 1]),
     otherwise="an index that occurs three times does not count three times")
same("def f(x, i): return x.at[i].set(9.0)", ten, np.array([10, 2]),
     otherwise="an update outside the array has an effect")
same("def f(x, i, y): return x.at[i].add(y)", np.zeros(length("longer", 401)), np.arange(0, 400, 40), np.ones(10),
     busiest=(56, 800), otherwise="ten windows in a longer array come out wrong")
### BEGIN HIDDEN TESTS
rng = secret_rng()
n = int(rng.integers(20, 40))
places = rng.integers(0, n, 50)
same("def f(x, i, y): return x.at[i].add(y * 2)", rng.normal(size=n), places, rng.normal(size=50),
     otherwise="indices that are repeated come out wrong")
same("def f(x, i): return x.at[i].add(1)", np.zeros(n, np.int32), np.array([n, n + 5, -n - 1, -1, 0]),
     otherwise="indices out of bounds, or negative ones, come out wrong")
table = rng.normal(size=(n, 6))
same("def f(x, y): return x.at[1:-1, 2:4].set(y[:, None] * 2)", table, rng.normal(size=n - 2),
     otherwise="a window of two axes is wrong")
same("def f(x, i, y): return x.at[i].add(y), x.at[:, 1].set(0.0), x.at[2, i].set(1.0)", table,
     np.array([3, 0, 3]), rng.normal(size=(3, 6)), otherwise="rows or columns as windows are wrong")
START = "def f(x, i, y): return lax.scatter_add(x, i[:, None], y, lax.ScatterDimensionNumbers((1,), (), (0,)))"
same(START, rng.normal(size=n), np.array([n - 2, 0, -1, n - 3]), rng.normal(size=(4, 3)),
     otherwise="a window that is only partly inside the array is not ignored")
### END HIDDEN TESTS

# %% [markdown] id="step-7"
# ## 9. Loops
#
# `lax.scan(body, carry, xs)` loops over the rows of `xs`. `body(carry, x)` returns the next carry and a row of results.
# The equation has the operands *constants, carries, xs* in this order (`scan_parts` counts them). Its parameters are a
# closed jaxpr `params["jaxpr"]` with the same three kinds of inputs, `params["length"]` and `params["reverse"]`. If
# `reverse` is true, the loop runs from the last row to the first, and each row of results has the same position as its
# row of xs. The results are *carries, rows*.
#
# Our loops run in one thread: **each thread runs the loop for its own column**. This is right if element k of a carry
# depends only on element k of carries and on scalars. `Carries` holds the variables of one column. `carries.arrays` are
# Arrays that you pass to `interpret`. If the body reads any other column, they raise Unsupported.
# `carries.set(code, arrays)` gives the variables their next values. It computes all of them before it changes the first
# one, so that `(a, b) → (b, a)` exchanges them.
#
# - For the element of carry n at `index`, make `Carries(code, init, index, aval.shape)`, loop `length` times, and
#   return `carries.names[n]`.
# - For the element of a row of results at `[row, *index]`, run the same loop until it has reached this row. Return the
#   value of the last iteration, in a variable declared outside the loop.
#
# `while_loop` is the rule of `while`. Its operands are *constants of the test, constants of the body, carries*
# (`cond_nconsts`, `body_nconsts`), and its closed jaxprs are `cond_jaxpr` and `body_jaxpr`. The loop evaluates the test
# before the first iteration.
#
# `choice`, the rule of `cond` (and `switch`), is given. It is an example of a rule with inner jaxprs.
#
# Hints: `hint("scan")`, `hint("while-loop")`.

# %% id="for-loops" role="setup"
class Carries:
    """The carries of a loop for one column, held in variables of a thread."""

    def __init__(self, code, init, index, shape):
        self.columns = [self.column(array.shape, index, shape) for array in init]
        self.names = [code.let(array.dtype, code.get(array, column))
                      for array, column in zip(init, self.columns, strict=True)]
        self.arrays = [Array(array.shape, array.dtype, self.reader(name, column))
                       for array, name, column in zip(init, self.names, self.columns, strict=True)]

    @staticmethod
    def column(given, index, shape):
        if given not in ((), tuple(shape)):
            raise Unsupported("a loop over arrays of different shapes")
        return list(index) if given else []

    @staticmethod
    def reader(name, column):
        def element(code, index):
            if list(index) != column:
                raise Unsupported("a loop that mixes columns")
            return name
        return element

    def set(self, code, arrays):
        """Compute the next values of all variables, and then assign them."""
        values = [code.get(array, column) for array, column in zip(arrays, self.columns, strict=True)]
        for name, value in zip(self.names, values, strict=True):
            code.line(f"{name} = {value};")


@rule("cond")
def choice(equation, which, *operands):
    """Return the Arrays of lax.cond and lax.switch; `which` is a number, 0 for the first branch."""
    def result(n, aval):
        def element(code, index):
            value = code.let(aval.dtype, "0")
            chosen = code.get(which, [])
            for number, branch in enumerate(equation.params["branches"]):
                with code.block(f"if ({chosen} == {number})"):
                    arrays = interpret(branch.jaxpr, branch.consts, operands, RULES)
                    code.line(f"{value} = {code.get(arrays[n], index)};")
            return value
        return Array(aval.shape, aval.dtype, element)
    return [result(n, variable.aval) for n, variable in enumerate(equation.outvars)]

# %% id="scan-parts" role="setup"
def scan_parts(equation):
    """Return the number of operands of a scan that are constants, and the number of carries.

    JAX's parameters for this change between versions. An array that is read row by row has one axis
    less in the body than outside it, and a carry has the same number.
    """
    body = equation.params["jaxpr"].jaxpr
    carries = sum(outside.aval.ndim == inside.aval.ndim
                  for outside, inside in zip(equation.outvars, body.outvars, strict=True))
    rows = sum(outside.aval.ndim > inside.aval.ndim
               for outside, inside in zip(equation.invars, body.invars, strict=True))
    return len(equation.invars) - carries - rows, carries

# %% id="scan" role="solution"
@rule("scan")
def scan(equation, *operands):
    """Return the Arrays of a scan: the last carries, then rows of results."""
    params = equation.params
    length, body = params["length"], params["jaxpr"]
    first, many = scan_parts(equation)
    consts, init, xs = operands[:first], operands[first:first + many], operands[first + many:]

    def iteration(code, number, carries):
        """Return the results of the body in iteration `number`: the next carries, then a row."""
        ### BEGIN SOLUTION
        row = f"({length - 1} - {number})" if params["reverse"] else number
        at_row = [Array(x.shape[1:], x.dtype, lambda code, index, x=x: code.get(x, [row, *index]))
                  for x in xs]
        return interpret(body.jaxpr, body.consts, [*consts, *carries.arrays, *at_row], RULES)
        ### END SOLUTION

    def last_carry(n, aval):
        def element(code, index):
            ### BEGIN SOLUTION
            carries = Carries(code, init, index, aval.shape)
            with code.loop(length) as number:
                carries.set(code, iteration(code, number, carries)[:many])
            return carries.names[n]
            ### END SOLUTION
        return Array(aval.shape, aval.dtype, element)

    def rows(n, aval):
        def element(code, index):
            ### BEGIN SOLUTION
            row, *column = index
            carries = Carries(code, init, column, aval.shape[1:])
            result = code.let(aval.dtype, "0")
            iterations = f"({length} - {row})" if params["reverse"] else f"({row} + 1)"
            with code.loop(iterations) as number:
                found = iteration(code, number, carries)
                code.line(f"{result} = {code.get(found[n], column)};")
                carries.set(code, found[:many])
            return result
            ### END SOLUTION
        return Array(aval.shape, aval.dtype, element)

    return [last_carry(n, variable.aval) if n < many else rows(n, variable.aval)
            for n, variable in enumerate(equation.outvars)]

# %% id="test-scan" role="test" points=5 starter="NotImplementedError"
SUMS = "def f(x): return lax.scan(lambda total, row: (total + row, total), jnp.zeros(4), x)"
same(SUMS, square, otherwise="running sums of columns are wrong", schedules=1)
same(SUMS.replace(", x)", ", x, reverse=True)"), square, otherwise="a scan with reverse=True is wrong")
columns = length("columns", 101)
same(SUMS.replace("4", str(columns)), np.arange(6.0 * columns).reshape(6, -1), busiest=(64, 800),
     otherwise="running sums of many columns are wrong")
FIBONACCI = "def f(x): return lax.fori_loop(0, 10, lambda i, ab: (ab[1], ab[0] + ab[1]), (x, x))"
same(FIBONACCI, np.ones(3), otherwise="one carry is changed before the other is computed from it")
same("def f(x): return lax.scan(lambda c, row: (c + row, c), 5.0, x)[0]", np.zeros(0),
     otherwise="a scan over no rows does not return the carry that it began with")
MIXED = "def f(x): return lax.fori_loop(0, 3, lambda i, c: c + c[::-1], x)"
expect(source_of(MIXED, np.ones(3)) == {"refused": "a loop that mixes columns"},
       "a loop in which a column needs another one is not refused")
### BEGIN HIDDEN TESTS
rng = secret_rng()
T, C = (int(length) for length in rng.integers(3, 9, 2))
a, b = rng.normal(size=2).round(3)
table, row = rng.normal(size=(T, C)), rng.normal(size=C)
for way in ("", ", reverse=True"):
    same(f"""def f(x, y, z):
  def body(carry, rows):
    c, d = carry
    x, y = rows
    return (d - c * {a}, c + x * z), (c * y, d)
  return lax.scan(body, (z, z * {b}), (x, y){way})""", table, table * 2, row,
         otherwise="a scan with two carries and two results is wrong")
same(f"""def f(x, z):
  def outer(c, row):
    return lax.fori_loop(0, 3, lambda i, c: c * {a} + i * row, c), c
  return lax.scan(outer, z, x)""", table, row, otherwise="a loop in a loop is wrong")
same("""def f(x):
  return lax.scan(lambda c, i: (lax.cond(i % 2 == 0, lambda c: c + i, lambda c: c * 2, c), i), x,
                  jnp.arange(7))[0]""".replace("i % 2 == 0", "i > 3"), row,
     otherwise="a choice in a loop is wrong")
for i in (-3, 1, 7):
    same("def f(i, x): return lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * 2], x)", np.array(i), row,
         otherwise="a switch with a number out of range does not take the nearest branch")
### END HIDDEN TESTS

# %% id="while-loop" role="solution"
@rule("while")
def while_loop(equation, *operands):
    """Return the Arrays of a while loop: the last carries."""
    params = equation.params
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    of_test, of_body = params["cond_nconsts"], params["body_nconsts"]
    test_consts, body_consts = operands[:of_test], operands[of_test:of_test + of_body]
    init = operands[of_test + of_body:]

    def last_carry(n, aval):
        def element(code, index):
            ### BEGIN SOLUTION
            carries = Carries(code, init, index, aval.shape)
            with code.block("while (true)"):
                (going,) = interpret(test.jaxpr, test.consts, [*test_consts, *carries.arrays], RULES)
                code.line(f"if (!{code.get(going, [])}) break;")
                carries.set(code, interpret(body.jaxpr, body.consts, [*body_consts, *carries.arrays],
                                            RULES))
            return carries.names[n]
            ### END SOLUTION
        return Array(aval.shape, aval.dtype, element)

    return [last_carry(n, variable.aval) for n, variable in enumerate(equation.outvars)]

# %% id="test-while-loop" role="test" points=3 starter="NotImplementedError"
DOUBLED = "def f(x, n): return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]"
same(DOUBLED, np.arange(3.0), np.array(5), otherwise="five iterations come out wrong")
same(DOUBLED, np.arange(3.0), np.array(0), otherwise="a loop whose test fails at once makes an iteration")
same(DOUBLED, np.arange(1.0 * length("columns", 401)), np.array(5), busiest=(24, 400), otherwise="wrong for many columns")
### BEGIN HIDDEN TESTS
rng = secret_rng()
a, b = int(rng.integers(200, 500)), int(rng.integers(20, 90))
same("""def f(a, b):
  return lax.while_loop(lambda c: c[1] > 0, lambda c: (c[1], c[0] - lax.div(c[0], c[1]) * c[1]), (a, b))[0]""",
     np.array(a), np.array(b), otherwise="Euclid's algorithm, a loop over scalars, is wrong")
start = rng.uniform(1, 2, 5)
same("def f(x, n, s): return lax.while_loop(lambda c: c[0] * s < n, lambda c: (c[0] + 1, c[1] * s + x), "
     "(0.0, x))[1]", start, np.array(7.5), np.array(1.25),
     otherwise="a loop with constants of its test and of its body is wrong")
### END HIDDEN TESTS

# %% [markdown] id="step-10"
# ## 10. Columns of the ocean
#
# The first program solves a tridiagonal system for each column of the ocean. It goes forward with one scan, and
# backward with another that needs the rows of the first. Your kernel repeats the first loop for every row of the
# second. The result is right, but think about how you could avoid the repetition.
#
# The second program is a step of *turbulent kinetic energy*, the energy of the small eddies that mix the upper ocean.
# Each column gains energy from shear and wind, loses energy to dissipation, and exchanges it between its levels. The
# levels below the sea floor keep their energy. The scheme is a simplified version of that of Gaspar, Grégoris and
# Lefevre (1990). It uses views, a choice, a scatter and two loops, so it needs everything that you have written.
#
# There is nothing to write here. If a test fails, its message names the step to correct.

# %% id="the-columns" role="setup"
COLUMNS = """
def f(low, middle, high, right):
    def forward(carry, row):
        c, d = carry
        a, b, upper, r = row
        scale = 1 / (b - a * c)
        new = upper * scale, (r - a * d) * scale
        return new, new

    def backward(x, row):
        c, d = row
        x = d - c * x
        return x, x

    zero = jnp.zeros_like(low[0])
    _, rows = lax.scan(forward, (zero, zero), (low, middle, high, right))
    return lax.scan(backward, zero, rows, reverse=True)[1]
"""

# %% id="the-energy" role="setup"
ENERGY = """
def f(energy, shear, stability, wind, bottom):
    root = jnp.sqrt(jnp.maximum(energy, 0.0))
    mixing = root / (1 + 5 * jnp.maximum(stability, 0.0))
    between = 0.5 * (mixing[1:] + mixing[:-1])
    zero = jnp.zeros_like(energy[:1])
    level = jnp.arange(energy.shape[0])[:, None]
    below = jnp.where(level == bottom, 0.0, jnp.concatenate([zero, between]))
    above = jnp.concatenate([between, zero])
    right = (energy + 0.1 * mixing * (shear**2 - stability)).at[-1].add(wind)

    def forward(carry, row):
        c, d = carry
        a, b, upper, r = row
        new = -upper / (b + a * c), (r + a * d) / (b + a * c)
        return new, new

    def backward(x, row):
        x = row[1] - row[0] * x
        return x, x

    rows = below, 1 + below + above + 0.7 * root, above, right
    _, rows = lax.scan(forward, (zero[0], zero[0]), rows)
    solved = lax.scan(backward, zero[0], rows, reverse=True)[1]
    new = jnp.where(level >= bottom, solved, energy)
    return jnp.maximum(new, 0.0), jnp.minimum(new[-1], 0.0)
"""


def basin(rng, levels, columns, dtype=np.float64):
    """Return arguments of ENERGY: three arrays of levels × columns, the wind, the lowest level in water."""
    fields = [rng.uniform(-0.1, 1, (levels, columns)), *rng.normal(size=(2, levels, columns)),
              rng.normal(size=columns)]
    return [*(field.astype(dtype) for field in fields), rng.integers(0, levels + 1, columns)]

# %% id="test-energy" role="test" points=2 starter="NotImplementedError"
rng = secret_rng("columns")
rows = [rng.uniform(0, 1, (5, 6)) for _ in range(4)]
rows[1] += 3
same(COLUMNS, *rows, otherwise="the tridiagonal systems are not solved")
rng = secret_rng("energy")
same(ENERGY, *basin(rng, 4, 5), otherwise=["a step of turbulent energy is wrong",
                                           "what the surface lacks is wrong"])
same(ENERGY, *basin(rng, 4, length("columns", 81)), busiest=(600, 6000), otherwise="a step of turbulent energy is wrong")
### BEGIN HIDDEN TESTS
rng = secret_rng("deep columns")
rows = [rng.uniform(0, 1, (6, 5)) for _ in range(4)]
rows[1] += 3
outputs, _, _ = computed(COLUMNS, *rows)
low, middle, high, right = rows
for column in range(5):
    matrix = (np.diag(middle[:, column]) + np.diag(low[1:, column], -1) + np.diag(high[:-1, column], 1))
    expect_close(outputs[0][:, column], np.linalg.solve(matrix, right[:, column]),
                 "the tridiagonal systems are not solved", rtol=1e-9)
rng = secret_rng("deep")
same(ENERGY, *basin(rng, 7, 3), otherwise="a step of turbulent energy is wrong")
same(ENERGY, *basin(rng, 5, 9, np.float32), otherwise="a step of turbulent energy in float32 is wrong")
### END HIDDEN TESTS

# %% [markdown] id="reflection-question"
# ## Think, and write
#
# In the cell below, answer in a few sentences each. A person reads it.
#
# 1. `y = jnp.exp(x)` and then `y[1:] - y[:-1]`: how often does your kernel compute `exp` for n elements? When is it
#    better to write `y` to memory first, and how could a compiler decide that?
# 2. Your `scan` runs the loop again for each row of results. What does that cost for T rows? How would you write a
#    kernel with a thread for each column that doesn't repeat the loop?
# 3. Your `jit` keeps every text that it ever made. Describe a program for which that is a mistake, and how
#    users of `jax.jit` would notice it.

# %% [markdown] id="reflection" role="written" points=3
# ### BEGIN SOLUTION
# *A model answer; a point for each paragraph that is there in substance.*
#
# 1. It computes `exp` twice for nearly each element. The thread of element i needs `exp` of i and of i + 1, and no thread
#    sees another's registers. Writing `y` first costs a store and two loads in place of a second `exp`.
#    It pays if computing an element again costs more than that, for example for a long expression, a reduction, or an
#    element that many threads need. A compiler can count operations and uses, and make a buffer for values
#    that are expensive and needed in several places.
#
# 2. It costs T(T + 1)/2 iterations for a column in place of T. One thread for each column, which runs the loop once and
#    stores its row of results in each iteration, needs only T. The result is then not a function of an index but
#    a statement that writes a whole column, so the compiler needs a second kind of value.
#
# 3. A program whose shapes change with each call (batches of events of different length) traces and compiles every time
#    and keeps everything. It is slow, and its memory grows without end. `jax.jit` behaves in the same way, and the cure
#    is the same, which is to pad to a few sizes, or to bound the cache.
# ### END SOLUTION

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## In five sentences
#
# - A tracer runs your Python once and leaves a list of equations. An interpreter of that list
#   whose values are text is a compiler.
# - An array as a function of its index needs no memory. Operations and views compose, and one kernel computes them all.
# - Avoid repeated work: give a value a name, and use the name wherever the value is needed. If other threads need it,
#   store it in memory.
# - Every rule makes a promise about special cases: NaN, negative powers, windows beyond the end, loops without an
#   iteration.
# - A cache is right if its key has everything that the code depends on, and nothing else.
#
# ## Read on
#
# - [JAX: Autodidax](https://docs.jax.dev/en/latest/autodidax.html) shows the other half, tracing and derivatives, from
#   scratch
# - [JAX: understanding jaxprs](https://docs.jax.dev/en/latest/jaxpr.html)
# - [JaCe](https://github.com/GridTools/jace), which translates jaxprs for DaCe with one translator for each primitive,
#   and `jaxpile` in this repository, which does the same as your compiler for more than 150 primitives
