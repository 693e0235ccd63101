"""Fixtures of jaxpile's tests: JAX on the CPU, with 64-bit numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    """Enable 64-bit types only in these tests, because the process may run others."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="session")
def jaxpile_package() -> Path:
    """Return the folder of the package with its pyproject.toml, README, src and tests."""
    return Path(__file__).resolve().parents[1]
