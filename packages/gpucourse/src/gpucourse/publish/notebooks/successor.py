"""Lessons that also run on numba-cuda's successor, listed in ``course/successor.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path

from gpucourse.course.problems import Problem

REGISTRY = Path("course/successor.toml")


def lessons(root: Path) -> list[str]:
    """Return the ids of the lessons, in the course's order."""
    return list(_registry(root)["lessons"])


def unexpected(root: Path, lesson: str, found: list[Problem]) -> list[Problem]:
    """Return the unexpected findings of a lesson's rehearsal on the successor.

    Known differences are left out; known differences that were not found are reported.
    """
    known = _registry(root).get("otherwise", {}).get(lesson, [])
    missing = [
        Problem(
            REGISTRY,
            None,
            f"{lesson} no longer finds {one!r} on numba-cuda-mlir: remove the line",
        )
        for one in known
        if not any(one in problem.message for problem in found)
    ]
    return missing + [
        problem for problem in found if not any(one in problem.message for one in known)
    ]


def _registry(root: Path) -> dict:
    return tomllib.loads((root / REGISTRY).read_text())
