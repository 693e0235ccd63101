"""A class of project 1 as a teacher gets it: files from five editors, renamed, doubled, damaged,
late or of an unknown time; and what each of them must earn."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from rich.console import Console

from gpucourse.grading.commands import grade_class
from gpucourse.grading.commands.demo import solved
from gpucourse.grading.submission.assignment import Assignment
from nbgrader_commands import nbgrader_command

pytestmark = pytest.mark.rehearsal

PROJECT = "01_fill_a_histogram"
ALL = 33.0
COPIES = [f"copied-{n}" for n in range(10)]
# Of the others no time is known.
IN_TIME, LATE = "2019-12-31 12:00:00.0 UTC", "2020-01-02 12:00:00.0 UTC"


def vs_code(notebook: dict) -> None:
    for cell in notebook["cells"]:
        cell["metadata"]["vscode"] = {"languageId": "python"}
    notebook["metadata"] = {"language_info": {"name": "python"}, "vscode": {"interpreter": {}}}


def colab(notebook: dict) -> None:
    for n, cell in enumerate(notebook["cells"]):
        cell.pop("id", None)
        cell["metadata"]["id"] = f"x{n}"
        cell["metadata"]["executionInfo"] = {"status": "ok", "user": {"displayName": "A B"}}
    notebook["nbformat_minor"] = 0
    notebook["metadata"] = {"colab": {"provenance": []}, "accelerator": "GPU"}


def lab(notebook: dict) -> None:
    for cell in notebook["cells"]:
        cell["metadata"]["editable"] = True
        cell["metadata"]["slideshow"] = {"slide_type": ""}


def reverse(notebook: dict) -> None:
    notebook["cells"].reverse()


def outputs(notebook: dict) -> None:
    picture = base64.b64encode(b"p" * 5_000_000).decode()
    for cell in [cell for cell in notebook["cells"] if cell["cell_type"] == "code"][:3]:
        cell["outputs"] = [{"output_type": "display_data", "metadata": {},
                            "data": {"image/png": picture}}]


def stripped(notebook: dict) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}


def windows(notebook: dict) -> None:
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")


class Made:
    """The class on disk; `expected` has points by student."""

    def __init__(self, root: Path, repository: Path) -> None:
        self.root = root
        source = repository / "grading" / "source" / PROJECT
        shutil.copytree(source, root / "source" / PROJECT)
        config = (repository / "grading" / "nbgrader_config.py").read_text()
        (root / "nbgrader_config.py").write_text(
            config + "\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
        self.assignment = Assignment.load(root / "source" / PROJECT / f"{PROJECT}.ipynb")
        self.expected: dict[str, float] = {}
        assert nbgrader_command(root, "generate_assignment", PROJECT)[0] == 0
        with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "gpucourse") as book:
            book.update_or_create_assignment(PROJECT, duedate="2020-01-01 12:00:00 UTC")

    def hand_in(self, student: str, points: float, content: dict | bytes, *,
                name: str = f"{PROJECT}.ipynb", time: str = "") -> None:
        path = self.root / "submitted" / student / PROJECT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        if time:
            (path.parent / "timestamp.txt").write_text(time)
        self.expected[student] = points

    def right(self, change: Callable[[dict], None] = lambda notebook: None) -> dict:
        """All answers right and no text written, after `change`."""
        text = self.assignment.starters["reflection"]
        notebook = solved(self.assignment, {"reflection": text})
        change(notebook)
        return notebook

    def earlier(self, name: str) -> float:
        """The points of the tests that come before an answer cell."""
        points = 0.0
        for cell in self.assignment.cells:
            if cell.grade_id == name:
                return points
            points += cell.points if cell.role == "test" else 0.0
        raise AssertionError(name)


@pytest.fixture(scope="module")
def made(tmp_path_factory, repository) -> Made:
    made = Made(tmp_path_factory.mktemp("class") / "course", repository)
    made.hand_in("perfect", ALL, made.right(), time=IN_TIME)
    for change in (vs_code, colab, lab, reverse, windows, outputs):
        made.hand_in(change.__name__, ALL, made.right(change))
    made.hand_in("bom", ALL, b"\xef\xbb\xbf" + json.dumps(made.right()).encode())
    made.hand_in("Łukasz-學生", ALL, made.right())
    made.hand_in("byte-for-byte", ALL, json.dumps(made.right()).encode())
    for student in COPIES:
        made.hand_in(student, ALL, made.right())
    for student, name in (("again", f"{PROJECT} (1).ipynb"), ("own-name", "Hausaufgabe 1.ipynb"),
                          ("from-colab", f"project_{PROJECT}.ipynb")):
        made.hand_in(student, ALL, made.right(), name=name)
    made.hand_in("late", 0.0, made.right(), time=LATE)
    starters = made.assignment.starters
    made.hand_in("empty", 0.0, solved(made.assignment, starters))
    names = list(starters)
    half = {name: starters[name] for name in names[names.index("fill-atomic"):]}
    made.hand_in("half", made.earlier("fill-atomic"), solved(made.assignment, half))
    made.hand_in("stripped", 0.0, made.right(stripped))
    made.hand_in("truncated", 0.0, json.dumps(made.right()).encode()[:3000])
    made.hand_in("zip", 0.0, b"PK\x05\x06" + b"\0" * 18, name="work.zip")
    made.hand_in("script", 0.0, b"print(1)\n", name="work.py")
    made.console = Console(record=True, width=600)
    code = grade_class.grade_class(made.root, [], made.console, similar=True)
    assert code == grade_class.GRADED
    made.said = made.console.export_text()
    assert nbgrader_command(made.root, "generate_feedback", PROJECT)[0] == 0
    return made


def feedback(made: Made, student: str) -> str:
    return (made.root / "feedback" / student / PROJECT / f"{PROJECT}.html").read_text()


def test_everybody_earns_what_the_work_is_worth(made):
    """Right work all points, whatever file it came in and without a time; late work what the
    plug-in says."""
    with Gradebook(f"sqlite:///{made.root / 'gradebook.db'}", "gpucourse") as book:
        scores = {one.student.id: one.score - (one.notebooks[0].late_submission_penalty or 0.0)
                  for one in book.assignment_submissions(PROJECT)}
    assert scores == made.expected


def test_unknown_times_are_named_and_known_ones_are_not(made):
    (line,) = (line for line in made.said.splitlines() if "no lateness is counted" in line)
    who = set(line.partition("counted: ")[2].partition(" (there is no")[0].split(", "))
    assert who == set(made.expected) - {"perfect", "late"}


@pytest.mark.parametrize(("student", "words"), [
    ("empty", "every answer cell is as it was released"),
    ("again", f"'{PROJECT} (1).ipynb' here"), ("own-name", "'Hausaufgabe 1.ipynb' here"),
    ("from-colab", f"'project_{PROJECT}.ipynb' here"), ("stripped", "None of the cells of"),
    ("truncated", "not valid JSON"), ("zip", "'work.zip': hand in the notebook itself"),
    ("script", "'work.py': hand in the notebook itself")])
def test_each_is_told_what_to_know(made, student, words):
    page = feedback(made, student).replace("&#x27;", "'").replace("&#39;", "'")
    assert words in page


@pytest.mark.parametrize("student", ["perfect", "vs_code", "colab", "lab", "reverse", "windows",
                                     "outputs", "bom", "Łukasz-學生"])
def test_no_word_of_cells_that_differ_where_none_does(made, student):
    assert "What the grader found" not in feedback(made, student)


def test_who_handed_in_the_published_solution_is_named(made):
    rows = (made.root / "reports" / PROJECT / "similar.csv").read_text().splitlines()
    published = {row.split(",")[0] for row in rows if ",the published solution" in row}
    assert set(COPIES) | {"byte-for-byte", "perfect"} <= published
    assert not {"empty", "zip", "script", "truncated"} & published
    page = (made.root / "reports" / PROJECT / "class.html").read_text()
    assert all(student in page for student in COPIES)
