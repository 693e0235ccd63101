"""Right answers in other styles than ours, for the grader to give everything.

Cells that are not named are those of the solution.
"""

RIGHT = [
    {"name": "another", "cells": {
        "interpret": '''def interpret(jaxpr, consts, args, rules):
    environment = {}
    environment.update(zip(jaxpr.constvars, consts))
    environment.update(zip(jaxpr.invars, args))
    read = lambda atom: rules["literal"](atom) if hasattr(atom, "val") else environment[atom]
    for eqn in jaxpr.eqns:
        called = inner(eqn)
        if called is None and eqn.primitive.name not in rules:
            raise Unsupported(eqn.primitive.name)
        operands = list(map(read, eqn.invars))
        if called is not None:
            values = interpret(called.jaxpr, called.consts, operands, rules)
        elif eqn.primitive.multiple_results:
            values = rules[eqn.primitive.name](eqn, *operands)
        else:
            values = (rules[eqn.primitive.name](eqn, *operands),)
        for variable, given in zip(eqn.outvars, values):
            environment[variable] = given
    return list(map(read, jaxpr.outvars))
''',
        # The bits of a float in place of its digits.
        "scalar": '''def scalar(value, dtype):
    value = np.asarray(value, dtype)
    if dtype == np.float64:
        return f"__longlong_as_double({hex(value.view(np.uint64)[()])}ull)"
    if dtype == np.float32:
        return f"__uint_as_float({hex(value.view(np.uint32)[()])}u)"
    if dtype == np.bool_:
        return str(bool(value)).lower()
    bits = int(value) % (1 << 8 * dtype.itemsize)
    return f"static_cast<{TYPES[dtype.name]}>({bits}ull)"
''',
        "formula": '''def formula(name, texts, dtype, params):
    """The C++ expression of an elementwise primitive."""
    if name in TEMPLATES:
        return TEMPLATES[name].format(*texts)
    kind = TYPES[dtype.name]
    match name, *texts:
        case "select_n", which, no, yes:
            return f"(!{which} ? {no} : {yes})"
        case "max", a, b:
            return f"({a} != {a} ? {a} : {b} != {b} ? {b} : {a} < {b} ? {b} : {a})"
        case "min", a, b:
            return f"({a} != {a} ? {a} : {b} != {b} ? {b} : {b} < {a} ? {b} : {a})"
        case "integer_pow", x:
            y, text = abs(params["y"]), f"({kind})1"
            for _ in range(y):
                text = f"({text} * {x})"
            return text if params["y"] >= 0 else f"({kind})1 / {text}".join("()")
        case "convert_element_type", x:
            return f"static_cast<{kind}>({x})"
        case "clamp", low, x, high:
            return f"({x} > {high} ? {high} : {x} < {low} ? {low} : {x})"
        case "div", x, y:
            return f"({x} / {y})"
    raise Unsupported(name)
''',
        # A loop over the grid in place of a guard.
        "kernel-of": '''def kernel_of(closed):
    jaxpr = closed.jaxpr
    arguments = [(f"c{n}", v.aval) for n, v in enumerate(jaxpr.constvars)]
    arguments += [(f"x{n}", v.aval) for n, v in enumerate(jaxpr.invars)]
    results = [(f"y{n}", v.aval) for n, v in enumerate(jaxpr.outvars)]
    arrays = [stored(name, aval) for name, aval in arguments]
    found = interpret(jaxpr, arrays[:len(jaxpr.constvars)], arrays[len(jaxpr.constvars):], RULES)
    code = Code()
    code.line("const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;")
    code.line("const long long step = gridDim.x * (long long)blockDim.x;")
    for (name, aval), array in zip(results, found):
        with code.block(f"for (long long i = first; i < {aval.size}; i += step)"):
            code.line(f"{name}[i] = {code.get(array, unravel('i', aval.shape))};")
    pointers = [f"const {TYPES[aval.dtype.name]}* __restrict__ {name}" for name, aval in arguments]
    pointers += [f"{TYPES[aval.dtype.name]}* {name}" for name, aval in results]
    return "\\n".join([HEADER, "extern \\"C\\" __global__", f"void kernel({', '.join(pointers)})", "{",
                      *code.lines, "}", ""])
''',
        "concatenate": '''@rule("concatenate")
def concatenate(equation, *operands):
    axis, aval = equation.params["dimension"], equation.outvars[0].aval

    def element(code, index):
        value = code.let(aval.dtype, "0")
        place = code.let(np.int64, index[axis])
        for operand in operands:
            length = operand.shape[axis]
            with code.block(f"if (0 <= {place} && {place} < {length})"):
                there = list(index)
                there[axis] = place
                code.line(f"{value} = {code.get(operand, there)};")
            place = code.let(np.int64, f"{place} - {length}")
        return value

    return Array(aval.shape, aval.dtype, element)


@rule("iota")
def iota(equation):
    aval = equation.outvars[0].aval
    return Array(aval.shape, aval.dtype, lambda code, index: index[equation.params["dimension"]])
''',
        # Nested loops in place of one.
        "reduction": '''@rule(*REDUCTIONS)
def reduction(equation, operand):
    aval, axes = equation.outvars[0].aval, equation.params["axes"]
    begin, combine = REDUCTIONS[equation.primitive.name]

    def element(code, index):
        first = np.array(begin(aval.dtype), aval.dtype)[()]
        total = code.let(aval.dtype, scalar(first, aval.dtype))

        def along(remaining, there):
            if not remaining:
                value = code.get(operand, there)
                code.line(f"{total} = {formula(combine, [total, value], aval.dtype, {})};")
                return
            with code.loop(operand.shape[remaining[0]]) as i:
                along(remaining[1:], [*there[:remaining[0]], i, *there[remaining[0]:]])

        along(sorted(axes), index)
        return total

    return Array(aval.shape, aval.dtype, element)
''',
        "jit": '''def jit(function):
    kept = {}

    def call(*args):
        leaves, treedef = jax.tree.flatten(args)
        try:
            arrays = [np.asarray(leaf) for leaf in leaves]
        except jax.errors.TracerArrayConversionError:
            return function(*args)
        key = treedef, tuple((a.shape, a.dtype, type(leaf) in (bool, int, float, complex))
                             for a, leaf in zip(arrays, leaves))
        if key not in kept:
            structure = []

            def flat(*args):
                result, tree = jax.tree.flatten(function(*args))
                structure.append(tree)
                return result

            closed = jax.make_jaxpr(flat)(*args)
            kept[key] = closed, kernel_of(closed), structure[0]
        closed, text, tree = kept[key]
        inputs = [*closed.consts, *(a.astype(v.dtype) for a, v in zip(arrays, closed.in_avals))]
        return jax.tree.unflatten(tree, run(text, inputs, closed.out_avals))

    return call
''',
    }},
    # Loops of known length written out, and C++ in place of expressions.
    {"name": "unrolled", "cells": {
        "formula": '''def formula(name, texts, dtype, params):
    kind = TYPES[dtype.name]
    known = TEMPLATES | {
        "select_n": "({0} == 0 ? {1} : {2})", "div": "({0} / {1})",
        "max": "[&]{{ if ({0} != {0}) return {0}; return {1} <= {0} ? {0} : {1}; }}()",
        "min": "[&]{{ if ({0} != {0}) return {0}; return {1} >= {0} ? {0} : {1}; }}()",
        "clamp": "min(max({1}, {0}), {2})",
        "convert_element_type": "(" + kind + "){0}" if dtype.kind != "b" else "bool({0})",
    }
    if name == "integer_pow":
        lines = [f"{kind} power = 1;", *[f"power *= {texts[0]};"] * abs(params["y"])]
        lines.append("return power;" if params["y"] >= 0 else "return 1 / power;")
        return "[&]{ " + " ".join(lines) + " }()"
    if name not in known:
        raise Unsupported(name)
    return known[name].format(*texts)
''',
        "dynamic-slice": '''@rule("dynamic_slice")
def dynamic_slice(equation, operand, *begin):
    aval = equation.outvars[0].aval
    room = [length - size for length, size in zip(operand.shape, aval.shape)]

    def element(code, index):
        starts = [code.let(np.int64, code.get(scalar, [])) for scalar in begin]
        for start, most in zip(starts, room):
            code.line(f"{start} = max(0ll, min({start}, {most}ll));")
        return code.get(operand, [f"({start} + {i})" for start, i in zip(starts, index)])

    return Array(aval.shape, aval.dtype, element)
''',
        "scatter": '''@rule("scatter", "scatter-add", "scatter_add")
def scatter(equation, operand, indices, updates):
    aval, add = equation.outvars[0].aval, "add" in equation.primitive.name
    found = windows(equation, operand, indices, updates)

    def element(code, index):
        result = code.let(aval.dtype, code.get(operand, index))
        with code.loop(found.count) as number:
            offsets = []
            for i, start, size, length in zip(index, found.start(code, number), found.sizes,
                                              operand.shape):
                start = code.let(np.int64, start)
                code.line(f"if ({start} < 0 || {start} + {size} > {length}) continue;")
                offsets.append(code.let(np.int64, f"{i} - {start}"))
                code.line(f"if ({offsets[-1]} < 0 || {offsets[-1]} >= {size}) continue;")
            new = found.update(code, number, offsets)
            code.line(f"{result} = {result} + {new};" if add else f"{result} = {new};")
        return result

    return Array(aval.shape, aval.dtype, element)
''',
        "scan": '''@rule("scan")
def scan(equation, *operands):
    params = equation.params
    length, reverse, body = params["length"], params["reverse"], params["jaxpr"]
    first, many = scan_parts(equation)
    consts, init, xs = operands[:first], operands[first:first + many], operands[first + many:]
    places = range(length)[::-1] if reverse else range(length)

    def at(array, place):
        return Array(array.shape[1:], array.dtype,
                     lambda code, index: code.get(array, [str(place), *index]))

    def result(n, aval):
        def element(code, index):
            column, shape = (index, aval.shape) if n < many else (index[1:], aval.shape[1:])
            carries = Carries(code, init, column, shape)
            row = None if n < many else code.let(aval.dtype, "0")
            for place in places:
                with code.block("if (true)"):
                    rows = [at(array, place) for array in xs]
                    found = interpret(body.jaxpr, body.consts, [*consts, *carries.arrays, *rows], RULES)
                    if row is not None:
                        value = code.get(found[n], column)
                        code.line(f"if ({index[0]} == {place}) {row} = {value};")
                    carries.set(code, found[:many])
            return carries.names[n] if row is None else row
        return Array(aval.shape, aval.dtype, element)

    return [result(n, variable.aval) for n, variable in enumerate(equation.outvars)]
''',
        "while-loop": '''@rule("while")
def while_loop(equation, *operands):
    params, operands = equation.params, list(operands)
    test_consts = [operands.pop(0) for _ in range(params["cond_nconsts"])]
    body_consts = [operands.pop(0) for _ in range(params["body_nconsts"])]
    test, body = params["cond_jaxpr"], params["body_jaxpr"]

    def result(n, aval):
        def element(code, index):
            carries = Carries(code, operands, index, aval.shape)
            going = code.let(bool, "true")
            with code.block(f"while ({going})"):
                (answer,) = interpret(test.jaxpr, test.consts, test_consts + carries.arrays, RULES)
                code.line(f"{going} = {code.get(answer, [])};")
                with code.block(f"if ({going})"):
                    carries.set(code, interpret(body.jaxpr, body.consts,
                                                body_consts + carries.arrays, RULES))
            return carries.names[n]
        return Array(aval.shape, aval.dtype, element)

    return [result(n, variable.aval) for n, variable in enumerate(equation.outvars)]
''',
    }},
    # From the results back to the inputs: an equation is translated when somebody asks for it.
    {"name": "on-demand", "cells": {
        "interpret": '''def interpret(jaxpr, consts, args, rules):
    values = {id(v): x for v, x in zip(jaxpr.constvars + jaxpr.invars, [*consts, *args])}
    maker = {id(v): eqn for eqn in jaxpr.eqns for v in eqn.outvars}

    def value(atom):
        if isinstance(atom, Literal):
            return rules["literal"](atom)
        if id(atom) not in values:
            eqn = maker[id(atom)]
            given = [value(operand) for operand in eqn.invars]
            if (called := inner(eqn)) is not None:
                made = interpret(called.jaxpr, called.consts, given, rules)
            elif (meaning := rules.get(eqn.primitive.name)) is None:
                raise Unsupported(eqn.primitive.name)
            else:
                made = meaning(eqn, *given)
                made = made if eqn.primitive.multiple_results else [made]
            values.update(zip(map(id, eqn.outvars), made))
        return values[id(atom)]

    return [value(atom) for atom in jaxpr.outvars]
''',
        # An element of each operand is read, inside of it, and one of them is taken.
        "concatenate": '''@rule("concatenate")
def concatenate(equation, *operands):
    axis, aval = equation.params["dimension"], equation.outvars[0].aval
    pieces, first = [], 0
    for operand in operands:
        if operand.shape[axis]:
            pieces.append((first, operand))
        first += operand.shape[axis]

    def element(code, index):
        i, text = index[axis], None
        for first, operand in reversed(pieces):
            last = operand.shape[axis] - 1
            inside = f"min(max((long long)({i}) - {first}ll, 0ll), {last}ll)"
            value = code.get(operand, [*index[:axis], inside, *index[axis + 1:]])
            text = value if text is None else f"({i} <= {first + last} ? {value} : {text})"
        return text

    return Array(aval.shape, aval.dtype, element)


@rule("iota")
def iota(equation):
    aval = equation.outvars[0].aval
    return Array(aval.shape, aval.dtype, lambda code, index: index[equation.params["dimension"]])
''',
        # What is set is looked for from the last window, and the first hit ends it.
        "scatter": '''@rule("scatter", "scatter-add", "scatter_add")
def scatter(equation, operand, indices, updates):
    aval, add = equation.outvars[0].aval, equation.primitive.name != "scatter"
    found = windows(equation, operand, indices, updates)

    def element(code, index):
        result = code.let(aval.dtype, code.get(operand, index))
        with code.loop(found.count) as iteration:
            number = iteration if add else code.let(np.int64, f"{found.count - 1} - {iteration}")
            starts = [code.let(np.int64, start) for start in found.start(code, number)]
            fits = [f"0 <= {start} && {start} <= {length - size}"
                    for start, length, size in zip(starts, operand.shape, found.sizes)]
            offsets = [f"({i} - {start})" for i, start in zip(index, starts)]
            hits = [f"0 <= {offset} && {offset} < {size}" for offset, size in zip(offsets, found.sizes)]
            with code.block("if (" + " && ".join(fits + hits) + ")"):
                new = found.update(code, number, offsets)
                code.line(f"{result} += {new};" if add else f"{result} = {new};")
                if not add:
                    code.line("break;")
        return result

    return Array(aval.shape, aval.dtype, element)
''',
        # The test once before the loop, and once at its end.
        "while-loop": '''@rule("while")
def while_loop(equation, *operands):
    params = equation.params
    ends = np.cumsum([params["cond_nconsts"], params["body_nconsts"]])
    test_consts, body_consts, init = operands[:ends[0]], operands[ends[0]:ends[1]], operands[ends[1]:]

    def ask(code, carries, again):
        closed = params["cond_jaxpr"]
        with code.block("if (true)"):
            answer = interpret(closed.jaxpr, closed.consts, [*test_consts, *carries.arrays], RULES)[0]
            code.line(f"{again} = {code.get(answer, [])};")

    def result(n, aval):
        def element(code, index):
            carries, closed = Carries(code, init, index, aval.shape), params["body_jaxpr"]
            again = code.let(bool, "false")
            ask(code, carries, again)
            with code.block(f"while ({again})"):
                with code.block("if (true)"):
                    carries.set(code, interpret(closed.jaxpr, closed.consts,
                                                [*body_consts, *carries.arrays], RULES))
                ask(code, carries, again)
            return carries.names[n]
        return Array(aval.shape, aval.dtype, element)

    return [result(n, variable.aval) for n, variable in enumerate(equation.outvars)]
''',
    }},
    # C++ does the work: generic lambdas for operations, a device function for each result.
    {"name": "lambdas", "cells": {
        "scalar": '''def scalar(value, dtype):
    kind = TYPES[dtype.name]
    if dtype.kind == "f":
        number = float(value)
        digits = ("NAN" if number != number else "INFINITY" if number > 0 else "-INFINITY") if (
            not np.isfinite(number)) else float.hex(number)
        return f"static_cast<{kind}>({digits})"
    return f"static_cast<{kind}>({int(value) % (1 << 64):#x}ull)"
''',
        "formula": '''LAMBDAS = {
    "select_n": "[](auto which, auto no, auto yes) {{ if (which) return yes; return no; }}",
    "max": "[](auto a, auto b) {{ if (a != a || a > b) return a; return b; }}",
    "min": "[](auto a, auto b) {{ if (a != a || a < b) return a; return b; }}",
    "clamp": "[](auto low, auto x, auto high) {{ if (x < low) x = low; if (x > high) x = high; return x; }}",
    "div": "[](auto a, auto b) {{ return a / b; }}",
    "convert_element_type": "[](auto x) -> {kind} {{ return x; }}",
    "integer_pow": "[](auto x) {{ {kind} p = 1; for (int n = 0; n < {y}; ++n) p *= x; "
                   "return {negative} ? ({kind})1 / p : p; }}",
}


def formula(name, texts, dtype, params):
    if name in TEMPLATES:
        return TEMPLATES[name].format(*texts)
    if name not in LAMBDAS:
        raise Unsupported(name)
    y = params.get("y", 0)
    text = LAMBDAS[name].format(kind=TYPES[dtype.name], y=abs(y), negative=str(y < 0).lower())
    return f"{text}({', '.join(texts)})"
''',
        "kernel-of": '''def kernel_of(closed):
    jaxpr = closed.jaxpr

    def pointers(kind, variables, const):
        return [(f"{const}{TYPES[v.aval.dtype.name]}* ", f"{kind}{n}") for n, v in enumerate(variables)]

    given = pointers("table", jaxpr.constvars, "const ") + pointers("from", jaxpr.invars, "const ")
    wanted = pointers("to", jaxpr.outvars, "")
    arrays = [stored(name, v.aval) for (_, name), v in zip(given, jaxpr.constvars + jaxpr.invars)]
    many = len(jaxpr.constvars)
    found = interpret(jaxpr, arrays[:many], arrays[many:], RULES)
    functions, calls = [], []
    for n, (array, v) in enumerate(zip(found, jaxpr.outvars)):
        code = Code()
        code.line(f"return {code.get(array, unravel('place', v.aval.shape))};")
        takes = ", ".join([kind + name for kind, name in given] + ["const long long place"])
        functions += [f"__device__ {TYPES[v.aval.dtype.name]} element{n}({takes})", "{", *code.lines, "}"]
        passes = ", ".join([name for _, name in given] + ["place"])
        calls.append(f"    if (place < {v.aval.size}) to{n}[place] = element{n}({passes});")
    takes = ", ".join(kind + name for kind, name in given + wanted)
    return "\\n".join([HEADER, *functions, f'extern "C" __global__ void kernel({takes})', "{",
                      "    const long long place = (long long)blockDim.x * blockIdx.x + threadIdx.x;",
                      *calls, "}", ""])
''',
        # A rule for each view; the place of an element by the strides of its axes.
        "views": '''def seen(name, index_of):
    @rule(name)
    def view(equation, operand):
        aval = equation.outvars[0].aval
        return Array(aval.shape, aval.dtype, lambda code, index: code.get(
            operand, index_of(index, operand.shape, aval.shape, equation.params)))


def spread(index, inside, outside, params):
    return [index[axis] if inside[n] == outside[axis] else "0"
            for n, axis in enumerate(params["broadcast_dimensions"])]


def sliced(index, inside, outside, params):
    steps = params["strides"] or (1,) * len(index)
    return [f"({i} * {step} + {begin})" for i, step, begin in zip(index, steps, params["start_indices"])]


def turned(index, inside, outside, params):
    index = list(index)
    for axis in params["dimensions"]:
        index[axis] = f"({inside[axis] - 1} - {index[axis]})"
    return index


def permuted(index, inside, outside, params):
    return [index[int(axis)] for axis in np.argsort(params["permutation"])]


def same_place(index, inside, outside, params):
    def strides(shape):
        return [max(1, math.prod(shape[axis + 1:])) for axis in range(len(shape))]

    place = " + ".join(f"{i} * {stride}ll" for i, stride in zip(index, strides(outside))) or "0"
    return [f"(({place}) / {stride} % {max(length, 1)})" for length, stride in zip(inside, strides(inside))]


for names, index_of in ((["broadcast_in_dim"], spread), (["slice"], sliced), (["rev"], turned),
                        (["transpose"], permuted), (["reshape", "squeeze", "expand_dims"], same_place)):
    for name in names:
        seen(name, index_of)
''',
    }},
    # Objects in place of closures, sums in four parts, loops that count as the rows lie.
    {"name": "objects", "cells": {
        "interpret": '''class Walk:
    def __init__(self, rules):
        self.rules, self.values = rules, {}

    def give(self, variables, results):
        for variable, result in zip(variables, results):
            self.values[variable] = result

    def take(self, atom):
        return self.rules["literal"](atom) if isinstance(atom, Literal) else self.values[atom]

    def step(self, equation):
        operands, called = [self.take(atom) for atom in equation.invars], inner(equation)
        if called is not None:
            self.give(equation.outvars, interpret(called.jaxpr, called.consts, operands, self.rules))
            return
        try:
            meaning = self.rules[equation.primitive.name]
        except KeyError:
            raise Unsupported(equation.primitive.name) from None
        result = meaning(equation, *operands)
        self.give(equation.outvars, result if equation.primitive.multiple_results else (result,))


def interpret(jaxpr, consts, args, rules):
    walk = Walk(rules)
    walk.give(jaxpr.constvars, consts)
    walk.give(jaxpr.invars, args)
    for equation in jaxpr.eqns:
        walk.step(equation)
    return [walk.take(atom) for atom in jaxpr.outvars]
''',
        "elementwise": '''class Operation:
    def __init__(self, equation, operands):
        self.equation, self.operands, self.aval = equation, operands, equation.outvars[0].aval

    def __call__(self, code, index):
        texts = []
        for operand in self.operands:
            there = [i if length != 1 else "0" for i, length in zip(index, operand.shape)]
            texts.append(code.get(operand, there))
        return formula(self.equation.primitive.name, texts, self.aval.dtype, self.equation.params)


@rule(*TEMPLATES, *YOURS)
def elementwise(equation, *operands):
    operation = Operation(equation, operands)
    return Array(operation.aval.shape, operation.aval.dtype, operation)
''',
        "reduction": '''@rule(*REDUCTIONS)
def reduction(equation, operand):
    aval, axes = equation.outvars[0].aval, equation.params["axes"]
    begin, combine = REDUCTIONS[equation.primitive.name]
    lengths = [operand.shape[axis] for axis in axes]
    many = math.prod(lengths)

    def element(code, index):
        kept = [axis for axis in range(len(operand.shape)) if axis not in axes]

        def at(number):
            place = dict(zip(kept, index)) | dict(zip(axes, unravel(number, lengths)))
            return code.get(operand, [place[axis] for axis in range(len(operand.shape))])

        def add(total, value):
            code.line(f"{total} = {formula(combine, [total, value], aval.dtype, {})};")

        neutral = scalar(np.asarray(begin(aval.dtype), aval.dtype)[()], aval.dtype)
        parts = [code.let(aval.dtype, neutral) for _ in range(4)]
        with code.loop(many // 4) as iteration:
            for n, part in enumerate(parts):
                add(part, at(f"(4 * {iteration} + {n})"))
        for number in range(many // 4 * 4, many):
            add(parts[0], at(str(number)))
        for one, other in ((0, 1), (2, 3), (0, 2)):
            add(parts[one], parts[other])
        return parts[0]

    return Array(aval.shape, aval.dtype, element)
''',
        "dynamic-slice": '''@rule("dynamic_slice")
def dynamic_slice(equation, operand, *begin):
    aval = equation.outvars[0].aval

    def element(code, index):
        there = []
        for axis, start in enumerate(begin):
            first = code.let(np.int64, code.get(start, []))
            room = operand.shape[axis] - aval.shape[axis]
            with code.block(f"if ({first} < 0)"):
                code.line(f"{first} = 0;")
            with code.block(f"if ({first} > {room})"):
                code.line(f"{first} = {room};")
            there.append(f"({first} + {index[axis]})")
        return code.get(operand, there)

    return Array(aval.shape, aval.dtype, element)
''',
        "scan": '''class Scan:
    def __init__(self, equation, operands):
        self.body, self.reverse = equation.params["jaxpr"], equation.params["reverse"]
        self.length = equation.params["length"]
        first, self.many = scan_parts(equation)
        self.consts, self.init = operands[:first], operands[first:first + self.many]
        self.xs = operands[first + self.many:]

    def rows(self, n):
        return [Array(x.shape[1:], x.dtype, lambda code, index, x=x: code.get(x, [n, *index]))
                for x in self.xs]

    def loop(self, code, column, shape, until=None, wanted=None):
        carries = Carries(code, self.init, column, shape)
        found = None if wanted is None else code.let(self.body.out_avals[wanted].dtype, "0")
        n = f"row_of_{carries.names[0]}"
        if self.reverse:
            head = f"for (long long {n} = {self.length - 1}; {n} >= {until or 0}; --{n})"
        else:
            head = f"for (long long {n} = 0; {n} <= {until or self.length - 1}; ++{n})"
        with code.block(head):
            results = interpret(self.body.jaxpr, self.body.consts,
                                [*self.consts, *carries.arrays, *self.rows(n)], RULES)
            if wanted is not None:
                code.line(f"{found} = {code.get(results[wanted], column)};")
            carries.set(code, results[:self.many])
        return carries, found


@rule("scan")
def scan(equation, *operands):
    loops = Scan(equation, operands)

    def carry(n, aval):
        return Array(aval.shape, aval.dtype, lambda code, index: loops.loop(
            code, index, aval.shape)[0].names[n])

    def row(n, aval):
        return Array(aval.shape, aval.dtype, lambda code, index: loops.loop(
            code, index[1:], aval.shape[1:], index[0], n)[1])

    return [(carry if n < loops.many else row)(n, v.aval) for n, v in enumerate(equation.outvars)]
''',
        "jit": '''class Compiled:
    def __init__(self, function):
        self.function, self.kept = function, {}

    def __call__(self, *args):
        leaves, tree = jax.tree_util.tree_flatten(args)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return self.function(*args)
        signature = tree, *map(jax.typeof, leaves)
        try:
            text, closed, results = self.kept[signature]
        except KeyError:
            text, closed, results = self.kept[signature] = self.translate(args)
        inputs = list(closed.consts)
        inputs += [np.asarray(leaf).astype(v.dtype) for leaf, v in zip(leaves, closed.in_avals)]
        return jax.tree_util.tree_unflatten(results, run(text, inputs, closed.out_avals))

    def translate(self, args):
        traced = jax.jit(self.function).trace(*args)
        return kernel_of(traced.jaxpr), traced.jaxpr, jax.tree.structure(traced.out_info)


def jit(function):
    return Compiled(function)
''',
    }},
]
