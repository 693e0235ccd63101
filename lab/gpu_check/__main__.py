"""``python -m lab.gpu_check``, which ``make gpu-check`` calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.gpu_check.command import check

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="instructions, lessons, sanitizer, grading, counters; default: all"),
    ] = None,
    minutes: Annotated[float, typer.Option(help="time limit of the whole check")] = 9.0,
    out: Annotated[
        Path | None,
        typer.Option(help="where to write the result; default: lab/results/gpu_check.json"),
    ] = None,
    lesson: Annotated[
        list[str] | None, typer.Option(help="only this lesson (needs --out); default: all")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="repeat what an earlier run has done")
    ] = False,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse",
            help="run without a GPU, with the virtual GPU instead",
        ),
    ] = False,
) -> None:
    """Compare this machine's GPU with the virtual one: instructions, lessons, faults, counts.

    Exit status: 0 if everything agrees, 1 if something does not, 2 if nothing could be done, and 3
    if the time was up before the end (the same command then continues).
    """
    raise typer.Exit(
        check(minutes, parts or [], out, "virtual" if rehearse else "gpu", lesson, fresh)
    )


if __name__ == "__main__":
    app()
