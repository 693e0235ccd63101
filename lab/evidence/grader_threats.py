"""Every attempt in the list of threats, with the course's grader and with stock nbgrader.

    python -m lab.evidence.grader_threats            both; writes the results and the table (15 min)
    python -m lab.evidence.grader_threats 1 5 43     some rows; the others keep their saved results
    python -m lab.evidence.grader_threats --table    only the table, from the saved results

The submissions are those of ``tests/threats_*.py``, with the same files, assignments, tests and
virtual GPU for both. Stock nbgrader runs in bubblewrap without network, with the machine's files
read-only, and gets a minute per submission, so this trial does not rely on its own protection.
Each file that may stop it is graded in a class of two, with an honest classmate after it.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import lab.benchmarks.support  # noqa: F401
import threats
import threats_answers
import threats_class
import threats_files
import threats_kernels
import threats_neighbours
import threats_replies
import threats_time
import threats_verdict
from gpucourse.grading.sandbox.file_system import needed_paths
from gpucourse.grading.sandbox.levels import Sandbox
from gpucourse.grading.verdict import digest
from gpucourse.system.programs import search_path
from gpucourse.wording import shortened
from lab.benchmarks import report
from lab.benchmarks.support import REPOSITORY
from threats import Attempt, Course

ATTEMPTS = [
    *threats_verdict.ATTEMPTS,
    *threats_answers.ATTEMPTS,
    *threats_neighbours.ATTEMPTS,
    *threats_files.ATTEMPTS,
    *threats_kernels.ATTEMPTS,
    *threats_class.ATTEMPTS,
    *threats_replies.ATTEMPTS,
    *threats_time.ATTEMPTS,
]
# Rows whose files stop nbgrader, its kernel or the machine; each is graded in its own class.
ALONE = {11, 23, 24, 25, 26, 27, *range(32, 46), 61, 66, 67, 68, 71, 72}
# For the other rows only the points are compared; every page of stock feedback shows hidden tests.
ABOUT_FEEDBACK = {19, 20, 31}
# An attempt that plants something and the one that finds it must be in one class, so they are
# adjacent in the list.
LARGEST_CLASS = 10
CLASS_SECONDS, SUBMISSION_SECONDS = 60, 60
# Stock nbgrader's results so far, in an unfinished run.
UNFINISHED = REPOSITORY / "build" / "grader_threats_stock.json"
CONFIGURATION = """c = get_config()
c.CourseDirectory.course_id = "stock"
c.Execute.timeout = 20
"""
HONEST = "z-honest"
DOCUMENT = REPOSITORY / "lab" / "results" / "grader_threats.md"
BEGIN, END = "<!-- threats: python -m lab.evidence.grader_threats -->", "<!-- end of threats -->"


class Stock:
    """Stock nbgrader in its own course directory, inside a sandbox."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.course = Course(folder / "course")
        (folder / "home").mkdir(exist_ok=True)
        (self.course.root / "gradebook.db").unlink()
        (self.course.root / "nbgrader_config.py").write_text(CONFIGURATION)
        shutil.rmtree(self.course.root / "submitted")

    def moved(self, folder: Path) -> Stock:
        """Return the same course in a copy of the folder."""
        other = copy.copy(self)
        other.folder, other.course = folder, copy.copy(self.course)
        other.course.root = folder / "course"
        return other

    def run(self, *arguments: str) -> int | None:
        """Return the exit code of an nbgrader command; None if it did not end in time."""
        command = [
            "bwrap",
            "--die-with-parent",
            "--unshare-all",
            "--new-session",
            "--cap-drop",
            "ALL",
            "--ro-bind",
            "/",
            "/",
            "--tmpfs",
            "/tmp",
        ]
        for path in (*needed_paths(), str(REPOSITORY)):
            command += ["--ro-bind", path, path]
        command += [
            "--bind",
            str(self.folder),
            str(self.folder),
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--chdir",
            str(self.course.root),
            "--clearenv",
        ]
        for name, value in {
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
            "SECRET_TOKEN": "hunter2",
            "JUPYTER_PLATFORM_DIRS": "1",
            "VIRTUALGPU_TIME_LIMIT": "10",
            "PATH": search_path(),
        }.items():
            command += ["--setenv", name, value]
        command += [sys.executable, "-m", "nbgrader", *arguments]
        with open(self.folder / "log.txt", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                return process.wait(CLASS_SECONDS + SUBMISSION_SECONDS * len(self.students()))
            except subprocess.TimeoutExpired:
                return None
            finally:
                process.kill()
                process.wait()

    def students(self) -> list[Path]:
        return list((self.course.root / "submitted").glob("*"))

    def grade(self, assignment: str, attempts: list[Attempt]) -> dict[str, dict]:
        """Grade a class of `attempts` and an honest classmate; return each attempt's outcome."""
        for attempt in [*attempts, Attempt(0, HONEST, "", assignment=assignment)]:
            self.course.hand_in(attempt)
        if any(attempt.row == 21 for attempt in attempts):
            self.course.hand_in(Attempt(0, "a-victim", ""))
        ended = self.run("autograde", assignment)
        scores = self.scores(assignment)
        if ABOUT_FEEDBACK & {attempt.row for attempt in attempts}:
            self.run("generate_feedback", assignment)
        found = {}
        for attempt in attempts:
            notes = [] if scores.get(HONEST) == 5.0 else ["stops the class"]
            if ended is None:
                notes.append("does not end")
            notes += self.left_behind(assignment, attempt)
            found[attempt.name] = {"points": scores.get(attempt.name), "notes": notes}
        return found

    def scores(self, assignment: str) -> dict[str, float]:
        """Return the points in the gradebook of students whose notebook was kept."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.course.root / 'gradebook.db'}", "stock") as gradebook:
            return {
                submission.student.id: float(submission.score)
                for submission in gradebook.assignment_submissions(assignment)
                if (self.course.root / "autograded" / submission.student.id).is_dir()
            }

    def left_behind(self, assignment: str, attempt: Attempt) -> list[str]:
        """Return leftovers that the instructor or the student should not find."""
        notes, name = [], attempt.name
        feedback = self.course.root / "feedback" / name / assignment
        for path in feedback.rglob("*") if attempt.row in ABOUT_FEEDBACK else ():
            if not path.is_file():
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            if threats.MARK.decode() in text:
                notes.append(
                    "feedback shows the hidden tests"
                    if path.suffix == ".html"
                    else "feedback holds the instructor's notebook"
                )
            if threats_neighbours.SCRIPT in text:
                notes.append("feedback runs the script")
        for path in (self.course.root / "autograded" / name).rglob("*.ipynb"):
            if path.stat().st_size > 5_000_000:
                notes.append(f"leaves a notebook of {path.stat().st_size / 1e6:.0f} MB")
        return notes


def ours(attempts: list[Attempt], folder: Path) -> dict[str, dict]:
    """Return points and reason of each attempt from the course's grader, in the sandbox."""
    os.environ["SECRET_TOKEN"] = "hunter2"
    course = Course(folder / "ours")
    found = {}
    with Sandbox([course.root], threats.LIMITS) as sandbox:
        for attempt in attempts:
            verdict = course.grade(attempt, sandbox.server)
            wrong = threats.faults(attempt, verdict)
            found[attempt.name] = {
                "points": verdict.earned,
                "reason": one_line(verdict),
                "isolation": sandbox.level,
                "as expected": not wrong,
            }
    return found


def one_line(verdict) -> str:
    text = verdict.first_reason() or " ".join(verdict.notices[:1])
    return " ".join(text.split())[:200]


def key(attempt: Attempt) -> str:
    """Return a key of the submission, so that an older result is not used for a changed one."""
    return f"{attempt.name} {digest(json.dumps(attempt.cells))[:12]}"


def classes(attempts: list[Attempt]) -> list[list[Attempt]]:
    """Return small classes to grade together, in the order of the list."""
    found = [[attempt] for attempt in attempts if attempt.row in ALONE]
    for name in threats.NOTEBOOKS:
        members = [
            attempt
            for attempt in attempts
            if attempt.row not in ALONE and attempt.assignment == name
        ]
        found += [
            members[start : start + LARGEST_CLASS]
            for start in range(0, len(members), LARGEST_CLASS)
        ]
    return found


def stock(attempts: list[Attempt], folder: Path) -> dict[str, dict]:
    """Grade with stock nbgrader, continuing an interrupted run."""
    known = json.loads(UNFINISHED.read_text()) if UNFINISHED.exists() else {}
    asked = [attempt for attempt in attempts if not attempt.stock and key(attempt) not in known]
    templates = {}
    for name in threats.NOTEBOOKS:
        templates[name] = Stock(folder / f"stock-{name}")
        if templates[name].run("generate_assignment", name) != 0:
            sys.exit((templates[name].folder / "log.txt").read_text()[-2000:])
    for number, members in enumerate(classes(asked)):
        assignment = members[0].assignment
        place = folder / f"class-{number}"
        shutil.copytree(templates[assignment].folder, place, symlinks=True)
        found = templates[assignment].moved(place).grade(assignment, members)
        for attempt in members:
            known[key(attempt)] = found[attempt.name]
            print(f"stock nbgrader: {attempt.name} {found[attempt.name]}", flush=True)
        UNFINISHED.parent.mkdir(exist_ok=True)
        UNFINISHED.write_text(json.dumps(known))
        shutil.rmtree(place, ignore_errors=True)
    return {attempt.name: known[key(attempt)] for attempt in attempts if not attempt.stock}


def table(rows: list[dict]) -> str:
    """Return the Markdown table of lab/results/grader_threats.md."""
    lines = ["| | what the submission tries | this grader | stock nbgrader |", "|--:|---|---|---|"]
    for row in rows:
        mine, theirs = row["ours"], row["stock"]
        reason = f": {shortened(mine['reason'], 90)}" if mine["reason"] else ""
        points = "no grade" if mine["points"] is None else f"{mine['points']:g} of 5"
        lines.append(
            f"| {row['row']} | {escape(row['tries'])} | {points}"
            f"{escape(reason)} | {escape(told(row, theirs))} |"
        )
    return "\n".join(lines)


def told(row: dict, theirs: dict) -> str:
    """Return stock nbgrader's cell of the table."""
    if "not asked" in theirs:
        return f"not asked: {theirs['not asked']}"
    points = theirs["points"]
    text = "no grade" if points is None else f"{points:g} of 5"
    if points is not None and points > row["deserves"]:
        text = f"**{text}**"
    return ", ".join([text, *theirs["notes"]])


def escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def summary(rows: list[dict]) -> dict:
    """Return the counts that the documentation states."""
    asked = [row for row in rows if "not asked" not in row["stock"]]
    return {
        "attempts": len(rows),
        "as expected by this grader": sum(row["ours"]["as expected"] for row in rows),
        "put to stock nbgrader": len(asked),
        "given more points than deserved by stock": sum(
            (row["stock"]["points"] or 0) > row["deserves"] for row in asked
        ),
        "given fewer, or no grade, by stock": sum(
            row["stock"]["points"] is None or row["stock"]["points"] < row["deserves"]
            for row in asked
        ),
        "stopped stock's class": sum("stops the class" in row["stock"]["notes"] for row in asked),
    }


def with_table(document: str, rows: list[dict]) -> str:
    """Return lab/results/grader_threats.md with the table of these results."""
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", type=int, help="numbers of the list; default: all")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    parser.add_argument("--check", action="store_true", help="fail if that table is not current")
    options = parser.parse_args()
    results = report.RESULTS / "grader_threats.json"
    if options.table or options.check:
        rows = json.loads(results.read_text())["results"]["rows"]
        current = DOCUMENT.read_text()
        if options.check:
            return 0 if with_table(current, rows) == current else 1
        DOCUMENT.write_text(with_table(current, rows))
        return 0
    attempts = [attempt for attempt in ATTEMPTS if not options.rows or attempt.row in options.rows]
    # The first letter makes nbgrader grade it before the honest classmate.
    attempts = [replace(attempt, name=f"t{attempt.row:02}-{attempt.name}") for attempt in attempts]
    with tempfile.TemporaryDirectory(prefix="threats-") as name:
        folder = Path(name)
        mine, theirs = ours(attempts, folder), stock(attempts, folder)
    rows = [
        {
            "row": attempt.row,
            "name": attempt.name,
            "tries": attempt.tries,
            "deserves": sum(attempt.earns),
            "ours": mine[attempt.name],
            "stock": {"not asked": attempt.stock} if attempt.stock else theirs[attempt.name],
        }
        for attempt in attempts
    ]
    print(table(rows))
    if options.rows:
        known = json.loads(results.read_text())["results"]["rows"]
        rows += [row for row in known if row["row"] not in options.rows]
        order = [f"t{attempt.row:02}-{attempt.name}" for attempt in ATTEMPTS]
        rows.sort(key=lambda row: order.index(row["name"]))
    print(json.dumps(summary(rows), indent=1))
    print(report.write("grader_threats", {"summary": summary(rows), "rows": rows}))
    UNFINISHED.unlink(missing_ok=True)
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(), rows))
    return 0 if all(row["ours"]["as expected"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
