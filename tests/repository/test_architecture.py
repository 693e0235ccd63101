"""ARCHITECTURE.md shows the rooms that are there, in the order in which imports may go."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PACKAGES = ("virtualgpu", "gpucourse")


def layers(repository: Path, package: str) -> list[set[str]]:
    """The rooms of a package by the contract of import-linter, the highest first."""
    settings = tomllib.loads((repository / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (found,) = (one["layers"] for one in contracts if one["id"] == package)
    return [set(layer.split(" | ")) for layer in found if layer != "__main__"]


def listed(repository: Path, package: str) -> list[str]:
    """Return the modules that the package's table in ARCHITECTURE.md lists, in its order."""
    text = (repository / "ARCHITECTURE.md").read_text()
    section = text.split(f"## `{package}`")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ((?:`[\w/]+` ?)+)\|", section, re.MULTILINE)
    return [name.strip("/`") for names in rows for name in names.split()]


def room(repository: Path, package: str, name: str) -> list[Path]:
    folder = repository / "packages" / package / "src" / package
    return [*folder.glob(f"{name}.py*"), *folder.glob(f"{name}/**/*.py*")]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_rooms_stand_in_the_order_of_the_contract(repository, package):
    names = listed(repository, package)
    order = layers(repository, package)
    # A folder that is no package is run and never imported.
    run = [name for name in names if not any(name in layer for layer in order)]
    assert all(room(repository, package, name) for name in run)
    names = [name for name in names if name not in run]
    at = 0
    for layer in order:
        assert set(names[at : at + len(layer)]) == layer
        at += len(layer)
    assert at == len(names)


def test_the_course_reaches_no_room_behind_the_api(repository):
    settings = tomllib.loads((repository / "pyproject.toml").read_text())
    (forbidden,) = (
        set(one["forbidden_modules"])
        for one in settings["tool"]["importlinter"]["contracts"]
        if one["id"] == "api"
    )
    rooms = {f"virtualgpu.{name}" for layer in layers(repository, "virtualgpu") for name in layer}
    assert rooms - forbidden == {
        f"virtualgpu.{name}" for name in ("api", "errors", "findings", "sources", "processors")
    }
