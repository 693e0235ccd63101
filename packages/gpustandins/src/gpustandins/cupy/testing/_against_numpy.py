"""Decorators of ``cupy.testing`` that run one test function with NumPy and with CuPy.

They follow CuPy's documentation and work for pytest functions and for methods of test classes. A
loop over types or orders runs inside one test, and the error of a failed test names the value at
which it stopped.
"""

from __future__ import annotations

import functools
import inspect
from itertools import product as every

import numpy as np

from ._assertions import assert_allclose, assert_array_almost_equal, assert_array_equal

_FLOATS = (np.float64, np.float32, np.float16)
_COMPLEX = (np.complex64, np.complex128)
_SIGNED = (np.int8, np.int16, np.int32, np.int64)
_UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)


def _without(function, *names: str):
    """Return the signature that pytest sees, without the decorator's arguments."""
    signature = inspect.signature(function)
    return signature.replace(
        parameters=[one for name, one in signature.parameters.items() if name not in names]
    )


def _compared(compare, name: str, accept_error, type_check: bool):
    """Run the test with NumPy and with CuPy as ``name``, and compare their results."""
    import cupy

    accepted = Exception if accept_error is True else accept_error or ()

    def decorate(test):
        @functools.wraps(test)
        def both(*args, **kwargs):
            made, raised = [], []
            for library in (cupy, np):
                try:
                    made.append(test(*args, **{**kwargs, name: library}))
                except accepted as error:
                    raised.append((library, error))
            if len(raised) == 1:
                library, error = raised[0]
                raise AssertionError(f"only {library.__name__} raises an error") from error
            if not raised:
                _each(compare, *made, type_check)

        both.__signature__ = _without(test, name)  # type: ignore[attr-defined]
        return both

    return decorate


def _each(compare, ours, theirs, type_check: bool) -> None:
    if isinstance(theirs, tuple | list):
        if not isinstance(ours, tuple | list) or len(ours) != len(theirs):
            raise AssertionError(f"CuPy's result is {ours!r}, but NumPy's is {theirs!r}")
        for one, other in zip(ours, theirs, strict=True):
            _each(compare, one, other, type_check)
        return
    if ours is None:
        raise AssertionError("the test returns None; return the result to compare")
    if type_check and getattr(ours, "dtype", None) != getattr(theirs, "dtype", None):
        raise AssertionError(f"the types differ: {ours.dtype} in CuPy, {theirs.dtype} in NumPy")
    compare(ours, theirs)


def numpy_cupy_allclose(
    rtol=1e-7, atol=0, err_msg="", verbose=True, name="xp", type_check=True, accept_error=False
):
    """Require the test's results with NumPy and with CuPy as ``name`` to be close.

    ``rtol`` may be a mapping from types to tolerances, with ``'default'`` for all other types.
    """

    def compare(ours, theirs):
        near = rtol
        if isinstance(rtol, dict):
            kinds = {np.dtype(kind): value for kind, value in rtol.items() if kind != "default"}
            near = kinds.get(np.asarray(theirs).dtype, rtol.get("default", 1e-7))
        assert_allclose(ours, theirs, near, atol, err_msg, verbose)

    return _compared(compare, name, accept_error, type_check)


def numpy_cupy_array_equal(
    err_msg="", verbose=True, name="xp", type_check=True, accept_error=False, strides_check=False
):
    """Require the test's results with NumPy and CuPy to be equal, element by element."""
    return _compared(
        lambda ours, theirs: assert_array_equal(ours, theirs, err_msg, verbose, strides_check),
        name,
        accept_error,
        type_check,
    )


def numpy_cupy_array_almost_equal(
    decimal=6, err_msg="", verbose=True, name="xp", type_check=True, accept_error=False
):
    """Require the test's results to agree to ``decimal`` decimal places."""
    return _compared(
        lambda ours, theirs: assert_array_almost_equal(ours, theirs, decimal, err_msg, verbose),
        name,
        accept_error,
        type_check,
    )


def numpy_cupy_equal(name="xp"):
    """Require the test's results to be equal with ``==`` (numbers, tuples, strings)."""

    def compare(ours, theirs):
        if ours != theirs:
            raise AssertionError(f"CuPy's result is {ours!r}, but NumPy's is {theirs!r}")

    return _compared(compare, name, False, False)


def _looped(name: str, values):
    """Run the test once for each of ``values``, passed as argument ``name``."""

    def decorate(test):
        @functools.wraps(test)
        def each(*args, **kwargs):
            for value in values:
                try:
                    test(*args, **{**kwargs, name: value})
                except BaseException as error:
                    error.add_note(f"{name} is {value}")
                    raise

        each.__signature__ = _without(test, name)  # type: ignore[attr-defined]
        return each

    return decorate


def for_dtypes(dtypes, name="dtype"):
    """Run the test for each type, passed as argument ``name``."""
    return _looped(name, [np.dtype(one).type for one in dtypes])


def for_all_dtypes(name="dtype", no_float16=False, no_bool=False, no_complex=False):
    """Run the test for booleans and all numeric types, as :func:`for_dtypes` does."""
    return for_dtypes(
        [
            *_FLOATS[: 2 if no_float16 else 3],
            *_SIGNED,
            *_UNSIGNED,
            *(() if no_bool else (np.bool_,)),
            *(() if no_complex else _COMPLEX),
        ],
        name,
    )


def for_float_dtypes(name="dtype", no_float16=False):
    return for_dtypes(_FLOATS[: 2 if no_float16 else 3], name)


def for_int_dtypes(name="dtype", no_bool=False):
    return for_dtypes([*_SIGNED, *_UNSIGNED, *(() if no_bool else (np.bool_,))], name)


def for_signed_dtypes(name="dtype"):
    return for_dtypes(_SIGNED, name)


def for_unsigned_dtypes(name="dtype"):
    return for_dtypes(_UNSIGNED, name)


def for_complex_dtypes(name="dtype"):
    return for_dtypes(_COMPLEX, name)


def for_orders(orders, name="order"):
    """Run the test for each memory order."""
    return _looped(name, list(orders))


def for_CF_orders(name="order"):
    return for_orders([None, "C", "F", "c", "f"], name)


def shaped_arange(shape, xp=None, dtype=np.float32, order="C"):
    """Return 1, 2, 3, … in C order with this shape; as booleans, even numbers are True."""
    count = np.arange(1, int(np.prod(shape)) + 1)
    values = count % 2 == 0 if np.dtype(dtype) == bool else count
    return _given(xp).array(values.astype(dtype).reshape(shape), order=order)


def shaped_random(shape, xp=None, dtype=np.float32, scale=10, seed=0, order="C"):
    """Return random numbers below ``scale``, or booleans; a seed repeats them."""
    random, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind == "b":
        values = random.integers(2, size=shape)
    else:
        values = random.random(shape) * scale
        if kind.kind == "c":
            values = values + 1j * random.random(shape) * scale
    return _given(xp).array(np.asarray(values).astype(kind), order=order)


def _given(xp):
    import cupy

    return cupy if xp is None else xp


def product(parameter: dict) -> list[dict]:
    """Return all combinations of one value per key, for :func:`parameterize`."""
    return [dict(zip(parameter, values, strict=True)) for values in every(*parameter.values())]


def parameterize(*params: dict):
    """Run the test class once for each mapping, with its items as attributes."""
    import pytest

    def decorate(cls):
        @pytest.fixture(autouse=True, params=params, ids=str)
        def _parameters(self, request):
            for name, value in request.param.items():
                setattr(self, name, value)

        cls._parameters = _parameters
        return cls

    return decorate


__all__ = [name for name in globals() if name.startswith(("for_", "numpy_cupy", "shaped_"))] + [
    "parameterize",
    "product",
]
