"""HTML page about a class, for its teacher.

It shows the reasons of failed tests with their frequency, the grading times, the students whose
counts came close to a bound and, on request, the submissions that resemble each other.

All text on the page that a student may have chosen is escaped and bounded in length, and the
page's content security policy forbids scripts.
"""

from __future__ import annotations

import html
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpucourse.grading.classes.similarity import LEAST, Pair
from gpucourse.grading.verdict import (
    GRADED,
    INFRASTRUCTURE_FAULT,
    STUDENT_FAULT,
    Verdict,
    as_text,
)
from gpucourse.wording import many, shortened

REASONS = 3  # for each test
SLOWEST = 10
NEAREST = 30
LENGTH = 300  # characters of one entry
NAMES = 12_000  # characters of all names of similar students; similar.csv has the rest

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid #8888; max-width: 30rem; overflow-wrap: break-word }}
</style></head><body>
<h1>{title}</h1>
"""


def page(assignment: str, verdicts: Sequence[Verdict], pairs: Sequence[Pair] | None = None) -> str:
    """Return the page as HTML; `pairs` is None if similarity was not requested."""
    graded = [verdict for verdict in verdicts if verdict.earned is not None]
    parts = [HEAD.format(title=_text(assignment)), _paragraph(_summary(verdicts, graded))]
    if graded:
        parts += [
            "<h2>Tests</h2>",
            _table(
                ("test", "all points", "most frequent reasons"),
                [
                    (name, passed, "\n".join(f"{count} × {_short(text)}" for text, count in often))
                    for name, passed, often in tests(graded)
                ],
            ),
        ]
        parts += ["<h2>Time</h2>", *_time(graded)]
        parts += ["<h2>Near a bound</h2>", *_near(graded)]
    if pairs is not None:
        parts += ["<h2>Submissions that resemble each other</h2>", *_pairs(pairs)]
    return "\n".join([*parts, "</body></html>", ""])


def tests(graded: Sequence[Verdict]) -> Iterator[tuple[str, str, list[tuple[str, int]]]]:
    """Yield each test, the number of full scores and the most frequent reasons with their counts.

    Faults that kept a whole file from running are not counted.
    """
    names = dict.fromkeys(outcome.test for verdict in graded for outcome in verdict.tests)
    for name in names:
        found = [(v, o) for v in graded for o in v.tests if o.test == name]
        reasons = Counter(o.reason for v, o in found if v.kind == GRADED and o.reason)
        passed = sum(outcome.passed for _, outcome in found)
        yield name, f"{passed} of {len(found)}", reasons.most_common(REASONS)


def _summary(verdicts: Sequence[Verdict], graded: Sequence[Verdict]) -> str:
    text = f"{len(graded)} of {len(verdicts)} graded."
    if graded:
        scores = [verdict.earned or 0.0 for verdict in graded]
        text += (
            f" Mean {statistics.mean(scores):.3g}, median {statistics.median(scores):.3g} of "
            f"{max(verdict.points for verdict in graded):g} points."
        )
    if nothing := sum(verdict.kind == STUDENT_FAULT for verdict in graded):
        text += f" {nothing} had nothing to run and got 0 points."
    faults = sum(verdict.kind == INFRASTRUCTURE_FAULT for verdict in verdicts)
    if faults:
        text += (
            f" {many(faults, 'submission')} could not be graded because of a fault of this "
            "machine; grade them again."
        )
    return text


def _time(graded: Sequence[Verdict]) -> list[str]:
    ran = [verdict for verdict in graded if verdict.kind == GRADED]
    if not ran:
        return [_paragraph("There was nothing to run.")]
    seconds = [verdict.seconds for verdict in ran]
    rows = []
    for verdict in sorted(ran, key=lambda verdict: -verdict.seconds)[:SLOWEST]:
        longest = max(verdict.tests, key=lambda outcome: outcome.seconds, default=None)
        rows.append(
            (
                verdict.student,
                f"{verdict.seconds:.1f}",
                "" if longest is None else f"{longest.test}: {longest.seconds:.1f}",
            )
        )
    return [
        _paragraph(
            f"A submission took {statistics.median(seconds):.1f} s (median); all together took "
            f"{sum(seconds):.0f} s, including the time spent waiting for a processor."
        ),
        _table(("student", "seconds", "longest test"), rows),
    ]


def _near(graded: Sequence[Verdict]) -> list[str]:
    near = [
        (verdict.student, outcome.test, outcome.near)
        for verdict in graded
        for outcome in verdict.tests
        if outcome.near and outcome.passed
    ]
    if not near:
        return [_paragraph("No answer that earned its points came near a limit on its counts.")]
    return [
        _paragraph(
            f"{many(len(near), 'answer')} came near a limit on counts, but earned the points. "
            "With counts a quarter higher, the points would have been lost. Look at these "
            "answers: if a correct style comes so near, raise the limit."
        ),
        _table(("student", "test", "limit that was nearly exceeded"), near[:NEAREST]),
    ]


def _pairs(pairs: Sequence[Pair]) -> list[str]:
    said = _paragraph(
        f"These answers have at least {LEAST:.0%} of their tokens in common, in the same order. "
        "Each resembles another answer or a public solution. That does not show who wrote them, "
        "because short exercises have few right answers."
    )
    if not pairs:
        return [said, _paragraph("There are none.")]
    rows, room = [], NAMES
    for pair in pairs:
        one, room = _names(pair.one, room)
        other, room = _names(pair.other, room)
        rows.append((one, other, f"{pair.share:.0%}"))
        if room <= 0:
            break
    table = _table(("students", "and", "in common"), rows, NAMES)
    left = len(pairs) - len(rows)
    return [
        said,
        table,
        *([_paragraph(f"{left} more pairs are in similar.csv.")] if left else []),
    ]


def _names(students: Sequence[str], room: int) -> tuple[str, int]:
    """Return the names that fit into a number of characters, and how many names remain."""
    shown: list[str] = []
    for student in students:
        room -= len(_short(student)) + 2
        if room <= 0:
            return ", ".join([*shown, f"and {len(students) - len(shown)} more"]), 0
        shown.append(_short(student))
    return ", ".join(shown), room


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], most: int = 0) -> str:
    def cells(kind: str, row: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{kind}>{_text(cell, most)}</{kind}>" for cell in row) + "</tr>"

    return "\n".join(
        ["<table>", cells("th", heads), *(cells("td", row) for row in rows), "</table>"]
    )


def _paragraph(text: str) -> str:
    return f"<p>{_text(text)}</p>"


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), LENGTH)


def _text(text: str, most: int = 0) -> str:
    """Escape text line by line and shorten it to `most` characters, if given."""
    lines = as_text(text[: most or (REASONS + 1) * LENGTH]).split("\n")
    return "<br>".join(html.escape(line, quote=True) for line in lines)
