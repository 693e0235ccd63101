"""Examination of this machine for ``gpucourse doctor``, with advice on missing parts.

Each part is a function that yields findings. The modules beside this one define the parts by
subject, and ``PARTS`` lists them in the order of the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpucourse.doctor.devices import device_and_compilers, driver, gpu_libraries
from gpucourse.doctor.finding import FAIL, OK, WARN, Finding, reinstall
from gpucourse.doctor.installation import checkout, installers
from gpucourse.doctor.notebooks import course_files, jupyter, port, progress
from gpucourse.doctor.software import packages, python_and_system, strangers, variables
from gpucourse.doctor.surroundings import disk, memory_and_processors, oracles, sandbox

PARTS: tuple[Callable[[], Iterator[Finding]], ...] = (
    python_and_system,
    variables,
    packages,
    strangers,
    installers,
    checkout,
    device_and_compilers,
    driver,
    gpu_libraries,
    memory_and_processors,
    disk,
    jupyter,
    port,
    sandbox,
    oracles,
    course_files,
    progress,
)


def examine() -> list[Finding]:
    """Run all parts and return their findings.

    A part that raises an exception adds a finding about it, and the other parts still run.
    """
    findings: list[Finding] = []
    for part in PARTS:
        try:
            findings.extend(part())
        except Exception as error:  # an error in one part must not hide the other findings
            group = part.__name__.strip("_").replace("_", " ")
            found = f"{type(error).__name__}: {error}".split("\n")[0]
            findings.append(Finding(group, "examination", FAIL, found, reinstall()))
    return findings


def report(findings: list[Finding]) -> int:
    """Print the findings as a table, then the advice; return the exit code, 1 if any failed."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("sign", width=1)
    table.add_column("name", no_wrap=True)
    table.add_column("found", overflow="fold")
    # Colours that colour-blind readers can distinguish, each with its own sign.
    style = {OK: ("✓", "blue"), WARN: ("!", "yellow"), FAIL: ("✗", "bold red")}
    group = None
    for finding in findings:
        if finding.group != group:
            group = finding.group
            table.add_row("", f"[bold]{group}[/bold]", "")
        sign, colour = style[finding.status]
        table.add_row(f"[{colour}]{sign}[/]", finding.name, _plain(finding.found))
    console.print(table)
    todo = [finding for finding in findings if finding.status != OK]
    for finding in todo:
        sign, colour = style[finding.status]
        console.print(f"\n[{colour}]{sign} {finding.name}[/]: {_plain(finding.found)}")
        if finding.mend:
            console.print(f"  → {_plain(finding.mend)}", highlight=False, soft_wrap=True)
    failed = sum(finding.status == FAIL for finding in findings)
    warned = len(todo) - failed
    known = f", {warned} {'warning' if warned == 1 else 'warnings'}" if warned else ""
    if failed:
        console.print(f"\n[bold red]{failed} to fix[/]{known}.")
    else:
        console.print(f"\nReady: nothing to fix{known}.")
    return 1 if failed else 0


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
