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
        cell["outputs"] = [
            {"output_type": "display_data", "metadata": {}, "data": {"image/png": picture}}
        ]


# Answers as students wrote them, by cell.
SERIAL = {
    "fill-atomic": """@cuda.jit
def fill_atomic(values, low, high, counts):
    if cuda.grid(1) == 0:
        for i in range(values.size):
            counts[bin_index(values[i], low, high, counts.size - 2)] += 1
""",
    "fill-shared": """@cuda.jit
def fill_shared(values, low, high, counts):
    # A thread for each slot: 42 of the 256 of a launch work.
    slot = cuda.grid(1)
    if slot < counts.size:
        total = 0
        for i in range(values.size):
            if bin_index(values[i], low, high, counts.size - 2) == slot:
                total += 1
        counts[slot] += total
""",
    "histogram": """def histogram(values, low, high, bins):
    return reference(values, low, high, bins)
""",
}
SYNTAX_ERROR = {
    "fill-atomic": """@cuda.jit
def fill_atomic(values, low, high, counts)
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, bin_index(values[i], low, high, counts.size - 2), 1)
"""
}
ENDLESS = {
    "fill-shared": """@cuda.jit
def fill_shared(values, low, high, counts):
    i = cuda.grid(1)
    while i < values.size:
        cuda.atomic.add(counts, bin_index(values[i], low, high, counts.size - 2), 1)
""",
    "predict-passes": """def predict_passes(values, low, high, bins):
    turns = 0
    start = 0
    while start < values.size:
        turns += reference(values[start : start + 32], low, high, bins).max()
    return int(turns)
""",
}
# A device function and an import in cells that the student added.
HELPED = {
    "fill-atomic": """@cuda.jit
def fill_atomic(values, low, high, counts):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        count_one(counts, values[i], low, high)
""",
    "predict-passes": """def predict_passes(values, low, high, bins):
    return int(sum(max(Counter(np.digitize(
        values[start : start + 32], np.linspace(low, high, bins + 1))).values())
        for start in range(0, values.size, 32)))
""",
}
ADDED = """from collections import Counter


@cuda.jit(device=True)
def count_one(counts, value, low, high):
    cuda.atomic.add(counts, bin_index(value, low, high, counts.size - 2), 1)
"""


def stripped(notebook: dict) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}


def windows(notebook: dict) -> None:
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")


def helped(notebook: dict) -> None:
    """Below the first code cell, a cell of the student's own."""
    at = next(n for n, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code") + 1
    notebook["cells"].insert(
        at,
        {
            "cell_type": "code",
            "id": "my-own",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": ADDED,
        },
    )


class Made:
    """The class on disk; `expected` has points by student."""

    def __init__(self, root: Path, repository: Path) -> None:
        self.root = root
        source = repository / "grading" / "source" / PROJECT
        shutil.copytree(source, root / "source" / PROJECT)
        config = (repository / "grading" / "nbgrader_config.py").read_text()
        (root / "nbgrader_config.py").write_text(
            config + "\nc.LateSubmissionPlugin.penalty_method = 'zero'\n"
        )
        self.assignment = Assignment.load(root / "source" / PROJECT / f"{PROJECT}.ipynb")
        self.expected: dict[str, float] = {}
        assert nbgrader_command(root, "generate_assignment", PROJECT)[0] == 0
        with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "gpucourse") as book:
            book.update_or_create_assignment(PROJECT, duedate="2020-01-01 12:00:00 UTC")

    def hand_in(
        self,
        student: str,
        points: float,
        content: dict | bytes,
        *,
        name: str = f"{PROJECT}.ipynb",
        time: str = "",
    ) -> None:
        path = self.root / "submitted" / student / PROJECT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        if time:
            (path.parent / "timestamp.txt").write_text(time)
        self.expected[student] = points

    def right(self, change: Callable[[dict], None] = lambda notebook: None, **answers: str) -> dict:
        """All answers right but for `answers`, and no text written, after `change`."""
        text = self.assignment.starters["reflection"]
        notebook = solved(self.assignment, {"reflection": text, **answers})
        change(notebook)
        return notebook


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
    for student, name in (
        ("again", f"{PROJECT} (1).ipynb"),
        ("own-name", "Hausaufgabe 1.ipynb"),
        ("from-colab", f"project_{PROJECT}.ipynb"),
    ):
        made.hand_in(student, ALL, made.right(), name=name)
    made.hand_in("late", 0.0, made.right(), time=LATE)
    starters = made.assignment.starters
    made.hand_in("empty", 0.0, solved(made.assignment, starters))
    names = list(starters)
    half = {name: starters[name] for name in names[names.index("histogram") :]}
    made.hand_in("half", 20.0, solved(made.assignment, half))
    made.hand_in("serial", 21.0, made.right(**SERIAL))
    made.hand_in("syntax-error", 27.0, made.right(**SYNTAX_ERROR))
    made.hand_in("endless", 22.0, made.right(**ENDLESS))
    made.hand_in("helper-and-import", 25.0, made.right(helped, **HELPED))
    made.hand_in("stripped", ALL, made.right(stripped))
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
        scores = {
            one.student.id: one.score - (one.notebooks[0].late_submission_penalty or 0.0)
            for one in book.assignment_submissions(PROJECT)
        }
    assert scores == made.expected


def test_unknown_times_are_named_and_known_ones_are_not(made):
    (line,) = (line for line in made.said.splitlines() if "no lateness is counted" in line)
    who = set(line.partition("counted: ")[2].partition(" (there is no")[0].split(", "))
    assert who == set(made.expected) - {"perfect", "late"}


@pytest.mark.parametrize(
    ("student", "words"),
    [
        ("empty", "every answer cell is as it was released"),
        ("again", f"'{PROJECT} (1).ipynb' here"),
        ("own-name", "'Hausaufgabe 1.ipynb' here"),
        ("from-colab", f"'project_{PROJECT}.ipynb' here"),
        ("stripped", "has removed their metadata. The grader recognised 11 of 11"),
        ("truncated", "not valid JSON"),
        ("zip", "'work.zip': submit the notebook itself"),
        ("script", "'work.py': submit the notebook itself"),
    ],
)
def test_each_is_told_what_to_know(made, student, words):
    page = feedback(made, student).replace("&#x27;", "'").replace("&#39;", "'")
    assert words in page


def reasons(made: Made, student: str) -> dict[str, str]:
    """What the verdict says of each test that failed."""
    path = made.root / "verdicts" / student / PROJECT / f"{PROJECT}.json"
    return {
        test["test"]: test["reason"]
        for test in json.loads(path.read_text())["tests"]
        if test["earned"] == 0
    }


def test_only_what_is_wrong_and_its_callers_lose_points(made):
    """Each reason is the answer's own, and names the cell that is at fault."""
    serial = reasons(made, "serial")
    assert set(serial) == {
        "test-fill-atomic",
        "test-fill-shared",
        "test-shared-traffic",
        "test-histogram",
    }
    assert "is serial" in serial["test-fill-atomic"]
    assert "is serial" not in serial["test-fill-shared"]
    syntax = reasons(made, "syntax-error")
    assert set(syntax) == {"test-fill-atomic", "test-histogram"}
    assert all("fill-atomic" in reason for reason in syntax.values())
    endless = reasons(made, "endless")
    assert set(endless) == {
        "test-fill-shared",
        "test-shared-traffic",
        "test-histogram",
        "test-predict-passes",
    }
    helped = reasons(made, "helper-and-import")
    assert set(helped) == {"test-fill-atomic", "test-histogram", "test-predict-passes"}
    names = {
        "test-fill-atomic": "count_one",
        "test-histogram": "count_one",
        "test-predict-passes": "Counter",
    }
    for test, name in names.items():
        assert f"'{name}' is not defined in an answer cell: it is defined in cell" in helped[test]


@pytest.mark.parametrize(
    "student",
    ["perfect", "vs_code", "colab", "lab", "reverse", "windows", "outputs", "bom", "Łukasz-學生"],
)
def test_no_word_of_cells_that_differ_where_none_does(made, student):
    assert "What the grader found" not in feedback(made, student)


def test_who_handed_in_the_published_solution_is_named(made):
    rows = (made.root / "reports" / PROJECT / "similar.csv").read_text().splitlines()
    published = {row.split(",")[0] for row in rows if ",the published solution" in row}
    assert set(COPIES) | {"byte-for-byte", "perfect"} <= published
    assert not {"empty", "zip", "script", "truncated"} & published
    page = (made.root / "reports" / PROJECT / "class.html").read_text()
    assert all(student in page for student in COPIES)
