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
]
