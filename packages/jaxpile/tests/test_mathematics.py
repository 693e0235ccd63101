"""The functions written out as arithmetic: their error in units in the last place."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxpile

RANGES = {
    "exp": (-700, 700),
    "log": (1e-300, 1e300),
    "log1p": (-0.999, 50),
    "expm1": (-30, 30),
    "tanh": (-20, 20),
    "sin": (-1e6, 1e6),
    "cos": (-1e6, 1e6),
}


def error(found, exact) -> float:
    """The largest error in units in the last place of the result's type."""
    spacing = np.spacing(np.abs(exact).astype(found.dtype)).astype(np.longdouble)
    return float(np.max(np.abs(found.astype(np.longdouble) - exact) / spacing))


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_within_three_units(name, dtype):
    random = np.random.default_rng(5)
    low, high = RANGES[name]
    if dtype is np.float32:
        low, high = max(low, -87), min(high, 88)
    wide = np.exp(random.uniform(np.log(1e-300), np.log(1e300), 20_000))
    if name == "log":
        x = wide if dtype is np.float64 else np.exp(random.uniform(-80, 80, 20_000))
    else:
        x = np.concatenate(
            [
                random.uniform(low, high, 20_000),
                random.uniform(-1, 1, 20_000) * 0.9,
                random.normal(size=2000) * 1e-5,
            ]
        )
    x = x.astype(dtype)
    found = np.asarray(jaxpile.jit(getattr(jnp, name))(x))
    assert found.dtype == dtype
    exact = getattr(np, name)(x.astype(np.longdouble))
    assert error(found, exact) <= (3 if name == "tanh" else 2)


def test_beyond_the_range_of_sin():
    x = np.array([2.0**48, 2.0**49])
    found = np.asarray(jaxpile.jit(jnp.sin)(x))
    np.testing.assert_allclose(found[0], np.sin(x[0]), rtol=1e-15)
    assert np.isnan(found[1])
