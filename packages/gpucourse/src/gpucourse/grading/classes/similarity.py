"""Similarity of submissions to each other or to a published solution.

Answers are compared as sequences of tokens (names and operators), without comments and white
space. A high similarity does not prove that anybody copied, because a short exercise has few right
answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

import numpy as np

from gpucourse.grading.classes.batch import Job

# This takes linear time and needs no parser, because it runs on a student's text in the grader's
# own process.
TOKEN = re.compile(r"#[^\n]*|\w+|[^\w\s]")
# Limit on the tokens of one submission; the solution of the longest project has a third of it.
MOST_TOKENS = 5000
# Shorter answers are not compared, because similarity means little there: three lines have about 30
# tokens.
FEWEST_TOKENS = 100
# Two submissions are listed if they have at least this share of tokens in common, in the same
# order.
LEAST = 0.85
#: Label of the solution that anybody can read.
PUBLISHED = "the published solution"


@dataclass(frozen=True)
class Pair:
    """Two groups of students with equal tokens, which have `share` of the tokens in common."""

    one: tuple[str, ...]
    other: tuple[str, ...]
    share: float


def changed(job: Job) -> list[str]:
    """Return the grade_ids of the code cells that differ from the released ones."""
    unchanged = set(job.ingested.unchanged(job.assignment))
    return [
        cell.grade_id
        for cell in job.assignment.solutions
        if cell.cell_type == "code" and cell.grade_id not in unchanged
    ]


def tokens(job: Job) -> tuple[str, ...]:
    """Return the tokens of the code cells that differ from the released ones."""
    return _tokens(job.ingested.sources[name] for name in changed(job))


def _tokens(texts: Iterable[str]) -> tuple[str, ...]:
    found = (match[0] for text in texts for match in TOKEN.finditer(text))
    return tuple(islice((token for token in found if not token.startswith("#")), MOST_TOKENS))


def alike(
    jobs: Sequence[Job], published: Mapping[str, Mapping[str, str]] = MappingProxyType({})
) -> list[Pair]:
    """Return the most similar pairs, most similar first; equal answers are grouped.

    `published` maps the name of each public solution to its sources by grade_id. A submission is
    compared only with the sources of the cells that it answers, so half a copied solution is found
    as well.

    The share is twice the length of the longest common subsequence divided by the sum of the
    lengths, as in :func:`rapidfuzz.distance.Indel.normalized_similarity`.
    """
    from rapidfuzz.distance import Indel
    from rapidfuzz.process import cdist

    groups: dict[tuple[str, ...], list[str]] = {}
    for job in jobs:
        if len(written := tokens(job)) >= FEWEST_TOKENS:
            groups.setdefault(written, []).append(job.student)
    people = [tuple(sorted(set(students))) for students in groups.values()]
    found = [Pair(students[:1], students[1:], 1.0) for students in people if len(students) > 1]
    # Replace tokens by numbers: the library accepts sequences of any hashable objects.
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
    """Return the students who resemble each of `published`, grouped by equal shares."""
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
        # Take the most similar of several published solutions, and the first of equally similar
        # ones.
        name = max(shares, key=lambda name: shares[name], default="")
        if name and shares[name] >= LEAST:
            found.setdefault((name, shares[name]), set()).add(job.student)
    return [
        Pair((name,), tuple(sorted(students)), share) for (name, share), students in found.items()
    ]
