"""Classes of submissions to grade, and the two commands that grade them.

All submissions of a class differ, so that no result can be reused.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat

import lab.benchmarks.support  # noqa: F401
from gpucourse.grading.commands.demo import solved, wrong_answers
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.system.programs import search_path
from grading_toy import notebook_of, setup, solution, test_cell
from lab.benchmarks.support import REPOSITORY

STOCK = "stock"
OURS = "ours"
# nbgrader allows 30 s per cell by default, but a test of a project takes longer on two busy cores.
STOCK_CONFIGURATION = """c = get_config()
c.CourseDirectory.course_id = "gpucourse"
c.Execute.timeout = 600
"""
TRIVIAL_TEST = """assert {double} == 6, "three"
### BEGIN HIDDEN TESTS
for n in (0, 1, 7, -4):
    assert {double_n} == 2 * n, "other numbers"
### END HIDDEN TESTS
"""


def trivial(kind: str) -> nbformat.NotebookNode:
    """Return a notebook of plain Python for one point; stock tests call the function directly."""
    calls = {
        STOCK: ("double(3)", "double(n)"),
        OURS: ('call("double", 3, where="host")', 'call("double", n, where="host")'),
    }[kind]
    start = "import math" if kind == STOCK else "import math\nfrom gpucourse import call"
    return notebook_of(
        [
            setup("start", start),
            solution(
                "double",
                "def double(n):\n    ### BEGIN SOLUTION\n    return 2 * n\n    ### END SOLUTION\n",
            ),
            test_cell("test-double", TRIVIAL_TEST.format(double=calls[0], double_n=calls[1]), 1),
        ]
    )


class Course:
    """Course directory in `folder`, for the course's grader or for stock nbgrader."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        folder.mkdir(parents=True)
        config = (
            STOCK_CONFIGURATION
            if kind == STOCK
            else (REPOSITORY / "grading" / "nbgrader_config.py").read_text()
        )
        (folder / "nbgrader_config.py").write_text(config)

    def trivial_class(self, count: int) -> None:
        """Create submissions of notebooks, a quarter of them wrong."""
        source = self.folder / "source" / "trivial" / "trivial.ipynb"
        source.parent.mkdir(parents=True)
        nbformat.write(trivial(self.kind), source)
        assignment = Assignment.load(source)
        for number in range(count):
            body = "return 2 * n" if number % 4 else "return 2 * abs(n)"
            answer = f"# {number}\ndef double(n):\n    {body}\n"
            self._hand_in(number, "trivial", solved(assignment, {"double": answer}))
        self.nbgrader("generate_assignment", "trivial")

    def project_class(self, count: int, name: str = "01_fill_a_histogram") -> None:
        """Create `count` submissions: a project's solution and known-wrong answers in turn."""
        target = self.folder / "source" / name
        shutil.copytree(REPOSITORY / "grading" / "source" / name, target)
        assignment = Assignment.load(target / f"{name}.ipynb")
        wrong = wrong_answers(assignment, REPOSITORY / "course" / "projects" / name / "wrong.py")
        notebooks = [solved(assignment), *(json.loads(entry.content) for entry in wrong)]
        for number in range(count):
            notebook = json.loads(json.dumps(notebooks[number % len(notebooks)]))
            for cell in notebook["cells"]:
                if cell["metadata"].get("nbgrader", {}).get("solution"):
                    cell["source"] += f"\n# {number}"
                    break
            self._hand_in(number, name, notebook)
        self.nbgrader("generate_assignment", name)

    def _hand_in(self, number: int, name: str, notebook: dict) -> None:
        path = self.folder / "submitted" / f"s{number:04}" / name / f"{name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(notebook), encoding="utf-8")

    def nbgrader(self, *arguments: str) -> None:
        self._run(sys.executable, "-m", "nbgrader", *arguments)

    def grade(self, assignment: str, *options: str) -> None:
        """Grade the whole class with `gpucourse grade` or `nbgrader autograde`."""
        if self.kind == STOCK:
            self.nbgrader("autograde", assignment)
        else:
            self._run(*self.command(assignment, *options))

    def command(self, assignment: str, *options: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "gpucourse",
            "grade",
            str(self.folder),
            "--assignment",
            assignment,
            *options,
        ]

    def _run(self, *command: str) -> None:
        ran = subprocess.run(
            command, cwd=self.folder, env=environment(), text=True, capture_output=True
        )
        # nbgrader's command fails if one notebook has failed; the others are still graded.
        if ran.returncode and "autograde" not in command:
            raise RuntimeError((ran.stdout + ran.stderr)[-3000:])

    def scores(self, assignment: str) -> dict[str, float]:
        """Return each student's points from the gradebook."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}", "gpucourse") as gradebook:
            return {
                submission.student.id: float(submission.score)
                for submission in gradebook.assignment_submissions(assignment)
            }

    def verdicts(self, assignment: str) -> Iterator[dict]:
        for path in sorted((self.folder / "verdicts").glob(f"*/{assignment}/*.json")):
            yield json.loads(path.read_text())


def environment() -> dict[str, str]:
    """Return an environment with nbgrader's programs and without personal settings."""
    return os.environ | {"PATH": search_path(), "JUPYTER_PLATFORM_DIRS": "1", "COLUMNS": "100"}
