"""What the grader takes from a submitted file, and what it says of the rest."""

from __future__ import annotations

import gzip
import json
import os
import re
import time

import nbformat
import pytest

from gpucourse.grading.limits import Limits
from gpucourse.grading.submission import ingest
from gpucourse.grading.submission.assignment import Assignment
from grading_toy import submission, toy, toy_notebook, write_submission


@pytest.fixture
def assignment() -> Assignment:
    return toy()


def take(cells, assignment):
    return ingest.ingest_cells(cells, assignment, Limits())


def named(cells, grade_id):
    return next(c for c in cells if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def test_honest_submission_is_taken_whole(assignment):
    taken = take(submission(assignment), assignment)
    assert taken.fault is None
    assert taken.notices == []
    assert "return 2 * values" in taken.sources["double"]


def test_released_notebook_has_neither_solutions_nor_hidden_tests(assignment):
    text = json.dumps(assignment.released)
    assert "return 2 * values" not in text
    assert "hidden_values" not in text
    assert "wrong for three numbers" in text


def test_released_notebook_is_what_nbgrader_makes_of_the_source():
    from nbgrader.preprocessors import ClearHiddenTests, ClearOutput, ClearSolutions

    notebook = toy_notebook()
    whole = {"solution": True, "locked": False, "grade": True, "points": 1, "grade_id": "w"}
    notebook.cells += [
        nbformat.v4.new_markdown_cell("Because it is.", metadata={"nbgrader": whole}),
        nbformat.v4.new_code_cell("answer = 42", metadata={"nbgrader": whole | {"grade_id": "c"}}),
        nbformat.v4.new_code_cell("1", outputs=[nbformat.v4.new_output("stream", text="1")]),
    ]
    expected = json.loads(json.dumps(notebook))
    expected = nbformat.from_dict(expected)
    for step in (ClearSolutions(), ClearHiddenTests(), ClearOutput()):
        expected, _ = step.preprocess(expected, {})
    assert Assignment("toy", notebook).released.cells == expected.cells


def test_the_rebuilt_notebook_holds_nothing_else_of_the_students(assignment):
    cells = submission(assignment)
    named(cells, "test-double")["source"] = "pass  # mine"
    cells.append({"cell_type": "code", "metadata": {}, "source": "my_own = 1", "outputs": []})
    rebuilt = ingest.rebuild(assignment, take(cells, assignment))
    nbformat.validate(rebuilt)
    text = json.dumps(rebuilt.cells)
    assert "# mine" not in text
    assert "my_own" not in text


def test_ingested_survives_the_rebuilt_notebook(assignment):
    taken = take(submission(assignment, double="def double(v):\n    return v + v\n"), assignment)
    again = ingest.read_back(ingest.rebuild(assignment, taken), assignment)
    assert again == taken
    with pytest.raises(ValueError, match="ingest"):
        ingest.read_back(toy_notebook(), assignment)


def test_digest_depends_on_answers_only(assignment):
    honest = take(submission(assignment), assignment)
    cells = submission(assignment)
    cells.append({"cell_type": "markdown", "metadata": {}, "source": "a remark"})
    assert take(cells, assignment).digest(assignment) == honest.digest(assignment)
    other = take(submission(assignment, double="double = None"), assignment)
    assert other.digest(assignment) != honest.digest(assignment)


def test_threat_33_deleted_test_cell_is_put_back(assignment):
    cells = [c for c in submission(assignment) if c is not None]
    cells.remove(named(cells, "test-double"))
    taken = take(cells, assignment)
    assert any("test-double" in notice and "deleted" in notice for notice in taken.notices)
    rebuilt = ingest.rebuild(assignment, taken)
    assert any(
        c.metadata.get("nbgrader", {}).get("grade_id") == "test-double" for c in rebuilt.cells
    )


def test_deleted_answer_cell_is_reported_and_graded_as_released(assignment):
    cells = submission(assignment)
    cells.remove(named(cells, "double"))
    taken = take(cells, assignment)
    assert taken.sources["double"] == assignment.starters["double"]
    assert any("'double' is missing" in notice for notice in taken.notices)


def test_threat_34_of_duplicated_cells_the_last_counts(assignment):
    cells = submission(assignment, double="def double(v):\n    return 'first'\n")
    copy = json.loads(json.dumps(named(cells, "double")))
    copy["source"] = "def double(v):\n    return 'second'\n"
    cells.append(copy)
    taken = take(cells, assignment)
    assert "second" in taken.sources["double"]
    (notice,) = taken.notices
    number = len(cells)
    assert f"cells 3 and {number}. The lower one was graded" in notice


@pytest.mark.parametrize("empty", ["", "\n  \n", "the starter"])
def test_threat_82_an_empty_copy_does_not_win_over_an_answer(assignment, empty):
    cells = submission(assignment, double="def double(v):\n    return 'mine'\n")
    copy = json.loads(json.dumps(named(cells, "double")))
    copy["source"] = assignment.starters["double"] if empty == "the starter" else empty
    cells.append(copy)
    taken = take(cells, assignment)
    assert "mine" in taken.sources["double"]
    assert taken.notices == []


def test_threat_35_edited_points_are_the_instructors_again(assignment):
    cells = submission(assignment)
    named(cells, "test-double")["metadata"]["nbgrader"].update(points=1000, schema_version="x")
    named(cells, "double")["metadata"]["nbgrader"].update(grade=True, locked="no", task=[1])
    taken = take(cells, assignment)
    assert sum("grading data" in notice for notice in taken.notices) == 2
    rebuilt = ingest.rebuild(assignment, taken)
    assert named(rebuilt.cells, "test-double")["metadata"]["nbgrader"]["points"] == 3


def test_threat_36_changed_cell_type_is_changed_back(assignment):
    cells = submission(assignment)
    named(cells, "double").update(cell_type="markdown")
    taken = take(cells, assignment)
    assert "return 2 * values" in taken.sources["double"]
    assert any("another type" in notice for notice in taken.notices)
    assert named(ingest.rebuild(assignment, taken).cells, "double")["cell_type"] == "code"


def test_threat_37_invented_cells_are_not_graded(assignment):
    cells = submission(assignment)
    invented = json.loads(json.dumps(named(cells, "test-double")))
    invented["metadata"]["nbgrader"]["grade_id"] = "bonus"
    cells.append(invented)
    rebuilt = ingest.rebuild(assignment, take(cells, assignment))
    assert "bonus" not in json.dumps(rebuilt.cells)


def test_threat_38_reordered_cells_are_put_in_order(assignment):
    taken = take(submission(assignment)[::-1], assignment)
    assert taken.notices == []
    ids = [
        c.metadata.get("nbgrader", {}).get("grade_id")
        for c in ingest.rebuild(assignment, taken).cells
    ]
    assert ids == [None, "setup", "double", "test-double", "total", "test-total"]


def test_threat_39_the_kernel_name_is_the_instructors(assignment, tmp_path):
    path = write_submission(tmp_path / "toy.ipynb", submission(assignment))
    document = json.loads(path.read_text())
    document["metadata"] = {"kernelspec": {"name": "evil", "display_name": "evil"}}
    path.write_text(json.dumps(document))
    rebuilt = ingest.rebuild(assignment, ingest.ingest_file(path, assignment))
    assert rebuilt.metadata.kernelspec.name == "python3"


BROKEN = {
    "truncated JSON": (b'{"cells": [', "not valid JSON"),
    "empty": (b"", "not valid JSON"),
    "not UTF-8": (b'{"cells": "\xff\xfe"}', "not UTF-8"),
    "not a notebook": (b"[]", "not a Jupyter notebook"),
    "format 3": (b'{"nbformat": 3, "worksheets": []}', "format 3"),
    "no cells": (b'{"nbformat": 4, "cells": {}}', "no list of cells"),
    "deep nesting": (b"[" * 100_000, "nested too deeply"),
    "another notebook": (b'{"nbformat": 4, "cells": []}', "None of the cells"),
    "NUL": (b'{"nbformat": 4, "cells": "\x00"}', "not valid JSON"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_threat_40_malformed_notebooks_get_a_reason(kind, assignment, tmp_path):
    content, reason = BROKEN[kind]
    path = tmp_path / "toy.ipynb"
    path.write_bytes(content)
    taken = ingest.ingest_file(path, assignment)
    assert reason in taken.fault
    nbformat.validate(ingest.rebuild(assignment, taken))


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_a_notebook_in_utf16_is_graded_and_said(assignment, tmp_path, order):
    path = write_submission(tmp_path / "toy.ipynb", submission(assignment))
    path.write_bytes(("\ufeff" + path.read_text(encoding="utf-8")).encode(order))
    taken = ingest.ingest_file(path, assignment)
    assert taken.fault is None and "return 2 * values" in taken.sources["double"]
    assert "UTF-16 text" in taken.notices[-1]
    path.write_bytes(path.read_bytes()[:-1])
    assert "not UTF-16 text" in ingest.ingest_file(path, assignment).fault


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        # Without the time: these bytes name the test, and all workers must collect the same.
        (gzip.compress(b'{"nbformat": 4}', mtime=0), "compressed (gzip)"),
        (b"PK\x03\x04\x14", "a zip archive"),
        (b"%PDF-1.7", "a PDF"),
        (b"\n<!DOCTYPE html>", "a web page"),
        (b"<html><body>", "a web page"),
    ],
)
def test_another_file_under_a_notebooks_name_is_called_what_it_is(
    assignment, tmp_path, content, kind
):
    path = tmp_path / "toy.ipynb"
    path.write_bytes(content)
    fault = ingest.ingest_file(path, assignment).fault
    assert kind in fault and re.search(r"[Uu]se the ", fault)


def test_threat_40_odd_text_in_a_cell(assignment, tmp_path):
    odd = "double = '\u202e\ud800\x00'"
    path = write_submission(tmp_path / "toy.ipynb", submission(assignment, double=odd))
    taken = ingest.ingest_file(path, assignment)
    assert any("reading direction" in notice for notice in taken.notices)
    nbformat.writes(ingest.rebuild(assignment, taken)).encode()


def test_cells_of_impossible_types_are_ignored(assignment):
    cells = submission(assignment)
    named(cells, "double")["source"] = 7
    named(cells, "total")["metadata"]["nbgrader"] = "x"
    cells += [{"source": []}, {"metadata": None}, {"cell_type": 3, "source": [1]}]
    taken = take(cells, assignment)
    assert taken.sources["double"] == assignment.starters["double"]
    assert any("'double' holds no text" in notice for notice in taken.notices)
    # Known by the identity that Jupyter gives each cell.
    assert "values.sum()" in taken.sources["total"]


def test_threat_41_size_is_capped_before_parsing(assignment, tmp_path):
    path = tmp_path / "toy.ipynb"
    path.write_bytes(b" " * 2_000_000)
    taken = ingest.ingest_file(path, assignment, Limits(upload_bytes=1 << 20))
    assert "larger than 1 MB" in taken.fault
    taken = ingest.ingest_file(path, assignment, Limits(notebook_bytes=1 << 20))
    assert "larger than 1 MB, outputs and pictures left out" in taken.fault
    huge = take(submission(assignment, double="x" * 300_000), assignment)
    assert huge.sources["double"] == assignment.starters["double"]


def test_threat_43_links_and_devices_are_not_followed(assignment, tmp_path):
    secret = write_submission(tmp_path / "source.ipynb", submission(assignment))
    (tmp_path / "link.ipynb").symlink_to(secret)
    os.link(secret, tmp_path / "hard.ipynb")
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    for name, reason in (
        ("link", "is a link"),
        ("hard", "hard link"),
        ("pipe", "not a regular file"),
        ("folder", "not a regular file"),
        ("missing", "missing"),
    ):
        taken = ingest.ingest_file(tmp_path / f"{name}.ipynb", assignment)
        assert reason in taken.fault, name
        assert taken.sources == assignment.starters


def test_names_defined_outside_answer_cells_are_remembered(assignment):
    cells = submission(assignment)
    source = "import math as m\ndef helper(x):\n    inner = x\nfactor, (b, c) = 2, (3, 4)\n"
    cells.insert(0, {"cell_type": "code", "metadata": {}, "source": source, "outputs": []})
    assert take(cells, assignment).strays == dict.fromkeys(
        ("b", "c", "factor", "helper", "m"), "cell 1"
    )


def own(source: str) -> dict:
    return {"cell_type": "code", "metadata": {}, "source": source}


ANSWER = "def double(values):\n    return 2 * values\n"


@pytest.mark.parametrize("place", [0, 1, 3, 99])
@pytest.mark.parametrize("missing", [False, True])
def test_threat_99_an_answer_in_a_cell_of_ones_own(assignment, place, missing):
    cells = submission(assignment, double=assignment.starters["double"])
    if missing:
        cells.remove(named(cells, "double"))
    cells[place:place] = [own(ANSWER), own("double(np.ones(3))")]
    taken = take(cells, assignment)
    assert taken.sources["double"] == ANSWER
    (notice,) = taken.notices
    assert f"found in cell {min(place, len(cells) - 2) + 1}," in notice and "graded" in notice
    assert ("is missing" in notice) == missing


def test_which_of_two_cells_is_the_answer_is_not_guessed(assignment):
    cells = submission(assignment, double=assignment.starters["double"])
    cells += [own(ANSWER), own(ANSWER.replace("2", "3"))]
    taken = take(cells, assignment)
    assert taken.sources["double"] == assignment.starters["double"]
    assert f"cells {len(cells) - 1} and {len(cells)}" in taken.notices[0]
    assert "not graded" in taken.notices[0]


def test_an_answer_in_its_cell_is_taken_whatever_stands_beside_it(assignment):
    cells = [*submission(assignment), own(ANSWER.replace("2", "3"))]
    assert "return 2 * values" in take(cells, assignment).sources["double"]
    assert take(cells, assignment).notices == []


def test_twenty_thousand_cells_of_ones_own_are_looked_through_in_a_second(assignment):
    cells = submission(assignment, double=assignment.starters["double"])
    cells += [own("def double")] * 20_000
    began = time.process_time()
    take(cells, assignment)
    assert time.process_time() - began < 1


def test_line_ends_of_windows_are_no_change(assignment):
    cells = submission(assignment)
    for cell in cells:
        cell["source"] = cell["source"].replace("\n", "\r\n").splitlines(keepends=True)
    taken = take(cells, assignment)
    assert taken.notices == []
    assert taken.sources == take(submission(assignment), assignment).sources
