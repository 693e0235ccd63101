"""Every list of the lessons has the order of ``course/course.toml``."""

from __future__ import annotations

import json
import re

import pytest

from conftest import REPOSITORY
from gpucourse.course.registry import load_course
from gpucourse.publish.notebooks.derive import strip

COURSE = load_course(REPOSITORY)
ORDER = [lesson.id for lesson in COURSE.lessons]
LECTURES = [lesson.id for lesson in COURSE.lectures]
TOOLS = ("pycuda", "cupy", "numba_cuda", "jax")
_LINK = re.compile(r"\]\([^)]*?(?:lectures|projects)(?:/|%2F)(?:\w+(?:/|%2F))*?(\d\d_\w+)\.ipynb")


def linked(text: str) -> list[str]:
    """The lessons that a text links to, each where it comes first."""
    return list(dict.fromkeys(_LINK.findall(text)))


def welcome(section: str) -> str:
    """The cell of the welcome page under this heading."""
    cells = json.loads((REPOSITORY / "welcome.ipynb").read_text(encoding="utf-8"))["cells"]
    (cell,) = [cell for cell in cells if "".join(cell["source"]).startswith(f"## {section}")]
    return "".join(cell["source"])


def read(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


def test_tools_come_in_the_order_asked_for():
    by_number = sorted(LECTURES)
    assert [id for id in by_number if id[3:] in TOOLS] == [
        next(id for id in by_number if id[3:] == tool) for tool in TOOLS
    ]
    assert [id[3:] for id in COURSE.core if id[3:] in TOOLS] == list(TOOLS)


def test_core_comes_first_with_the_three_named_projects():
    assert ORDER[: len(COURSE.core)] == COURSE.core
    named = {"01_fill_a_histogram", "02_area_by_sampling", "03_z_mass"}
    assert named <= set(COURSE.core)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("lessons", read("docs/lessons.md")),
        ("welcome", welcome("The lessons")),
        ("self-study", read("docs/syllabi/self_study.md")),
        ("hub", read("hub/links.md")),
    ],
    ids=lambda value: value if len(value) < 20 else "",
)
def test_each_list_has_every_lesson_in_order(place: str, text: str):
    assert linked(text) == ORDER


@pytest.mark.parametrize(
    "text", [read("README.md"), welcome("New here?")], ids=["README", "welcome"]
)
def test_readme_and_welcome_begin_with_the_core(text: str):
    assert linked(text)[: len(COURSE.core)] == COURSE.core


def test_questions_come_in_the_order_of_the_lectures():
    headings = re.findall(r"(?m)^## \[.*?\]\(\.\./lectures/(\w+)\.ipynb\)", read("docs/faq.md"))
    assert headings == [id for id in LECTURES if id in headings]


def test_strip_names_the_lesson_before_and_after():
    for number, lesson in enumerate(COURSE.lessons):
        found = linked_names(strip(COURSE, lesson))
        around = ORDER[max(0, number - 1) : number] + ORDER[number + 1 : number + 2]
        assert found == around, lesson.id


def linked_names(text: str) -> list[str]:
    return re.findall(r"(\d\d_\w+)\.ipynb", text)


def test_lecture_tests_are_named_after_a_lecture():
    """A test of the answers finds its lecture by the number in its file's name."""
    numbers = {id[:2] for id in LECTURES}
    files = (REPOSITORY / "tests" / "course").glob("test_lecture_[0-9][0-9]*.py")
    assert {path.name[13:15] for path in files} <= numbers
