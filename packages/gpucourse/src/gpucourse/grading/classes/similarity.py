"""Similarity of submissions, with each other or with a published solution.

Answers are compared as sequences of tokens, names and signs, without comments and blanks. No
number can tell who copied from whom, or if anybody copied: short exercises have few right answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

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
#: What the solution that anybody can read is called where it is found.
PUBLISHED = "the published solution"


@dataclass(frozen=True)
class Pair:
    """Two sets of students, those of one set with equal tokens; `share` of them is in common."""

    one: tuple[str, ...]
    other: tuple[str, ...]
    share: float


def changed(job: Job) -> list[str]:
    """Return the code cells that are not as released, by grade_id."""
    unchanged = set(job.ingested.unchanged(job.assignment))
    return [
        cell.grade_id
        for cell in job.assignment.solutions
        if cell.cell_type == "code" and cell.grade_id not in unchanged
    ]


def tokens(job: Job) -> tuple[str, ...]:
    """Return the tokens of the code cells that are not as released."""
    return _tokens(job.ingested.sources[name] for name in changed(job))


def _tokens(texts: Iterable[str]) -> tuple[str, ...]:
    found = (match[0] for text in texts for match in TOKEN.finditer(text))
    return tuple(islice((token for token in found if not token.startswith("#")), MOST_TOKENS))


def alike(
    jobs: Sequence[Job], published: Mapping[str, Mapping[str, str]] = MappingProxyType({})
) -> list[Pair]:
    """Return the pairs with most in common, most first; equal tokens are grouped.

    `published` has, by name, sources by grade_id that anybody can read; each submission is held
    against those of the cells that it answers, so half a solution is found as well.

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
    shares = cdist(
        texts, texts, scorer=Indel.normalized_similarity, score_cutoff=LEAST, dtype=np.float32
    )
    for row, column in np.argwhere(np.triu(shares, k=1) >= LEAST):
        found.append(Pair(people[row], people[column], float(shares[row, column])))
    found += _published(jobs, published)
    return sorted(found, key=lambda pair: -pair.share)


def _published(jobs: Sequence[Job], published: Mapping[str, Mapping[str, str]]) -> list[Pair]:
    """Return the students who resemble each of `published`, grouping equal shares."""
    from rapidfuzz.distance import Indel

    found: dict[tuple[str, float], set[str]] = {}
    for job in jobs:
        written, cells = tokens(job), changed(job)
        if len(written) < FEWEST_TOKENS:
            continue
        shares = {
            name: Indel.normalized_similarity(
                written, _tokens(sources.get(cell, "") for cell in cells)
            )
            for name, sources in published.items()
        }
        # Of solutions in several styles the nearest; the first named where they are equally near.
        name = max(shares, key=lambda name: shares[name], default="")
        if name and shares[name] >= LEAST:
            found.setdefault((name, shares[name]), set()).add(job.student)
    return [
        Pair((name,), tuple(sorted(students)), share) for (name, share), students in found.items()
    ]
