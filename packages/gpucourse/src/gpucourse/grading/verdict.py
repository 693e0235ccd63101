"""Verdict on a submission, stored as one JSON document.

There are three kinds of verdict:

``graded``
    the tests ran; each has its points and, if it failed, the property that failed;
``student_fault``
    there was nothing to run, because the notebook cannot be read or no cell holds an answer. The
    submission earns no points, and the reason says what to do;
``infrastructure_fault``
    the grader failed, not the student. There is no score, and the submission is graded again.

The file contains the run's secret seed, so only the instructor may read it. Feedback shows only the
reasons.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, field
from numbers import Real
from pathlib import Path

from gpucourse.system.atomic import PRIVATE, write_atomically
from gpucourse.wording import shortened

GRADED = "graded"
STUDENT_FAULT = "student_fault"
INFRASTRUCTURE_FAULT = "infrastructure_fault"
KINDS = (GRADED, STUDENT_FAULT, INFRASTRUCTURE_FAULT)

# Characters that control a terminal, or that hide or reorder text when it is displayed: control
# characters (C0 except tab and newline, C1), direction marks, unpaired surrogates.
_ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

# Longest recorded sentence in characters; the grader's own have at most 500.
LONGEST = 2000

# Increase this number when cached verdicts of older graders must not be used.
FORMAT = 1


def clamp(score: object, points: float) -> float:
    """Return a finite number of points in [0, `points`]; anything else becomes 0.

    Plain nbgrader gives full marks for NaN and for a repr such as ``np.float64(0.0)``.
    """
    if isinstance(score, bool) or not isinstance(score, Real):
        return 0.0
    try:
        value = float(score)
    except OverflowError:
        return 0.0
    if not math.isfinite(value):
        return 0.0
    return min(max(value, 0.0), float(points))


def as_text(text: str) -> str:
    """Return `text` with control and direction characters replaced by a visible mark.

    Every string of a verdict passes through this function when it is recorded. It can therefore be
    printed, written and published, whatever the student's file, error or PTX contained.
    """
    return _ACTS.sub("\N{REPLACEMENT CHARACTER}", text)


def digest(*parts: str | bytes) -> str:
    """Return the SHA-256 of `parts`, each preceded by its length so that their borders count."""
    running = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        running.update(len(data).to_bytes(8, "little"))
        running.update(data)
    return running.hexdigest()


class _Recorded:
    """Record whose string attributes are cleaned by :func:`as_text` when they are set."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, str):
            value = as_text(value if name == "detail" else shortened(value, LONGEST))
        elif name == "notices" and isinstance(value, list):
            value = [as_text(shortened(notice, LONGEST)) for notice in value]
        super().__setattr__(name, value)


@dataclass
class TestOutcome(_Recorded):
    """Result of one test cell."""

    # Without this, pytest collects the class because of its name.
    __test__ = False

    test: str
    points: float
    earned: float = 0.0
    # The property that failed, in words for the student; empty if the test passed.
    reason: str = ""
    seconds: float = 0.0
    # For the instructor: the limit on counts that the answer nearly exceeded.
    near: str = ""
    # For the instructor, only on request: values of hidden inputs, and the line of the test.
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.earned == self.points


@dataclass
class Verdict(_Recorded):
    """Result of one submission; `earned` and `points` are sums over `tests`."""

    kind: str
    notebook: str
    student: str = ""
    reason: str = ""
    tests: list[TestOutcome] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    # Number of leading `notices` that describe the file as it was submitted.
    of_the_file: int = 0
    seed: str = ""
    submission_digest: str = ""
    assignment_digest: str = ""
    isolation: str = ""
    # The rights that the oracle had given up (gpucourse.grading.oracle.confined).
    oracle: str = ""
    device: str = ""
    seconds: float = 0.0
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a verdict is one of {', '.join(KINDS)}, not {self.kind!r}")

    @property
    def earned(self) -> float | None:
        """Points earned; None if the grader failed, because that is not a zero."""
        if self.kind == INFRASTRUCTURE_FAULT:
            return None
        return float(sum(outcome.earned for outcome in self.tests))

    @property
    def points(self) -> float:
        return float(sum(outcome.points for outcome in self.tests))

    def first_reason(self) -> str:
        """Return the reason to show where there is room for only one line."""
        if self.reason:
            return self.reason
        return next((outcome.reason for outcome in self.tests if outcome.reason), "")

    def to_json(self) -> str:
        document = asdict(self) | {"earned": self.earned, "points": self.points}
        for outcome in document["tests"]:
            for name in ("detail", "near"):
                if not outcome[name]:
                    del outcome[name]
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        """Return the verdict that :meth:`to_json` wrote. Raises ValueError for any other text."""
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError("not a verdict of this grader")
        document.pop("earned", None)
        document.pop("points", None)
        try:
            tests = [TestOutcome(**outcome) for outcome in document.pop("tests")]
            return cls(tests=tests, **document)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a verdict of this grader: {error}") from None

    def write(self, path: Path) -> None:
        """Write the verdict to `path`, readable only by its owner."""
        write_atomically(path, self.to_json(), PRIVATE)

    @classmethod
    def read(cls, path: Path) -> Verdict | None:
        """Return the verdict at `path`; None if there is none that this grader can use."""
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
