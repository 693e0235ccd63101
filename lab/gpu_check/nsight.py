"""Comparison of the virtual GPU's counters with Nsight Compute (``ncu``), by launch.

Requests, sectors, wavefronts and conflicts are counts of the memory system, which depend only on
the kernel's own instructions, so they must agree. Instruction counts need not agree, because a GPU
runs SASS, into which PTX is assembled; their ratio is shown and not judged.

A metric that a version does not know is left out and reported.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.gpu_check import jobs
from lab.gpu_check.play import WRONG
from lab.gpu_check.rows import AGREES, DIFFERS, FAILS, NOT_RUN, Row
from virtualgpu.devices.recorded import RecordedLaunch, play
from virtualgpu.errors import VirtualGPUError
from virtualgpu.watch import nsight
from virtualgpu.watch.nsight import OF_INSTRUCTIONS

#: Launches in one run of ``ncu`` (on an H200, all 150 were done in 86 s), and its time limit in
#: seconds.
BATCH, BATCH_SECONDS = 10, 30.0
#: Relative difference up to which two counts agree.
TOLERANCE = 0.01


TIMED_OUT = "it did not end in time"


@dataclass(frozen=True)
class Count:
    """Counter of the virtual GPU, with the metrics whose sum it equals; judged or only shown."""

    name: str
    metrics: tuple[str, ...]
    judged: bool = True


COUNTS = tuple(
    Count(name, metrics, judged=name not in OF_INSTRUCTIONS)
    for name, metrics in nsight.METRICS.items()
)
METRICS = tuple(metric for count in COUNTS for metric in count.metrics)
_UNKNOWN = re.compile(
    r"(?:Failed to find metric|Unknown metric|[Mm]etric)\s*(?:regex:)?\^?'?\"?"
    r"((?:l1tex|smsp)__[\w.]+)"
)
_REFUSED = (
    "ERR_NVGPUCTRPERM",
    "LibraryNotLoaded",
    "Failed to initialize the profiler",
    "No kernels were profiled",
    "Driver Resources Unavailable",
    "is not supported on the current",
)


@dataclass(frozen=True)
class Profiled:
    """One launch as measured by ``ncu``: metrics by name; ``None`` where it prints ``n/a``."""

    kernel: str
    metrics: dict[str, float | None]


def parse(output: str) -> list[Profiled]:
    """Return the launches in ``ncu --csv`` output, in order.

    ``--page raw`` has a column for every metric, ``--page details`` has a line.
    """
    lines = output.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    table = list(
        csv.reader(io.StringIO("\n".join(line for line in lines[start:] if line.startswith('"'))))
    )
    header, launches = table[0], {}
    for values in table[1:]:
        row = dict(zip(header, values, strict=False))
        if not row.get("ID"):  # the units
            continue
        name = row.get("Kernel Name") or row.get("Function Name") or ""
        metrics = launches.setdefault(int(row["ID"]), (name, {}))[1]
        if "Metric Name" in row:
            metrics[row["Metric Name"]] = _number(row["Metric Value"])
        else:
            metrics.update({name: _number(value) for name, value in row.items() if "__" in name})
    return [Profiled(*launches[number]) for number in sorted(launches)]


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def profile(
    program: str, files: Sequence[Path], seconds: float, device: str = "gpu"
) -> tuple[dict[str, Profiled], str]:
    """Profile ``files`` with ``ncu``; return the launches by file stem, and its complaints."""
    metrics, dropped = list(METRICS), []
    clock = jobs.Clock(seconds)
    while metrics:
        done = jobs.run(
            [
                program,
                "--csv",
                "--page",
                "raw",
                "--print-units",
                "base",
                "--clock-control",
                "none",
                "--metrics",
                ",".join(metrics),
                *jobs.python("lab.gpu_check.play", "--device", device, *files),
            ],
            clock.left,
        )
        unknown = [name for name in _UNKNOWN.findall(done.output) if name.rstrip(".") in metrics]
        found = parse(done.output)
        if found or not unknown or not clock.left:
            break
        dropped += unknown
        metrics = [name for name in metrics if name not in unknown]
    said = next(
        (
            line.strip()
            for line in done.output.splitlines()
            if any(word in line for word in _REFUSED) or line.startswith("==ERROR==")
        ),
        "",
    )
    if done.code is None:
        said = said or TIMED_OUT
    elif not found:
        said = said or done.last
    if dropped:
        said = "; ".join(filter(None, [said, f"unknown to this version: {', '.join(dropped)}"]))
    # A launch refused by the driver leaves no profile.
    done_ones = [path.stem for path in files if f"{WRONG}{path.stem}:" not in done.output]
    return dict(zip(done_ones, found, strict=False)), said


# -- the virtual GPU's side ---------------------------------------------------------------------


def counted(path: Path) -> dict[str, int]:
    """Return the virtual GPU's counts of a recorded launch."""
    from virtualgpu.devices import VirtualDevice
    from virtualgpu.watch import instruments

    with instruments.profile() as profile:
        play(RecordedLaunch.load(path), VirtualDevice())
    counters = profile.launches[-1].counters
    return {count.name: int(getattr(counters, count.name)) for count in COUNTS}


def row(what: str, ours: dict[str, int], theirs: Profiled | None) -> Row:
    """Return one launch's row: both counts by name, and whether the judged ones agree."""
    if theirs is None:
        return Row(what, FAILS, "ncu reports nothing for it", {"virtual GPU": ours})
    figures, wrong, looked = {}, [], 0
    for count in COUNTS:
        values = [theirs.metrics.get(name) for name in count.metrics]
        if all(value is None for value in values):
            continue
        real = sum(value for value in values if value is not None)
        mine = ours[count.name]
        if not (mine or real):
            continue
        figures[count.name] = [mine, int(real)]
        if count.judged:
            looked += 1
            if abs(mine - real) > TOLERANCE * max(mine, real):
                wrong.append(f"{count.name}: {mine:,} on the virtual GPU, {int(real):,} by ncu")
    if not looked:
        return Row(what, NOT_RUN, "it has no memory access that could be compared", figures)
    return Row(what, DIFFERS if wrong else AGREES, "; ".join(wrong), figures)


def choose(folder: Path, most: int) -> list[Path]:
    """Return each kernel's largest recorded launch without errors."""
    best: dict[tuple, tuple[int, Path]] = {}
    for path in sorted(folder.glob("**/*.npz")):
        launch = RecordedLaunch.load(path)
        key = launch.kernel, launch.texts
        if all(piece.after is not None for piece in launch.pieces):
            best[key] = max(best.get(key, (-1, path)), (launch.nbytes, path))
    return sorted(path for _, path in best.values())[:most]


def compare(
    program: str,
    files: Sequence[Path],
    clock: jobs.Clock,
    workers: int,
    device: str = "gpu",
    tell: Callable[[str], None] = lambda text: None,
    save: Callable[[list[Row]], None] = lambda rows: None,
) -> tuple[list[Row], bool]:
    """Return a row for each launch, and True if there was enough time.

    If ``ncu`` reads nothing, one row gives the reason. ``save`` receives the rows after each batch
    of launches.
    """
    tell(f"the virtual GPU counts {len(files)} launches")
    shares = [files[first::workers] for first in range(workers) if files[first::workers]]
    # At most half of the time, since the other half is for ncu.
    ours = {
        name: counts
        for share in jobs.side_by_side(
            lambda share: _counted_apart(share, clock.left / 2), shares, workers
        )
        for name, counts in share.items()
    }
    found: dict[str, Profiled] = {}
    said: dict[str, str] = {}  # ncu's output for the batch, by launch
    took: list[float] = []
    words = "no time was left"

    def all_rows() -> list[Row]:
        if not found:
            return [Row("Nsight Compute", NOT_RUN, f"ncu read no counters: {words}")]
        first = Row(
            "Nsight Compute", AGREES, words, {"launches": len(found), "seconds of each batch": took}
        )
        return [first, *(_row_of(path, ours, found, said) for path in files)]

    for start in range(0, len(files), BATCH):
        batch = files[start : start + BATCH]
        if not clock.left:
            break
        began = clock.left
        some, words = profile(program, batch, min(BATCH_SECONDS, clock.left), device)
        took.append(round(began - clock.left, 1))
        tell(f"ncu: {len(some)} of {len(batch)} launches in {took[-1]:g} s {words}")
        found |= some
        if clock.left:
            said |= {path.stem: words for path in batch}
        save(all_rows())
        if not found and any(word in words for word in _REFUSED):
            break
    return all_rows(), bool(clock.left)


def _row_of(
    path: Path, ours: dict[str, dict[str, int]], found: dict[str, Profiled], said: dict[str, str]
) -> Row:
    launch = RecordedLaunch.load(path)
    what = f"{launch} ({launch.note})" if launch.note else str(launch)
    if path.stem in ours and path.stem in found:
        return row(what, ours[path.stem], found[path.stem])
    if path.stem not in said:
        return Row(what, NOT_RUN, "no time was left")
    if path.stem not in ours:
        return Row(what, FAILS, "the virtual GPU did not count it")
    if TIMED_OUT in said[path.stem]:
        return Row(what, NOT_RUN, f"ncu: {said[path.stem]}", {"virtual GPU": ours[path.stem]})
    return row(what, ours[path.stem], None)


def _counted_apart(files: Sequence[Path], seconds: float) -> dict[str, dict[str, int]]:
    """Run :func:`counted` in a separate process, as threads of one would block each other."""
    done = jobs.run(jobs.python("lab.gpu_check.nsight", *files), seconds, environment=jobs.HIDDEN)
    found = {}
    for line in done.output.splitlines():
        with suppress(ValueError):
            found |= json.loads(line)
    return found


if __name__ == "__main__":
    jobs.end_with_parent()
    for name in sys.argv[1:]:
        with suppress(VirtualGPUError):
            print(json.dumps({Path(name).stem: counted(Path(name))}), flush=True)
