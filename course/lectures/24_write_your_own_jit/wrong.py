"""Wrong answers to the exercises of "Write your own JIT", with what the check must say of each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jax
import jax.core
from jax.extend.core import Literal, jaxpr_as_fun

from gpucourse.course.regions import SOLUTION, unwrap_regions
from gpucourse.course.registry import load_course
from gpucourse.publish.source.reader import read_source
from wrong_answers import collection

WRONG, wrong = collection("24_write_your_own_jit")

# --- walk ---------------------------------------------------------------------------------------


def run(equation, operands):
    results = equation.primitive.bind(*operands, **equation.params)
    return results if equation.primitive.multiple_results else [results]


def walked(closed, arguments, *, constants=True, read=None, first_only=False, results=None):
    """The right walk, but for what is asked to go wrong."""
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.invars, arguments, strict=True))
    if constants:
        values |= zip(jaxpr.constvars, closed.consts, strict=True)

    def right(atom):
        return atom.val if isinstance(atom, Literal) else values[atom]

    read = read or right
    for equation in jaxpr.eqns:
        made = run(equation, [read(atom) if read is right else read(values, atom)
                              for atom in equation.invars])
        values |= zip(equation.outvars, made[:1] if first_only else made, strict=False)
    return results(values, jaxpr) if results else [right(atom) for atom in jaxpr.outvars]


@wrong("walk", "not a list of 1.*one result for each")
def returns_nothing(closed, *arguments):
    return []


@wrong("walk", "for x \\+ table, the dictionary lacks a constant, one of `constvars`")
def forgets_constants(closed, *arguments):
    return walked(closed, arguments, constants=False)


@wrong("walk", "unhashable|Literal")
def takes_literals_for_variables(closed, *arguments):
    return walked(closed, arguments, read=lambda values, atom: values[atom])


@wrong("walk", "for x - y, a result is .*the order in which")
def turns_operands_around(closed, *arguments):
    jaxpr = closed.jaxpr
    values = dict(zip((*jaxpr.invars, *jaxpr.constvars), (*arguments, *closed.consts), strict=True))
    for equation in jaxpr.eqns:
        operands = [atom.val if isinstance(atom, Literal) else values[atom]
                    for atom in reversed(equation.invars)]
        values |= zip(equation.outvars, run(equation, operands), strict=True)
    return [values[atom] for atom in jaxpr.outvars]


@wrong("walk", "sorted together, the dictionary lacks result 1 of `sort`.*two `outvars`")
def one_result_each(closed, *arguments):
    return walked(closed, arguments, first_only=True)


@wrong("walk", "for x and x \\+ y, .*not a list of 2")
def returns_what_came_last(closed, *arguments):
    return walked(closed, arguments, results=lambda values, jaxpr: [list(values.values())[-1]])


# --- power --------------------------------------------------------------------------------------


@wrong("power", "calls pow")
def as_it_stands(name, x, y):
    return f"pow({x}, {y})"


@wrong("power", "7 products; 3 are enough|4 products; 3 are enough.*square repeatedly")
def one_after_the_other(name, x, y):
    product = " * ".join([x] * abs(y)) or "1"
    return product if y >= 0 else f"1 / ({product})"


def _squared(name, x, y):
    text, square = "1", x
    while y:
        if y % 2:
            text = square if text == "1" else f"{text} * {square}"
        y //= 2
        if y:
            square = name(f"{square} * {square}")
    return text


@wrong("power", r"-1 is 1\.\d+, not 0|the text is .*not")
def forgets_the_sign(name, x, y):
    return _squared(name, x, abs(y))


@wrong("power", r"1\.\d+ \*\* -3 is .*, not 0\.\d+")
def divides_without_brackets(name, x, y):
    return _squared(name, x, y) if y >= 0 else f"1 / {_squared(name, x, -y)}"


@wrong("power", r"1\.\d+ \*\* 0 is 1.5, not 1")
def forgets_zero(name, x, y):
    if y == 0:
        return x
    return _squared(name, x, y) if y > 0 else f"1 / ({_squared(name, x, -y)})"


@wrong("power", r"1\.\d+ \*\* 3 is 2.25, not 3.375")
def only_powers_of_two(name, x, y):
    square = x
    for _ in range(abs(y).bit_length() - 1):
        square = name(f"{square} * {square}")
    return "1" if y == 0 else square if y > 0 else f"1 / ({square})"


@wrong("power", "returns 1, not a string")
def a_number_for_zero(name, x, y):
    return 1 if y == 0 else (_squared(name, x, y) if y > 0 else f"1 / ({_squared(name, x, -y)})")


@wrong("power", r"\*\* (6|7|8)\d is .*, not")
def six_digits(name, x, y):
    return _squared(name, x, y % 64) if y >= 0 else f"1 / ({_squared(name, x, -y)})"


@wrong("power", r"\*\* (6|7|8)\d is .*, not")
def a_table_of_small_ones(name, x, y):
    known = {k: _squared(name, x, k) for k in range(34) if k == abs(y)}
    text = known.get(abs(y), x)
    return text if y >= 0 else f"1 / ({text})"


# --- broadcast ----------------------------------------------------------------------------------


@wrong("broadcast", "returns 0 strings")
def for_numbers_only(index, shape, dimensions):
    return ()


@wrong("broadcast", r"from shape \(3,\) to \(2, 3\), .*element \(0, 1\) is element 0")
def as_it_stood(index, shape, dimensions):
    return ("0",) * len(shape)


@wrong("broadcast", "returns 2 strings")
def the_index_as_it_is(index, shape, dimensions):
    return index


@wrong("broadcast", r"from shape \(2, 1\) to \(2, 3\), .*element \(0, 1\) is element 1")
def forgets_axes_of_length_one(index, shape, dimensions):
    return tuple(index[axis] for axis in dimensions)


@wrong("broadcast", r"from shape \(2,\) to \(2, 3\), dimensions \(0,\), element")
def aligns_at_the_end(index, shape, dimensions):
    last = index[len(index) - len(shape):]
    return tuple("0" if extent == 1 else i for i, extent in zip(last, shape, strict=True))


@wrong("broadcast", "not a tuple of strings")
def a_list(index, shape, dimensions):
    return ["0" if extent == 1 else index[axis]
            for extent, axis in zip(shape, dimensions, strict=True)]


@wrong("broadcast", r"from shape \(3,\) to \(2, 3\), .*element \(0, 1\) is element 0")
def turns_the_axes_around(index, shape, dimensions):
    return tuple("0" if extent == 1 else index[len(index) - 1 - axis]
                 for extent, axis in zip(shape, dimensions, strict=True))


@wrong("broadcast", "does not compile|undefined|undeclared|is not declared|i0")
def names_of_its_own(index, shape, dimensions):
    return tuple("0" if extent == 1 else f"i{axis}"
                 for extent, axis in zip(shape, dimensions, strict=True))


# --- nested: the lecture's compiler with another `inlined` ---------------------------------------

PARTS = ("the-question", "templates", "kernel", "write", "translate", "build", "power-exercise",
         "broadcast-exercise", "nested-exercise")


@cache
def _source() -> str:
    """The cells that define the compiler, solved, without those lines that show something."""
    course = load_course(Path(__file__).resolve().parents[3])
    lesson = course.lesson("24_write_your_own_jit")
    cells = {cell.name: cell.source for cell in read_source(course, lesson).cells}
    text = "\n".join(unwrap_regions(cells[name], SOLUTION) for name in PARTS)
    text = text.replace("%load_ext gpucourse\n", "")
    shows = ("print(*[line for", "        if \" = \" in line]", "built = build(traced)",
             "print(built", "(ours,) = launch", "print(\"as JAX")
    return "\n".join(line for line in text.split("\n") if not line.startswith(shows))


def compiler_with(inlined):
    """``build`` of the lecture, in which ``inlined`` makes lines of a nested jaxpr."""
    names: dict = {"__name__": "lecture"}
    exec(compile(_source(), "the lecture's compiler", "exec", dont_inherit=True), names)
    names["inlined"] = lambda kernel, closed, operands: inlined(names, kernel, closed, operands)
    return names["build"]


def _nested(says: str):
    return lambda inlined: wrong("nested", says, inlined.__name__)(compiler_with(inlined))


@_nested("`inlined` returns None")
def not_yet(names, kernel, closed, operands):
    return None


@_nested("for one that is called twice, the kernel computes .*the second call has other operands")
def remembers_the_jaxpr(names, kernel, closed, operands):
    known = kernel.__dict__.setdefault("inlined", {})
    if id(closed) not in known:
        known[id(closed)] = names["write"](kernel, closed, operands)
    return known[id(closed)]


@_nested("a function that is called once, the kernel computes .*which operand is which")
def turns_inner_operands_around(names, kernel, closed, operands):
    return names["write"](kernel, closed, operands[::-1])


@_nested("an array from outside, the inner dictionary lacks a constant.*`closed.consts` belong to")
def drops_the_constants(names, kernel, closed, operands):
    values = dict(zip(closed.jaxpr.invars, operands, strict=True))

    def read(atom):
        if isinstance(atom, Literal):
            return lambda index: names["constant"](atom.val, atom.aval.dtype)
        return values[atom]

    for equation in closed.jaxpr.eqns:
        inner = [read(atom) for atom in equation.invars]
        values |= zip(equation.outvars, names["translate"](kernel, equation, inner), strict=True)
    return [read(atom) for atom in closed.jaxpr.outvars]


@_nested("an array from outside, zip.*one for each of the equation's `outvars`")
def first_result_only(names, kernel, closed, operands):
    return names["write"](kernel, closed, operands)[:1]


@_nested("TypeError: Error interpreting argument to mul as a JAX value")
def lets_jax_compute_it(names, kernel, closed, operands):
    return jaxpr_as_fun(closed)(*operands)


def takes_for_a_call(primitive, word):
    def inlined(names, kernel, closed, operands):
        if isinstance(closed, tuple):  # a `cond` has several, and says first which
            closed, *operands = closed[-1], *operands[1:]
        return names["write"](kernel, closed, operands)

    build = compiler_with(inlined)
    build.__globals__["CALLS"][primitive] = word
    return build


for primitive, word in (("scan", "jaxpr"), ("while", "body_jaxpr"), ("cond", "branches")):
    wrong("nested", f"treats a {primitive} as a call.*`CALLS`",
          f"takes a {primitive} for a call")(takes_for_a_call(primitive, word))

# --- key ----------------------------------------------------------------------------------------


def _key(says: str):
    return lambda key_of: wrong("key", says)(key_of)


@_key("the same arguments: the key differs")
def never_the_same(tree, leaves):
    return object()


@_key("3 and 4 elements.*the shape")
def types_only(tree, leaves):
    return tree, tuple((leaf.dtype, leaf.weak_type) for leaf in leaves)


@_key(r"\(2, 6\) and \(3, 4\).*not the size")
def sizes_only(tree, leaves):
    return tree, tuple((leaf.size, leaf.dtype, leaf.weak_type) for leaf in leaves)


@_key("float32 and int32.*the type")
def shapes_only(tree, leaves):
    return tree, tuple((leaf.shape, leaf.weak_type) for leaf in leaves)


@_key("{'a': x} and {'b': x}.*the tree's structure")
def no_tree(tree, leaves):
    return tuple((leaf.shape, leaf.dtype, leaf.weak_type) for leaf in leaves)


@_key("2.0 and np.float32.*weakly typed")
def no_weak_types(tree, leaves):
    return tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)


@_key("exchanged.*which leaf has which shape")
def a_set(tree, leaves):
    return tree, frozenset((leaf.shape, leaf.dtype, leaf.weak_type) for leaf in leaves)


@_key(r"\(3, 4\) and \(4, 3\).*with the order of its axes")
def sorted_shapes(tree, leaves):
    return tree, tuple((*sorted(leaf.shape), leaf.dtype, leaf.weak_type) for leaf in leaves)


@_key("float32 and float16.*not only its kind")
def kinds_of_types(tree, leaves):
    return tree, tuple((leaf.shape, leaf.dtype.kind, leaf.weak_type) for leaf in leaves)


@_key("of which the second is longer.*every leaf")
def first_and_last(tree, leaves):
    return tree, tuple((leaf.shape, leaf.dtype, leaf.weak_type) for leaf in (leaves[0], leaves[-1]))


@_key("and after it.*which leaf is weakly typed")
def how_many_weak(tree, leaves):
    return tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves), sum(
        leaf.weak_type for leaf in leaves)


@_key("is not hashable.*tuples")
def lists(tree, leaves):
    return tree, [(leaf.shape, leaf.dtype) for leaf in leaves]


@_key("other values: the key differs")
def values_too(tree, leaves):
    return tree, tuple((leaf.shape, leaf.dtype, leaf.weak_type, float(leaf.sum()))
                       for leaf in leaves)


@_key("the same arguments: the key differs")
def by_identity(tree, leaves):
    return tree, tuple(map(id, leaves))


@_key("the same arguments: the key differs|is not hashable")
def the_leaves_themselves(tree, leaves):
    return tree, tuple(leaves)


@wrong("walk", "JAX's own interpreter runs")
def by_eval_jaxpr(closed, *arguments):
    return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *arguments)


@wrong("walk", "JAX's own interpreter runs")
def by_jaxpr_as_fun(closed, *arguments):
    return list(jaxpr_as_fun(closed)(*arguments))


@wrong("walk", "JAX's own interpreter runs")
def by_eval_jaxpr_of_a_copy(closed, *arguments):
    return jax.core.eval_jaxpr(closed.jaxpr.replace(), closed.consts, *arguments)
