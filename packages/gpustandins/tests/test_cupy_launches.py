"""The kernels that real CuPy would launch, as ``virtualgpu.launches()`` lists them."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from virtualgpu.standins import recorder


def launched(run) -> recorder.Launches:
    with virtualgpu.launches() as found:
        run()
    return found


def test_the_quadratic_formula_is_nine_kernels(cp):
    a, b, c = (cp.random.uniform(5, 10, 100) for _ in range(3))
    found = launched(lambda: (-b + cp.sqrt(b**2 - 4 * a * c)) / (2 * a))
    assert found.exact
    assert found.names == [
        "cupy_negative__float64_float64",
        "cupy_square__float64_float64",
        "cupy_multiply__float_float64_float64",
        "cupy_multiply__float64_float64_float64",
        "cupy_subtract__float64_float64_float64",
        "cupy_sqrt__float64_float64",
        "cupy_add__float64_float64_float64",
        "cupy_multiply__float_float64_float64",
        "cupy_true_divide__float64_float64_float64",
    ]
    assert {one.size for one in found} == {100}
    assert {one.kind for one in found} == {"elementwise"}


@pytest.mark.parametrize(
    ("exponent", "kernel"),
    [
        (2, "square"),
        (2.0, "square"),
        (0.5, "sqrt"),
        (-1.0, "reciprocal"),
        (3, "power"),
        (-1, "power"),
        (1.5, "power"),
        (np.float64(2), "power"),
    ],
)
def test_powers_as_cupy_14_2_takes_them(cp, exponent, kernel):
    found = launched(lambda: cp.ones(3) ** exponent)
    assert [one.split("__")[0] for one in found.names if "fill" not in one] == [f"cupy_{kernel}"]


def test_fusion_is_one_kernel(cp):
    @cp.fuse()
    def formula(a, b, c):
        return (-b + cp.sqrt(b**2 - 4 * a * c)) / (2 * a)

    a, b, c = cp.ones(10), cp.arange(10.0) + 10, cp.zeros(10) + 0.1
    found = launched(lambda: formula(a, b, c))
    assert len(found) == 1
    assert found.exact


@pytest.mark.parametrize(
    "run",
    [
        lambda cp, a: a[2:],
        lambda cp, a: a.reshape(5, 2),
        lambda cp, a: a.T,
        lambda cp, a: a[3],
        lambda cp, a: cp.split(a, 2),
        lambda cp, a: a.view(np.int64),
        lambda cp, a: cp.squeeze(a),
        lambda cp, a: a.copy(),
        lambda cp, a: a.get(),
        lambda cp, a: cp.asarray(np.ones(3)),
        lambda cp, a: cp.zeros(5),
        lambda cp, a: cp.empty(5),
        lambda cp, a: a.astype(float),
        lambda cp, a: float(a[0]),
        lambda cp, a: cp.ndim(a),
        lambda cp, a: cp.broadcast_to(a, (2, 10)),
    ],
)
def test_views_and_copies_by_the_driver_are_no_kernels(cp, run):
    a = cp.arange(10.0)
    assert launched(lambda: run(cp, a)) == []


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (lambda cp, a: a.astype(np.float32), "cupy_copy__float64_float32"),
        (lambda cp, a: a[::2].copy(), "cupy_copy__float64_float64"),
        (lambda cp, a: cp.ones(4), "cupy_fill"),
        (lambda cp, a: a[cp.array([1, 2])], "cupy_take"),
        (lambda cp, a: a.__setitem__(slice(2, 4), 7), "cupy_fill"),
        (
            lambda cp, a: a.__setitem__(slice(2, 4), a[4:6].astype("f4")),
            "cupy_copy__float32_float64",
        ),
        (lambda cp, a: a.__setitem__(cp.array([1]), 7), "cupy_scatter_update"),
        (lambda cp, a: cp.where(a > 2, a, 0), "cupy_where__bool_float64"),
        (lambda cp, a: cp.clip(a, 1, 2), "cupy_clip__float64"),
        (lambda cp, a: cp.arange(4), "cupy_arange"),
        (lambda cp, a: cp.add.at(a, cp.array([1]), 1.0), "cupy_scatter_add"),
        (lambda cp, a: a + np.float32(2), "cupy_add__float64_float_float64"),
        (lambda cp, a: a > 5, "cupy_greater__float64_float_bool"),
        (lambda cp, a: cp.divmod(a, 2), "cupy_divmod__float64_float_float64_float64"),
        (lambda cp, a: cp.abs(a), "cupy_absolute__float64_float64"),
    ],
)
def test_known_kernels(cp, run, name):
    a = cp.arange(10.0)
    found = launched(lambda: run(cp, a))
    assert found.names[-1] == name
    assert found[-1].exact


@pytest.mark.parametrize(
    ("run", "name", "kind"),
    [
        (lambda cp, a: a.sum(), "cupy_sum", "reduction"),
        (lambda cp, a: cp.nanmax(a), "cupy_nanmax", "reduction"),
        (lambda cp, a: cp.sort(a), "cupy.sort", "routine"),
        (lambda cp, a: cp.linalg.norm(a), "cupy.linalg.norm", "routine"),
        (lambda cp, a: cp.fft.fft(a), "cupy.fft.fft", "routine"),
        (lambda cp, a: cp.random.rand(3), "cupy.random.random_sample", "routine"),
        (lambda cp, a: cp.concatenate([a, a]), "cupy.concatenate", "routine"),
        (lambda cp, a: a[a > 3], "cupy_getitem_mask", "copy"),
        (lambda cp, a: cp.histogram(a), "cupy.histogram", "routine"),
        (lambda cp, a: cp.dot(a, a), "cupy.dot", "routine"),
    ],
)
def test_what_takes_an_unknown_number_of_kernels_says_so(cp, run, name, kind):
    a = cp.arange(10.0)
    found = launched(lambda: run(cp, a))
    assert (found[-1].name, found[-1].kind, found[-1].exact) == (name, kind, False)
    assert not found.exact
    assert "one kernel or more" in str(found)


def test_lists_nest_and_end(cp):
    a = cp.arange(3)
    with virtualgpu.launches() as outer:
        a + 1
        with virtualgpu.launches() as inner:
            a + 2
        with recorder.silence():
            a + 3
    a + 4
    assert (len(outer), len(inner)) == (2, 1)
    assert str(launched(lambda: None)) == "no kernel"


def test_empty_arrays_launch_nothing(cp):
    assert launched(lambda: cp.zeros(0) + 1) == []


def test_where_cupy_itself_answers_the_list_says_that_it_knows_nothing(cp, monkeypatch):
    """On a machine with a GPU the stand-ins are not installed, and nothing is recorded."""
    monkeypatch.setattr(recorder.finder, "is_installed", lambda: False)
    found = launched(lambda: None)
    assert not found.exact
    assert "nsys profile" in str(found)
    monkeypatch.undo()
    assert str(launched(lambda: None)) == "no kernel"
