"""``cupy.testing``: decorators that compare NumPy and CuPy, as users' own tests take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuda_project import run

RIGHT = """
import cupy
from cupy import testing


class TestRight:
    @testing.for_all_dtypes(no_complex=True)
    @testing.numpy_cupy_allclose(rtol={"default": 1e-5, "float16": 1e-2})
    def test_a_sum(self, xp, dtype):
        return testing.shaped_arange((3, 4), xp, dtype).sum(axis=0)

    @testing.for_CF_orders()
    @testing.numpy_cupy_array_equal(strides_check=True)
    def test_a_layout(self, xp, order):
        return testing.shaped_random((2, 3), xp, scale=2, order=order).copy(order="K")

    @testing.numpy_cupy_equal()
    def test_a_shape(self, xp):
        return xp.zeros((2, 3)).shape

    @testing.numpy_cupy_array_equal(accept_error=ValueError)
    def test_an_error_of_both(self, xp):
        return xp.zeros(3).reshape(2, 2)


@testing.parameterize(*testing.product({"axis": [0, 1], "keepdims": [False, True]}))
class TestParameters:
    @testing.numpy_cupy_allclose()
    def test_a_mean(self, xp):
        return xp.arange(6.0).reshape(2, 3).mean(axis=self.axis, keepdims=self.keepdims)
"""

WRONG = """
import cupy
from cupy import testing


@testing.numpy_cupy_array_equal()
def test_values(xp):
    return xp.arange(3) + (xp is cupy)

@testing.numpy_cupy_allclose(rtol=1e-3)
def test_not_close(xp):
    return xp.full(2, 1 + 0.01 * (xp is cupy))

@testing.numpy_cupy_equal()
def test_names(xp):
    return xp.__name__

@testing.numpy_cupy_array_almost_equal()
def test_count(xp):
    return [xp.ones(2)] * (1 + (xp is cupy))

@testing.numpy_cupy_allclose()
def test_type(xp):
    return xp.ones(2, "float32" if xp is cupy else "float64")

@testing.numpy_cupy_array_equal()
def test_nothing(xp):
    xp.ones(2)

@testing.numpy_cupy_array_equal(accept_error=True)
def test_one_error(xp):
    return xp.ones(2).get()

@testing.for_int_dtypes(no_bool=True)
def test_loop(dtype):
    assert dtype.__name__ != "uint8"
"""

SAYS = {
    "values": "Arrays are not equal",
    "not_close": "Not equal to tolerance rtol=0.001",
    "names": "CuPy's result is 'cupy', but NumPy's is 'numpy'",
    "count": "CuPy's result is [array(",
    "type": "the types differ: float32 in CuPy, float64 in NumPy",
    "nothing": "the test returns None",
    "one_error": "only numpy raises an error",
    "loop": "dtype is <class 'numpy.uint8'>",
}


def test_equal_results_pass(tmp_path: Path):
    ran = run(tmp_path, "--virtual-gpu", files={"test_kernels.py": RIGHT})
    assert ran.status == 0, ran.text
    assert "8 passed" in ran.text


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory):
    return run(tmp_path_factory.mktemp("wrong"), "--virtual-gpu", files={"test_kernels.py": WRONG})


@pytest.mark.parametrize("test", SAYS)
def test_a_difference_fails_and_says_which(test: str, wrong):
    assert wrong.outcomes[test] == "FAILED", wrong.text
    assert SAYS[test] in wrong.text
