"""Fixtures of the grader's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpucourse.grading.limits import Limits
from gpucourse.grading.sandbox.levels import ForkServer, Sandbox


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    """Return the fork server of a sandbox, which has imported the notebooks' libraries.

    A server takes 3 s to start, and a worker that imports JAX itself takes 1 s longer. The time
    limits are long, because a test machine may be busy.
    """
    with Sandbox(
        limits=Limits(request_seconds=60.0, request_wall_seconds=300.0), imports=["jax", "awkward"]
    ) as sandbox:
        yield sandbox.server
