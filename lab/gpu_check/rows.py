"""The rows of which ``gpu-check`` makes its tables: what was looked at, and the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

#: As it should be; not as it should be; it did not get so far; not looked at, and why.
AGREES, DIFFERS, FAILS, NOT_RUN = "agrees", "differs", "fails", "not run"
VERDICTS = (AGREES, DIFFERS, FAILS, NOT_RUN)


@dataclass
class Row:
    """One thing that was looked at.

    ``detail`` is for a person: the first thing that is wrong, or why it was not run. ``figures``
    are numbers and short texts by name.
    """

    what: str
    verdict: str
    detail: str = ""
    figures: dict = field(default_factory=dict)

    def as_dict(self) -> dict:
        return asdict(self)


def summary(rows: list[Row]) -> str:
    """Return ``12 agree, 1 differs`` …, without verdicts that did not occur."""
    words = {AGREES: "agree", DIFFERS: "differ", FAILS: "fail", NOT_RUN: "not run"}
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in VERDICTS}
    return ", ".join(f"{count} {words[verdict]}" for verdict, count in counts.items() if count)


def read(path: Path) -> list[Row]:
    """Read rows from a file of JSON lines; a truncated line is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    rows = []
    for line in lines:
        with suppress(ValueError):
            rows.append(Row(**json.loads(line)))
    return rows


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write a file for :func:`read`."""
    text = "".join(json.dumps(row.as_dict()) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def append(path: Path, row: Row) -> None:
    """Append one row, flushed to the disk at once."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row.as_dict()) + "\n")
