"""Every lecture: answers of the source pass, wrong ones hear what is wrong, figures have words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import REPOSITORY
from gpucourse.course.predictions import read_predictions
from gpucourse.course.registry import Lecture, load_course
from gpucourse.exercises.checks import load_lesson
from gpucourse.publish import notebooks, questions
from gpucourse.publish.source import read_source
from lab.pages.lessons_table import row
from lecture_cells import OWN_PROCESS, outcome, solved
from wrong_answers import Edited, EditError, answers_of, swap

pytestmark = pytest.mark.slow

COURSE = load_course(REPOSITORY)
LECTURES = [lesson.id for lesson in COURSE.lessons if isinstance(lesson, Lecture)]


def wrong_answers() -> list:
    """(lecture, exercise, answers, what the check says) of all lectures' wrong answers.

    `make test` checks the first of each exercise, `make rehearse` the others, and all of a lecture
    that needs a process of its own.
    """
    found = []
    for id in LECTURES:
        tried: set[str] = set()
        for case in answers_of(id).WRONG:
            later = case.values[0] in tried or id in OWN_PROCESS
            tried.add(case.values[0])
            found.append(
                pytest.param(
                    id,
                    *case.values,
                    id=f"{id[:2]}:{case.id}",
                    marks=[pytest.mark.rehearsal] if later else [],
                )
            )
    return found


def right_answers() -> list:
    """(lecture, exercise, answers) of all lectures' right answers in other styles."""
    return [
        pytest.param(
            id,
            *case.values[:2],
            id=f"{id[:2]}:{case.id}",
            marks=[pytest.mark.rehearsal] if id in OWN_PROCESS else [],
        )
        for id in LECTURES
        if (REPOSITORY / "course" / "lectures" / id / "right.py").is_file()
        for case in answers_of(id, "right").RIGHT
    ]


WRONG = wrong_answers()
# Lectures but these take 5 to 20 s: `make rehearse` runs them whole, and `make check` as all.
SHORT = {"01", "03", "05", "09"}
SOLVED = [
    pytest.param(id, marks=[] if id[:2] in SHORT else [pytest.mark.rehearsal]) for id in LECTURES
]


@pytest.mark.parametrize(("lecture", "exercise", "answers", "says"), WRONG)
def test_wrong_answers_hear_what_is_wrong(lecture, exercise, answers, says):
    heard = outcome(lecture, exercise, answers)
    assert not heard.passed
    said = f"{heard.message}\n{heard.look or ''}"
    assert re.search(says, said, re.DOTALL), said


@pytest.mark.parametrize(("lecture", "exercise", "answers"), right_answers())
def test_right_answers_in_other_styles_are_accepted(lecture, exercise, answers):
    heard = outcome(lecture, exercise, answers)
    assert heard.passed, f"{heard.message}\n{heard.look or ''}"


@pytest.mark.parametrize("lecture", LECTURES)
def test_every_exercise_has_two_wrong_answers_or_more(lecture):
    known = [case.values[1] for case in WRONG if case.values[0] == lecture]
    exercises = load_lesson(lecture).exercises
    assert len(exercises) >= 2
    short = [name for name in exercises if known.count(name) < 2]
    assert short == [], f"write them into course/lectures/{lecture}/wrong.py"


@pytest.mark.parametrize("lecture", LECTURES)
def test_every_edit_still_fits_the_solution(lecture):
    for case in answers_of(lecture).WRONG:
        if isinstance(case.values[1], Edited):
            case.values[1].cells()


def test_an_edit_that_no_longer_fits_names_its_answer():
    for old, fault in (
        ("if j < pt.size", "stands in no cell down to"),
        ("pt", "times in the cell"),
        ("sinh", "swapped for itself"),
    ):
        edited = Edited("03_numba_cuda", "loop-to-kernel", "my mistake", (swap(old, "sinh"),))
        with pytest.raises(EditError, match=f"wrong answer loop-to-kernel:my mistake: .*{fault}"):
            edited.answers()


@pytest.mark.parametrize("lecture", SOLVED)
def test_the_answers_of_the_source_are_accepted(lecture, repository: Path):
    text = "".join(cell.text for cell in solved(repository, lecture).values())
    assert "✗" not in text, text
    assert re.findall(r"✓ ([a-z0-9-]+):", text) == list(load_lesson(lecture).exercises)


# Each puzzle has a picture of its own: tests/course/test_puzzles.py looks at these.
DRAWING = [case for case in SOLVED if not COURSE.puzzles(COURSE.lesson(case.values[0]))]


@pytest.mark.parametrize("lecture", DRAWING)
def test_three_pictures_or_more_come_from_the_learners_own_run(lecture, repository: Path):
    pictures = [name for name, cell in solved(repository, lecture).items() if cell.picture]
    assert len(pictures) >= 3, pictures


@pytest.mark.parametrize("lecture", LECTURES)
def test_a_lecture_has_all_its_parts(lecture):
    cells = read_source(COURSE, COURSE.lesson(lecture)).cells
    tags = [tag for cell in cells for tag in cell.tags]
    assert tags.count("predict") >= 3
    assert tags.count("keypoints") == tags.count("room") == 1
    broken = [one for one in COURSE.puzzles(COURSE.lesson(lecture)).values() if one.broken]
    # Something is broken on purpose: it raises, or the checkers' report names it.
    assert broken or any(cell.raises or "print(report)" in cell.source for cell in cells)
    (keypoints,) = (cell.source for cell in cells if "keypoints" in cell.tags)
    assert 3 <= len(re.findall(r"^- ", keypoints, re.MULTILINE)) <= 5
    assert "\n## Where to read on\n" in "\n".join(["", *(cell.source for cell in cells)])


@pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.id)
def test_no_answer_to_a_prediction_stands_in_sight(lesson):
    """Every prediction is asked by predict(); what explains it is in a fold, and only there."""
    source = read_source(COURSE, lesson)
    assert [text for _, text in questions.mistakes(COURSE, source)] == []
    assert sum("predict" in cell.tags for cell in source.cells) == len(
        read_predictions(COURSE.predictions(lesson))
    )
    lecture = isinstance(lesson, Lecture)
    derive = notebooks.lecture_notebook if lecture else notebooks.project_release
    text = "\n".join(cell.source for cell in derive(COURSE, source).cells)
    in_sight = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    whys = [cell.source for cell in source.cells if "why" in cell.tags]
    assert whys or not any("predict" in cell.tags for cell in source.cells)
    assert [why for why in whys if why in in_sight or why not in text] == []
    reasons = [
        reason
        for asked in read_predictions(COURSE.predictions(lesson)).values()
        for reason in asked.wrong.values()
    ]
    assert [reason for reason in reasons if reason in text] == []


def test_a_sentence_stands_in_two_lectures_at_most():
    """Whoever takes them all reads it once; of what is said again, a link or a title is enough."""
    where: dict[str, set[str]] = {}
    for id in LECTURES:
        for cell in read_source(COURSE, COURSE.lesson(id)).cells:
            prose = cell.source if cell.kind == "markdown" else ""
            for part in re.split(r"(?<=[.?!:])\s+|\n\n", prose):
                if len(words := part.split()) >= 12:
                    where.setdefault(" ".join(words), set()).add(id)
    assert [text for text, ids in where.items() if len(ids) > 2] == []


TRANSLATED = re.compile(r"\b(in vain|in earnest|hangs? together|fails alike)\b", re.IGNORECASE)


@pytest.mark.parametrize("lecture", LECTURES)
def test_no_lecture_has_words_that_were_translated(lecture):
    text = "\n".join(cell.source for cell in read_source(COURSE, COURSE.lesson(lecture)).cells)
    assert TRANSLATED.findall(text) == []


def figures() -> list:
    """(alt text, file) of each figure that a lecture shows."""
    found = []
    for id in LECTURES:
        for cell in read_source(COURSE, COURSE.lesson(id)).cells:
            for alt, target in re.findall(r"!\[(.*?)\]\(\.\./(.*?)\)", cell.source, re.DOTALL):
                found.append(pytest.param(alt, target, id=f"{id[:2]}:{target}"))
    return found


def test_every_drawing_is_shown_in_a_lecture():
    shown = {case.values[1] for case in figures()}
    assert {f"img/{path.name}" for path in (REPOSITORY / "img").glob("*.svg")} <= shown


@pytest.mark.parametrize(("alt", "target"), figures())
def test_a_figure_is_described_as_its_script_describes_it(alt, target):
    svg = (REPOSITORY / target).read_text(encoding="utf-8")
    title = re.search(r"<dc:title>(.*?)</dc:title>", svg, re.DOTALL)[1]
    assert " ".join(alt.split()) == " ".join(title.split())


READS_EVENTS = [
    lesson.id
    for lesson in COURSE.lessons
    if re.search(r"\bdimuons\b", "".join(c.source for c in read_source(COURSE, lesson).cells))
]


@pytest.mark.parametrize("id", READS_EVENTS)
def test_where_the_events_come_from_stands_at_their_first_use(id):
    """Simulated, by what and why, and where the real ones are, or which lecture says so: before the
    cell that reads them."""
    before = ""
    for cell in read_source(COURSE, COURSE.lesson(id)).cells:
        if cell.kind == "code" and re.search(r"\bdimuons\b", cell.source):
            break
        before += " ".join(cell.source.split())
    in_full = re.search(r"simulated by `gpucourse\.data`, because .*The real ones: \[", before)
    if id in ("03_numba_cuda", "17_awkward_and_the_z"):
        assert in_full
    if in_full:
        assert "https://opendata.cern.ch/record/12341" in before
        assert "`gpucourse data fetch`" in before
    else:
        assert 'are simulated: "Numba CUDA" says why.' in before


@pytest.mark.parametrize("lecture", LECTURES)
def test_times_of_a_gpu_stand_in_one_place(lecture):
    """So that a lecture without a recorded run has one empty cell, not several."""
    cells = read_source(COURSE, COURSE.lesson(lecture)).cells
    showing = [cell.name for cell in cells if re.search(r"\brecorded_\w+\(", cell.source)]
    assert len(showing) <= 1


@pytest.mark.parametrize("lecture", LECTURES)
def test_three_hundred_words_at_most_before_the_first_thing_to_type(lecture):
    """Of prose, what is folded included; the cell that lists the lesson's aims is generated."""
    before = row(read_source(COURSE, COURSE.lesson(lecture))).before
    assert before <= 300, "put the first exercise earlier, or background behind it"


def test_checks_ask_whether_the_virtual_gpu_answers():
    """``is_active`` says no until Numba is imported, although CuPy's kernels run here."""
    asking = [
        path.parent.name
        for path in (REPOSITORY / "course/lectures").glob("*/checks.py")
        if "is_active" in path.read_text(encoding="utf-8")
    ]
    assert asking == []
