"""``welcome.ipynb``: the page that JupyterLab opens on, made from ``course/course.toml``.

Its text lists the course, for those who read; its cells show the learner's own progress, and save
and restore work.
"""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode

from gpucourse.course.checkout import notebook_path
from gpucourse.course.registry import Course, Project
from gpucourse.publish import notebooks
from gpucourse.publish.colab_copies import colab_link, copy_path

#: Where the notebook goes, and its id.
NOTEBOOK = Path("welcome.ipynb")
ID = NOTEBOOK.stem

_PROGRESS = """\
%load_ext gpucourse
import gpucourse

gpucourse.progress()"""

_NEW = """\
## New here?

Four steps, in this order; take your time with each, and come back to the rest later:

{way}

- **You know C++ and threads?** Begin with the second step.
- **You have written kernels already?** Begin with the third, and let its race reports surprise you.
- **You'll never write a kernel?** Take the first step, then {arrays}: arrays will do.
- **You came for the Z boson?** Take the four steps, then {jagged}.

In every lesson you're asked what a cell will show before you run it. Press a button, right or
wrong: your guess stays with you, and the explanation waits, folded, below the cell."""

_LESSONS = """\
## The lessons

{lectures} lectures and {projects} projects, about {hours} hours in all. Click a title to open it.
Take them in this order, or start where your needs are met.

{table}

[The gallery](lectures/gallery.ipynb) shows what the course can draw of a kernel;
[questions that someone always asks](docs/faq.md) have their answers on one page, "How do I choose a
GPU?" first."""

# What a handout does not have.
_MORE = """ Syllabi:
[three hours](docs/syllabi/three_hours.md), [a day](docs/syllabi/one_day.md),
[self-study](docs/syllabi/self_study.md). Answers to everything are in `solutions/`."""

_NOTEBOOKS = """\
## How to work here

- **Shift+Enter** runs the cell you are in and goes on to the next one. A number in brackets at its
  left says that it has been run, `[*]` that it is running.
- Run a notebook from the top: its first cell gets the device ready. *Run › Restart Kernel and Run
  All Cells* does so after a mix-up.
- In a lecture, `check("…")` tells you at once whether an exercise is right; in a project, the test
  cells do. `hint("…")` gives you a hint, and once more the next one.
- Where memory is short, one notebook at a time: *Kernel › Shut Down Kernel* before the next.
- **On Binder, a kernel that has done nothing for ten minutes is stopped** to free its memory; so it
  is on many hubs. *No Kernel* stands at the top right then. What you have written stays, variables
  go: run the notebook again from its first cell, which starts a new kernel.
- A kernel that dies, a lost connection, a full disk: your work is still there.
  [What to do](docs/when_something_breaks.md).
- If something is wrong, `!gpucourse doctor` in a cell says what, and how to mend it."""

_SAVE = """\
## Take your work with you

Binder forgets everything when a session ends, and ends it some minutes after you have gone. Press
*Ctrl+S* in each notebook that you have open, run the next cell and click the link: one file, with
all that you have written and with your progress. Nobody else gets it."""

_RESTORE = """\
Next time, drop that file onto the list of files at the left and run the next cell. It overwrites
nothing: where this machine has a version of its own, both are kept."""


def welcome_notebook(course: Course, handout: bool = False) -> NotebookNode:
    """The page, without outputs; the first of its code cells is as in every notebook.

    ``handout``: as `make release` hands it to learners, who have no solutions.
    """
    hours = round(sum(lesson.minutes for lesson in course.lessons) / 60)
    lessons = _LESSONS.format(
        lectures=len(course.lectures), projects=len(course.projects), hours=hours,
        table=lessons_table(course),
    ) + ("" if handout else _MORE)
    title = (
        f"# {course.title}\n\nClick into the next cell and press **Shift+Enter**: it says which "
        "device runs your kernels, and shows what you have done so far."
    )
    return notebooks.page(ID, [
        ("markdown", "title", title),
        ("code", "progress", _PROGRESS),
        *([("markdown", "new-here", new)] if (new := new_here(course)) else []),
        ("markdown", "lessons", lessons),
        ("markdown", "how-to", _NOTEBOOKS),
        ("markdown", "about-save", _SAVE),
        ("code", "save", "import gpucourse\n\ngpucourse.save()"),
        ("markdown", "about-restore", _RESTORE),
        ("code", "restore", "import gpucourse\n\ngpucourse.restore()"),
    ])


#: The first steps of somebody new; then what those take who write no kernels, and physicists.
FIRST = ("01_why_gpus", "05_numba_cuda", "06_thinking_in_threads", "01_fill_a_histogram")
_ARRAYS, _JAGGED = ("03_cupy", "08_jax"), ("10_awkward_and_the_z", "03_z_mass")


def new_here(course: Course) -> str | None:
    """Where to begin, and who may skip what; None in a course without those lessons."""
    lessons = {lesson.id: lesson for lesson in course.lessons}
    if not lessons.keys() >= {*FIRST, *_ARRAYS, *_JAGGED}:
        return None

    def link(id: str) -> str:
        return f"[{lessons[id].title}]({notebook_path(lessons[id]).as_posix()})"

    steps = [f"{number}. {link(id)}, {lessons[id].minutes} minutes"
             for number, id in enumerate(FIRST, start=1)]
    return _NEW.format(way="\n".join(steps), arrays=" and ".join(map(link, _ARRAYS)),
                       jagged=" and ".join(map(link, _JAGGED)))


def lessons_table(course: Course, repository: str | None = None) -> str:
    """The lectures and projects in order, with links from the course's folder; Markdown.

    With the repository's address, each has a link that opens its copy in Google Colab too.
    """
    titles = {lesson.id: lesson.title for lesson in course.lessons}
    rows = ["| | minutes | you need |", "|---|---|---|"]
    for lesson in course.lessons:
        needs = "; ".join(titles.get(need, need) for need in lesson.prerequisites) or "—"
        kind = f"project, {lesson.points:g} points" if isinstance(lesson, Project) else "lecture"
        path = notebook_path(lesson)
        if repository:
            kind += f", [Colab]({colab_link(repository, copy_path(path))})"
        title = f"[{lesson.title}]({path.as_posix()})"
        rows.append(f"| {title} ({kind}) | {lesson.minutes} | {needs} |")
    return "\n".join(rows)
