"""The teacher's page of a class: what it tells, and that nothing on it acts."""

from __future__ import annotations

import dataclasses
import io
import pickle
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from rich.console import Console

from gpucourse.grading.classes import report
from gpucourse.grading.classes.batch import Job
from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.classes.page import page
from gpucourse.grading.classes.similarity import MOST_TOKENS, Pair, alike, tokens
from gpucourse.grading.contract import Launched
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.testing import verbs
from gpucourse.grading.testing.notebook_judge import NotebookJudge
from gpucourse.grading.verdict import (
    GRADED,
    INFRASTRUCTURE_FAULT,
    STUDENT_FAULT,
    TestOutcome,
    Verdict,
)
from gpucourse.judging import parallel
from grading_toy import submission, submitted, toy_course, write_submission
from virtualgpu.watch.counters import Counters

HOSTILE = (
    '</td><script>alert(1)</script><img src=x onerror="alert(2)">'
    "\x1b]52;c;bXk=\x07\u202e\ud800<a href='javascript:alert(3)'>"
)


def verdict(student: str, reason: str = "", *, near: str = "", seconds: float = 1.0) -> Verdict:
    test = TestOutcome("test-double", 3, 0 if reason else 3, reason, seconds / 2, near=near)
    return Verdict(GRADED, "toy", student, tests=[test], seconds=seconds)


class Seen(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data + "\n"


def test_the_most_frequent_reasons_of_each_test_come_with_their_number():
    said = ["wrong for three numbers"] * 3 + ["never finishes"] * 2 + ["a", "a", "b"]
    text = Seen(
        page("ps1", [*(verdict(f"s{n}", reason) for n, reason in enumerate(said)), verdict("ann")])
    ).text
    assert "9 of 9 graded." in text
    assert "1 of 9" in text
    at = [
        text.index(f"{count} × {reason}\n")
        for count, reason in ((3, "wrong for three numbers"), (2, "never finishes"), (2, "a"))
    ]
    assert at == sorted(at)
    assert "1 × b" not in text


def test_a_file_that_cannot_be_read_says_nothing_about_a_test():
    broken = verdict("bob", "The notebook is not valid JSON")
    broken = dataclasses.replace(broken, kind=STUDENT_FAULT)
    class_ = [verdict("ann", "wrong for three numbers"), broken, dataclasses.replace(broken)]
    text = Seen(page("ps1", class_)).text
    assert "2 had nothing to run and got 0 points." in text and "0 of 3" in text
    assert "1 × wrong for three numbers" in text and "JSON" not in text
    console = Console(record=True, width=200)
    report.show("ps1", class_, console)
    (row,) = (line for line in console.export_text().splitlines() if "test-double" in line)
    assert "wrong for three numbers" in row


def test_what_a_student_chose_is_inert_and_bounded():
    """Names and reasons with markup, control and direction characters, and a reason of 5 MB."""
    people = [
        verdict(HOSTILE, HOSTILE, near=HOSTILE),
        verdict("x" * 5_000_000, "y" * 5_000_000),
        verdict(HOSTILE, near=HOSTILE),
    ]
    text = page(HOSTILE, people, [Pair((HOSTILE,), (HOSTILE,) * 9999, 0.9)])
    seen = Seen(text)
    assert seen.tags <= {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "p",
        "table",
        "tr",
        "th",
        "td",
        "br",
    }
    assert seen.attributes <= {"lang", "charset", "http-equiv", "content"}
    assert "default-src 'none'" in text
    assert "alert(1)" in seen.text  # shown as text
    assert not set(text) & set("\x1b\x07\u202e\ud800")
    assert len(text) < 40_000


def test_a_class_of_a_thousand_fits_on_the_page():
    near = "one thread does the work of many"
    text = page("ps1", [verdict(f"s{n}", near=near, seconds=n) for n in range(1000)])
    assert "1,000 answers came near a limit" in text
    assert len(text) < 20_000


def test_time_is_told_slowest_first():
    text = Seen(
        page(
            "ps1",
            [verdict("ann", seconds=2), verdict("bob", seconds=40), verdict("cat", seconds=3)],
        )
    ).text
    assert "A submission took 3.0 s (median); all together took 45 s" in text
    assert text.index("bob") < text.index("cat") < text.index("ann")
    assert "test-double: 20.0" in text


def test_what_had_nothing_to_run_takes_no_time():
    broken = dataclasses.replace(verdict("eve", "not valid JSON", seconds=0), kind=STUDENT_FAULT)
    text = Seen(page("ps1", [verdict("ann", seconds=2), broken, broken])).text
    assert "A submission took 2.0 s (median); all together took 2 s" in text and "eve" not in text
    assert "There was nothing to run." in Seen(page("ps1", [broken])).text


@pytest.mark.parametrize(
    ("accesses", "near", "refused"),
    [(12, False, False), (13, True, False), (16, True, False), (17, True, True)],
)
def test_an_answer_within_a_fifth_of_a_bound_is_near_it(accesses, near, refused):
    """One element a thread in blocks of one: 16 accesses are allowed."""
    counters = Counters(busiest_accesses=accesses, threads_at_work=64)
    assert bool(parallel.nearly(counters, (64, 1, 1), (1, 1, 1), 64)) == near
    assert bool(parallel.uneven(counters, (64, 1, 1), (1, 1, 1), 64)) == refused


def test_an_answer_that_came_near_a_bound_is_on_the_page():
    told = []

    class Listening(NotebookJudge):
        def came_near(self, what: str) -> None:
            told.append(what)

    verbs.use_judge(Listening(dict))
    try:
        for accesses in (3, 17):
            counted = Counters(
                busiest_accesses=accesses, global_loads=64 * accesses, threads_at_work=64
            )
            verbs.expect_parallel(Launched("fill", (64, 1, 1), (1, 1, 1), counted), 64)
    finally:
        verbs.use_judge(None)
    (words,) = told
    assert "more than 4 accesses" in words
    kept = Verdict.from_json(verdict("ann", near=words).to_json())
    text = Seen(page("ps1", [kept, verdict("bob")])).text
    assert "1 answer came near a limit" in text
    assert text.index("ann", text.index("Near a bound")) < text.index("more than 4 accesses")
    assert "No answer that earned" in page("ps1", [verdict("bob")])


# -- submissions that resemble each other -------------------------------------------------------

LONG = (
    "def double(values):\n"
    + "".join(f"    part{n} = values[{n}] * 2 + offset[{n}]\n" for n in range(20))
    + "    return part1\n"
)
OTHER = (
    "def double(values):\n"
    + "".join(f"    if rows[{n}] > best: best, at = rows[{n}], {n}\n" for n in range(20))
    + "    return at\n"
)


@pytest.fixture(scope="module")
def source(tmp_path_factory, repository) -> Path:
    return toy_course(tmp_path_factory.mktemp("alike") / "course", repository)


def job(source: Path, student: str, double: str) -> Job:
    assignment = Assignment.load(source)
    starter = assignment.starters["total"]
    return Job(student, source, submitted(assignment, double=double, total=starter))


def test_what_resembles_is_named_and_nothing_else(source):
    """Comments and blanks play no part; names do."""
    jobs = [
        job(source, "ann", LONG),
        job(source, "bob", "# mine\n" + LONG.replace(" = ", "  =  ")),
        job(source, "cat", LONG.replace("part7", "seven")),
        job(source, "dan", OTHER),
    ]
    same, near = alike(jobs)
    assert (same.one, same.other, same.share) == (("ann",), ("bob",), 1.0)
    assert (near.one, near.other) == (("ann", "bob"), ("cat",))
    assert 0.95 < near.share < 1.0


def test_a_published_solution_is_named_with_all_whom_it_resembles(source):
    """Also where half of it was handed in; an answer of one's own is nobody's."""
    published = {
        "the published solution": {"double": LONG, "total": OTHER},
        "the published solution, loops": {"double": OTHER, "total": OTHER},
    }
    people = [f"s{n}" for n in range(10)]
    mine = OTHER.replace("best", "most").replace("rows", "lines").replace("if", "while")
    jobs = [job(source, name, f"# {name}\n{LONG}") for name in people] + [job(source, "ann", mine)]
    (first, second) = alike(jobs, published)
    assert (first.one, first.other) == (("s0",), tuple(people[1:]))
    assert (second.one, second.other) == (("the published solution",), tuple(people))
    assert second.share == 1.0
    text = page("ps1", [verdict(name) for name in people], [first, second])
    for name in people:
        assert text.count(name) >= 2
    rows = report.pairs_as_csv([second]).splitlines()
    assert rows[1:] == [f"{name},the published solution,1.000" for name in people]
    (found,) = alike([job(source, "eve", OTHER)], published)
    assert found.one == ("the published solution, loops",)
    assert alike(jobs[-1:], published) == []


def test_the_teachers_page_names_as_many_as_it_has_room_for(source):
    """And says where the others are."""
    crowd = tuple(f"student-{n:05}" for n in range(3000))
    text = Seen(page("ps1", [], [Pair(("a",), crowd, 1.0), Pair(("b",), ("c",), 0.9)])).text
    assert "student-00400" in text and "more" in text and "more pairs are in similar.csv" in text
    assert len(report.pairs_as_csv([Pair(("a",), crowd, 1.0)]).splitlines()) == 3001


def test_short_answers_and_released_ones_resemble_nobody(source):
    short = "def double(values):\n    return 2 * values\n"
    assert alike([job(source, name, short) for name in ("ann", "bob")]) == []
    assert alike([]) == []


def test_a_huge_answer_is_compared_in_part(source):
    cells = [job(source, f"s{n}", "(" * 199_000 + f"\nn = {n}") for n in range(20)]
    assert len(tokens(cells[0])) == MOST_TOKENS
    (same,) = alike(cells)
    assert len(same.other) == 19


def test_nobody_is_compared_unless_asked(tmp_path):
    ungraded = [Verdict(INFRASTRUCTURE_FAULT, "toy", "ann")]  # no plot to draw
    report.write(tmp_path, "ps1", ungraded)
    assert "resemble" not in (tmp_path / "class.html").read_text()
    report.write(tmp_path, "ps1", ungraded, [Pair(("ann",), ("bob",), 0.9)])
    text = Seen((tmp_path / "class.html").read_text()).text
    assert "resemble" in text
    assert "90%" in text


# -- the assignment -----------------------------------------------------------------------------


def test_an_assignment_is_parsed_once_for_a_class(source, monkeypatch):
    """By ingest, by every job, and on its way to the oracles, which get it pickled."""
    assignment = Assignment.load(source)
    root = source.parents[2]
    for name in ("ann", "bob", "cat"):
        write_submission(root / "submitted" / name / "ps1" / "toy.ipynb", submission(assignment))
    source.write_text(source.read_text() + "\n")  # a text that no test has loaded
    parsed = []
    reads = nbformat.reads
    monkeypatch.setattr(nbformat, "reads", lambda *a, **k: parsed.append(1) or reads(*a, **k))
    jobs = Classroom(root).ingest("ps1")
    copies = [pickle.loads(pickle.dumps(job.assignment)) for job in jobs]
    assert len({copy.digest for copy in copies} | {job.digest for job in jobs}) == 2
    assert len(parsed) == 1


def test_each_student_has_a_reason_of_their_own():
    """An empty cell, which most of a class has, hides nobody's mistake."""
    empty = "raises NotImplementedError: nothing is written in 'merge_rows' yet"

    def of(*told: str) -> str:
        tests = [TestOutcome(f"t{n}", 3, 0 if one else 3, one) for n, one in enumerate(told)]
        return report.own_reason(Verdict(GRADED, "toy", tests=tests))

    assert of("", empty, "wrong counts", empty) == "t2: wrong counts; 2 tests without an answer yet"
    assert of(empty, empty) == "2 tests without an answer yet"
    assert of("a", "b", "c", "d", empty) == (
        "t0: a; t1: b; 2 more tests failed; 1 test without an answer yet"
    )
    assert of("wrong counts", "") == "wrong counts" and of("", "") == ""
    assert report.own_reason(Verdict("student_fault", "toy", reason="cut short")) == "cut short"


def test_reasons_are_cut_on_a_terminal_alone():
    words = "the kernel 'fill' reads memory that was never written, " * 4
    for terminal in (True, False):
        console = Console(record=True, width=600, force_terminal=terminal, file=io.StringIO())
        report.show("ps1", [verdict("ann", words)], console)
        assert (words.strip() in console.export_text()) is not terminal


def test_words_on_the_page_stay_whole():
    """`anywhere` would let a narrow column cut each of its words."""
    text = page("ps1", [verdict("ann")])
    assert "overflow-wrap: break-word" in text and "anywhere" not in text


@pytest.mark.parametrize(
    ("at_work", "words"), [(1, "is serial"), (8, "is serial"), (42, "shares its work unevenly")]
)
def test_serial_is_said_only_where_one_thread_of_a_block_works(at_work, words):
    counted = Counters(busiest_accesses=10_000, global_loads=20_000, threads_at_work=at_work)
    verbs.use_judge(NotebookJudge(dict))
    try:
        with pytest.raises(AssertionError, match=words):
            verbs.expect_parallel(Launched("fill", (8, 1, 1), (256, 1, 1), counted), 2048)
    finally:
        verbs.use_judge(None)
