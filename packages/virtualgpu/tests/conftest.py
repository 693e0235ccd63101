"""Fixtures of virtualgpu's own tests, which need nothing from the course."""

from __future__ import annotations

from pathlib import Path

import pytest

from fresh_python import installed_cupy  # noqa: F401
from virtualgpu_fixtures import (  # noqa: F401
    NEEDS,
    active,
    cuda,
    four_devices,
    skip_what_cannot_run,
    stand_ins_answer,
)


@pytest.fixture(scope="session")
def package() -> Path:
    """Return the folder of the package with its pyproject.toml, src and tests."""
    return Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_what_cannot_run(items, NEEDS)
