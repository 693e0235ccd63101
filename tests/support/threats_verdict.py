"""Rows 1 to 11: changing the verdict. No assertion, score or timer is in the student's process."""

from __future__ import annotations

from threats import Attempt

WRONG = "\ndef double(values):\n    return values\n"
IN_IPYTHON = "from IPython import get_ipython\nshell = get_ipython()\n"
WRONG_TOTAL = "def total(values):\n    return {}\n"

STRIP = """import ast
class Strip(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.copy_location(ast.Pass(), node)
if shell is not None:
    shell.ast_transformers.append(Strip())
"""

SCORE = """import ast
class Score(ast.NodeTransformer):
    def visit_Module(self, node):
        if any(isinstance(part, ast.Assert) for part in ast.walk(node)):
            node.body = ast.parse("3.0").body
        return node
if shell is not None:
    shell.ast_transformers.append(Score())
import sys
sys.displayhook = lambda value: print(3.0)
"""

EXECUTE = """async def nothing(*args, **options):
    return {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}
if shell is not None:
    shell.kernel.do_execute = nothing
"""

RUN_CELL = """import sys
if shell is not None:
    real = shell.run_cell_async
    async def run(code, *args, **options):
        return await real("" if "assert" in code else code, *args, **options)
    shell.run_cell_async = run
cells = sys.modules.get("gpucourse.grading.sandbox.cells")
if cells is not None:
    cells.run = lambda *args: None
"""

COMPARISONS = """import numpy
numpy.array_equal = numpy.allclose = numpy.isclose = lambda *args, **options: numpy.True_
numpy.testing.assert_allclose = numpy.testing.assert_array_equal = lambda *args, **options: None
"""

SILENT = """if shell is not None:
    shell.showtraceback = shell._showtraceback = lambda *args, **options: None
"""

YES = """class Yes(np.ndarray):
    def __array_function__(self, *args, **options):
        return True
    def __eq__(self, other):
        return True
def double(values):
    return values.view(Yes)
"""

EQUAL = """class Equal:
    def __eq__(self, other):
        return True
    def __array_function__(self, *args, **options):
        return True
def double(values):
    return Equal()
"""

LAZY = """class Lazy:
    def __array__(self, *args, **options):
        import sys
        frame = sys._getframe()
        while frame is not None:
            if "hidden_values" in frame.f_globals:
                return 2 * frame.f_globals["hidden_values"]
            frame = frame.f_back
        return 2 * np.arange(3.0)
def double(values):
    return Lazy()
"""

NOISE = """import sys, warnings
def double(values):
    warnings.warn("slow")
    print("warning", file=sys.stderr)
    return 2 * values
"""

PICKLE = """class Payload:
    def __reduce__(self):
        return (eval, ("__import__('builtins').print('unpickled')",))
def double(values):
    return np.array([Payload()] * len(values), dtype=object)
"""

FORGED = """import os
def forge(data):
    for handle in range(3, 64):
        try:
            os.write(handle, data)
        except OSError:
            pass
"""
NO_WIRE = "there is nothing to forge: the student's process is the grader"

MESSAGES = {
    "an endless message": 'b"GPC2" + (2**31).to_bytes(4, "little")',
    "rubbish": 'b"x" * 1000',
    "a result without a question": """b'GPC2\\x16\\x00\\x00\\x00{"arrays":[],"done":1} '""",
    "an empty message": 'b"GPC2\\x02\\x00\\x00\\x00{}"',
}

UNASKED = (
    FORGED
    + """reply = b'{"nonce":"%s","done":{},"arrays":[]}' % (b"0" * 32)
forge(b"GPC2" + len(reply).to_bytes(4, "little") + reply)
def double(values):
    return 2 * values
"""
)

ENDINGS = {
    "exit": (
        "import os\ndef double(values):\n    os._exit(0)\n",
        "ended the process itself (exit code 0)",
    ),
    "sys-exit": ("import sys\ndef double(values):\n    sys.exit(0)\n", "raises SystemExit"),
    "exit-in-cell": ("import os\nos._exit(3)\n", "exit code 3"),
    "crash": ("import ctypes\ndef double(values):\n    ctypes.string_at(0)\n", "crashed"),
}

ATTEMPTS = [
    Attempt(
        1,
        "strip-asserts",
        "removes every `assert` with an AST transformer",
        {"double": IN_IPYTHON + STRIP + WRONG},
        says="wrong for three numbers",
        honest={
            "double": "import ast\ndef double(values):\n    assert values is not None\n"
            "    return 2 * values\n"
        },
    ),
    Attempt(
        2,
        "blank-cells",
        "an input transformer that empties every later cell",
        {
            "double": IN_IPYTHON + "if shell is not None:\n    "
            "shell.input_transformers_cleanup.append(lambda lines: [])\n" + WRONG
        },
        says="wrong for three numbers",
    ),
    Attempt(
        3,
        "do-execute",
        "replaces the kernel's `do_execute`",
        {"double": WRONG + IN_IPYTHON + EXECUTE},
        says="wrong for three numbers",
    ),
    # The cells after it are not run for it either: it can only lose.
    Attempt(
        3,
        "run-cell",
        "replaces `run_cell_async`, and what runs cells in a grader's worker",
        {"double": WRONG + IN_IPYTHON + RUN_CELL},
        earns=(0.0, 0.0),
        says="wrong for three numbers",
    ),
    Attempt(
        4,
        "comparisons",
        "NumPy's comparisons always say yes",
        {"double": COMPARISONS + WRONG},
        says="wrong for three numbers",
        honest={
            "double": "def double(values):\n    assert np.allclose(values, values)\n"
            "    return 2 * values\n"
        },
    ),
    Attempt(
        5,
        "array-subclass",
        "an array class that answers every comparison itself",
        {"double": YES},
        says="wrong for three numbers",
        honest={
            "double": "class Plain(np.ndarray):\n    pass\ndef double(values):\n"
            "    return (2 * values).view(Plain)\n"
        },
    ),
    Attempt(
        5, "equals-all", "an object that equals everything", {"double": EQUAL}, says="TypeError"
    ),
    Attempt(
        5,
        "lazy",
        "an object that becomes the expected array when compared",
        {"double": LAZY},
        says="TypeError",
    ),
    Attempt(
        6,
        "printed-score",
        "prints a score where a cell's value is shown",
        {"double": IN_IPYTHON + SCORE + WRONG},
        says="wrong for three numbers",
        honest={
            "double": "print(3.0)\ndef double(values):\n    print(0.0)\n    return 2 * values\n"
        },
    ),
    Attempt(
        6,
        "no-traceback",
        "errors are not shown",
        {"double": IN_IPYTHON + SILENT + WRONG},
        says="wrong for three numbers",
    ),
    *(
        Attempt(
            7,
            f"score-{name}",
            f"makes the score {name}",
            {"total": WRONG_TOTAL.format(value)},
            earns=(3.0, 0.0),
            says="0 of 2 points",
        )
        for name, value in (
            ("nan", 'float("nan")'),
            ("inf", '-float("inf")'),
            ("numpy-float", "np.float64(0.0)"),
            ("negative", "1e9"),
        )
    ),
    Attempt(
        7,
        "score-text",
        "a text where the score is computed from a number",
        {"total": WRONG_TOTAL.format('"4"')},
        earns=(3.0, 0.0),
        says="TypeError",
    ),
    Attempt(
        8,
        "noise",
        "a right answer that warns and writes to stderr",
        {"double": NOISE},
        earns=(3.0, 2.0),
    ),
    Attempt(
        9,
        "pickle",
        "an array of objects that run code when unpickled",
        {"double": PICKLE},
        says="TypeError",
    ),
    *(
        Attempt(
            10,
            f"forged-{number}",
            f"writes {what} into every open file",
            {"double": f"{FORGED}def double(values):\n    forge({data})\n    return values\n"},
            stock=NO_WIRE,
        )
        for number, (what, data) in enumerate(MESSAGES.items())
    ),
    Attempt(
        10,
        "unasked",
        "a well-formed answer before the question",
        {"double": UNASKED},
        says="a question that was not asked",
        stock=NO_WIRE,
    ),
    *(
        Attempt(11, name, "ends or crashes its process", {"double": source}, says=reason)
        for name, (source, reason) in ENDINGS.items()
    ),
]
