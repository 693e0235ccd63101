"""docs/room.md gives the figures that were measured, and those of this day's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def section(repository: Path) -> str:
    page = (repository / "docs" / "room.md").read_text(encoding="utf-8")
    return page.split("## What a room needs")[1].split("\n## ")[0]


def results(repository: Path, name: str) -> dict:
    return json.loads((repository / "lab" / "results" / f"{name}.json").read_text())["results"]


def test_the_figures_of_twenty_learners_are_the_measured_ones(repository: Path, section: str):
    room = results(repository, "room")["learners"]
    first = room["s of the first cells of project 1, all learners at once"]
    leisure = room["s of a launch, each learner every 20 s on average"]
    for figure in (
        f"{room['MB of a server before its first kernel']['median']:.0f} MB",
        f"{room['MB for each learner']['server and kernel pss']['median']:.0f} MB",
        f"{room['MB of all together'] / 1000:.1f} GB for the twenty",
        f"{first['median']:.0f} s, for the last {first['most']:.0f} s",
        f"{room['s of a launch, one learner alone']['median']:.1f} s",
        f"{leisure['median']:.1f} s, nine of ten within {leisure['90 %']:.1f} s",
    ):
        assert figure in section, figure
    assert room["learners"] == 20


def test_the_first_cell_comes_within_twenty_seconds_of_one_core(repository: Path, section: str):
    start = results(repository, "room")["start"]["everything on one core"]
    assert start["first output s"]["most"] < 20
    assert (
        f"{start['first output s']['median']:.0f} s, the server's start of "
        f"{start['server answers s']['median']:.0f} s not counted"
    ) in section


def test_the_figures_of_binder_are_the_measured_ones(repository: Path, section: str):
    binder = results(repository, "binder_size")
    lessons = binder["notebooks"]
    here = {path.stem for path in (repository / "solutions").glob("[0-9]*.ipynb")}
    assert set(lessons) == here
    assert not any(
        one["killed"] or one["kernel died"] or one["unexpected errors"] for one in lessons.values()
    )
    assert binder["limit"] == "2 GB, enforced"
    projects = {path.name for path in (repository / "projects").iterdir() if path.is_dir()}
    peak = {name: one["peak MB of server and kernel"] / 1000 for name, one in lessons.items()}
    of_lectures = [peak[name] for name in peak.keys() - projects]
    of_projects = [peak[name] for name in projects]
    size = binder["environment MB"] + binder["repository MB"]
    for figure in (
        f"{min(of_lectures):.1f} to {max(of_lectures):.1f} GB",
        f"{min(of_projects):.1f} to {max(of_projects):.1f} GB",
        f"{size / 1000:.1f} GB",
    ):
        assert figure in section, figure
