"""Fixtures of the threat tests: a course directory, and sandboxes at each level."""

from __future__ import annotations

import pytest

from gpucourse.grading.sandbox.levels import BUBBLEWRAP, NAMESPACES, Sandbox, SandboxError
from threats import LIMITS, Course


@pytest.fixture(scope="session")
def threat_course(tmp_path_factory) -> Course:
    """The course directory that no submission may read or change."""
    return Course(tmp_path_factory.mktemp("threats") / "course")


@pytest.fixture(scope="session")
def server(threat_course):
    """A fork server at the best level that this machine has."""
    with Sandbox([threat_course.root], LIMITS) as sandbox:
        yield sandbox.server


@pytest.fixture(scope="session", params=[BUBBLEWRAP, NAMESPACES])
def protecting(request, threat_course):
    """A fork server at each level that protects the instructor's files."""
    try:
        with Sandbox([threat_course.root], LIMITS, request.param) as sandbox:
            yield sandbox.server
    except SandboxError as error:
        pytest.skip(f"UNTESTED HERE: isolation level {request.param}: {error}")
