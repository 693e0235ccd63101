"""``make gpu-check``: everything that needs a GPU, within a given time."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab.gpu_check import jobs, provenance
from lab.gpu_check.lesson_run import find_root, lessons
from lab.gpu_check.parts import NO_TIME, PARTS, Check, rows_of
from lab.gpu_check.rows import DIFFERS, FAILS, NOT_RUN, Row, summary
from virtualgpu.devices.real.process import GPU, VIRTUAL

#: Path of the result, from the root of the checkout.
RESULT = Path("lab") / "results" / "gpu_check.json"
FOLDER = Path("build") / "gpu_check"
#: Maximum number of rows shown for a part in which something is wrong.
_SHOWN = 25
#: Exit codes: everything was done and agrees; something differs or fails; nothing could be done;
#: everything done so far agrees, but the time was up before the end.
ALL_WELL, SOMETHING_WRONG, NOTHING_DONE, UNFINISHED = range(4)
#: Facts that two results must share if their parts are to be combined.
SAME = ("device", "driver", "source", "rehearsal", "lessons")


def check(
    minutes: float,
    parts: list[str],
    out: Path | None,
    device: str = GPU,
    only: list[str] | None = None,
    fresh: bool = False,
    console: Console | None = None,
) -> int:
    """Run the named parts (by default all), report the results and return an exit code.

    A part that is already complete in ``out``, for the same source and device, is skipped unless
    ``fresh``; an incomplete part continues where it was.
    """
    console = console or Console(highlight=False, soft_wrap=True)
    root = find_root()
    if refusal := _refusal(parts, only, out, root):
        console.print(refusal, markup=False)
        return NOTHING_DONE
    facts = provenance.describe(device) | {"lessons": sorted(only or ())}
    if device == GPU and facts["device"] is None:
        console.print(
            f"Nothing was checked: {facts['why']}. The check needs an NVIDIA GPU and its "
            "driver. The course itself runs without one, and --rehearse runs the check with "
            "the virtual GPU instead.",
            markup=False,
        )
        return NOTHING_DONE
    folder = root / FOLDER / device
    if out is None:
        out = root / RESULT if device == GPU else folder / "rehearsal.json"
    names = [name for name in PARTS if not parts or name in parts]
    began = time.monotonic()

    def tell(text: str) -> None:
        console.print(f"{time.monotonic() - began:6.0f} s  {text}", markup=False)

    run = Check(folder, out, device, only=tuple(only or ()), tell=tell, root=root)
    run.result = _begin(out, facts, names if fresh else [])
    _clear(folder, facts, names if fresh else [])
    shown = f"a rehearsal, {facts['rehearsal']}" if device == VIRTUAL else facts["device"]
    tell(f"{shown}; {run.workers} cores; {minutes:g} minutes")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _do(run, names, jobs.Clock(60 * minutes), console)
    except KeyboardInterrupt:
        console.print("interrupted")
    show(run.result, console)
    if out.exists():
        console.print(f"wrote {out}", markup=False)
    if _wrong(run.result):
        return SOMETHING_WRONG
    unfinished = [name for name in names if not _part(run, name).get("complete")]
    if unfinished:
        console.print(
            f"Not finished: {', '.join(unfinished)}. Run the same command again to continue.",
            markup=False,
        )
        return UNFINISHED
    return ALL_WELL


def _refusal(parts: list[str], only: list[str] | None, out: Path | None, root: Path) -> str:
    """Return the reason why nothing can be done for this request, or an empty string."""
    if unknown := set(parts) - set(PARTS):
        return f"There is no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}"
    if unknown := set(only or ()) - set(lessons(root)):
        return (
            f"There is no lesson {', '.join(sorted(unknown))}; the lessons are "
            f"{', '.join(lessons(root))}"
        )
    if only and out is None:
        return (
            "With --lesson, write the result to another file with --out, so that it does not "
            "replace the result for all lessons."
        )
    return ""


def _do(run: Check, names: list[str], clock: jobs.Clock, console: Console) -> None:
    for name in names:
        if _part(run, name).get("complete"):
            run.tell(f"{name}: already complete")
            continue
        work, share = PARTS[name]
        seconds = clock.left * (1.0 if name == names[-1] else share)
        if seconds < 10:
            if not _part(run, name):
                run.save(name, [Row(name, NOT_RUN, NO_TIME)])
            continue
        run.tell(f"{name}: up to {seconds:.0f} s")
        try:
            work(run, seconds)
        except Exception as error:  # a broken part must not prevent the others
            told = f"the check itself failed: {type(error).__name__}: {error}"
            run.save(name, [Row(name, FAILS, told)])
            console.print_exception(max_frames=6)


def _part(run: Check, name: str) -> dict:
    return run.result.get("parts", {}).get(name, {})


def _begin(out: Path, facts: dict, fresh: list[str]) -> dict:
    """Return an unfinished result of the same device and source, or an empty one."""
    try:
        known = json.loads(out.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    if not known or any(known["machine"].get(key) != facts.get(key) for key in SAME):
        return {"machine": facts, "parts": {}}
    parts = {name: part for name, part in known["parts"].items() if name not in fresh}
    return known | {"machine": facts, "parts": parts}


def _clear(folder: Path, facts: dict, fresh: list[str]) -> None:
    """Remove results of another device or source, and those that are to be redone."""
    stamp = folder / "stamp.json"
    # The selected lessons make no difference here, because each has its own folder.
    now = json.dumps([facts.get(key) for key in SAME if key != "lessons"])
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != now:
        fresh = list(PARTS)
    for name in fresh:
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    stamp.write_text(now, encoding="utf-8")


def _wrong(result: dict) -> list[Row]:
    return [
        row
        for part in result.get("parts", {}).values()
        for row in rows_of(part)
        if row.verdict in (DIFFERS, FAILS)
    ]


def show(result: dict, console: Console) -> None:
    """Print the parts with their counts, then every row that needs attention."""
    title = "rehearsal" if "rehearsal" in result["machine"] else result["machine"]["device"]
    table = Table(title=title, title_justify="left")
    table.add_column("part")
    table.add_column("rows", justify="right")
    table.add_column("of these")
    for name, part in result.get("parts", {}).items():
        rows = rows_of(part)
        unfinished = "" if part["complete"] else " (not finished)"
        table.add_row(name, str(len(rows)), summary(rows) + unfinished)
    console.print(table)
    for name, part in result.get("parts", {}).items():
        bad = [row for row in rows_of(part) if row.verdict in (DIFFERS, FAILS)]
        for row in bad[:_SHOWN]:
            console.print(f"{name}: {row.what}: {row.verdict}: {row.detail[:700]}", markup=False)
        if len(bad) > _SHOWN:
            console.print(f"{name}: and {len(bad) - _SHOWN} more, in the file", markup=False)
