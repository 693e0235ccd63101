"""A class for the tests of one project: right and wrong submissions, graded in one go."""

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
    """One project of the course, and a folder where the grader finds its source."""

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
        """What the set-up cells define."""
        return run_setup(self.assignment)

    def entries(self) -> list[dict]:
        """The known-wrong answers as ``wrong.py`` has them."""
        return runpy.run_path(str(self.wrong))["WRONG"]

    def right(self, name: str, changed: dict[str, str] | None = None) -> Expected:
        """A submission that must earn everything: the solution, some cells replaced."""
        return Expected(name, json.dumps(solved(self.assignment, changed)), (), "")

    def small_class(self, wrong: int) -> list[Expected]:
        """What `make test` grades: the solution, the starter and ``wrong`` known-wrong answers."""
        tests = tuple(cell.grade_id for cell in self.assignment.tests)
        starter = json.dumps(self.assignment.released)
        return [
            self.right("solution"),
            Expected("starter", starter, tests, "no solution"),
            *self._sample_of_wrong()[:wrong],
        ]

    def larger_class(self, wrong: int, right: int) -> list[Expected]:
        """What `make rehearse` grades beside it: the first of ``right.py``, wrong answers to make
        four; `make demo` grades them all."""
        return [
            *right_answers(self.assignment, self.other_right)[:right],
            *self._sample_of_wrong()[wrong:4],
        ]

    def _sample_of_wrong(self) -> list[Expected]:
        """Known-wrong answers that fail at different test cells, always the same ones."""
        everyone = wrong_answers(self.assignment, self.wrong)
        random.Random(1).shuffle(everyone)
        return list({person.fails[0]: person for person in everyone}.values())

    def outcomes(self, people: Iterable[Expected], seeds: Iterable[str] = ("",)) -> list[str]:
        """Grade everybody with every seed; what did not come out as expected, in words."""
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
        """Names are unique, `kinds` are all there, and every test cell earns its place."""
        entries = self.entries()
        names = Counter(entry["name"] for entry in entries)
        assert len(entries) >= 12 and max(names.values()) == 1
        assert kinds - {entry["kind"] for entry in entries} == set()
        # Some wrong answer fails each test cell and none before it.
        order = [cell.grade_id for cell in self.assignment.tests]
        assert {min(entry["fails"], key=order.index) for entry in entries} == set(order)
        for entry in entries:
            assert entry["fails"] == sorted(entry["fails"], key=order.index), entry["name"]

    def check_points(self) -> None:
        """Tests and written answers add up to what the registry says."""
        given = sum(cell.points or 0 for cell in self.source.cells)
        assert given == self.lesson.points
        tested = sum(cell.points for cell in self.assignment.tests)
        written = sum(c.points for c in self.source.cells if c.role == "written")
        assert tested + written == given and written > 0
