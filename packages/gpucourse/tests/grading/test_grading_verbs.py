"""The verbs in a learner's notebook: the grader's questions, asked in the same process."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

import gpucourse
from gpucourse import (
    call,
    expect,
    expect_close,
    expect_equal,
    launch,
    launches,
    secret_rng,
    unwritten,
)
from gpucourse.grading.contract import PropertyFailed
from gpucourse.grading.testing.verbs import dimensions
from gpucourse.grading.testing.watching import agree
from kernels_to_see import add_racing, double, double_unguarded  # noqa: F401  (launched by name)

pytestmark = pytest.mark.usefixtures("active")


@cuda.jit
def clip(values, out):
    i = cuda.grid(1)
    if i < values.size:
        values[i] = 0.0


def doubled(values):
    out = cuda.device_array_like(values)
    double[2, 64](cuda.to_device(values), out)
    return out


def on_the_host(values):
    return 2 * values


def divides_by(number):
    return 1 / number


VALUES = np.arange(100.0)


def test_a_launch_updates_arrays_in_place():
    out = unwritten(100, np.float64)
    launched = launch("double", 2, 64, VALUES, out)
    expect_equal(out, 2 * VALUES, "wrong")
    assert (launched.kernel, launched.grid, launched.block) == ("double", (2, 1, 1), (64, 1, 1))
    assert launched.counters.thread_instructions > 0
    assert launches() == [launched]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("double_unguarded", "outside its arrays"),
        ("clip", "changes its input"),
        ("on_the_host", "not a CUDA kernel"),
        ("nothing", "'nothing' is not defined"),
    ],
)
def test_a_wrong_kernel_is_told_as_the_grader_tells_it(name, reason):
    values = VALUES.copy()
    values.setflags(write=False)
    with pytest.raises(PropertyFailed, match=reason):
        launch(name, 2, 64, values, unwritten(100, np.float64))


def test_a_race_is_found_before_it_shows():
    with pytest.raises(PropertyFailed, match="race"):
        launch("add_racing", 1, 64, np.ones(64), np.zeros(1))


def test_calls_return_what_is_on_the_device():
    expect_equal(call("doubled", VALUES), 2 * VALUES, "wrong")
    assert [launched.kernel for launched in launches()] == ["double"]
    expect_equal(call("on_the_host", VALUES, where="host"), 2 * VALUES, "wrong")
    with pytest.raises(PropertyFailed, match="computed on the host"):
        call("on_the_host", VALUES)


def frames(error) -> list:
    """The frames of a traceback that IPython shows: those without `__tracebackhide__`."""
    shown, entry = [], error.__traceback__
    while entry is not None:
        if not entry.tb_frame.f_locals.get("__tracebackhide__"):
            shown.append(entry.tb_frame.f_code.co_name)
        entry = entry.tb_next
    return shown


def test_an_error_in_the_learners_function_shows_their_lines_and_not_ours():
    with pytest.raises(ZeroDivisionError) as raised:
        call("divides_by", 0, where="host")
    here = "test_an_error_in_the_learners_function_shows_their_lines_and_not_ours"
    assert frames(raised.value) == [here, "divides_by"]


def test_expectations_tell_a_learner_where():
    with pytest.raises(PropertyFailed) as told:
        expect_equal([1, 2, 4], [1, 2, 3], "wrong at the end")
    assert told.value.reason == "wrong at the end"
    assert str(told.value) == "wrong at the end: at index 2 got 4, expected 3 (1 of 3 differ)"
    with pytest.raises(PropertyFailed, match=r"shape is \(2,\), expected \(3,\)"):
        expect_equal([1, 2], [1, 2, 3], "short")
    with pytest.raises(PropertyFailed, match="not numbers"):
        expect_equal(None, [1], "nothing")
    with pytest.raises(PropertyFailed, match="never"):
        expect(False, "never")
    expect_equal([np.nan, 1.0], [np.nan, 1.0], "NaN")
    expect_close([1.0 + 1e-9], [1.0], "close")
    with pytest.raises(PropertyFailed):
        expect_close([1.1], [1.0], "far")


def test_public_randomness_repeats():
    first, again = secret_rng("a").random(3), secret_rng("a").random(3)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, secret_rng("b").random(3))


def test_unwritten_is_garbage_in_every_type():
    assert np.isnan(unwritten(3, np.float16)).all() or (abs(unwritten(3, np.float16)) > 1e4).all()
    for dtype in (np.int8, np.int32, np.int64, np.float32, np.float64):
        assert (abs(unwritten((2, 3), dtype).astype(float)) > 2).all()


def test_dimensions():
    assert dimensions(3) == (3, 1, 1)
    assert dimensions((2, 5)) == (2, 5, 1)
    assert dimensions(np.int64(4)) == (4, 1, 1)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (np.array([1, 2]), np.array([1, 2]), True),
        (np.array([1, 2]), np.array([1, 3]), False),
        (np.float32([1.0]), np.float32([1.00001]), True),
        (np.float64([1.0]), np.float64([1.00001]), False),
        (np.float32([0.0, 1e6]), np.float32([1e-3, 1e6]), True),
        ((1, [2.0]), (1, [2.0]), True),
        ((1,), (1, 2), False),
        ({"a": 1}, {"b": 1}, False),
        (None, None, True),
        (True, 1, False),
        (np.zeros(2), np.zeros(3), False),
    ],
)
def test_runs_agree_up_to_rounding(one, other, same):
    assert agree(one, other) is same


def test_the_package_offers_every_verb():
    for name in gpucourse.VERBS:
        assert callable(getattr(gpucourse, name))
    with pytest.raises(AttributeError, match="nonsense"):
        gpucourse.nonsense  # noqa: B018
