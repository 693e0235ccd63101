"""Fixtures of what tests stand-ins."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def cp(active: None) -> ModuleType:
    """CuPy's stand-in."""
    import cupy

    return cupy
