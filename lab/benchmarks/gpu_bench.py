"""Benchmark of the course's kernels and their alternatives on this machine's GPU.

    python -m lab.benchmarks.gpu_bench --minutes 9      (also: make bench-gpu)
    python -m lab.benchmarks.gpu_bench --try            (without a GPU: every row once, no times)
    python -m lab.benchmarks.gpu_bench --aims           (the goals that the recorded run meets)

It runs from a plain checkout (``PYTHONPATH=src``). Every contender is checked before it is timed.
One that fails gets a row with its error, and the run continues. ``gpu_measuring.py`` describes the
measurement, and ``gpucourse.views.results`` reads the output.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpucourse.views import results
from lab.benchmarks import gpu_aims, gpu_provenance, gpu_run, gpu_worker
from lab.benchmarks.report import RESULTS

#: The output file of a run in a checkout.
PATH = RESULTS / results.NAME

#: A log has no width of its own, but the tables need one.
console = Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else 150)


def main(
    trial: Annotated[
        bool,
        typer.Option(
            "--try",
            help="run every row once, small, on the virtual GPU; no times, nothing written",
        ),
    ] = False,
    minutes: Annotated[
        float, typer.Option(help="start no further task after this many minutes")
    ] = 9.0,
    only: Annotated[
        list[str] | None, typer.Option(help="groups whose names begin like this (needs --results)")
    ] = None,
    path: Annotated[Path, typer.Option("--results", help="where to write")] = PATH,
    go_on: Annotated[
        bool,
        typer.Option(
            "--go-on",
            help="keep the rows of an earlier run of this source on this GPU, and do the rest",
        ),
    ] = False,
    aims: Annotated[
        bool, typer.Option("--aims", help="show the goals that the recorded run meets")
    ] = False,
) -> None:
    """Time the course's kernels against libraries on this machine's GPU."""
    if aims:
        show_aims(results.read(path))
        return
    groups = [g for g in gpu_worker.GROUPS if not only or g.id.startswith(tuple(only))]
    if not groups:
        console.print(
            f"No group's name begins like this. The groups are {', '.join(gpu_worker.ORDER)}"
        )
        raise typer.Exit(2)
    if not trial:
        refuse_without_gpu()
        if only and path == PATH:
            console.print(
                "With --only, write the rows to another file with --results, so that they do not "
                "replace a whole run."
            )
            raise typer.Exit(2)
    before = done_before(path) if go_on and not trial else None
    if before is not None and not before["left_out"]:
        console.print(f"Already complete: {path}")
        raise typer.Exit(0)
    document = gpu_run.run(
        gpu_worker.tasks(groups, trial),
        trial,
        minutes,
        None if trial else path,
        console,
        before=before,
    )
    failed = [row for row in document["rows"] if "error" in row]
    if trial:
        tell_trial(document, failed)
    else:
        path.with_name("gpu_aims.md").write_text(
            gpu_aims.aims_table(results.Results(document)), encoding="utf-8"
        )
        tell(results.Results(document), failed)
        console.print(
            f"Wrote {path} and gpu_aims.md beside it after {document['minutes']:.1f} minutes"
        )
    if document["left_out"]:
        console.print(f"Left out, because time ran out: {', '.join(document['left_out'])}")
    raise typer.Exit(1 if failed and trial else 0)


def refuse_without_gpu() -> None:
    """Exit if the times would not be those of a GPU."""
    from gpucourse.system.device import device

    try:
        found = device()
    except Exception as error:  # the rows will show what happens
        console.print(
            f"The driver gave an error ({type(error).__name__}: {error}); the run continues."
        )
        return
    if found.virtual:
        console.print(
            f"Nothing measured: {found.reason}, and the virtual GPU has no times. --try "
            "runs every row once and checks its result."
        )
        raise typer.Exit(2)


def done_before(path: Path) -> dict | None:
    """Return the results that an earlier run on this GPU has written."""
    from gpucourse.system.device import find_gpu

    return gpu_run.earlier(path, find_gpu().name, gpu_provenance.state().get("driver_version"))


def tell_trial(document: dict, failed: list[dict]) -> None:
    """Print the results of a trial, without times."""
    right = sum(row.get("right", False) for row in document["rows"])
    untried = [row for row in document["rows"] if "untried" in row]
    for row in untried:
        console.print(f"untried: {row['id']}: {row['untried']}")
    console.print(
        f"{right} rows are right, {len(failed)} failed, {len(untried)} need a GPU; nothing "
        "was timed or written"
    )


def tell(found: results.Results, failed: list[dict]) -> None:
    """Print a run's medians, failures and goals."""
    table = Table(
        "",
        "device, ms",
        "queue, ms",
        "call, ms",
        "GB/s",
        title=escape(found.where),
        box=None,
        pad_edge=False,
    )
    for row in found.rows.values():
        if not row.measured or row.group.startswith("scaling."):
            continue
        times = [
            f"{row.median(clock):.4g}" if row.samples(clock) else "" for clock in results.CLOCKS
        ]
        rate = f"{row.bandwidth(row.clocks[0]) / 1e9:,.0f}" if row.bytes else ""
        table.add_row(row.id, *times, rate)
    console.print(table)
    for row in failed:
        console.print(f"failed: {row['id']}: {escape(row['error'])}")
    show_aims(found)


def show_aims(found: results.Results | None) -> None:
    """Print the table of goals as ratios."""
    table = Table(
        "aim",
        "at least",
        "measured",
        "",
        box=None,
        pad_edge=False,
        title=escape(found.where) if found else results.NOT_YET,
    )
    for aim in gpu_aims.aims(found):
        measured = "–" if aim.value is None else f"{aim.value:.3f}"
        table.add_row(escape(aim.name), f"{aim.wanted:.2f}", measured, aim.verdict)
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
