"""Fixtures of the stand-ins' tests: those of virtualgpu, and events as Awkward Arrays."""

from __future__ import annotations

import pytest

from fresh_python import installed_cupy  # noqa: F401
from standin_fixtures import cp  # noqa: F401
from virtualgpu_fixtures import (  # noqa: F401
    NEEDS,
    active,
    cuda,
    four_devices,
    skip_what_cannot_run,
    stand_ins_answer,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip_what_cannot_run(items, NEEDS)
