"""Fixtures of the tests of Awkward Arrays."""

from __future__ import annotations

from collections.abc import Iterator

import awkward as ak
import pytest

import virtualgpu
from awkward_events import MUONS


@pytest.fixture(scope="module", autouse=True)
def without_gpu() -> Iterator[None]:
    """Activate the virtual GPU, and nothing else."""
    virtualgpu.activate()
    ak.numba.register_and_check()
    yield
    virtualgpu.deactivate()


@pytest.fixture
def events() -> ak.Array:
    """Return events of muons on the device."""
    return ak.to_backend(ak.Array(MUONS), "cuda")
