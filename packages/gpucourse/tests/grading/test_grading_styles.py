"""Threat 99: right answers that are written as notebooks are written, in their cells and around."""

from __future__ import annotations

import pytest

from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.sandbox import cells
from gpucourse.grading.verdict import GRADED
from grading_toy import DOUBLE, submitted, toy
from kernel_answers import SEED, kernels
from threats import COUNT

ASYNCIO = """import asyncio
from concurrent.futures import ThreadPoolExecutor

async def _one(value):
    await asyncio.sleep(0.001)
    return 2 * value

async def _all(values):
    return np.array(await asyncio.gather(*map(_one, values)), float)

def double(values):
"""
IN_THIS_THREAD = ASYNCIO + "    return asyncio.run(_all(values))\n"
IN_ANOTHER = (
    ASYNCIO
    + """    with ThreadPoolExecutor(2) as pool:
        return pool.submit(asyncio.run, _all(values)).result()
"""
)
IN_A_THREAD_OF_THE_LOOP = (
    ASYNCIO
    + """    async def work():
        return await asyncio.to_thread(lambda: 2 * values)
    return asyncio.run(work())
"""
)
AWAIT = (
    ASYNCIO
    + """    return 2 * values

assert (await _all(np.ones(2)) == 2).all()
await _all([])
"""
)
# Cells with a line that is IPython's: the lines beside it stay what they are in Python.
QUESTIONS = """%matplotlib inline
def double(values):
    if values.size == 0:
        return values
    # are any left?
    else:
        factor = 2  # how many?
        return factor * values
"""
GOES_ON = """!ls
def double(values):
    rest = 14 \\
        % 7
    return (4 * np.ones(values.shape)
            % 3 + 1) * values + rest
"""
IN_TEXT = """?np
NOTE = '''what?
!important: "{0}
%d times ('''.format(3)
assert NOTE.split("\\n") == ["what?", '!important: "3', "%d times ("]  # it's

def double(values):
    !ls
    return 2 * values
"""
EVALUATED = """
from dataclasses import KW_ONLY, InitVar, dataclass

@dataclass
class Factor:
    _: KW_ONLY
    number: float
    name: InitVar[str] = ""

    def __post_init__(self, name):
        self.name = name

def double(values: np.ndarray):
    assert double.__annotations__ == {"values": np.ndarray}
    return Factor(number=2).number * values
"""
OWN_CLASS = """
import pickle
from typing import NamedTuple, get_type_hints

class Pair(NamedTuple):
    both: "Values"

class Values(list):
    pass

def double(values):
    assert get_type_hints(Pair) == {"both": Values}
    pair = pickle.loads(pickle.dumps(Pair(Values(values))))
    return np.array(pair.both) + np.array(pair.both)
"""
EXPORTED = """
get_ipython().run_line_magic("matplotlib", "inline")
if "google.colab" in str(get_ipython()):
    get_ipython().system("pip install numpy")

def double(values):
    return 2 * values
"""
# What scripts of nbconvert, and people who read them, import.
IMPORTED = {
    "from IPython": "from IPython import get_ipython\nshell = get_ipython()",
    "import IPython": "import IPython\nshell = IPython.get_ipython()",
    "from its core": "from IPython.core.getipython import get_ipython as shell_of\n"
    "shell = shell_of()",
    "star": "from IPython import *\nfrom IPython.display import *\nshell = get_ipython()",
}
USED = r"""
from IPython.display import HTML, Image, Markdown, clear_output, display, update_display
shell.run_line_magic("matplotlib", "inline")
shell.magic("load_ext autoreload")
shell.run_line_magic("time", "factor = 2")
files = shell.getoutput("ls")
assert list(files) == [] and shell.user_ns["factor"] == 2
clear_output(wait=True)
display(HTML("<b>ok</b>"), Markdown("**ok**"), display_id="one")
shell.run_cell_magic("time", "", "def double(values):\n    return factor * values\n")
shell.run_cell_magic("bash", "", "double() { echo; }")
"""
STYLES = {
    "questions": QUESTIONS,
    "goes-on": GOES_ON,
    "in-text": IN_TEXT,
    "evaluated-annotations": EVALUATED,
    "own-class": OWN_CLASS,
    "exported": EXPORTED,
    "time": f"%%time\n{DOUBLE}",
    "capture": f"%%capture\n\n{DOUBLE}",
    "both": f"\n%%capture said\n%%time\n!ls\n{DOUBLE}",
    "prun": f"%%prun -q\n{DOUBLE}",
    "report": f"%%gpu_report\n{DOUBLE}",
    "line": f"{DOUBLE}\n%time _twice = double(np.ones(3))\n"
    "%timeit -n 1 double(np.ones(3))\nassert _twice.sum() == 6\n",
    "asyncio": IN_THIS_THREAD,
    "asyncio-in-a-thread": IN_ANOTHER,
    "asyncio-to-thread": IN_A_THREAD_OF_THE_LOOP,
    "await": AWAIT,
}


@pytest.mark.parametrize("style", STYLES)
def test_threat_99_styles_of_a_host_function(server, style):
    verdict = grade(toy(), submitted(toy(), double=STYLES[style]), server, SEED)
    assert verdict.kind == GRADED and verdict.earned == verdict.points, verdict.to_json()


@pytest.mark.parametrize("way", IMPORTED)
def test_threat_112_the_shell_that_is_imported_is_the_notebooks(server, way):
    verdict = grade(toy(), submitted(toy(), double=f"{IMPORTED[way]}\n{USED}"), server, SEED)
    assert verdict.earned == verdict.points, verdict.to_json()


@pytest.mark.parametrize(
    ("magic", "said"),
    [
        ("%%time", "runs the lines below them"),
        ("%%capture said", "runs the lines below them"),
        ("%%bash", "runs nothing in it"),
        ("%%timeit", "runs nothing in it"),
        ("%%writefile double.py", "runs nothing in it"),
        ("%%", "runs nothing in it"),
    ],
)
def test_what_is_said_of_a_magic_on_the_first_line(server, magic, said):
    verdict = grade(toy(), submitted(toy(), double=f"{magic}\n{DOUBLE}"), server, SEED)
    (notice,) = [notice for notice in verdict.notices if magic in notice]
    assert said in notice
    assert verdict.tests[0].passed == ("below" in said)


def test_lines_keep_their_numbers_below_a_magic():
    source, magics = cells.without_magics("\n%%time\n%%capture\n\n%matplotlib inline\nx = 1\n")
    assert source.split("\n")[5] == "x = 1" and len(source.split("\n")) == 7
    assert magics == ["%%time", "%%capture", "%matplotlib inline"]


def test_only_lines_of_ipython_are_taken_out():
    source, magics = cells.without_magics(QUESTIONS + "double?\nnp.sum??\n%%timeit?\nnames = !ls\n")
    assert magics == ["%matplotlib inline", "double?", "np.sum??", "%%timeit?", "names = !ls"]
    assert source.startswith("pass  # %matplotlib inline\n" + QUESTIONS.split("\n", 1)[1])


def test_a_future_feature_holds_in_later_cells_as_in_a_notebook():
    namespace: dict = {}
    cells.run("def f(x: dict): pass", "first", namespace)
    assert namespace["f"].__annotations__ == {"x": dict}
    cells.run("from __future__ import annotations", "second", namespace)
    cells.run("def f(x: Nowhere): pass", "third", namespace)
    assert namespace["f"].__annotations__ == {"x": "Nowhere"}
    cells.run("def f(x: dict): pass", "another", {})


MANAGED = (
    COUNT.replace(
        "    counts = cuda.to_device(np.zeros(bins, np.int32))\n",
        """
    there = cuda.managed_array(values.shape, values.dtype)
    there[:] = values
    counts = cuda.mapped_array(bins, np.int32)
    counts[:] = 0
""",
    )
    .replace("cuda.to_device(values)", "there")
    .replace("return counts.copy_to_host()", "cuda.synchronize()\n    return np.array(counts)")
)
EMPTY = """
values = np.zeros(0, np.int64)
expect_equal(call("histogram", values, 7, where="host"), np.zeros(7), "wrong for an empty array")
"""


def test_threat_99_managed_and_mapped_arrays_without_an_element(server):
    assignment = kernels()
    assignment.cells = [
        cell
        if cell.grade_id != "test-count"
        else type(cell)(cell.role, cell.grade_id, cell.cell_type, cell.source + EMPTY, cell.points)
        for cell in assignment.cells
    ]
    assert MANAGED.count("mapped_array") == MANAGED.count("np.array(counts)") == 1
    verdict = grade(assignment, submitted(assignment, count=MANAGED), server, SEED)
    assert verdict.earned == verdict.points, verdict.to_json()


def test_parts_of_the_shell_that_are_not_there_do_nothing(server):
    answer = (
        "shell = get_ipython()\nshell.events.register('post_run_cell', print)\n"
        "shell.ast_transformers.append(print)\nshell.kernel.do_execute = print\n"
        "def double(values):\n    return 2 * values\n"
    )
    assert grade(toy(), submitted(toy(), double=answer), server, SEED).earned == 5.0
