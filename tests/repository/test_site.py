"""The site of the whole course, built without running its lessons: complete, linked, offline."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from chromium_dump import opened
from conftest import REPOSITORY
from gpucourse.course.checkout import notebook_path
from gpucourse.course.problems import CourseError
from gpucourse.course.registry import load_course
from gpucourse.publish.notebooks.derive import starter
from gpucourse.publish.site import build as site
from gpucourse.publish.site import pages
from gpucourse.publish.site.offline import mistakes
from gpucourse.publish.site.showcase import Shown, show_course
from gpucourse.publish.site.slides import assets

pytestmark = [pytest.mark.site_tools, pytest.mark.rehearsal]

PYTHON = REPOSITORY / ".tools" / "site" / "bin" / "python"


@pytest.fixture(scope="module")
def lessons() -> list[Shown]:
    return show_course(REPOSITORY, run=False)[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    number = site.build(REPOSITORY, folder / "site", PYTHON, work=folder, run=False)
    assert number == len(list((folder / "site").rglob("*.html")))
    return folder / "site"


def page(built: Path, path: Path) -> str:
    return (built / path.with_suffix(".html")).read_text(encoding="utf-8")


def words(text: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", text))


def test_every_lesson_and_document_is_a_page(built: Path, lessons: list[Shown]):
    front = page(built, Path("index.html"))
    for shown in lessons:
        lesson = shown.source.lesson
        path = notebook_path(lesson)
        assert f'href="{path.with_suffix(".html").as_posix()}"' in front, lesson.id
        text = words(page(built, path))
        assert lesson.title in text
        for objective in lesson.objectives:
            assert objective.split("`")[0].replace("'", "’")[:30] in text.replace("'", "’")
    for path in [*pages.documents(REPOSITORY), pages.ROOM_NOTES]:
        assert page(built, path)
        assert f'href="{path.with_suffix(".html").as_posix()}"' in front, path


def test_answers_are_folded_and_hidden_tests_are_not_there(built: Path, lessons: list[Shown]):
    for shown in lessons:
        text = page(built, notebook_path(shown.source.lesson))
        answers = [cell for cell in shown.source.cells if starter(cell) is not None]
        assert text.count("<summary>One answer</summary>") == len(answers)
        assert len(re.findall(r"<details[ >]", text)) == text.count("</details>")
        of_code = sum(cell.kind == "code" for cell in answers)
        assert text.count("<summary>Hint 2</summary>") >= of_code, "each has two hints or more"
        assert "BEGIN HIDDEN" not in text and "BEGIN SOLUTION" not in text
        assert "For the room" not in words(text).replace("Notes for the room", "")


def test_no_link_is_dead_and_nothing_comes_from_the_network(built: Path):
    assert list(map(str, mistakes(built))) == []


def test_the_theme_has_light_and_dark_and_mathjax_is_here(built: Path, lessons: list[Shown]):
    with_math = [
        shown
        for shown in lessons
        if any("$$" in cell.source for cell in shown.source.cells if cell.kind == "markdown")
    ]
    assert with_math
    text = page(built, notebook_path(with_math[0].source.lesson))
    assert "_static/mathjax.js" in text and 'class="math' in text
    assert (built / "_static" / "mathjax.js").stat().st_size > 1_000_000
    assert "prefers-color-scheme: dark" in text + (
        built / "_static" / "styles" / "furo.css"
    ).read_text(encoding="utf-8")


def test_code_is_reached_by_keyboard(built: Path, lessons: list[Shown]):
    text = page(built, notebook_path(lessons[0].source.lesson))
    assert '<pre tabindex="0">' in text
    assert '<div class="highlight"><pre>' not in text


def test_a_word_is_found_without_a_server(built: Path):
    index = (built / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(") and "barrier" in index
    text = page(built, Path("search.html"))
    # By a script's address: a page of the file system may load a script, and fetch nothing.
    assert re.search(r'<script src="searchindex\.js', text)
    options = (built / "_static" / "documentation_options.js").read_text(encoding="utf-8")
    assert "SHOW_SEARCH_SUMMARY: false" in options


@pytest.mark.browser
def test_the_search_page_finds_a_lecture(built: Path):
    found = opened((built / "search.html").as_uri() + "?q=barrier")
    assert "Trees and barriers" in re.sub(r"<[^>]+>", "", found.split("search-results")[1])


def test_a_dead_link_in_a_document_stops_the_build(tmp_path: Path, lessons: list[Shown]):
    site.stage(load_course(REPOSITORY), tmp_path / "source", lessons[:1], assets(PYTHON))
    # Less than the whole course, so that it is quick: a front page alone.
    for path in sorted((tmp_path / "source").rglob("*.*")):
        if path.suffix in (".md", ".ipynb"):
            path.unlink()
    (tmp_path / "source" / "index.md").write_text("# Front\n\n[dead](nowhere.md)\n")
    with pytest.raises(CourseError, match=r"index\.md:3.*nowhere\.md"):
        site.sphinx(PYTHON, tmp_path / "source", tmp_path / "site", tmp_path / "cache")
