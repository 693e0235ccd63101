"""Problems in the course's source, with enough detail to fix them at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: the file, the line (None where the whole file is meant), what to do."""

    path: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        where = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.message}"


class CourseError(Exception):
    """The course's source breaks its own rules; ``problems`` lists every break found."""

    def __init__(self, problems: list[Problem]):
        self.problems = problems
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        super().__init__(f"{count} in the course's source:\n" + "\n".join(map(str, problems)))
