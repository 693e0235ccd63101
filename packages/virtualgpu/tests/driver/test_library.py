"""A shared library without a compiler: what the system's loader makes of it."""

from __future__ import annotations

import ctypes
import itertools

import pytest

from virtualgpu.driver import library

pytestmark = pytest.mark.skipif(not library.is_possible(), reason="Linux on x86-64 alone")


NUMBERS = itertools.count()


@pytest.fixture
def made():
    """A library, its name and its functions. It stays loaded, so each test has its own."""
    two = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    functions = [two(lambda n: n + 1), two(lambda n: 2 * n), two(lambda n: n), two(lambda n: n)]
    addresses = [ctypes.cast(one, ctypes.c_void_p).value or 0 for one in functions]
    names = ("more", "cuTwiceFree", "cuCtxGetCurrent", "cuCtxSetCurrent")
    name = f"libvirtualgputest{next(NUMBERS)}.so.7"
    return library.SharedLibrary(name, dict(zip(names, addresses, strict=True))), name, functions


def test_its_functions_are_found_by_its_name(made):
    loaded = ctypes.CDLL(made[1])
    assert (loaded.more(20), loaded.cuTwiceFree(20)) == (21, 40)
    with pytest.raises(AttributeError):
        loaded.thrice  # noqa: B018


def test_at_the_end_nothing_is_called_and_what_frees_succeeds(made):
    loaded = ctypes.CDLL(made[1])
    made[0].end()
    assert (loaded.more(20), loaded.cuTwiceFree(20), loaded.cuCtxSetCurrent(0)) == (4, 0, 0)
    context = ctypes.c_uint64(1)
    assert (loaded.cuCtxGetCurrent(ctypes.byref(context)), context.value) == (0, 0)
