"""Errors of a stand-in end at the learner's line, as those of the package itself do."""

from __future__ import annotations

import re

import pytest

from notebook_cells import run_cells

CELLS = {
    "memory": "import cupy as cp\nhuge = cp.zeros(1 << 50)",
    "mixed": "import cupy as cp, numpy as np\nmixed = cp.arange(3) + np.arange(3)",
    "shape": "import cupy as cp\ncp.arange(3).reshape(2)",
    "callback": "import cupy as cp\n\ndef wrong(x):\n    return x / nothing\n\n"
                "cp.apply_along_axis(wrong, 0, cp.ones((2, 2)))",
    "own": "def inner():\n    raise ValueError('mine')\n\ninner()",
    "unloaded": "%unload_ext gpucourse\n%load_ext gpucourse\n%unload_ext gpucourse\n"
                "import sys\nget_ipython().custom_exceptions",
}


@pytest.fixture(scope="module")
def shown():
    _, *outputs = run_cells(*CELLS.values())
    return dict(zip(CELLS, outputs, strict=True))


def text(outputs) -> str:
    (error,) = (one for one in outputs if one.output_type == "error")
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))


@pytest.mark.parametrize(("cell", "says"), [
    ("memory", "OutOfMemoryError"), ("mixed", "Unsupported type"), ("shape", "cannot reshape")])
def test_the_last_place_shown_is_the_cell(shown, cell, says):
    message = text(shown[cell])
    assert says in message and "line 2" in message
    assert "standins" not in message and "site-packages" not in message


def test_a_learners_function_that_the_stand_in_calls_is_shown(shown):
    message = text(shown["callback"])
    assert "NameError" in message and "return x / nothing" in message and "standins" in message


def test_other_errors_are_as_ever(shown):
    assert "in inner()" in text(shown["own"]) and "mine" in text(shown["own"])


def test_unloading_gives_ipythons_own_back(shown):
    assert shown["unloaded"][-1]["data"]["text/plain"] == "()"
