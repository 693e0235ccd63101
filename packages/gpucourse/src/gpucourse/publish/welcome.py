"""Welcome page (``welcome.ipynb``), which JupyterLab opens on.

It is made from ``course/welcome.py`` and ``course/course.toml``. Its text lists the course; its
cells show the learner's own progress, and save and restore work.
"""

from __future__ import annotations

from pathlib import Path

import jupytext
from nbformat import NotebookNode

from gpucourse.course.checkout import notebook_path
from gpucourse.course.registry import Course, Lesson, Project
from gpucourse.publish import notebooks
from gpucourse.publish.colab_copies import colab_link, copy_path

#: Where the notebook goes, and its id.
NOTEBOOK = Path("welcome.ipynb")
ID = NOTEBOOK.stem
#: Its text, in which words in braces are filled in.
SOURCE = Path("course") / "welcome.py"

# What a handout does not have.
_MORE = """ Syllabi:
[three hours](docs/syllabi/three_hours.md),
[three hours of kernels](docs/syllabi/three_hours_puzzles.md), [a day](docs/syllabi/one_day.md),
[self-study](docs/syllabi/self_study.md). Answers to everything are in `solutions/`."""


def welcome_notebook(course: Course, handout: bool = False) -> NotebookNode:
    """Return the page without outputs; its first code cell is as in every notebook.

    ``handout``: as `make release` hands it to learners, who have no solutions.
    """
    title = (
        f"# {course.title}\n\nClick into the next cell and press **Shift+Enter**: it says which "
        "device runs your kernels, and shows what you have done so far."
    )
    fills = {
        "lectures": str(len(course.lectures)),
        "projects": str(len(course.projects)),
        "hours": str(round(sum(lesson.minutes for lesson in course.lessons) / 60)),
        "table": lessons_table(course),
        **first_steps(course, handout),
    }
    cells = [("markdown", "title", title)]
    source = (course.root / SOURCE).read_text(encoding="utf-8")
    for cell in jupytext.reads(source, fmt="py:percent").cells:
        text = cell.source + (_MORE if "{table}" in cell.source and not handout else "")
        for name, fill in fills.items():
            text = text.replace(f"{{{name}}}", fill)
        if "{way}" not in text:  # a course without the lessons that newcomers are shown
            cells.append((cell.cell_type, cell.metadata["id"], text))
    return notebooks.page(ID, cells)


#: What somebody may have come for: whether the first steps lead there, and the lessons, in order.
GOALS = {
    "work with arrays and tables, without a kernel of your own": (
        False,
        ("02_why_gpus", "08_cupy", "10_compiling_python", "12_jax", "14_cudf"),
    ),
    "write kernels, and know why one is slow": (
        True,
        ("06_memory_and_sharing", "07_thinking_in_warps", "15_scan", "16_scans_tiles_atomics"),
    ),
    "simulate with random numbers": (True, ("11_random_numbers", "02_area_by_sampling")),
    "do particle physics: the Z boson": (
        True,
        ("07_thinking_in_warps", "15_scan", "17_awkward_and_the_z", "03_z_mass"),
    ),
    "know what a compiler does": (
        False,
        (
            "08_cupy",
            "09_pycuda",
            "10_compiling_python",
            "12_jax",
            "23_write_your_own_jit",
            "04_a_compiler",
        ),
    ),
}


def first_steps(course: Course, handout: bool = False) -> dict[str, str]:
    """Return where to begin, and what to take for each goal; empty without those lessons."""
    lessons = {lesson.id: lesson for lesson in course.lessons}
    if not course.first or not lessons.keys() >= {id for _, ids in GOALS.values() for id in ids}:
        return {}

    def link(lesson: Lesson) -> str:
        return f"[{lesson.title}]({notebook_path(lesson).as_posix()})"

    steps = [
        f"{number}. {link(lesson)}, {lesson.minutes} minutes"
        for number, lesson in enumerate(map(course.lesson, course.first), start=1)
    ]
    rows = []
    for goal, (first, ids) in GOALS.items():
        named = ", ".join(link(lessons[id]) for id in ids)
        rows.append(f"| {goal} | {'the first steps, then ' * first}{named} |")
    if not handout:
        rows.append("| teach it | [the instructor's guide](docs/instructor_guide.md) |")
    return {
        "way": "\n".join(steps),
        "goals": "\n".join(rows),
        "puzzles": notebook_path(course.lesson(course.first[0])).as_posix(),
    }


def lessons_table(course: Course, repository: str | None = None) -> str:
    """Return the lectures and projects in order, linked from the course's folder; Markdown.

    With the repository's address, each has a link that opens its copy in Google Colab too.
    """
    titles = {lesson.id: lesson.title for lesson in course.lessons}
    rows = ["| | minutes | you need |", "|---|---|---|"]
    for lesson in course.lessons:
        lecture = "puzzles" if course.puzzles(lesson) else "lecture"
        needs = "; ".join(titles.get(need, need) for need in lesson.prerequisites) or "—"
        kind = f"project, {lesson.points:g} points" if isinstance(lesson, Project) else lecture
        path = notebook_path(lesson)
        if repository:
            kind += f", [Colab]({colab_link(repository, copy_path(path))})"
        title = f"[{lesson.title}]({path.as_posix()})"
        rows.append(f"| {title} ({kind}) | {lesson.minutes} | {needs} |")
    return "\n".join(rows)
