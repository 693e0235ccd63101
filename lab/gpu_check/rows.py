"""Rows of the tables of ``gpu-check``: the subject and the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

#: Verdicts: correct, incorrect, failed before a result, and not run, with the reason.
AGREES, DIFFERS, FAILS, NOT_RUN = "agrees", "differs", "fails", "not run"
VERDICTS = (AGREES, DIFFERS, FAILS, NOT_RUN)


@dataclass
class Row:
    """Verdict on one subject.

    ``detail`` is for a reader: the first error, or the reason why it was not run. ``figures`` are
    numbers and short strings by name.
    """

    what: str
    verdict: str
    detail: str = ""
    figures: dict = field(default_factory=dict)

    def as_dict(self) -> dict:
        return asdict(self)


def summary(rows: list[Row]) -> str:
    """Return a text such as ``12 agree, 1 differs``, without verdicts that did not occur."""
    words = {AGREES: "agree", DIFFERS: "differ", FAILS: "fail", NOT_RUN: "not run"}
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in VERDICTS}
    return ", ".join(f"{count} {words[verdict]}" for verdict, count in counts.items() if count)


def read(path: Path) -> list[Row]:
    """Read rows from a file of JSON lines; a truncated line is ignored."""
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
    """Append one row and flush it to the disk."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row.as_dict()) + "\n")
