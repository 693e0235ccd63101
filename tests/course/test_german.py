"""The lessons that there are in German: the same cells and code, judged by the same tests."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import runpy
from pathlib import Path

import pytest
from rich.console import Console

from conftest import REPOSITORY
from gpucourse.course.predictions import read_predictions
from gpucourse.course.registry import Project, load_course
from gpucourse.exercises.checks import load_lesson
from gpucourse.grading.commands import grade_notebook
from gpucourse.publish.notebooks import abroad
from gpucourse.publish.notebooks import derive as notebooks
from gpucourse.publish.notebooks.rehearsal import rehearse
from gpucourse.publish.source import questions, translating
from gpucourse.publish.source.links import links
from gpucourse.publish.source.reader import Source, read_source
from gpucourse.system.language import FIXED, speaking
from lecture_cells import outcome, solved
from puzzle_answers import right_answers, wrong_answers

COURSE = load_course(REPOSITORY)
LESSONS = [lesson for lesson in COURSE.lessons if (COURSE.folder(lesson) / "de.po").is_file()]
LECTURE, PROJECT = "01_first_steps", "01_fill_a_histogram"
each = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)


def german(id: str) -> Source:
    with speaking("de"):
        course = load_course(REPOSITORY)
        return read_source(course, course.lesson(id))


def test_a_lecture_and_a_project_are_there():
    assert {LECTURE, PROJECT} <= {lesson.id for lesson in LESSONS}


@pytest.mark.parametrize(
    "path",
    sorted([*REPOSITORY.glob("course/*/*/*.po"), *FIXED.glob("*.po")]),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_no_translation_has_other_placeholders_links_or_code(path: Path):
    known = translating.read(path)
    assert known and [*translating.mistakes(known)] == []


@each
def test_cells_and_code_are_those_of_the_english_lesson(lesson):
    """Comments and the choices of predictions differ, in cells that nothing grades."""
    ours, theirs = german(lesson.id).cells, read_source(COURSE, lesson).cells
    assert ours[0].name == "language" and len(ours) == len(theirs) + 1
    for cell, english in zip(ours[1:], theirs, strict=True):
        facts = [
            (one.name, one.kind, one.tags, one.raises, one.role, one.points, one.starter)
            for one in (cell, english)
        ]
        assert facts[0] == facts[1]
        if cell.role is not None:
            assert cell.source == english.source
        elif cell.kind == "code":
            assert shape(cell.source) == shape(english.source)


def shape(code: str) -> str:
    """Code without its comments and the words of its predictions."""
    tree = ast.parse(re.sub(r"^%.*$", "pass", code, flags=re.MULTILINE))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "predict":
            node.args[1:] = [ast.Constant(len(node.args))]
    return ast.dump(tree)


@each
def test_no_answer_to_a_prediction_stands_in_sight_in_german(lesson):
    with speaking("de"):
        course = load_course(REPOSITORY)
        source = read_source(course, course.lesson(lesson.id))
        assert [text for _, text in questions.mistakes(course, source)] == []
        released = notebooks.released(course, source)
        predictions = read_predictions(course.predictions(lesson))
    in_sight = re.sub(
        r"<details>.*?</details>",
        "",
        "\n".join(cell.source for cell in released.cells),
        flags=re.DOTALL,
    )
    whys = [cell.source for cell in source.cells if "why" in cell.tags]
    reasons = [reason for one in predictions.values() for reason in one.wrong.values()]
    assert whys and [text for text in (*whys, *reasons) if text in in_sight] == []


def test_links_lead_somewhere_and_to_german_notebooks_where_there_are_some():
    texts = abroad.derive(REPOSITORY, "de")
    found = []
    for path, text in texts.items():
        assert path.parts[:2] == ("languages", "de")
        for cell in json.loads(text)["cells"]:
            for target in links("".join(cell["source"]) if cell["cell_type"] == "markdown" else ""):
                if not re.match(r"[a-z]+:", target):
                    there = Path(os.path.normpath(path.parent / target.partition("#")[0]))
                    assert there in texts or (REPOSITORY / there).is_file(), target
                    found.append(there)
    assert Path("lectures/06_numba_cuda.ipynb") in found


# -- the lecture ----------------------------------------------------------------------------------


@pytest.mark.rehearsal
@pytest.mark.slow
def test_the_answers_of_the_german_lecture_are_accepted():
    cells = solved(REPOSITORY, LECTURE, "de")
    text = "".join(cell.text for cell in cells.values())
    assert "✗" not in text, text
    assert re.findall(r"✓ ([a-z0-9-]+):", text) == list(load_lesson(LECTURE).exercises)
    assert "richtig in 7 Größen, kein Race, keine falsche Adresse" in text
    assert "Deine Vermutung: einer · alle 1024" in text and "right in" not in text


WRONG = [
    pytest.param(*case.values[:2], id=case.id, marks=[pytest.mark.rehearsal] if at % 9 else [])
    for at, case in enumerate(wrong_answers(str(COURSE.checks(COURSE.lesson(LECTURE)))))
]
RIGHT = [
    pytest.param(*case.values, id=case.id, marks=[pytest.mark.rehearsal])
    for case in right_answers(str(COURSE.checks(COURSE.lesson(LECTURE))))
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answers"), WRONG)
def test_wrong_answers_are_refused_in_german(name, answers):
    with speaking("de"):
        heard = outcome(LECTURE, name, answers)
        assert not heard.passed and "Für einen Tipp" in str(heard)
    english = r"^(race|uninitialised)|^\w+Error: "  # what the virtual GPU finds
    assert re.search(rf"\b(ist|wird|nicht|bekommt)\b|{english}", heard.message), heard


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kernel"), RIGHT)
def test_right_answers_are_accepted_in_german(name, kernel):
    with speaking("de"):
        heard = outcome(LECTURE, name, (kernel,))
    assert heard.passed and "richtig" in heard.message


def test_a_hint_is_german(capsys):
    with speaking("de"):
        load_lesson(LECTURE).hint("add-ten")
    assert "Tipp 1 von 2: Die Idee: Es gibt keine Schleife." in capsys.readouterr().out


@pytest.mark.rehearsal
@each
def test_german_notebooks_run_as_their_source_says(lesson):
    with speaking("de"):
        course = load_course(REPOSITORY)
        assert rehearse(course, read_source(course, course.lesson(lesson.id))) == []


# -- the project ----------------------------------------------------------------------------------


def test_what_is_graded_is_the_same_in_every_language():
    """The cells that a grader reads, their checksums, and so the assignment's digest."""
    for lesson in LESSONS:
        if isinstance(lesson, Project):
            ours = json.loads(
                abroad.derive(REPOSITORY, "de")[
                    abroad.FOLDER / "de" / notebooks.notebook_path(lesson)
                ]
            )
            theirs = json.loads((REPOSITORY / notebooks.notebook_path(lesson)).read_bytes())
            ours, theirs = (
                [cell for cell in one["cells"] if "nbgrader" in cell["metadata"]]
                for one in (ours, theirs)
            )
            assert ours == theirs


def handed_in(folder: Path, changed: dict[str, str]) -> Path:
    """The German project with the answers in, some of them replaced."""
    with speaking("de"):
        course = load_course(REPOSITORY)
        notebook = notebooks.project_solution(course, read_source(course, course.lesson(PROJECT)))
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = changed.get(name, cell.source)
    path = folder / f"{PROJECT}.ipynb"
    path.write_text(notebooks.notebook_text(notebook), encoding="utf-8")
    return path


WRONG_ANSWERS = runpy.run_path(str(COURSE.folder(COURSE.lesson(PROJECT)) / "wrong.py"))["WRONG"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "code", "says"),
    [
        pytest.param(None, 0, "33 von 33 Punkten", marks=[pytest.mark.rehearsal]),
        ("everything in bin 0", 1, "ein Wert zwischen low und high bekommt den falschen Slot"),
    ],
)
def test_a_german_notebook_is_graded_by_the_same_command(kind, code, says, tmp_path, monkeypatch):
    changed = next((one["cells"] for one in WRONG_ANSWERS if one["kind"] == kind), {})
    monkeypatch.chdir(REPOSITORY)
    told = io.StringIO()
    with speaking("de"):
        ended = grade_notebook.grade(handed_in(tmp_path, changed), Console(file=told, width=300))
    assert ended == code, told.getvalue()
    assert says in told.getvalue(), told.getvalue()
    assert "welche Eigenschaft fehlt" in told.getvalue()
