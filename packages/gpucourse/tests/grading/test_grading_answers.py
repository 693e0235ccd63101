"""Answers in cells that are split, merged, moved or without their metadata."""

from __future__ import annotations

import contextlib
import json
import time

import pytest

from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.grader import nothing_to_grade
from gpucourse.grading.sandbox import cells as running
from gpucourse.grading.submission import ingest, statements
from gpucourse.grading.submission.finding import belongs
from grading_toy import submission, toy, toy_notebook

WHOLE = "def double(values):\n    return 2 * values"
HELPER = "def twice(value):\n    return 2 * value"
USES = "def double(values):\n    return twice(values)"
DECORATOR = "def doubled(function):\n    return lambda values: 2 * function(values)\n\n\n"
STUB = "def double(values):\n    # YOUR CODE HERE\n    raise NotImplementedError()"


@pytest.fixture
def assignment():
    return toy()


def take(cells, assignment):
    return ingest.ingest_cells(cells, assignment, Limits())


def place(cells, name):
    return next(
        n
        for n, one in enumerate(cells)
        if one["metadata"].get("nbgrader", {}).get("grade_id") == name
    )


def split(cells, name, *parts):
    """Cells with `parts` in place of an answer, each with its metadata, as JupyterLab splits; a
    part that is a dict is a cell as it stands."""
    at = place(cells, name)
    whole = cells[at]
    cells[at : at + 1] = [
        part if isinstance(part, dict) else json.loads(json.dumps(whole)) | {"source": part}
        for part in parts
    ]
    return cells


def own(source: str, kind: str = "code") -> dict:
    return {"cell_type": kind, "metadata": {}, "source": source}


def bare(cells):
    """Without metadata and without Jupyter's identities."""
    return [{"cell_type": one["cell_type"], "source": one["source"]} for one in cells]


def doubles(source: str) -> bool:
    """Run an answer as the worker does, errors of its parts aside; return True if it is right."""
    namespace: dict = {}
    with contextlib.suppress(Exception):
        running.run(source, "double", namespace)
    return namespace["double"](21) == 42


SPLITS = {
    "helper above": [HELPER, USES],
    "helper below": [USES, HELPER],
    "three parts": ["FACTOR = 2", "def twice(v):\n    return FACTOR * v", USES],
    "a comment": [WHOLE, "# my notes"],
    "its own check": [WHOLE, "assert double(1) == 2\nprint(double(2))"],
    "a check of what the grader does not have": [HELPER, "plot(masses)", USES],
    "a check that does not hold": ["assert False", WHOLE],
    "notes that are not Python": ["twice, I think", HELPER, USES],
    "a text": [own("Two cells:", "markdown"), HELPER, own("and", "markdown"), USES],
    "a cell of one's own between": [HELPER, own("twice(3)"), USES],
    "the starter above": [STUB, WHOLE],
    "the starter below": [WHOLE, STUB],
    "the starter's head above": ["# " + STUB.replace("\n", "\n# "), WHOLE],
    "within the function": WHOLE.partition("\n    ")[::2],
    "below a decorator": [f"{DECORATOR}@doubled", "def double(values):\n    return values"],
    "below a decorator and a comment": [
        f"{DECORATOR}@doubled\n# mine",
        "def double(values):\n    return values",
    ],
    "within brackets": ["FACTORS = (", f"2,\n)\n{WHOLE.replace('2', 'FACTORS[0]')}"],
    "within a text": ['"""Notes on', f'doubling."""\n{WHOLE}'],
    "above an else": [
        "if 1 > 2:\n    factor = 3",
        f"else:\n    factor = 2\n{WHOLE.replace('2', 'factor')}",
    ],
    "notes with an open bracket": ["twice (I think", WHOLE],
    "the lower half without a name": [HELPER, own(USES)],
    "the upper half without a name": [own(HELPER), USES],
    "both halves without a name, and the starter": [STUB, own(HELPER), own(USES)],
    "a constant above that the definition reads": [
        "def double(values, factor=FACTOR):\n    return factor * values",
        "FACTOR = 2",
    ],
    "a cell of nothing between": [HELPER, own(""), own(USES)],
}


@pytest.mark.parametrize("kind", SPLITS)
def test_threat_101_a_split_answer_is_graded_as_one(kind, assignment):
    parts = SPLITS[kind]
    if kind == "within the function":
        parts = [parts[0], "    " + parts[1]]
    taken = take(split(submission(assignment), "double", *parts), assignment)
    assert doubles(taken.sources["double"])
    assert "Delete" not in " ".join(taken.notices)
    assert "differently" not in " ".join(taken.notices)


@pytest.mark.parametrize("far", [0, 99])
def test_threat_101_parts_that_were_moved_apart_are_one(assignment, far):
    cells = split(submission(assignment), "double", HELPER, USES)
    cells.insert(far, cells.pop(place(cells, "double")))
    assert doubles(take(cells, assignment).sources["double"])


def test_threat_101_only_alternatives_are_asked_about(assignment):
    """The honest control: two answers to one question are not one answer."""
    cells = split(submission(assignment), "double", WHOLE.replace("2", "3"), WHOLE)
    taken = take(cells, assignment)
    assert taken.sources["double"] == WHOLE
    assert taken.notices == [
        "Two cells answer 'double' differently: cells 3 and 4. The lower one was graded. If you "
        "meant the other, copy its text into cell 4."
    ]
    # The helper of the upper one is not lost with it.
    cells = split(submission(assignment), "double", f"{HELPER}\n\n\n{WHOLE}", USES)
    taken = take(cells, assignment)
    assert doubles(taken.sources["double"]) and "differently" in taken.notices[0]


def test_threat_101_a_written_answer_in_parts_is_read_whole():
    notebook = toy_notebook()
    written = json.loads(json.dumps(notebook.cells[2]))
    written["metadata"]["nbgrader"] |= {"grade_id": "why", "grade": True, "points": 1}
    notebook.cells.append(type(notebook.cells[0])(written | {"cell_type": "markdown", "id": "why"}))
    notebook.cells[-1].source = "YOUR ANSWER HERE"
    for field in ("outputs", "execution_count"):
        del notebook.cells[-1][field]
    assignment = ingest.Assignment("toy", notebook)
    cells = split(submission(assignment), "why", "First this.", own("Then that.", "markdown"))
    assert take(cells, assignment).sources["why"] == "First this.\n\nThen that."
    # What was handed out below it is no part of it, nor a heading of a translated notebook.
    cells += [own("# A toy", "markdown"), own("## Fünf Sätze", "markdown")]
    assert take(cells, assignment).sources["why"] == "First this.\n\nThen that."


def test_a_helper_elsewhere_is_no_part_of_an_answer(assignment):
    cells = [own(HELPER), *split(submission(assignment), "double", USES)]
    taken = take(cells, assignment)
    assert "def twice" not in taken.sources["double"]
    assert taken.strays["twice"] == "cell 1"


def test_merged_answers_are_found_in_one_cell(assignment):
    cells = submission(assignment)
    total = cells.pop(place(cells, "total"))
    cells[place(cells, "double")]["source"] += "\n\n" + total["source"]
    taken = take(cells, assignment)
    assert "def total" in taken.sources["double"]
    assert taken.sources["total"] == "# 'total': in the cell 'double'."
    assert "Its answer was found in cell 3" in " ".join(taken.notices)


def test_an_answer_in_a_test_cell_is_taken_without_the_test(assignment):
    cells = submission(assignment)
    answer = cells.pop(place(cells, "total"))
    at = place(cells, "test-double")
    cells[at]["source"] += "\n\n" + answer["source"]
    taken = take(cells, assignment)
    assert "values.sum()" in taken.sources["total"]
    assert "expect_equal" not in taken.sources["total"]


@pytest.mark.parametrize("identities", [False, True])
def test_threat_102_a_notebook_without_metadata_is_graded(assignment, identities):
    cells = split(submission(assignment), "double", HELPER, USES)
    for one in cells:
        one["metadata"] = {}
        if not identities:
            one.pop("id")
    taken = take(cells, assignment)
    assert taken.fault is None and doubles(taken.sources["double"])
    assert "values.sum()" in taken.sources["total"]
    (notice,) = taken.notices
    assert "The grader recognised 2 of 2" in notice
    assert belongs(cells, assignment)


def test_threat_102_what_was_not_found_is_said_beside_what_was(assignment):
    cells = bare(submission(assignment))
    cells = [one for one in cells if "def total" not in one["source"]]
    taken = take(cells, assignment)
    assert taken.fault is None and doubles(taken.sources["double"])
    assert "recognised 1 of 2 answers" in taken.notices[0]
    assert "'total' is missing, and no other cell holds its answer" in taken.notices[1]


def test_threat_102_idle_notebooks_without_metadata_earn_nothing(assignment):
    released = bare(submission(assignment, **assignment.starters))
    assert "every answer cell is as it was released" in nothing_to_grade(
        assignment, take(released, assignment)
    )
    assert "None of the cells" in take([own("1 + 1")], assignment).fault
    tests = [one for one in bare(submission(assignment)) if "def " not in one["source"]]
    assert "All answer cells were deleted" in take(tests, assignment).fault
    assert not belongs(tests, assignment)


def test_threat_102_a_notebook_in_one_cell(assignment):
    """Each answer is cut out of it, with what it uses, and nothing of the tests."""
    cells = split(submission(assignment), "double", f"{HELPER}\n\n\n@staticmethod\n{USES}")
    code = "\n\n".join(one["source"] for one in cells if one["cell_type"] == "code")
    taken = take([own(code)], assignment)
    assert taken.sources["double"] == f"{HELPER}\n\n\n@staticmethod\n{USES}\n"
    assert "expect" not in taken.sources["total"]


def test_parts_run_as_cells_do():
    """A part that fails stops no other, and its line is that of the whole text."""
    text = statements.joined([(4, "a = 1"), (5, "b = 1 / 0"), (9, "%%time\nc = a")])
    namespace: dict = {}
    with pytest.raises(ZeroDivisionError) as caught:
        running.run(text, "parts", namespace)
    assert running.line_of(caught.value) == ("parts", 3)
    assert namespace["c"] == 1
    assert running.magics(text) == ["%%time"]


def test_a_text_with_a_marker_of_its_own_is_run_all_the_same():
    marker = statements.joined([(1, ""), (2, "x = 1")]).splitlines()[1]
    namespace: dict = {}
    running.run(f"{marker}\ny = 2\n{marker}\nz = y", "marked", namespace)
    assert namespace["z"] == 2


def test_thousands_of_parts_are_looked_through_in_a_second(assignment):
    many = [f"def helper_{n}(value):\n    return helper_{n + 1}(value)" for n in range(3000)]
    cells = split(submission(assignment), "double", *many, WHOLE)
    cells += [own(f"helper_{n} = double_{n}") for n in range(3000)]
    began = time.process_time()
    take(cells, assignment)
    assert time.process_time() - began < 2


def test_four_times_the_parts_of_an_answer_take_four_times_as_long():
    """Thirty thousand cells with one name took nine seconds of the grader's own process."""

    def seconds(parts: int) -> float:
        began = time.process_time()
        statements.joined((n, f"y{n} = 1") for n in range(parts))
        return time.process_time() - began

    few, many = (min(seconds(parts) for _ in range(3)) for parts in (2_000, 8_000))
    assert many < 8 * few + 0.05
