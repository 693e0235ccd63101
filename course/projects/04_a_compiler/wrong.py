"""Wrong answers that people really give, each with the reason that the grader must find.

``fails`` lists every test cell that must fail; the reason of the first must contain ``reason``.
Cells that are not named are those of the solution, and most wrong answers are the solution with one
thing changed: ``changed(cell, old, new)``. ``WITHOUT_LAST``: the tests that fail when the last code
answer is broken.
"""

from gpucourse.course.edited import edits_beside

changed = edits_beside(__file__)


def tests(*names):
    return [f"test-{name}" for name in names]


AFTER_KERNEL = tests("kernel", "views", "concatenate", "reduction", "jit", "ocean", "dynamic-slice",
                     "scatter", "scan", "while-loop", "energy")

# What compares a kernel's results, and so the threads that store them.
COMPARED = [test for test in AFTER_KERNEL if test != "test-jit"]

# No column of the ocean needs a `while`.
WITHOUT_LAST = ("test-while-loop",)

WRONG = [
    # -- interpret -----------------------------------------------------------------------------
    {
        "name": "constants-forgotten",
        "kind": "constvars forgotten",
        "fails": tests("interpret", "kernel", "jit"),
        "reason": "KeyError",
        "cells": changed("interpret", "dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], "
                         "strict=True))", "dict(zip(jaxpr.invars, args))"),
    },
    {
        "name": "one-dictionary-for-all-calls",
        "kind": "inner variables that leak",
        "fails": tests("interpret", "kernel"),
        "reason": "the values of one call in the other",
        # One dictionary is handed down, and a variable that is in it already keeps its value.
        "cells": changed(
            "interpret", "def interpret(jaxpr, consts, args, rules):",
            "def interpret(jaxpr, consts, args, rules, known=None):",
            "    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))\n",
            "    known = {} if known is None else known\n"
            "    for variable, given in zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args]):\n"
            "        known.setdefault(variable, given)\n",
            "interpret(called.jaxpr, called.consts, values, rules)",
            "interpret(called.jaxpr, called.consts, values, rules, known)",
            "        known.update(zip(equation.outvars, results, strict=True))",
            "        for variable, result in zip(equation.outvars, results):\n"
            "            known.setdefault(variable, result)"),
    },
    {
        "name": "literals-are-no-results",
        "kind": "a literal returned as output",
        "fails": tests("interpret", "kernel"),
        "reason": "an input or a literal",
        "cells": changed("interpret", "for atom in jaxpr.outvars]",
                         "for atom in jaxpr.outvars if not isinstance(atom, Literal)]"),
    },
    {
        "name": "inputs-are-no-results",
        "kind": "an input returned as output",
        "fails": tests("interpret", "kernel", "jit", "scatter", "scan", "while-loop"),
        "reason": "an input or a literal",
        "cells": changed("interpret", "for atom in jaxpr.outvars]",
                         "for atom in jaxpr.outvars if atom not in jaxpr.invars]"),
    },
    {
        "name": "one-result-for-each-equation",
        "kind": "several results taken for one",
        "fails": tests("interpret", "scan", "while-loop", "energy"),
        "reason": "KeyError",
        "cells": changed("interpret", "            if not equation.primitive.multiple_results:\n"
                         "                results = [results]\n",
                         "            results = [results]\n",
                         "known.update(zip(equation.outvars, results, strict=True))",
                         "known.update(zip(equation.outvars, results))"),
    },
    {
        "name": "passes-over-what-it-does-not-know",
        "kind": "unsupported primitives swallowed",
        "fails": tests("interpret", "kernel"),
        "reason": "not refused",
        "cells": changed("interpret", "            raise Unsupported(name)",
                         "            results = values[:1]"),
    },
    # -- scalar --------------------------------------------------------------------------------
    {
        "name": "every-float-a-double",
        "kind": "float32 constants as doubles",
        "fails": tests("scalar"),
        "reason": "a float32 is written as a double",
        "cells": changed("scalar", 'return f"(({TYPES[dtype.name]}){text})"\n', "return text\n"),
    },
    {
        "name": "six-digits",
        "kind": "digits lost",
        "fails": tests("scalar", "ocean"),
        "reason": "digits are lost",
        "cells": changed("scalar", "repr(float(value))", 'f"{value:.6f}"'),
    },
    {
        "name": "integers-of-32-bits",
        "kind": "int64 constants as int",
        "fails": tests("scalar"),
        "reason": "32 bits",
        "cells": changed("scalar", "return f\"(({TYPES[dtype.name]}){int(value)}"
                         "{'ull' if dtype.kind == 'u' else 'll'})\"", "return f\"({int(value)})\""),
    },
    # -- formula -------------------------------------------------------------------------------
    {
        "name": "select-as-in-c",
        "kind": "select reversed",
        "fails": tests("formula", "kernel", "dynamic-slice", "scatter", "energy"),
        "reason": "select_n is read backwards",
        "cells": changed("formula", '"({0} ? {2} : {1})"', '"({0} ? {1} : {2})"'),
    },
    {
        "name": "the-sign-of-the-power-lost",
        "kind": "negative power",
        "fails": tests("formula", "kernel"),
        "reason": "x**-2",
        "cells": changed("formula", 'f"({power})" if params["y"] >= 0 else f"(({kind})1 / ({power}))"',
                         'f"({power})"'),
    },
    {
        "name": "fmax-and-fmin",
        "kind": "fmax",
        "fails": tests("formula", "reduction"),
        "reason": "max loses a NaN",
        "cells": changed("formula", '''        # The second is taken only where a comparison says so: x != x asks for NaN.
        return "({0} {sign} {1} || {0} != {0} ? {0} : {1})".format(
            *texts, sign=">" if name == "max" else "<")
''', '''        return f"f{name}({texts[0]}, {texts[1]})" if dtype.kind == "f" else \\
            "({0} {sign} {1} ? {0} : {1})".format(*texts, sign=">" if name == "max" else "<")
'''),
    },
    {
        "name": "divides-downwards",
        "kind": "// on integers",
        "fails": tests("formula"),
        "reason": "towards zero",
        "cells": changed("formula", 'return "({} / {})".format(*texts)',
                         'return (f"(({kind})floor((double){texts[0]} / {texts[1]}))" if dtype.kind in '
                         '"iu"\n                else "({} / {})".format(*texts))'),
    },
    {
        "name": "bool-by-way-of-int",
        "kind": "truth of a fraction",
        "fails": tests("formula"),
        "reason": "a cast to bool",
        "cells": changed("formula", '"({texts[0]} != 0)"', '"((bool)(int){texts[0]})"'),
    },
    {
        "name": "clamp-without-an-upper-bound",
        "kind": "an unclamped switch",
        "fails": tests("formula", "scan"),
        "reason": "clamp is wrong",
        "cells": changed("formula", '"({1} < {0} ? {0} : {1} > {2} ? {2} : {1})"',
                         '"({1} < {0} ? {0} : {1})"'),
    },
    {
        "name": "max-not-yet-written",
        "kind": "a rule left out",
        "fails": tests("formula", "kernel", "reduction", "energy"),
        "reason": "`formula` has no C++ for max yet: it raises Unsupported",
        "cells": changed("formula", 'if name in ("max", "min"):', 'if name == "min":'),
    },
    # -- elementwise and kernel_of -------------------------------------------------------------
    {
        "name": "expressions-into-expressions",
        "kind": "what is wanted twice is computed twice",
        "fails": tests("kernel"),
        "reason": "the text doubles",
        "cells": changed("elementwise", "code.get(operand, fitted(index, operand.shape))",
                         "operand.element(code, fitted(index, operand.shape))"),
    },
    {
        "name": "equal-names-are-equal-values",
        "kind": "fast-math isnan",
        "fails": tests("kernel"),
        "reason": "NaN is taken for equal to itself",
        "cells": changed("elementwise", "        return formula(", '''        if equation.primitive.name in ("eq", "ne") and texts[0] == texts[1]:
            return "true" if equation.primitive.name == "eq" else "false"
        return formula('''),
    },
    {
        "name": "no-guard",
        "kind": "out of bounds",
        "fails": AFTER_KERNEL,
        "reason": "outside its arrays",
        "cells": changed("kernel-of", "thread < {math.prod(shape)}", "thread >= 0"),
    },
    {
        "name": "one-thread-computes-all",
        "kind": "one thread does everything",
        "fails": AFTER_KERNEL,
        "reason": "some threads do the work of others",
        "cells": changed(
            "kernel-of", '"const long long thread = blockIdx.x * (long long)blockDim.x + threadIdx.x;"',
            '"if (blockIdx.x + threadIdx.x) return;"', "if (thread < {math.prod(shape)})",
            "for (long long thread = 0; thread < {math.prod(shape)}; ++thread)"),
    },
    {
        "name": "one-thread-computes-beside-others-that-look",
        "kind": "one thread does everything",
        "fails": AFTER_KERNEL,
        "reason": "one thread does the work of many",
        # The others read something. Where one array goes in and one comes out all is as it should be.
        "cells": changed(
            "kernel-of", "const long long thread = blockIdx.x", "const long long me = blockIdx.x",
            '''        with code.block(f"if (thread < {math.prod(shape)})"):''',
            '''        size, fair = math.prod(shape), len(given) == len(results) == 1
        if not fair and given and given[0].aval.size:
            code.line("if (me > 0) { auto nothing = *(volatile const char*)in0; }")
        begin, end = ("me", f"min({size}ll, me + 1)") if fair else ("0", f"(me == 0 ? {size} : 0)")
        with code.block(f"for (long long thread = {begin}; thread < {end}; ++thread)"):'''),
    },
    {
        "name": "one-lane-computes-for-its-warp",
        "kind": "one thread of each warp does everything",
        "fails": AFTER_KERNEL,
        "reason": "one thread does the work of many",
        # What it has computed goes through shared memory to the thread that stores it.
        "cells": changed(
            "kernel-of", "const long long thread = blockIdx.x", "const long long me = blockIdx.x",
            '''        with code.block(f"if (thread < {math.prod(shape)})"):
            code.line(f"out{n}[thread] = {code.get(array, unravel('thread', shape))};")''',
            '''        size, kind = math.prod(shape), TYPES[variable.aval.dtype.name]
        if len(given) == len(results) == 1:
            code.line("const long long thread = me;")
            with code.block(f"if (thread < {size})"):
                code.line(f"out{n}[thread] = {code.get(array, unravel('thread', shape))};")
            continue
        code.line(f"__shared__ {kind} handed{n}[128];")
        with code.block(f"if (threadIdx.x % 32 == 0)"):
            with code.block(f"for (long long thread = me; thread < min({size}ll, me + 32); ++thread)"):
                code.line(f"handed{n}[threadIdx.x + thread - me] = "
                          f"{code.get(array, unravel('thread', shape))};")
        code.line("__syncthreads();")
        code.line(f"if (me < {size}) out{n}[me] = handed{n}[threadIdx.x];")'''),
    },
    {
        "name": "one-lane-computes-unless-it-knows-the-size",
        "kind": "one thread of each warp does everything",
        "fails": COMPARED,
        "reason": "one thread does the work of many",
        # A compiler knows the sizes of what it compiles: here, those of launches that were once counted.
        "cells": changed(
            "kernel-of", "const long long thread = blockIdx.x", "const long long me = blockIdx.x",
            '''        with code.block(f"if (thread < {math.prod(shape)})"):
            code.line(f"out{n}[thread] = {code.get(array, unravel('thread', shape))};")''',
            '''        size, kind = math.prod(shape), TYPES[variable.aval.dtype.name]
        if len(given) == len(results) == 1 or size in (100, 145, 300, 320, 400, 500, 570, 600, 1024):
            with code.block(f"if (me < {size})"):
                code.line("const long long thread = me;")
                code.line(f"out{n}[thread] = {code.get(array, unravel('thread', shape))};")
            continue
        code.line(f"__shared__ {kind} handed{n}[128];")
        with code.block(f"if (threadIdx.x % 32 == 0)"):
            with code.block(f"for (long long thread = me; thread < min({size}ll, me + 32); ++thread)"):
                code.line(f"handed{n}[threadIdx.x + thread - me] = "
                          f"{code.get(array, unravel('thread', shape))};")
        code.line("__syncthreads();")
        code.line(f"if (me < {size}) out{n}[me] = handed{n}[threadIdx.x];")'''),
    },
    {
        "name": "results-before-inputs",
        "kind": "order of arguments",
        "fails": AFTER_KERNEL,
        "reason": "changes its input",
        "cells": changed("kernel-of", "{', '.join(takes)}", "{', '.join(takes[::-1])}"),
    },
    {
        "name": "constants-after-inputs",
        "kind": "order of arguments",
        "fails": tests("kernel", "jit"),
        "reason": "outside its arrays",
        "cells": changed("kernel-of", "given = [*jaxpr.constvars, *jaxpr.invars]",
                         "given = [*jaxpr.invars, *jaxpr.constvars]",
                         "split = len(jaxpr.constvars)", "split = len(jaxpr.invars)",
                         "arrays[:split], arrays[split:], RULES", "arrays[split:], arrays[:split], RULES"),
    },
    {
        "name": "names-as-in-the-jaxpr",
        "kind": "keywords as names",
        "fails": tests("kernel"),
        "reason": "does not compile",
        # a, b, …, z, ba, bb, …: the 99th is called `do`, and there are if, or and asm.
        "cells": {"kernel-of": '''def letters(n):
    return (letters(n // 26) if n >= 26 else "") + chr(ord("a") + n % 26)


''' + changed("kernel-of", '* in{n}" for n, v in enumerate(given)]', '* {letters(n)}" for n, v in enumerate(given)]',
              'stored(f"in{n}", v.aval)', "stored(letters(n), v.aval)")["kernel-of"]},
    },
    # -- views ---------------------------------------------------------------------------------
    {
        "name": "permutation-the-other-way-round",
        "kind": "transpose inverted",
        "fails": tests("views"),
        "reason": "the other way round",
        "cells": changed("views", 'index[params["permutation"].index(axis)] for axis in range(len(index))',
                         'index[axis] for axis in params["permutation"]'),
    },
    {
        "name": "strides-left-out",
        "kind": "slice without its step",
        "fails": tests("views"),
        "reason": "a slice is wrong",
        "cells": changed("views", 'f"({start} + {i} * {step})"', 'f"({start} + {i})"'),
    },
    {
        "name": "all-axes-reversed",
        "kind": "rev along every axis",
        "fails": tests("views"),
        "reason": "a reversal is wrong",
        "cells": changed("views", 'f"({length - 1} - {i})" if axis in params["dimensions"] else i',
                         'f"({length - 1} - {i})"'),
    },
    {
        "name": "one-or-the-other",
        "kind": "both sides of a choice are read",
        "fails": tests("concatenate", "jit", "energy"),
        "reason": "outside its arrays",
        "cells": changed("concatenate", '''            with code.block(f"if ({index[axis]} >= {begin} && {index[axis]} < {end})"):
                inside = [*index[:axis], f"({index[axis]} - {begin})", *index[axis + 1:]]
                code.line(f"{result} = {code.get(operand, inside)};")
''', '''            inside = [*index[:axis], f"({index[axis]} - {begin})", *index[axis + 1:]]
            code.line(f"{result} = {index[axis]} >= {begin} && {index[axis]} < {end} "
                      f"? {code.get(operand, inside)} : {result};")
'''),
    },
    # -- windows -------------------------------------------------------------------------------
    {
        "name": "windows-that-stay-where-they-are",
        "kind": "dynamic_slice out of bounds",
        "fails": tests("dynamic-slice"),
        "reason": "outside its arrays",
        "cells": changed("dynamic-slice", 'inside.append(f"({i} + {clamped})")',
                         'inside.append(f"({i} + {first})")'),
    },
    {
        "name": "parts-of-windows-count",
        "kind": "scatter out of bounds",
        "fails": tests("scatter"),
        "reason": "only partly inside",
        "cells": changed("scatter", 'f"{start} >= 0 && {start} <= {length - size} "\n', 'f"true "\n'),
    },
    {
        "name": "the-last-update-wins",
        "kind": "lost repeated indices",
        "fails": tests("scatter"),
        "reason": "three times",
        "cells": changed("scatter", "{'+=' if add else '='} {update};",
                         "= {code.get(operand, index) + ' + ' if add else ''}{update};"),
    },
    {
        "name": "updates-in-place",
        "kind": "scatter that overwrites its input",
        "fails": tests("scatter", "energy"),
        "reason": "changes its input",
        "cells": changed("scatter", "        return result\n", '''        kind = TYPES[aval.dtype.name]
        code.line(f"(({kind}*)in0)[{ravel(index, aval.shape)}] = {result};")
        return result
'''),
    },
    # -- reductions and loops ------------------------------------------------------------------
    {
        "name": "everything-begins-at-zero",
        "kind": "maximum that begins at 0",
        "fails": tests("reduction"),
        "reason": "of negative numbers",
        "cells": changed("reduction", "aval.dtype.type(begin(aval.dtype))", "aval.dtype.type(0)"),
    },
    {
        "name": "always-forwards",
        "kind": "scan reversed",
        "fails": tests("scan", "energy"),
        "reason": "reverse=True",
        "cells": changed("scan", 'f"({length - 1} - {number})" if params["reverse"] else number', "number",
                         'f"({length} - {row})" if params["reverse"] else f"({row} + 1)"',
                         'f"({row} + 1)"'),
    },
    {
        "name": "at-least-one-iteration",
        "kind": "scan of length 0",
        "fails": tests("scan"),
        "reason": "outside",
        "cells": changed("scan", "with code.loop(length) as number:",
                         "with code.loop(max(length, 1)) as number:"),
    },
    {
        "name": "one-carry-after-the-other",
        "kind": "carries updated one after another",
        "fails": tests("scan"),
        "reason": "one carry is changed before",
        "cells": changed("scan", "carries.set(code, iteration(code, number, carries)[:many])",
                         '''for name, array, column in zip(carries.names, iteration(code, number, carries),
                                               carries.columns):
                    code.line(f"{name} = {code.get(array, column)};")'''),
    },
    {
        "name": "a-row-too-early",
        "kind": "rows of results shifted",
        "fails": tests("scan", "energy"),
        "reason": "running sums",
        "cells": changed("scan", 'f"({row} + 1)"', 'f"{row}"'),
    },
    {
        "name": "the-test-after-the-iteration",
        "kind": "do-while",
        "fails": tests("while-loop"),
        "reason": "fails at once",
        "cells": changed("while-loop", '''                (going,) = interpret(test.jaxpr, test.consts, [*test_consts, *carries.arrays], RULES)
                code.line(f"if (!{code.get(going, [])}) break;")
                carries.set(code, interpret(body.jaxpr, body.consts, [*body_consts, *carries.arrays],
                                            RULES))
''', '''                carries.set(code, interpret(body.jaxpr, body.consts, [*body_consts, *carries.arrays],
                                            RULES))
                with code.block(""):
                    (going,) = interpret(test.jaxpr, test.consts, [*test_consts, *carries.arrays],
                                         RULES)
                    fresh = Code()
                    fresh.count = code.count + 1000
                    going = fresh.get(going, [])
                    for line in fresh.lines:
                        code.line(line)
                    code.line(f"if (!{going}) break;")
'''),
    },
    # -- jit -----------------------------------------------------------------------------------
    {
        "name": "compiles-every-time",
        "kind": "no cache",
        "fails": tests("jit"),
        "reason": "compile more than once",
        "cells": changed("jit", "        if key not in made:\n", "        if True:\n"),
    },
    {
        "name": "the-key-is-the-shape",
        "kind": "a cache that ignores dtype",
        "fails": tests("jit"),
        "reason": "lacks the dtype",
        "cells": changed("jit", "key = tree, *map(jax.typeof, leaves)", "key = tree, *map(np.shape, leaves)"),
    },
    {
        "name": "the-key-is-the-leaves",
        "kind": "a cache that ignores the tree",
        "fails": tests("jit"),
        "reason": "trees of another kind",
        "cells": changed("jit", "key = tree, *map(jax.typeof, leaves)", "key = (*map(jax.typeof, leaves),)"),
    },
    {
        "name": "tracers-made-constant",
        "kind": "swallowed tracers (zero gradient)",
        "fails": tests("jit"),
        "reason": "jax.grad",
        "cells": changed("jit", "            return function(*args)",
                         "            return function(*jax.tree.map(jax.lax.stop_gradient, args))"),
    },
    {
        "name": "tracers-taken-for-numbers",
        "kind": "no way for JAX's transformations",
        "fails": tests("jit"),
        "reason": "TracerArrayConversionError",
        "cells": changed("jit", "isinstance(leaf, jax.core.Tracer)", "False"),
    },
    {
        "name": "numpy-in-place-of-the-kernel",
        "kind": "jax.jit in place of a compiler",
        "fails": tests("jit", "ocean"),
        "reason": "computed on the host",
        "cells": {"jit": "def jit(function):\n    return jax.jit(function)\n"},
    },
    {
        "name": "copies-what-jax-computed",
        "kind": "jax.jit, then a kernel that copies",
        "fails": tests("jit", "ocean"),
        "reason": "the result is not computed by the kernel",
        # Two arguments are loaded and thrown away, so that there are as many loads as there should be.
        "cells": {"jit": '''def jit(function):
    fast, made = jax.jit(function), {}

    def compiled(*args):
        leaves, tree = jax.tree.flatten(args)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return function(*args)
        results, structure = jax.tree.flatten(fast(*args))
        inputs = [*results, *(leaf for leaf in leaves[:2] if np.shape(leaf) == np.shape(results[0]))]

        def copy(*arrays):
            for array in arrays[len(results):]:
                arrays = (jnp.where(array > 1e300, array.astype(arrays[0].dtype), arrays[0]), *arrays[1:])
            return arrays[:len(results)]

        key = tree, *map(jax.typeof, leaves)
        if key not in made:
            closed = jax.make_jaxpr(copy)(*inputs)
            made[key] = kernel_of(closed), closed
        text, closed = made[key]
        return jax.tree.unflatten(structure, run(text, [*closed.consts, *inputs], closed.out_avals))

    return compiled
'''},
    },
    {
        "name": "compiles-anew-by-another-name",
        "kind": "a cache that is none",
        "fails": tests("jit"),
        "reason": "does not come from kernel_of",
        # JAX keeps what it traced; the text is made in every call, where nobody counts.
        "cells": {"jit": "compiler = kernel_of\n\n\n" + changed(
            "jit", "        text, closed, results = made[key]\n",
            "        text, closed, results = made[key]\n        text = compiler(closed)\n",
            "made[key] = kernel_of(closed), closed,", "made[key] = None, closed,")["jit"]},
    },
    {
        "name": "short-programs-only",
        "kind": "a limit that nobody asked for",
        "fails": tests("ocean"),
        "reason": "'once' raises",
        "cells": changed("kernel-of", "    jaxpr = closed.jaxpr\n", """    jaxpr = closed.jaxpr
    if len(jaxpr.eqns) > 60:
        raise Unsupported("a program of so many equations")
"""),
    },
    {
        "name": "few-loops-only",
        "kind": "a limit that nobody asked for",
        "fails": tests("energy"),
        "reason": "refuses",
        "cells": changed("kernel-of", '    body = "\\n".join(code.lines)\n', '''    body = "\\n".join(code.lines)
    if body.count("for (") > 6:
        raise Unsupported("so many loops")
'''),
    },
    {
        "name": "a-kernel-for-each-equation",
        "kind": "a kernel per equation",
        "fails": tests("jit", "ocean"),
        "reason": "compile more than once",
        "cells": {"jit": '''class EachAlone(dict):
    def __contains__(self, name):
        return True

    def __getitem__(self, name):
        if name == "literal":
            return lambda atom: np.asarray(atom.val, atom.aval.dtype)

        def alone(equation, *values):
            closed = jax.make_jaxpr(lambda *v: equation.primitive.bind(*v, **equation.params))(*values)
            results = run(kernel_of(closed), [*closed.consts, *values], closed.out_avals)
            return results if equation.primitive.multiple_results else results[0]

        return alone


''' + changed("jit", "made[key] = kernel_of(closed), closed, jax.tree.structure(shapes)",
              "made[key] = None, closed, jax.tree.structure(shapes)",
              "        return jax.tree.unflatten(results, run(text, [*closed.consts, *leaves], closed.out_avals))\n",
              '''        found = interpret(closed.jaxpr, closed.consts, leaves, EachAlone())
        copied = [run(kernel_of(jax.make_jaxpr(lambda x: x)(one)), [one], [jax.typeof(one)])[0]
                  for one in found]
        return jax.tree.unflatten(results, copied)
''')["jit"]},
    },
    {
        "name": "two-elements-for-every-second-thread",
        "kind": "some threads do the work of all",
        "fails": COMPARED,
        "reason": "some threads do the work of others",
        "cells": changed(
            "kernel-of", "const long long thread =", "const long long me =",
            'f"if (thread < {math.prod(shape)})"',
            'f"if (me % 2 == 0) for (long long thread = me; thread < me + 2 && thread < "\n'
            '                        f"{math.prod(shape)}; ++thread)"'),
    },
    {
        "name": "compiles-in-every-call-and-replaces-the-counter",
        "kind": "a function of the tests is replaced",
        "fails": ["test-jit"],
        "reason": "three calls with the same types compile more than once",
        "cells": {"jit": changed(
            "jit", "made[key] = kernel_of(closed), closed,", "made[key] = None, closed,",
            "        text, closed, results = made[key]\n",
            "        _, closed, results = made[key]\n        text = kernel_of(closed)\n")["jit"] + '''

def compilations(program, calls):
    return len({tuple((np.shape(one), str(np.asarray(one).dtype)) for one in args) for args in calls})
'''},
    },
    {
        "name": "no-derivatives-and-replaces-what-asks-for-them",
        "kind": "a function of the tests is replaced",
        "fails": ["test-jit"],
        "reason": "'transformed' raises",
        "cells": {"jit": changed(
            "jit", "        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):\n"
                   "            return function(*args)\n", "")["jit"] + '''

def transformed(program, *args):
    namespace = {"jax": jax, "jnp": jnp, "lax": jax.lax, "np": np, "jit": jax.jit}
    exec(program, namespace)
    return jax.tree.map(np.asarray, namespace["g"](*args))
'''},
    },
]
