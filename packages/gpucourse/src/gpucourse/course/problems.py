"""Record of a problem in the course's source, and the error that lists such problems."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: the file, the line (or None for the whole file), and the remedy."""

    path: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        where = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.message}"


class CourseError(Exception):
    """The course's source violates its rules; ``problems`` lists every violation."""

    def __init__(self, problems: list[Problem]):
        self.problems = problems
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        super().__init__(f"{count} in the course's source:\n" + "\n".join(map(str, problems)))
