"""ARCHITECTURE.md shows the rooms that are there, in the order in which imports may go."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PACKAGES = ("virtualgpu", "gpucourse")
# What a size may be off before the page has to follow: a quarter, or so many lines of a small room.
SOME = 100


def layers(repository: Path, package: str) -> list[set[str]]:
    """The rooms of a package by the contract of import-linter, the highest first."""
    settings = tomllib.loads((repository / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (found,) = (one["layers"] for one in contracts if one["id"] == package)
    return [set(layer.split(" | ")) for layer in found if layer != "__main__"]


def rows(repository: Path, package: str) -> list[tuple[list[str], int]]:
    """The rooms of each row of the package's table, and how many lines the row says they have."""
    text = (repository / "ARCHITECTURE.md").read_text()
    section = text.split(f"## `{package}`")[1].split("\n## ")[0]
    found = re.findall(r"^\| ((?:`[\w/]+` ?)+)\| ([\d,]+) \|", section, re.MULTILINE)
    return [
        ([name.strip("/`") for name in names.split()], int(lines.replace(",", "")))
        for names, lines in found
    ]


def room(repository: Path, package: str, name: str) -> list[Path]:
    folder = repository / "packages" / package / "src" / package
    return [*folder.glob(f"{name}.py*"), *folder.glob(f"{name}/**/*.py*")]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_rooms_stand_in_the_order_of_the_contract(repository, package):
    listed = [name for names, _ in rows(repository, package) for name in names]
    order = layers(repository, package)
    # A folder that is no package is run and never imported.
    run = [name for name in listed if not any(name in layer for layer in order)]
    assert all(room(repository, package, name) for name in run)
    listed = [name for name in listed if name not in run]
    at = 0
    for layer in order:
        assert set(listed[at : at + len(layer)]) == layer
        at += len(layer)
    assert at == len(listed)


@pytest.mark.parametrize("package", PACKAGES)
def test_sizes_are_about_right(repository, package):
    for names, told in rows(repository, package):
        files = [
            path
            for name in names
            for path in room(repository, package, name)
            if path.suffix in (".py", ".pyi")
        ]
        lines = sum(len(path.read_text().splitlines()) for path in files)
        assert abs(told - lines) <= max(told / 4, SOME), f"{names}: {lines}"


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
