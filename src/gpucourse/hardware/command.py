"""``gpucourse gpu-check``: everything that wants a GPU, in one go, with an end."""

from __future__ import annotations

import json
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gpucourse.hardware import jobs, machine
from gpucourse.hardware.gpu_process import GPU
from gpucourse.hardware.lesson_run import find_root
from gpucourse.hardware.parts import PARTS, Check
from gpucourse.hardware.rows import DIFFERS, FAILS, Row, summary

#: Where the result belongs, from the root of the checkout.
RESULT = Path("benchmarks") / "results" / "gpu_check.json"
FOLDER = Path("build") / "gpu_check"
#: Rows that are shown of a part where something is wrong.
_SHOWN = 25
ALL_WELL, SOMETHING_WRONG, NOTHING_DONE = 0, 1, 2


def check(minutes: float, parts: list[str], out: Path | None, device: str = GPU,
          only: list[str] | None = None, fresh: bool = False, console: Console | None = None
          ) -> int:
    """Run the parts named, by default all; exit code 0 where everything agrees.

    A part that is complete in ``out`` already, of the same commit and device, is left alone unless
    ``fresh``.
    """
    console = console or Console(highlight=False, soft_wrap=True)
    unknown = set(parts) - set(PARTS)
    if unknown:
        console.print(f"There is no part {', '.join(sorted(unknown))}; the parts: "
                      f"{', '.join(PARTS)}")
        return NOTHING_DONE
    clock = jobs.Clock(60 * minutes)
    root = find_root()
    facts = machine.describe(device)
    if device == GPU and facts["device"] is None:
        console.print(f"Nothing was checked: {facts['why']}. This wants an NVIDIA GPU and its "
                      "driver; the course itself runs without one.")
        return NOTHING_DONE
    if out is None:
        out = root / (RESULT if device == GPU else FOLDER / "rehearsal.json")
    began = time.monotonic()

    def tell(text: str) -> None:
        console.print(f"{time.monotonic() - began:6.0f} s  {text}", markup=False)

    run = Check(root / FOLDER, out, device, only=tuple(only or ()), tell=tell, root=root)
    run.result = _begin(out, facts, fresh)
    tell(f"{facts['device'] or 'no GPU: a rehearsal'}; {run.workers} cores; {minutes:g} minutes")
    names = [name for name in PARTS if not parts or name in parts]
    for name in names:
        known = run.result.get("parts", {}).get(name, {})
        if known.get("complete") and not fresh:
            tell(f"{name}: done before")
            continue
        work, share = PARTS[name]
        seconds = clock.left * (1.0 if name == names[-1] else share)
        if seconds < 10:
            run.save(name, [Row(name, "not run", "no time was left")])
            continue
        tell(f"{name}: up to {seconds:.0f} s")
        try:
            work(run, seconds)
        except Exception as error:  # one broken part must not take the others with it
            told = f"the check itself failed: {type(error).__name__}: {error}"
            run.save(name, [Row(name, FAILS, told)], note=told)
            console.print_exception(max_frames=6)
    show(run.result, console)
    console.print(f"wrote {out}", markup=False)
    return SOMETHING_WRONG if _wrong(run.result) else ALL_WELL


def _begin(out: Path, facts: dict, fresh: bool) -> dict:
    """An earlier result of the same device and commit, to go on with, or an empty one."""
    same = ("device", "driver", "commit", "rehearsal")
    try:
        known = json.loads(out.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    if not fresh and known and all(known["machine"].get(key) == facts.get(key) for key in same):
        return known | {"machine": facts}
    return {"machine": facts, "parts": {}}


def rows_of(part: dict) -> list[Row]:
    return [Row(**row) for row in part["rows"]]


def _wrong(result: dict) -> list[Row]:
    return [row for part in result.get("parts", {}).values() for row in rows_of(part)
            if row.verdict in (DIFFERS, FAILS)]


def show(result: dict, console: Console) -> None:
    """The parts with their counts, then every row that needs somebody's attention."""
    table = Table(title=result["machine"]["device"] or "rehearsal", title_justify="left")
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
