"""The command ``gpucourse``: one verb each for what learners, writers and instructors do.

Every verb imports what it needs when it runs, so that ``gpucourse --help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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


@app.command()
def doctor() -> None:
    """Say what this machine has, and what to do about each thing it lacks."""
    from gpucourse import doctor

    raise typer.Exit(doctor.report(doctor.examine()))


@app.command()
def progress() -> None:
    """List the course's lessons, and what of each is done."""
    from gpucourse.course_map import NotInTheCourse, progress

    try:
        typer.echo(progress())
    except NotInTheCourse as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@app.command()
def save(
    to: Annotated[Path | None, typer.Argument(
        help="a folder, or the file's name; default: the course's folder")] = None,
) -> None:
    """Put your work and progress into one file, to download and keep."""
    from gpucourse.bundle import BundleError, save
    from gpucourse.course_map import NotInTheCourse

    try:
        saved = save(to)
    except (BundleError, NotInTheCourse) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{saved.path}\n{saved}")


@app.command()
def restore(
    bundle: Annotated[Path | None, typer.Argument(
        help="what `gpucourse save` wrote; default: the newest in the course's folder")] = None,
) -> None:
    """Put the work of a saved file back; nothing that is here is overwritten."""
    from gpucourse.bundle import BundleError
    from gpucourse.course_map import NotInTheCourse
    from gpucourse.restoring import restore

    try:
        typer.echo(restore(bundle))
    except (BundleError, NotInTheCourse) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@app.command()
def grade(
    what: Annotated[Path, typer.Argument(
        help="your project notebook; or, for a class, nbgrader's course directory", exists=True,
    )] = Path("."),
    assignment: Annotated[list[str] | None, typer.Option(
        help="of the class; default: every one that somebody handed in")] = None,
    workers: Annotated[int, typer.Option(
        help="submissions at a time; 0: one for each core")] = 0,
    scheduler: Annotated[str, typer.Option(
        help="address of a Dask cluster that does the work, as tcp://head:8786")] = "",
    unsafe: Annotated[bool, typer.Option(
        "--unsafe", help="grade others' work although this machine cannot isolate it")] = False,
) -> None:
    """Grade a project notebook with its hidden tests, or a class in its course directory."""
    from gpucourse.grading import fork_server

    if not scheduler:
        notebooks = [what] if what.is_file() else what.glob("source/*/*.ipynb")
        fork_server.warm_up(fork_server.heavy_imports(notebooks))
    if what.is_file():
        from gpucourse.grading import commands

        raise typer.Exit(commands.grade(what) or 0)
    from gpucourse.grading import classes

    raise typer.Exit(classes.grade_class(
        what, assignment or [], workers=workers, scheduler=scheduler, unsafe=unsafe))


@app.command()
def regrade(
    students: Annotated[list[str] | None, typer.Argument(help="default: everybody")] = None,
    explain: Annotated[str, typer.Option(
        help="write nothing: show why this student's work came out as it did, with hidden values",
    )] = "",
    assignment: Annotated[str, typer.Option(help="default: all")] = "",
    course: Annotated[Path, typer.Option(help="nbgrader's course directory")] = Path("."),
    new_seed: Annotated[bool, typer.Option(
        "--new-seed", help="draw new hidden inputs instead of those on file")] = False,
    workers: Annotated[int, typer.Option(
        help="submissions at a time; 0: one for each core")] = 0,
    unsafe: Annotated[bool, typer.Option(
        "--unsafe", help="grade others' work although this machine cannot isolate it")] = False,
) -> None:
    """Grade submissions again; manual grades and comments stay."""
    from gpucourse.grading import fork_server

    fork_server.warm_up(fork_server.heavy_imports(course.glob("source/*/*.ipynb")))
    from gpucourse.grading import classes

    raise typer.Exit(classes.regrade(
        course, [explain] if explain else students or [], assignment, explain=bool(explain),
        new_seed=new_seed, workers=workers, unsafe=unsafe))


@app.command()
def versions(
    notebook: Annotated[Path, typer.Argument(help="as it is called now")],
    take: Annotated[int, typer.Option(
        metavar="NUMBER", help="write this one beside the notebook, which stays as it is")] = 0,
) -> None:
    """List what a save has replaced in a notebook, and bring a version back."""
    from gpucourse import notebook_versions

    raise typer.Exit(notebook_versions.command(notebook, take))


@app.command()
def demo() -> None:
    """Grade a class of right and wrong submissions and print the table."""
    from gpucourse.grading import commands

    raise typer.Exit(commands.demo() or 0)


@app.command()
def build(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; list what is not current.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite notebooks that somebody has run.")
    ] = False,
) -> None:
    """Make the notebooks from course/."""
    from gpucourse.build import commands

    raise typer.Exit(commands.check_current() if check else commands.build(force=force))


@app.command()
def check(
    lessons: Annotated[
        list[str] | None, typer.Argument(help="ids as in course.toml; default: all")
    ] = None,
) -> None:
    """Run the course's tests of itself: every notebook, starter and solution."""
    from gpucourse.build import commands

    raise typer.Exit(commands.check(lessons or []))


@app.command("gpu-check")
def gpu_check(
    parts: Annotated[
        list[str] | None, typer.Argument(help="lessons, counters, grading, sanitizer; default: all")
    ] = None,
    minutes: Annotated[float, typer.Option(help="when to have finished")] = 9.0,
    out: Annotated[Path | None, typer.Option(
        help="where to write the result; default: benchmarks/results/gpu_check.json")] = None,
    lesson: Annotated[list[str] | None, typer.Option(
        help="only this lesson, with --out; default: all")] = None,
    fresh: Annotated[bool, typer.Option(
        "--fresh", help="do again what an earlier run has done")] = False,
    rehearse: Annotated[bool, typer.Option(
        "--rehearse", help="without a GPU: the virtual one plays the part of the real one",
    )] = False,
) -> None:
    """Compare this machine's GPU with the virtual one: lessons, counters, grading, faults.

    Exit status: 0 everything agrees, 1 something does not, 2 nothing could be done, 3 the time was
    up before the end (the same command goes on).
    """
    from gpucourse.hardware.command import check

    raise typer.Exit(check(minutes, parts or [], out, "virtual" if rehearse else "gpu",
                           lesson, fresh))


@data.command()
def fetch(
    folder: Annotated[
        Path | None, typer.Argument(help="where to put it; default: the user's cache")
    ] = None,
) -> None:
    """Fetch the CMS Open Data dimuon sample (2.2 GB); no lesson needs it."""
    from gpucourse.data import opendata

    try:
        typer.echo(opendata.fetch(folder))
    except opendata.FetchError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
