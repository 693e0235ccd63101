"""Counts of a class's guesses without names, from those who agree (``gpucourse room``).

A teacher makes a folder that everybody can write to; on a hub this is the shared folder::

    gpucourse room /shared/room               prints the counts; makes a missing folder

A learner who agrees joins in a terminal, or in a cell with ``!`` in front. A learner who does not
join shares nothing::

    gpucourse room /shared/room --join        from now on; --leave ends it

After that, each first answer to a ``predict(…)`` is also appended to a file in that folder. The
file has a random name that is drawn when the learner joins. It holds the lesson, the question and
the choice, but no user name and no time. The file system still records the owner of each file,
which is the learner if everybody has their own account on the machine.
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

#: A file with all predictions of the course takes 15 kB, so a longer file is not ours.
MOST_BYTES = 200_000
#: No class has more people than this, so further files are ignored.
MOST_FILES = 2_000


class NoRoom(CourseError, OSError):
    """The room's folder cannot be used; the message gives the reason."""


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
    """Return the file for this learner's guesses in the room's folder, or None."""
    try:
        said = json.loads(_place().read_bytes())
        return Path(said["folder"]) / f"{said['name']}.jsonl"
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        return None


def join(folder: Path) -> str:
    """Share guesses with the room from now on; return an explanation for the learner.

    Raises :class:`NoRoom` if the folder is missing or cannot be written to.
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
        f"From now on, your guesses are counted in {folder}. The question and your choice are "
        f"stored, without your name or the time.\nTo stop: gpucourse room {folder} --leave"
    )


def leave() -> str:
    """Stop sharing; guesses that were already shared still count."""
    _place().unlink(missing_ok=True)
    return "From now on, your guesses are not shared."


def share(lesson: str, asked: str, guess: str) -> None:
    """Add a guess to the room's file if the learner has joined; never raise."""
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
    """Return the guesses in a room's folder in the course's order.

    If the folder does not exist, it is made so that everybody can write to it. In each file, only
    the first guess at a question counts, and anything that is not a guess at a question of this
    course is ignored. Questions without an answer are left out. Raises :class:`NoRoom`.
    """
    try:
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o1777)  # as in /tmp, everybody may add files and remove only their own
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
    """Return a learner's file, or nothing for a link, a pipe or an unreadable file."""
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
