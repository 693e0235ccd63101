"""Which submissions of a class resemble each other: that, and no more.

Answers are compared as sequences of tokens, names and signs, without comments and blanks. Who
copied, from whom and whether at all, no number tells: short exercises have few right answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from gpucourse.grading.classes.batch import Job

# Linear, and no parser: this is the grader's own process, and the text is a student's.
TOKEN = re.compile(r"#[^\n]*|\w+|[^\w\s]")
# Of one submission; the solution of the longest project has a third of that.
MOST_TOKENS = 5000
# Fewer say nothing: an answer of three lines has about 30.
FEWEST_TOKENS = 100
# The share of tokens, in their order, that two submissions must have in common to be named.
LEAST = 0.85
MOST_PAIRS = 10


@dataclass(frozen=True)
class Pair:
    """Two sets of students, those of one set with equal tokens; `share` of them is in common."""

    one: tuple[str, ...]
    other: tuple[str, ...]
    share: float


def tokens(job: Job) -> tuple[str, ...]:
    """What was written into the code cells that are not as released."""
    assignment = job.assignment
    unchanged = set(job.ingested.unchanged(assignment))
    written = (job.ingested.sources[cell.grade_id] for cell in assignment.solutions
               if cell.cell_type == "code" and cell.grade_id not in unchanged)
    found = (match[0] for text in written for match in TOKEN.finditer(text))
    return tuple(islice((token for token in found if not token.startswith("#")), MOST_TOKENS))


def alike(jobs: Sequence[Job]) -> list[Pair]:
    """The pairs that have most in common, most first; those with equal tokens stand together.

    The share is twice the longest common subsequence over both lengths, as in
    :func:`rapidfuzz.distance.Indel.normalized_similarity`.
    """
    from rapidfuzz.distance import Indel
    from rapidfuzz.process import cdist

    groups: dict[tuple[str, ...], list[str]] = {}
    for job in jobs:
        if len(written := tokens(job)) >= FEWEST_TOKENS:
            groups.setdefault(written, []).append(job.student)
    people = [tuple(sorted(set(students))) for students in groups.values()]
    found = [Pair(students[:1], students[1:], 1.0) for students in people if len(students) > 1]
    # Numbers for tokens: the library takes sequences of anything that has a hash.
    numbers: dict[str, int] = {}
    texts = [[numbers.setdefault(token, len(numbers)) for token in written] for written in groups]
    shares = cdist(texts, texts, scorer=Indel.normalized_similarity, score_cutoff=LEAST,
                   dtype=np.float32)
    for row, column in np.argwhere(np.triu(shares, k=1) >= LEAST):
        found.append(Pair(people[row], people[column], float(shares[row, column])))
    return sorted(found, key=lambda pair: -pair.share)[:MOST_PAIRS]
