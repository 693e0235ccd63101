"""Hints of "A compiler of your own"; its test cells are in the notebook."""

from gpucourse.exercises.checks import hints

INTERPRET = hints(
    "interpret",
    "The idea: keep a dictionary from variables to values, which begins with `constvars` and `invars`. Go "
    "through `jaxpr.eqns`, compute each equation's results, and enter them for its `outvars`. At the end "
    "look up `jaxpr.outvars`. An inner jaxpr needs its own dictionary, so call `interpret` recursively.",
    "The shape: write a small function `value(atom)` that returns `rules[\"literal\"](atom)` for a `Literal` and "
    "the dictionary's entry otherwise. Use it for operands and for `outvars`.",
    "For each equation:\n"
    "`values = [value(atom) for atom in equation.invars]`\n"
    "`called = inner(equation)`\n"
    "`if called is not None: results = interpret(called.jaxpr, called.consts, values, rules)`\n"
    "`elif name in rules: …` and else `raise Unsupported(name)`.",
)

SCALAR = hints(
    "scalar",
    "The idea: test `dtype.kind == \"b\"`, then `dtype.kind in \"iu\"`; otherwise it is a float. A cast in front, "
    "`((float)0.1)`, gives the right type for any digits. The compiler evaluates it, not the kernel.",
    "The shape: `f\"(({TYPES[dtype.name]}){digits})\"`. `repr(float(value))` has all digits that a float "
    "needs; use `math.isnan` and `math.isinf` to find values without digits. Integers of 64 bits end with `ll` or, "
    "if unsigned, with `ull`.",
)

FORMULA = hints(
    "formula",
    "The idea: `texts` contains names of variables, so an expression may use each of them several times. "
    "NaN is the only number that is not equal to itself.",
    "The shape of max: `\"({0} > {1} || {0} != {0} ? {0} : {1})\".format(*texts)`. It takes the first if "
    "that is larger or NaN, and otherwise the second, which may also be NaN.",
    "`integer_pow`: join `texts * abs(y)` with \" * \", beginning with a 1 of the right type. For a negative "
    "y, divide 1 by this product.",
)

ELEMENTWISE = hints(
    "elementwise",
    "The idea: the result is an `Array` whose `element` gets the operands' elements at the same index from "
    "`code`, and passes their names to `formula`.",
    "The shape:\n"
    "`def element(code, index):`\n"
    "`    texts = [code.get(operand, index if operand.shape else []) for operand in operands]`\n"
    "`    return formula(…)`\n"
    "`return Array(aval.shape, aval.dtype, element)`",
)

KERNEL_OF = hints(
    "kernel-of",
    "The idea: make a `stored` array for each of `constvars` and `invars`, call `interpret` with `RULES`, and write for each "
    "result an `if (thread < its size)` with one store. The interpreter computes no numbers. The text is "
    "written when `code.get` requests the results' elements.",
    "The shape of a result:\n"
    "`with code.block(f\"if (thread < {math.prod(shape)})\"):`\n"
    "`    code.line(f\"out{n}[thread] = {code.get(array, unravel('thread', shape))};\")`",
    "The head: `const long long thread = blockIdx.x * (long long)blockDim.x + threadIdx.x;`. Parameters "
    "are `const double* in0` and `double* out0`, types from `TYPES[variable.aval.dtype.name]`. Types of "
    "results are those of `jaxpr.outvars`. These may be literals, which also have an `aval`.",
)

VIEWS = hints(
    "views",
    "The idea: `index` is an index of the result. Which element of the operand is that? Return a "
    "list with an expression for each axis *of the operand*.",
    "Broadcast: `[\"0\" if length == 1 else index[axis] for length, axis in zip(operand.shape, "
    "params[\"broadcast_dimensions\"])]`. Transpose: axis a of the operand is the axis n of the result for "
    "which `permutation[n] == a`.",
    "The rest: `f\"({start} + {i} * {step})\"`; `f\"({length - 1} - {i})\"` along the axes of `rev`; "
    "`unravel(ravel(index, aval.shape), operand.shape)`. Keep the brackets, because other rules put this text "
    "into longer expressions.",
)

CONCATENATE = hints(
    "concatenate",
    "The idea: make a variable for the result. For each operand, write a block that only those threads enter "
    "whose index is in this operand. Inside the block, `code.get` is safe.",
    "The shape:\n"
    "`result, begin = code.let(aval.dtype, \"0\"), 0`\n"
    "`for operand in operands:`\n"
    "`    end = begin + operand.shape[axis]`\n"
    "`    with code.block(f\"if ({index[axis]} >= {begin} && {index[axis]} < {end})\"):`\n"
    "`        …`",
)

DYNAMIC_SLICE = hints(
    "dynamic-slice",
    "The idea: the element at `index` is that of the operand at `start + index`, where `start` is clamped to "
    "`0 … length - size` for each axis. `code.get(start, [])` is the element of a scalar.",
    "The shape: write two `? :` for each axis. Cast the start to `long long` before you compare, because it may be an "
    "unsigned or a small type.",
)

SCATTER = hints(
    "scatter",
    "The idea: begin with the operand's element in a variable (`code.let`). In a loop over "
    "`window.count` windows: if the window is inside the array and covers the index, set the variable or "
    "add to it.",
    "The conditions for each axis: `start >= 0`, `start <= length - size`, `i >= start` and "
    "`i < start + size`. The offset into the window is `i - start`.",
    "The shape:\n"
    "`with code.loop(window.count) as number:`\n"
    "`    starts = window.start(code, number)`\n"
    "`    …`\n"
    "`    with code.block(f\"if ({' && '.join(conditions)})\"):`\n"
    "`        code.line(f\"{result} {'+=' if add else '='} {window.update(code, number, offsets)};\")`",
)

REDUCTION = hints(
    "reduction",
    "The idea: write one loop for all axes that disappear. `unravel` turns its number into the indices of "
    "these axes. The other indices are the result's, in order.",
    "The shape:\n"
    "`total = code.let(aval.dtype, scalar(aval.dtype.type(begin(aval.dtype)), aval.dtype))`\n"
    "`with code.loop(…) as number:`\n"
    "`    value = code.get(operand, […])`\n"
    "`    code.line(f\"{total} = {formula(combine, [total, value], aval.dtype, {})};\")`\n"
    "`return total`",
)

SCAN = hints(
    "scan",
    "The idea: `iteration` interprets the body with constants, the carries' arrays, and row `number` of each xs: "
    "an Array with one axis less, whose element at `index` is the element of xs at `[row, *index]`. With "
    "`reverse` iteration 0 takes the last row.",
    "The shape of `last_carry`: `carries = Carries(code, init, index, aval.shape)`; in "
    "`code.loop(length)` call `carries.set(code, iteration(code, number, carries)[:many])`; then "
    "`carries.names[n]`.",
    "`rows`: split `row, *column = index`. The row is reached after `row + 1` iterations, or, in reverse, after "
    "`length - row`. Keep the result of each iteration in a variable from before the loop, and set the carries "
    "after that.",
)

WHILE_LOOP = hints(
    "while-loop",
    "The idea: write an endless loop that begins with the test and breaks when the test is false. Interpret test "
    "and body with their own constants and the carries' arrays.",
    "The shape:\n"
    "`with code.block(\"while (true)\"):`\n"
    "`    (going,) = interpret(test.jaxpr, test.consts, [*test_consts, *carries.arrays], RULES)`\n"
    "`    code.line(f\"if (!{code.get(going, [])}) break;\")`\n"
    "`    carries.set(…)`",
)

JIT = hints(
    "jit",
    "The idea: make a dictionary in `jit`, outside the function that it returns. It maps keys to what you have "
    "compiled: the text, the closed jaxpr and the tree of the results.",
    "The key: `leaves, tree = jax.tree.flatten(args)`, then `(tree, *map(jax.typeof, leaves))`. With the types of "
    "the arrays only, `{\"a\": x}` and `[x]` would have the same key.",
    "The results' tree: `closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)`, then "
    "`jax.tree.structure(shapes)`. Convert Python numbers among the leaves to arrays of the traced type, with "
    "`np.asarray(leaf, aval.dtype)` with `closed.in_avals`.",
)
