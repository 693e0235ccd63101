"""`make class`: a tree and a zip without answers; who is shown the answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conftest import REPOSITORY
from gpucourse.course.checkout import notebook_path
from gpucourse.course.problems import CourseError
from gpucourse.course.projects import PACKAGES
from gpucourse.course.registry import load_course
from gpucourse.publish.release import class_tree
from gpucourse.publish.release import handout as release
from gpucourse.publish.release.environments import version
from gpucourse.publish.site import build as site
from gpucourse.publish.site.showcase import show_course
from gpucourse.publish.source.reader import read_course
from jupyter_lab import Server


def git(tree: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=tree, text=True, capture_output=True, check=True
    ).stdout


@pytest.fixture(scope="module")
def hidden() -> list[release.Secret]:
    return release.secrets(read_course(REPOSITORY)[1])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command writes; the wheels, which test_release looks into, are empty here."""
    wheels = tmp_path_factory.mktemp("wheels")
    for package in PACKAGES:
        name = f"{package.name}-{version(REPOSITORY, package)}-py3-none-any.whl"
        with zipfile.ZipFile(wheels / name, "w"):
            pass
    folder = tmp_path_factory.mktemp("class")
    (folder / "said").write_text("\n".join(class_tree.make(REPOSITORY, wheels, folder)))
    return folder


@pytest.mark.rehearsal
def test_the_tree_and_the_zip_have_the_lessons_and_no_answers(made: Path, hidden):
    tree = made / "gpu-course"
    tracked = git(tree, "ls-files").splitlines()
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "branch", "--show-current").strip() == "main"
    for lesson in load_course(REPOSITORY).lessons:
        assert notebook_path(lesson).as_posix() in tracked
    assert any(name.startswith("img/") for name in tracked)
    assert not any(re.search(r"solution|grading/|course/|wrong", name) for name in tracked)
    found = {name: (tree / name).read_bytes() for name in tracked}
    assert release.leaks(found, hidden) == []
    with zipfile.ZipFile(made / "gpu-course-class.zip") as packed:
        zipped = {name.removeprefix("gpu-course/"): packed.read(name) for name in packed.namelist()}
    assert zipped == {name: content for name, content in found.items() if name != class_tree.LIST}
    # It does not say where the answers are; the handout, whose readers learn alone, does.
    assert "whole" not in found["README.md"].decode()
    assert "git push" not in found["README.md"].decode()
    assert "push" in (made / "said").read_text()


def test_made_again_it_is_one_commit_more_and_the_teachers_files_stay(tmp_path):
    tree = tmp_path / "tree"
    first = {"README.md": b"one\n", "projects/a.ipynb": b"{}\n", "img/old.svg": b"<svg/>\n"}
    assert class_tree.write(tree, first, "one") == "3 files changed, committed"
    assert class_tree.write(tree, first, "again").startswith("nothing has changed")
    (tree / "our_dates.md").write_text("Mondays\n")
    git(tree, "add", "our_dates.md")
    git(tree, *class_tree._identity(tree), "commit", "-qm", "ours")
    (tree / "draft.md").write_text("not yet\n")
    second = {"README.md": b"two\n", "projects/a.ipynb": b"{}\n", "new [1].md": b"new\n"}
    assert class_tree.write(tree, second, "two") == "3 files changed, committed"
    assert set(git(tree, "ls-files", "-z").split("\0")) - {""} == {
        "README.md",
        "projects/a.ipynb",
        "new [1].md",
        "our_dates.md",
        class_tree.LIST,
    }
    assert (tree / "draft.md").read_text() == "not yet\n"
    assert git(tree, "log", "--format=%s").split() == ["two", "ours", "one"]


def test_what_was_changed_by_hand_is_not_overwritten(tmp_path):
    tree = tmp_path / "tree"
    class_tree.write(tree, {"a.md": b"one\n"}, "one")
    (tree / "a.md").write_text("mine\n")
    with pytest.raises(CourseError, match=r"a\.md: was changed by hand"):
        class_tree.write(tree, {"a.md": b"two\n"}, "two")
    git(tree, "restore", "a.md")
    (tree / "b.md").write_text("mine\n")
    with pytest.raises(CourseError, match=r"b\.md: is in the place of"):
        class_tree.write(tree, {"a.md": b"one\n", "b.md": b"two\n"}, "two")
    assert (tree / "b.md").read_text() == "mine\n"


# --- who sees answers -------------------------------------------------------------------------


@pytest.mark.rehearsal
@pytest.mark.parametrize("views", [("learner",), ("alone", "learner")], ids="-".join)
def test_a_hubs_learner_is_shown_no_answers_and_who_learns_alone_is(views, tmp_path):
    for name in ("solutions", "lectures", "grading"):
        (tmp_path / "course" / name).mkdir(parents=True)
    paths = ":".join(str(REPOSITORY / "hub" / view) for view in views)
    server = Server(
        tmp_path / "course", tmp_path / "home", environment={"JUPYTER_CONFIG_PATH": paths}
    )
    server.start()
    try:
        listed = {item["name"] for item in json.loads(server.get("api/contents"))["content"]}
    finally:
        server.stop()
    assert listed == {"lectures"} | ({"solutions"} if "alone" in views else set())


@pytest.mark.rehearsal
def test_a_site_without_the_projects_answers(tmp_path, hidden, monkeypatch):
    course, shown = show_course(REPOSITORY, run=False)
    monkeypatch.setattr(shutil, "copy", lambda *_: None)  # MathJax, of the site's tools

    def leaked(answers: bool) -> set[str]:
        folder = tmp_path / str(answers)
        site.stage(course, folder, shown, tmp_path, answers=answers)
        found = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in [*folder.rglob("*.ipynb"), *folder.rglob("*.md")]
        }
        return {
            str(problem).split(":")[0]
            for problem in release.leaks(
                found, [one for one in hidden if one.place.startswith("solution")]
            )
        }

    lectures = {path for path in leaked(True) if path.startswith("lectures/")}
    projects = {notebook_path(lesson).as_posix() for lesson in course.projects}
    assert projects <= leaked(True) and lectures
    assert leaked(False) == leaked(True) - projects
    page = tmp_path / "False" / notebook_path(course.projects[0])
    assert "Hint 1" in page.read_text() and "One answer" not in page.read_text()


@pytest.mark.rehearsal
def test_a_page_that_gives_an_answer_away_ends_the_build(tmp_path, monkeypatch):
    course, shown = show_course(REPOSITORY, run=False)
    monkeypatch.setattr(shutil, "copy", lambda *_: None)
    whole = site.pages.lesson_page
    monkeypatch.setattr(
        site.pages, "lesson_page", lambda *arguments, answers: whole(*arguments, answers=True)
    )
    with pytest.raises(CourseError, match="solution of 01_fill_a_histogram"):
        site.stage(course, tmp_path / "site", shown, tmp_path, answers=False)


def test_the_makefile_starts_the_command():
    done = subprocess.run(
        ["make", "-n", f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.set-up", "class"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "gpucourse.publish.release.class_tree build/release build/class" in done.stdout
