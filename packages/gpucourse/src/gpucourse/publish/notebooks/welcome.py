"""Welcome page (``welcome.ipynb``), which JupyterLab shows first.

It is made from ``course/welcome.py`` and ``course/course.toml``. Its text lists the course. Its
cells show the learner's own progress, and save and restore work.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from gpucourse.course.checkout import notebook_path
from gpucourse.course.registry import Course, Lesson, Project
from gpucourse.publish.notebooks import derive as notebooks
from gpucourse.publish.notebooks.colab_copies import colab_link, copy_path
from gpucourse.publish.source.links import relinked

#: Path of the notebook, and its id.
NOTEBOOK = Path("welcome.ipynb")
ID = NOTEBOOK.stem
#: Source of its text, in which words in braces are replaced.
SOURCE = Path("course") / "welcome.py"

# Sentences that a handout leaves out.
_MORE = """ Syllabi:
[three hours](docs/syllabi/three_hours.md),
[three hours of kernels](docs/syllabi/three_hours_puzzles.md), [a day](docs/syllabi/one_day.md),
[self-study](docs/syllabi/self_study.md). Answers to everything are in `solutions/`."""


def welcome_notebook(course: Course, handout: bool = False) -> NotebookNode:
    """Return the page without outputs; its first code cell is the same as in every notebook.

    With ``handout``, return the page for learners who have no solutions (`make release`).
    """
    title = (
        f"# {course.title}\n\nClick into the next cell and press **Shift+Enter**: it says which "
        "device runs your kernels, and shows what you have done so far."
    )
    fills = {
        "lectures": str(len(course.lectures)),
        "projects": str(len(course.projects)),
        "hours": hours(course.lessons),
        "table": lessons_table(course),
        **core_and_goals(course, handout),
    }
    cells = [("markdown", "title", title)]
    source = (course.root / SOURCE).read_text(encoding="utf-8")
    for cell in jupytext.reads(source, fmt="py:percent").cells:
        text = cell.source + (_MORE if "{table}" in cell.source and not handout else "")
        for name, fill in fills.items():
            text = text.replace(f"{{{name}}}", fill)
        if "{core}" not in text:  # a course without the lessons for newcomers
            cells.append((cell.cell_type, cell.metadata["id"], text))
    return notebooks.page(ID, cells)


#: Goals of readers, each with the lessons to take after the core.
GOALS = {
    "know why a kernel is slow": (
        "11_memory_and_sharing",
        "12_thinking_in_warps",
        "13_scan",
        "14_scans_tiles_atomics",
    ),
    "work with tables": ("15_cudf",),
    "fit and simulate with JAX, and port a program": (
        "17_jax_in_depth",
        "12_thinking_in_warps",
        "19_a_port_done",
    ),
    "copy while a kernel runs, and use several GPUs": ("20_streams", "21_more_than_one_gpu"),
    "know what a compiler does": (
        "16_compiling_python",
        "24_write_your_own_jit",
        "04_a_compiler",
    ),
}


def core_and_goals(course: Course, handout: bool = False) -> dict[str, str]:
    """Return the core as a list and the goals as table rows; empty without those lessons."""
    lessons = {lesson.id: lesson for lesson in course.lessons}
    if not course.core or not lessons.keys() >= {id for ids in GOALS.values() for id in ids}:
        return {}

    def link(lesson: Lesson) -> str:
        return f"[{lesson.title}]({notebook_path(lesson).as_posix()})"

    core = [lessons[id] for id in course.core]
    steps = [
        f"{number}. {link(lesson)}, {lesson.minutes} minutes: {lesson.why}"
        for number, lesson in enumerate(core, start=1)
    ]
    rows = [
        f"| {goal} | {', '.join(link(lessons[id]) for id in ids)} |" for goal, ids in GOALS.items()
    ]
    if not handout:
        rows.append("| teach it | [the instructor's guide](docs/instructor_guide.md) |")
    return {
        "core": "\n".join(steps),
        "core_hours": hours(core),
        "goals": "\n".join(rows),
        "puzzles": notebook_path(core[0]).as_posix(),
    }


def by_goal(course: Course) -> str:
    """Return a Markdown table of lessons for each goal, linked from the course's folder.

    The first rows are the core. A course without the lessons of :data:`GOALS` has its full table.
    """
    found = core_and_goals(course)
    if not found:
        return lessons_table(course)
    core = [lesson for lesson in course.lessons if lesson.id in course.core]
    links = ", ".join(f"[{one.title}]({notebook_path(one).as_posix()})" for one in core)
    first = notebook_path(core[0]).as_posix()
    return "\n".join(
        (
            "| you want to | take |",
            "|---|---|",
            f"| write a kernel within two minutes | [the first puzzle]({first}) |",
            f"| learn PyCUDA, CuPy, Numba CUDA and JAX | the core, about {hours(core)} hours: "
            f"{links} |",
            found["goals"],
        )
    )


def lessons_page(course: Course, repository: str) -> str:
    """Return ``docs/lessons.md``: every lesson in order, with its link to Colab."""
    table = relinked(
        lessons_table(course, repository),
        lambda target: target if "://" in target else f"../{target}",
    )
    return (
        "# All lessons\n\nThis table has every lesson in the recommended order, with its length "
        "and its prerequisites. *Colab* opens it on Google Colab, where a first cell installs "
        f"what is missing.\n\n{table}\n"
    )


def hours(lessons: Iterable[Lesson]) -> str:
    """Return the total length of lessons in whole hours."""
    return str(round(sum(lesson.minutes for lesson in lessons) / 60))


def lessons_table(course: Course, repository: str | None = None) -> str:
    """Return the lessons in order as Markdown tables: the core, and the advanced ones folded.

    Links start at the course's folder. With the repository's address, each lesson has a link that
    opens its copy in Google Colab.
    """
    core = [lesson for lesson in course.lessons if lesson.id in course.core]
    deeper = [lesson for lesson in course.lessons if lesson.id not in course.core]
    if not core:
        return _table(course, deeper, repository)
    return (
        f"**The core, about {hours(core)} hours:**\n\n{_table(course, core, repository)}\n\n"
        f"<details><summary>Deeper: {len(deeper)} more lessons, about {hours(deeper)} hours"
        f"</summary>\n\n{_table(course, deeper, repository)}\n\n</details>"
    )


def _table(course: Course, lessons: list[Lesson], repository: str | None) -> str:
    titles = {lesson.id: lesson.title for lesson in course.lessons}
    rows = ["| | minutes | you need |", "|---|---|---|"]
    for lesson in lessons:
        lecture = "puzzles" if course.puzzles(lesson) else "lecture"
        needs = "; ".join(titles.get(need, need) for need in lesson.prerequisites) or "—"
        kind = f"project, {lesson.points:g} points" if isinstance(lesson, Project) else lecture
        path = notebook_path(lesson)
        if repository:
            kind += f", [Colab]({colab_link(repository, copy_path(path))})"
        title = f"[{lesson.title}]({path.as_posix()})"
        rows.append(f"| {title} ({kind}) | {lesson.minutes} | {needs} |")
    return "\n".join(rows)
