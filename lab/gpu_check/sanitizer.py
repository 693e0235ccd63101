"""Labelled fault kernels under NVIDIA's ``compute-sanitizer``, compared with ``check()``.

Each of its tools detects one kind of fault: ``memcheck`` bad addresses, ``initcheck`` reads of
uninitialised global memory, ``racecheck`` races in *shared* memory, and ``synccheck`` barriers
that some threads do not reach. No tool detects a race in global memory.

The format of the reports is that of the Compute Sanitizer manual (versions 2022 to 2025), in which
a location is ``at kernel(int *)+0x90 in file.cu:13``, or that of older versions, ``at 0x90 in
file.cu:13:kernel(int *)``.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.gpu_check import jobs
from lab.gpu_check.labelled import Label
from lab.gpu_check.play import LAUNCH
from lab.gpu_check.rows import AGREES, DIFFERS, FAILS, NOT_RUN, Row

TOOLS = ("memcheck", "initcheck", "racecheck", "synccheck")
#: Each tool's terms for faults, and the kind of each fault.
_FAULTS = (
    (re.compile(r"Invalid __\w+__ (read|write|atomic)|misaligned|Misaligned"), "memory"),
    (re.compile(r"Uninitialized __\w+__ memory read"), "uninitialised"),
    (re.compile(r"Race reported between|Potential \w+ hazard"), "race"),
    (re.compile(r"Barrier error detected"), "barrier"),
)
_PLACE = re.compile(r"\bin (?P<file>[^\s:]+\.\w+):(?P<line>\d+)")
_BATCH = 12  # launches per process
_SHORTEST = 5.0  # minimum of seconds for which a start is worthwhile
NO_TIME, NO_START = "no time was left", "the tool did not start"
# Tried in this order; an option that a version does not know makes it stop.
_OPTIONS = (
    (
        "--show-backtrace",
        "no",
        "--report-api-errors",
        "no",
        "--destroy-on-device-error",
        "kernel",
        "--print-limit",
        "2000",
    ),
    ("--show-backtrace", "no", "--print-limit", "2000"),
    (),
)


@dataclass(frozen=True)
class Reported:
    """Fault in a tool's report. ``line`` is None if the report has no line."""

    launch: str
    kind: str
    line: int | None


def parse(output: str, names: Sequence[str]) -> list[Reported]:
    """Return the faults by launch, from a report of several launches.

    A report may be delayed, so a fault belongs to the launch whose source file or kernel it names.
    If it names none, it belongs to the last announced launch.
    """
    found: list[Reported] = []
    current, kind, place = "", "", ""

    def close() -> None:
        if kind:
            lines = [int(match["line"]) for match in _PLACE.finditer(place)] or [None]
            launch = _launch_of(place, names) or current
            found.extend(Reported(launch, kind, line) for line in dict.fromkeys(lines))

    for line in output.splitlines():
        if line.startswith(LAUNCH):
            close()
            current, kind, place = line.removeprefix(LAUNCH).strip(), "", ""
        if not line.startswith("========="):
            continue
        text = line.removeprefix("=========").strip()
        started = next((name for pattern, name in _FAULTS if pattern.search(text)), "")
        # In memcheck, "Address 0x… is misaligned" ends a report and does not begin one.
        if started and not text.startswith("Address"):
            close()
            kind, place = started, text
        elif kind and text.startswith(("at ", "and ", "Write", "Read")):
            place += " " + text
    close()
    return found


def _launch_of(place: str, names: Sequence[str]) -> str:
    files = [Path(match["file"]).stem for match in _PLACE.finditer(place)]
    if known := next((file for file in files if file in names), ""):
        return known
    # A mangled name follows its length, and a readable name is a separate word, so a name is never
    # mistaken for part of another.
    symbols = _PLACE.sub("", place)
    return next(
        (
            name
            for name in names
            if f"{len(name)}{name}" in symbols
            or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", symbols)
        ),
        "",
    )


# -- execution ----------------------------------------------------------------------------------


def tools_of(label: Label) -> list[str]:
    """Return the tools that apply to a kernel.

    A kernel that may hang gets only one tool.
    """
    if label.kind == "deadlock":
        return ["synccheck"]
    wanted = ["memcheck", "initcheck"]
    return wanted + ["racecheck"] * label.shared + ["synccheck"] * label.barriers


def plan(labels: Sequence[Label]) -> list[tuple[str, list[str]]]:
    """Return (tool, launches of one process); kernels that may hang run last and alone."""
    batches = []
    for tool in TOOLS:
        names = [
            label.name for label in labels if tool in tools_of(label) and label.kind != "deadlock"
        ]
        batches += [(tool, names[at : at + _BATCH]) for at in range(0, len(names), _BATCH)]
    return batches + [("synccheck", [label.name]) for label in labels if label.kind == "deadlock"]


def watch(
    program: str,
    folder: Path,
    tool: str,
    names: Sequence[str],
    seconds: float,
    device: str = "gpu",
    clock: jobs.Clock | None = None,
) -> tuple[list[Reported], dict[str, str]]:
    """Return one tool's reports on launches, and reasons for missing reports by launch.

    ``seconds`` is the limit of one process. If a process ends early, another one handles the rest,
    as long as the ``clock`` has time left.
    """
    found: list[Reported] = []
    silent: dict[str, str] = {}
    left = list(names)
    while left:
        limit = seconds if clock is None else min(seconds, clock.left)
        if limit < min(_SHORTEST, seconds):
            return found, silent | dict.fromkeys(left, NO_TIME)
        done = _start(program, folder, tool, left, limit, device)
        begun = [
            line.removeprefix(LAUNCH).strip()
            for line in done.output.splitlines()
            if line.startswith(LAUNCH)
        ]
        found += parse(done.output, names)
        if not begun:
            return found, silent | dict.fromkeys(left, f"{NO_START}: {done.last}")
        if done.code is None or (begun != left and len(begun) < len(left)):
            # It ended inside the last announced launch, so continue after that one.
            if done.code is None and limit < seconds:
                return found, silent | dict.fromkeys(left[len(begun) - 1 :], NO_TIME)
            why = "it did not end in time" if done.code is None else f"it ended: {done.last}"
            silent[begun[-1]] = why
        left = left[len(begun) :]
    return found, silent


def _start(
    program: str, folder: Path, tool: str, names: Sequence[str], seconds: float, device: str
) -> jobs.Done:
    files = [folder / f"{name}.npz" for name in names]
    unwritten = ["--unwritten"] if tool == "initcheck" else []
    player = jobs.python("lab.gpu_check.play", "--device", device, *unwritten, *files)
    for options in _OPTIONS:
        done = jobs.run([program, "--tool", tool, *options, *player], seconds)
        if LAUNCH in done.output or done.code is None:
            break
    return done


# -- verdicts -----------------------------------------------------------------------------------


def rows(
    labels: Sequence[Label], found: Sequence[Reported], silent: dict[tuple[str, str], str]
) -> list[Row]:
    """Return a row for each kernel with its label and the tools' findings.

    ``silent`` has the reasons for missing reports by (tool, name).
    """
    by_name: dict[str, list[Reported]] = defaultdict(list)
    for report in found:
        by_name[report.launch].append(report)
    return [_row(label, by_name[label.name], silent) for label in labels]


def domain(label: Label) -> str:
    """Return the tool that detects a kernel's fault; empty if none does."""
    return {
        ("memory", "global"): "memcheck",
        ("memory", "shared"): "memcheck",
        ("uninitialised", "global"): "initcheck",
        ("race", "shared"): "racecheck",
        ("barrier", ""): "synccheck",
    }.get((label.kind, label.space), "")


def _row(label: Label, found: list[Reported], silent: dict[tuple[str, str], str]) -> Row:
    told = [f"{one.kind} at line {one.line}" if one.line else one.kind for one in found]
    told = list(dict.fromkeys(told))
    figures = {
        "label": label.kind,
        "where": label.space,
        "lines": label.lines,
        "virtual GPU": [f"{kind} at line {line}" for kind, line in label.found],
        "compute-sanitizer": told,
    }
    what = f"{label.name} ({label.kind})"
    tool = domain(label)
    quiet = [why for (_, name), why in silent.items() if name == label.name]
    if label.kind == "clean":
        if found:
            return Row(what, DIFFERS, f"a clean kernel is reported: {', '.join(told)}", figures)
        return Row(what, NOT_RUN if quiet else AGREES, quiet[0] if quiet else "", figures)
    if not tool:
        if any(one.kind == label.kind for one in found):
            return Row(
                what, AGREES, "reported, although no tool is documented to detect this", figures
            )
        why = "compute-sanitizer has no tool for this kind of fault in this memory"
        return Row(what, NOT_RUN, why, figures)
    mine = [one for one in found if one.kind == label.kind]
    if not mine and (why := silent.get((tool, label.name))):
        return Row(what, NOT_RUN if why == NO_TIME else FAILS, why, figures)
    if not mine:
        return Row(what, DIFFERS, f"{tool} does not report it", figures)
    if any(one.line is None or one.line in label.lines for one in mine):
        return Row(what, AGREES, "", figures)
    return Row(what, DIFFERS, f"{tool} reports it at another line", figures)


def compare(
    program: str,
    folder: Path,
    labels: Sequence[Label],
    clock: jobs.Clock,
    workers: int,
    device: str = "gpu",
    tell: Callable[[str], None] = lambda text: None,
    save: Callable[[list[Row]], None] = lambda rows: None,
) -> bool:
    """Run every tool on every labelled kernel to which it applies; return True if all is done.

    Results of a batch of kernels are saved in the folder and not computed again. ``save`` receives
    the rows after each batch.
    """
    kept = folder / "reports.jsonl"
    said = _kept(kept)
    save(_rows_of(labels, said))

    def work(batch: tuple[str, list[str]]) -> tuple[list[Reported], dict[str, str]]:
        tool, names = batch
        seconds = 20.0 if len(names) == 1 else 90.0
        return watch(program, folder, tool, names, seconds, device, clock)

    def done(batch: tuple[str, list[str]], result: tuple) -> None:
        found, silent = result
        said[batch[0], *batch[1]] = result
        if NO_TIME not in silent.values():
            line = {
                "tool": batch[0],
                "names": batch[1],
                "silent": silent,
                "found": [asdict(report) for report in found],
            }
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        tell(f"{batch[0]}: {len(batch[1])} kernels, {len(found)} reports")
        save(_rows_of(labels, said))

    todo = [batch for batch in plan(labels) if (batch[0], *batch[1]) not in said]
    jobs.side_by_side(work, todo, workers, done)
    return not any(NO_TIME in silent.values() for _, silent in said.values())


def _kept(path: Path) -> dict[tuple[str, ...], tuple[list[Reported], dict[str, str]]]:
    """Return an earlier run's findings, by tool and kernels."""
    said = {}
    with suppress(OSError):
        for text in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # the last line may be truncated
                line = json.loads(text)
                found = [Reported(**report) for report in line["found"]]
                said[line["tool"], *line["names"]] = found, line["silent"]
    return said


def _rows_of(labels: Sequence[Label], said: dict) -> list[Row]:
    """Return rows of all kernels; a batch that was not begun had no time."""
    found, silent = [], {}
    for tool, names in plan(labels):
        reports, why = said.get((tool, *names), ([], dict.fromkeys(names, NO_TIME)))
        found += reports
        silent |= {(tool, name): text for name, text in why.items()}
    if silent and not found and all(why.startswith(NO_START) for why in silent.values()):
        return [Row("compute-sanitizer", NOT_RUN, next(iter(silent.values())))]
    return rows(labels, found, silent)
