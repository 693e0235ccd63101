"""``gpucourse room``: a room's guesses as counts without names, from those who agree.

A teacher makes a folder that all can write to, on a hub the shared one::

    gpucourse room /shared/room               the counts; makes the folder where there is none

A learner who agrees joins, in a terminal or in a cell with ``!`` in front; who does not join shares
nothing::

    gpucourse room /shared/room --join        from now on, and --leave ends it

From then on each first answer of a ``predict(…)`` is also added to a file in that folder, with a
name drawn by chance at joining: lesson, question, choice, no user and no time. The file system
still knows the owner of each file: the learner, where each has an account on the machine.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from gpucourse.course.checkout import course_folder, registry
from gpucourse.course.predictions import Prediction, find_predictions
from gpucourse.learner import records
from gpucourse.system.atomic import write_atomically
from gpucourse.system.errors import CourseError

#: A file of all predictions of the course takes 15 kB; what is longer is not ours.
MOST_BYTES = 200_000
#: More files than people fit into any room are not ours either.
MOST_FILES = 2_000


class NoRoom(CourseError, OSError):
    """The room's folder cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Guesses:
    """Counts of the choices of one prediction."""

    lesson: str
    asked: Prediction
    counts: Counter[str]

    def __str__(self) -> str:
        total = self.counts.total()
        lines = [f"{self.lesson}: {self.asked.name}, {total} answered"]
        for choice in sorted(self.asked.choices, key=lambda c: (-self.counts[c], c)):
            bar = "#" * round(20 * self.counts[choice] / total)
            sign = "✓" if choice == self.asked.right else " "
            lines.append(f"  {sign} {self.counts[choice]:4} {bar:20} {choice}")
        return "\n".join(lines)


def joined() -> Path | None:
    """Return the file for this learner's guesses in a room's folder; None without a room."""
    try:
        said = json.loads(_place().read_bytes())
        return Path(said["folder"]) / f"{said['name']}.jsonl"
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        return None


def join(folder: Path) -> str:
    """Share guesses with the room from now on; return an explanation to show.

    Raises :class:`NoRoom` where the folder is missing or takes no file.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise NoRoom(
            f"{folder} is not a folder. Ask your teacher to make it with `gpucourse room {folder}`"
        )
    name = secrets.token_hex(8)
    try:
        (folder / f"{name}.jsonl").touch(0o644, exist_ok=False)
        write_atomically(_place(), json.dumps({"folder": str(folder), "name": name}))
    except OSError as error:
        raise NoRoom(f"you cannot join {folder}: {error.strerror or error}") from None
    return (
        f"Your next guesses count in {folder}: which question and which choice, without your "
        f"name or the time.\nTo stop: gpucourse room {folder} --leave"
    )


def leave() -> str:
    """Stop sharing; guesses already shared stay counted."""
    _place().unlink(missing_ok=True)
    return "Your next guesses are not shared."


def share(lesson: str, asked: str, guess: str) -> None:
    """Add a guess to the room's file, if the learner has joined. Never raises."""
    try:
        if (path := joined()) is not None:
            record = json.dumps({"lesson": lesson, "asked": asked, "guess": guess})
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            try:
                os.write(handle, f"{record}\n".encode())
            finally:
                os.close(handle)
    except OSError:
        return


def counts(folder: Path) -> list[Guesses]:
    """Return the guesses in a room's folder, in the course's order.

    Questions without an answer are left out.

    Makes the folder, for all to write to, where there is none. Of each file the first guess at a
    question counts; what is no guess at a question of this course counts for nothing.
    Raises :class:`NoRoom`.
    """
    try:
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o1777)  # as /tmp: everybody adds files, and removes only their own
        paths = sorted(folder.glob("*.jsonl"))[:MOST_FILES]
    except OSError as error:
        raise NoRoom(f"{folder}: {error.strerror or error}") from None
    taken: dict[tuple[str, str], Counter[str]] = {}
    for path in paths:
        for id, answers in records.collect(records.parse(_read(path))).guesses.items():
            for name, guess in answers.items():
                taken.setdefault((id, name), Counter())[guess] += 1
    found = []
    for lesson in registry(course_folder()).lessons:
        for asked in find_predictions(lesson.id).values():
            known = {
                choice: number
                for choice, number in taken.get((lesson.id, asked.name), {}).items()
                if choice in asked.choices
            }
            if known:
                found.append(Guesses(lesson.id, asked, Counter(known)))
    return found


def _read(path: Path) -> bytes:
    """Return a learner's file; empty for a link, a pipe, or a file of unexpected size."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return b""
            return file.read(MOST_BYTES)
    except OSError:
        return b""


def _place() -> Path:
    return records.place().with_name("room.json")
