# %% [markdown] id="the-question-asked"
# ## How does your Python become a kernel?
#
# A diving float measures salinity, temperature and pressure on its way down to 2,000 m. The density of the water
# follows from a formula with 41 coefficients, the *equation of state* of sea water of 1980. (Its successor of 2010,
# TEOS-10, is longer.) The first cell defines the formula in `jax.numpy`, and the second applies it to 4,096 simulated
# measurements, which are smooth curves with some noise. Run both cells.

# %% id="the-question"
# %load_ext gpucourse
import math
import re
from collections import Counter, namedtuple
from functools import cache, partial

import cupy as cp
import gpucourse
import jax
import jax.numpy as jnp
import numpy as np
import virtualgpu
from gpucourse import lesson
from gpucourse.views.picture import COLOURS, Picture, bare, canvas
from jax.extend.core import ClosedJaxpr, Literal

check, hint, predict = lesson("24_write_your_own_jit")


def poly(x, *coefficients):  # the constant term first
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def density(water):
    """Of sea water [kg/m³], by salinity, temperature [°C] and pressure [bar]: EOS-80."""
    s, t, p = water["salinity"], water["temperature"], water["pressure"]
    root = jnp.sqrt(s)
    surface = (poly(t, 999.842594, 6.793952e-2, -9.09529e-3, 1.001685e-4, -1.120083e-6, 6.536332e-9)
               + s * (poly(t, 0.824493, -4.0899e-3, 7.6438e-5, -8.2467e-7, 5.3875e-9)
                      + root * poly(t, -5.72466e-3, 1.0227e-4, -1.6546e-6) + s * 4.8314e-4))
    bulk = (poly(t, 19652.21, 148.4206, -2.327105, 1.360477e-2, -5.155288e-5)
            + s * (poly(t, 54.6746, -0.603459, 1.09987e-2, -6.167e-5)
                   + root * poly(t, 7.944e-2, 1.6483e-2, -5.3009e-4))
            + p * (poly(t, 3.239908, 1.43713e-3, 1.16092e-4, -5.77905e-7)
                   + s * (poly(t, 2.2838e-3, -1.0981e-5, -1.6078e-6) + root * 1.91075e-4)
                   + p * (poly(t, 8.50935e-5, -6.12293e-6, 5.2787e-8)
                          + s * poly(t, -9.9348e-7, 2.0816e-8, 9.1697e-10))))
    return surface / (1 - p / bulk)

# %% id="the-dive"
n = 4096
random = np.random.default_rng(13)
depth = np.linspace(0, 200, n)  # as pressure [bar]: 10 m of water are one
dive = {"salinity": 34.6 + 0.8 * np.exp(-depth / 40) + random.normal(0, 0.02, n),
        "temperature": 3 + 15 * np.exp(-depth / 30) + random.normal(0, 0.05, n),
        "pressure": depth}
dive = {name: values.astype(np.float32) for name, values in dive.items()}

by_jax = jax.jit(density)(dive)
equations = jax.make_jaxpr(density)(dive).eqns
print(f"{by_jax[0]:.2f} kg/m³ at the surface, {by_jax[-1]:.2f} at 2,000 m; {len(equations)} operations")

# %% [markdown] id="the-question-stands"
# NumPy would run 82 loops, one for each operation, and write 82 arrays, but `jax.jit` compiles the operations into
# **one** loop. **What does `jax.jit` do between your function and that loop, and could you write it?**

# %% [markdown] id="jaxpr-predict" tags=["predict"]
# ## 1. A program as a list
#
# JAX calls your function with stand-ins and records each operation in a list, the jaxpr. The next cell traces a shorter
# formula, the temperature at which sea water freezes. *Predict:* how many equations will its jaxpr have, and in how
# many of them is `salinity` an operand?

# %% id="jaxpr-guess"
predict("jaxpr",
        "five, and salinity in two",
        "eight, and salinity in three",
        "eight, and salinity in all but one",
        "one: it is one formula")

# %% id="jaxpr"
def freezing(salinity, pressure):
    """When sea water freezes [°C]; pressure in bar."""
    root = jnp.sqrt(salinity)
    return salinity * (-0.0575 + 1.710523e-3 * root - 2.154996e-4 * salinity) - 7.53e-3 * pressure


traced = jax.make_jaxpr(freezing)(dive["salinity"], dive["pressure"])
print(traced)

# %% id="jaxpr-picture"
def draw(axes, closed, words):
    """A jaxpr as a graph, each equation below the deepest of its operands; how deep it is."""
    level, edges, names = {}, [], dict(zip(closed.jaxpr.invars, words, strict=True))
    for variable in closed.jaxpr.invars:
        level[variable] = 0
    for equation in closed.eqns:
        (variable,) = equation.outvars
        operands = [atom for atom in equation.invars if not isinstance(atom, Literal)]
        edges += [(operand, variable) for operand in operands]
        level[variable] = 1 + max(level[operand] for operand in operands)
        names[variable] = equation.primitive.name
    place = {}
    for depth in set(level.values()):
        row = [variable for variable in level if level[variable] == depth]
        place |= {variable: (k - (len(row) - 1) / 2, -depth) for k, variable in enumerate(row)}
    for ends in edges:
        axes.plot(*zip(*(place[end] for end in ends), strict=True), color="0.75", linewidth=0.8, zorder=1)
    for variable, (x, y) in place.items():
        colour = COLOURS[0] if level[variable] else COLOURS[1]
        axes.plot(x, y, "o", color=colour, markersize=4)
        if len(level) < 20:
            axes.text(x, y, names[variable], ha="center", va="center", fontsize=9,
                      bbox={"boxstyle": "round", "facecolor": colour, "edgecolor": "none"})
    axes.set(xticks=[], yticks=[])
    axes.margins(0.2, 0.08)
    bare(axes)
    return max(level.values())


figure, (left, right) = canvas(9, 4.2, columns=2)
shallow = draw(left, traced, ["salinity", "pressure"])
deep = draw(right, jax.make_jaxpr(density)(dive), sorted(dive))
left.set_title(f"freezing: {len(traced.eqns)} equations")
right.set_title(f"density: {len(equations)} equations")
Picture(figure, f"Two graphs of operations, inputs on top. Freezing: {len(traced.eqns)} boxes in {shallow} "
                f"levels, from sqrt and mul down to one sub. Density: {len(equations)} dots in {deep} "
                "levels; many chains run side by side and join at the bottom.")

# %% [markdown] id="jaxpr-why" tags=["why"]
# It has eight equations, and salinity is an operand of three. A jaxpr is nothing more than **equations in an order in
# which they can be computed**. Each has a *primitive* (`mul`), *operands* in `invars`, *parameters* in `params`, and
# new variables in `outvars`. An operand is a variable or a `Literal`, which is a number with its value in `.val`. So a
# program that reads a jaxpr keeps a dictionary from variables to what they represent. If they represent arrays, the
# program is an interpreter.

# %% [markdown] id="walk-task"
# ### Exercise: an interpreter
#
# Write `interpret(closed, *arguments)`, which returns the list of the results. A closed jaxpr has two parts:
# `closed.jaxpr`, with `invars`, `outvars`, `eqns` and `constvars`, and `closed.consts`, with the values of the
# `constvars`. `run` computes one equation for you, and an output can also be a literal. If you are stuck, call
# `hint("walk")`.

# %% id="walk-exercise" tags=["exercise"]
def run(equation, operands):
    """The list of an equation's results, computed by JAX itself."""
    results = equation.primitive.bind(*operands, **equation.params)
    return results if equation.primitive.multiple_results else [results]


def interpret(closed, *arguments):
    results = []
    ### BEGIN SOLUTION
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values |= zip(jaxpr.invars, arguments, strict=True)

    def read(atom):
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        values |= zip(equation.outvars, run(equation, operands), strict=True)
    results = [read(atom) for atom in jaxpr.outvars]
    ### END SOLUTION
    return results


# %% id="walk-check"
check("walk", interpret)

# %% [markdown] id="the-parts"
# Now you know how a compiler goes through a program. The compiler of this lecture has six small parts, in about 125
# lines of Python. It writes a CUDA C++ kernel, which `cupy.RawKernel` compiles and launches.
#
# | part | from | to |
# |---|---|---|
# | tracing | your function | a *jaxpr*, made by JAX |
# | templates | one operation | a line of C++ |
# | the walk | a jaxpr | lines, with a name for each value |
# | views | slices, broadcasts | arithmetic on the index |
# | kernel | lines | CUDA C++, compiled and launched |
# | `my_jit` | a call | a lookup in the cache, and trees of arrays |

# %% [markdown] id="templates-text"
# ## 2. The same walk, with text
#
# Now let the variables represent *text*. An array becomes a function of an **index**. Given the index `i`, it returns
# the name of the kernel's variable that holds element `i`. Each primitive has a template for a line of C++. Numbers are
# written like `0.5f`, because `0.5` would be a `double`, and then the whole line would be computed in `double`. We
# write our own `max`, because C's `fmax` ignores a NaN that `jnp.maximum` keeps.

# %% id="templates"
TYPES = {"float32": "float", "int32": "int", "bool": "bool"}
TEMPLATES = {
    "add": "{0} + {1}", "add_any": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}",
    "neg": "-{0}", "abs": "abs({0})", "sqrt": "sqrt({0})", "exp": "exp({0})", "log": "log({0})",
    "sin": "sin({0})", "cos": "cos({0})", "tanh": "tanh({0})", "logistic": "1.0f / (1.0f + exp(-{0}))",
    "max": "({0} > {1} || {0} != {0}) ? {0} : {1}", "min": "({0} < {1} || {0} != {0}) ? {0} : {1}",
    "gt": "{0} > {1}", "lt": "{0} < {1}", "ge": "{0} >= {1}", "le": "{0} <= {1}", "eq": "{0} == {1}",
    "convert_element_type": "({type}) {0}",
}


def constant(value, dtype):
    """A number as C++ writes it."""
    if dtype.name != "float32":
        return f"{int(value)}"
    value = np.float32(value)
    return f"({value!s}f)" if np.isfinite(value) else f"__int_as_float({value.view(np.int32)})"


# %% id="kernel"
class Kernel:
    """The lines of a kernel that is being written."""

    def __init__(self):
        self.lines, self.names, self.arrays, self.constants = [], {}, [], []

    def name(self, dtype, text):
        """The variable with this value; the same text again is the same variable."""
        if (dtype, text) not in self.names:
            self.names[dtype, text] = f"v{len(self.names)}"
            self.lines.append(f"const {TYPES[dtype.name]} v{len(self.names) - 1} = {text};")
        return self.names[dtype, text]

    def array(self, aval):
        """One more array to read from: a function from an index to the element's name."""
        self.arrays.append((f"x{len(self.arrays)}", aval))
        name = self.arrays[-1][0]
        return lambda index: self.name(aval.dtype, f"{name}[{flat(index, aval.shape)}]")


# %% [markdown] id="walk-text"
# The walk is your interpreter again, line by line, with `translate` in place of `run`. `flat` turns an index with
# several axes into one number, according to the order in memory. If your function uses arrays from outside, they arrive
# as `consts` and become arguments of the kernel.

# %% id="write"
def steps(shape):
    """How many elements apart neighbours along each axis lie in memory."""
    return [math.prod(shape[axis + 1:]) for axis in range(len(shape))]


def flat(index, shape):
    """An index as one number, of an array as it lies in memory."""
    parts = zip(index, steps(shape), strict=True)
    return " + ".join(i if step == 1 else f"{i} * {step}" for i, step in parts) or "0"


def write(kernel, closed, inputs):
    """The results of a jaxpr as functions of the index, from its inputs, which are such functions."""
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.invars, inputs, strict=True))
    for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
        values[variable] = kernel.array(variable.aval)
        kernel.constants.append(value)

    def read(atom):
        if isinstance(atom, Literal):
            return lambda index: constant(atom.val, atom.aval.dtype)
        return values[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        values |= zip(equation.outvars, translate(kernel, equation, operands), strict=True)
    return [read(atom) for atom in jaxpr.outvars]


# %% id="translate"
CALLS, VIEWS = {}, {}  # for sections 3 and 4


def translate(kernel, equation, operands):
    """The results of one equation, as functions of the index."""
    primitive, shapes = equation.primitive.name, [atom.aval.shape for atom in equation.invars]
    if primitive in CALLS:
        return inlined(kernel, equation.params[CALLS[primitive]], operands)
    if primitive in VIEWS:
        return [lambda index: operands[0](VIEWS[primitive](index, shapes[0], equation.params))]
    if primitive not in TEMPLATES:
        raise NotImplementedError(f"no template for `{primitive}`: {equation}")
    template, dtype = TEMPLATES[primitive], equation.outvars[0].aval.dtype

    @cache
    def element(index):
        names = [operand(index if shape else ()) for operand, shape in zip(operands, shapes, strict=True)]
        if callable(template):
            return kernel.name(dtype, template(partial(kernel.name, dtype), *names, **equation.params))
        return kernel.name(dtype, template.format(*names, type=TYPES[dtype.name]))

    return [element]


# %% [markdown] id="build-predict" tags=["predict"]
# The last part, `build`, puts a kernel around the lines, with one thread for each element. *Predict* for `freezing`
# with 4,096 measurements: how many kernels are there, how many lines begin with `const float`, and how often does a
# thread load the salinity, which three equations use?

# %% id="build-guess"
predict("build",
        "eight kernels, eight lines, one load each",
        "one kernel, eight lines, three loads of the salinity",
        "one kernel, eight lines, one load of the salinity")

# %% id="build"
Built = namedtuple("Built", "source constants results")  # of the results: shapes and types


def build(closed, name="fused"):
    """A jaxpr's kernel: a thread for each element of its results, which must have one shape."""
    results = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.out_avals]
    shape = results[0].shape
    if any(result.shape != shape for result in results):
        raise NotImplementedError(f"results of several shapes: {results}")
    kernel, integer = Kernel(), np.dtype(np.int32)
    inputs = [kernel.array(aval) for aval in closed.in_avals]
    axes = zip(steps(shape), shape, strict=True)
    index = ("i",) if len(shape) == 1 else tuple(
        kernel.name(integer, f"i / {step} % {extent}") for step, extent in axes)
    for k, value in enumerate(write(kernel, closed, inputs)):
        kernel.lines.append(f"y{k}[i] = {value(index)};")
    takes = [f"const {TYPES[aval.dtype.name]} *{array}" for array, aval in kernel.arrays]
    takes += [f"{TYPES[result.dtype.name]} *y{k}" for k, result in enumerate(results)]
    source = "\n    ".join([
        f'extern "C" __global__\nvoid {name}({", ".join(takes)}, int n)\n{{',
        "int i = blockIdx.x * blockDim.x + threadIdx.x;", "if (i >= n) return;", *kernel.lines])
    return Built(f"{source}\n}}\n", kernel.constants, results)


def launch(kernel, built, arrays):
    """The results, as CuPy's arrays."""
    outs = [cp.empty(result.shape, result.dtype) for result in built.results]
    size = math.prod(built.results[0].shape)
    inputs = [cp.asarray(np.asarray(array)) for array in (*arrays, *built.constants)]
    if size:
        kernel((-(-size // 128),), (128,), (*inputs, *outs, np.int32(size)))
    return outs


built = build(traced)
print(built.source)
(ours,) = launch(cp.RawKernel(built.source, "fused"), built, [dive["salinity"], dive["pressure"]])
print("as JAX:", np.allclose(ours.get(), freezing(dive["salinity"], dive["pressure"]), rtol=1e-5))

# %% [markdown] id="build-why" tags=["why"]
# There are one kernel, eight lines of arithmetic and two loads. Salinity is `x0[i]` wherever it appears, which is
# always the same text, so it is always the same variable, `v0`. No result between the operations is ever written to
# memory. This is **fusion**, and it needed no extra work, because an array that is only a function of its index needs
# no memory.

# %% [markdown] id="no-template-predict" tags=["predict"]
# A cube, `x**3`, is one equation, and its primitive is not in our table. *Predict:* at which point do we get an error?

# %% id="no-template-guess"
predict("no-template",
        "while it builds, by the primitive's name",
        "when NVRTC compiles what we wrote",
        "not at all: the numbers are wrong")

# %% id="no-template" raises="NotImplementedError"
cube = jax.make_jaxpr(lambda x: x**3)(dive["salinity"])
build(cube)

# %% [markdown] id="no-template-why" tags=["why"]
# We get it while the kernel is built. It says ``no template for `integer_pow` ``, and shows the equation. If a compiler
# **names what it can't do**, you can fix that, but if it guesses, you can't trust it at all. Some primitives need more
# than a template, for example `scan`, `sort`, or `cumsum`, whose elements depend on all previous ones. So our compiler
# will always reject these.

# %% [markdown] id="power-task"
# ### Exercise: `integer_pow`
#
# A template may be a function, which gets `name`, the names of the operands, and the parameters of the equation, and
# returns the text. The given one calls `pow`, which takes any exponent, but needs some sixty instructions. Write
# `power(name, x, y)` for integers `y`, including 0 and negative ones, with products and at most one division. Use few
# products: `x**16` needs four, not fifteen. `name(text)` stores a text in a variable of the kernel, which you can use
# twice.

# %% id="power-exercise" tags=["exercise"]
def power(name, x, y):
    text = f"pow({x}, {y})"
    ### BEGIN SOLUTION
    if y < 0:
        return f"1 / ({power(name, x, -y)})"
    text, square = "1", x
    while y:
        if y % 2:
            text = square if text == "1" else f"{text} * {square}"
        y //= 2
        if y:
            square = name(f"{square} * {square}")
    ### END SOLUTION
    return text


TEMPLATES["integer_pow"] = power
print(*[line for line in build(jax.make_jaxpr(lambda x: x**-6)(dive["salinity"])).source.splitlines()
        if " = " in line], sep="\n")

# %% id="power-check"
check("power", power)

# %% [markdown] id="views-text"
# ## 3. Other shapes: arithmetic on the index
#
# A slice starts at another element, a transpose exchanges axes, and a broadcast repeats elements. None of them computes
# anything, because element `i` of the result *is* some element of the operand. So a view is a function from an index of
# the result to an index of the operand, and needs no memory.

# %% [markdown] id="broadcast-task"
# ### Exercise: a broadcast as an index function
#
# `broadcast_in_dim` makes a larger array, in which axis `k` of the operand becomes axis `dimensions[k]` of the result.
# `index` has one text for each axis of the result. Return a tuple with one text for each axis of the operand, whose
# shape is `shape`. An axis of length 1 may have become longer, and then its index is always `"0"`. As it stands, the
# function returns `"0"` for every axis.

# %% id="broadcast-exercise" tags=["exercise"]
def broadcast_index(index, shape, dimensions):
    inner = ("0",) * len(shape)
    ### BEGIN SOLUTION
    inner = tuple("0" if extent == 1 else index[axis] for extent, axis in zip(shape, dimensions, strict=True))
    ### END SOLUTION
    return inner


VIEWS["broadcast_in_dim"] = lambda index, shape, params: broadcast_index(
    index, shape, params["broadcast_dimensions"])
VIEWS["transpose"] = lambda index, shape, params: tuple(
    index[params["permutation"].index(axis)] for axis in range(len(shape)))
VIEWS["slice"] = lambda index, shape, params: tuple(
    f"({i} * {step} + {start})" for i, step, start in zip(
        index, params["strides"] or [1] * len(shape), params["start_indices"], strict=True))

# %% id="broadcast-check"
check("broadcast", broadcast_index)

# %% [markdown] id="loads-predict" tags=["predict"]
# A warp of 32 threads loads together, and memory moves in sectors of 32 bytes, which hold eight adjacent `float32`.
# *Predict* for each of the three functions in the next cell: how many sectors does a load of a warp touch?

# %% id="loads-guess"
predict("loads",
        "neighbours 4 or 5 sectors, a row 4, a column 1, a transpose 32",
        "1 sector each: a load is a load",
        "neighbours 4 or 5, all others 32")

# %% id="loads"
def counted(built, *arrays):
    """What one launch of a kernel does, counted on the virtual GPU; and its results."""
    outs = [np.empty(result.shape, result.dtype) for result in built.results]
    size = outs[0].size
    module = virtualgpu.Module.from_cuda(built.source)
    inputs = [np.array(array) for array in (*arrays, *built.constants)]
    with virtualgpu.profile() as profile:
        module.launch(module.entries[0], -(-size // 128), 128, [*inputs, *outs, np.int32(size)])
    return profile, outs


square = np.arange(4096, dtype=np.float32).reshape(64, 64)
views = {"x[1:] - x[:-1]": (lambda x: x[1:] - x[:-1], (square.ravel(),)),
         "row + column": (lambda x, y: x[None, :] + y[:, None], (square[0], square[1])),
         "x + x.T": (lambda x: x + x.T, (square,))}
for name, (function, arrays) in views.items():
    kernel = build(jax.make_jaxpr(function)(*arrays))
    profile, (out,) = counted(kernel, *arrays)
    counts = profile.counters
    print(f"{name:16}{counts.global_loads / out.size:4.0f} loads by each thread,",
          f"{counts.global_load_sectors / counts.global_load_requests:5.2f} sectors in a warp's load;",
          f"as JAX: {np.array_equal(out, function(*map(jnp.asarray, arrays)))}")

# %% id="loads-picture"
transposed = build(jax.make_jaxpr(views["x + x.T"][0])(square))
gpucourse.memory(cp.RawKernel(transposed.source, "fused"), 32, 128, square, np.empty_like(square),
                 np.int32(square.size), array="argument 0", steps=4, title="x + x.T reads x")

# %% [markdown] id="loads-why" tags=["why"]
# If the elements are shifted by one, a load touches up to five sectors, and 4.5 on average over both loads. A row takes
# four, and for the column all 32 threads load the same element, which is in one sector. The transpose takes 32, because
# neighbouring threads read elements 256 bytes apart. So if you fuse a view, you save *memory*, but the *access pattern*
# stays the same. XLA has the same problem, and so some of its kernels use shared memory.

# %% [markdown] id="nested-predict" tags=["predict"]
# ## 4. Functions in functions
#
# If a function under `jit` calls another one under `jit`, the result is a jaxpr *in* a jaxpr: an equation that has a
# program as a parameter. In the next cell, `smooth` is called twice. *Predict:* is it traced twice, and does the second
# call have the same variables as the first, or new ones?

# %% id="nested-guess"
predict("nested",
        "traced twice, with different variables",
        "traced once, with the same variables both times",
        "traced once, with new variables for each call")

# %% id="nested"
@jax.jit
def smooth(x, width):
    return 1 / (1 + jnp.exp(-x / width))


def mixed(x):
    return smooth(x, 2.0) - smooth(3.0 * x, 0.5)


twice = jax.make_jaxpr(mixed)(dive["temperature"])
first, second = [equation for equation in twice.eqns if "jaxpr" in equation.params]
print(twice)
print("one and the same jaxpr:", first.params["jaxpr"] is second.params["jaxpr"])

# %% [markdown] id="nested-why" tags=["why"]
# There is one trace, one jaxpr, and *the same variables*. Suppose that a compiler keeps one dictionary for the whole
# program, or remembers what it made of a variable. Then the second call would get the numbers of the first one. So each
# call of a nested program needs its own scope.

# %% [markdown] id="nested-task"
# ### Exercise: a nested jaxpr
#
# Write `inlined(kernel, closed, operands)`, which returns the list of the results of one call of `closed`, a closed
# jaxpr, with these operands. The call should just become more lines of the same kernel. Which function makes lines from
# a jaxpr, with a separate dictionary? Think also about numbers and arrays that the inner function uses from outside.

# %% id="nested-exercise" tags=["exercise"]
def inlined(kernel, closed, operands):
    results = None
    ### BEGIN SOLUTION
    results = write(kernel, closed, operands)
    ### END SOLUTION
    return results


CALLS |= {"jit": "jaxpr", "pjit": "jaxpr", "custom_jvp_call": "call_jaxpr"}

# %% id="nested-check"
check("nested", build)

# %% [markdown] id="select-predict" tags=["predict"]
# The primitive `scan` also has a parameter `jaxpr`. For this reason `CALLS` lists primitives by name, and doesn't
# include every primitive that has a `jaxpr`.
#
# Now that we have calls, we can compile `jnp.where`. Its jaxpr has `select_n which, a, b`, and we guess that this means
# `which ? a : b` in C. `jax.lax.select` is the same without a call. *Predict:* do we get an error?

# %% id="select-guess"
predict("select-wrong",
        "yes: build rejects what it cannot be sure of",
        "no error, but some values differ from NumPy's",
        "no error, but every value is wrong",
        "no error, and every value is right")

# %% id="select-wrong"
TEMPLATES["select_n"] = "{0} ? {1} : {2}"

warm = dive["temperature"] > 10
chosen = jax.make_jaxpr(jax.lax.select)(warm, dive["temperature"], -dive["temperature"])
_, (ours,) = counted(build(chosen), warm, dive["temperature"], -dive["temperature"])
theirs = np.where(warm, dive["temperature"], -dive["temperature"])
print(chosen)
print("ours:", ours[[0, -1]].round(1), " NumPy:", theirs[[0, -1]].round(1))

# %% [markdown] id="select-why" tags=["why"]
# There is no error, but every single number is wrong. `select_n(which, a, b, …)` picks the operand *number* `which`, so
# False picks the first. In the printed jaxpr you can see that JAX has exchanged the two. `jax.lax.select_n` is
# documented, but nobody looks up a name that seems clear. **Compare each new template with JAX** on values that
# distinguish the cases.

# %% id="select-right"
TEMPLATES["select_n"] = "{0} ? {2} : {1}"

_, (ours,) = counted(build(chosen), warm, dive["temperature"], -dive["temperature"])
print("as NumPy:", np.array_equal(ours, theirs))

# %% [markdown] id="jit-text"
# ## 5. `my_jit`: compile once, for all sorts of arguments
#
# Only the entry point is still missing. Arguments may be trees of dictionaries, tuples or your own classes. JAX
# flattens them with `jax.tree.flatten` into a list of **leaves** and the structure of the tree, and rebuilds results
# with `unflatten`. Tracing and building take a tenth of a second or more, so we store each kernel under a **key** and
# reuse it.

# %% [markdown] id="key-task"
# ### Exercise: the key
#
# Write `key_of(tree, leaves)`, which returns everything that the kernel depends on, and nothing else. `leaves` are JAX
# arrays, and the key must be hashable. If it contains too much, `my_jit` compiles again and again, as it does now. If
# it contains too little, `my_jit` runs a kernel that was made for other arguments. One part of the key is easily
# forgotten: if `x` is `float16`, `x * 2.0` and `x * jnp.float32(2)` have different types. A Python number is *weakly
# typed*, and the array that JAX makes of it has `.weak_type`.

# %% id="key-exercise" tags=["exercise"]
def key_of(tree, leaves):
    key = object()  # another one each time
    ### BEGIN SOLUTION
    key = tree, tuple((leaf.shape, leaf.dtype, leaf.weak_type) for leaf in leaves)
    ### END SOLUTION
    return key


# %% id="key-check"
check("key", key_of)

# %% id="my-jit"
def my_jit(function):
    known = {}

    def call(*arguments):
        leaves, tree = jax.tree.flatten(arguments)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return function(*arguments)  # grad or vmap is tracing: let it
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        key = key_of(tree, leaves)
        if key not in known:
            # A new function each time, or JAX would give us what it has traced before.
            trace = jax.make_jaxpr(lambda *given: function(*given), return_shape=True)
            closed, shape = trace(*jax.tree.unflatten(tree, leaves))
            built = build(closed)
            known[key] = built, cp.RawKernel(built.source, "fused"), jax.tree.structure(shape)
        built, kernel, result_tree = known[key]
        results = launch(kernel, built, leaves)
        return jax.tree.unflatten(result_tree, [jnp.asarray(cp.asnumpy(result)) for result in results])

    call.known = known  # to look at
    return call


# %% [markdown] id="traces-predict" tags=["predict"]
# *Predict:* if the key is right, which of the five calls in the next cell trace? And does the last call trace, after
# `SALT` has changed?

# %% id="traces-guess"
predict("traces",
        "all five",
        "three, and the last is not among them",
        "three, and the last is one of them",
        "one")

# %% id="traces"
SALT, traces = 35.0, 0


@my_jit
def relative(temperature, water):
    global traces
    traces += 1
    return {"salt": water["salinity"] / SALT, "warmth": temperature - water["temperature"]}


few = {name: values[:100] for name, values in dive.items()}
for what, arguments in {
    "4,096 measurements": (4.0, dive),
    "another number": (5.0, dive),
    "100 measurements": (4.0, few),
    "an array for a number": (few["temperature"], few),
    "4,096 once more": (4.0, dive),
}.items():
    before = traces
    relative(*arguments)
    print(f"{what:24}", "traced" if traces > before else "known already")
kept = jax.make_jaxpr(lambda salinity: salinity / SALT)(dive["salinity"])
SALT = 34.0
print("salt with SALT = 34:", relative(5.0, dive)["salt"][0], "instead of", dive["salinity"][0] / SALT)

# %% id="stale-jaxpr"
built, *_ = next(iter(relative.known.values()))
print("traced then:    ", kept.eqns[0])
print("traced now:     ", jax.make_jaxpr(lambda salinity: salinity / SALT)(dive["salinity"]).eqns[0])
print("the kernel kept:", next(line.strip() for line in built.source.splitlines() if " / " in line))

# %% [markdown] id="traces-why" tags=["why"]
# If your key is right, there are three traces, because new shapes and new structures make JAX trace, and new values do
# not. A changed global does not reach a kernel that was stored, because in the jaxpr, and so in the kernel, it is a
# *literal*. There is no name `SALT` left to look up. This explains the stale global of `jax.jit` in "Compiling Python".
# If a value has to change, make it an argument.

# %% [markdown] id="density-predict" tags=["predict"]
# ## 6. Sea water, and its derivative
#
# *Predict:* how many kernels does `density` need for its 82 equations? And if we take its derivatives for each
# measurement, with `vmap(grad(…))`, do they need more kernels, or more lines?

# %% id="density-guess"
predict("density",
        "82 kernels, and more for the derivative",
        "one kernel each; the derivative has more lines",
        "one for the density, three for its derivatives")

# %% id="density"
slopes_of = jax.vmap(jax.grad(density))
ours, slopes = my_jit(density)(dive), my_jit(slopes_of)(dive)
print("density: largest difference from jax.jit", f"{np.abs(ours - by_jax).max():.1e} kg/m³")
for name, theirs in jax.jit(slopes_of)(dive).items():
    print(f"by {name:12} {slopes[name][0]:+.4f} at the surface; largest relative difference",
          f"{np.abs(slopes[name] / theirs - 1).max():.0e}")
for function in (density, slopes_of):
    closed = jax.make_jaxpr(function)(dive)
    source = build(closed).source
    lines = source.count("const float v")
    print(f"{len(closed.eqns)} equations: {source.count('__global__')} kernel, {lines} lines")

# %% id="expansion-picture"
celsius = np.linspace(-1, 12, 131, dtype=np.float32)
by_temperature = my_jit(jax.vmap(jax.grad(lambda t, rest: density({**rest, "temperature": t}))))
figure, axes = canvas(8, 2.8)
for salinity, colour, line in ((0, COLOURS[5], "-"), (15, COLOURS[2], "--"), (35, COLOURS[6], ":")):
    slope = by_temperature(celsius, {"salinity": np.full_like(celsius, salinity),
                                     "pressure": np.zeros_like(celsius)})
    axes.plot(celsius, slope, line, color=colour, label=f"salinity {salinity}")
    if salinity == 0:
        densest = float(np.interp(0, -np.asarray(slope), celsius))
axes.axhline(0, color="0.7", linewidth=0.8)
axes.set(xlabel="temperature [°C]", ylabel="slope of density\n[kg/m³ per °C]")
axes.legend()
Picture(figure, "The derivative of density by temperature, for three salinities, falling with temperature. "
                f"In fresh water it is zero at {densest:.2f} °C, where water is densest; with salinity 15 at "
                "a lower temperature, with 35 it is negative throughout.")

# %% [markdown] id="density-why" tags=["why"]
# Each of the two is one kernel, and the derivatives have more lines, but cause no more memory traffic than their three
# results need. `grad` and `vmap` do their work while JAX traces, so our compiler sees only equations. The picture also
# shows why ice forms on top of fresh water. The line for fresh water crosses zero at 4 °C, and below that, colder water
# is lighter.

# %% [markdown] id="plans-predict" tags=["predict"]
# ## 7. One kernel or 82
#
# What if each equation were a separate kernel, as with `jax.disable_jit()` or CuPy? We can build such a program from
# the same parts. A load by a warp is called a **request**. `density` of 4,096 measurements takes 128 warps. *Predict:*
# how do the launches and the loads of the two versions compare?

# %% id="plans-guess"
predict("plans",
        "82 launches against 1, and many times the loads",
        "82 launches against 1, and the same loads",
        "1 launch each, but more loads")

# %% id="plans"
def equation_by_equation(closed, arrays):
    """What a plan with a kernel for each equation does, counted; and its results."""
    values, alone = dict(zip(closed.jaxpr.invars, arrays, strict=True)), []
    for k, equation in enumerate(closed.eqns):
        inputs = list(dict.fromkeys(atom for atom in equation.invars if not isinstance(atom, Literal)))
        jaxpr = closed.jaxpr.replace(invars=inputs, outvars=equation.outvars, eqns=[equation])
        alone.append((inputs, equation.outvars[0], build(ClosedJaxpr(jaxpr, []), f"step{k}")))
    module = virtualgpu.Module.from_cuda("".join(built.source for _, _, built in alone))
    with virtualgpu.profile() as profile:
        for k, (inputs, variable, built) in enumerate(alone):
            size = built.results[0].size
            values[variable] = np.empty(size, np.float32)
            module.launch(f"step{k}", -(-size // 128), 128,
                          [*(values[atom] for atom in inputs), values[variable], np.int32(size)])
    return profile, [values[atom] for atom in closed.jaxpr.outvars]


closed, arrays = jax.make_jaxpr(density)(dive), jax.tree.leaves(dive)
many, (in_steps,) = equation_by_equation(closed, arrays)
one, (at_once,) = counted(build(closed), *arrays)
plans = {}
for name, profile in (("a kernel for each equation", many), ("one kernel", one)):
    counts = profile.counters
    moved = counts.global_bytes_read + counts.global_bytes_written
    plans[name] = {"launches": len(profile.launches), "load requests": counts.global_load_requests,
                   "bytes a measurement": moved / n}
    print(f"{name:26}", ", ".join(f"{what}: {amount:,.0f}" for what, amount in plans[name].items()),
          f"({counts.load_coalescing:.0%} coalesced)")
print("the same densities:", np.allclose(in_steps, at_once, rtol=1e-6))

# %% id="plans-picture"
figure, panels = canvas(9, 2.2, columns=3)
said = []
for axes, what in zip(panels, plans["one kernel"], strict=True):
    amounts = [plan[what] for plan in plans.values()]
    bars = axes.bar([f"{len(closed.eqns)} kernels", "one kernel"], amounts, color=[COLOURS[1], COLOURS[5]])
    axes.bar_label(bars, [f"{amount:,.0f}" for amount in amounts])
    axes.set(title=what, ylim=(0, 1.2 * max(amounts)))
    said.append(f"{what} {amounts[0]:,.0f} against {amounts[1]:,.0f}")
Picture(figure, f"Three pairs of bars, a kernel for each equation against one kernel: {'; '.join(said)}.")

# %% [markdown] id="plans-why" tags=["why"]
# The 384 requests of the one kernel are 3 arrays × 128 warps. So each number is loaded once, by adjacent threads, which
# is the minimum. XLA represents its program in **HLO**. The next cell shows the end of our kernel, and below it XLA's
# program.

# %% id="hlo"
hlo = jax.jit(density).lower(dive).compile().as_text()
entry = hlo[hlo.index("ENTRY"):]
print(*build(closed).source.splitlines()[-4:], sep="\n")
print("... and XLA:")
for line in entry.splitlines():
    print(line.partition(", metadata")[0])
inside = Counter(re.findall(r" = \S+ (\w+)\(", hlo[:hlo.index("ENTRY")]))
print(f"{entry.count(' fusion(')} fusion; inside of it",
      ", ".join(f"{k} {name}" for name, k in inside.most_common()))

# %% [markdown] id="hlo-why"
# XLA does the same: its program is one `fusion` of `kind=kLoop`, which is a loop over elements, with our lines inside,
# and a `broadcast` for each constant. The names differ between versions and between machines. But XLA does more than
# our compiler, because it accepts several shapes in a program, fuses reductions with the operations before them, calls
# libraries for matrix products, reuses memory, and leaves arrays on the device between calls, whereas ours copies them
# to the device and back in each call.
#
# The design comes from [JaCe](https://github.com/GridTools/jace), which has a table with one small translator for each
# primitive, and a driver that goes through the equations and keeps the scope. JaCe translates jaxprs for
# [DaCe](https://spcldace.readthedocs.io), a compiler that optimises data flow and also targets FPGAs and clusters. We
# took the design and left out DaCe. For the equation of state of the pyhpc benchmarks, which is a similar formula,
# version 2.0.0b1 of DaCe needed 200 to 260 s to fuse and compile, and its code was 2.2 to 2.4 times slower than that of
# `jax.jit`, according to jaxpile's README. If a person transforms a large program by hand, DaCe can do many things that
# ours cannot.
#
# The full version of our compiler is **jaxpile**, in this course's repository. `packages/jaxpile` has the same parts,
# for more than 150 primitives, and also compiles for the CPU with LLVM. The course's extra `jit` installs it, and so
# does `make setup`.
#
# | here | in jaxpile | what jaxpile adds |
# |---|---|---|
# | `write`, `translate` | `driver.py`, `registry.py` | your own translators, errors that name your line |
# | `Kernel`, `VIEWS` | `expressions.py`, `values.py`, `primitives/views.py` | expressions instead of text |
# | one shape of results | `fusion.py`, `program.py` | several loops, merged; reductions, scans, scatters |
# | `build`, `launch` | `cuda/` | two more printers, `llvm/` and `python_text.py` |
# | `my_jit`, `key_of` | `jitted.py`, `stages.py` | static arguments, keywords, a bounded cache |

# %% [markdown] id="keypoints" tags=["keypoints"]
# ## Keypoints
#
# - A jaxpr is a list of equations. A loop over them, with a dictionary of variables, interprets or compiles the
#   program, depending on what the variables represent.
# - If an array is a function of its index, fusing means inserting text into text. This gives one kernel that loads each
#   input once. Slices, transposes and broadcasts need no memory, but their access pattern stays the same.
# - A nested jaxpr has the same variables in all of its calls, so each call needs its own scope.
# - `jit` is a cache. Its key consists of the tree, shapes, types and weak types for which the kernel was built. Values
#   and globals are not part of the key.
# - If a compiler doesn't know a primitive, it must raise an error that names it. If it translates one wrongly, only a
#   comparison of numbers reveals that.

# %% [markdown] id="read-on"
# ## Where to read on
#
# - JAX: [jaxprs](https://docs.jax.dev/en/latest/jaxpr.html), [writing an interpreter of
#   them](https://docs.jax.dev/en/latest/notebooks/Writing_custom_interpreters_in_Jax.html),
#   [pytrees](https://docs.jax.dev/en/latest/pytrees.html), and
#   [autodidax](https://docs.jax.dev/en/latest/autodidax.html), which builds all of JAX's core in one
#   notebook.
# - XLA: [its architecture](https://openxla.org/xla/architecture), and [what its operations
#   mean](https://openxla.org/xla/operation_semantics).
# - CuPy's user guide on [raw kernels](https://docs.cupy.dev/en/stable/user_guide/kernel.html).
# - The formulas are from Fofonoff and Millard, *Algorithms for computation of fundamental properties of seawater*,
#   UNESCO technical papers in marine science 44 (1983).

# %% [markdown] id="room-plan" tags=["room"]
# ## For the room: 70 minutes
#
# | minutes | what |
# |---|---|
# | 0-5 | the question; ask what `jax.jit` does, and write the answers on the board |
# | 5-18 | section 1; `walk`, in pairs, because everything else builds on it |
# | 18-34 | section 2; read the printed kernel aloud, line by line; `power` |
# | 34-45 | section 3; `broadcast`; collect guesses of the sectors on the board |
# | 45-53 | section 4; `nested` |
# | 53-61 | section 5; `key` |
# | 61-70 | sections 6 and 7; return to the answers on the board |
#
# *Ten minutes late:* leave out `power` after its first hint, and show section 7 without its first cell. Don't leave out
# `walk` or `key`.
#
# *Where people get stuck.* In `walk` they forget literals among the *outputs*, and primitives with several results,
# although `run` always gives a list. In `power` they forget exponent 0, and `x**1`. In `broadcast`, they map the
# result's axes and forget axes of length 1. In `nested` they expect more work, but it is one line. Discuss why one line
# is enough. In `key` they forget weak types.
#
# *Frequent questions.* "Why is the kernel a function of the index, and not of the array?" With an index, nothing needs
# to be stored. Ask what the program would have to store for `x[1:] - x[:-1]` otherwise. "Why does each line have a
# name?" Without names, the text of a value that is used twice would appear twice, and four times at the next level.
# After ten lines `x = x * x`, there would be 1,023 products. "Does XLA generate CUDA C++?" No, it generates LLVM IR or
# Triton's language. "Why float32?" It is JAX's default. To support another type, start with `TYPES`.
#
# *What goes wrong.* If you run the first cells of section 2 again, they empty the three tables, so also run the cells
# in sections 2 to 4 that fill them. The cell that counts traces defines its function anew, because otherwise it would
# print different numbers the second time.
