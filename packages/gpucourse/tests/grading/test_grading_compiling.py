"""Compilers' errors in one line: real ones, of real kernels, as the verb `launch` tells them."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, int32

import virtualgpu
from gpucourse.grading.contract import Launch, PropertyFailed
from gpucourse.grading.testing.compiling import gist, is_compile_error
from gpucourse.grading.testing.notebook_judge import NotebookJudge


@pytest.fixture(scope="module", autouse=True)
def virtual_gpu():
    virtualgpu.activate(force=True)
    yield
    virtualgpu.deactivate()


def plain(value):
    return value + 1


@cuda.jit
def calls_a_plain_function(values):
    values[0] = plain(values[0])


@cuda.jit
def misspells(values):
    values[0] = valeus[0]  # noqa: F821


@cuda.jit
def floors_with_numpy(values):
    values[0] = np.floor(values[0])


@cuda.jit
def wants_a_shared_array_of_any_size(values):
    mine = cuda.shared.array(cuda.blockDim.x, int32)
    mine[0] = values[0]


@cuda.jit
def lacks_an_argument(values, low):
    values[0] = low


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (calls_a_plain_function, "'plain' is an ordinary Python function.*cuda.jit.device=True"),
        (misspells, "name 'valeus' is not defined"),
        (floors_with_numpy, "NumPy's function 'floor' does not exist in kernels"),
        (
            wants_a_shared_array_of_any_size,
            "TypingError: no implementation of array.*must be known when",
        ),
        (lacks_an_argument, "missing a required argument: 'low'|takes 2 .*arguments"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_the_learner_reads_one_line(kernel, says):
    judge = NotebookJudge(lambda: {"kernel": kernel})
    with pytest.raises(PropertyFailed, match=says) as told:
        judge.launch(Launch("kernel", (1, 1, 1), (32, 1, 1), (np.zeros(3),), schedules=0))
    assert told.value.reason == "the kernel 'kernel' cannot be compiled"
    if kernel is not lacks_an_argument:  # of which no line is wrong
        assert told.value.detail.startswith("test_grading_compiling.py line ")
    assert len(told.value.detail) <= 300
    assert " at 0x" not in told.value.detail


def test_long_stories_are_cut():
    assert len(gist(ValueError("x" * 5000))) == 300


def test_an_error_without_words_has_its_name_and_where_known_its_mend():
    assert gist(KeyError()) == "KeyError"
    assert gist(NotImplementedError()).startswith(
        "NotImplementedError → there is no answer here yet"
    )


@cuda.jit
def reaches_too_far(values):
    values[cuda.threadIdx.x] = 0


def test_what_the_device_says_is_no_compile_error():
    with pytest.raises(virtualgpu.errors.MemoryAccessError) as refused:
        reaches_too_far[1, 32](np.zeros(3))
    assert not is_compile_error(refused.value)
