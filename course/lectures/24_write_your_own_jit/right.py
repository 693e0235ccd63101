"""Right answers to the exercises of "Write your own JIT" in other styles than the lecture's."""

from __future__ import annotations

from jax.extend.core import Literal

from wrong_answers import answers_of, other_styles

RIGHT, right = other_styles("24_write_your_own_jit")

# --- walk ---------------------------------------------------------------------------------------


@right("walk")
def equation_by_equation(closed, *arguments):
    known = {}
    for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        known[variable] = value
    for variable, value in zip(closed.jaxpr.invars, arguments, strict=True):
        known[variable] = value
    for equation in closed.eqns:
        operands = []
        for atom in equation.invars:
            operands.append(atom.val if hasattr(atom, "val") else known[atom])
        results = equation.primitive.bind(*operands, **equation.params)
        if not equation.primitive.multiple_results:
            results = (results,)
        for variable, result in zip(equation.outvars, results, strict=True):
            known[variable] = result
    return tuple(atom.val if hasattr(atom, "val") else known[atom] for atom in closed.jaxpr.outvars)


@right("walk")
def only_what_is_asked_for(closed, *arguments):
    jaxpr = closed.jaxpr
    known = {**dict(zip(jaxpr.invars, arguments, strict=True)), **dict(zip(jaxpr.constvars, closed.consts, strict=False))}
    maker = {made: equation for equation in jaxpr.eqns for made in equation.outvars}

    def value(atom):
        if isinstance(atom, Literal):
            return atom.val
        if atom not in known:
            equation = maker[atom]
            results = equation.primitive.bind(*map(value, equation.invars), **equation.params)
            if not equation.primitive.multiple_results:
                results = [results]
            known.update(zip(equation.outvars, results, strict=True))
        return known[atom]

    return [value(atom) for atom in jaxpr.outvars]


TABLE = {"mul": lambda x, y: x * y, "add": lambda x, y: x + y, "sub": lambda x, y: x - y}


@right("walk")
def some_by_a_table(closed, *arguments):
    known = dict(zip([*closed.jaxpr.constvars, *closed.jaxpr.invars], [*closed.consts, *arguments], strict=True))

    def read(atom):
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in closed.jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        if own := TABLE.get(equation.primitive.name):
            made = [own(*operands)]
        else:
            made = equation.primitive.bind(*operands, **equation.params)
            made = made if equation.primitive.multiple_results else [made]
        known.update(zip(equation.outvars, made, strict=True))
    return list(map(read, closed.jaxpr.outvars))


# --- power --------------------------------------------------------------------------------------


@right("power")
def halves(name, x, y):
    """x ** y as the square of a half of it, and one factor more where y is odd."""
    if y < 0:
        return f"1.0f / ({halves(name, x, abs(y))})"
    if y == 0:
        return "1.0f"
    if y == 1:
        return x
    half = name(halves(name, x, y // 2))
    return f"{half} * {half} * {x}" if y % 2 else f"{half} * {half}"


@right("power")
def digits_from_the_left(name, x, y):
    if y == 0:
        return "1"
    product = x
    for digit in f"{abs(y):b}"[1:]:
        product = name(f"{product} * {product}")
        if digit == "1":
            product = name(f"{product} * {x}")
    return product if y > 0 else f"1 / {product}"


# --- broadcast ----------------------------------------------------------------------------------


@right("broadcast")
def axis_by_axis(index, shape, dimensions):
    inner = []
    for k in range(len(shape)):
        inner.append(index[dimensions[k]] if shape[k] > 1 else "0")
    return tuple(inner)


@right("broadcast")
def by_products(index, shape, dimensions):
    return tuple(f"{index[axis]} * {int(extent != 1)}" for extent, axis in zip(shape, dimensions, strict=True))


# --- nested: the lecture's compiler with another `inlined` ---------------------------------------

compiler_with = answers_of("24_write_your_own_jit").compiler_with


def written_out(names, kernel, closed, operands):
    scope = dict(zip(closed.jaxpr.invars, operands, strict=True))
    for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        scope[variable] = kernel.array(variable.aval)
        kernel.constants.append(value)

    def read(atom):
        if isinstance(atom, Literal):
            return lambda index: names["constant"](atom.val, atom.aval.dtype)
        return scope[atom]

    for equation in closed.eqns:
        made = names["translate"](kernel, equation, [read(atom) for atom in equation.invars])
        scope.update(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in closed.jaxpr.outvars]


def each_as_a_function(names, kernel, closed, operands):
    results = names["write"](kernel, closed, list(operands))
    return tuple(lambda index, result=result: result(index) for result in results)


for inlined in (written_out, each_as_a_function):
    right("nested", inlined.__name__)(compiler_with(inlined))


# --- key ----------------------------------------------------------------------------------------


@right("key")
def as_text(tree, leaves):
    return f"{tree} " + ", ".join(f"{leaf.dtype}{leaf.shape} {leaf.weak_type}" for leaf in leaves)


@right("key")
def as_a_set_of_numbered_leaves(tree, leaves):
    return frozenset(enumerate([tree, *((leaf.aval.str_short(), leaf.weak_type) for leaf in leaves)]))


@right("key")
def by_types_of_jax(tree, leaves):
    return (tree, *(leaf.aval for leaf in leaves))
