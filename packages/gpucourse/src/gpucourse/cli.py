"""The command ``gpucourse``, with one subcommand for each task of learners and teachers.

Each subcommand imports what it needs when it runs, so that ``gpucourse --help`` is fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from gpucourse.system import without_iris  # noqa: F401
from gpucourse.system.errors import CourseError

app = typer.Typer(
    help="The GPU course: check this machine, grade your work, build the notebooks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data = typer.Typer(
    help="Events for the lessons; no lesson needs the network.", no_args_is_help=True
)
app.add_typer(data, name="data")


@contextmanager
def _telling() -> Iterator[None]:
    """End the command with the message of a CourseError instead of a traceback."""
    try:
        yield
    except CourseError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@app.command()
def doctor() -> None:
    """Say what this machine has, and what to do about each thing it lacks."""
    from gpucourse import doctor

    raise typer.Exit(doctor.report(doctor.examine()))


@app.command()
def progress() -> None:
    """List the course's lessons, and what of each is done."""
    from gpucourse.learner.course_map import progress

    with _telling():
        typer.echo(progress())


@app.command()
def room(
    folder: Annotated[
        Path, typer.Argument(help="a folder that everybody in the room can write to")
    ],
    join: Annotated[
        bool,
        typer.Option(
            "--join", help="for learners: share your guesses from now on, without your name"
        ),
    ] = False,
    leave: Annotated[bool, typer.Option("--leave", help="for learners: stop sharing")] = False,
) -> None:
    """Count what a room guessed, question by question; or join it, so that yours count too."""
    from gpucourse.learner import room

    with _telling():
        if join or leave:
            typer.echo(room.leave() if leave else room.join(folder))
            return
        found = room.counts(folder)
        typer.echo(
            "\n\n".join(map(str, found))
            or f"Nobody has answered yet. To join, learners run: gpucourse room {folder} --join"
        )


@app.command()
def save(
    to: Annotated[
        Path | None,
        typer.Argument(help="a folder or a file name; default: the course's folder"),
    ] = None,
) -> None:
    """Put your work and progress into one file, to download and keep."""
    from gpucourse.learner.bundle import save

    with _telling():
        saved = save(to)
        typer.echo(f"{saved.path}\n{saved}")


@app.command()
def restore(
    bundle: Annotated[
        Path | None,
        typer.Argument(
            help="a file that `gpucourse save` wrote; default: the newest in the course's folder"
        ),
    ] = None,
) -> None:
    """Put the work of a saved file back; nothing that is here is overwritten."""
    from gpucourse.learner.restoring import restore

    with _telling():
        typer.echo(restore(bundle))


@app.command()
def grade(
    what: Annotated[
        Path,
        typer.Argument(
            help="your project's notebook, folder or name; or, for a class, nbgrader's course "
            "directory",
        ),
    ] = Path("."),
    assignment: Annotated[
        list[str] | None,
        typer.Option(help="an assignment of the class; default: all with a submission"),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="submissions graded at the same time; 0: one per core")
    ] = 0,
    scheduler: Annotated[
        str,
        typer.Option(
            help="address of a Dask cluster that does the work, for example tcp://head:8786"
        ),
    ] = "",
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="grade others' work although this machine cannot isolate it"),
    ] = False,
    similar: Annotated[
        bool,
        typer.Option(
            "--similar", help="list submissions that resemble each other on the class's page"
        ),
    ] = False,
) -> None:
    """Grade a project notebook with its hidden tests, or a class in its course directory."""
    from gpucourse.course.checkout import NotInTheCourse, work_meant
    from gpucourse.grading.oracle import fork_server

    try:
        what = work_meant(what)
    except NotInTheCourse as unknown:
        raise typer.BadParameter(str(unknown)) from None
    if not scheduler:
        notebooks = [what] if what.is_file() else fork_server.with_work(what)
        fork_server.warm_up([__name__, *fork_server.heavy_imports(notebooks)])
    if what.is_file():
        from gpucourse.grading.commands import grade_notebook

        raise typer.Exit(grade_notebook.grade(what) or 0)
    from gpucourse.grading.commands import grade_class

    raise typer.Exit(
        grade_class.grade_class(
            what,
            assignment or [],
            workers=workers,
            scheduler=scheduler,
            unsafe=unsafe,
            similar=similar,
        )
    )


@app.command()
def collect(
    archive: Annotated[Path, typer.Argument(help="the platform's zip file of all submissions")],
    assignment: Annotated[
        str, typer.Argument(help="the assignment, for example 01_fill_a_histogram")
    ],
    lms: Annotated[str, typer.Option(help="moodle or canvas")],
    update: Annotated[
        bool, typer.Option("--update", help="replace submissions that are there already")
    ] = False,
    course: Annotated[Path, typer.Option(help="nbgrader's course directory")] = Path("."),
) -> None:
    """Put the files that Moodle or Canvas gives you into submitted/."""
    from gpucourse.grading.commands import lms as platforms

    raise typer.Exit(platforms.collect(course, archive, assignment, lms, update=update))


@app.command()
def export(
    table: Annotated[Path, typer.Argument(help="the platform's table of grades, a CSV file")],
    assignment: Annotated[
        str, typer.Argument(help="the assignment, for example 01_fill_a_histogram")
    ],
    lms: Annotated[str, typer.Option(help="moodle or canvas")],
    column: Annotated[
        str, typer.Option(help="the column for the marks; default: the platform's")
    ] = "",
    match: Annotated[
        str,
        typer.Option(
            help=(
                "the column with the names of folders in submitted/; default: the platform's number"
            ),
        ),
    ] = "",
    course: Annotated[Path, typer.Option(help="nbgrader's course directory")] = Path("."),
) -> None:
    """Write Moodle's or Canvas's table of grades again, with the marks in it."""
    from gpucourse.grading.commands import lms as platforms

    raise typer.Exit(platforms.export(course, table, assignment, lms, column=column, match=match))


@app.command()
def regrade(
    students: Annotated[list[str] | None, typer.Argument(help="default: everybody")] = None,
    explain: Annotated[
        str,
        typer.Option(
            help=("write nothing, but explain the result of this student, with the hidden values"),
        ),
    ] = "",
    assignment: Annotated[str, typer.Option(help="default: all")] = "",
    course: Annotated[Path, typer.Option(help="nbgrader's course directory")] = Path("."),
    new_seed: Annotated[
        bool, typer.Option("--new-seed", help="draw new hidden inputs instead of those on file")
    ] = False,
    workers: Annotated[
        int, typer.Option(help="submissions graded at the same time; 0: one per core")
    ] = 0,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="grade others' work although this machine cannot isolate it"),
    ] = False,
) -> None:
    """Grade submissions again; manual grades and comments stay."""
    from gpucourse.grading.oracle import fork_server

    fork_server.warm_up([__name__, *fork_server.heavy_imports(fork_server.with_work(course))])
    from gpucourse.grading.commands import grade_class

    raise typer.Exit(
        grade_class.regrade(
            course,
            [explain] if explain else students or [],
            assignment,
            explain=bool(explain),
            new_seed=new_seed,
            workers=workers,
            unsafe=unsafe,
        )
    )


@app.command()
def versions(
    notebook: Annotated[Path, typer.Argument(help="its present path")],
    take: Annotated[
        int,
        typer.Option(
            metavar="NUMBER", help="write this version beside the notebook, which is not changed"
        ),
    ] = 0,
) -> None:
    """List what a save has replaced in a notebook, and bring a version back."""
    from gpucourse.learner import notebook_versions

    raise typer.Exit(notebook_versions.command(notebook, take))


@app.command()
def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="A small class of the first project.")
    ] = False,
) -> None:
    """Grade a class of right and wrong submissions and print the table."""
    from gpucourse.grading.commands.demo import run

    raise typer.Exit(run(quick=quick))


@app.command()
def build(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; list what is not current.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite notebooks that have been run.")
    ] = False,
    language: Annotated[
        str,
        typer.Option(
            help="make the notebooks of another language, for example de, in languages/de/"
        ),
    ] = "",
) -> None:
    """Make the notebooks from course/."""
    from gpucourse.publish import commands

    raise typer.Exit(
        commands.check_current() if check else commands.build(force=force, language=language)
    )


@app.command()
def translate(
    language: Annotated[str, typer.Argument(help="two or three letters, for example de")],
    lessons: Annotated[
        list[str] | None, typer.Argument(help="ids from course.toml; default: only the fixed words")
    ] = None,
) -> None:
    """Write or update the catalogues of another language (docs/translating.md)."""
    from gpucourse.publish import commands

    raise typer.Exit(commands.translate(language, lessons or []))


@app.command()
def check(
    lessons: Annotated[
        list[str] | None, typer.Argument(help="ids from course.toml; default: all")
    ] = None,
    language: Annotated[
        str, typer.Option(help="run the named lessons in another language, for example de")
    ] = "",
    successor: Annotated[
        bool,
        typer.Option(
            "--successor", help="run the lessons in course/successor.toml on numba-cuda-mlir"
        ),
    ] = False,
) -> None:
    """Run the course's tests of itself: every notebook, starter and solution."""
    from gpucourse.publish import commands

    raise typer.Exit(commands.check(lessons or [], language, successor=successor))


@data.command()
def fetch(
    folder: Annotated[
        Path | None, typer.Argument(help="where to put it; default: the user's cache")
    ] = None,
) -> None:
    """Fetch the CMS Open Data dimuon sample (2.2 GB); no lesson needs it."""
    from gpucourse.data import opendata

    with _telling():
        typer.echo(opendata.fetch(folder))
