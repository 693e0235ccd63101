"""Generator of ``docs/faq.md``, frequently asked questions for learners.

The questions come from the lectures' notes for the instructor. A note has a paragraph ``*Frequent
questions.* "Is it so?" It is. "Why?" Because …``. Questions are in straight quotes and end in
``?`` or ``!``. The answer is the text up to the next question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpucourse.course.registry import Lecture
from gpucourse.publish.source.reader import Source

#: Path of the page.
PAGE = Path("docs") / "faq.md"
_ASKED = re.compile(r"\*Frequent questions\.\*(.*?)(?:\n\s*\n|\Z)", re.DOTALL)
_PAIR = re.compile(r'"([^"]+[?!])" +(.+?)(?=(?: "[^"]+[?!]" )|\Z)', re.DOTALL)
#: The first question on the page, because many ask it before they have read any lecture.
_FIRST = "How do I choose a GPU?"


def questions(source: Source) -> Iterator[tuple[str, str]]:
    """Return (question, answer) pairs of one lesson's notes, in order."""
    for cell in source.cells:
        if "room" in cell.tags:
            for paragraph in _ASKED.findall(cell.source):
                yield from _PAIR.findall(" ".join(paragraph.split()))


def page(sources: Iterable[Source]) -> str | None:
    """Return the page as Markdown; None if no lecture's notes contain a question."""
    lectures = [one for one in sources if isinstance(one.lesson, Lecture)]
    found = [(one.lesson, list(questions(one))) for one in lectures]
    if not any(asked for _, asked in found):
        return None
    lines = [
        "# Frequently asked questions",
        "",
        "These questions were collected lecture by lecture. `make build` makes this page from the "
        "notes for the teacher in `course/lectures/`.",
    ]
    first = [
        (lesson, answer)
        for lesson, asked in found
        for question, answer in asked
        if question == _FIRST
    ]
    for lesson, answer in first:
        lines += [
            "",
            f"## {_FIRST}",
            "",
            f"{answer} ([{lesson.title}](../lectures/{lesson.id}.ipynb) says more.) The "
            "first cell of every notebook shows which GPU you have. Without one, the virtual GPU "
            "runs every lesson.",
        ]
    for lesson, asked in found:
        if asked:
            lines += ["", f"## [{lesson.title}](../lectures/{lesson.id}.ipynb)"]
        for question, answer in asked:
            if question != _FIRST:
                lines += ["", f"**{question}** {answer}"]
    return "\n".join(lines) + "\n"
