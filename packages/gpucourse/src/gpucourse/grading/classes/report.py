"""Report of a class for an instructor: summary, page, plot, CSV files and single explanations."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpucourse.grading.classes.page import page, tests
from gpucourse.grading.classes.similarity import Pair
from gpucourse.grading.oracle.confined import lacking
from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT, STUDENT_FAULT, Verdict
from gpucourse.system.atomic import write_atomically
from gpucourse.wording import many, shortened

# Colours from the palette of Okabe and Ito.
BLUE, VERMILION = "#0072B2", "#D55E00"
# A larger class is only summarised on screen; the CSV file has every student.
LISTED = 60
REASON_LENGTH = 80
# The first mistakes of a submission are listed, followed by the number of the others.
MISTAKES = 2
# Part of the reason of a test whose answer cell is unchanged since its release.
NOT_WRITTEN = "nothing is written"


def show(assignment: str, verdicts: Sequence[Verdict], console: Console) -> None:
    """Print a line for each submission of a small class, and a summary of the tests.

    Reasons are shortened to one line only on a terminal; in a file they are complete.
    """
    most = REASON_LENGTH if console.is_terminal else None
    if len(verdicts) <= LISTED:
        table = Table(title=assignment, title_justify="left")
        table.add_column("student", no_wrap=True)
        table.add_column("points", justify="right", no_wrap=True)
        table.add_column("what to know")
        for verdict in verdicts:
            earned = "—" if verdict.earned is None else f"{verdict.earned:g}/{verdict.points:g}"
            table.add_row(escape(verdict.student), earned, escape(one_line(verdict, most)))
        console.print(table)
    graded = [verdict for verdict in verdicts if verdict.earned is not None]
    if graded:
        console.print(_tests(graded, most))
        scores = [verdict.earned or 0.0 for verdict in graded]
        console.print(
            f"{assignment}: {len(graded)} graded, mean {statistics.mean(scores):.3g}, median "
            f"{statistics.median(scores):.3g} of {max(v.points for v in graded):g}; isolation: "
            + ", ".join(sorted({v.isolation for v in graded}))
            + lacking(v.oracle for v in graded),
            markup=False,
        )
    faults = [verdict for verdict in verdicts if verdict.kind == INFRASTRUCTURE_FAULT]
    if faults:
        console.print(
            f"{len(faults)} not graded because of a fault of the grader; grade again:", style="red"
        )
        for verdict in faults:
            console.print(f"  {verdict.student}: {verdict.reason}", markup=False)


def _tests(graded: Sequence[Verdict], most: int | None) -> Table:
    """Return a table of each test's results, which the students' total scores do not show."""
    table = Table(title="tests", title_justify="left")
    table.add_column("test")
    table.add_column("all points", justify="right")
    table.add_column("most frequent reason")
    for name, passed, often in tests(graded):
        usual = often[0][0] if often else ""
        table.add_row(escape(name), passed, escape(shortened(" ".join(usual.split()), most)))
    return table


def one_line(verdict: Verdict, most: int | None = REASON_LENGTH) -> str:
    """Return a reason in one line of at most `most` characters, or all of it if None."""
    told = own_reason(verdict) or next(iter(verdict.notices), "")
    return shortened(" ".join(told.split()), most)


def own_reason(verdict: Verdict) -> str:
    """Return the reason that is specific to this submission; mistakes come before empty cells."""
    failed = [outcome for outcome in verdict.tests if outcome.reason]
    if verdict.reason or len(failed) < 2:
        return verdict.first_reason()
    mistakes = [outcome for outcome in failed if NOT_WRITTEN not in outcome.reason]
    empty = len(failed) - len(mistakes)
    told = [f"{outcome.test}: {outcome.reason}" for outcome in mistakes[:MISTAKES]]
    if more := len(mistakes[MISTAKES:]):
        told.append(f"{many(more, 'more test')} failed")
    if empty:
        told.append(f"{many(empty, 'test')} without an answer yet")
    return "; ".join(told)


def write(
    folder: Path, assignment: str, verdicts: Sequence[Verdict], pairs: Sequence[Pair] | None = None
) -> list[Path]:
    """Write the class's report into `folder`; return the paths.

    The files are ``class.html``, ``scores.csv``, ``scores.png`` and, if `pairs` is given,
    ``similar.csv``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "class.html", folder / "scores.csv"]
    write_atomically(paths[0], page(assignment, verdicts, pairs))
    write_atomically(paths[1], as_csv(verdicts))
    if pairs is not None:
        paths.append(folder / "similar.csv")
        write_atomically(paths[-1], pairs_as_csv(pairs))
    graded = [verdict for verdict in verdicts if verdict.earned is not None]
    if graded:
        paths.append(folder / "scores.png")
        plot(assignment, graded, paths[-1])
    return paths


def as_csv(verdicts: Sequence[Verdict]) -> str:
    """Return one row for each notebook: student, kind, points, points of each test, reason."""
    names = list(dict.fromkeys(o.test for verdict in verdicts for o in verdict.tests))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "student",
            "notebook",
            "kind",
            "score",
            "max_score",
            *names,
            "reason",
            "isolation",
            "device",
            "seconds",
        ]
    )
    for verdict in verdicts:
        earned = {outcome.test: outcome.earned for outcome in verdict.tests}
        score = ["", ""] if verdict.earned is None else [verdict.earned, verdict.points]
        writer.writerow(
            [
                plain(verdict.student),
                verdict.notebook,
                verdict.kind,
                *score,
                *(earned.get(test, "") for test in names),
                plain(own_reason(verdict)),
                verdict.isolation,
                verdict.device,
                verdict.seconds,
            ]
        )
    return text.getvalue()


def pairs_as_csv(pairs: Sequence[Pair]) -> str:
    """Return one row for each student of a pair, with the other student and the share in common."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["student", "with", "in_common"])
    for pair in pairs:
        for student in pair.other:
            writer.writerow([plain(student), plain("; ".join(pair.one)), f"{pair.share:.3f}"])
    return text.getvalue()


def plain(text: str) -> str:
    """Return `text` in a form that a spreadsheet shows as text and does not run as a formula."""
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def plot(assignment: str, graded: Sequence[Verdict], path: Path) -> None:
    """Plot the number of students by points, for the total and for each test."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    most = max(verdict.points for verdict in graded)
    scores = [verdict.earned or 0.0 for verdict in graded]
    left.hist(scores, bins=min(20, max(5, round(most))), range=(0, most or 1), color=BLUE)
    left.axvline(statistics.mean(scores), color=VERMILION, linestyle="--", label="mean")
    left.set(xlabel="points", ylabel="submissions", title=assignment)
    left.legend(frameon=False)
    tests = list(dict.fromkeys(o.test for verdict in graded for o in verdict.tests))
    shares = [
        statistics.mean(o.passed for v in graded for o in v.tests if o.test == test)
        for test in tests
    ]
    right.barh(range(len(tests)), [100 * share for share in shares], color=BLUE)
    right.set_yticks(range(len(tests)), tests)
    right.invert_yaxis()
    right.set(xlim=(0, 100), xlabel="have all points (%)", title="tests")
    figure.savefig(path, dpi=120)


def explain(stored: Verdict | None, now: Verdict, console: Console) -> None:
    """Explain a submission's result to the instructor, including hidden values."""
    if now.earned is None:
        console.print(
            f"{now.student}: {now.notebook}: the grader failed: {now.reason}",
            style="red",
            markup=False,
        )
        return
    console.print(
        f"{now.student}: {now.notebook}: {now.earned:g} of {now.points:g} points",
        style="bold",
        markup=False,
    )
    if now.kind == STUDENT_FAULT:
        console.print(f"  {now.reason}", markup=False)
    for outcome in now.tests:
        mark = "✓" if outcome.passed else "✗"
        console.print(
            f"  {mark} {outcome.test}: {outcome.earned:g} of {outcome.points:g} "
            f"({outcome.seconds:.1f} s)",
            markup=False,
        )
        if not outcome.passed and now.kind != STUDENT_FAULT:
            console.print(f"      told: {outcome.reason}", markup=False)
            for line in outcome.detail.splitlines():
                console.print(f"      hidden: {line}", style="yellow", markup=False)
    for notice in now.notices:
        console.print(f"  • {notice}", markup=False)
    console.print(
        f"  seed {now.seed}; work {now.submission_digest[:12]}, tests "
        f"{now.assignment_digest[:12]}; {now.device}; isolation {now.isolation}",
        style="dim",
        markup=False,
    )
    console.print("  " + compared(stored, now), style="dim", markup=False)


def compared(stored: Verdict | None, now: Verdict) -> str:
    """Return a sentence that compares a verdict with the stored one."""
    if stored is None:
        return "There is no stored verdict."
    if stored.submission_digest != now.submission_digest:
        return "The stored verdict is about other work: the student has submitted again since then."
    if stored.assignment_digest != now.assignment_digest:
        return "The stored verdict is about other tests: the assignment has changed since then."
    same = [(o.test, o.earned, o.reason) for o in stored.tests] == [
        (o.test, o.earned, o.reason) for o in now.tests
    ]
    if same:
        return "The stored verdict is the same."
    return (
        f"THE STORED VERDICT DIFFERS: {stored.earned} points, {stored.first_reason()!r}. The same "
        "seed should give the same verdict. `gpucourse regrade` stores the new one."
    )
