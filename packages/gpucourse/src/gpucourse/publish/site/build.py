"""Static site of the course (``make site``), which works from the file system, offline.

    python -m gpucourse.publish.site.build --sphinx .tools/site/bin/python build/site

Lessons are executed on this machine and stored in ``build/executed``, so a second build is fast.
They are put together with the documents in ``build/site-source``. Sphinx with MyST-NB, which have
a separate environment, converts everything to HTML. The result is then checked: every link must
lead somewhere, and no page may load anything from the network. The decks of ``make slides`` are in
the folder ``slides`` of the site.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat

from gpucourse.course.checkout import notebook_path
from gpucourse.course.problems import CourseError, Problem
from gpucourse.course.projects import read_projects
from gpucourse.course.registry import Course, Project, find_root
from gpucourse.exercises.checks import Exercise, read_exercises
from gpucourse.publish.notebooks.three_hours import LESSON as TUTORIAL
from gpucourse.publish.release import handout as release
from gpucourse.publish.site import pages, reference, slides
from gpucourse.publish.site.offline import mistakes
from gpucourse.publish.site.showcase import Shown, show_course

#: Folders of Sphinx's input and of its cache, relative to the work folder.
_SOURCE, _DOCTREES = "site-source", "site-doctrees"


def stage(
    course: Course, folder: Path, shown: list[Shown], assets: Path, *, answers: bool = True
) -> None:
    """Write the folder that Sphinx reads; ``assets`` contains the MathJax of the site's tools.

    Without ``answers``, no page may contain a project's answer; raises CourseError if one does.
    """
    root = course.root
    shutil.rmtree(folder, ignore_errors=True)
    url = read_projects(root).url
    documents = pages.documents(root)
    made = {
        pages.ROOM_NOTES: pages.room_notes(shown, answers=answers),
        reference.PAGE: reference.page(),
    }
    staged = {notebook_path(one.source.lesson) for one in shown} | {*documents, *made}
    texts = {path: (root / path).read_text(encoding="utf-8") for path in documents}
    for path, text in (texts | made).items():
        _write(folder / path, pages.relink(text, path, root, staged, url))
    for one in shown:
        path = notebook_path(one.source.lesson)
        exercises: dict[str, Exercise] = {}
        for lesson in one.source.made_of or (one.source.lesson,):
            if (checks := course.checks(lesson)).is_file():
                exercises |= read_exercises(checks)
        notebook = pages.lesson_page(
            one,
            run_line(one, url),
            exercises,
            answers=answers or not isinstance(one.source.lesson, Project),
        )
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                origin = Path("solutions", path.name)
                cell.source = pages.relink(cell.source, path, root, staged, url, origin)
        _write(folder / path, nbformat.writes(notebook))
    template = (root / "docs" / "site" / "index.md").read_text(encoding="utf-8")
    front = pages.front_page(template, [one.source.lesson for one in shown], root)
    _write(folder / "index.md", pages.relink(front, Path("index.md"), root, staged, url))
    if not answers:
        projects = tuple(f" of {lesson.id}," for lesson in course.projects)
        hidden = [
            one
            for one in release.secrets(one.source for one in shown)
            if any(name in one.place for name in projects)
        ]
        found = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in [*folder.rglob("*.ipynb"), *folder.rglob("*.md")]
        }
        if problems := release.leaks(found, hidden):
            raise CourseError(problems)
    shutil.copytree(root / "img", folder / "img", ignore=shutil.ignore_patterns("*.py", "__*"))
    shutil.copy(root / "docs" / "site" / "conf.py", folder)
    (folder / "_static").mkdir()
    shutil.copy(root / "docs" / "site" / "site.css", folder / "_static")
    shutil.copy(assets / slides.MATHJAX, folder / "_static" / "mathjax.js")


def run_line(shown: Shown, url: str) -> str:
    """Return the line below a lesson's title, which says where to run it and links its slides."""
    lesson = shown.source.lesson
    path = notebook_path(lesson).as_posix()
    slug = url.removeprefix("https://github.com/")
    binder = f"https://mybinder.org/v2/gh/{slug}/main?urlpath=lab/tree/{path}"
    line = f"Run it: `{path}` in JupyterLab, or [on Binder]({binder})."
    if not isinstance(lesson, Project):
        line += f' <a href="../slides/{lesson.id}.html">Slides</a>.'
    return line


def sphinx(python: Path, source: Path, target: Path, cache: Path) -> None:
    """Build the HTML; a warning, such as a dead link, is an error."""
    shutil.rmtree(target, ignore_errors=True)
    command = [
        python,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-q",
        "-W",
        "--keep-going",
        "-d",
        cache,
        source,
        target,
    ]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode:
        raise CourseError(
            [Problem(Path(source.name), None, line) for line in done.stderr.strip().splitlines()]
        )


def build(
    root: Path,
    target: Path,
    python: Path,
    *,
    work: Path,
    run: bool = True,
    answers: bool = True,
    notice: Callable[[str], object] = str,
) -> int:
    """Build the whole site in ``target``; return its number of pages.

    ``python`` is the interpreter of the environment with Sphinx, and ``work`` a folder for
    Sphinx's input and cache. Without ``run``, the lessons have no outputs; without ``answers``,
    the projects have no answers. Raises CourseError if a lesson's cell does something wrong, if
    Sphinx reports a warning, or if a page has a dead link or loads something from the network.
    """
    course, shown = show_course(root, run=run, notice=notice)
    if not answers:  # the tutorial's reviews show answers to projects
        shown = [one for one in shown if one.source.lesson != TUTORIAL]
    assets = slides.assets(python)
    stage(course, work / _SOURCE, shown, assets, answers=answers)
    sphinx(python, work / _SOURCE, target, work / _DOCTREES)
    slides.write(root, target / "slides", course, shown, assets)
    if found := mistakes(target):
        raise CourseError(found)
    return len(list(target.rglob("*.html")))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gpucourse.publish.site.build")
    parser.add_argument("--sphinx", type=Path, required=True, help="the Python that has Sphinx")
    parser.add_argument("--slides", action="store_true", help="the decks alone")
    parser.add_argument(
        "--without-project-answers",
        action="store_true",
        help="no answers to projects, which count for a class",
    )
    parser.add_argument("target", type=Path, help="where it goes; emptied first")
    options = parser.parse_args()
    root = find_root()
    # Do not resolve the link: an environment is found by the path of its Python, which is a link.
    python = options.sphinx.absolute()
    target = options.target.resolve()

    def notice(id: str) -> None:
        print(f"running {id}", flush=True)

    try:
        if options.slides:
            course, shown = show_course(root, notice=notice)
            number = slides.write(root, target, course, shown, slides.assets(python))
            if found := mistakes(target):
                raise CourseError(found)
            print(f"{number} decks: open {target / 'index.html'}")
        else:
            number = build(
                root,
                target,
                python,
                work=root / "build",
                notice=notice,
                answers=not options.without_project_answers,
            )
            print(f"{number} pages: open {target / 'index.html'}")
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
