"""Hand-in time of a submission, and the two files that nbgrader keeps beside it.

An unknown time is stored as no time and never as a guess, because nbgrader would compute lateness
from a guess and subtract points for it. nbgrader treats an empty ``timestamp.txt`` as no time.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpucourse.grading.submission.reading import Unreadable, read_bytes
from gpucourse.grading.verdict import as_text
from gpucourse.system.atomic import PRIVATE, write_atomically

TIMESTAMP, SECRET = "timestamp.txt", "submission_secret.txt"
# nbgrader's own files beside the notebook contain a time and 128 hexadecimal digits.
STAMPS = (TIMESTAMP, SECRET)
STAMP_BYTES = 200
# Characters of a date, a time and the name of a time zone. dateutil would interpret a path as a
# time zone and read that file.
TIME = re.compile(r"[A-Za-z0-9:.,+ -]{1,60}")
# A time with its offset from UTC, in three words.
OFFSET = re.compile(r"(\S+ \S+) ([+-])(\d{1,2}):?(\d\d)?")
# The largest offset from UTC on Earth, that of Kiritimati.
FARTHEST = timedelta(hours=14)
# Tolerance between two correct clocks.
APART = timedelta(minutes=5)


@dataclass(frozen=True)
class Stamp:
    """Time at which a submission was handed in, as nbgrader writes it.

    It is empty if the time is unknown; `why` then contains the reason.
    """

    time: str
    why: str = ""


def stamp(folder: Path, refused: Path | None = None) -> Stamp:
    """Return the time in a submission's ``timestamp.txt`` if it is possible.

    The file is written on the student's machine. A time in the future shows that the clock of that
    machine is wrong. `refused` is a file that stores such a time, so that it stays refused when it
    is no longer in the future: a grade must not change because a day has passed.
    """
    from dateutil.tz import gettz
    from nbgrader.utils import parse_utc

    if not os.path.lexists(folder / TIMESTAMP):
        return Stamp("", "there is no timestamp.txt")
    try:
        time = read_bytes(folder / TIMESTAMP, STAMP_BYTES).decode("ascii").strip()
        if not time:
            return Stamp("", "timestamp.txt is empty")
        if not TIME.fullmatch(time):
            raise ValueError
        if (offset := OFFSET.fullmatch(time)) is not None:
            # nbgrader interprets +0100 as a hundred seconds and ignores +01:00.
            time = _in_utc(*offset.groups())
        elif len(words := time.split(" ")) == 3 and words[2] != "Z" and gettz(words[2]) is None:
            return Stamp(
                "",
                f"timestamp.txt says {as_text(time)}, and its time zone is not known: write the "
                "time as 2026-11-30 22:59:00 UTC, or delete the file",
            )
        told = parse_utc(time)
        now = datetime.now(UTC).replace(tzinfo=None)
        to_come = told > now + APART
    except Exception:  # The parser may raise anything; it must not stop a class.
        return Stamp(
            "",
            "timestamp.txt contains no readable time, and formgrader stops at it: delete it, or "
            "write the correct time into it",
        )
    if to_come and refused is not None:
        write_atomically(refused, time, PRIVATE)
    if to_come or (refused is not None and _text(refused) == time):
        return Stamp(
            "",
            f"timestamp.txt says {as_text(time)}, which was in the future when it was read: write "
            "the correct time into it, or delete it",
        )
    return Stamp(time)


def _in_utc(time: str, sign: str, hours: str, minutes: str | None) -> str:
    """Convert a time with an offset to UTC, in nbgrader's format."""
    from dateutil import parser

    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if offset > FARTHEST:
        raise ValueError
    moment = parser.parse(time) - (offset if sign == "+" else -offset)
    return f"{moment:%Y-%m-%d %H:%M:%S.%f} UTC"


def copy_stamps(folder: Path, target: Path, refused: Path | None = None) -> None:
    """Copy nbgrader's ``timestamp.txt`` and ``submission_secret.txt``, or write replacements.

    Both are written on the student's machine. nbgrader stops at a time that it cannot read, and if
    one submission lacks either file, it cannot release feedback to anybody. An unknown time is
    therefore replaced by an empty file, and a missing secret by a random one.
    """
    update(target / TIMESTAMP, stamp(folder, refused).time)
    try:
        update(target / SECRET, read_bytes(folder / SECRET, STAMP_BYTES).decode("ascii").strip())
    except (Unreadable, ValueError):
        if not (target / SECRET).exists():
            update(target / SECRET, secrets.token_hex(64))


def update(path: Path, text: str) -> None:
    """Write `text` unless the file already contains it."""
    if _text(path) != text:
        write_atomically(path, text, PRIVATE)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None
