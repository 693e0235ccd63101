"""What leaves a cell: the learner's lines, the reason and the mend, in twelve lines at most."""

from __future__ import annotations

import re

import pytest

from notebook_cells import run_cells

START = """import numpy as np
from numba import cuda, njit
x = np.arange(64.0)

@cuda.jit
def add(x, y):
    i = cuda.grid(1)
    x[i] = y[i]
"""
KERNEL = "@cuda.jit\ndef wrong(x):\n    i = cuda.grid(1)\n    {}\n\nwrong[1, 128](x)"
NOTHING = "@cuda.jit(device=True)\ndef inner(v):\n    return v.nothing\n\n"
INNER = NOTHING + KERNEL.format("x[i] = inner(x[i])")
DEEP = """def one():
    two()

def two():
    three()

def three():
    np.linalg.inv(np.zeros((2, 2)))

def begin():
    one()

begin()"""
ENDLESS = """import _thread, threading

@cuda.jit
def endless(x):
    while x[0] >= 0:
        x[0] += 1

endless[1, 64](-1.0 - x)  # ends, and is compiled
threading.Timer(0.2, _thread.interrupt_main).start()
endless[1, 64](x)"""
LONG = "from virtualgpu.watch import instruments\ninstruments.LONG = 0.05\n" + ENDLESS
DEBUGGED = """get_ipython().debugger = lambda force: print("debugging")
get_ipython().call_pdb = True
try:
    get_ipython().CustomTB(KeyError, KeyError(1), None)
finally:
    get_ipython().call_pdb = False"""
CALLBACK = """import cupy as cp

def wrong(x):
    return x / nothing

cp.apply_along_axis(wrong, 0, cp.ones((2, 2)))"""
JAX_CALLBACK = """import jax
import jax.numpy as jnp

def launch(x):
    return x / nothing

def by_numpy(x):
    return jax.pure_callback(launch, x, x)
jax.jit(by_numpy)(jnp.ones(3))"""
PYTHON = """@njit
def total(table):
    return sum(table.values())

total({"a": 1.0})"""

TREES = """import jax
jax.tree.map(max, {"swing": {"size": 1, "decay": 2, "phase": 3}}, {"swing": {"size": 1}})"""

LEAKING = """import jax
seen = []

def body(carry, x):
    seen.append(x)
    return carry, None

jax.lax.scan(body, 0.0, np.ones(3))
seen[0] + 1"""
TRACED = "import jax\njax.jit(lambda x: {})(2.0)"

# cell → what its error says: the learner's lines, the reason, the mend
SAYS = {
    KERNEL.format("i = cuda.gird(1)"): [
        "line 6: wrong[1, 128](x)",
        "line 4: i = cuda.gird(1)",
        "no attribute 'gird'",
        "→ did you mean cuda.grid?",
    ],
    TRACED.format("x > 1 and x < 3"): [
        "and x < 3",
        "→ what JAX traces has no value yet. Write & for and",
    ],
    TRACED.format("np.sin(x)"): ["np.sin(x)", "→ NumPy needs values", "jnp in place of np"],
    LEAKING: ["line 9: seen[0] + 1", "→ a list or a global cannot keep", "second result"],
    "add[1, 32](x)": ["line 1: add[1, 32](x)", "→ add(x, y) takes 2 arguments and was given 1"],
    KERNEL.format("print(f'thread {i}')"): [
        "line 6: wrong[1, 128](x)",
        "line 4: print(f'thread {i}')",
        'print("thread", i)',
    ],
    "n = 64\nadd[n/128, 128](x, x)": ["line 2: add[n/128, 128]", "(n + 127) // 128"],
    INNER: [
        "line 10: wrong[",
        "line 8: x[i] = inner",
        "line 3: return v.nothing",
        "Unknown attribute 'nothing' of type float64",
    ],
    KERNEL.format("x[i] = np.floor(x[i])"): ["line 4: x[i] = np.floor", "use Python's or math's"],
    KERNEL.format("x[i] = np.cumsum(x)"): ["line 4: x[i] = np.cumsum", "of a whole array"],
    KERNEL.format("return x[i]"): [
        "line 4: return x[i]",
        "No conversion from float64 to none\n",
        "a kernel returns nothing",
    ],
    KERNEL.format("x[i] = x"): ["line 4: x[i] = x", "→ an element holds one number", "array[i]"],
    KERNEL.format("y = x + 10"): ["line 4: y = x + 10", "→ this works on whole arrays", "a[i]"],
    KERNEL.format("x[:] = 10 * x"): ["line 4: x[:] =", "→ this works on whole arrays", "a[i]"],
    KERNEL.format("x[1:] = x[:-1]"): ["line 4: x[1:] =", "→ this works on whole arrays", "a[i]"],
    KERNEL.format("x += 10"): ["line 4: x += 10", "→ NumPy's 'add'", "a[i] = a[i] + 10"],
    KERNEL.format("if x > 3: x[i] = 3"): ["line 4: if x > 3", "→ a whole array is neither true"],
    KERNEL.format("x[i] = min(x, 3)"): ["line 4: x[i] = min", "→ min of a whole array"],
    KERNEL.format("cuda.atomic.add(x, 1.0)"): [
        "line 4: cuda.atomic.add(x, 1.0)",
        "expected 3",
        "→ cuda.atomic.add takes an array, an",
    ],
    "add(x, x)": [
        "line 1: add(x, x)",
        "→ a launch needs its numbers of blocks and threads: kernel[blocks, threads](…)",
    ],
    KERNEL.format("with open('f') as f: pass"): [
        "line 6: wrong[1, 128](x)",
        "not supported",
        "→ kernels have arithmetic",
        "no with",
    ],
    KERNEL.format("import math"): ["line 4: import math", "→ kernels have arithmetic", "no import"],
    # Numba takes the call where the other was not launched before, and then cannot launch that.
    "@cuda.jit\ndef other(x):\n    x[0] = 1\n\nother[1, 1](x)\n" + KERNEL.format("other(x)"): [
        "line 9: other(x)",
        "→ a kernel cannot call another",
    ],
    "@cuda.jit\ndef other(x):\n    x[0] = 1\n\n" + KERNEL.format("other(x)") + "\nother[1, 1](x)": [
        "line 11: other[1, 1](x)",
        "→ a kernel cannot call another",
    ],
    KERNEL.format("x[i] = nowhere"): ["line 4: x[i] = nowhere", "→ a kernel sees", "nowhere is"],
    KERNEL.format("x[i] = np.random.random()"): ["line 4: x[i] = np", "→ NumPy's random numbers"],
    KERNEL.format("x[i] = np.where(x[i] > 0, x[i], -1.0)"): [
        "line 4: x[i] = np.where",
        "→ NumPy's where takes arrays",
        "if condition else",
    ],
    KERNEL.format("x[i] = np.clip(x[i], 0.0, 1.0)"): ["line 4:", "→ NumPy's clip takes", "min"],
    KERNEL.format("x[i] = np.zeros(3)[0]"): ["line 4: x[i] = np", "→ kernels cannot make lists"],
    KERNEL.format("found = []; found.append('a')"): ["line 4:", "→ kernels cannot make lists"],
    KERNEL.format("x[cuda.threadIdx.X] = 1"): ["line 4: x[cuda.th", "three numbers each"],
    KERNEL.format("x[cuda.blockIdx(0)] = 1"): ["line 4: x[cuda.blockIdx", "three numbers each"],
    KERNEL.format("x[i, i] = 1"): ["line 4: x[i, i] = 1", "array: 1; indices in the brackets: 2"],
    KERNEL.format("i, j = cuda.grid(1)"): ["line 4: i, j = cuda.grid(1)", "→ this is one number"],
    KERNEL.format("x[i] = x.size").replace("128](x)", "128]([1.0])"): [
        "line 6: wrong[1, 128]([1.0])",
        "line 4: x[i] = x.size",
        "→ the argument of this kernel is a Python list",
    ],
    KERNEL.format("return x"): ["line 4: return x", "→ a kernel returns nothing"],
    KERNEL.format("if i < x.size(): x[i] = 1"): ["line 4: if i <", "→ this is a number", "without"],
    KERNEL.format("if i < x.shape(0): x[i] = 1"): ["line 4: if i <", "→ a shape takes brackets"],
    KERNEL.format("x[i] = x(i)"): ["line 4: x[i] = x(i)", "→ an array takes brackets"],
    KERNEL.format("x[i] = len(x[i])"): ["line 4: x[i] = len", "→ this is one number", "no length"],
    KERNEL.format("x.append(i)"): ["line 4: x.append", "→ an array in a kernel has", "no .append"],
    KERNEL.format("x[i] = x[i].sum()"): ["line 4:", "→ this is one number, which has no .sum"],
    KERNEL.format("x[i] = x[i] + None"): ["line 4: x[i] =", "→ one of the two values is None"],
    KERNEL.format("x[threadIdx.x] = 1"): ["line 4: x[threadIdx", "→ did you mean cuda.threadIdx?"],
    KERNEL.format("syncthreads()"): ["line 4: syncthreads()", "→ did you mean cuda.syncthreads?"],
    KERNEL.format("x[cuda.grid()] = 1"): ["line 4:", "'ndim'", "→ cuda.grid needs the number of"],
    KERNEL.format("total = 0; x[i] = totl"): ["line 4:", "→ the kernel has no totl", "mean total?"],
    KERNEL.format("x[i] = math.sqrt(x[i])"): ["line 4: x[i] = math", "→ math comes with `import"],
    KERNEL.format("x[i] = float32(1)"): ["line 4:", "→ float32 comes with `from numba import"],
    KERNEL.format("s = cuda.shared.array(64)"): ["line 4: s =", "→ the array needs the type of"],
    KERNEL.format("s = cuda.local.array((8, 8))"): ["line 4: s =", "→ the array needs the type of"],
    KERNEL.format("s = cuda.shared.array((x.size,), np.int8)"): [
        "line 4:",
        "→ the size of an array",
    ],
    KERNEL.format("for k in x.size: x[k] = 1"): ["line 4: for k", "→ a loop cannot iterate"],
    KERNEL.format("for k in range(x): x[k] = 1"): ["line 4: for k", "→ range takes a number"],
    KERNEL.format("cuda.atomic.add(x[0], 0, 1)"): ["line 4: cuda.atomic", "→ an atomic takes an"],
    "add[1, 32](x, 3)": [
        "line 1: add[1, 32](x, 3)",
        "→ the brackets belong to a value",
        "its name",
    ],
    "cuda.to_device(x).to_host()": ["'to_host'", "→ an array on the device", ".copy_to_host?"],
    "@cuda\ndef wrong(x): pass": ["1 @cuda", "→ a module is not called", "@cuda.jit"],
    "@jit\ndef wrong(x): pass": ["1 @jit", "→ did you mean cuda.jit?"],
    "x(1) = 2": ["x(1) = 2", "→ an element takes brackets"],
    "add<<<1, 8>>>(x, x)": ["add<<<1", "→ a launch in Python has brackets"],
    "add[1; 8](x, x)": ["add[1; 8]", "→ separate the two numbers of a launch"],
    "x[0] = 1 if x.size": ["x[0] = 1 if", "→ a guard comes before the line"],
    "def never_read(x:\n    x[0] = 1": ["x[0] = 1", "SyntaxError"],
    "never_read(x)": [
        "1 never_read(x)",
        "defines never_read, but Python cannot read it (line 1: '(' was never closed)",
        "Correct that line",
    ],
    "add[1, 32](x, None)": ["1: add[1, 32](x, None)", "→ the brackets belong to a value"],
    "add[1, 32]((1, 2), x)": ["1: add[1, 32]((1, 2), x)", "→ a tuple cannot be changed"],
    "add[1, x](x, x)": ["1: add[1, x](x, x)", "→ a launch has two numbers in its brackets"],
    "cuda.to_device(x) + 1": ["1 cuda.to_device(x) + 1", "→ an array from cuda.to_device", "cupy"],
    "x.copy_to_host()": ["1 x.copy_to_host()", "→ this array is on the host already"],
    "add[1, 32](x, {'a': 1})": ["line 1: add[1, 32](x, {", "numbers, not a dict"],
    "add[8](x, x)": ["1: add[8](x, x)", "→ a launch has two numbers in its brackets"],
    "add[8,](x, x)": ["1: add[8,](x, x)", "→ a launch has two numbers in its brackets"],
    "len(8)": ["1 len(8)", "object of type 'int' has no len()"],
    "def plain(x):\n    x[0] = 1\nplain[1, 8](x)": [
        "3 plain[1, 8](x)",
        "→ only a kernel takes [blocks, threads]: write @cuda.jit above",
    ],
    KERNEL.format("x[i / 2] = 1"): [
        "line 4: x[i / 2] = 1",
        "→ an index is an integer",
        "4 // 2 is an integer",
    ],
    KERNEL.format("x[0] = x[i / 2]"): ["line 4: x[0] = x[i / 2]", "→ an index is an integer"],
    KERNEL.format("x[cuda.grid] = 1"): [
        "line 4: x[cuda.grid] = 1",
        "→ grid is named here and not called",
        "cuda.grid(1)",
    ],
    KERNEL.format("x[cuda.threadIdx] = 1"): [
        "line 4: x[cuda.threadIdx]",
        "have three numbers each",
        "cuda.threadIdx.x",
    ],
    "add[1, 2](np.array([1, None]), x)": [
        "line 1: add[1, 2](np",
        "pyobject",
        "→ this array holds Python objects",
        "np.nan",
    ],
    "cuda.syncthreads()": [
        "1: cuda.syncthreads()",
        "→ threads wait for each other",
        "cuda.synchronize()",
    ],
    "cuda.grid(1)": ["1: cuda.grid(1)", "→ grid returns a thread's index"],
    "cuda.atomic.add(x, 0, 1)": ["1 cuda.atomic.add(", "→ this is for the threads of a kernel"],
    "def formula():\n    raise NotImplementedError\nformula()": [
        "3: formula()",
        "2: raise NotImplementedError",
        "→ there is no answer here yet",
    ],
    "add[1, 2048](x, x)": ["line 1: add[1, 2048](x, x)", "a block has at most 1024"],
    KERNEL.format("x[i] = 1"): [
        "line 6: wrong[1, 128](x)",
        "x[64] of 64 (63 more threads do the same)",
        "line 4, thread 64 of block 0",
    ],
    "add[1, 32](x=x, y=x)": ["----> 1 add[1, 32](x=x", "→ a launch takes its arguments by"],
    "check('half', 1)": ["----> 1 check('half', 1)", "not defined", "→ check comes from the cell"],
    "muon_pt + 1": ["----> 1 muon_pt + 1", "→ no cell that has run defines muon_pt"],
    "jnp.ones(3)": ["----> 1 jnp.ones(3)", "→ jnp comes with `import jax.numpy as jnp`", "restart"],
    "secret_rng('x')": ["----> 1 secret_rng(", "→ secret_rng comes from the cell at the top"],
    PYTHON: ["line 5: total({", "Cannot determine Numba type of <class 'dict'>"],
    DEEP: ["line 13: begin()", "line 5: three()", "line 8: np.linalg.inv", "Singular matrix"],
    ENDLESS: [
        "line 10: endless[1, 64](x)",
        "KeyboardInterrupt: stopped in kernel endless, cell",
        "thread 0 of block 0",
    ],
    "import cupy as cp\ncp.arange(3).reshape(2)": ["line 2: cp.arange(3)", "cannot reshape"],
    # Ten lines in some versions of JAX, and all of them are needed: the last names what is missing.
    TREES: ["line 2: jax.tree.map", "ValueError", "'decay'", "'phase'"],
    JAX_CALLBACK: [
        "line 9: jax.jit(by_numpy)(jnp.ones(3))",
        "line 5: return x / nothing",
        "in a callback, NameError: name 'nothing'",
    ],
    CALLBACK: ["line 6: cp.apply_along_axis", "line 4: return x / nothing", "NameError"],
}


# A fifth of them for `make test`, and those that other tests look at: all take 20 s.
TRIED = [
    cell
    for number, cell in enumerate(SAYS)
    if number % 5 == 0
    or cell in (PYTHON, CALLBACK, ENDLESS, "never_read(x)", "def never_read(x:\n    x[0] = 1")
]


@pytest.fixture(scope="module")
def shown() -> dict[str, list]:
    cells = [
        *TRIED,
        "%tb",
        LONG,
        "%no_such_magic",
        DEBUGGED,
        "a = 1\nb = (a +\nc = 4",
        "def f():\n    raise ValueError\nf()",
        "%unload_ext gpucourse\nget_ipython().custom_exceptions",
        TRIED[0],
    ]
    _, _, *outputs = run_cells(START, *cells)
    return dict(zip([*cells[:-1], "unloaded"], outputs, strict=True))


@pytest.fixture(scope="module")
def others() -> dict[str, list]:
    cells = [cell for cell in SAYS if cell not in TRIED]
    _, _, *outputs = run_cells(START, *cells)
    return dict(zip(cells, outputs, strict=True))


def text(outputs: list) -> str:
    (error,) = (one for one in outputs if one.output_type == "error")
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))


@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=[pytest.mark.rehearsal] * (cell not in TRIED)) for cell in SAYS],
    ids=range(len(SAYS)),
)
def test_an_error_has_the_learners_lines_the_reason_and_the_mend(request, cell):
    told = text(request.getfixturevalue("shown" if cell in TRIED else "others")[cell])
    assert len(told.splitlines()) <= 12
    places = [told.index(words) for words in SAYS[cell]]
    assert places == sorted(places)
    for inside in ("site-packages", "ipykernel", "source missing", "hooks.py", "standins"):
        assert inside not in told


def test_the_rest_is_behind_a_key(shown):
    assert text(shown[PYTHON]).endswith("(%tb shows the whole traceback)")
    # of the last error before it
    assert "standins" in text(shown["%tb"]) and "NameError" in text(shown["%tb"])


def test_what_ipython_says_in_few_lines_stays(shown):
    assert "----> 3 f()" in text(shown["def f():\n    raise ValueError\nf()"])


def test_a_cell_that_cannot_be_read_shows_its_own_line_first(shown):
    told = text(shown["a = 1\nb = (a +\nc = 4"])
    assert "'(' was never closed" in told and "interactiveshell" not in told
    assert re.match(r"\s*Cell In\[\d+\], line 2\n    b = \(a \+\n", told)


def test_a_long_launch_says_where_it_is_and_how_to_stop_it(shown):
    said = "".join(one.text for one in shown[LONG] if one.output_type == "stream")
    assert re.search(
        r"kernel endless after 0 s: still in cell In\[\d+\] line \d, thread 0 of "
        "block 0; ■ stops it",
        said,
    )


def test_magics_and_the_debugger_work_as_ever(shown):
    (error,) = shown["%no_such_magic"]
    assert error.output_type == "stream" and error.text.startswith("UsageError: Line magic")
    assert any("debugging" in one.get("text", "") for one in shown[DEBUGGED])


def test_a_copy_at_each_launch_is_warned_of_once_and_at_its_cell(shown):
    said = "".join(
        one.text for outputs in shown.values() for one in outputs if one.output_type == "stream"
    )
    assert said.count("Host array") == 1
    assert re.search(
        r"^cell In\[\d+\] line \d+: NumbaPerformanceWarning: \S*Host array used .* in "
        r"each launch: cuda.to_device\(array\) copies it once",
        said,
        re.MULTILINE,
    )


def test_unloading_gives_ipythons_own_back(shown):
    (told,) = (cell for cell in shown if cell.startswith("%unload"))
    assert shown[told][-1]["data"]["text/plain"] == "()"
    assert "site-packages" in text(shown["unloaded"])
