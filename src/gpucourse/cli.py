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
def grade(
    notebook: Annotated[Path, typer.Argument(help="your project notebook", exists=True)],
) -> None:
    """Grade a project notebook with its hidden tests, as a class is graded."""
    from gpucourse.grading import commands

    raise typer.Exit(commands.grade(notebook) or 0)


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
