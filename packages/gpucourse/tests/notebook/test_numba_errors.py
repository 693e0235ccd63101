"""Numba's errors in a notebook: short, with the cell and its line, for both of its compilers."""

from __future__ import annotations

import pytest

from notebook_cells import run_cells

PYTHON = """from numba import njit

@njit
def total(table):
    return sum(table.values())

total({"a": 1.0})
"""
CUDA = """from numba import cuda

@cuda.jit
def first(values):
    return values[0]

first[1, 1](cuda.device_array(1))
"""


def test_an_error_of_numba_names_the_cell_and_its_line():
    _, by_numba, by_cuda, after = run_cells(PYTHON, CUDA, "%unload_ext gpucourse\n" + CUDA)
    for output, place, says in (
        (by_numba, "cell In[2] line 7: total(", "Cannot determine Numba type of <class 'dict'>"),
        (by_cuda, "cell In[3] line 7: first[1, 1](", "No conversion from float64 to none"),
    ):
        (error,) = (one for one in output if one.output_type == "error")
        assert error.ename == "TypingError"
        text = "\n".join(error.traceback)
        assert text.startswith(place)
        assert says in text
        assert "source missing" not in text and "ipykernel" not in text
        assert len(text.splitlines()) < 25
    assert "cell In[3] line 5:\n    return values[0]" in "\n".join(by_cuda[-1].traceback)
    # Unloaded, the error (another one: nothing runs a kernel now) is IPython's to show.
    (error,) = (one for one in after if one.output_type == "error")
    assert "Traceback" in "\n".join(error.traceback)


@pytest.mark.parametrize("text", ["no place at all", 'File "nowhere.py", line 3:\nwhat'])
def test_what_has_no_cell_stays_as_it_is(text):
    from gpucourse.notebook.numba_errors import rendered

    assert rendered(ValueError(text)) == [f"ValueError: {text}"]
