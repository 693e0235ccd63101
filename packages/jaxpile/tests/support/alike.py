"""What tests of whole programs share: a list of them, and the comparison with jax.jit."""

from __future__ import annotations

from collections.abc import Collection

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpile


class Programs(dict):
    """Functions with their arguments, by name: ``@programs(*args)`` adds one."""

    def __call__(self, *args):
        def keep(function):
            self[function.__name__] = (function, args)
            return function

        return keep

    def each(self, rehearsed: Collection[str]) -> list:
        """Their names, for a test of each: of the rehearsed ones in `make rehearse` alone."""
        return [
            pytest.param(name, marks=[pytest.mark.rehearsal] * (name in rehearsed)) for name in self
        ]


def assert_as_jax(function, args) -> None:
    """jaxpile's results are jax.jit's: trees, shapes, dtypes, weak types, and numbers.

    Integers and booleans are equal; floats within 1e-12 of float64 and 2e-5 of float32, relative to
    the largest element: sums are added in another order, and functions differ in their last place.
    """
    found, expected = jaxpile.jit(function)(*args), jax.jit(function)(*args)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert isinstance(ours, jax.Array)
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        assert ours.aval.weak_type == theirs.aval.weak_type
        if jnp.issubdtype(theirs.dtype, jax.dtypes.prng_key):
            ours, theirs = jax.random.key_data(ours), jax.random.key_data(theirs)
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        if theirs.dtype.kind not in "fc":
            np.testing.assert_array_equal(ours, theirs)
            continue
        close = 1e-12 if np.finfo(theirs.dtype).bits == 64 else 2e-5
        scale = np.max(np.abs(theirs[np.isfinite(theirs)]), initial=1e-300)
        np.testing.assert_allclose(ours, theirs, rtol=close, atol=close * scale)
