"""``gpucourse collect`` and ``export`` for a class that submits its work on Moodle or Canvas.

"Download all submissions" produces one zip file, and each file name in it contains the student's
number. The grade table is a CSV file that you export, fill with marks and import again. This
module identifies students by number, so it needs no names.
"""

from __future__ import annotations

import csv
import io
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rich.console import Console

from gpucourse.grading.classes.classroom import STUDENT, Classroom
from gpucourse.grading.classes.timestamps import STAMPS
from gpucourse.grading.limits import MEGABYTE, Limits
from gpucourse.grading.nbgrader.gradebook import GradebookWriter, configuration
from gpucourse.grading.verdict import as_text
from gpucourse.system.atomic import PRIVATE, write_atomically
from gpucourse.wording import many

# Limit on the total size of one zip file: 300 students with 10 MB each.
MOST_BYTES = 3000 * MEGABYTE
DONE, NOT_DONE = 0, 1
# Pattern of a file name that is only an extension.
NO_STEM = re.compile(r"\.(?:ipynb|zip|gz|7z|rar|py|html?|pdf|txt|json|md|docx?)", re.IGNORECASE)
# Files that are left out silently: macOS and Windows put them into their zip files.
OF_A_SYSTEM = "a system's own file"


@dataclass(frozen=True)
class Platform:
    """Naming of files on a platform, and its table's columns of students and marks."""

    title: str
    # Pattern of a path in the platform's zip file; its groups are id and file.
    path: re.Pattern[str]
    # Column with a student's number, and the pattern of the number in its text.
    column: str
    number: re.Pattern[str]
    # Column for marks, if it always has the same name, and the column with the highest mark.
    grade: str = ""
    highest: str = ""
    # Pattern of a path in the zip file that holds text typed into the platform instead of a file.
    text: re.Pattern[str] | None = None
    # Pattern of a row that holds the possible points instead of a student.
    possible: str = ""


PLATFORMS: Mapping[str, Platform] = {
    "moodle": Platform(
        "Moodle",
        re.compile(r"[^/]*_(?P<id>\d+)_assignsubmission_file(?:_/|_|/)(?P<file>.+)"),
        "Identifier",
        re.compile(r"(\d+)\s*$"),
        "Grade",
        "Maximum Grade",
        re.compile(r"[^/]*_\d+_assignsubmission_onlinetext(?:[_/].*)?(?:\.html?)?"),
    ),
    "canvas": Platform(
        "Canvas",
        re.compile(r"[^/_]+(?:_LATE)?_(?P<id>\d+)_\d+_(?P<file>.+)"),
        "ID",
        re.compile(r"^(\d+)$"),
        text=re.compile(r"[^/_]+(?:_LATE)?_\d+_(?:\d+_)?text\.html?"),
        possible="Points Possible",
    ),
}


class Wrong(RuntimeError):
    """Error for an impossible command; the message contains the reason and advice."""


def collect(
    root: Path,
    archive: Path,
    assignment: str,
    lms: str,
    *,
    update: bool = False,
    console: Console | None = None,
) -> int:
    """Unpack a platform's zip file into ``submitted/``; return the exit code."""
    return _telling(console, lambda tell: _collect(root, archive, assignment, lms, update, tell))


def export(
    root: Path,
    table: Path,
    assignment: str,
    lms: str,
    *,
    column: str = "",
    match: str = "",
    console: Console | None = None,
) -> int:
    """Write a copy of the platform's table with marks in it; return the exit code."""
    return _telling(
        console, lambda tell: _export(root, table, assignment, lms, column, match, tell)
    )


def _telling(console: Console | None, action: Callable[[Callable[[str], None]], None]) -> int:
    console = console or Console()
    try:
        action(lambda text: console.print(as_text(text), markup=False, soft_wrap=True))
    except (Wrong, OSError, zipfile.BadZipFile, csv.Error, UnicodeDecodeError) as error:
        console.print(f"Nothing was written. {error}", style="red", markup=False, soft_wrap=True)
        return NOT_DONE
    return DONE


def _platform(lms: str) -> Platform:
    if lms not in PLATFORMS:
        raise Wrong(f"--lms is one of {', '.join(PLATFORMS)}, not {lms!r}")
    return PLATFORMS[lms]


def _known(root: Path, assignment: str) -> Classroom:
    classroom = Classroom(root.resolve())
    if not classroom.sources(assignment):
        there = sorted(path.name for path in (root / "source").glob("*/"))
        raise Wrong(
            f"{root} has no source/{assignment}/. Run this in grading/; assignments: "
            + ", ".join(there)
        )
    return classroom


# --- files out of the zip -----------------------------------------------------------------------


def _collect(
    root: Path, archive: Path, assignment: str, lms: str, update: bool, tell: Callable[[str], None]
) -> None:
    platform = _platform(lms)
    classroom = _known(root, assignment)
    with zipfile.ZipFile(archive) as packed:
        unpacked = _files(packed, platform)
        found, strange = unpacked.files, unpacked.strange
        if not found and not unpacked.left_out:
            raise Wrong(
                f"No file in {archive.name} is named as {platform.title} names them"
                + (f" (for example '{strange[0]}')" if strange else "")
                + ". Is it the file of "
                '"download all submissions"?'
            )
        if (
            sum(entry.file_size for files in found.values() for entry in files.values())
            > MOST_BYTES
        ):
            raise Wrong(f"{archive.name} unpacks to more than {MOST_BYTES // MEGABYTE} MB")
        left = []
        for student, files in sorted(found.items()):
            folder = classroom.root / "submitted" / student / assignment
            if folder.exists() and not update:
                left.append(student)
                continue
            for old in folder.iterdir() if folder.exists() else ():
                old.unlink()
            for name, entry in files.items():
                write_atomically(folder / name, packed.read(entry), PRIVATE)
    handed_in = sum(bool(files) for files in found.values())
    tell(
        f"In submitted/ now: {many(handed_in - len(left), 'submission')} of {assignment}. The "
        f"file from {platform.title} does not say when work was handed in, so none counts as late."
    )
    if left:
        tell(
            f"Not replaced, because there was a submission already: {', '.join(left)}. To replace "
            "them with the files, use --update."
        )
    if unpacked.doubled:
        tell(
            "Several files of one name, in different folders, each kept with its folder's name: "
            f"{', '.join(dict.fromkeys(unpacked.doubled))}. If their answers differ, the student "
            "is asked which one counts."
        )
    for why, paths in unpacked.left_out.items():
        tell(f"Left out ({why}): {', '.join(paths)}")
    if nothing := sorted(student for student, files in found.items() if not files):
        tell(f"No file to grade from: {', '.join(nothing)}")
    if strange:
        tell(f"Left out, because the name contains no student's number: {', '.join(strange)}")


@dataclass
class Unpacked:
    """Files of a platform's zip, by student's number and file name, and the files left out."""

    files: dict[str, dict[str, zipfile.ZipInfo]] = field(default_factory=dict)
    # Paths that contain no student's number.
    strange: list[str] = field(default_factory=list)
    # Paths that are left out, by reason.
    left_out: dict[str, list[str]] = field(default_factory=dict)
    # Students with several files of the same name in different folders.
    doubled: list[str] = field(default_factory=list)


def _files(packed: zipfile.ZipFile, platform: Platform) -> Unpacked:
    """Return each student's files to write, by name, and the files left out.

    Only the last part of each name is used, so no file is written outside its student's folder. If
    several files have the same name, each is written under its folder's name and its own.
    """
    unpacked = Unpacked()
    found: dict[str, dict[str, list[tuple[str, zipfile.ZipInfo]]]] = {}
    for entry in packed.infolist():
        if entry.is_dir():
            continue
        if platform.text is not None and platform.text.fullmatch(entry.filename):
            why = "a text that was typed into the platform, where only files are graded"
            unpacked.left_out.setdefault(why, []).append(entry.filename)
            continue
        told = platform.path.fullmatch(entry.filename)
        path = PurePosixPath(told["file"].replace("\\", "/")) if told else PurePosixPath()
        name = f"unnamed{path.name}" if NO_STEM.fullmatch(path.name) else path.name
        if not told or not name or not STUDENT.fullmatch(name):
            unpacked.strange.append(entry.filename)
            continue
        files = found.setdefault(told["id"], {})
        if why := _unwanted(name, entry):
            if why != OF_A_SYSTEM:
                unpacked.left_out.setdefault(why, []).append(entry.filename)
            continue
        files.setdefault(name, []).append(("/".join(path.parts[:-1]), entry))
    for student, named in found.items():
        written = unpacked.files[student] = {}
        for name, entries in named.items():
            if len(entries) == 1:
                written[name] = entries[0][1]
                continue
            unpacked.doubled.append(student)
            for folder, entry in entries:
                written[_apart(name, folder, {*written, *named})] = entry
    return unpacked


def _unwanted(name: str, entry: zipfile.ZipInfo) -> str:
    """Return the reason to leave a file out; empty for one that is written."""
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "a link"
    if name.startswith(".") or entry.filename.startswith("__MACOSX/"):
        return OF_A_SYSTEM
    if name in STAMPS:
        return "a file that only the grader writes"
    if entry.file_size > Limits().upload_bytes:
        return f"larger than {Limits().upload_bytes // MEGABYTE} MB"
    return ""


def _apart(name: str, folder: str, taken: Collection[str]) -> str:
    """Return a file name that includes its folder's name, and a number if that name is taken."""
    stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
    words = re.sub(r"[^\w .-]+", " ", folder).strip() or "outermost"
    wanted, number = f"{stem} ({words}){suffix}", 2
    while wanted in taken:
        wanted, number = f"{stem} ({words} {number}){suffix}", number + 1
    return wanted


# --- marks into the table -----------------------------------------------------------------------


def _export(
    root: Path,
    table: Path,
    assignment: str,
    lms: str,
    column: str,
    match: str,
    tell: Callable[[str], None],
) -> None:
    platform = _platform(lms)
    classroom = _known(root, assignment)
    text = table.read_bytes().decode("utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    if not rows:
        raise Wrong(f"{table.name} is empty")
    heads = [head.strip() for head in rows[0]]
    by = _column(heads, match or platform.column, table, "--match")
    to = _column(heads, column or platform.grade or _only_grade(heads), table, "--column")
    marks, most, waiting = _marks(classroom, assignment)
    numbers = [_number(platform, row[by] if by < len(row) else "", bool(match)) for row in rows]
    doubles = {name for name, often in Counter(filter(None, numbers[1:])).items() if often > 1}
    highest: set[str] = set()
    for row, number in zip(rows[1:], numbers[1:], strict=True):
        row += [""] * (len(heads) - len(row))
        if platform.possible and row[0].strip() == platform.possible:
            highest.add(row[to])
        elif number in marks and number not in doubles:
            row[to] = f"{marks[number]:g}"
            if platform.highest in heads:
                highest.add(row[heads.index(platform.highest)])
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    target = table.with_name(f"{table.stem}-with-marks.csv")
    write_atomically(target, written.getvalue(), PRIVATE)
    filled = set(marks) & set(numbers[1:]) - doubles
    tell(
        f"{target.name}: {many(len(filled), 'mark')} of {assignment}, of {most:g} points. "
        f"Import it in {platform.title}."
    )
    for text in sorted(highest):
        _compare(text, most, platform, tell)
    for who, why in (
        (sorted(set(marks) - set(numbers[1:])), "graded, but not in the table"),
        (sorted(doubles & set(marks)), "more than once in the table, so left empty"),
        (sorted(set(waiting) & filled), "points by hand are still to be given"),
    ):
        if who:
            tell(f"{why}: {', '.join(who)}")


def _column(heads: list[str], name: str, table: Path, option: str) -> int:
    if name not in heads:
        wanted = f"has no column {name!r}" if name else "has several columns that fit"
        raise Wrong(
            f"{table.name} {wanted}; name one with {option}. There are: "
            + ", ".join(filter(None, heads))
        )
    return heads.index(name)


def _only_grade(heads: list[str]) -> str:
    """Return Canvas's column, whose name ends in the assignment's number; empty if not unique."""
    found = [head for head in heads if re.search(r"\(\d+\)$", head)]
    return found[0] if len(found) == 1 else ""


def _number(platform: Platform, text: str, whole: bool) -> str:
    """Return the student that a cell identifies; the whole cell if the teacher chose the column."""
    if whole:
        return text.strip()
    found = platform.number.search(text.strip())
    return found[1] if found else ""


def _marks(classroom: Classroom, assignment: str) -> tuple[dict[str, float], float, list[str]]:
    """Return each student's points less the late penalty, their maximum, and pending students.

    Pending work waits for points that a person gives.
    """
    with GradebookWriter(classroom, configuration(classroom.root)) as book:
        if not book.knows(assignment):
            raise Wrong(f"The gradebook has no entry for {assignment}: run gpucourse grade first")
        graded = book.gradebook.assignment_submissions(assignment)
        marks = {
            one.student.id: max(
                0.0,
                one.score
                - sum(notebook.late_submission_penalty or 0.0 for notebook in one.notebooks),
            )
            for one in graded
        }
        return (
            marks,
            book.gradebook.find_assignment(assignment).max_score,
            [one.student.id for one in graded if one.needs_manual_grade],
        )


def _compare(text: str, most: float, platform: Platform, tell: Callable[[str], None]) -> None:
    """Report a highest mark on the platform that differs from the project's points."""
    if re.fullmatch(r"\s*\d+([.,]\d+)?\s*", text) and float(text.replace(",", ".")) != most:
        tell(
            f"{platform.title} has {text.strip()} as the highest mark, but the project has "
            f"{most:g} points. The marks are points, so set the highest mark to {most:g} there; "
            "otherwise the platform shows wrong percentages."
        )
