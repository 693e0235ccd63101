"""Records of a learner's progress: a small file that checks and the grader extend.

The file has one JSON object per line and is only appended to. So two kernels that write at the
same time lose nothing, and a line cut off by a full disk does not damage the others. Each
achievement is recorded the first time it happens::

    {"lesson": "06_numba_cuda", "done": "bounds-guard", "at": "2026-03-02T09:30:00+00:00"}
    {"lesson": "06_numba_cuda", "asked": "who-am-i", "guess": "4", "at": …}
    {"cell": "3f1c…", "at": …}                                    a project's test cell that passed
    {"lesson": "01_fill_a_histogram", "points": 30, "of": 36, "at": …}     by `gpucourse grade`

The file is in the user's data folder, so it survives a new kernel and a new version of the course.
Only this package reads it: `gpucourse.progress()` shows it, and `gpucourse save` includes it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpucourse.course import renamed

#: A record of every exercise takes 20 kB, so a longer file is not ours.
MOST_BYTES = 2_000_000
_LONGEST_NAME = 200


@dataclass(slots=True)
class Records:
    """``exercises`` by lesson, ``cells`` of projects, and ``points`` by project.

    The points are pairs (earned, possible). ``guesses`` holds, by lesson, the first answer to each
    prediction.
    """

    exercises: dict[str, set[str]] = field(default_factory=dict)
    guesses: dict[str, dict[str, str]] = field(default_factory=dict)
    cells: set[str] = field(default_factory=set)
    points: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __contains__(self, record: dict) -> bool:
        """Return True if the file has the record; points must equal the latest ones."""
        if "done" in record:
            return record["done"] in self.exercises.get(record["lesson"], ())
        if "asked" in record:
            return record["asked"] in self.guesses.get(record["lesson"], ())
        if "cell" in record:
            return record["cell"] in self.cells
        return self.points.get(record["lesson"]) == (record["points"], record["of"])

    def take(self, record: dict) -> None:
        """Add one record; for points the latest record counts, for a guess the first."""
        if "done" in record:
            self.exercises.setdefault(record["lesson"], set()).add(record["done"])
        elif "asked" in record:
            known = self.guesses.setdefault(record["lesson"], {})
            known.setdefault(record["asked"], record["guess"])
        elif "cell" in record:
            self.cells.add(record["cell"])
        else:
            self.points[record["lesson"]] = record["points"], record["of"]


def place() -> Path:
    """Return the path of the records.

    It is ``~/.local/share/gpucourse/progress.jsonl`` on Linux.
    """
    import platformdirs

    return platformdirs.user_data_path("gpucourse") / "progress.jsonl"


def read(path: Path | None = None) -> Records:
    """Return the records without unreadable lines; raise nothing."""
    return collect(lines(path))


def lines(path: Path | None = None) -> list[dict]:
    """Return every readable record in order, or none if there is no file."""
    try:
        with open(path or place(), "rb") as file:
            return parse(file.read(MOST_BYTES))
    except (OSError, RuntimeError):  # no file, no permission; no home directory
        return []


def parse(data: bytes) -> list[dict]:
    """Return the valid records in a file's bytes."""
    found = []
    for line in data.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if _is_record(record):
            found.append(_of_today(record))
    return found


def collect(records: Iterable[dict]) -> Records:
    """Combine records into one object."""
    found = Records()
    for record in records:
        found.take(record)
    return found


def note(**record: object) -> None:
    """Add a record if it is new: ``note(lesson="06_…", done="bounds-guard")``.

    This never raises an exception, because a check must not fail when a disk is full or read-only.
    :func:`trouble` returns the reason for the map of the course.
    """
    try:
        add([{**record, "at": datetime.now(UTC).isoformat(timespec="seconds")}])
    except Exception:
        return


def add(records: Iterable[dict], path: Path | None = None) -> int:
    """Append the records that the file lacks; return their number. Raises :class:`OSError`."""
    path = path or place()
    known = read(path)
    fresh = []
    for record in records:
        if _is_record(record) and (record := _of_today(record)) not in known:
            fresh.append(record)
            known.take(record)
    if not fresh:
        return 0
    # The newline at the beginning ends a line that was cut off.
    _append(path, "".join(f"\n{json.dumps(record)}" for record in fresh).encode() + b"\n")
    return len(fresh)


def trouble(path: Path | None = None) -> str | None:
    """Return the reason why nothing can be recorded here, or None."""
    try:
        path = path or place()
        _append(path, b"\n")  # an empty line, which tests whether it can be written
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return f"your progress cannot be recorded in {path or 'your home directory'}: {reason}"
    return None


def _append(path: Path, data: bytes) -> None:
    """Append in one write, so that the lines of two kernels do not mix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.write(handle, data) < len(data):
            raise OSError(f"{path}: the disk is full")
    finally:
        os.close(handle)


def asked_by_a_learner() -> bool:
    """Return True if a person ran the present cell in a notebook's front end.

    JupyterLab and similar front ends send the id of the cell with its code. Tests, the build, the
    grader and scripts do not. Cells of the solution notebooks do not count either.
    """
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    try:
        named = shell.get_parent()["metadata"].get("cellId")
    except (KeyError, AttributeError, TypeError):  # not in a kernel, or before its first message
        return False
    notebook = Path(os.environ.get("JPY_SESSION_NAME", ""))
    return bool(named) and notebook.parent.name != "solutions"


def _of_today(record: dict) -> dict:
    """Return the record with the present name of its lesson."""
    if "lesson" not in record:
        return record
    part = record.get("done", record.get("asked", ""))
    return {**record, "lesson": renamed.today(record["lesson"], part)}


def _is_record(record: object) -> bool:
    if not isinstance(record, dict):
        return False
    if "cell" in record:
        return _is_name(record["cell"])
    if not _is_name(record.get("lesson")):
        return False
    if "done" in record:
        return _is_name(record["done"])
    if "asked" in record:
        return _is_name(record["asked"]) and _is_name(record.get("guess"))
    numbers = record.get("points"), record.get("of")
    return all(
        isinstance(n, int | float) and not isinstance(n, bool) and 0 <= n < 1e6 for n in numbers
    )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME
