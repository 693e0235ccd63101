"""Class of right and wrong submissions for the tests of one project, graded together."""

from __future__ import annotations

import json
import random
import runpy
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from conftest import REPOSITORY
from gpucourse.course.registry import load_course
from gpucourse.grading.classes.batch import Grader, Job
from gpucourse.grading.commands.demo import (
    Expected,
    mismatch,
    right_answers,
    solved,
    wrong_answers,
)
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.grader import run_setup
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.ingest import ingest_cells
from gpucourse.publish.notebooks.derive import project_source
from gpucourse.publish.source.reader import read_source


class ProjectClass:
    """One project of the course, with a folder where the grader finds its source."""

    def __init__(self, id: str, folder: Path) -> None:
        course = load_course(REPOSITORY)
        self.lesson = course.lesson(id)
        self.source = read_source(course, self.lesson)
        self.assignment = Assignment(id, project_source(course, self.source))
        self.wrong = REPOSITORY / "course" / "projects" / id / "wrong.py"
        self.other_right = self.wrong.with_name("right.py")
        self.path = folder / f"{id}.ipynb"
        self.path.write_text(json.dumps(self.assignment.notebook), encoding="utf-8")

    def setup(self) -> dict:
        """Return the names that the set-up cells define."""
        return run_setup(self.assignment)

    def entries(self) -> list[dict]:
        """Return the known-wrong answers in ``wrong.py``."""
        return runpy.run_path(str(self.wrong))["WRONG"]

    def right(self, name: str, changed: dict[str, str] | None = None) -> Expected:
        """Return a submission that must get all points: the solution with some cells replaced."""
        return Expected(name, json.dumps(solved(self.assignment, changed)), (), "")

    def small_class(self, wrong: int) -> list[Expected]:
        """Grade a small class for `make test`: solution, starter and ``wrong`` wrong answers."""
        tests = tuple(cell.grade_id for cell in self.assignment.tests)
        starter = json.dumps(self.assignment.released)
        return [
            self.right("solution"),
            Expected("starter", starter, tests, "no solution"),
            *self._sample_of_wrong()[:wrong],
        ]

    def larger_class(self, wrong: int, right: int) -> list[Expected]:
        """Grade a larger class for `make rehearse`.

        It is the first answer in ``right.py``, with wrong answers up to a total of four. `make
        demo` grades them all.
        """
        return [
            *right_answers(self.assignment, self.other_right)[:right],
            *self._sample_of_wrong()[wrong:4],
        ]

    def _sample_of_wrong(self) -> list[Expected]:
        """Return known-wrong answers that fail at different test cells, always the same ones."""
        everyone = wrong_answers(self.assignment, self.wrong)
        random.Random(1).shuffle(everyone)
        return list({person.fails[0]: person for person in everyone}.values())

    def outcomes(self, people: Iterable[Expected], seeds: Iterable[str] = ("",)) -> list[str]:
        """Grade everybody with every seed; describe each unexpected result."""
        told = []
        everyone = {person.student: person for person in people}

        def judge(job, verdict):
            person = everyone[job.student]
            if bad := mismatch(person, self.assignment, verdict, verdict.earned):
                told.append(f"{job.student} (seed {verdict.seed}): {bad}")

        with Grader(own_work=True, sources=[self.path]) as grader:
            grader.grade(
                [
                    Job(
                        person.student,
                        self.path,
                        ingest_cells(
                            json.loads(person.content)["cells"], self.assignment, Limits()
                        ),
                        seed=seed,
                    )
                    for person in everyone.values()
                    for seed in seeds
                ],
                judge,
            )
        return told

    def check_entries(self, kinds: set[str]) -> None:
        """Check that names are unique, all `kinds` exist, and every test cell is needed."""
        entries = self.entries()
        names = Counter(entry["name"] for entry in entries)
        assert len(entries) >= 12 and max(names.values()) == 1
        assert kinds - {entry["kind"] for entry in entries} == set()
        # For each test cell, some wrong answer fails it and none before it.
        order = [cell.grade_id for cell in self.assignment.tests]
        assert {min(entry["fails"], key=order.index) for entry in entries} == set(order)
        for entry in entries:
            assert entry["fails"] == sorted(entry["fails"], key=order.index), entry["name"]

    def check_points(self) -> None:
        """Check that tests and written answers add up to the points in the registry."""
        given = sum(cell.points or 0 for cell in self.source.cells)
        assert given == self.lesson.points
        tested = sum(cell.points for cell in self.assignment.tests)
        written = sum(c.points for c in self.source.cells if c.role == "written")
        assert tested + written == given and written > 0
