"""Check of every project with many seeds: right answers get full marks, starters zero.

    python -m lab.evidence.project_seeds                    200 seeds, continued where it stopped
    python -m lab.evidence.project_seeds --seeds 5 02_area  some seeds of some projects

Hidden inputs, random thread orders and random points all depend on the seed. The released starter,
which is not run, is graded, and also a starter with a comment in each answer cell, whose tests run
and must fail. The solution is graded with every seed. The starters, whose answers always raise an
error, the answers in other styles (``right.py``) and the known-wrong answers (``wrong.py``) are
graded with the first five seeds; a wrong answer can be right by chance. The exit status is 1 if
any verdict differs from the expected one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

from rich.progress import track

import lab.benchmarks.support  # noqa: F401
from conftest import REPOSITORY
from gpucourse.course.registry import Project, load_course
from gpucourse.grading.commands.demo import Expected, right_answers, wrong_answers
from lab.benchmarks.report import RESULTS, write
from project_class import ProjectClass

NAME = "project_seeds"
# Results are saved after BATCH seeds. The first STYLES seeds are graded one at a time, in every
# style and with every wrong answer.
BATCH, STYLES = 10, 5


def seed_number(index: int) -> str:
    """Return 128 bits for this index as hexadecimal text."""
    return hashlib.sha256(b"project seed %d" % index).hexdigest()[:32]


def everybody(project: ProjectClass) -> list[Expected]:
    tests = tuple(cell.grade_id for cell in project.assignment.tests)
    starters = project.assignment.starters
    code = {cell.grade_id for cell in project.assignment.solutions if cell.cell_type == "code"}
    touched = {name: starters[name] + "\n# later\n" for name in code}
    # Written answers do not count until a person has read them.
    untouched = {name: text for name, text in starters.items() if name not in code}
    return [
        project.right("solution"),
        Expected("starter", json.dumps(project.assignment.released), tests, "no solution"),
        Expected("touched-starter", project.right("", touched | untouched).content, tests, ""),
    ]


def done_before(project: ProjectClass) -> dict:
    """Return an earlier run's findings for exactly this project, or empty ones."""
    fresh = {
        "project": project.assignment.digest,
        "seeds": 0,
        "in every style": 0,
        "with every known-wrong answer": 0,
        "wrong": [],
    }
    try:
        found = json.loads((RESULTS / f"{NAME}.json").read_text())["results"]["projects"]
    except (OSError, ValueError, KeyError):
        return fresh
    earlier = found.get(project.lesson.id, fresh)
    return fresh | earlier if earlier["project"] == fresh["project"] else fresh


def write_down(found: dict[str, dict]) -> None:
    write(
        NAME,
        {
            "command": "python -m lab.evidence.project_seeds",
            "graded with each seed": "solution",
            "projects": found,
        },
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("projects", nargs="*", help="beginnings of their names; default: all")
    options.add_argument("--seeds", type=int, default=200)
    asked = options.parse_args()

    lessons = [lesson for lesson in load_course(REPOSITORY).lessons if isinstance(lesson, Project)]
    with tempfile.TemporaryDirectory() as folder:
        projects = {lesson.id: ProjectClass(lesson.id, Path(folder)) for lesson in lessons}
        found = {id: done_before(project) for id, project in projects.items()}
        chosen = [id for id in projects if id.startswith(tuple(asked.projects) or "")]
        for id in chosen:
            project, state = projects[id], found[id]
            people = everybody(project)
            styles = right_answers(project.assignment, project.other_right)
            done = state["seeds"]
            singly = range(done, min(STYLES, asked.seeds))
            for start in track([*singly, *range(max(done, STYLES), asked.seeds, BATCH)], id):
                stop = start + 1 if start < STYLES else min(start + BATCH, asked.seeds)
                seeds = [seed_number(index) for index in range(start, stop)]
                graded = [*people, *styles] if start < STYLES else people[:1]
                state["wrong"] += project.outcomes(graded, seeds)
                state |= {"seeds": stop, "in every style": min(stop, STYLES)}
                write_down(found)
        for id in chosen:
            project, state = projects[id], found[id]
            known = wrong_answers(project.assignment, project.wrong)
            done = state["with every known-wrong answer"]
            for index in track(range(done, min(STYLES, asked.seeds)), f"{id}, known-wrong answers"):
                state["wrong"] += project.outcomes(known, [seed_number(index)])
                state["with every known-wrong answer"] = index + 1
                write_down(found)
    for id, state in found.items():
        print(f"{id}: {state['seeds']} seeds, {len(state['wrong'])} verdicts not as expected")
    return any(state["wrong"] for state in found.values())


if __name__ == "__main__":
    sys.exit(main())
