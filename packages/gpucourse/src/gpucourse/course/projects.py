"""Settings in the ``pyproject.toml`` files of the workspace, combined."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

WORKSPACE = Path("pyproject.toml")
COURSE = Path("packages/gpucourse/pyproject.toml")
VIRTUALGPU = Path("packages/virtualgpu/pyproject.toml")
STANDINS = Path("packages/gpustandins/pyproject.toml")
#: Packages that a learner installs, each after the packages that it needs.
PACKAGES = (VIRTUALGPU.parent, STANDINS.parent, COURSE.parent)


@dataclass(frozen=True, slots=True)
class Projects:
    """Requirements of the packages that a learner installs.

    ``dependencies`` are those of the course, its virtual GPU and its stand-ins. ``extras`` are
    those of the course, and ``groups`` those of tests, linters and builds. ``url`` is the address
    of the repository and ``python`` the supported versions.
    """

    dependencies: list[str]
    extras: dict[str, list[str]]
    groups: dict[str, list[str]]
    url: str
    python: str


def read_projects(root: Path) -> Projects:
    """Read the checkout at ``root``; raise FileNotFoundError if it is not a checkout."""
    projects = {path.name: _table(root / path / "pyproject.toml")["project"] for path in PACKAGES}
    course = projects[COURSE.parent.name]
    dependencies = []
    for project in projects.values():
        for text in project["dependencies"]:
            requirement = Requirement(text)
            ours = projects.get(canonicalize_name(requirement.name))
            if ours is None:
                dependencies.append(text)
            else:
                for extra in sorted(requirement.extras):
                    dependencies += ours["optional-dependencies"][extra]
    groups = _table(root / WORKSPACE)["dependency-groups"]
    return Projects(
        dependencies,
        course["optional-dependencies"],
        groups,
        course["urls"]["Repository"],
        course["requires-python"],
    )


def repository_url(root: Path) -> str | None:
    """Return the repository's address, or None if ``pyproject.toml`` does not contain it."""
    try:
        return _table(root / COURSE)["project"]["urls"]["Repository"]
    except (FileNotFoundError, KeyError):
        return None


def editable(root: Path) -> list[str]:
    """Return pip's options that install the packages from the checkout."""
    return [word for package in PACKAGES for word in ("--editable", str(root / package))]


def _table(path: Path) -> dict:
    return tomllib.loads(path.read_text(encoding="utf-8"))
