"""Tables of ``docs/gpu.md`` from the result of ``make gpu-check``.

    python -m lab.gpu_check.table

The command writes them between the markers of the page, or a sentence if there is no result yet.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpucourse.wording import shortened
from lab.gpu_check.command import RESULT
from lab.gpu_check.lesson_run import find_root
from lab.gpu_check.parts import NO_TIME, rows_of
from lab.gpu_check.rows import DIFFERS, FAILS, NOT_RUN, Row, summary

PAGE = Path("docs") / "gpu.md"
BEGIN, END = "<!-- gpu-check: python -m lab.gpu_check.table -->", "<!-- /gpu-check -->"
NONE = "**Not yet run on a GPU:** there is no `lab/results/gpu_check.json`."
TITLES = {
    "launches": "launches of the lessons, repeated on the GPU",
    "lessons": "lessons on the GPU",
    "counters": "counters compared with Nsight Compute",
    "grading": "the class of `make demo`, graded on the GPU",
    "sanitizer": "labelled kernels under compute-sanitizer",
}
_LONGEST = 300  # maximum number of characters of a row's detail
_COUNTED = (
    "global_load_sectors",
    "global_store_sectors",
    "shared_load_wavefronts",
    "shared_load_conflicts",
    "divergent_branches",
    "warp_instructions",
)


def tables(result: dict | None) -> str:
    """Return Markdown for ``result`` in the form of the JSON file, or for None."""
    if result is None:
        return NONE
    parts = result["parts"]
    lines = [_machine(result["machine"]), "", "| | rows | results |", "|---|--:|---|"]
    for name, part in parts.items():
        rows = rows_of(part)
        told = summary(rows) + ("" if part["complete"] else "; not finished")
        lines.append(f"| {TITLES.get(name, name)} | {len(rows)} | {told} |")
    for name, part in parts.items():
        wrong = [row for row in rows_of(part) if row.verdict in (DIFFERS, FAILS, NOT_RUN)]
        if wrong:
            lines += [
                "",
                f"Rows that do not agree or were not run ({TITLES.get(name, name)}):",
                "",
                "| | | |",
                "|---|---|---|",
            ]
            lines += [
                f"| {_cell(what)} | {verdict} | {_cell(detail)} |"
                for what, verdict, detail in _grouped(wrong)
            ]
    if found := _what_each_finds(parts.get("sanitizer")):
        lines += ["", *found]
    if counted := _counters(parts.get("counters")):
        lines += ["", *counted]
    return "\n".join(lines)


def _grouped(rows: list[Row]) -> list[tuple[str, str, str]]:
    """Group rows: name, verdict, detail; rows not run for the same reason are joined at the end."""
    found = [(row.what, row.verdict, row.detail) for row in rows if row.verdict != NOT_RUN]
    unrun: dict[str, list[str]] = {}
    for row in rows:
        if row.verdict == NOT_RUN:
            unrun.setdefault(row.detail, []).append(row.what)
    return found + [
        (names[0] if len(names) == 1 else f"{len(names)} rows", NOT_RUN, why)
        for why, names in unrun.items()
    ]


def _machine(machine: dict) -> str:
    versions = machine["versions"]
    shown = [
        f"{name} {versions[name]}"
        for name in (
            "numba",
            "numba-cuda",
            "cupy-cuda13x",
            "cupy-cuda12x",
            "jax",
            "numpy",
            "awkward",
        )
        if name in versions
    ]
    tools = [f"{name} ({version})" for name, version in machine.get("tools", {}).items()]
    return (
        f"{machine['device']}, driver {machine['driver']}, CUDA {machine['cuda']}, "
        f"{machine['date'][:10]}, commit `{machine['commit']}`; Python {machine['python']}, "
        f"{', '.join(shown + tools)}."
    )


def _what_each_finds(part: dict | None) -> list[str]:
    """Count the kernels by kind of fault, and those that each of the two reports."""
    rows = [row for row in rows_of(part) if "label" in row.figures] if part else []
    if not rows:
        return []
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        kinds.setdefault((row.figures["label"], row.figures["where"]), []).append(row)
    lines = [
        "Labelled kernels that each tool reports (for a clean kernel, a report is wrong):",
        "",
        "| | kernels | run under compute-sanitizer | it reports | `check()` reports |",
        "|---|--:|--:|--:|--:|",
    ]
    for (label, where), some in sorted(kinds.items()):
        looked = [row for row in some if row.detail != NO_TIME]
        theirs = sum(_named(row, "compute-sanitizer") for row in looked)
        ours = sum(_named(row, "virtual GPU") for row in some)
        name = {"memory": "bad address", "uninitialised": "read of uninitialised memory"}.get(
            label, label
        )
        lines.append(
            f"| {name}{f', {where} memory' if where else ''} | {len(some)} | "
            f"{len(looked)} | {theirs} | {ours} |"
        )
    return lines


def _named(row: Row, who: str) -> bool:
    """Return True if the tool reports a kernel's fault, or any fault of a clean kernel."""
    told = row.figures[who]
    label = row.figures["label"]
    return bool(told) if label == "clean" else any(one.startswith(label) for one in told)


def _counters(part: dict | None) -> list[str]:
    """Return both devices' counts side by side as ``virtual GPU / ncu``; equal ones only once."""
    rows = [row for row in rows_of(part) if set(row.figures) & set(_COUNTED)] if part else []
    if not rows:
        return []
    lines = [
        "Counts of the virtual GPU and of Nsight Compute (one number if they are equal):",
        "",
        "| launch | " + " | ".join(name.replace("_", " ") for name in _COUNTED) + " |",
        "|---|" + "--:|" * len(_COUNTED),
    ]
    return lines + [
        f"| {_cell(row.what)} | " + " | ".join(_pair(row, name) for name in _COUNTED) + " |"
        for row in rows
    ]


def _pair(row: Row, name: str) -> str:
    if name not in row.figures:
        return "–"
    mine, theirs = row.figures[name]
    return f"{mine:,}" if mine == theirs else f"{mine:,} / {theirs:,}"


def _cell(text: str) -> str:
    return shortened(" ".join(text.replace("|", "\\|").split()), _LONGEST)


def page(text: str, result: dict | None) -> str:
    """Return the page with updated tables."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{tables(result)}\n{END}{tail}"


def read_result(root: Path) -> dict | None:
    """Read the committed result, or return None. Raises SystemExit for one without a GPU."""
    try:
        result = json.loads((root / RESULT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if "rehearsal" in result["machine"]:
        raise SystemExit(
            f"{RESULT} is the result of a rehearsal, which says nothing about a GPU: delete it"
        )
    return result


def main() -> None:
    root = find_root()
    path = root / PAGE
    path.write_text(page(path.read_text(encoding="utf-8"), read_result(root)), encoding="utf-8")
    print(f"wrote {PAGE}", file=sys.stderr)


if __name__ == "__main__":
    main()
