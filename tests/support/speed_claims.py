"""Sentences of the course that speak of speed, found by their words.

A sentence counts if it has a quantity of speed (a number with a unit of time or of rate, "three
times as fast") or compares speeds ("faster than", "the fastest"). What is found is more than what
claims a measured speed of a GPU; ``test_speed_claims.py`` sorts it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_NUMBER = (
    r"(?:\d[\d,.]*|an?|one|two|three|four|five|six|seven|ten|tens|twenty|hundreds?"
    r"|thousands?)"
)
_TIMES = rf"(?:{_NUMBER}|half|twice|many|N)"
SPEED = re.compile(
    "|".join(
        (
            r"\b(?:fast|slow|quick)(?:er|est)\b",
            r"\bas (?:fast|slow|quick)\b",
            rf"\b{_NUMBER}(?: of a)?[ -]?(?:ns|µs|ms|nanoseconds?|microseconds?|milliseconds?)\b",
            r"\b\d[\d,.]* s\b",
            r"\b(?:micro|milli|nano)seconds?\b",
            r"\b[TGM]B/s\b|\b[TG]B per second|(?-i:\b[TGM]FLOPS\b)|\btimes a second\b",
            rf"\b{_TIMES} times (?:the speed|as (?:fast|slow|long|much time))",
            r"\b1/\d+ of the speed\b|\b1/\d+ of it\b|\bfraction of (?:the|a) (?:speed|second)\b",
            r"\bspeed(?:s|ed)?[- ]?ups?\b|\bcosts? (?:nothing|hardly|little|microseconds)\b",
            r"\bup to \d+ times\b|\b(?:\d+|hundreds of|tens of) cycles\b",
            (
                r"\bsaves? time\b|\btakes? "
                r"(?:no|less|more|longer|hardly)\b.{0,20}\b(?:time|longer|than)\b"
            ),
        )
    ),
    re.IGNORECASE,
)
#: A comment, a text in quotes, or a line of a docstring.
_WORDS_OF_CODE = re.compile(r"(?<!\w)#\s(.+)$|\"([^\"]{12,})\"|^\s*([A-Z][^=()]{20,})$")
#: A row of the recorded run, or all rows of a group.
POINTER = re.compile(r"`([a-z][a-z0-9]*(?:\.[a-z0-9]+)?)(?:/([a-z][a-z-]*))?`")
LINK = re.compile(r"\]\(https?://")


@dataclass(frozen=True)
class Claim:
    """A sentence: ``where`` is its file and line, ``paragraph`` what stands around it."""

    where: str
    sentence: str
    paragraph: str


def claims(path: Path, root: Path) -> list[Claim]:
    """The sentences of a source file of the course that speak of speed."""
    found = []
    for line, paragraph in _paragraphs(path.read_text(encoding="utf-8").split("\n")):
        for sentence in _sentences(paragraph):
            if SPEED.search(sentence):
                found.append(Claim(f"{path.relative_to(root)}:{line}", sentence, paragraph))
    return found


def _paragraphs(lines: list[str]) -> list[tuple[int, str]]:
    """Prose of markdown cells by paragraphs; comments, docstrings and texts of code by lines."""
    found: list[tuple[int, str]] = []
    markdown, begun, words = False, 0, []

    def end() -> None:
        if words:
            found.append((begun, " ".join(words)))
            words.clear()

    for number, line in enumerate(lines, start=1):
        if line.startswith("# %%"):
            end()
            markdown = "[markdown]" in line
        elif markdown:
            text = line.removeprefix("#").strip()
            starts_anew = text.startswith(("|", "- ", "#")) or re.match(r"\d+\. ", text)
            if not text or starts_anew:
                end()
            if text:
                begun = begun if words else number
                words.append(text)
        else:
            end()
            for texts in _WORDS_OF_CODE.findall(line):
                text = " ".join(texts).strip()
                if "{" not in text:  # else a number that the cell works out when it runs
                    found.append((number, text))
    end()
    return found


def _sentences(paragraph: str) -> list[str]:
    parts = re.split(r"(?<=[.!?;])\s+(?=[\"“(A-ZÀ-Þ0-9`*\[])", paragraph)
    return [part.strip() for part in parts if part.strip()]
