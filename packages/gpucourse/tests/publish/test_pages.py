"""The site's pages: starters and folded answers, links that hold, the front page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from nbformat.v4 import new_output

from gpucourse.exercises.checks import read_exercises
from gpucourse.exercises.outcomes import CHECK_MIME
from gpucourse.publish.notebooks.derive import cell_id, starter
from gpucourse.publish.site import pages
from gpucourse.publish.site.showcase import Shown, show_course
from small_course import LECTURE, PROJECT, write_course


@pytest.fixture
def lessons(tmp_path: Path) -> list[Shown]:
    """The small course, with an output in each code cell."""
    write_course(tmp_path)
    _, shown = show_course(tmp_path, run=False)
    for one in shown:
        for number, cell in enumerate(one.notebook.cells):
            if cell.cell_type == "code":
                data = {"text/html": f"<b>out {number}</b>", CHECK_MIME: {"passed": True}}
                cell.outputs = [new_output("display_data", data=data)]
    return shown


def page(shown: Shown) -> list:
    return pages.lesson_page(shown, "Run it.").cells


def find(cells: list, text: str) -> list:
    return [cell for cell in cells if text in cell.source]


def test_a_lectures_answers_are_behind_folds(lessons: list[Shown]):
    cells = page(lessons[0])
    assert cells[0].source.startswith("# First steps\n\nRun it.\n\n**10 minutes**")
    (task,) = find(cells, "# your code here")[:1]
    at = cells.index(task)
    assert task.cell_type == "code" and task.outputs == []
    assert "return 2 * x" not in task.source
    answer, outputs = cells[at + 1 : at + 3]
    assert answer.cell_type == "markdown"
    assert answer.source.startswith("<details>\n<summary>One answer</summary>\n\n```python\n")
    assert "return 2 * x" in answer.source and answer.source.endswith("```\n\n</details>")
    assert outputs.source == "" and outputs.metadata.tags == ["remove-input"]
    assert "out" in str(outputs.outputs)
    # The answer stands nowhere else, and the notes for the room nowhere at all.
    assert find(cells, "return 2 * x") == [answer]
    assert find(cells, "People stall") == []
    assert CHECK_MIME not in str(cells)


def test_a_projects_answers_are_behind_folds_and_hidden_tests_nowhere(lessons: list[Shown]):
    cells = page(lessons[1])
    (starter,) = find(cells, "raise NotImplementedError()")
    assert "# YOUR CODE HERE" in starter.source and starter.outputs == []
    answer = cells[cells.index(starter) + 1]
    assert find(cells, "return len(things)") == [answer]
    assert "<details>" in answer.source
    assert find(cells, "count([])") == [], "a hidden test"
    assert find(cells, "assert count([1, 2]) == 2")


def test_every_cell_that_is_no_answer_is_on_the_page_with_its_outputs(lessons: list[Shown]):
    for shown in lessons:
        cells = page(shown)
        for cell in shown.source.cells:
            if "room" in cell.tags or starter(cell) is not None:
                continue
            wanted = cell_id(shown.source.lesson.id, cell.name)
            (found,) = (one for one in cells if one.id == wanted)
            assert found.cell_type == cell.kind
            assert cell.kind == "markdown" or found.outputs


def test_what_a_check_said_of_our_answer_is_folded_below_a_starter(lessons: list[Shown]):
    (check,) = find(page(lessons[0]), 'check("double"')
    assert check.metadata.tags == ["hide-output"]
    for cell in lessons[0].notebook.cells:
        for output in cell.get("outputs", ()):
            output.data[CHECK_MIME] = {"passed": False}
    (check,) = find(page(lessons[0]), 'check("double"')
    assert "tags" not in check.metadata


def test_hints_unfold_one_by_one_before_the_answer(lessons: list[Shown], tmp_path: Path):
    exercises = read_exercises(tmp_path / "course" / "lectures" / LECTURE / "checks.py")
    cells = pages.lesson_page(lessons[0], "", exercises).cells
    double, half = find(cells, "<summary>Hint 1</summary>")
    assert "add it to itself" in double.source and "<code>return 2 * …</code>" in double.source
    assert "one over two" in half.source
    at = cells.index(double)
    assert "def double" in cells[at - 1].source and "One answer" in cells[at + 1].source
    exercises = read_exercises(tmp_path / "course" / "projects" / PROJECT / "checks.py")
    (count,) = find(pages.lesson_page(lessons[1], "", exercises).cells, "Hint 2")
    assert "Python counts for you." in count.source


def test_room_notes_are_on_a_page_of_their_own(lessons: list[Shown]):
    text = pages.room_notes(lessons)
    assert f"## First steps\n\n[The lecture](../lectures/{LECTURE}.ipynb)" in text
    assert "People stall at the half." in text
    assert "Count them" not in text, "it has no notes"


def test_links_lead_to_pages_or_to_the_repository(tmp_path: Path):
    for name in ("docs/a.md", "docs/b.md", "src/code.py", "solutions/01_x.ipynb", "img/p.svg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    known = {Path("docs/a.md"), Path("docs/b.md"), Path("lectures/01_x.ipynb")}

    def relink(text: str) -> str:
        return pages.relink(text, Path("docs/a.md"), tmp_path, known, "https://host/repo")

    for same in (
        "[x](b.md)",
        "[x](b.md#there)",
        "[x](#here)",
        "[x](https://example.org/)",
        "![x](../img/p.svg)",
        "[x](none.md)",
        "```\n[x](../src/code.py)\n```\n",
    ):
        assert relink(same) == same
    assert relink("[x](../src/code.py#L3)") == "[x](https://host/repo/blob/main/src/code.py#L3)"
    assert relink("[x](../src)") == "[x](https://host/repo/tree/main/src)"
    assert relink("[x](../solutions/01_x.ipynb)") == "[x](../lectures/01_x.ipynb)"


def test_links_of_a_solution_hold_on_the_page_of_a_project(tmp_path: Path):
    """A project's page lies one folder deeper than the notebook with its answers."""
    page, solved = Path("projects/01_p/01_p.ipynb"), Path("solutions/01_p.ipynb")
    for name in (page, solved, "docs/a.md", "solutions/01_x.ipynb", "img/p.svg", "src/code.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    known = {Path("docs/a.md"), Path("lectures/01_x.ipynb"), page}

    def relink(text: str) -> str:
        return pages.relink(text, page, tmp_path, known, "https://host/repo", solved)

    assert relink("[x](../docs/a.md#there)") == "[x](../../docs/a.md#there)"
    assert relink("![x](../img/p.svg)") == "![x](../../img/p.svg)"
    assert relink("[x](01_x.ipynb)") == "[x](../../lectures/01_x.ipynb)"
    assert relink("[x](../src/code.py)") == "[x](https://host/repo/blob/main/src/code.py)"


def test_the_front_page_leads_to_the_slides(repository: Path):
    """The site's build sees that the link leads somewhere."""
    template = (repository / "docs" / "site" / "index.md").read_text()
    assert '<a href="slides/index.html">' in template[: template.index("## Projects")]


def test_front_page_lists_each_document_once(repository: Path):
    template = (repository / "docs" / "site" / "index.md").read_text()
    front = pages.front_page(template, [], repository).splitlines()
    for document in pages.documents(repository):
        assert front.count(document.with_suffix("").as_posix()) == 1, document


def test_the_front_page_lists_every_lesson(lessons: list[Shown], tmp_path: Path):
    template = "\n".join(
        f"<!-- {name} -->"
        for name in (
            "lectures",
            "projects",
            "lecture pages",
            "project pages",
            "other pages",
            "decision pages",
        )
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "views.md").write_text("# Views\n")
    found = [one.source.lesson for one in lessons]
    found[0] = replace(found[0], why="why two?")
    text = pages.front_page(template, found, tmp_path)
    assert f"| 1 | [First steps](lectures/{LECTURE}.ipynb): why two? | 10 |" in text
    assert f"| 2 | [Count them](projects/{PROJECT}/{PROJECT}.ipynb) | 20 |" in text
    assert f"\nlectures/{LECTURE}\n" in text and "\ndocs/views" in text
    with pytest.raises(ValueError, match="needs one <!-- other pages -->"):
        pages.front_page(template.replace("<!-- other pages -->", ""), found, tmp_path)
