"""``%%gpu_report`` in a real kernel: cards, values, errors and what a cell leaves behind; and
``%%needs``."""

from __future__ import annotations

import nbclient
import pytest
from nbformat.v4 import new_code_cell, new_notebook

CELLS = {
    "load": "%load_ext gpucourse",
    "kernel": """import numpy as np
from numba import cuda
import gpucourse
@cuda.jit
def scale(x, f):
    i = cuda.grid(1)
    x[i] *= f
x = cuda.to_device(np.ones(100, np.float32))""",
    "good": """%%gpu_report
y = 41
scale[3, 32](x, 2)
y + 1""",
    "kept": "y, float(x.copy_to_host()[0])",
    "semicolon": """%%gpu_report
scale[3, 32](x, 2)
y;""",
    "fault": """%%gpu_report
print("before")
scale[4, 32](x, 2)
print("after")""",
    "none": """%%gpu_report
y = 1""",
    "many": """%%gpu_report
for n in range(9):
    scale[3, 32](x, 2)
for n in range(1, 9):
    scale[1, n](x, 2)""",
    "empty-grid": """%%gpu_report
scale[0, 32](x, 2)""",
    "error": """%%gpu_report
scale[3, 32](x, 2)

undefined_name""",
    "brackets": """%%gpu_report
scale(x, 2)""",
    "syntax": """%%gpu_report
def oops(:""",
    "inside": """%%gpu_report
@cuda.jit
def inner(x):
    x[0] += 1
inner[1, 2](x)""",
    "argument": """%%gpu_report scale
scale[3, 32](x, 2)""",
    "needs-what-is-missing": """%%needs torch
z = 1""",
    "not-run": "'z' in globals()",
    "needs-what-is-there": """import gpucourse.system.libraries
gpucourse.system.libraries.OPTIONAL["json"] = ("JSON", "Python has it")""",
    "run": """%%needs json
z = 2
z + 1""",
    "needs-what-nobody-knows": """%%needs tensorflow
z = 3""",
    "watched-no-longer": """import virtualgpu
from virtualgpu.watch import instruments
len(instruments.observers())""",
}


@pytest.fixture(scope="module")
def outputs() -> dict[str, list]:
    notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS.values()])
    nbclient.NotebookClient(
        notebook, timeout=120, allow_errors=True, extra_arguments=["--log-level=ERROR"]
    ).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def words(outputs: list) -> list[str]:
    return [o.data["text/plain"] for o in outputs if o.output_type == "display_data"]


def values(outputs: list) -> list[str]:
    return [o.data["text/plain"] for o in outputs if o.output_type == "execute_result"]


def errors(outputs: list) -> list[str]:
    return [o.ename for o in outputs if o.output_type == "error"]


def printed(outputs: list) -> str:
    return "".join(o.text for o in outputs if o.output_type == "stream")


def test_a_launch_gives_a_card_and_the_cell_its_value(outputs):
    (card,) = words(outputs["good"])
    assert card.startswith("scale[3, 32]") and "in cell In[2]" in card
    assert values(outputs["good"]) == ["42"]
    assert values(outputs["kept"]) == ["(41, 2.0)"]  # the cell ran on its own arrays, once
    assert values(outputs["semicolon"]) == [] and len(words(outputs["semicolon"])) == 1


def test_a_fault_gives_a_card_in_place_of_a_traceback(outputs):
    (card,) = words(outputs["fault"])
    assert "✗ bad address" in card and "cell In[2] line 7: x[i] *= f" in card
    assert "The cell stopped here" in card
    assert errors(outputs["fault"]) == []
    assert printed(outputs["fault"]) == "before\n"


def test_without_a_launch_it_says_how_one_is_written(outputs):
    (card,) = words(outputs["none"])
    assert "No kernel was launched" in card and "kernel[grid, block]" in card


def test_launches_that_are_alike_share_a_card_and_the_rest_is_named(outputs):
    (view,) = words(outputs["many"])
    assert "9 launches in this cell have exactly these counts" in view
    assert view.count("scale in cell In[2]") == 6
    assert "3 further launches of this cell are left out: scale ×3." in view


def test_a_launch_that_no_device_takes(outputs):
    (card,) = words(outputs["empty-grid"])
    assert "every dimension must be at least 1" in card and "nothing was launched" in card
    assert errors(outputs["empty-grid"]) == []


def test_other_errors_are_the_cells_own(outputs):
    assert errors(outputs["error"]) == ["NameError"]
    assert len(words(outputs["error"])) == 1  # what was launched before it
    trace = "\n".join(outputs["error"][-1].traceback)
    assert "line 4" in trace and "magic.py" not in trace
    assert errors(outputs["brackets"]) == ["ValueError"] and words(outputs["brackets"]) == []
    assert errors(outputs["syntax"]) == ["SyntaxError"] and words(outputs["syntax"]) == []
    assert errors(outputs["argument"]) == ["ValueError"]


def test_kernels_of_the_cell_itself_are_named_by_its_lines(outputs):
    (card,) = words(outputs["inside"])
    number = 1 + list(CELLS).index("inside")
    assert f"cell In[{number}] line 4: x[0] += 1" in card
    assert "✗ race" in card


def test_nothing_is_watched_afterwards(outputs):
    assert values(outputs["watched-no-longer"]) == ["0"]


def test_a_cell_that_needs_what_is_missing_says_so_and_is_not_run(outputs):
    assert printed(outputs["needs-what-is-missing"]) == (
        "PyTorch is not installed here, so this cell was not run. To run it: `pip install torch`, "
        "then restart the kernel.\n"
    )
    assert values(outputs["not-run"]) == ["False"]


def test_a_cell_that_needs_what_is_there_runs_as_any(outputs):
    assert values(outputs["run"]) == ["3"] and printed(outputs["run"]) == ""
    assert errors(outputs["needs-what-nobody-knows"]) == ["ValueError"]
