"""Fixtures for tests of tiles: arrays on the device, and launches of cuTile kernels."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def arrays(active: None) -> ModuleType:
    """Return functions that make arrays in device memory."""
    import device_arrays

    return device_arrays


@pytest.fixture
def launch(active):
    import cuda.tile as ct
    from numba import cuda

    def run(kernel, grid, *arguments):
        ct.launch(cuda.default_stream(), grid, kernel, arguments)

    return run
